//! Quantisation of vectors to codes.
//!
//! A vector is divided by its length, which is stored separately, and then encoded:
//!
//! | form | code | of a component x |
//! |---|---|---|
//! | none | 32-bit floats, little endian | x |
//! | 8 bits | signed bytes; the range (greatest magnitude) apart | round(x * (127 / range)) |
//! | binary | 64-bit words, little endian, the first component the lowest bit | 1 if x > 0 |
//!
//! | Squares, Products | as none, but not divided by the length; only in graphs | x |
//! | RaBitQ | two planes of bits ([`crate::rabitq`]) | 4 bits, and 3 more for the final ranking |
//!
//! The first three are the codes of Redis's vector sets, bit for bit: `VEMB RAW` shows them.
//!
//! A set may reduce vectors first, by a matrix of +1 and -1 divided by the square root of the input
//! dimension. The signs are those of a Hadamard matrix (-1 where row and column have an odd number
//! of common bits).

use crate::distance::I8_MAX;
use crate::rabitq;

/// Most dimensions of a vector, before and after reduction.
pub const DIM_MAX: usize = 65_536;

/// Most cells of the matrix that reduces vectors: some hundredths of a second for each vector.
const MATRIX_MAX: u64 = 1 << 26;

/// Maximum sum of squares of a normalised vector's components: the length of the longest vectors is
/// off by some thousandths.
const SQUARE_MAX: f64 = 1.01;

/// Below this, sums of squares have lost precision, as have the squares in them.
const SQUARES_EXACT_MIN: f32 = 1e-30;

/// Quantisation of a component.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Quantisation {
    /// A 32-bit float.
    None,
    /// A signed byte.
    Q8,
    /// A bit.
    Binary,
    /// Seven bits after a rotation, of which a search reads four; not known to Redis.
    RaBitQ,
    /// A 32-bit float of a vector that keeps its length; distances are squares of Euclidean ones.
    Squares,
    /// A 32-bit float of a vector that keeps its length; distances are 1 minus the product.
    Products,
}

impl Quantisation {
    /// Number that represents it in snapshots.
    pub const fn number(self) -> u8 {
        match self {
            Quantisation::None => 0,
            Quantisation::Q8 => 1,
            Quantisation::Binary => 2,
            Quantisation::RaBitQ => 3,
            Quantisation::Squares => 4,
            Quantisation::Products => 5,
        }
    }

    /// The inverse of [`Quantisation::number`].
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Quantisation::None),
            1 => Some(Quantisation::Q8),
            2 => Some(Quantisation::Binary),
            3 => Some(Quantisation::RaBitQ),
            _ => None,
        }
    }

    /// Whether vectors keep their length. Vector sets have no such codes.
    pub const fn keeps_length(self) -> bool {
        matches!(self, Quantisation::Squares | Quantisation::Products)
    }

    /// Option of `VADD` that selects it.
    pub const fn option(self) -> &'static str {
        match self {
            Quantisation::None => "NOQUANT",
            Quantisation::Q8 => "Q8",
            Quantisation::Binary => "BIN",
            Quantisation::RaBitQ => "RABITQ",
            Quantisation::Squares => "L2",
            Quantisation::Products => "IP",
        }
    }

    /// Name in `VINFO`.
    pub const fn name(self) -> &'static str {
        match self {
            Quantisation::None => "f32",
            Quantisation::Q8 => "int8",
            Quantisation::Binary => "bin",
            Quantisation::RaBitQ => "rabitq",
            Quantisation::Squares => "l2",
            Quantisation::Products => "ip",
        }
    }

    /// Seed of a new set's rotation; 0 where nothing is rotated.
    pub const fn seed(self) -> u32 {
        match self {
            Quantisation::RaBitQ => rabitq::SEED,
            _ => 0,
        }
    }
}

/// Properties that all vectors of a set share.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shape {
    /// Dimensions of a stored vector, 1 to [`DIM_MAX`].
    pub dim: u32,
    /// Quantisation of the code.
    pub quantisation: Quantisation,
    /// Maximum number of links of a node on the upper levels, 4 to 4,096; twice as many on the
    /// lowest.
    pub links: u16,
    /// Dimensions before reduction, if vectors are reduced.
    pub input_dim: Option<u32>,
    /// Seed of the codes' rotation; 0 where nothing is rotated.
    pub seed: u32,
}

/// Properties of a vector that its code does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Factors {
    /// Length of the vector, by which its code is divided; 1 for a zero vector.
    pub norm: f32,
    /// Scale: of an 8-bit code the greatest magnitude of the normalised vector; of a RaBitQ code 1
    /// over the product of the vector and the code's steps; else 0.
    pub range: f32,
}

/// A query: a vector in the form in which it is compared with codes of a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// A signed byte for each component in RaBitQ; else a code.
    pub(crate) encoded: Encoded,
    /// Sum of the signed bytes.
    pub(crate) sum: i32,
    /// RaBitQ only: remainders of the components after rounding to signed bytes, in 256ths, for the
    /// final ranking; empty if there are none.
    pub(crate) rest: Box<[u8]>,
    /// Sum of the bytes of `rest`.
    pub(crate) rest_sum: i32,
}

impl Query {
    /// A query that is compared with codes without conversion.
    fn of_code(encoded: Encoded) -> Self {
        Query { encoded, sum: 0, rest: Box::default(), rest_sum: 0 }
    }
}

/// A vector as stored in a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// [`Shape::code_bytes`] bytes.
    pub code: Box<[u8]>,
    /// Properties beside the code.
    pub factors: Factors,
}

impl Encoded {
    /// Borrows the code.
    pub fn as_ref(&self) -> EncodedRef<'_> {
        EncodedRef { code: &self.code, factors: self.factors }
    }
}

/// Borrowed form of [`Encoded`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EncodedRef<'a> {
    /// [`Shape::code_bytes`] bytes.
    pub code: &'a [u8],
    /// Properties beside the code.
    pub factors: Factors,
}

impl EncodedRef<'_> {
    /// Copies the code.
    pub fn to_owned(self) -> Encoded {
        Encoded { code: self.code.into(), factors: self.factors }
    }
}

impl Shape {
    /// Whether its numbers are within their limits.
    pub fn is_valid(&self) -> bool {
        let dim = |dim: u32| dim > 0 && dim as usize <= DIM_MAX;
        let cells = u64::from(self.dim) * u64::from(self.input_dim.unwrap_or(0));
        dim(self.dim)
            && self.input_dim.is_none_or(dim)
            && cells <= MATRIX_MAX
            && (4..=4096).contains(&self.links)
            && (self.seed == 0 || self.quantisation == Quantisation::RaBitQ)
    }

    /// Bytes of a code.
    pub fn code_bytes(&self) -> usize {
        let dim = self.dim as usize;
        match self.quantisation {
            Quantisation::None | Quantisation::Squares | Quantisation::Products => dim * 4,
            Quantisation::Q8 => dim,
            Quantisation::Binary => dim.div_ceil(64) * 8,
            Quantisation::RaBitQ => rabitq::code_bytes(dim),
        }
    }

    /// Units for comparing two codes, of about ten nanoseconds.
    pub(crate) fn distance_units(&self) -> usize {
        1 + self.code_bytes() / 256
    }

    /// Number of leading bytes of a code that a walk reads.
    pub(crate) fn walked_bytes(&self) -> usize {
        match self.quantisation {
            Quantisation::RaBitQ => rabitq::walked_bytes(self.dim as usize),
            _ => self.code_bytes(),
        }
    }

    /// Whether a code can be the result of [`Shape::encode`], including for vectors with infinite
    /// or NaN components. Other codes are rejected, since their distances are meaningless.
    pub fn admits(&self, encoded: EncodedRef<'_>) -> bool {
        let EncodedRef { code, factors: Factors { norm, range } } = encoded;
        if code.len() != self.code_bytes() || norm < 0.0 {
            return false;
        }
        let factor = |factor: f32| (0.0..f32::INFINITY).contains(&factor);
        match self.quantisation {
            Quantisation::Squares | Quantisation::Products => true,
            Quantisation::None => {
                let components = code.as_chunks::<4>().0.iter();
                let mut square = 0f64;
                for x in components.map(|&bytes| f32::from_le_bytes(bytes)) {
                    if x.is_nan() && !norm.is_finite() {
                        continue;
                    }
                    square += f64::from(x) * f64::from(x);
                }
                square <= SQUARE_MAX
            }
            Quantisation::Q8 => {
                (0.0..=SQUARE_MAX as f32).contains(&range)
                    && !code.contains(&i8::MIN.cast_unsigned())
            }
            Quantisation::Binary => {
                let dim = self.dim as usize;
                (dim..code.len() * 8).all(|bit| code[bit / 8] >> (bit % 8) & 1 == 0)
            }
            Quantisation::RaBitQ => {
                let (coarse, error) = rabitq::factors(code);
                [coarse, error, range].into_iter().all(factor)
            }
        }
    }

    /// Whether a query is of this shape.
    pub(crate) fn takes(&self, query: &Query) -> bool {
        let len = query.encoded.code.len();
        match self.quantisation {
            Quantisation::RaBitQ => len == self.dim as usize,
            _ => len == self.code_bytes(),
        }
    }

    /// Dimensions of input vectors, before reduction.
    pub fn dim_given(&self) -> usize {
        self.input_dim.unwrap_or(self.dim) as usize
    }

    /// Encodes a vector of [`Shape::dim_given`] components; none if it has another number.
    pub fn encode(&self, vector: &[f32]) -> Option<Encoded> {
        if self.quantisation.keeps_length() {
            let code = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            let factors = Factors { norm: 1.0, range: 0.0 };
            return (vector.len() == self.dim as usize).then_some(Encoded { code, factors });
        }
        let (vector, norm) = self.unit(vector)?;
        let (code, range) = match self.quantisation {
            Quantisation::None | Quantisation::Squares | Quantisation::Products => {
                (vector.iter().flat_map(|x| x.to_le_bytes()).collect(), 0.0)
            }
            Quantisation::Q8 => encode_i8(&vector),
            Quantisation::Binary => (encode_bits(&vector), 0.0),
            Quantisation::RaBitQ => rabitq::encode(vector, self.seed),
        };
        Some(Encoded { code, factors: Factors { norm, range } })
    }

    /// Makes a query for a vector of [`Shape::dim_given`] components; none if it has another
    /// number.
    pub fn query(&self, vector: &[f32]) -> Option<Query> {
        if self.quantisation == Quantisation::RaBitQ {
            let (vector, _) = self.unit(vector)?;
            return Some(rabitq::query(vector, self.seed));
        }
        let encoded = self.encode(vector)?;
        Some(Query::of_code(encoded))
    }

    /// Makes a query for the neighbours of a code.
    pub fn query_of(&self, encoded: EncodedRef<'_>) -> Query {
        match self.quantisation {
            Quantisation::RaBitQ => rabitq::query_of(encoded, self.dim as usize),
            _ => Query::of_code(encoded.to_owned()),
        }
    }

    /// Reduces and normalises an input vector; returns it (length 1 or 0) and its former length.
    fn unit(&self, vector: &[f32]) -> Option<(Vec<f32>, f32)> {
        if vector.len() != self.dim_given() {
            return None;
        }
        let mut vector = match self.input_dim {
            Some(_) => self.reduce(vector),
            None => vector.to_vec(),
        };
        let norm = normalise(&mut vector);
        Some((vector, norm))
    }

    /// Decodes a vector as far as the code allows: with its original length, except that components
    /// of a binary code are +1 and -1.
    pub fn decode(&self, encoded: EncodedRef<'_>) -> Vec<f32> {
        let norm = encoded.factors.norm;
        match self.quantisation {
            Quantisation::None | Quantisation::Squares | Quantisation::Products => {
                let components = encoded.code.as_chunks::<4>().0.iter();
                components.map(|&bytes| f32::from_le_bytes(bytes) * norm).collect()
            }
            Quantisation::Q8 => {
                let range = encoded.factors.range;
                let component = |&byte: &u8| f32::from(byte.cast_signed()) * range / I8_MAX * norm;
                encoded.code.iter().map(component).collect()
            }
            Quantisation::Binary => (0..self.dim as usize)
                .map(|i| if encoded.code[i / 8] >> (i % 8) & 1 == 1 { 1.0 } else { -1.0 })
                .collect(),
            Quantisation::RaBitQ => {
                let unit = rabitq::decode(encoded, self.dim as usize, self.seed);
                unit.into_iter().map(|x| x * norm).collect()
            }
        }
    }

    /// The reduction matrix, row by row: one row per stored dimension.
    pub fn matrix(&self) -> impl Iterator<Item = f32> {
        let columns = self.input_dim.unwrap_or(0);
        let scale = 1.0 / (columns as f32).sqrt();
        (0..self.dim).flat_map(move |row| (0..columns).map(move |column| sign(row, column) * scale))
    }

    fn reduce(&self, vector: &[f32]) -> Vec<f32> {
        let scale = 1.0 / (vector.len() as f32).sqrt();
        let row = |row| -> f32 {
            vector.iter().zip(0u32..).map(|(x, column)| x * (sign(row, column) * scale)).sum()
        };
        (0..self.dim).map(row).collect()
    }
}

/// A sign of a Hadamard matrix.
fn sign(row: u32, column: u32) -> f32 {
    if (row & column).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// Divides a vector by its length, and returns the length. A zero vector, or one so short that the
/// squares of its components are 0, is divided by 1, as in Redis.
fn normalise(vector: &mut [f32]) -> f32 {
    let square = vector.iter().map(|x| x * x).sum::<f32>();
    if square == 0.0 {
        return 1.0;
    }
    let norm = match square < SQUARES_EXACT_MIN {
        true => vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt() as f32,
        false => square.sqrt(),
    };
    vector.iter_mut().for_each(|x| *x /= norm);
    norm
}

fn encode_i8(vector: &[f32]) -> (Box<[u8]>, f32) {
    let range = vector.iter().fold(0f32, |max, x| max.max(x.abs()));
    if range == 0.0 {
        return (vec![0; vector.len()].into(), 0.0);
    }
    // In this order, so that halves are rounded as in Redis. A cast saturates, and turns NaN into
    // 0.
    let scale = I8_MAX / range;
    let byte = |x: &f32| ((x * scale).round() as i8).cast_unsigned();
    (vector.iter().map(byte).collect(), range)
}

fn encode_bits(vector: &[f32]) -> Box<[u8]> {
    let mut code = vec![0u8; vector.len().div_ceil(64) * 8];
    for (i, x) in vector.iter().enumerate() {
        code[i / 8] |= u8::from(*x > 0.0) << (i % 8);
    }
    code.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(quantisation: Quantisation, dim: u32) -> Shape {
        Shape { dim, quantisation, links: 16, input_dim: None, seed: quantisation.seed() }
    }

    #[test]
    fn codes_are_those_of_redis() {
        let vector = [1.0, 2.0, 3.0];
        let encoded = shape(Quantisation::Q8, 3).encode(&vector).unwrap();
        assert_eq!(*encoded.code, [0x2a, 0x55, 0x7f]);
        assert_eq!(encoded.factors, Factors { norm: 3.741_657_5, range: 0.801_783_7 });
        let halves = shape(Quantisation::Q8, 2).encode(&[2.0, -1.0]).unwrap();
        assert_eq!(*halves.code, [127, 63i8.wrapping_neg().cast_unsigned()]);
        let encoded = shape(Quantisation::None, 3).encode(&vector).unwrap();
        assert_eq!(*encoded.code, *b"w\xd6\x88>w\xd6\x08?\xb2\x41\x4d?");
        let zero = shape(Quantisation::Q8, 2).encode(&[0.0, 0.0]).unwrap();
        assert_eq!((&*zero.code, zero.factors), (&[0, 0][..], Factors { norm: 1.0, range: 0.0 }));
        let shape_8 = shape(Quantisation::Q8, 2);
        let short = shape_8.decode(shape_8.encode(&[1e-30, 0.0]).unwrap().as_ref());
        assert!((short[0] / 1e-30 - 1.0).abs() < 1e-5 && short[1] == 0.0, "{short:?}");
        let encoded = shape(Quantisation::Binary, 3).encode(&[1.0, -2.0, 3.0]).unwrap();
        assert_eq!(*encoded.code, [5, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn reduction_is_by_hadamard_signs() {
        let shape = Shape { input_dim: Some(3), ..shape(Quantisation::None, 4) };
        let encoded = shape.encode(&[1.0, 2.0, 3.0]).unwrap();
        let decoded = shape.decode(encoded.as_ref());
        let expected = [6.0, 2.0, 0.0, -4.0].map(|x: f32| x / 3f32.sqrt());
        for (x, y) in decoded.iter().zip(expected) {
            assert!((x - y).abs() < 1e-5, "{decoded:?}");
        }
        assert_eq!(shape.matrix().count(), 12);
    }

    #[test]
    fn what_is_made_of_vectors_is_admitted_and_comes_near() {
        use Quantisation::{Binary, None, Q8, RaBitQ};
        let mut vectors = vec![
            vec![0.0; 1000],
            vec![1.0; 1000],
            vec![f32::MAX; 1000],
            vec![f32::INFINITY; 1000],
            vec![f32::NAN; 1000],
            vec![-3.0e-23; 1000],
            vec![2.4e-23; 1000],
        ];
        vectors[3][7] = 1.0;
        vectors.extend([1, 6].map(|at| {
            let mut vector = vectors[at].clone();
            // Its square is the smallest that is not 0.
            vector[0] = -4e-23;
            vector
        }));
        for form in [None, Q8, Binary, RaBitQ] {
            let shape = shape(form, 1000);
            for (x, y) in vectors.iter().flat_map(|x| vectors.iter().map(move |y| (x, y))) {
                let code = shape.encode(x).unwrap();
                assert!(shape.admits(code.as_ref()), "{form:?} {:?} {:?}", &x[..2], code.factors);
                let distance = shape.distance(&shape.query(y).unwrap(), code.as_ref());
                assert!(distance.is_nan() || (0.0..=2.0).contains(&distance), "{distance}");
            }
        }
    }

    #[test]
    fn codes_of_no_vector_are_not_admitted() {
        use Quantisation::{Binary, None, Q8, RaBitQ};
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let floats = |x: f32, y: f32| [x.to_le_bytes(), y.to_le_bytes()].concat();
        let rabitq =
            |coarse, error| [floats(coarse, error), vec![0x55; rabitq::code_bytes(2) - 8]].concat();
        for (form, code, norm, range, expected) in [
            (None, floats(0.6, 0.8), 1.0, 0.0, true),
            (None, floats(0.1, 0.1), 1.0, 0.0, true),
            (None, floats(0.6, 0.8), -1.0, 0.0, false),
            (None, floats(nan, 0.0), inf, 0.0, true),
            (None, floats(nan, 0.0), 1.0, 0.0, false),
            (None, floats(inf, 0.0), 1.0, 0.0, false),
            (None, floats(inf, 0.0), inf, 0.0, false),
            (None, floats(-60.0, 1.0), 1.0, 0.0, false),
            (Q8, vec![127, 1], 1.0, 0.8, true),
            (Q8, vec![0, 0], inf, 0.0, true),
            (Q8, vec![127, 1], 1.0, nan, false),
            (Q8, vec![127, 1], 1.0, inf, false),
            (Q8, vec![127, 1], 1.0, 100.0, false),
            (Q8, vec![127, 1], 1.0, -0.8, false),
            (Q8, vec![128, 1], 1.0, 0.8, false),
            (Q8, vec![127], 1.0, 0.8, false),
            (Binary, vec![3, 0, 0, 0, 0, 0, 0, 0], 1.0, 0.0, true),
            (Binary, vec![4, 0, 0, 0, 0, 0, 0, 0], 1.0, 0.0, false),
            (Binary, vec![3, 0, 0, 0, 0, 0, 0, 128], 1.0, 0.0, false),
            (RaBitQ, rabitq(1.0, 0.1), 1.0, 0.5, true),
            (RaBitQ, rabitq(-1.0, 0.1), 1.0, 0.5, false),
            (RaBitQ, rabitq(1.0, nan), 1.0, 0.5, false),
            (RaBitQ, rabitq(1.0, 0.1), 1.0, inf, false),
        ] {
            let shape = shape(form, 2);
            let encoded = EncodedRef { code: &code, factors: Factors { norm, range } };
            let code = &code;
            assert_eq!(shape.admits(encoded), expected, "{form:?} {code:?} {norm} {range}");
            if code.len() == shape.code_bytes() {
                let distance = shape.distance(&shape.query(&[3.0, 4.0]).unwrap(), encoded);
                assert!(distance.is_nan() || (0.0..=2.0).contains(&distance), "{distance}");
            }
        }
    }

    #[test]
    fn zero_and_infinite_vectors_have_codes() {
        use Quantisation::{Binary, None, Q8, RaBitQ};
        for form in [None, Q8, Binary, RaBitQ] {
            let shape = shape(form, 2);
            for vector in [[0.0, 0.0], [f32::INFINITY, 1.0], [f32::NAN, 1.0], [f32::MAX, 1.0]] {
                let encoded = shape.encode(&vector).unwrap();
                assert_eq!(encoded.code.len(), shape.code_bytes());
                assert_eq!(shape.decode(encoded.as_ref()).len(), 2);
                let query = shape.query(&vector).unwrap();
                let distance = shape.distance(&query, encoded.as_ref());
                assert!(distance.is_nan() || (0.0..=2.0).contains(&distance));
            }
        }
        assert!(shape(Quantisation::Q8, 3).encode(&[1.0]).is_none());
    }
}
