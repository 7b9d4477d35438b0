//! A look at a command that is not parsed yet.

/// The nth argument of a command (its name is argument 0) if the input begins in RESP with all
/// arguments up to it; otherwise none. A guess: the command may not exist.
#[inline]
pub fn argument(input: &[u8], n: usize) -> Option<&[u8]> {
    let rest = input.strip_prefix(b"*")?;
    let (count, mut rest) = number(rest)?;
    if n >= count {
        return None;
    }
    for _ in 0..n {
        (_, rest) = bulk(rest)?;
    }
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
    fn arguments_are_found() {
        assert_eq!(argument(b"*2\r\n$3\r\nGET\r\n$5\r\nhello\r\n", 1), Some(&b"hello"[..]));
        assert_eq!(argument(b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$1000\r\nx", 1), Some(&b""[..]));
        let eval = b"*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nkey\r\n";
        let all = [&b"EVAL"[..], b"return 1", b"1", b"key"];
        for (n, argument) in all.into_iter().enumerate() {
            assert_eq!(super::argument(eval, n), Some(argument));
        }
        assert_eq!(argument(&[&eval[..], b"$1\r\nx\r\n"].concat(), 4), None);
    }

    #[test]
    fn anything_else_is_none() {
        let whole = b"*3\r\n$3\r\nSET\r\n$5\r\nhello\r\n";
        for end in 0..whole.len() {
            assert_eq!(argument(&whole[..end], 1), None, "{end}");
        }
        for other in [
            &b"*1\r\n$4\r\nPING\r\n"[..],
            b"PING hello\r\n",
            b"*2\r\n$3\r\nGET\r\n$99999\r\nhello\r\n",
            b"*2\r\n$3\r\nGET\r\n$9999999999999999999999\r\nhello\r\n",
            b"*\r\n$\r\n$\r\n",
            b"*2\r\n$-1\r\n$-1\r\n",
        ] {
            assert_eq!(argument(other, 1), None, "{other:?}");
        }
    }
}
