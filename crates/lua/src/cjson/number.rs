//! Numbers as C's `strtod` reads them.

/// Exponents beyond which nothing changes.
const EXPONENT_MAX: i32 = 100_000;

/// The number at the beginning of `text`, and its length; none if there is none.
pub(super) fn parse(text: &[u8]) -> Option<(f64, usize)> {
    let signs = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let (value, len) = parse_unsigned(&text[signs..])?;
    Some((if negative { -value } else { value }, signs + len))
}

/// Whether the text begins with a number that JSON does not know: with a plus, a zero before other
/// digits, in hexadecimal, infinite, or none.
pub(super) fn is_unknown_to_json(text: &[u8]) -> bool {
    let text = match text.first() {
        Some(b'+') => return true,
        Some(b'-') => &text[1..],
        _ => text,
    };
    match text {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [b'0'..=b'9', ..] => false,
        _ => begins(text, b"inf") || begins(text, b"nan"),
    }
}

fn begins(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn parse_unsigned(text: &[u8]) -> Option<(f64, usize)> {
    for (word, value) in
        [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)]
    {
        if begins(text, word) {
            return Some((value, word.len()));
        }
    }
    if begins(text, b"0x") && text.get(2).is_some_and(u8::is_ascii_hexdigit) {
        return Some(parse_hexadecimal(text));
    }
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    let mut fraction = 0;
    if text.get(len) == Some(&b'.') {
        fraction = digits(len + 1);
        len += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(len) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'-' | b'+')));
        let exponent = if len + 1 + sign <= text.len() { digits(len + 1 + sign) } else { 0 };
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    let value = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((value, len))
}

fn parse_hexadecimal(text: &[u8]) -> (f64, usize) {
    let (mut value, mut exponent, mut len, mut behind_point) = (0.0f64, 0i32, 2, false);
    while let Some(&byte) = text.get(len) {
        match char::from(byte).to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                exponent -= if behind_point { 4 } else { 0 };
            }
            None if byte == b'.' && !behind_point => behind_point = true,
            None => break,
        }
        len += 1;
    }
    if let Some(b'p' | b'P') = text.get(len) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'-' | b'+')));
        let digits: &[u8] = text.get(len + 1 + sign..).unwrap_or_default();
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count > 0 {
            let power = digits[..count]
                .iter()
                .fold(0, |n: i32, digit| (n * 10 + i32::from(digit - b'0')).min(EXPONENT_MAX));
            exponent += if text[len + 1] == b'-' { -power } else { power };
            len += 1 + sign + count;
        }
    }
    (value * 2f64.powi(exponent), len)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn what_strtod_reads() {
        for (text, value, len) in [
            ("1", 1.0, 1),
            ("-1.5e3x", -1500.0, 6),
            ("1.", 1.0, 2),
            ("1e", 1.0, 1),
            ("1e+", 1.0, 1),
            ("0x10", 16.0, 4),
            ("0x1.8p1]", 3.0, 7),
            ("+7", 7.0, 2),
            ("-Infinity", f64::NEG_INFINITY, 9),
        ] {
            assert_eq!(parse(text.as_bytes()), Some((value, len)), "{text}");
        }
        assert_eq!(parse(b"-"), None);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"x"), None);
    }
}
