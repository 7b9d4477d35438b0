//! Ranges in brackets: numbers, circles; comparisons of numbers.

use super::Parser;
use crate::query::ast::{Bytes, DistanceUnit, GeoCircle, Node, NodeKind, NumericRange};
use crate::query::error::{ErrorKind, QueryError};
use crate::query::lexer::{Token, TokenKind};
use crate::query::numbers::parse_double;

/// A number of a range, or the parameter that holds it.
pub(super) enum Number {
    Value(f64),
    Parameter { token: Token, negative: bool },
}

/// An end of a range.
struct Bound {
    number: Number,
    is_exclusive: bool,
}

impl Parser<'_> {
    /// Parses the rest of a condition after `@field:`, from the bracket on.
    pub(super) fn bracket(&mut self, field: Bytes) -> Result<Node, QueryError> {
        self.advance();
        if self.is_modern() && self.at_word() {
            return self.relation(field);
        }
        let first = self.bound()?;
        if self.is_modern() && !first.is_exclusive && self.token.kind == TokenKind::CloseBracket {
            self.advance();
            return Ok(self.single(field, &first.number));
        }
        let second = self.bound()?;
        let is_open = self.is_modern() && (first.is_exclusive || second.is_exclusive);
        if self.token.kind == TokenKind::CloseBracket || is_open {
            self.expect(TokenKind::CloseBracket)?;
            return Ok(self.range(field, &first, &second));
        }
        let third = self.bound()?;
        if self.is_modern() && third.is_exclusive {
            return Err(self.unexpected());
        }
        self.circle(field, &[first.number, second.number, third.number])
    }

    /// True if the token is a word. Keywords and strings count as words here.
    pub(super) fn at_word(&self) -> bool {
        match self.token.kind {
            TokenKind::Term => true,
            TokenKind::StopWord
            | TokenKind::IsMissing
            | TokenKind::Quoted
            | TokenKind::EmptyString => self.is_modern(),
            _ => false,
        }
    }

    pub(super) fn at_comparison(&self) -> bool {
        use TokenKind::*;
        matches!(self.token.kind, Equal | NotEqual | Greater | GreaterOrEqual | Less | LessOrEqual)
    }

    /// `@field==1`
    pub(super) fn comparison(&mut self, field: Bytes) -> Result<Node, QueryError> {
        let operator = self.advance().kind;
        let number = self.number()?;
        let value = self.value(&number);
        let (min, max) = match operator {
            TokenKind::Equal | TokenKind::NotEqual => (value, value),
            TokenKind::Greater | TokenKind::GreaterOrEqual => (value, f64::INFINITY),
            _ => (f64::NEG_INFINITY, value),
        };
        let includes_min = operator != TokenKind::Greater;
        let includes_max = operator != TokenKind::Less;
        let range = NumericRange { field, min, max, includes_min, includes_max };
        let node = Node::new(NodeKind::Numeric(range));
        Ok(match operator {
            TokenKind::NotEqual => Node::new(NodeKind::Not(Box::new(node))),
            _ => node,
        })
    }

    /// A number after any of `(`. Dialect 1 takes several, also after signs.
    fn bound(&mut self) -> Result<Bound, QueryError> {
        let mut is_exclusive = false;
        let mut is_negative = false;
        loop {
            if self.token.kind == TokenKind::OpenParenthesis
                && !(self.is_modern() && (is_exclusive || is_negative))
            {
                is_exclusive = true;
                self.advance();
            } else if self.token.kind == TokenKind::Minus && !self.is_modern() {
                is_negative = !is_negative;
                self.advance();
            } else {
                break;
            }
        }
        let mut number = self.number()?;
        if let Number::Value(value) = &mut number
            && is_negative
        {
            *value = -*value;
        }
        Ok(Bound { number, is_exclusive })
    }

    /// A number after signs, or a parameter after at most one.
    pub(super) fn number(&mut self) -> Result<Number, QueryError> {
        let mut signs = 0;
        while self.token.kind == TokenKind::Minus {
            self.advance();
            signs += 1;
        }
        match self.token.kind {
            TokenKind::Number => {
                let token = self.advance();
                let value = parse_double(self.text(&token.text)).unwrap_or(f64::NAN);
                Ok(Number::Value(if signs % 2 == 1 { -value } else { value }))
            }
            TokenKind::Attribute if self.is_modern() && signs < 2 => {
                Ok(Number::Parameter { token: self.advance(), negative: signs == 1 })
            }
            _ => Err(self.unexpected()),
        }
    }

    /// The number itself, a parameter's value included. Bad values are reported at the end.
    pub(super) fn value(&mut self, number: &Number) -> f64 {
        match number {
            Number::Value(value) => *value,
            Number::Parameter { token, negative } => {
                let text = self.parameter(token);
                let Some(value) = parse_double(&text) else {
                    let error = not_numeric(&text, self.text(&token.text));
                    self.defer(error);
                    return 0.0;
                };
                if *negative { -value } else { value }
            }
        }
    }

    fn single(&mut self, field: Bytes, number: &Number) -> Node {
        let value = self.value(number);
        Node::new(NodeKind::Numeric(NumericRange {
            field,
            min: value,
            max: value,
            includes_min: true,
            includes_max: true,
        }))
    }

    fn range(&mut self, field: Bytes, first: &Bound, second: &Bound) -> Node {
        let (min, min_exclusive) = self.end_of_range(first, true);
        let (max, max_exclusive) = self.end_of_range(second, false);
        Node::new(NodeKind::Numeric(NumericRange {
            field,
            min,
            max,
            includes_min: !min_exclusive,
            includes_max: !max_exclusive,
        }))
    }

    /// An end of a range. A parameter may hold an infinity towards the outside. As in Redis, a
    /// parameter's `(` is read and has no effect.
    fn end_of_range(&mut self, bound: &Bound, is_lower: bool) -> (f64, bool) {
        let Number::Parameter { token, negative } = &bound.number else {
            return (self.value(&bound.number), bound.is_exclusive);
        };
        let text = self.parameter(token);
        let digits = text.strip_prefix(b"(").unwrap_or(&text);
        let is_infinite = match is_lower {
            true => digits.eq_ignore_ascii_case(b"-inf"),
            false => digits.eq_ignore_ascii_case(b"+inf") || digits.eq_ignore_ascii_case(b"inf"),
        };
        let value = match parse_double(digits) {
            Some(value) if !value.is_infinite() || is_infinite => value,
            None if digits.is_empty() => 0.0,
            _ => {
                let place: &[u8] = if is_lower { b"lower" } else { b"upper" };
                let parts: [&[u8]; 4] = [b"Bad ", place, b" range: ", &text];
                self.defer(QueryError::new(ErrorKind::NotNumeric, &parts));
                0.0
            }
        };
        (if *negative { -value } else { value }, bound.is_exclusive)
    }

    /// The unit of a circle, and the rest of it.
    fn circle(&mut self, field: Bytes, numbers: &[Number; 3]) -> Result<Node, QueryError> {
        use TokenKind::*;
        let modern = self.is_modern();
        if !(self.at_word() || (modern && matches!(self.token.kind, Number | Attribute))) {
            return Err(self.unexpected());
        }
        let token = self.advance();
        self.expect(CloseBracket)?;
        let [longitude, latitude, radius] = numbers.each_ref().map(|number| self.value(number));
        let name = match token.kind {
            Attribute => self.parameter(&token),
            _ => self.text(&token.text).to_vec(),
        };
        let named = DistanceUnit::of(&name);
        let unit = named.unwrap_or(DistanceUnit::Meters);
        let circle = GeoCircle { field, longitude, latitude, radius, unit };
        let unknown = named.is_none().then_some("Invalid GeoFilter unit");
        if let Some(text) = unknown.or(circle.fault()) {
            let error = QueryError::new(ErrorKind::InvalidValue, &[text.as_bytes()]);
            if !modern {
                return Err(error);
            }
            self.defer(error);
        }
        Ok(Node::new(NodeKind::Geo(circle)))
    }
}

/// The error of a parameter that is not a number.
pub(super) fn not_numeric(value: &[u8], name: &[u8]) -> QueryError {
    let parts: [&[u8]; 5] = [b"Invalid numeric value (", value, b") for parameter `", name, b"`"];
    QueryError::new(ErrorKind::NotNumeric, &parts)
}
