//! RaBitQ codes with seven bits per component (Gao and Long, SIGMOD 2024; Gao et
//! al., arXiv 2409.09913).
//!
//! A vector of length 1 is [rotated](crate::rotation) randomly, then each component is quantised to
//! a step of a uniform grid. The top four bits of the steps form the coarse plane, which walks
//! read; the other three form two more planes, read only for the final ranking of the results. In
//! clusters with almost equally distant neighbours, six bits rank 94 % of the ten nearest
//! correctly, seven 96.8 %.
//!
//! ```text
//! | factor | error | coarse plane: 4 bits each | fine plane: 2 bits | last plane: 1 bit |
//!
//! factor, error: 32-bit floats
//!
//! coarse, of 64 components: byte i holds component i (low half) and 32 + i (high half)
//! fine,   of 64 components: byte i holds components i, 16 + i, 32 + i, 48 + i (lowest bits first)
//! last,   of 64 components: byte i holds components i, 8 + i, ..., 56 + i (from the lowest bit)
//! ```
//!
//! The last components, if fewer than 64, use the same layout in only as many bytes as needed.
//!
//! Components are represented by odd numbers: `w = 2 * step - 15` in the coarse plane, `2 * step -
//! 127` in all planes. For a unit vector `x`, its code `w` and a unit query `q`, `<w, q> / <w, x>`
//! estimates `<x, q>` without bias, since the part of `w` perpendicular to `x` has a random
//! direction after the rotation. The error is, except a few times in a hundred, below `1.9 *
//! sqrt((1 - c²) / (c² * (dim - 1)))`, where `c` is the cosine of `w` and `x` (theorem 3.2 of the
//! first paper).

use crate::kernels::planes;
use crate::quantise::{Encoded, EncodedRef, Factors, Query};
use crate::rotation::{rotate, rotate_back};

/// Seed of the rotation of new sets. The same for all, so that a replica makes the same codes.
pub const SEED: u32 = 0x5ee4;

/// Number of standard deviations in the error bound.
const DEVIATIONS: f32 = 1.9;

/// Bytes before the planes.
const HEAD_BYTES: usize = 8;

/// Largest step of the grid.
const STEP_MAX: f32 = 127.0;

/// Candidates for the grid's outermost step, as shares of the largest component: if few components
/// are large, clipping them is better.
const RANGES: [f32; 6] = [0.70, 0.76, 0.82, 0.88, 0.94, 1.0];

/// Bytes of a code.
pub fn code_bytes(dim: usize) -> usize {
    HEAD_BYTES + planes::coarse_bytes(dim) + planes::fine_bytes(dim) + planes::last_bytes(dim)
}

/// Number of leading bytes of a code that [`distance`] reads.
pub fn walked_bytes(dim: usize) -> usize {
    HEAD_BYTES + planes::coarse_bytes(dim)
}

/// Parts of a code.
#[derive(Clone, Copy)]
struct Parts<'a> {
    coarse: &'a [u8],
    fine: &'a [u8],
    last: &'a [u8],
}

#[inline]
fn float(code: &[u8], at: usize) -> f32 {
    let bytes = code.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0.0, f32::from_le_bytes)
}

#[inline]
fn parts(code: &[u8], dim: usize) -> Parts<'_> {
    let (coarse, rest) = code[HEAD_BYTES..].split_at(planes::coarse_bytes(dim));
    let (fine, last) = rest.split_at(planes::fine_bytes(dim));
    Parts { coarse, fine, last }
}

/// Quality of a grid for a vector.
#[derive(Clone, Copy, Default)]
struct Fit {
    /// Products of the vector with its steps of 4 and of 7 bits.
    dots: [f32; 2],
    /// Squared cosines of the angle between the vector and its steps.
    cosines: [f32; 2],
}

impl Fit {
    /// Weighted equally: a grid of 4 bits has about 48 times the error of one of 7.
    fn error(&self) -> f32 {
        (1.0 - self.cosines[0]) / 48.0 + (1.0 - self.cosines[1])
    }
}

#[inline]
fn step(x: f32, scale: f32) -> u8 {
    // A cast saturates, and makes 0 of NaN.
    (x * scale + 64.0).clamp(0.0, STEP_MAX) as u8
}

fn fit(vector: &[f32], scale: f32) -> Fit {
    let (mut dots, mut squares) = ([0f32; 2], [0i64; 2]);
    for &x in vector {
        let step = i32::from(step(x, scale));
        let (coarse, full) = (2 * (step >> 3) - 15, 2 * step - 127);
        dots[0] += x * coarse as f32;
        dots[1] += x * full as f32;
        squares[0] += i64::from(coarse * coarse);
        squares[1] += i64::from(full * full);
    }
    let cosine = |of: usize| dots[of] * dots[of] / squares[of] as f32;
    Fit { dots, cosines: [cosine(0), cosine(1)] }
}

/// Encodes a vector of length 1 or 0; returns the code and the factor of all planes.
pub fn encode(mut vector: Vec<f32>, seed: u32) -> (Box<[u8]>, f32) {
    let dim = vector.len();
    rotate(&mut vector, seed);
    let largest = vector.iter().fold(0f32, |max, x| max.max(x.abs()));
    let mut best = (1.0, Fit::default());
    if largest > 0.0 && largest.is_finite() {
        let fits = RANGES.map(|range| {
            let scale = STEP_MAX / 2.0 / (largest * range);
            (scale, fit(&vector, scale))
        });
        let least = fits.into_iter().min_by(|a, b| a.1.error().total_cmp(&b.1.error()));
        best = least.unwrap_or(best);
    }
    let (scale, Fit { dots, cosines }) = best;
    let factor = |dot: f32| if dot > 0.0 && dot.is_finite() { 1.0 / dot } else { 0.0 };
    let rest = (1.0 - cosines[0]).max(0.0) / (cosines[0] * (dim.max(2) - 1) as f32);
    let error = if rest.is_finite() { DEVIATIONS * rest.sqrt() } else { 0.0 };
    let steps: Vec<u8> = vector.iter().map(|&x| step(x, scale)).collect();
    let mut code = Vec::with_capacity(code_bytes(dim));
    code.extend(factor(dots[0]).to_le_bytes());
    code.extend(error.to_le_bytes());
    planes::pack(&steps, &mut code);
    (code.into(), factor(dots[1]))
}

/// Makes a query of a vector of length 1: rotated, as signed bytes, with remainders in 256ths.
pub fn query(mut vector: Vec<f32>, seed: u32) -> Query {
    rotate(&mut vector, seed);
    let largest = vector.iter().fold(0f32, |max, x| max.max(x.abs()));
    let is_number = largest > 0.0 && largest.is_finite();
    let scale = if is_number { 127.0 / largest } else { 0.0 };
    let range = if is_number { 1.0 / scale } else { 0.0 };
    // Casts truncate, saturate, and turn NaN into 0.
    let nearest = |x: f32| (x + 0.5f32.copysign(x)) as i32;
    let whole = |x: f32| nearest(x * scale);
    let byte = |&x: &f32| (whole(x) as i8).cast_unsigned();
    let left = |x: f32| nearest((x * scale - whole(x) as f32) * 256.0);
    let rest = |&x: &f32| (left(x).clamp(-128, 127) as i8).cast_unsigned();
    let code = vector.iter().map(byte).collect();
    let rest = vector.iter().map(rest).collect();
    with_sums(Encoded { code, factors: Factors { norm: 1.0, range } }, rest)
}

/// Makes a query of a code, which consists of signed bytes already.
pub fn query_of(encoded: EncodedRef<'_>, dim: usize) -> Query {
    let code = weights(encoded.code, dim).into_iter().map(i8::cast_unsigned).collect();
    with_sums(Encoded { code, factors: encoded.factors }, Box::default())
}

fn with_sums(encoded: Encoded, rest: Box<[u8]>) -> Query {
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| i32::from(byte.cast_signed())).sum();
    Query { sum: sum(&encoded.code), rest_sum: sum(&rest), encoded, rest }
}

/// Odd numbers that represent the components of a code.
fn weights(code: &[u8], dim: usize) -> Vec<i8> {
    let parts = parts(code, dim);
    let steps = planes::unpack(parts.coarse, parts.fine, parts.last, dim);
    // At most 127 in magnitude.
    steps.into_iter().map(|step| (2 * i16::from(step) - 127) as i8).collect()
}

/// A vector of length 1 in the direction of a code; the zero vector for the code of zero.
pub fn decode(encoded: EncodedRef<'_>, dim: usize, seed: u32) -> Vec<f32> {
    if encoded.factors.range == 0.0 {
        return vec![0.0; dim];
    }
    let weights = weights(encoded.code, dim);
    let square: i64 = weights.iter().map(|&w| i64::from(w) * i64::from(w)).sum();
    let scale = 1.0 / (square as f32).sqrt();
    let mut vector: Vec<f32> = weights.into_iter().map(|w| f32::from(w) * scale).collect();
    rotate_back(&mut vector, seed);
    vector
}

/// Distance by the coarse plane.
#[inline]
pub fn distance(query: &Query, code: &[u8]) -> f32 {
    let q = &query.encoded.code[..];
    let dot = planes::dot_coarse(q, &code[HEAD_BYTES..]);
    distance_of(float(code, 0) * query.encoded.factors.range * (2 * dot - 15 * query.sum) as f32)
}

/// Distance by all planes and all of the query.
pub fn distance_fine(query: &Query, encoded: EncodedRef<'_>) -> f32 {
    let parts = parts(encoded.code, query.encoded.code.len());
    let mut product = parts.dot(&query.encoded.code, query.sum) as f32;
    if !query.rest.is_empty() {
        product += parts.dot(&query.rest, query.rest_sum) as f32 / 256.0;
    }
    distance_of(encoded.factors.range * query.encoded.factors.range * product)
}

impl Parts<'_> {
    /// Product of signed bytes, with their `sum`, and the code's odd numbers.
    #[inline]
    fn dot(&self, query: &[u8], sum: i32) -> i64 {
        // Of 65,536 components the sum stays below 2^31: 65,536 * 128 * 127 is less than 2^30.
        let dot = 8 * planes::dot_coarse(query, self.coarse)
            + 2 * planes::dot_fine(query, self.fine)
            + planes::dot_last(query, self.last);
        2 * i64::from(dot) - 127 * i64::from(sum)
    }
}

/// Distance of two codes by their coarse planes.
#[inline]
pub fn distance_between(a: &[u8], b: &[u8], dim: usize) -> f32 {
    let bytes = planes::coarse_bytes(dim);
    let plane = |code: &'_ [u8]| HEAD_BYTES..HEAD_BYTES + bytes.min(code.len() - HEAD_BYTES);
    let dot = planes::dot_pair(&a[plane(a)], &b[plane(b)], dim);
    distance_of(float(a, 0) * float(b, 0) * dot as f32)
}

/// Factor of the coarse plane, and error bound.
pub fn factors(code: &[u8]) -> (f32, f32) {
    (float(code, 0), float(code, 4))
}

/// Error bound of [`distance`] for a unit query, exceeded a few times in a hundred.
#[inline]
pub fn error_bound(code: &[u8]) -> f32 {
    float(code, 4)
}

#[inline]
fn distance_of(cosine: f32) -> f32 {
    // Values from a corrupt snapshot may be NaN, which counts as perpendicular.
    if cosine.is_nan() { 1.0 } else { (1.0 - cosine).clamp(0.0, 2.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantise::{Quantisation, Shape};

    fn shape(dim: u32) -> Shape {
        let quantisation = Quantisation::RaBitQ;
        Shape { dim, quantisation, links: 16, input_dim: None, seed: SEED }
    }

    /// Vectors of length 1, some with few large components.
    fn vectors(dim: usize, count: usize) -> Vec<Vec<f32>> {
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let mut vector = |sharpness: i32| -> Vec<f32> {
            let vector: Vec<f32> = (0..dim).map(|_| draw().powi(sharpness)).collect();
            let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            vector.iter().map(|x| x / norm).collect()
        };
        (0..count).map(|n| vector(if n % 3 == 0 { 21 } else { 1 })).collect()
    }

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn estimates_are_unbiased_and_within_their_bound() {
        for dim in [64, 100, 384, 769] {
            let shape = shape(dim as u32);
            let vectors = vectors(dim, 60);
            let codes: Vec<Encoded> = vectors.iter().map(|x| shape.encode(x).unwrap()).collect();
            let (mut off, mut off_fine, mut beyond, mut pairs, mut sum) = (0.0, 0.0, 0, 0, 0.0);
            for (x, query) in vectors.iter().zip(vectors.iter().map(|x| shape.query(x).unwrap())) {
                for (y, code) in vectors.iter().zip(&codes) {
                    let exact = 1.0 - cosine(x, y);
                    let error = shape.distance(&query, code.as_ref()) - exact;
                    let fine = shape.distance_fine(&query, code.as_ref()) - exact;
                    beyond += usize::from(error.abs() > error_bound(&code.code));
                    (off, off_fine) = (off + error * error, off_fine + fine * fine);
                    (sum, pairs) = (sum + error, pairs + 1);
                }
            }
            let (off, off_fine) = ((off / pairs as f32).sqrt(), (off_fine / pairs as f32).sqrt());
            // Three more bits leave at most a quarter of the error, besides the query's rounding.
            assert!(off_fine < off * 0.25, "{dim}: {off_fine} of {off}");
            assert!(off < 0.15 / (dim as f32).sqrt(), "{dim}: {off}");
            assert!((sum / pairs as f32).abs() < 0.1 * off, "{dim}: {sum} {off}");
            assert!(beyond * 12 < pairs, "{dim}: {beyond} of {pairs}");
        }
    }

    #[test]
    fn codes_compare_with_each_other_and_tell_their_vectors() {
        for dim in [64, 384] {
            let shape = shape(dim as u32);
            let vectors = vectors(dim, 40);
            let codes: Vec<Encoded> = vectors.iter().map(|x| shape.encode(x).unwrap()).collect();
            for (x, a) in vectors.iter().zip(&codes) {
                let decoded = shape.decode(a.as_ref());
                assert!(cosine(x, &decoded) > 0.998, "{}", cosine(x, &decoded));
                for (y, b) in vectors.iter().zip(&codes) {
                    let exact = 1.0 - cosine(x, y);
                    let of_codes = shape.distance_between(a.as_ref(), b.as_ref());
                    let of_query = shape.distance_fine(&shape.query_of(a.as_ref()), b.as_ref());
                    assert!((of_codes - exact).abs() < 0.8 / (dim as f32).sqrt());
                    assert!((of_query - exact).abs() < 0.4 / (dim as f32).sqrt());
                }
            }
        }
    }

    #[test]
    fn the_zero_vector_is_as_far_from_all() {
        let shape = shape(100);
        let (zero, other) = (vec![0.0; 100], vec![1.0; 100]);
        let code = shape.encode(&zero).unwrap();
        assert_eq!(shape.decode(code.as_ref()), zero);
        for query in [&zero, &other].map(|x| shape.query(x).unwrap()) {
            assert_eq!(shape.distance(&query, code.as_ref()), 1.0);
            assert_eq!(shape.distance_fine(&query, code.as_ref()), 1.0);
        }
        assert_eq!(shape.distance_between(code.as_ref(), code.as_ref()), 1.0);
    }

    #[test]
    fn any_bytes_are_a_code() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            let shape = shape(70);
            let code = vec![byte; shape.code_bytes()];
            let range = f32::from_bits(u32::from_ne_bytes([byte; 4]));
            let encoded = EncodedRef { code: &code, factors: Factors { norm: 1.0, range } };
            assert_eq!(shape.decode(encoded).len(), 70);
            for query in [shape.query(&[1.0; 70]).unwrap(), shape.query_of(encoded)] {
                for distance in [
                    shape.distance(&query, encoded),
                    shape.distance_fine(&query, encoded),
                    shape.distance_between(encoded, encoded),
                ] {
                    assert!((0.0..=2.0).contains(&distance));
                }
            }
        }
    }
}
