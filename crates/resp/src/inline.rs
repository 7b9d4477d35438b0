//! Requests typed by hand, as over telnet: words separated by blanks, with quotes.

use crate::ProtocolError;

/// Splits a line into words.
///
/// Blanks are space, tab, LF, VT, FF and CR, and NUL is none. Inside double quotes `\n \r \t \b \a`
/// and `\xHH` stand for bytes, and a backslash before any other byte stands for that byte; inside
/// single quotes only `\'` is special. Quotes may start in the middle of a word, but a closing
/// quote must end it.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(words);
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
}

/// Reads one word, which is empty only if quoted; returns what follows it.
fn word(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), ProtocolError> {
    let mut word = Vec::new();
    while let [byte, after @ ..] = rest {
        match byte {
            b'"' => {
                rest = double_quoted(after, &mut word)?;
                return ends_word(rest).map(|()| (word, rest));
            }
            b'\'' => {
                rest = single_quoted(after, &mut word)?;
                return ends_word(rest).map(|()| (word, rest));
            }
            byte if is_blank(*byte) => break,
            byte => word.push(*byte),
        }
        rest = after;
    }
    Ok((word, rest))
}

/// Reads up to the closing double quote; returns what follows it.
fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex_digit(*high) << 4 | hex_digit(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(ProtocolError::UnbalancedQuotes),
        }
    }
}

/// Reads up to the closing single quote; returns what follows it.
fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(ProtocolError::UnbalancedQuotes),
        }
    }
}

/// Checks that a closing quote is followed by a blank or the end of the line.
fn ends_word(rest: &[u8]) -> Result<(), ProtocolError> {
    match rest.first() {
        Some(byte) if !is_blank(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(()),
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The value of an ASCII hexadecimal digit.
fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => (byte | 0x20) - b'a' + 10,
    }
}
