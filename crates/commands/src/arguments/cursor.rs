//! Text of a SCAN cursor.

/// Parses a cursor. Accepts leading spaces and a plus sign, like C's `strtoull`.
pub(crate) fn parse_cursor(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        for (text, number) in
            [("0", 0), ("+7", 7), (" 12", 12), ("18446744073709551615", u64::MAX), ("007", 7)]
        {
            assert_eq!(parse_cursor(text.as_bytes()), Some(number), "{text}");
        }
        for text in ["", "+", "-1", "1 ", "++1", "x", "0x1", "18446744073709551616"] {
            assert_eq!(parse_cursor(text.as_bytes()), None, "{text}");
        }
    }
}
