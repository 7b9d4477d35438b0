//! The language of `APPLY` and `FILTER`.
//!
//! ```text
//! or, and     a && b || c      from left to right, both alike
//! not         !a < b           negates the whole comparison
//! comparison  a == b < c       from left to right
//! sum         a + b - c
//! product     a * b / c % d ^ e
//! operand     12, -3, 'text', @property, name(argument, ...), NULL, (a)
//! ```
//!
//! A sign before digits belongs to the number: `a -1` is two operands, `a - 1` a difference.

mod eval;
mod functions;
mod geo;
mod lexer;
mod parser;
mod strings;
mod time;

pub use eval::{EvalError, evaluate};
pub use functions::Function;
pub use parser::parse;

use crate::aggregate::value::Value;

/// Maximum number of operands and operators of an expression.
pub const NODES_MAX: usize = 65_536;
/// Maximum depth of an expression.
pub const DEPTH_MAX: usize = 128;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A constant.
    Literal(Value),
    /// The value in a slot of the row; the name is for errors.
    Property(usize, Box<[u8]>),
    /// `!a`
    Not(Box<Expression>),
    /// Operators of one level, applied from left to right.
    Chain(Box<Expression>, Vec<(Operator, Expression)>),
    /// A function of arguments.
    Call(Function, Vec<Expression>),
}

/// Operators.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operator {
    /// `||`
    Or,
    /// `&&`
    And,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `^`
    Power,
}

impl Operator {
    /// How closely the operator binds.
    pub(super) fn level(self) -> u8 {
        match self {
            Self::Or | Self::And => 0,
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessOrEqual
            | Self::Greater
            | Self::GreaterOrEqual => 1,
            Self::Add | Self::Subtract => 2,
            Self::Multiply | Self::Divide | Self::Modulo | Self::Power => 3,
        }
    }
}
