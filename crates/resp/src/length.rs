//! Header lines: a marker, a decimal number, an end of line.

/// The bytes that end a line.
pub(crate) const LINE_END_LEN: usize = 2;

/// A header line that was read whole.
pub(crate) struct Header {
    pub(crate) value: usize,
    /// Position after the line's end.
    pub(crate) end: usize,
}

/// Reads the header at `position` if it has the form that nearly all have: `marker`, one to five
/// digits without a leading zero, CR LF. Anything else is `None`: let the caller look closer.
///
/// The next header's place depends on this one's value, so latency counts: each number of digits
/// has its own predicted branch and a chain of a few cycles, which beats finding the line's end
/// first.
#[inline(always)]
pub(crate) fn short_header(buf: &[u8], position: usize, marker: u8) -> Option<Header> {
    const CRLF: u16 = u16::from_le_bytes(*b"\r\n");
    let rest = buf.get(position..)?;
    let word = u64::from_le_bytes(match rest.first_chunk::<8>() {
        Some(chunk) => *chunk,
        None => padded(rest),
    });
    let mut value = usize::from((word >> 8) as u8).wrapping_sub(usize::from(b'0'));
    if word as u8 != marker || value > 9 {
        return None;
    }
    if (word >> 16) as u16 == CRLF {
        return Some(Header { value, end: position + 4 });
    }
    if value == 0 {
        return None;
    }
    for digits in 2..=5 {
        let digit = ((word >> (8 * digits)) as u8).wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + usize::from(digit);
        if (word >> (8 * digits + 8)) as u16 == CRLF {
            return Some(Header { value, end: position + digits + 1 + LINE_END_LEN });
        }
    }
    None
}

/// The last bytes of the buffer, filled up with zeros, which are neither digits nor a line end.
fn padded(rest: &[u8]) -> [u8; 8] {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(rest) {
        *to = *from;
    }
    word
}

/// Reads a decimal number as strictly as Redis does: an optional minus, then digits without a
/// leading zero; no plus, no blanks, no `-0`, and nothing beyond 64 bits.
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
        assert_eq!(read(b"$512\r\n"), Some((512, 6)));
        assert_eq!(read(b"$1024\r\n"), Some((1024, 7)));
        assert_eq!(read(b"$65535\r\n"), Some((65_535, 8)));
        for odd in [
            &b"$01\r\n"[..],
            b"$-1\r\n",
            b"$1\n__",
            b"$1\rX",
            b"$12\rX",
            b"$12",
            b"$12\r",
            b"*1\r\n",
            b"$123456\r\n",
            b"$1234\r",
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
