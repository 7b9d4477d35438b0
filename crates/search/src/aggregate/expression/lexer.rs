//! Tokens of an expression. Bytes that begin none are skipped.

use super::Operator;

/// Kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TokenKind {
    End,
    Number(f64),
    /// A name: of a function, or `NULL`.
    Symbol,
    /// `@name`
    Property,
    /// `'text'` or `"text"`
    Text,
    Operator(Operator),
    Not,
    Open,
    Close,
    Comma,
}

/// A token with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub kind: TokenKind,
    pub start: usize,
    /// The bytes: of a property without `@`, of a text with its quotes.
    pub bytes: &'t [u8],
}

pub(super) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    /// Start of the last token.
    last: usize,
}

impl<'t> Lexer<'t> {
    pub fn new(text: &'t [u8]) -> Self {
        Lexer { text, at: 0, last: 0 }
    }

    /// The next token. At the end it has the place of the last one.
    pub fn next(&mut self) -> Token<'t> {
        while self.at < self.text.len() {
            if let Some((kind, len)) = self.token(&self.text[self.at..]) {
                let start = self.at;
                self.at += len;
                self.last = start;
                let skipped = usize::from(kind == TokenKind::Property);
                return Token { kind, start, bytes: &self.text[start + skipped..start + len] };
            }
            self.at += 1;
        }
        Token { kind: TokenKind::End, start: self.last, bytes: b"" }
    }

    fn token(&self, text: &[u8]) -> Option<(TokenKind, usize)> {
        let operator = |operator, len| Some((TokenKind::Operator(operator), len));
        match text {
            [b'|', b'|', ..] => operator(Operator::Or, 2),
            [b'&', b'&', ..] => operator(Operator::And, 2),
            [b'=', b'=', ..] => operator(Operator::Equal, 2),
            [b'!', b'=', ..] => operator(Operator::NotEqual, 2),
            [b'<', b'=', ..] => operator(Operator::LessOrEqual, 2),
            [b'>', b'=', ..] => operator(Operator::GreaterOrEqual, 2),
            [b'<', ..] => operator(Operator::Less, 1),
            [b'>', ..] => operator(Operator::Greater, 1),
            [b'!', ..] => Some((TokenKind::Not, 1)),
            [b'(', ..] => Some((TokenKind::Open, 1)),
            [b')', ..] => Some((TokenKind::Close, 1)),
            [b',', ..] => Some((TokenKind::Comma, 1)),
            [b'*', ..] => operator(Operator::Multiply, 1),
            [b'/', ..] => operator(Operator::Divide, 1),
            [b'%', ..] => operator(Operator::Modulo, 1),
            [b'^', ..] => operator(Operator::Power, 1),
            [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..] => number(text),
            [sign @ (b'-' | b'+'), b'i', b'n', b'f', ..] => {
                let number = if *sign == b'-' { f64::NEG_INFINITY } else { f64::INFINITY };
                Some((TokenKind::Number(number), 4))
            }
            [b'-', ..] => operator(Operator::Subtract, 1),
            [b'+', ..] => operator(Operator::Add, 1),
            [b'@', b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {
                Some((TokenKind::Property, 1 + name_len(&text[1..])))
            }
            [b'a'..=b'z' | b'A'..=b'Z', ..] => Some((TokenKind::Symbol, name_len(text))),
            [quote @ (b'\'' | b'"'), ..] => quoted(text, *quote),
            _ => None,
        }
    }
}

fn name_len(text: &[u8]) -> usize {
    text.iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_').count()
}

fn digits_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn number(text: &[u8]) -> Option<(TokenKind, usize)> {
    let sign = usize::from(text[0] == b'-');
    let mut len = sign + digits_len(&text[sign..]);
    if text.get(len) == Some(&b'.') {
        let decimals = digits_len(&text[len + 1..]);
        len += if decimals > 0 { 1 + decimals } else { 0 };
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(text.get(len + 1) == Some(&b'-'));
        let exponent = text.get(len + 1 + sign..).map_or(0, digits_len);
        len += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let number = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((TokenKind::Number(number), len))
}

/// A quote after a backslash ends the text only if no later one does.
fn quoted(text: &[u8], quote: u8) -> Option<(TokenKind, usize)> {
    let mut end = None;
    for at in memchr::memchr_iter(quote, &text[1..]) {
        end = Some(at + 2);
        if at == 0 || text[at] != b'\\' {
            break;
        }
    }
    end.map(|end| (TokenKind::Text, end))
}
