//! Tokens of a query.
//!
//! At each place the longest token wins. Bytes that begin none (blanks, control characters, most
//! punctuation) separate tokens. A NUL ends the query.

use super::Dialect;
use memchr::memchr;
use std::ops::Range;

/// Kinds of tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TokenKind {
    End,
    /// Letters, digits, `_`, bytes above 127 and escaped punctuation.
    Term,
    /// A term that is a stop word.
    StopWord,
    /// `ismissing`
    IsMissing,
    /// A number; the sign belongs to it.
    Number,
    /// `abc*`
    Prefix,
    /// `*abc`
    Suffix,
    /// `*abc*`
    Infix,
    /// `w'a?c*'`
    Wildcard,
    /// `"a b"` as one token (from dialect 2 on).
    Quoted,
    /// `'a b'` as one token (from dialect 2 on).
    SingleQuoted,
    /// `""` and `''`
    EmptyString,
    /// `"` alone.
    Quote,
    /// `@name`
    Modifier,
    /// `$name`
    Attribute,
    /// `=>`
    Arrow,
    OpenParenthesis,
    CloseParenthesis,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    Or,
    Minus,
    Tilde,
    Colon,
    Semicolon,
    Star,
    Percent,
    /// `==`, `!=`, `>`, `>=`, `<`, `<=` after a modifier.
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// Origin of a token's text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum TextForm {
    /// A word of the query.
    #[default]
    Word,
    /// The name of a parameter.
    Parameter,
    /// The contents of a string in quotes.
    Quoted,
}

/// A token, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub form: TextForm,
    /// Offset of its first byte.
    pub position: usize,
    /// Text without quotes and marks. Empty for punctuation.
    pub text: Range<usize>,
}

/// Reads the tokens of a query one by one.
pub(super) struct Lexer<'q> {
    query: &'q [u8],
    offset: usize,
    dialect: Dialect,
    /// The token before, if it matters.
    before: Before,
    /// The last token was the operand of a comparison: errors do not name it.
    pub compared: bool,
}

/// Tokens after which others are read differently.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Before {
    Other,
    /// `@name`: a comparison may follow.
    Modifier,
    /// A comparison: a number or parameter follows.
    Comparison,
}

/// A token as it is found: its kind (`None` for separators), its text, its end.
struct Found {
    kind: Option<TokenKind>,
    form: TextForm,
    text: Range<usize>,
    end: usize,
}

impl Found {
    fn separator(end: usize) -> Self {
        Self { kind: None, form: TextForm::Word, text: 0..0, end }
    }

    fn mark(kind: TokenKind, end: usize) -> Self {
        Self { kind: Some(kind), ..Self::separator(end) }
    }

    fn text(kind: TokenKind, text: Range<usize>, end: usize) -> Self {
        Self { kind: Some(kind), form: TextForm::Word, text, end }
    }
}

impl<'q> Lexer<'q> {
    pub fn new(query: &'q [u8], dialect: Dialect) -> Self {
        let end = memchr(0, query).unwrap_or(query.len());
        Self { query: &query[..end], offset: 0, dialect, before: Before::Other, compared: false }
    }

    /// The next token.
    pub fn next(&mut self, is_stop_word: &dyn Fn(&[u8]) -> bool) -> Token {
        while self.offset < self.query.len() {
            let position = self.offset;
            let found = match self.before {
                Before::Comparison => self.compared(position),
                _ => self.longest(position),
            };
            self.offset = found.end;
            let Some(mut kind) = found.kind else {
                if !self.query[position].is_ascii_whitespace() && self.before == Before::Modifier {
                    self.before = Before::Other;
                }
                continue;
            };
            self.compared = self.before == Before::Comparison;
            if kind == TokenKind::Term {
                kind = self.classify_term(&self.query[found.text.clone()], is_stop_word);
            }
            self.before = match kind {
                TokenKind::Modifier => Before::Modifier,
                TokenKind::Equal
                | TokenKind::NotEqual
                | TokenKind::Greater
                | TokenKind::GreaterOrEqual
                | TokenKind::Less
                | TokenKind::LessOrEqual => Before::Comparison,
                TokenKind::Minus => self.before,
                _ => Before::Other,
            };
            return Token { kind, form: found.form, position, text: found.text };
        }
        let position = self.query.len();
        Token { kind: TokenKind::End, form: TextForm::Word, position, text: 0..0 }
    }

    fn classify_term(&self, text: &[u8], is_stop_word: &dyn Fn(&[u8]) -> bool) -> TokenKind {
        if self.dialect.is_modern() && text.eq_ignore_ascii_case(b"ismissing") {
            TokenKind::IsMissing
        } else if is_stop_word(text) {
            TokenKind::StopWord
        } else {
            TokenKind::Term
        }
    }

    /// The longest token at `at`.
    fn longest(&self, at: usize) -> Found {
        if let Some(pattern) = self.pattern(at) {
            return pattern;
        }
        let modern = self.dialect.is_modern();
        let number = self.number_end(at);
        let term = term_end(self.query, at);
        if number > at && number >= term {
            return Found::text(TokenKind::Number, at..number, number);
        }
        if term > at {
            let is_underscore = term == at + 1 && self.query[at] == b'_';
            return match is_underscore {
                true => Found::separator(term),
                false => Found::text(TokenKind::Term, at..term, term),
            };
        }
        match self.query[at] {
            b'*' => Found::mark(TokenKind::Star, at + 1),
            b'@' => self.named(at, TokenKind::Modifier),
            b'$' => self.named(at, TokenKind::Attribute),
            b'"' if modern => self.quoted(at, TokenKind::Quoted),
            b'\'' if modern => self.quoted(at, TokenKind::SingleQuoted),
            b'=' if self.query.get(at + 1) == Some(&b'>') => {
                Found::text(TokenKind::Arrow, at + 1..(at + 3).min(self.query.len()), at + 2)
            }
            b'=' | b'!' | b'<' | b'>' if modern && self.before == Before::Modifier => {
                self.comparison(at)
            }
            byte => match punctuation(byte) {
                Some(kind) => Found::mark(kind, at + 1),
                None => Found::separator(at + 1),
            },
        }
    }

    /// `w'..'`, or a text with stars before or after it.
    fn pattern(&self, at: usize) -> Option<Found> {
        if self.dialect.is_modern() && self.query[at..].starts_with(b"w'") {
            let close = self.closing_quote(at + 2, b'\'').filter(|&close| close > at + 2);
            if let Some(close) = close {
                let is_parameter = self.query[at + 2] == b'$' && close > at + 3;
                let form = if is_parameter { TextForm::Parameter } else { TextForm::Word };
                let text = at + 2 + usize::from(is_parameter)..close;
                return Some(Found { kind: Some(TokenKind::Wildcard), form, text, end: close + 1 });
            }
        }
        let starts = self.query[at] == b'*';
        let (form, text, end) = self.starred_text(at + usize::from(starts))?;
        let ends = self.query.get(end) == Some(&b'*');
        let kind = match (starts, ends) {
            (true, true) => TokenKind::Infix,
            (true, false) => TokenKind::Suffix,
            (false, true) => TokenKind::Prefix,
            (false, false) => return None,
        };
        Some(Found { kind: Some(kind), form, text, end: end + usize::from(ends) })
    }

    /// The text of a pattern: a word, a parameter, a string.
    fn starred_text(&self, at: usize) -> Option<(TextForm, Range<usize>, usize)> {
        let modern = self.dialect.is_modern();
        let (form, from) = match self.query.get(at)? {
            b'$' if modern => (TextForm::Parameter, at + 1),
            b'"' if modern => {
                let close = self.closing_quote(at + 1, b'"').filter(|&close| close > at + 1)?;
                return Some((TextForm::Quoted, at + 1..close, close + 1));
            }
            _ => (TextForm::Word, at),
        };
        let mut end = term_end(self.query, from);
        if form == TextForm::Word && from < self.query.len() {
            end = end.max(self.number_end(from));
        }
        (end > from).then_some((form, from..end, end))
    }

    fn named(&self, at: usize, kind: TokenKind) -> Found {
        let end = term_end(self.query, at + 1);
        match end == at + 1 {
            true => Found::separator(end),
            false => Found::text(kind, at + 1..end, end),
        }
    }

    fn quoted(&self, at: usize, kind: TokenKind) -> Found {
        match self.closing_quote(at + 1, self.query[at]) {
            Some(close) if close == at + 1 => Found::mark(TokenKind::EmptyString, close + 1),
            Some(close) => Found {
                kind: Some(kind),
                form: TextForm::Quoted,
                text: at + 1..close,
                end: close + 1,
            },
            None if kind == TokenKind::Quoted => Found::mark(TokenKind::Quote, at + 1),
            None => Found::separator(at + 1),
        }
    }

    /// Offset of the quote that closes a string: the first that is not escaped, else the last
    /// escaped one.
    fn closing_quote(&self, from: usize, quote: u8) -> Option<usize> {
        let mut last_escaped = None;
        let mut at = from;
        while let Some(next) = memchr(quote, self.query.get(at..)?) {
            let found = at + next;
            if found == from || self.query[found - 1] != b'\\' {
                return Some(found);
            }
            last_escaped = Some(found);
            at = found + 1;
        }
        last_escaped
    }

    /// A comparison, if a number or a parameter follows.
    fn comparison(&self, at: usize) -> Found {
        let with_equal = self.query.get(at + 1) == Some(&b'=');
        let kind = match (self.query[at], with_equal) {
            (b'=', true) => TokenKind::Equal,
            (b'!', true) => TokenKind::NotEqual,
            (b'>', true) => TokenKind::GreaterOrEqual,
            (b'<', true) => TokenKind::LessOrEqual,
            (b'>', false) => TokenKind::Greater,
            (b'<', false) => TokenKind::Less,
            _ => return Found::separator(at + 1),
        };
        let end = at + 1 + usize::from(with_equal);
        let blanks = self.query[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match self.compared(end + blanks).kind {
            Some(_) => Found::mark(kind, end),
            None => Found::separator(at + 1),
        }
    }

    /// A number, a parameter or the sign of a parameter, after a comparison.
    fn compared(&self, at: usize) -> Found {
        let Some(&byte) = self.query.get(at) else { return Found::separator(at) };
        let number = self.number_end(at);
        if number > at && !(number == at + 4 && term_end(self.query, at) > number) {
            return Found::text(TokenKind::Number, at..number, number);
        }
        let name = at + usize::from(byte == b'-');
        if self.query.get(name) == Some(&b'$') && term_end(self.query, name + 1) > name + 1 {
            return match name == at {
                true => self.named(at, TokenKind::Attribute),
                false => Found::mark(TokenKind::Minus, name),
            };
        }
        Found::separator(at + 1)
    }

    /// End of the number at `at`; `at` itself if there is none.
    fn number_end(&self, at: usize) -> usize {
        let modern = self.dialect.is_modern();
        let signed = self.query[at] == b'-' || (modern && self.query[at] == b'+');
        let start = at + usize::from(signed);
        let word = at + usize::from(signed || self.query[at] == b'+');
        let is_infinite = self.query.get(word..word + 3).is_some_and(|word| {
            if modern { word.eq_ignore_ascii_case(b"inf") } else { word == b"inf" }
        });
        if is_infinite {
            return word + 3;
        }
        let rest = &self.query[start..];
        let digits = |from: usize| {
            from + rest.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut end = digits(0);
        if end == 0 {
            return at;
        }
        if rest.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
            end = digits(end + 1);
        }
        let exponent = rest.get(end).is_some_and(|&byte| byte == b'e' || (modern && byte == b'E'));
        if exponent {
            let sign = match rest.get(end + 1) {
                Some(b'-') => 1,
                Some(b'+') if modern => 1,
                _ => 0,
            };
            let from = end + 1 + sign;
            if digits(from) > from {
                end = digits(from);
            }
        }
        start + end
    }
}

/// End of the run of term bytes at `at`.
pub(super) fn term_end(query: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = query.get(at) {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 128 {
            at += 1;
        } else if byte == b'\\' && query.get(at + 1).is_some_and(|&next| is_escapable(next)) {
            at += 2;
        } else {
            break;
        }
    }
    at
}

/// True for bytes that a backslash makes part of a term: blanks and punctuation.
pub(super) fn is_escapable(byte: u8) -> bool {
    byte.is_ascii_punctuation() || matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Removes the backslashes in front of blanks and punctuation.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'\\' && text.get(at + 1).is_some_and(|&next| is_escapable(next)) {
            at += 1;
        }
        plain.push(text[at]);
        at += 1;
    }
    plain
}

fn punctuation(byte: u8) -> Option<TokenKind> {
    Some(match byte {
        b'(' => TokenKind::OpenParenthesis,
        b')' => TokenKind::CloseParenthesis,
        b'{' => TokenKind::OpenBrace,
        b'}' => TokenKind::CloseBrace,
        b'[' => TokenKind::OpenBracket,
        b']' => TokenKind::CloseBracket,
        b'|' => TokenKind::Or,
        b'-' => TokenKind::Minus,
        b'~' => TokenKind::Tilde,
        b':' => TokenKind::Colon,
        b';' => TokenKind::Semicolon,
        b'%' => TokenKind::Percent,
        b'"' => TokenKind::Quote,
        _ => return None,
    })
}
