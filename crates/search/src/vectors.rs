//! Vectors: their definition, their form in an index, and distances.

use petrel_vector::Element;
use std::sync::Arc;

/// Maximum number of components of a vector.
pub const DIM_MAX: usize = petrel_vector::DIM_MAX;

/// Definition of a VECTOR field.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSpec {
    /// Structure that is searched.
    pub algorithm: Algorithm,
    /// Format of a component.
    pub element: Element,
    /// Number of components.
    pub dim: u32,
    /// Kind of distance.
    pub metric: Metric,
}

/// Structures of vectors.
#[derive(Clone, Debug, PartialEq)]
pub enum Algorithm {
    /// Every vector is compared.
    Flat,
}

/// Kinds of distances.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Metric {
    /// Square of the Euclidean distance.
    L2,
    /// 1 minus the product.
    Product,
    /// 1 minus the cosine.
    Cosine,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 3] = [Self::L2, Self::Product, Self::Cosine];

    /// Name in `FT.CREATE` and `FT.INFO`.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::L2 => "L2",
            Metric::Product => "IP",
            Metric::Cosine => "COSINE",
        }
    }
}

impl Algorithm {
    /// Name in `FT.CREATE` and `FT.INFO`.
    pub const fn name(&self) -> &'static str {
        match self {
            Algorithm::Flat => "FLAT",
        }
    }
}

/// Formats of components, with their names in `FT.CREATE` and `FT.INFO`.
pub const ELEMENTS: [(&str, Element); 4] = [
    ("FLOAT32", Element::F32),
    ("FLOAT64", Element::F64),
    ("FLOAT16", Element::F16),
    ("BFLOAT16", Element::Bf16),
];

impl VectorSpec {
    /// Bytes of a vector.
    pub fn bytes(&self) -> usize {
        self.dim as usize * self.element.bytes()
    }

    /// Name of the format of a component.
    pub fn element_name(&self) -> &'static str {
        let found = ELEMENTS.iter().find(|(_, element)| *element == self.element);
        found.map_or("", |(name, _)| name)
    }

    /// Passes a document's vector to `each`, in the form in which it is compared; false if its
    /// length is wrong.
    pub fn prepare(&self, vector: &[u8], each: impl FnOnce(&[u8])) -> bool {
        if vector.len() != self.bytes() {
            return false;
        }
        match self.metric {
            Metric::Cosine => {
                let mut unit = vector.to_vec();
                self.element.normalise(&mut unit);
                each(&unit);
            }
            _ => each(vector),
        }
        true
    }

    /// Distance of two prepared vectors. Not a number if a component is none.
    #[inline]
    pub fn distance(&self, a: &[u8], b: &[u8]) -> f64 {
        let distance = match (self.metric, self.element) {
            (Metric::L2, _) => self.element.square_distance(a, b),
            (_, Element::F64) => 1.0 - self.element.product(a, b),
            _ => f64::from(1.0 - self.element.product(a, b) as f32),
        };
        // Of one sign, so that it has a place in an order.
        if distance.is_nan() { f64::NAN } else { distance }
    }
}

/// The vector of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryVector {
    /// Definition of the field.
    pub spec: VectorSpec,
    prepared: Box<[u8]>,
}

impl QueryVector {
    /// A vector for a field; none if its length is wrong.
    pub fn new(spec: &VectorSpec, vector: &[u8]) -> Option<Arc<Self>> {
        let mut prepared = Box::default();
        let is_valid = spec.prepare(vector, |vector| prepared = vector.into());
        is_valid.then(|| Arc::new(QueryVector { spec: spec.clone(), prepared }))
    }

    /// Distance of a prepared vector of a document.
    #[inline]
    pub fn distance(&self, vector: &[u8]) -> f64 {
        self.spec.distance(&self.prepared, vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn distances_are_those_of_redis() {
        let cases = [(Metric::L2, 8.0), (Metric::Product, -10.0), (Metric::Cosine, 0.016_130_1)];
        for (metric, expected) in cases {
            let (algorithm, element) = (Algorithm::Flat, Element::F32);
            let spec = VectorSpec { algorithm, element, dim: 2, metric };
            let query = QueryVector::new(&spec, &blob(&[2.0, 1.0])).unwrap();
            let mut distance = 0.0;
            assert!(spec.prepare(&blob(&[4.0, 3.0]), |vector| distance = query.distance(vector)));
            assert!((distance - expected).abs() < 1e-6, "{metric:?} {distance}");
            assert!(!spec.prepare(b"123", |_| ()));
            let odd = QueryVector::new(&spec, &blob(&[f32::NAN, 1.0])).unwrap();
            let distance = odd.distance(&blob(&[1.0, 1.0]));
            assert!(distance.is_nan() && distance.is_sign_positive());
        }
    }
}
