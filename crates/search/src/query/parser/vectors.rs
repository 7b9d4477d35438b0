//! Vectors and shapes: what refers to a parameter's bytes.

use super::Parser;
use super::ranges::not_numeric;
use crate::query::ast::{
    Bytes, Knn, Node, NodeKind, ShapeRelation, VectorArgument, VectorOption, VectorRange,
};
use crate::query::error::{ErrorKind, QueryError};
use crate::query::lexer::{Token, TokenKind, unescape};

impl Parser<'_> {
    /// `within $shape]`, `vector_range 0.5 $vector]`
    pub(super) fn relation(&mut self, field: Bytes) -> Result<Node, QueryError> {
        let word = self.advance();
        let radius = match self.token.kind {
            TokenKind::Attribute => {
                let shape = self.advance();
                if self.token.kind == TokenKind::CloseBracket {
                    return self.shape(field, &word, &shape);
                }
                if self.token.kind != TokenKind::Attribute {
                    return Err(self.unexpected());
                }
                super::ranges::Number::Parameter { token: shape, negative: false }
            }
            _ => self.number()?,
        };
        let vector = self.expect(TokenKind::Attribute)?;
        let name = self.text(&word.text);
        if !name.eq_ignore_ascii_case(b"vector_range") {
            let place = word.position.to_string();
            let parts: [&[u8]; 4] = [
                b"Syntax error: expecting vector similarity range command at offset ",
                place.as_bytes(),
                b" near ",
                name,
            ];
            return Err(QueryError::new(ErrorKind::Syntax, &parts));
        }
        self.expect(TokenKind::CloseBracket)?;
        let radius = self.value(&radius);
        let vector = self.vector(&vector);
        let range = VectorRange { field, radius, vector, options: Vec::new(), score_field: None };
        Ok(Node::new(NodeKind::VectorRange(Box::new(range))))
    }

    fn shape(&mut self, field: Bytes, word: &Token, shape: &Token) -> Result<Node, QueryError> {
        self.advance();
        let name = self.text(&word.text).to_ascii_lowercase();
        let relation = match name.as_slice() {
            b"contains" => ShapeRelation::Contains,
            b"within" => ShapeRelation::Within,
            b"disjoint" => ShapeRelation::Disjoint,
            b"intersects" => ShapeRelation::Intersects,
            _ => {
                let place = shape.position.to_string();
                let text: [&[u8]; 2] =
                    [b"Syntax error: Expecting a geoshape predicate at offset ", place.as_bytes()];
                return Err(QueryError::new(ErrorKind::Syntax, &text));
            }
        };
        let shape = self.parameter(shape).into();
        Ok(Node::new(NodeKind::GeoShape { field, relation, shape }))
    }

    fn vector(&mut self, token: &Token) -> VectorArgument {
        let bytes = self.parameter(token).into();
        VectorArgument { name: self.text(&token.text).into(), bytes }
    }

    /// `[KNN 3 @field $vector EF_RUNTIME 10 AS score]` after a filter, and attributes after it.
    pub(super) fn nearest(&mut self, filter: Option<Node>) -> Result<Node, QueryError> {
        self.expect(TokenKind::OpenBracket)?;
        let word = self.expect_word()?;
        let k = match self.token.kind {
            TokenKind::Number if self.is_size() => self.advance(),
            TokenKind::Attribute => self.advance(),
            _ => return Err(self.unexpected()),
        };
        let field = self.expect(TokenKind::Modifier)?;
        let vector = self.expect(TokenKind::Attribute)?;
        let name = self.text(&word.text);
        if !name.eq_ignore_ascii_case(b"knn") {
            let place = word.position.to_string();
            let parts: [&[u8]; 4] = [
                b"Syntax error: Expecting Vector Similarity command at offset ",
                place.as_bytes(),
                b" near ",
                name,
            ];
            return Err(QueryError::new(ErrorKind::Syntax, &parts));
        }
        let k = self.size(&k);
        let vector = self.vector(&vector);
        let field: Bytes = unescape(self.text(&field.text)).into();
        let (options, alias) = self.vector_options()?;
        let default = [b"__", &*field, b"_score"].concat().into();
        let has_alias = alias.is_some();
        let score_field = alias.unwrap_or(default);
        let filter = filter.unwrap_or_else(|| Node::new(NodeKind::Everything));
        let knn = Knn { filter, field, k, vector, options, score_field };
        let mut node = Node::new(NodeKind::Knn(Box::new(knn)));
        if self.accept(TokenKind::Arrow) {
            self.knn_attributes(&mut node, has_alias)?;
        }
        Ok(node)
    }

    /// Options and `AS name`, up to the bracket that closes.
    fn vector_options(&mut self) -> Result<(Vec<VectorOption>, Option<Bytes>), QueryError> {
        let mut options = Vec::new();
        let mut alias = None;
        while alias.is_none() && self.token.kind != TokenKind::CloseBracket {
            let name = self.expect_word()?;
            let name = self.text(&name.text);
            let value = self.option_value()?;
            if name.eq_ignore_ascii_case(b"as") {
                alias = Some(value);
            } else {
                options.push(VectorOption { name: name.into(), value });
            }
        }
        self.expect(TokenKind::CloseBracket)?;
        Ok((options, alias))
    }

    fn expect_word(&mut self) -> Result<Token, QueryError> {
        if self.at_word() { Ok(self.advance()) } else { Err(self.unexpected()) }
    }

    fn option_value(&mut self) -> Result<Bytes, QueryError> {
        match self.token.kind {
            TokenKind::Attribute => {
                let token = self.advance();
                Ok(self.parameter(&token).into())
            }
            TokenKind::Number => {
                let token = self.advance();
                Ok(self.text(&token.text).into())
            }
            _ => {
                let token = self.expect_word()?;
                Ok(self.text(&token.text).into())
            }
        }
    }

    /// True for a number of digits only.
    fn is_size(&self) -> bool {
        self.text(&self.token.text).iter().all(u8::is_ascii_digit)
    }

    /// The number of neighbours. Bad values are reported at the end.
    fn size(&mut self, token: &Token) -> usize {
        let text = match token.kind {
            TokenKind::Attribute => self.parameter(token),
            _ => self.text(&token.text).to_vec(),
        };
        let digits = std::str::from_utf8(&text).unwrap_or_default().trim_ascii_start();
        digits.parse().unwrap_or_else(|_| {
            let error = not_numeric(&text, self.text(&token.text));
            self.defer(error);
            0
        })
    }
}
