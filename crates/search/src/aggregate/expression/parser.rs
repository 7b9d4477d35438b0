//! The parser of expressions.

use super::lexer::{Lexer, Token, TokenKind};
use super::{DEPTH_MAX, Expression, Function, NODES_MAX};
use crate::aggregate::value::Value;
use crate::query::unescape;

/// Parses an expression. `property` returns the slot of a name.
///
/// # Errors
/// A text for the user: the expression does not follow the grammar, is too long or too deep, or
/// names something unknown.
pub fn parse(
    text: &[u8],
    property: &mut dyn FnMut(&[u8]) -> Option<usize>,
) -> Result<Expression, Vec<u8>> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next();
    let mut parser = Parser { lexer, token, near: b"", nodes: 0, property };
    parser.look();
    let expression = parser.expression(0, 0)?;
    match parser.token.kind {
        TokenKind::End => Ok(expression),
        _ => Err(parser.syntax_error()),
    }
}

struct Parser<'t, 'p> {
    lexer: Lexer<'t>,
    token: Token<'t>,
    /// The last token that is no operator, for errors.
    near: &'t [u8],
    nodes: usize,
    property: &'p mut dyn FnMut(&[u8]) -> Option<usize>,
}

impl<'t> Parser<'t, '_> {
    fn advance(&mut self) -> Token<'t> {
        let token = self.token;
        self.token = self.lexer.next();
        self.look();
        token
    }

    fn look(&mut self) {
        use TokenKind::{Number, Property, Symbol, Text};
        if matches!(self.token.kind, Number(_) | Property | Symbol | Text) {
            self.near = self.token.bytes;
        }
    }

    fn syntax_error(&self) -> Vec<u8> {
        let start = self.token.start.to_string();
        [b"Syntax error at offset ", start.as_bytes(), b" near '", self.near, b"'"].concat()
    }

    /// Operands with operators of this level and above, from left to right.
    fn expression(&mut self, level: u8, depth: usize) -> Result<Expression, Vec<u8>> {
        if depth > DEPTH_MAX {
            return Err(b"Expression is nested too deeply".to_vec());
        }
        let first = self.member(level, depth)?;
        let mut rest = Vec::new();
        while let TokenKind::Operator(operator) = self.token.kind
            && operator.level() == level
        {
            self.advance();
            self.count()?;
            rest.push((operator, self.member(level, depth)?));
        }
        match rest.is_empty() {
            true => Ok(first),
            false => Ok(Expression::Chain(Box::new(first), rest)),
        }
    }

    fn member(&mut self, level: u8, depth: usize) -> Result<Expression, Vec<u8>> {
        match level {
            3 => self.operand(depth),
            0 if self.token.kind == TokenKind::Not => self.negation(depth),
            _ => self.expression(level + 1, depth),
        }
    }

    /// `!` before a comparison.
    fn negation(&mut self, depth: usize) -> Result<Expression, Vec<u8>> {
        self.advance();
        self.count()?;
        if depth > DEPTH_MAX {
            return Err(b"Expression is nested too deeply".to_vec());
        }
        let operand = match self.token.kind {
            TokenKind::Not => self.negation(depth + 1)?,
            _ => self.expression(1, depth + 1)?,
        };
        Ok(Expression::Not(Box::new(operand)))
    }

    fn operand(&mut self, depth: usize) -> Result<Expression, Vec<u8>> {
        self.count()?;
        match self.token.kind {
            TokenKind::Number(number) => {
                self.advance();
                Ok(Expression::Literal(Value::Number(number)))
            }
            TokenKind::Text => {
                let bytes = self.advance().bytes;
                let inner = &bytes[1..bytes.len() - 1];
                Ok(Expression::Literal(Value::text(&unescape(inner))))
            }
            TokenKind::Property => {
                let name = self.advance().bytes;
                match (self.property)(name) {
                    Some(slot) => Ok(Expression::Property(slot, name.into())),
                    None => Err([b"Property `", name, b"` not loaded nor in pipeline"].concat()),
                }
            }
            TokenKind::Open => {
                self.advance();
                let inner = self.expression(0, depth + 1)?;
                self.expect(TokenKind::Close)?;
                Ok(inner)
            }
            TokenKind::Not => self.negation(depth + 1),
            TokenKind::Symbol => self.symbol(depth),
            _ => Err(self.syntax_error()),
        }
    }

    /// A call, or a constant.
    fn symbol(&mut self, depth: usize) -> Result<Expression, Vec<u8>> {
        let name = self.advance().bytes;
        if self.token.kind == TokenKind::Open {
            self.advance();
            let mut arguments = Vec::new();
            if self.token.kind != TokenKind::Close {
                arguments.push(self.expression(0, depth + 1)?);
                while self.token.kind == TokenKind::Comma {
                    self.advance();
                    arguments.push(self.expression(0, depth + 1)?);
                }
            }
            self.expect(TokenKind::Close)?;
            return match Function::of(name) {
                Some(function) => Ok(Expression::Call(function, arguments)),
                None => Err([b"Unknown function name '", name, b"'"].concat()),
            };
        }
        if name == b"NULL" {
            return Ok(Expression::Literal(Value::Null));
        }
        let unknown = [b"Unknown symbol '", name, b"'"].concat();
        match self.token.kind {
            TokenKind::End | TokenKind::Operator(_) | TokenKind::Close | TokenKind::Comma => {
                Err(unknown)
            }
            _ => Err([&self.syntax_error(), &b": "[..], &unknown].concat()),
        }
    }

    fn expect(&mut self, kind: TokenKind) -> Result<(), Vec<u8>> {
        if self.token.kind != kind {
            return Err(self.syntax_error());
        }
        self.advance();
        Ok(())
    }

    fn count(&mut self) -> Result<(), Vec<u8>> {
        self.nodes += 1;
        match self.nodes > NODES_MAX {
            true => Err(b"Expression is too long".to_vec()),
            false => Ok(()),
        }
    }
}
