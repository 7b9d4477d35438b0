//! Parsers of dialect 1 and of dialects 2 to 4.
//!
//! Both are one recursive descent that climbs by precedence: whether the next token continues the
//! present operand or ends it depends on the operator that waits for this operand
//! ([`Pending::takes`]). Dialects differ in that table and in what their brackets hold.
//!
//! A syntax error names the first token that cannot follow, and the last text before it.

mod attributes;
mod brackets;
mod operands;
mod ranges;
mod tags;
mod vectors;

use super::Dialect;
use super::ast::{FieldMask, Node, NodeKind};
use super::error::QueryError;
use super::lexer::{Lexer, TextForm, Token, TokenKind};
use super::parameters::Parameters;
use std::ops::Range;

/// Deepest nesting of a query.
pub const DEPTH_MAX: usize = 128;

/// Largest number of words, tags and other conditions of a query: its tree takes memory.
pub const CONDITIONS_MAX: usize = 1 << 16;

/// Names of TEXT fields.
pub trait Fields {
    /// The number of a TEXT field among TEXT fields. `None` for other fields and unknown names.
    fn text_field(&self, name: &[u8]) -> Option<usize>;
    /// The name of the TEXT field with a number.
    fn text_name(&self, number: usize) -> Option<&[u8]>;
}

/// Circumstances of a parse: dialect, fields, parameters, stop words.
pub struct Settings<'a> {
    /// The dialect.
    pub dialect: Dialect,
    /// Fields of the index.
    pub fields: &'a dyn Fields,
    /// Parameters, from dialect 2 on.
    pub parameters: &'a Parameters,
    /// True for a folded word that is not searched.
    pub is_stop_word: &'a dyn Fn(&[u8]) -> bool,
}

/// Parses a query. Time is linear in its length.
pub fn parse(query: &[u8], settings: &Settings<'_>) -> Result<Node, QueryError> {
    let mut parser = Parser::new(query, settings);
    let node = parser.query()?;
    match parser.deferred {
        Some(error) => Err(error),
        None => Ok(node.unwrap_or_else(|| Node::new(NodeKind::Empty))),
    }
}

/// An operand. `None` if it has stop words only.
type Operand = Result<Option<Node>, QueryError>;

struct Parser<'a> {
    query: &'a [u8],
    settings: &'a Settings<'a>,
    lexer: Lexer<'a>,
    token: Token,
    /// Place that an error names.
    last: Place,
    /// Place before the last name of a field: errors do not name comparisons of numbers.
    last_before_field: Place,
    depth: usize,
    conditions: usize,
    /// An error that a syntax error later in the query overrides.
    deferred: Option<QueryError>,
}

/// The last token, and the text of the last one that had any.
#[derive(Clone, Default)]
struct Place {
    position: usize,
    text: Range<usize>,
}

/// The operator that waits for an operand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Pending {
    /// None: the query, or parentheses.
    Nothing,
    And,
    Or,
    Not,
    Optional,
    Field,
}

impl Pending {
    /// True if `token`, which follows an operand, belongs to the operand.
    fn takes(self, token: TokenKind, dialect: Dialect) -> bool {
        use TokenKind::*;
        if self == Self::Nothing {
            return true;
        }
        if dialect.is_modern() {
            let tight = matches!(
                token,
                Number | Prefix | Suffix | Infix | Wildcard | Percent | Attribute | Star
            );
            return tight || (self == Self::Or && token != Or);
        }
        match self {
            Self::Nothing => true,
            Self::And | Self::Field => token == Or,
            Self::Or => false,
            Self::Not => !matches!(token, Quote | Minus | Tilde),
            Self::Optional => token != Tilde,
        }
    }
}

impl<'a> Parser<'a> {
    fn new(query: &'a [u8], settings: &'a Settings<'a>) -> Self {
        let mut parser = Self {
            query,
            settings,
            lexer: Lexer::new(query, settings.dialect),
            token: Token { kind: TokenKind::End, form: TextForm::Word, position: 0, text: 0..0 },
            last: Place::default(),
            last_before_field: Place::default(),
            depth: 0,
            conditions: 0,
            deferred: None,
        };
        parser.advance();
        parser
    }

    fn is_modern(&self) -> bool {
        self.settings.dialect.is_modern()
    }

    /// Goes to the next token and returns the one before.
    fn advance(&mut self) -> Token {
        let settings = self.settings;
        let next = self.lexer.next(&|text| {
            let folded = super::lexer::unescape(text).to_ascii_lowercase();
            (settings.is_stop_word)(&folded)
        });
        if next.kind != TokenKind::End {
            let quote = 2 * usize::from(next.kind == TokenKind::Wildcard);
            if self.lexer.compared {
                self.last = self.last_before_field.clone();
            } else {
                if next.kind == TokenKind::Modifier {
                    self.last_before_field = self.last.clone();
                }
                self.last.position = next.position + quote;
                if !next.text.is_empty() || next.kind == TokenKind::EmptyString {
                    self.last.text = next.text.clone();
                }
            }
        }
        std::mem::replace(&mut self.token, next)
    }

    /// Consumes the token if it is of `kind`, else fails.
    fn expect(&mut self, kind: TokenKind) -> Result<Token, QueryError> {
        if self.token.kind == kind { Ok(self.advance()) } else { Err(self.unexpected()) }
    }

    /// Consumes the token if it is of `kind`.
    fn accept(&mut self, kind: TokenKind) -> bool {
        let found = self.token.kind == kind;
        if found {
            self.advance();
        }
        found
    }

    /// The error of a token that cannot follow.
    fn unexpected(&self) -> QueryError {
        QueryError::syntax(self.last.position, self.text(&self.last.text))
    }

    fn text(&self, range: &Range<usize>) -> &'a [u8] {
        self.query.get(range.clone()).unwrap_or_default()
    }

    /// Keeps an error for the end of the parse; the first one stays.
    fn defer(&mut self, error: QueryError) {
        self.deferred.get_or_insert(error);
    }

    /// Counts conditions. Fails if there are too many.
    fn count(&mut self, added: usize) -> Result<(), QueryError> {
        self.conditions += added;
        if self.conditions > CONDITIONS_MAX { Err(QueryError::too_large()) } else { Ok(()) }
    }

    fn deeper(&mut self) -> Result<(), QueryError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(QueryError::too_deep()) } else { Ok(()) }
    }

    fn query(&mut self) -> Operand {
        if self.token.kind == TokenKind::End {
            return Ok(None);
        }
        if let Some(depth) = self.everything() {
            for _ in 0..depth {
                self.expect(TokenKind::CloseParenthesis)?;
            }
            return self.after_everything();
        }
        let first = self.operand(false)?;
        let node = self.continued(first, Pending::Nothing, false, true)?;
        self.end()?;
        Ok(node)
    }

    /// Goes behind the `*` of a query that begins with one, from dialect 2 on also in parentheses.
    /// Returns the number of parentheses.
    fn everything(&mut self) -> Option<usize> {
        let mut ahead = Lexer::new(self.query, self.settings.dialect);
        let mut parentheses = 0;
        loop {
            match ahead.next(&|_| false).kind {
                TokenKind::OpenParenthesis if self.is_modern() => parentheses += 1,
                TokenKind::Star => break,
                _ => return None,
            }
        }
        for _ in 0..=parentheses {
            self.advance();
        }
        Some(parentheses)
    }

    /// The query after `*`.
    fn after_everything(&mut self) -> Operand {
        let node = Some(Node::new(NodeKind::Everything));
        if self.is_modern() && self.accept(TokenKind::Arrow) {
            let node = self.nearest(node)?;
            self.end()?;
            return Ok(Some(node));
        }
        self.end()?;
        Ok(node)
    }

    fn end(&self) -> Result<(), QueryError> {
        if self.token.kind == TokenKind::End { Ok(()) } else { Err(self.unexpected()) }
    }

    /// An expression as operand of `pending`. `in_field` forbids conditions other than text.
    fn expression(&mut self, pending: Pending, in_field: bool) -> Operand {
        self.deeper()?;
        let first = self.operand(in_field)?;
        let node = self.continued(first, pending, in_field, false)?;
        self.depth -= 1;
        Ok(node)
    }

    /// The rest of an expression after its first operand. `alone`: it is the whole query up to
    /// here, which a vector search may follow.
    fn continued(
        &mut self,
        mut left: Option<Node>,
        pending: Pending,
        in_field: bool,
        mut alone: bool,
    ) -> Operand {
        loop {
            let kind = self.token.kind;
            if kind == TokenKind::Arrow {
                if pending == Pending::Field && self.is_modern() {
                    return Ok(left);
                }
                self.advance();
                if alone && self.is_modern() && self.token.kind == TokenKind::OpenBracket {
                    return self.nearest(left).map(Some);
                }
                self.attributes(left.as_mut())?;
                continue;
            }
            if kind == TokenKind::Or {
                if !self.takes(pending, kind) {
                    return Ok(left);
                }
                self.advance();
                let right = self.expression(Pending::Or, in_field)?;
                left = unite(left, right);
            } else if self.starts_operand(in_field) && self.takes(pending, kind) {
                let right = self.expression(Pending::And, in_field)?;
                left = intersect(left, right);
            } else {
                return Ok(left);
            }
            alone = false;
        }
    }

    /// True if the token belongs to the operand of `pending`. Long runs of tokens that bind to the
    /// right are bound to the left where the tree would become too deep.
    fn takes(&self, pending: Pending, token: TokenKind) -> bool {
        let is_deep = self.depth > DEPTH_MAX * 3 / 4 && pending == Pending::And;
        pending.takes(token, self.settings.dialect) && !(is_deep && self.is_modern())
    }
}

/// Both operands match. Operands are added to an intersection on the left.
fn intersect(left: Option<Node>, right: Option<Node>) -> Option<Node> {
    let (mut left, right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (left, right) => return left.or(right),
    };
    if let NodeKind::Intersection(children) = &mut left.kind
        && left.fields == FieldMask::ALL
    {
        children.push(right);
        return Some(left);
    }
    Some(Node::new(NodeKind::Intersection(vec![left, right])))
}

/// Either operand matches. Operands are added to a union on the left.
fn unite(left: Option<Node>, right: Option<Node>) -> Option<Node> {
    let (mut left, right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (left, right) => return left.or(right),
    };
    if let NodeKind::Union(children) = &mut left.kind
        && left.fields == FieldMask::ALL
    {
        children.push(right);
        return Some(left);
    }
    Some(Node::new(NodeKind::Union(vec![left, right])))
}
