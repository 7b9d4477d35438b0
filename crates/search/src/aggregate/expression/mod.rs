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

mod call;
mod error;
mod eval;
mod functions;
mod geo;
mod lexer;
mod parser;
mod strings;
mod time;

pub use error::EvalError;
pub use eval::evaluate;
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
    /// Precedence.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of an expression as a reply shows it, or the error.
    fn evaluated(text: &str) -> String {
        let row = [
            Some(Value::Number(2.5)),
            Some(Value::text(b"12")),
            Some(Value::text(b"free one")),
            None,
        ];
        let slot = |name: &[u8]| [b"n", b"s", b"x", b"q"].iter().position(|known| *known == name);
        let shown = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match parse(text.as_bytes(), &mut |name| slot(name)) {
            Err(error) => shown(error),
            Ok(expression) => match evaluate(&expression, &row) {
                Err(error) => shown(error.0),
                Ok(Value::Null) => "NULL".to_string(),
                Ok(Value::Array(items)) => format!("{}", items.len()),
                Ok(value) => {
                    let mut bytes = Vec::new();
                    value.print(&mut bytes);
                    shown(bytes)
                }
            },
        }
    }

    #[test]
    fn expressions_are_those_of_redis() {
        let cases = [
            ("2^3^2", "64"),
            ("2+3*4", "14"),
            ("2*3^2", "36"),
            ("8/2^2", "16"),
            ("5 % 3 ^ 2", "4"),
            ("-2^2", "4"),
            ("2/0", "nan"),
            ("-5%3", "-2"),
            ("5%0.5", "nan"),
            ("3 - -1", "4"),
            ("1=<2", "1"),
            ("1||0&&0", "0"),
            ("!2<3", "0"),
            ("5==2<1", "1"),
            ("1||@q", "1"),
            ("@q||1", "q: has no value, consider using EXISTS if applicable"),
            ("exists(@q)", "0"),
            ("case(exists(@q),@q,'none')", "none"),
            ("'10'<'9'", "1"),
            ("'10'<9", "0"),
            ("'a'<1", "Error converting string 'a' to number"),
            ("@x+1", "Could not convert value to a number"),
            ("'a\\'b'", "a'b"),
            ("NULL<1", "1"),
            ("upper(1)", "NULL"),
            ("upper(@x)", "FREE ONE"),
            ("substr('hello',-3,-1)", "ll"),
            ("format('%s-%%',1/3)", "0.333333333333-%"),
            ("split('a, b ,,c')", "3"),
            ("to_number('12 ')", "to_number: cannot convert string '12 '"),
            ("log(1,2)", "Invalid number of arguments for log"),
            ("month(1700000000)", "1698796800"),
            ("year(-1)", "NULL"),
            ("geodistance('1.5,2.5',1.6,2.6)", "15721.99"),
            ("geodistance(1,2,3)", "Invalid arguments for function 'geodistance'"),
            ("10-3", "Syntax error at offset 2 near '-3'"),
            ("1 + ", "Syntax error at offset 2 near '1'"),
            ("1,2", "Syntax error at offset 1 near '1'"),
            ("", "Syntax error at offset 0 near ''"),
            ("not 1", "Syntax error at offset 4 near '1': Unknown symbol 'not'"),
            ("foo(1)", "Unknown function name 'foo'"),
            ("@zz", "Property `zz` not loaded nor in pipeline"),
        ];
        for (text, result) in cases {
            assert_eq!(evaluated(text), result, "{text}");
        }
    }

    #[test]
    fn long_and_deep_expressions_are_bounded() {
        let long = vec!["1"; 30_000].join("+ ");
        assert_eq!(evaluated(&long), "30000");
        assert_eq!(evaluated(&vec!["1"; 80_000].join("+ ")), "Expression is too long");
        for deep in ["(", "!", "abs(", "1+(", "!("] {
            let text = format!("{}1", deep.repeat(100_000));
            assert!(evaluated(&text).contains("deep"), "{deep}");
        }
    }
}
