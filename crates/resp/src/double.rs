//! Text form of a double: the shortest digits that read back the same, laid out as Redis does.
//!
//! With `digits` as an integer of n digits and the value `digits * 10^k`:
//!
//! * a whole number up to 2^62 in magnitude is printed as an integer;
//! * `k >= 0` and the point at most 7 places behind the digits: zeros are appended;
//! * `k < 0` and either at most 6 decimals or a value within 10^±3: a decimal fraction;
//! * all else: `d.ddde+x` with a sign and no zeros before the exponent's digits;
//! * `inf`, `-inf`, `nan` and `-0`.
//!
//! Redis misses the shortest digits of about one double in a thousand: its text is then another,
//! often longer, that reads back the same.

use crate::grisu::Decimal;

/// The magnitude up to which whole numbers are printed as integers: 2^62.
const INTEGER_MAX: f64 = 4_611_686_018_427_387_904.0;

/// Bytes of the longest text: a sign, 17 digits, and 7 zeros or a point and an exponent.
const TEXT_LEN_MAX: usize = 32;

/// The place where a double is printed.
#[derive(Clone, Debug)]
pub struct DoubleBuffer {
    text: [u8; TEXT_LEN_MAX],
    len: usize,
}

impl DoubleBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self { text: [0; TEXT_LEN_MAX], len: 0 }
    }

    /// Prints `value`; the text is ASCII.
    pub fn format(&mut self, value: f64) -> &[u8] {
        self.len = 0;
        if value.is_nan() {
            self.push(b"nan");
        } else if value.is_infinite() {
            self.push(if value > 0.0 { b"inf" } else { b"-inf" });
        } else if value == 0.0 {
            self.push(if value.is_sign_negative() { b"-0" } else { b"0" });
        } else if value.abs() <= INTEGER_MAX && value == value.trunc() {
            self.push(itoa::Buffer::new().format(value as i64).as_bytes());
        } else {
            if value < 0.0 {
                self.push(b"-");
            }
            self.fraction(value.abs());
        }
        &self.text[..self.len]
    }

    /// Prints `value` as the digests of Redis and Valkey (`DEBUG DIGEST`) take it in: with the
    /// digits of Grisu2, which are not always the shortest, and whole numbers laid out as all
    /// others.
    pub fn format_for_digest(&mut self, value: f64) -> &[u8] {
        if !value.is_finite() || value == 0.0 {
            return self.format(value);
        }
        self.len = 0;
        if value < 0.0 {
            self.push(b"-");
        }
        let decimal = Decimal::of(value.abs());
        self.lay_out(decimal.digits(), decimal.exponent);
        &self.text[..self.len]
    }

    /// Prints a positive, finite number that is not printed as an integer.
    fn fraction(&mut self, value: f64) {
        if self.short_fraction(value) {
            return;
        }
        let mut buffer = ryu::Buffer::new();
        let text = buffer.format_finite(value);
        if is_laid_out(value, text) {
            self.push(text.as_bytes());
        } else {
            let (digits, len, exponent) = digits_of(text);
            self.lay_out(&digits[..len], exponent);
        }
    }

    /// Prints a number of at most 15 digits of which at most 6 are decimals, as most are that
    /// people store: several times faster than the general way. Returns false if the number is
    /// not such.
    ///
    /// No two decimals of at most 15 digits are the same double, so one that reads back as `value`
    /// is the shortest.
    fn short_fraction(&mut self, value: f64) -> bool {
        const SCALE: u64 = 1_000_000;
        let scaled = (value * SCALE as f64 + 0.5) as u64;
        if scaled >= 1_000_000_000_000_000 || scaled as f64 / SCALE as f64 != value {
            return false;
        }
        self.push(itoa::Buffer::new().format(scaled / SCALE).as_bytes());
        let mut decimals = *b".000000";
        let mut rest = scaled % SCALE;
        for place in decimals[1..].iter_mut().rev() {
            *place += (rest % 10) as u8;
            rest /= 10;
        }
        let zeros = decimals.iter().rev().take_while(|place| **place == b'0').count();
        self.push(&decimals[..decimals.len() - zeros]);
        true
    }

    /// Prints `digits * 10^exponent`.
    fn lay_out(&mut self, digits: &[u8], exponent: i32) {
        let places = digits.len() as i32;
        let point = places + exponent;
        let magnitude = (point - 1).abs();
        if exponent >= 0 && magnitude < places + 7 {
            self.push(digits);
            self.zeros(exponent);
        } else if exponent < 0 && (exponent > -7 || magnitude < 4) {
            let (whole, fraction) = digits.split_at(point.max(0) as usize);
            self.push(if whole.is_empty() { b"0" } else { whole });
            self.push(b".");
            self.zeros(-point);
            self.push(fraction);
        } else {
            self.push(&digits[..1]);
            if digits.len() > 1 {
                self.push(b".");
                self.push(&digits[1..]);
            }
            self.push(if point > 0 { b"e+" } else { b"e-" });
            self.push(itoa::Buffer::new().format(magnitude).as_bytes());
        }
    }

    /// Appends `count` zeros, none if negative.
    fn zeros(&mut self, count: i32) {
        for _ in 0..count {
            self.push(b"0");
        }
    }

    fn push(&mut self, part: &[u8]) {
        self.text[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }
}

impl Default for DoubleBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether `text`, as ryu prints the positive fraction `value`, has Redis's layout already: most
/// have.
fn is_laid_out(value: f64, text: &str) -> bool {
    // Ryu prints the whole of this range as decimal fractions.
    (1e-3..1e15).contains(&value)
        && (value < 1e4 || text.bytes().rev().take(7).any(|byte| byte == b'.'))
}

/// Digits that start and end with none of zero, their number, and the power of ten to scale them
/// by: taken from a positive number as ryu prints it.
fn digits_of(text: &str) -> ([u8; 17], usize, i32) {
    let mut digits = [0; 17];
    let (mut len, mut exponent, mut fraction) = (0, 0, false);
    let (mantissa, scale) = text.split_once('e').unwrap_or((text, "0"));
    for byte in mantissa.bytes() {
        match byte {
            b'.' => fraction = true,
            // Zeros of `0.000012` and of `1200000.0` are no digits, but move the point.
            b'0' if len == 0 => exponent -= i32::from(fraction),
            digit if len < digits.len() => {
                digits[len] = digit;
                len += 1;
                exponent -= i32::from(fraction);
            }
            _ => exponent += i32::from(!fraction),
        }
    }
    while len > 1 && digits[len - 1] == b'0' {
        len -= 1;
        exponent += 1;
    }
    // The scale that ryu prints is a small decimal number.
    (digits, len, exponent + scale.parse::<i32>().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(value: f64) -> String {
        String::from_utf8(DoubleBuffer::new().format(value).to_vec()).unwrap()
    }

    /// Pairs as observed in Redis 7.4 and later.
    #[test]
    fn layout() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.7, "0.7"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.30000000000000004, "0.30000000000000004"),
            (123456789.123, "123456789.123"),
            (12345678.9, "12345678.9"),
            (12345.678901, "12345.678901"),
            (0.001, "0.001"),
            (1234.5678901234567, "1234.5678901234567"),
            (12345.678901234567, "1.2345678901234567e+4"),
            (123456.78901234567, "1.2345678901234567e+5"),
            (123.0000001, "123.0000001"),
            (0.00123456789, "0.00123456789"),
            (0.0001234567, "1.234567e-4"),
            (1e-5, "0.00001"),
            (1e-6, "0.000001"),
            (1.1e-6, "1.1e-6"),
            (0.00001234, "1.234e-5"),
            (1e-7, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (-1e-10, "-1e-10"),
            (1e15, "1000000000000000"),
            (1e17, "100000000000000000"),
            (100000000000000016.0, "100000000000000016"),
            (4e18, "4000000000000000000"),
            (4611686018427387904.0, "4611686018427387904"),
            (4611686018427388928.0, "4611686018427389000"),
            (5e18, "5e+18"),
            (1e19, "1e+19"),
            (12345678901234567890.0, "12345678901234567000"),
            (-9223372036854775808.0, "-9223372036854776000"),
            (12345678901234567e5, "1234567890123456800000"),
            (1.5e20, "1.5e+20"),
            (-1e21, "-1e+21"),
            (5e-324, "5e-324"),
            (2.2250738585072014e-308, "2.2250738585072014e-308"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(print(value), text);
        }
    }

    /// Pairs as Redis 8.2 and Valkey 9.1 digest them.
    #[test]
    fn layout_in_digests() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (f64::NEG_INFINITY, "-inf"),
            (1.0, "1"),
            (-25.0, "-25"),
            (1e7, "10000000"),
            (1e8, "1e+8"),
            (-5e9, "-5e+9"),
            (1.2e9, "1.2e+9"),
            (1.2e8, "120000000"),
            (123456789e3, "123456789000"),
            (1e15, "1e+15"),
            (9007199254740993.0, "9007199254740992"),
            (4611686018427387904.0, "4611686018427388000"),
            (1e22, "1e+22"),
            (1e23, "99999999999999990000000"),
            (0.1, "0.1"),
            (1e-7, "1e-7"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            let mut buffer = DoubleBuffer::new();
            assert_eq!(str::from_utf8(buffer.format_for_digest(value)), Ok(text));
        }
    }

    proptest::proptest! {
        #[test]
        fn reads_back_the_same(bits: u64) {
            let value = f64::from_bits(bits);
            let back: f64 = print(value).parse().unwrap();
            proptest::prop_assert!(back.to_bits() == bits || (back.is_nan() && value.is_nan()));
        }

        /// The short way prints what the general one does.
        #[test]
        fn short_fractions(units in 1..20_000_000_000_000_000_u64, scale in 0..9_i32) {
            let value = units as f64 / 10_f64.powi(scale);
            let mut general = DoubleBuffer::new();
            let (digits, len, exponent) = digits_of(ryu::Buffer::new().format_finite(value));
            general.lay_out(&digits[..len], exponent);
            let mut short = DoubleBuffer::new();
            if value.fract() != 0.0 && short.short_fraction(value) {
                proptest::prop_assert_eq!(&short.text[..short.len], &general.text[..general.len]);
            }
        }
    }
}
