//! Operands: words, patterns, strings, negations, parentheses.

use super::{Operand, Parser, Pending};
use crate::query::ast::{Bytes, Node, NodeKind, Pattern, Term};
use crate::query::error::QueryError;
use crate::query::lexer::{TextForm, Token, TokenKind, is_escapable, unescape};

impl Parser<'_> {
    /// True if the token can begin an operand.
    pub(super) fn starts_operand(&self, in_field: bool) -> bool {
        use TokenKind::*;
        match self.token.kind {
            Term | StopWord | Number | Prefix | Suffix | Infix | Quote | OpenParenthesis
            | Minus | Tilde | Percent => true,
            Modifier | IsMissing => !(in_field && self.is_modern()) || self.token.kind == IsMissing,
            Quoted | EmptyString | Wildcard | Attribute => self.is_modern(),
            _ => false,
        }
    }

    pub(super) fn operand(&mut self, in_field: bool) -> Operand {
        use TokenKind::*;
        let modern = self.is_modern();
        match self.token.kind {
            Term | Number if !modern => Ok(Some(self.words())),
            Term | IsMissing if modern && (in_field || self.token.kind == Term) => {
                let token = self.advance();
                Ok(Some(self.term(&token, false)))
            }
            IsMissing => self.missing().map(Some),
            StopWord => {
                self.advance();
                Ok(None)
            }
            Number => {
                let token = self.advance();
                Ok(Some(term_node(self.text(&token.text).into(), true)))
            }
            Prefix | Suffix | Infix | Wildcard => {
                let token = self.advance();
                let pattern = self.pattern(&token)?;
                Ok(Some(Node::new(NodeKind::Pattern(pattern))))
            }
            Attribute if modern => {
                let token = self.advance();
                let value = self.parameter(&token);
                Ok(Some(term_node(value.to_ascii_lowercase().into(), false)))
            }
            Quoted => {
                let token = self.advance();
                Ok(Some(self.quoted(&token)))
            }
            EmptyString => {
                self.advance();
                Ok(Some(term_node(Bytes::default(), true)))
            }
            Quote => self.phrase().map(Some),
            Percent => self.fuzzy().map(Some),
            OpenParenthesis => self.parentheses(in_field),
            Minus => self.negation(Pending::Not, in_field),
            Tilde => self.negation(Pending::Optional, in_field),
            Modifier if !(in_field && modern) => self.field(),
            _ => Err(self.unexpected()),
        }
    }

    /// Parses a word, or the intersection of all words up to the next operator (dialect 1). Only
    /// the first two may be numbers.
    fn words(&mut self) -> Node {
        let mut words = Vec::new();
        while self.token.kind == TokenKind::Term
            || (self.token.kind == TokenKind::Number && words.len() < 2)
        {
            let token = self.advance();
            words.push(self.term(&token, false));
        }
        if words.len() == 1 { words.remove(0) } else { Node::new(NodeKind::Intersection(words)) }
    }

    pub(super) fn term(&self, token: &Token, is_verbatim: bool) -> Node {
        let folded = unescape(self.text(&token.text)).to_ascii_lowercase();
        term_node(folded.into(), is_verbatim)
    }

    /// The value of the parameter that a token names. A missing one is reported at the end.
    pub(super) fn parameter(&mut self, token: &Token) -> Vec<u8> {
        let name = self.text(&token.text);
        match self.settings.parameters.get(name) {
            Ok(value) => value.to_vec(),
            Err(error) => {
                self.defer(error);
                Vec::new()
            }
        }
    }

    /// A pattern over terms, as it is written. As in Redis, parameters are folded.
    fn pattern(&mut self, token: &Token) -> Result<Pattern, QueryError> {
        let text = match token.form {
            TextForm::Parameter if token.kind == TokenKind::Wildcard => self.parameter(token),
            TextForm::Parameter => self.parameter(token).to_ascii_lowercase(),
            _ => self.text(&token.text).to_vec(),
        };
        let text: Bytes = match token.kind {
            TokenKind::Wildcard => without_backslashes(&text).into(),
            // A quote may end a string though a backslash stands before it, which vanishes then.
            _ if token.form == TextForm::Quoted => {
                unescape(text.strip_suffix(b"\\").unwrap_or(&text)).into()
            }
            _ => unescape(&text).into(),
        };
        Ok(match token.kind {
            TokenKind::Prefix => Pattern::Prefix(text),
            TokenKind::Suffix => Pattern::Suffix(text),
            TokenKind::Infix => Pattern::Infix(text),
            _ => Pattern::Wildcard(text),
        })
    }

    /// `"a b"` as tokens (dialect 1). Later dialects read it as one token, so a quote alone is the
    /// beginning of a string without end.
    fn phrase(&mut self) -> Result<Node, QueryError> {
        self.advance();
        let mut terms = Vec::new();
        while !self.is_modern() && matches!(self.token.kind, TokenKind::Term | TokenKind::Number) {
            let token = self.advance();
            terms.push(self.term(&token, true));
        }
        if terms.is_empty() {
            if self.is_modern() {
                self.accept(TokenKind::Attribute);
            }
            return Err(self.unexpected());
        }
        self.expect(TokenKind::Quote)?;
        let only = if terms.len() == 1 { terms.pop() } else { None };
        Ok(only.unwrap_or_else(|| Node::new(NodeKind::Phrase(terms))))
    }

    /// `"a b"` as one token: cut into terms like a text, stop words included.
    fn quoted(&self, token: &Token) -> Node {
        let text = self.text(&token.text);
        let terms = split_phrase(text);
        let terms = terms.into_iter().map(|term| term_node(term.into(), true)).collect();
        Node::new(NodeKind::Phrase(terms))
    }

    /// `%word%`; up to three signs on each side, as many as changes are allowed.
    fn fuzzy(&mut self) -> Result<Node, QueryError> {
        let mut distance = 0;
        while self.token.kind == TokenKind::Percent && distance < 3 {
            self.advance();
            distance += 1;
        }
        let modern = self.is_modern();
        let text: Bytes = match self.token.kind {
            TokenKind::Term | TokenKind::StopWord | TokenKind::Number => {
                let token = self.advance();
                unescape(self.text(&token.text)).to_ascii_lowercase().into()
            }
            TokenKind::IsMissing
            | TokenKind::Attribute
            | TokenKind::Quoted
            | TokenKind::EmptyString
                if modern =>
            {
                let token = self.advance();
                match token.kind {
                    TokenKind::Attribute => self.parameter(&token).to_ascii_lowercase().into(),
                    _ => self.text(&token.text).to_ascii_lowercase().into(),
                }
            }
            _ => return Err(self.unexpected()),
        };
        for _ in 0..distance {
            self.expect(TokenKind::Percent)?;
        }
        Ok(Node::new(NodeKind::Fuzzy { text, distance }))
    }

    fn parentheses(&mut self, in_field: bool) -> Operand {
        self.advance();
        let node = self.expression(Pending::Nothing, in_field)?;
        self.expect(TokenKind::CloseParenthesis)?;
        Ok(node)
    }

    fn negation(&mut self, pending: Pending, in_field: bool) -> Operand {
        self.advance();
        let Some(node) = self.expression(pending, in_field)? else { return Ok(None) };
        let kind = match pending {
            Pending::Not => NodeKind::Not(Box::new(node)),
            _ => NodeKind::Optional(Box::new(node)),
        };
        Ok(Some(Node::new(kind)))
    }

    /// `ismissing(@field)`
    fn missing(&mut self) -> Result<Node, QueryError> {
        self.advance();
        self.expect(TokenKind::OpenParenthesis)?;
        let token = self.expect(TokenKind::Modifier)?;
        self.expect(TokenKind::CloseParenthesis)?;
        let field = unescape(self.text(&token.text)).into();
        Ok(Node::new(NodeKind::Missing { field }))
    }
}

fn term_node(text: Bytes, verbatim: bool) -> Node {
    Node::new(NodeKind::Term(Term { text, expanded: false, verbatim }))
}

/// Removes each backslash, and keeps the byte after it.
fn without_backslashes(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(if byte == b'\\' { *bytes.next().unwrap_or(&byte) } else { byte });
    }
    plain
}

/// Cuts a string at blanks and punctuation that is not escaped, and folds the terms.
fn split_phrase(text: &[u8]) -> Vec<Vec<u8>> {
    let is_separator = |byte: u8| {
        matches!(byte, b' ' | b'\t' | b'\n')
            || (byte.is_ascii_punctuation() && !matches!(byte, b'_' | b'$' | b'\\' | b'"'))
    };
    let mut terms = Vec::new();
    let mut term = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if byte == b'\\' && text.get(at + 1).is_some_and(|&next| is_escapable(next)) {
            at += 1;
            term.push(text[at]);
        } else if is_separator(byte) {
            if !term.is_empty() {
                terms.push(std::mem::take(&mut term));
            }
        } else {
            term.push(byte.to_ascii_lowercase());
        }
        at += 1;
    }
    if !term.is_empty() {
        terms.push(term);
    }
    terms
}
