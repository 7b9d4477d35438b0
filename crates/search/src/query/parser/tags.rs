//! Conditions on tags: `{a|b c|d*}`.

use super::Parser;
use crate::query::ast::{Bytes, Node, NodeKind, Pattern, TagValue};
use crate::query::error::QueryError;
use crate::query::lexer::{TextForm, Token, TokenKind};

impl Parser<'_> {
    pub(super) fn tags(&mut self, field: Bytes) -> Result<Node, QueryError> {
        self.advance();
        let mut values = vec![self.tag()?];
        if self.is_modern() {
            while self.accept(TokenKind::Or) {
                values.push(self.tag()?);
            }
            self.expect(TokenKind::CloseBrace)?;
        } else {
            // Dialect 1 needs no closing brace, and takes more values after one.
            loop {
                if self.accept(TokenKind::Or) {
                    values.push(self.tag()?);
                } else if !self.accept(TokenKind::CloseBrace) {
                    break;
                }
            }
        }
        Ok(Node::new(NodeKind::Tag { field, values }))
    }

    fn tag(&mut self) -> Result<TagValue, QueryError> {
        use TokenKind::*;
        let kind = self.token.kind;
        if matches!(kind, Prefix | Suffix | Infix) || (kind == Wildcard && self.is_modern()) {
            let token = self.advance();
            let text = self.tag_text(&token);
            return Ok(TagValue::Pattern(match kind {
                Prefix => Pattern::Prefix(text),
                Suffix => Pattern::Suffix(text),
                Infix => Pattern::Infix(text),
                _ => Pattern::Wildcard(text),
            }));
        }
        if !self.is_tag_word() {
            return Err(self.unexpected());
        }
        let first = self.advance();
        let mut words = vec![self.tag_text(&first)];
        if first.kind == StopWord && !self.is_modern() {
            return Ok(TagValue::Exact(words.remove(0)));
        }
        let mut has_more = false;
        while self.is_tag_word() && (self.is_modern() || self.token.kind != StopWord) {
            let token = self.advance();
            // As in Redis, stop words from the third word on are not part of the tag.
            if token.kind != StopWord || !has_more {
                words.push(self.tag_text(&token));
            }
            has_more = true;
        }
        Ok(if has_more { TagValue::Words(words) } else { TagValue::Exact(words.remove(0)) })
    }

    fn is_tag_word(&self) -> bool {
        use TokenKind::*;
        match self.token.kind {
            Term | StopWord | Number => true,
            IsMissing | Attribute | Quoted | EmptyString => self.is_modern(),
            _ => false,
        }
    }

    fn tag_text(&mut self, token: &Token) -> Bytes {
        if token.form == TextForm::Parameter || token.kind == TokenKind::Attribute {
            self.parameter(token).into()
        } else {
            self.text(&token.text).into()
        }
    }
}
