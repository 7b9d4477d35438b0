//! Numbers: integers of 64 bits and doubles, as RedisJSON keeps them.

use crate::tape::{DECIMAL8, DECIMAL16, DECIMAL32, F64, Writer};

/// The greatest power of ten that a double holds exactly.
const SCALE_MAX: usize = 22;

/// Powers of ten, each exact.
static POWERS: [f64; SCALE_MAX + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A number of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// An integer above `i64::MAX`.
    Unsigned(u64),
    /// A finite double.
    Double(f64),
}

/// Operation of [`Number::combine`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arithmetic {
    /// A sum.
    Add,
    /// A product.
    Multiply,
    /// A power.
    Power,
}

/// A result that is no number of a document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ArithmeticError {
    /// Both were integers, the result is beyond 64 bits.
    Overflow,
    /// The result is infinite or not a number.
    NotANumber,
}

impl Number {
    /// The nearest double.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Integer(n) => n as f64,
            Number::Unsigned(n) => n as f64,
            Number::Double(n) => n,
        }
    }

    /// Writes it to a tape.
    pub fn write(self, to: &mut Writer) {
        match self {
            Number::Integer(n) => to.integer(n),
            Number::Unsigned(n) => to.unsigned(n),
            Number::Double(n) => to.double(n),
        }
    }

    /// Appends its text.
    pub fn print(self, out: &mut Vec<u8>) {
        crate::print::print_number(self, out);
    }

    /// Two signed integers make an integer, all others a double.
    ///
    /// # Errors
    /// If the result is none.
    pub fn combine(self, how: Arithmetic, with: Number) -> Result<Number, ArithmeticError> {
        if let (Number::Integer(a), Number::Integer(b)) = (self, with) {
            let result = match how {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            };
            return result.map(Number::Integer).ok_or(ArithmeticError::Overflow);
        }
        let (a, b) = (self.as_f64(), with.as_f64());
        let result = match how {
            Arithmetic::Add => a + b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Power => a.powf(b),
        };
        match result.is_finite() {
            true => Ok(Number::Double(result)),
            false => Err(ArithmeticError::NotANumber),
        }
    }

    /// Orders by value, whatever the kinds.
    pub fn compare(self, with: Number) -> std::cmp::Ordering {
        match (self, with) {
            (Number::Integer(a), Number::Integer(b)) => a.cmp(&b),
            (Number::Unsigned(a), Number::Unsigned(b)) => a.cmp(&b),
            (Number::Integer(_), Number::Unsigned(_)) => std::cmp::Ordering::Less,
            (Number::Unsigned(_), Number::Integer(_)) => std::cmp::Ordering::Greater,
            // Neither is NaN.
            _ => self.as_f64().partial_cmp(&with.as_f64()).unwrap_or(std::cmp::Ordering::Equal),
        }
    }
}

/// The double that a decimal stands for: a quotient of two exact ones, so rounded once.
#[inline]
pub(crate) fn decimal(scale: u8, mantissa: i32) -> f64 {
    f64::from(mantissa) / POWERS[usize::from(scale).min(SCALE_MAX)]
}

/// Writes a double in the shortest of its forms that reads back the same.
pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) {
    debug_assert!(value.is_finite());
    let Some((scale, mantissa)) = as_decimal(value) else {
        out.push(F64);
        out.extend(value.to_le_bytes());
        return;
    };
    if let Ok(mantissa) = i8::try_from(mantissa) {
        out.extend([DECIMAL8, scale, mantissa as u8]);
    } else if let Ok(mantissa) = i16::try_from(mantissa) {
        out.extend([DECIMAL16, scale]);
        out.extend(mantissa.to_le_bytes());
    } else {
        out.extend([DECIMAL32, scale]);
        out.extend(mantissa.to_le_bytes());
    }
}

/// Decomposes a double into a power of ten and an integer with exactly this quotient, if the
/// integer is small.
fn as_decimal(value: f64) -> Option<(u8, i32)> {
    if value.abs() > f64::from(i32::MAX) {
        return None;
    }
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(value).as_bytes();
    let (mut mantissa, mut scale, mut in_fraction) = (0i64, 0, false);
    let digits = text.strip_suffix(b".0").unwrap_or(text);
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + i64::from(byte - b'0');
                scale += u8::from(in_fraction);
                if mantissa > i64::from(i32::MAX) {
                    return None;
                }
            }
            b'.' => in_fraction = true,
            b'-' => {}
            _ => return None,
        }
    }
    let mantissa = if value.is_sign_negative() { -mantissa } else { mantissa } as i32;
    // This leaves out minus zero too.
    let is_exact =
        usize::from(scale) <= SCALE_MAX && decimal(scale, mantissa).to_bits() == value.to_bits();
    is_exact.then_some((scale, mantissa))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_decimals_are_short() {
        for (value, bytes) in [(0.5, 3), (-1.25, 3), (12.34, 4), (3.0, 3), (-0.0, 9), (1e300, 9)] {
            let mut out = Vec::new();
            write_double(value, &mut out);
            assert_eq!(out.len(), bytes, "{value}");
        }
    }

    #[test]
    fn integers_do_not_wrap() {
        let (max, one) = (Number::Integer(i64::MAX), Number::Integer(1));
        assert_eq!(max.combine(Arithmetic::Add, one), Err(ArithmeticError::Overflow));
        assert_eq!(
            max.combine(Arithmetic::Add, Number::Double(1.0)),
            Ok(Number::Double(i64::MAX as f64 + 1.0))
        );
        assert_eq!(
            one.combine(Arithmetic::Power, Number::Integer(-1)),
            Err(ArithmeticError::Overflow)
        );
        let big = Number::Double(f64::MAX);
        assert_eq!(big.combine(Arithmetic::Multiply, big), Err(ArithmeticError::NotANumber));
    }
}
