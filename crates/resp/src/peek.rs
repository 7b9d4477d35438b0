//! A look at a command that is not parsed yet.

/// The first argument after a command's name, which most often is its key, if the input begins with a whole name and key in
/// RESP; else none. What it says is a guess: the command may be none, and the argument no key.
#[inline]
pub fn first_argument(input: &[u8]) -> Option<&[u8]> {
    let rest = input.strip_prefix(b"*")?;
    let (_, rest) = number(rest)?;
    let (_, rest) = bulk(rest)?;
    bulk(rest).map(|(argument, _)| argument)
}

/// A bulk string and what follows it.
#[inline]
fn bulk(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = number(input.strip_prefix(b"$")?)?;
    let (bytes, rest) = rest.split_at_checked(len)?;
    Some((bytes, rest.strip_prefix(b"\r\n")?))
}

/// A number of few digits, its line's end, and what follows.
#[inline]
fn number(input: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0;
    for (i, byte) in input.iter().take(DIGITS_MAX).enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + usize::from(byte - b'0'),
            b'\r' if i > 0 => return Some((number, input[i + 1..].strip_prefix(b"\n")?)),
            _ => return None,
        }
    }
    None
}

/// Digits of a length that is worth a look, and the line's end.
const DIGITS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_after_the_name_is_found() {
        assert_eq!(first_argument(b"*2\r\n$3\r\nGET\r\n$5\r\nhello\r\n"), Some(&b"hello"[..]));
        assert_eq!(first_argument(b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$1000\r\nx"), Some(&b""[..]));
    }

    #[test]
    fn anything_else_is_none() {
        let whole = b"*3\r\n$3\r\nSET\r\n$5\r\nhello\r\n";
        for end in 0..whole.len() {
            assert_eq!(first_argument(&whole[..end]), None, "{end}");
        }
        for other in [
            &b"*1\r\n$4\r\nPING\r\n"[..],
            b"PING hello\r\n",
            b"*2\r\n$3\r\nGET\r\n$99999\r\nhello\r\n",
            b"*2\r\n$3\r\nGET\r\n$9999999999999999999999\r\nhello\r\n",
            b"*\r\n$\r\n$\r\n",
            b"*2\r\n$-1\r\n$-1\r\n",
        ] {
            assert_eq!(first_argument(other), None, "{other:?}");
        }
    }
}
