//! Floating-point types of less precision: what `JSON.SET` with `FPHA` rounds arrays of numbers to.

use half::{bf16, f16};

/// A type that the numbers of an array are rounded to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FloatType {
    /// bfloat16: 8 bits of precision.
    Bf16,
    /// IEEE 754 binary16: 11 bits.
    Fp16,
    /// IEEE 754 binary32: 24 bits.
    Fp32,
    /// IEEE 754 binary64, a double.
    Fp64,
}

impl FloatType {
    /// By the name that commands use, in any case.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let types = [FloatType::Bf16, FloatType::Fp16, FloatType::Fp32, FloatType::Fp64];
        let names: [&[u8]; 4] = [b"BF16", b"FP16", b"FP32", b"FP64"];
        let found = names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(types[found])
    }

    /// The name that errors use.
    pub fn name(self) -> &'static str {
        match self {
            FloatType::Bf16 => "BF16",
            FloatType::Fp16 => "F16",
            FloatType::Fp32 => "F32",
            FloatType::Fp64 => "F64",
        }
    }

    /// The double nearest to the shortest decimal that this type reads as the number's rounding;
    /// none if the type does not reach so far.
    pub fn round(self, number: f64) -> Option<f64> {
        let rounded = self.nearest(number);
        if !rounded.is_finite() {
            return None;
        }
        if self == FloatType::Fp64 {
            return Some(number);
        }
        // Nine digits tell any two of the widest type apart.
        (0..9).find_map(|digits| {
            let shortest: f64 = format!("{rounded:.digits$e}").parse().ok()?;
            (self.nearest(shortest).to_bits() == rounded.to_bits()).then_some(shortest)
        })
    }

    /// The number as the type holds it.
    fn nearest(self, number: f64) -> f64 {
        match self {
            FloatType::Bf16 => bf16::from_f64(number).to_f64(),
            FloatType::Fp16 => f16::from_f64(number).to_f64(),
            FloatType::Fp32 => f64::from(number as f32),
            FloatType::Fp64 => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_what_the_type_prints() {
        let cases = [
            (FloatType::Fp16, 0.1235),
            (FloatType::Bf16, 0.1235),
            (FloatType::Fp32, 0.12345679),
            (FloatType::Fp64, 0.123456789),
        ];
        for (of, expected) in cases {
            assert_eq!(of.round(0.123456789), Some(expected), "{of:?}");
        }
        assert_eq!(FloatType::Fp16.round(70_000.0), None);
        assert_eq!(FloatType::Fp32.round(-1e39), None);
        assert_eq!(FloatType::Fp16.round(0.0), Some(0.0));
    }
}
