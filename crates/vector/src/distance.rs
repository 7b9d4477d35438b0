//! How far two codes are apart: 1 minus the cosine, from 0 (same direction) to 2 (opposite).

use crate::kernels::{dot_f32, dot_i8, hamming};
use crate::quantise::{EncodedRef, Quantisation, Shape};

/// The largest step of an 8-bit code.
pub const I8_MAX: f32 = 127.0;

impl Shape {
    /// Distance of two codes of this shape. NaN if a component of either is not finite.
    #[inline]
    pub fn distance(&self, a: EncodedRef<'_>, b: EncodedRef<'_>) -> f32 {
        match self.quantisation {
            Quantisation::None => 1.0 - dot_f32(a.code, b.code),
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
                differ * 2.0 / self.dim as f32
            }
        }
    }
}
