//! The grammar of paths. Expressions and filters: `parse_expr.rs`.

use super::expr::Expr;
use super::{PathError, SELECTORS_MAX, Segment, Selector};
use crate::parse::{Parse, parse as parse_json};

/// A path that is being read.
pub(super) struct Reader<'t> {
    pub text: &'t str,
    pub at: usize,
    selectors: usize,
    pub patterns: usize,
    pub nesting: usize,
}

pub(super) type Parsed<T> = Result<T, PathError>;

/// The parts of a path, or a projection, and how many patterns they have.
pub(super) fn query(text: &str, is_legacy: bool) -> Parsed<(Expr, usize)> {
    let mut reader = Reader { text, at: 0, selectors: 0, patterns: 0, nesting: 0 };
    if text == "." {
        return Ok((Expr::Root(Vec::new()), 0));
    }
    let query = match is_legacy {
        true => {
            let mut segments = Vec::new();
            if !text.starts_with(['.', '[']) {
                segments.push(reader.dotted(false)?);
            }
            reader.segments(&mut segments)?;
            reader.projection(Some(Expr::Root(segments)))?
        }
        false => reader.projection(None)?,
    };
    reader.skip_space();
    match reader.peek() {
        None => Ok((query, reader.patterns)),
        Some(_) => Err(reader.expected("'.', '..', '[', an operator")),
    }
}

/// Whether a name without quotes may have this character.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || !c.is_ascii() || "_-`+#%$^/:".contains(c)
}

impl Reader<'_> {
    pub fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub fn take(&mut self, token: &str) -> bool {
        let is_there = self.text[self.at..].starts_with(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    pub fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    pub fn take_spaced(&mut self, token: &str) -> bool {
        self.skip_space();
        self.take(token)
    }

    #[cold]
    pub fn expected(&self, what: &str) -> PathError {
        let (before, after) = self.text.split_at(self.at);
        let at = before.chars().count();
        PathError {
            text: format!(
                "Error occurred at position {at}, \"{before} ---->>>> {after}\", expected one of \
                 the following: {what}"
            ),
        }
    }

    pub fn count_selector(&mut self) -> Parsed<()> {
        self.selectors += 1;
        match self.selectors > SELECTORS_MAX {
            true => {
                Err(PathError { text: format!("a path has at most {SELECTORS_MAX} selectors") })
            }
            false => Ok(()),
        }
    }

    /// Reads parts as long as there are some.
    pub fn segments(&mut self, into: &mut Vec<Segment>) -> Parsed<()> {
        loop {
            let start = self.at;
            self.skip_space();
            let segment = if self.take("..") {
                if self.peek() == Some('[') { self.bracketed(true)? } else { self.dotted(true)? }
            } else if self.peek() == Some('.') && self.method().is_some() {
                self.at = start;
                return Ok(());
            } else if self.take(".") {
                if self.peek() == Some('[') { self.bracketed(false)? } else { self.dotted(false)? }
            } else if self.peek() == Some('[') {
                self.bracketed(false)?
            } else {
                self.at = start;
                return Ok(());
            };
            into.push(segment);
        }
    }

    /// A name or a wildcard.
    fn dotted(&mut self, descends: bool) -> Parsed<Segment> {
        self.count_selector()?;
        self.skip_space();
        if self.take("*") {
            return Ok(Segment { descends, selectors: vec![Selector::All] });
        }
        let rest = &self.text[self.at..];
        let len = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        if len == 0 {
            return Err(self.expected("'*', <string>"));
        }
        let name = rest[..len].into();
        self.at += len;
        Ok(Segment { descends, selectors: vec![Selector::Name(name)] })
    }

    /// Selectors in brackets.
    fn bracketed(&mut self, descends: bool) -> Parsed<Segment> {
        self.at += 1;
        let mut selectors = Vec::new();
        loop {
            self.count_selector()?;
            self.skip_space();
            selectors.push(self.selector()?);
            if self.take_spaced("]") {
                return Ok(Segment { descends, selectors });
            }
            if !self.take(",") {
                return Err(self.expected("',', ']'"));
            }
        }
    }

    fn selector(&mut self) -> Parsed<Selector> {
        match self.peek() {
            Some('*') => {
                self.at += 1;
                Ok(Selector::All)
            }
            Some('"' | '\'') => Ok(Selector::Name(self.quoted()?.into())),
            Some('?') => {
                self.at += 1;
                self.skip_space();
                Ok(Selector::Filter(Box::new(self.filter()?)))
            }
            Some('-' | ':' | '0'..='9') => self.index_or_slice(),
            _ => Err(self.expected(
                "<string>[,<string>...], <start>[:[<end>[:[<step>]]]], :<end>[:[<step>]], \
                 ::<step>, *, ?<filter>",
            )),
        }
    }

    fn index_or_slice(&mut self) -> Parsed<Selector> {
        let start = self.integer()?;
        if !self.take_spaced(":") {
            return match start {
                Some(index) => Ok(Selector::Index(index)),
                None => Err(self.expected("<number>")),
            };
        }
        self.skip_space();
        let end = self.integer()?;
        let step = if self.take_spaced(":") {
            self.skip_space();
            self.integer()?
        } else {
            None
        };
        Ok(Selector::Slice { start, end, step: step.unwrap_or(1) })
    }

    /// An integer, if there is one.
    fn integer(&mut self) -> Parsed<Option<i64>> {
        let rest = &self.text[self.at..];
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let len = len + rest.len() - digits.len();
        if len == 0 {
            return Ok(None);
        }
        let number = rest[..len].parse().map_err(|_| self.expected("<number>"))?;
        self.at += len;
        Ok(Some(number))
    }

    /// A string in quotes of either kind; a backslash takes what follows as in JSON.
    pub fn quoted(&mut self) -> Parsed<String> {
        let start = self.at;
        let quote = self.text.as_bytes()[start];
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        while let Some(&byte) = bytes.get(end) {
            if byte == quote {
                self.at = end + 1;
                return self.unescaped(start, end);
            }
            end += if byte == b'\\' { 2 } else { 1 };
        }
        Err(self.expected("a closing quote"))
    }

    fn unescaped(&self, start: usize, end: usize) -> Parsed<String> {
        let inner = &self.text[start + 1..end];
        if !inner.contains('\\') {
            return Ok(inner.into());
        }
        let mut json = String::with_capacity(inner.len() + 2);
        json.push('"');
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('\'') => json.push('\''),
                    Some(c @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u')) => {
                        json.extend(['\\', c]);
                    }
                    Some(c) => json.extend(['\\', '\\', c]),
                    None => {}
                },
                '"' => json.push_str("\\\""),
                c => json.push(c),
            }
        }
        json.push('"');
        let parsed = parse_json(json.as_bytes(), Parse::default()).ok();
        let text = parsed.as_ref().and_then(|parsed| parsed.root().string());
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        text.map(str::to_owned).ok_or_else(|| self.expected("<string>"))
    }
}
