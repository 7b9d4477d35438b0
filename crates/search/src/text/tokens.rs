//! Tokens of a text.
//!
//! Blanks, tabs and punctuation except `_` separate tokens. A backslash makes the punctuation or
//! blank after it a part of the token. Other control characters, newlines included, vanish: this is
//! Redis's rule.

use std::borrow::Cow;

const SEPARATOR: u8 = 1;
const VANISHES: u8 = 2;
const UPPER: u8 = 4;
const BACKSLASH: u8 = 8;
const HIGH: u8 = 16;

static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let letter = byte as u8;
        classes[byte] = match letter {
            b'\t' | b' ' => SEPARATOR,
            b'\\' => BACKSLASH,
            b'_' => 0,
            0..32 | 127 => VANISHES,
            b'A'..=b'Z' => UPPER,
            128.. => HIGH,
            _ if letter.is_ascii_punctuation() => SEPARATOR,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// Whether a byte is between words where a text is cut: a separator or a blank.
pub fn is_separator(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & SEPARATOR != 0 || byte.is_ascii_whitespace()
}

/// Splits a text. Tokens are folded; stop words are among them.
pub struct Tokens<'t> {
    text: &'t [u8],
    at: usize,
    /// A token that differs from its bytes in the text.
    changed: Vec<u8>,
}

impl<'t> Tokens<'t> {
    /// Tokens of `text`.
    pub fn new(text: &'t [u8]) -> Self {
        Self::with_buffer(text, Vec::new())
    }

    /// Like [`Self::new`], with memory for tokens that differ from the text.
    pub fn with_buffer(text: &'t [u8], buffer: Vec<u8>) -> Self {
        Self { text, at: 0, changed: buffer }
    }

    /// The memory for tokens.
    pub fn into_buffer(self) -> Vec<u8> {
        self.changed
    }

    /// The end of the last token.
    pub fn end(&self) -> usize {
        self.at
    }

    /// The next token, folded, and the offset of its first byte.
    #[inline]
    pub fn token(&mut self) -> Option<(&[u8], usize)> {
        loop {
            let is_part = |byte: &u8| CLASSES[usize::from(*byte)] & SEPARATOR == 0;
            let start = self.at + self.text.get(self.at..)?.iter().position(is_part)?;
            let mut special = 0;
            let ends = |byte: &u8| {
                let class = CLASSES[usize::from(*byte)];
                special |= class;
                class & (SEPARATOR | BACKSLASH) != 0
            };
            let rest = &self.text[start..];
            let mut end = start + rest.iter().position(ends).unwrap_or(rest.len());
            if special & BACKSLASH != 0 {
                end = self.end_with_escapes(end, &mut special);
            }
            self.at = end;
            if special & !SEPARATOR == 0 {
                return Some((&self.text[start..end], start));
            }
            self.rewrite(start, end, special);
            if !self.changed.is_empty() {
                return Some((&self.changed, start));
            }
        }
    }

    /// The end of a token with a backslash at `at`.
    fn end_with_escapes(&self, mut at: usize, special: &mut u8) -> usize {
        while let Some(&byte) = self.text.get(at) {
            let class = CLASSES[usize::from(byte)];
            if class & SEPARATOR != 0 {
                break;
            }
            *special |= class;
            if class == BACKSLASH && self.is_escape(at) {
                at += 1;
            }
            at += 1;
        }
        at.min(self.text.len())
    }

    fn is_escape(&self, at: usize) -> bool {
        self.text.get(at + 1).is_some_and(|&next| {
            CLASSES[usize::from(next)] & (SEPARATOR | BACKSLASH) != 0 || next == b'_'
        })
    }

    fn rewrite(&mut self, start: usize, end: usize, special: u8) {
        self.changed.clear();
        if special & !SEPARATOR == UPPER {
            self.changed.extend_from_slice(&self.text[start..end]);
            self.changed.make_ascii_lowercase();
            return;
        }
        let mut at = start;
        while at < end {
            let class = CLASSES[usize::from(self.text[at])];
            if class == BACKSLASH {
                if !self.is_escape(at) {
                    at += 1;
                    continue;
                }
                at += 1;
            }
            if class != VANISHES {
                self.changed.push(self.text[at].to_ascii_lowercase());
            }
            at += 1;
        }
        if special & HIGH != 0
            && let Cow::Owned(folded) = fold_unicode(&self.changed)
        {
            self.changed = folded;
        }
    }
}

/// Lower case of a term.
pub fn fold(term: &[u8]) -> Vec<u8> {
    let ascii = term.to_ascii_lowercase();
    match fold_unicode(&ascii) {
        Cow::Owned(folded) => folded,
        Cow::Borrowed(_) => ascii,
    }
}

fn fold_unicode(term: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(term) {
        Ok(text) if text.chars().any(char::is_uppercase) => {
            Cow::Owned(text.to_lowercase().into_bytes())
        }
        _ => Cow::Borrowed(term),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut tokens = Tokens::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some((token, _)) = tokens.token() {
            found.push(String::from_utf8_lossy(token).into_owned());
        }
        found
    }

    #[test]
    fn tokens_are_those_of_redis() {
        let cases: [(&str, &[&str]); 14] = [
            ("Hello, World!", &["hello", "world"]),
            ("don't re-use", &["don", "t", "re", "use"]),
            ("snake_case _ __", &["snake_case", "_", "__"]),
            ("a\\-b c\\ d e\\\\f", &["a-b", "c d", "e\\f"]),
            ("a\\b \\ \\", &["ab", " "]),
            ("line\nbreak tab\there", &["linebreak", "tab", "here"]),
            ("nul\0here \x01 \x7f", &["nulhere"]),
            ("-5 +6 7.5", &["5", "6", "7", "5"]),
            ("ÄÖ straße", &["äö", "straße"]),
            ("中文 text", &["中文", "text"]),
            ("$5@x #y", &["5", "x", "y"]),
            ("", &[]),
            (" ,.;", &[]),
            ("a\\_b", &["a_b"]),
        ];
        for (text, expected) in cases {
            assert_eq!(tokens(text), expected, "{text:?}");
        }
    }

    #[test]
    fn offsets_are_of_the_text() {
        let mut tokens = Tokens::new(b"  ab, CD");
        assert_eq!(tokens.token(), Some((&b"ab"[..], 2)));
        assert_eq!(tokens.token(), Some((&b"cd"[..], 6)));
        assert_eq!(tokens.token(), None);
    }
}
