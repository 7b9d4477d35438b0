//! Distance of two codes: 1 minus the cosine, from 0 (same direction) to 2 (opposite).

use crate::kernels::floats::Element;
use crate::kernels::{dot_f32, dot_i8, hamming};
use crate::quantise::{EncodedRef, Quantisation, Query, Shape};
use crate::rabitq;

/// The largest step of an 8-bit code.
pub const I8_MAX: f32 = 127.0;

impl Shape {
    /// Distance of a vector and a code by the part of the code that walks read. NaN if a component
    /// of either is not finite.
    #[inline]
    pub fn distance(&self, query: &Query, code: EncodedRef<'_>) -> f32 {
        match self.quantisation {
            Quantisation::RaBitQ => rabitq::distance(query, code.code),
            _ => self.distance_between(query.encoded.as_ref(), code),
        }
    }

    /// Like [`Shape::distance`], but by the complete code.
    #[inline]
    pub fn distance_fine(&self, query: &Query, code: EncodedRef<'_>) -> f32 {
        match self.quantisation {
            Quantisation::RaBitQ => rabitq::distance_fine(query, code),
            _ => self.distance(query, code),
        }
    }

    /// Error bound of [`Shape::distance`], exceeded a few times in a hundred; none if
    /// [`Shape::distance_fine`] gives the same value.
    #[inline]
    pub fn error_bound(&self, code: EncodedRef<'_>) -> Option<f32> {
        let is_rough = self.quantisation == Quantisation::RaBitQ;
        is_rough.then(|| rabitq::error_bound(code.code))
    }

    /// Distance of two codes of this shape by the part that walks read.
    #[inline]
    pub fn distance_between(&self, a: EncodedRef<'_>, b: EncodedRef<'_>) -> f32 {
        match self.quantisation {
            // Lengths are 1 up to rounding.
            Quantisation::None => (1.0 - dot_f32(a.code, b.code)).clamp(0.0, 2.0),
            Quantisation::Q8 => {
                let (range_a, range_b) = (a.factors.range, b.factors.range);
                // A zero vector has no direction.
                if range_a == 0.0 || range_b == 0.0 {
                    return 1.0;
                }
                let scale = (range_a * range_b) / (I8_MAX * I8_MAX);
                (1.0 - dot_i8(a.code, b.code) as f32 * scale).clamp(0.0, 2.0)
            }
            Quantisation::Binary => {
                let differ = hamming(a.code, b.code) as f32;
                (differ * 2.0 / self.dim as f32).min(2.0)
            }
            // Without an order, as far as can be.
            Quantisation::Squares => {
                let distance = Element::F32.square_distance(a.code, b.code) as f32;
                if distance.is_nan() { f32::INFINITY } else { distance }
            }
            Quantisation::Products => {
                let distance = 1.0 - Element::F32.product(a.code, b.code) as f32;
                if distance.is_nan() { f32::INFINITY } else { distance }
            }
            Quantisation::RaBitQ => rabitq::distance_between(a.code, b.code, self.dim as usize),
        }
    }
}
