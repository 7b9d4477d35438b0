//! Numbers as C reads and prints them.

/// Reads a decimal or hexadecimal number, with blanks before it. The whole text must be one.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim_ascii_start();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match digits.get(..2) {
        Some("0x" | "0X") => u64::from_str_radix(&digits[2..], 16).ok()? as f64,
        _ if digits.starts_with(['-', '+']) => return None,
        _ => digits.parse::<f64>().ok()?,
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Prints like `%f`.
pub(super) fn print_fixed(value: f64) -> String {
    if value.is_nan() { "nan".into() } else { format!("{value:.6}") }
}

/// Prints like `%g`: six significant digits, no zeros at the end.
pub(super) fn print_short(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value == 0.0 || value.is_infinite() {
        return format!("{value}");
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trim(&format!("{value:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        for (text, value) in [("1", 1.0), (" -1.5e3", -1500.0), ("0x10", 16.0), ("+.5", 0.5)] {
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["", "x", "1 ", "--1", "(1", "1e"] {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_printed_as_c_does() {
        for (value, text) in [
            (2.0, "2"),
            (0.123_456_789, "0.123457"),
            (12_345_678.0, "1.23457e+07"),
            (1e-7, "1e-07"),
            (100_000.0, "100000"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(print_short(value), text);
        }
        assert_eq!(print_fixed(-1.5), "-1.500000");
    }
}
