//! Conditions on fields: a text, tags or a range after the field's name.

use super::{Operand, Parser, Pending};
use crate::query::ast::{Bytes, FieldMask, Node, NodeKind};
use crate::query::lexer::{TokenKind, unescape};

impl Parser<'_> {
    /// `@a:..`, `@a|b:..`, `@a==1`
    pub(super) fn field(&mut self) -> Operand {
        let token = self.advance();
        let name: Bytes = unescape(self.text(&token.text)).into();
        if self.is_modern() && self.at_comparison() {
            return self.comparison(name).map(Some);
        }
        if self.token.kind == TokenKind::Or {
            return self.fields(name);
        }
        self.expect(TokenKind::Colon)?;
        match self.token.kind {
            TokenKind::OpenBrace => self.tags(name).map(Some),
            TokenKind::OpenBracket => self.bracket(name).map(Some),
            _ => {
                let fields = self.mask(&name);
                self.text_in(fields)
            }
        }
    }

    /// `@a|b:..` from the first `|` on.
    fn fields(&mut self, first: Bytes) -> Operand {
        let mut fields = self.mask(&first);
        while self.accept(TokenKind::Or) {
            let is_name = match self.token.kind {
                TokenKind::Term | TokenKind::Number => true,
                TokenKind::IsMissing | TokenKind::StopWord | TokenKind::Quoted => self.is_modern(),
                _ => false,
            };
            if !is_name {
                return Err(self.unexpected());
            }
            let token = self.advance();
            let name = unescape(self.text(&token.text));
            fields = fields.or(self.mask(&name));
        }
        self.expect(TokenKind::Colon)?;
        self.text_in(fields)
    }

    fn mask(&self, name: &[u8]) -> FieldMask {
        self.settings.fields.text_field(name).map_or(FieldMask::NONE, FieldMask::of)
    }

    fn text_in(&mut self, fields: FieldMask) -> Operand {
        let mut node = self.expression(Pending::Field, true)?;
        if let Some(node) = &mut node {
            restrict(node, fields);
        }
        Ok(node)
    }
}

/// Restricts a tree to fields.
fn restrict(node: &mut Node, fields: FieldMask) {
    node.fields = node.fields.and(fields);
    match &mut node.kind {
        NodeKind::Intersection(children)
        | NodeKind::Phrase(children)
        | NodeKind::Union(children) => {
            for child in children {
                restrict(child, fields);
            }
        }
        NodeKind::Not(child) | NodeKind::Optional(child) => restrict(child, fields),
        _ => {}
    }
}
