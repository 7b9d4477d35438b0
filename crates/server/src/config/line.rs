//! Lines of a configuration file: splitting into arguments, and quoting.

/// A quote that is not closed, or is followed by something other than a blank.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct UnbalancedQuotes;

/// Splits at blanks. `"..."` may hold `\n \r \t \a \b \xHH` and any other character after a
/// backslash for itself; `'...'` knows only `\'`.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut args = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let (arg, behind) = next_argument(rest)?;
        args.push(arg);
        rest = behind.trim_ascii_start();
    }
    Ok(args)
}

/// Writes one argument so that [`split`] reads it back. Bytes of UTF-8 text are left as they are.
pub(super) fn quote(arg: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\' | b'#');
    if !arg.is_empty() && arg.iter().all(plain) {
        return arg.to_vec();
    }
    let mut quoted = vec![b'"'];
    for &byte in arg {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', byte]),
            b'\n' => quoted.extend(b"\\n"),
            b'\r' => quoted.extend(b"\\r"),
            b'\t' => quoted.extend(b"\\t"),
            0..b' ' | 0x7f => quoted.extend(format!("\\x{byte:02x}").bytes()),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// A whole line from its arguments, without the line feed.
pub(super) fn join(args: &[Vec<u8>]) -> Vec<u8> {
    args.iter().map(|arg| quote(arg)).collect::<Vec<_>>().join(&b' ')
}

/// Reads up to a blank outside quotes. Quotes may begin inside an argument, as in Redis.
fn next_argument(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), UnbalancedQuotes> {
    let mut arg = Vec::new();
    loop {
        match rest {
            [] => return Ok((arg, rest)),
            [b, ..] if b.is_ascii_whitespace() => return Ok((arg, rest)),
            [b'"', behind @ ..] => {
                rest = double_quoted(behind, &mut arg)?;
                return end_of_quotes(rest).map(|()| (arg, rest));
            }
            [b'\'', behind @ ..] => {
                rest = single_quoted(behind, &mut arg)?;
                return end_of_quotes(rest).map(|()| (arg, rest));
            }
            [b, behind @ ..] => {
                arg.push(*b);
                rest = behind;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], arg: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match rest {
            [b'"', behind @ ..] => return Ok(behind),
            [b'\\', b'x', high, low, behind @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                arg.push(hex(*high) << 4 | hex(*low));
                rest = behind;
            }
            [b'\\', escaped, behind @ ..] => {
                arg.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = behind;
            }
            [b, behind @ ..] => {
                arg.push(*b);
                rest = behind;
            }
            [] => return Err(UnbalancedQuotes),
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], arg: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match rest {
            [b'\'', behind @ ..] => return Ok(behind),
            [b'\\', b'\'', behind @ ..] => {
                arg.push(b'\'');
                rest = behind;
            }
            [b, behind @ ..] => {
                arg.push(*b);
                rest = behind;
            }
            [] => return Err(UnbalancedQuotes),
        }
    }
}

fn end_of_quotes(rest: &[u8]) -> Result<(), UnbalancedQuotes> {
    match rest.first() {
        Some(b) if !b.is_ascii_whitespace() => Err(UnbalancedQuotes),
        _ => Ok(()),
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Result<Vec<String>, UnbalancedQuotes> {
        let args = split(line.as_bytes())?;
        Ok(args.into_iter().map(|arg| String::from_utf8_lossy(&arg).into_owned()).collect())
    }

    #[test]
    fn blanks_quotes_and_escapes() {
        let cases: [(&str, &[&str]); 8] = [
            ("", &[]),
            ("  save \t \"\" ", &["save", ""]),
            (r#"a "b c" d"#, &["a", "b c", "d"]),
            (r#""\x41\n\q\"\x4""#, &["A\nq\"x4"]),
            (r"'it\'s \n'", &[r"it's \n"]),
            (r#"pre"fix ed""#, &["prefix ed"]),
            ("a # b", &["a", "#", "b"]),
            ("über", &["über"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn quotes_must_close_before_a_blank() {
        for line in ["\"", "save \"", "'a", "\"a\"b", "'a''b'", r#""a\""#] {
            assert_eq!(words(line), Err(UnbalancedQuotes), "{line}");
        }
    }

    #[test]
    fn only_what_needs_it_is_quoted() {
        for (arg, text) in [("a", "a"), ("", "\"\""), ("a b", "\"a b\""), ("\u{1}", "\"\\x01\"")] {
            assert_eq!(quote(arg.as_bytes()), text.as_bytes());
        }
        assert_eq!(quote("ü \"".as_bytes()), "\"ü \\\"\"".as_bytes());
    }

    proptest! {
        #[test]
        fn joined_arguments_split_into_themselves(
            args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..5),
        ) {
            let line = join(&args);
            prop_assert!(!line.contains(&b'\n'));
            prop_assert_eq!(split(&line).unwrap(), args);
        }

        #[test]
        fn no_line_makes_it_panic(line in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = split(&line);
        }
    }
}
