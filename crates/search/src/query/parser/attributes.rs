//! Attributes of a node: `=>{$weight: 2; $slop: 1}`.

use super::Parser;
use crate::query::ast::{Bytes, Node, NodeKind, VectorOption};
use crate::query::error::{ErrorKind, QueryError};
use crate::query::lexer::TokenKind;
use crate::query::numbers::parse_double;

struct Attribute {
    name: Bytes,
    value: Bytes,
    /// The value is a parameter's: faults are reported at the end.
    is_parameter: bool,
}

impl Parser<'_> {
    /// Attributes in braces, applied to `node`. Those of stop words are not looked at.
    pub(super) fn attributes(&mut self, node: Option<&mut Node>) -> Result<(), QueryError> {
        let attributes = self.attribute_list()?;
        if let Some(node) = node {
            for attribute in attributes {
                self.apply(node, attribute)?;
            }
        }
        Ok(())
    }

    /// Attributes of a search for neighbours. The name of its distance may be given once.
    pub(super) fn knn_attributes(
        &mut self,
        node: &mut Node,
        has_alias: bool,
    ) -> Result<(), QueryError> {
        let attributes = self.attribute_list()?;
        for attribute in attributes {
            if let NodeKind::Knn(knn) = &node.kind
                && has_alias
                && attribute.name.eq_ignore_ascii_case(b"yield_distance_as")
            {
                let parts: [&[u8]; 4] = [
                    b"Distance field was specified twice for vector query: ",
                    &knn.score_field,
                    b" and ",
                    &attribute.value,
                ];
                return Err(QueryError::new(ErrorKind::InvalidValue, &parts));
            }
            self.apply(node, attribute)?;
        }
        Ok(())
    }

    fn attribute_list(&mut self) -> Result<Vec<Attribute>, QueryError> {
        self.expect(TokenKind::OpenBrace)?;
        let mut attributes = Vec::new();
        loop {
            while self.accept(TokenKind::Semicolon) {}
            if self.accept(TokenKind::CloseBrace) {
                return Ok(attributes);
            }
            let name = self.expect(TokenKind::Attribute)?;
            self.expect(TokenKind::Colon)?;
            let is_parameter = self.token.kind == TokenKind::Attribute && self.is_modern();
            if !(is_parameter || self.token.kind == TokenKind::Number || self.at_word()) {
                return Err(self.unexpected());
            }
            let token = self.advance();
            let value = match is_parameter {
                true if self.settings.parameters.find(self.text(&token.text)).is_none() => {
                    self.parameter(&token);
                    None
                }
                true => Some(self.parameter(&token).into()),
                false => Some(self.text(&token.text).into()),
            };
            let name = self.text(&name.text).into();
            attributes.extend(value.map(|value| Attribute { name, value, is_parameter }));
            if !matches!(self.token.kind, TokenKind::Semicolon | TokenKind::CloseBrace) {
                return Err(self.unexpected());
            }
        }
    }

    fn apply(&mut self, node: &mut Node, attribute: Attribute) -> Result<(), QueryError> {
        let Attribute { name, value, is_parameter } = attribute;
        let folded = name.to_ascii_lowercase();
        let is_valid = match folded.as_slice() {
            b"weight" => set(
                parse_double(&value).filter(|weight| weight.is_nan() || *weight >= 0.0),
                |weight| {
                    node.attributes.weight = weight;
                },
            ),
            b"slop" => set(parse_slop(&value), |slop| node.attributes.slop = slop),
            b"inorder" => {
                set(parse_bool(&value), |in_order| node.attributes.in_order = Some(in_order))
            }
            b"phonetic" => {
                set(parse_bool(&value), |phonetic| node.attributes.phonetic = Some(phonetic))
            }
            _ if apply_to_vector(node, &folded, &name, &value) => true,
            _ => {
                let parts: [&[u8]; 2] = [b"Invalid attribute ", &name];
                return Err(QueryError::new(ErrorKind::UnknownAttribute, &parts));
            }
        };
        if is_valid {
            return Ok(());
        }
        let parts: [&[u8]; 5] = [b"Invalid value (", &value, b") for `", &name, b"`"];
        let error = QueryError::new(ErrorKind::InvalidValue, &parts);
        if !is_parameter {
            return Err(error);
        }
        self.defer(error);
        Ok(())
    }
}

fn set<T>(value: Option<T>, assign: impl FnOnce(T)) -> bool {
    value.map(assign).is_some()
}

fn apply_to_vector(node: &mut Node, folded: &[u8], name: &[u8], value: &[u8]) -> bool {
    let options = match &mut node.kind {
        NodeKind::Knn(knn) if folded == b"yield_distance_as" => {
            knn.score_field = value.into();
            return true;
        }
        NodeKind::VectorRange(range) if folded == b"yield_distance_as" => {
            range.score_field = Some(value.into());
            return true;
        }
        NodeKind::Knn(knn) => &mut knn.options,
        NodeKind::VectorRange(range) => &mut range.options,
        _ => return false,
    };
    if !matches!(folded, b"ef_runtime" | b"epsilon" | b"batch_size" | b"hybrid_policy") {
        return false;
    }
    options.push(VectorOption { name: name.into(), value: value.into() });
    true
}

/// A number of words; -1 is no limit.
fn parse_slop(value: &[u8]) -> Option<Option<u32>> {
    let digits = std::str::from_utf8(value).ok()?.trim_ascii_start();
    match digits.parse::<i64>().ok()? {
        -1 => Some(None),
        slop => u32::try_from(slop).ok().filter(|&slop| slop <= i32::MAX as u32).map(Some),
    }
}

fn parse_bool(value: &[u8]) -> Option<bool> {
    match value.to_ascii_lowercase().as_slice() {
        b"true" | b"1" => Some(true),
        b"false" | b"0" => Some(false),
        _ => None,
    }
}
