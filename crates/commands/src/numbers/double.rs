//! Arguments that are doubles: scores, coordinates, weights.

use crate::numbers::extended::Extended;
use petrel_keyspace::parse_int;

/// Integers up to this magnitude are doubles without rounding.
const EXACT_MAX: u64 = 1 << 53;

/// Parses a decimal or hexadecimal number or infinity, without anything before or after. `None`
/// also for NaN, and for numbers too large or too close to 0 for a double.
#[inline]
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    match parse_int(text) {
        Some(n) if n.unsigned_abs() <= EXACT_MAX => Some(n as f64),
        _ if is_hexadecimal(text) => parse_hexadecimal(text),
        _ => parse_decimal(text),
    }
}

fn is_hexadecimal(text: &[u8]) -> bool {
    text.get(..3).is_some_and(|begin| begin.contains(&b'x') || begin.contains(&b'X'))
}

fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    Extended::parse(text)?.to_double().filter(|value| value.is_finite())
}

fn parse_decimal(text: &[u8]) -> Option<f64> {
    let value = read(text)?;
    let magnitude = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let names_infinity = magnitude.first().is_some_and(u8::is_ascii_alphabetic);
    let mantissa = magnitude.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    let is_zero = !names_infinity && !mantissa.iter().any(|digit| matches!(digit, b'1'..=b'9'));
    (value.is_infinite() == names_infinity && (value == 0.0) == is_zero).then_some(value)
}

/// Parses a bound of a range: like [`parse`], but too large numbers are infinite, too small numbers
/// and an empty text are 0, and a zero byte ends the text.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    match text.split(|&byte| byte == 0).next().unwrap_or_default() {
        [] => Some(0.0),
        text if is_hexadecimal(text) => Extended::parse(text)?.to_double(),
        text => read(text),
    }
}

fn read(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| !value.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, value) in [
            ("0", 0.0),
            ("-7", -7.0),
            ("+1", 1.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("-.5", -0.5),
            ("1e5", 1e5),
            ("1E5", 1e5),
            ("inf", f64::INFINITY),
            ("+Infinity", f64::INFINITY),
            ("-INF", f64::NEG_INFINITY),
            ("0e99999", 0.0),
            ("9007199254740993", 9007199254740992.0),
            ("4.9e-324", 5e-324),
            ("1.7976931348623157e308", f64::MAX),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("+0x1p-1074", 5e-324),
            ("0x0p+0", 0.0),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(value), "{text}");
            assert_eq!(parse_bound(text.as_bytes()), Some(value), "{text}");
        }
        for text in [" 1", "1 ", "1e", ".", "+", "--1", "nan", "-nan", "0x", "1_0", "1f", "infin"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
            assert_eq!(parse_bound(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn bounds_are_read_leniently() {
        for (text, value) in [
            ("", 0.0),
            ("1\0x", 1.0),
            ("1e400", f64::INFINITY),
            ("-1e400", -f64::INFINITY),
            ("1e-400", 0.0),
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
            assert_eq!(parse_bound(text.as_bytes()), Some(value), "{text}");
        }
    }
}
