//! Header lines: a marker, a decimal number, an end of line.

/// The bytes that end a line.
pub(crate) const LINE_END_LEN: usize = 2;

/// A header line that was read whole.
pub(crate) struct Header {
    pub(crate) value: usize,
    /// Position after the line's end.
    pub(crate) end: usize,
}

/// Reads the header at `position` if it has the form that every client sends: `marker`, one to nine
/// digits without a leading zero, CR LF. Anything else is `None`: let the caller look closer.
#[inline(always)]
pub(crate) fn short_header(buf: &[u8], position: usize, marker: u8) -> Option<Header> {
    let rest = buf.get(position..)?;
    let head = rest.first_chunk::<4>()?;
    let first = head[1].wrapping_sub(b'0');
    if head[0] != marker || first > 9 {
        return None;
    }
    if head[2] == b'\r' {
        let end = position + 4;
        return (head[3] == b'\n').then_some(Header { value: usize::from(first), end });
    }
    if first == 0 {
        return None;
    }
    let mut value = usize::from(first);
    for at in 2..11 {
        let byte = *rest.get(at)?;
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let ended = byte == b'\r' && rest.get(at + 1) == Some(&b'\n');
            return ended.then_some(Header { value, end: position + at + LINE_END_LEN });
        }
        value = value * 10 + usize::from(digit);
    }
    None
}

/// Reads a decimal number as strictly as Redis does: an optional minus, then digits without a leading
/// zero; no plus, no blanks, no `-0`, and nothing beyond 64 bits.
pub(crate) fn strict_integer(digits: &[u8]) -> Option<i64> {
    let (negative, magnitude) = match digits {
        [b'-', magnitude @ ..] => (true, magnitude),
        _ => (false, digits),
    };
    match magnitude {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if magnitude.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for byte in magnitude {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_headers() {
        let read = |text: &[u8]| short_header(text, 0, b'$').map(|h| (h.value, h.end));
        assert_eq!(read(b"$0\r\n"), Some((0, 4)));
        assert_eq!(read(b"$7\r\nx"), Some((7, 4)));
        assert_eq!(read(b"$16\r\n"), Some((16, 5)));
        assert_eq!(read(b"$536870912\r\n"), Some((536_870_912, 12)));
        for odd in [
            &b"$01\r\n"[..],
            b"$-1\r\n",
            b"$1\n__",
            b"$1\rX",
            b"$12\rX",
            b"$12",
            b"$12\r",
            b"*1\r\n",
            b"$1234567890\r\n",
            b"",
        ] {
            assert_eq!(read(odd), None, "{}", odd.escape_ascii());
        }
    }

    #[test]
    fn strict_integers() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN, 1_234_567_890] {
            assert_eq!(strict_integer(number.to_string().as_bytes()), Some(number));
        }
        for odd in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "-01",
            "+1",
            " 1",
            "1 ",
            "a",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(strict_integer(odd.as_bytes()), None, "{odd}");
        }
    }
}
