//! Tokens of an expression.

use super::Value;
use super::run::number_of;

/// Operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Operator {
    Open,
    Close,
    Or,
    And,
    In,
    Equal,
    Unequal,
    Above,
    Below,
    AtLeast,
    AtMost,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Not,
}

/// Spelling of operators. The longest match counts.
const OPERATORS: [(&[u8], Operator); 21] = [
    (b"(", Operator::Open),
    (b")", Operator::Close),
    (b"or", Operator::Or),
    (b"||", Operator::Or),
    (b"and", Operator::And),
    (b"&&", Operator::And),
    (b"in", Operator::In),
    (b"==", Operator::Equal),
    (b"!=", Operator::Unequal),
    (b">=", Operator::AtLeast),
    (b"<=", Operator::AtMost),
    (b">", Operator::Above),
    (b"<", Operator::Below),
    (b"+", Operator::Add),
    (b"-", Operator::Subtract),
    (b"**", Operator::Power),
    (b"*", Operator::Multiply),
    (b"/", Operator::Divide),
    (b"%", Operator::Remainder),
    (b"not", Operator::Not),
    (b"!", Operator::Not),
];

impl Operator {
    /// Higher values bind tighter.
    pub fn precedence(self) -> u8 {
        match self {
            Operator::Open | Operator::Close => 7,
            Operator::Not => 6,
            Operator::Power => 5,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 4,
            Operator::Add | Operator::Subtract => 3,
            Operator::Above
            | Operator::AtLeast
            | Operator::Below
            | Operator::AtMost
            | Operator::Equal
            | Operator::Unequal
            | Operator::In => 2,
            Operator::And => 1,
            Operator::Or => 0,
        }
    }

    pub fn is_from_the_right(self) -> bool {
        self == Operator::Power
    }

    pub fn operands(self) -> usize {
        match self {
            Operator::Open | Operator::Close => 0,
            Operator::Not => 1,
            _ => 2,
        }
    }
}

pub(super) enum Token {
    Value(Value),
    Selector(Vec<u8>),
    Operator(Operator),
}

pub(super) struct Tokens<'a> {
    rest: &'a [u8],
    /// A minus sign begins a number only if no operand precedes it.
    after_operand: bool,
}

fn is_operator_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || b"+-*%/!()<>=|&".contains(&byte)
}

/// Rest of the expression from the error on.
type Wrong<'a> = &'a [u8];

impl<'a> Tokens<'a> {
    pub fn new(expression: &'a [u8]) -> Self {
        Tokens { rest: expression, after_operand: false }
    }

    pub fn next(&mut self) -> Result<Option<Token>, Wrong<'a>> {
        self.skip_spaces();
        let Some(&first) = self.rest.first() else { return Ok(None) };
        let token = match first {
            b'.' => Token::Selector(self.selector()),
            b'[' => Token::Value(self.tuple()?),
            b'"' | b'\'' => Token::Value(self.text()?),
            _ if self.is_number() && !(first == b'-' && self.after_operand) => {
                Token::Value(self.number()?)
            }
            _ if self.is_null() => {
                self.rest = &self.rest[4..];
                Token::Value(Value::Null)
            }
            byte if is_operator_byte(byte) => Token::Operator(self.operator()?),
            _ => return Err(self.rest),
        };
        self.after_operand =
            !matches!(token, Token::Operator(operator) if operator != Operator::Close);
        Ok(Some(token))
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes the longest prefix of matching bytes.
    fn take_while(&mut self, is_such: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|&byte| !is_such(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn selector(&mut self) -> Vec<u8> {
        self.rest = &self.rest[1..];
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        self.take_while(is_name).into()
    }

    fn is_number(&self) -> bool {
        match self.rest {
            [b'-', next, ..] => next.is_ascii_digit(),
            [first, ..] => first.is_ascii_digit(),
            [] => false,
        }
    }

    fn number(&mut self) -> Result<Value, Wrong<'a>> {
        let all = self.rest;
        if self.rest[0] == b'-' {
            self.rest = &self.rest[1..];
        }
        self.take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E'));
        let text = &all[..all.len() - self.rest.len()];
        number_of(text).map(Value::Number).ok_or(self.rest)
    }

    fn text(&mut self) -> Result<Value, Wrong<'a>> {
        let quote = self.rest[0];
        let mut at = 1;
        while let Some(&byte) = self.rest.get(at) {
            match byte {
                // An escaped character does not end the text; the backslash stays in it.
                b'\\' => at += 2,
                _ if byte == quote => {
                    let text = self.rest[1..at].into();
                    self.rest = &self.rest[at + 1..];
                    return Ok(Value::Text(text));
                }
                _ => at += 1,
            }
        }
        Err(b"")
    }

    fn tuple(&mut self) -> Result<Value, Wrong<'a>> {
        self.rest = &self.rest[1..];
        let mut values = Vec::new();
        loop {
            self.skip_spaces();
            match self.rest.first() {
                Some(b']') => break,
                Some(b'"' | b'\'') => values.push(self.text()?),
                Some(_) if self.is_number() => values.push(self.number()?),
                _ => return Err(self.rest),
            }
            self.skip_spaces();
            match self.rest.first() {
                Some(b',') => self.rest = &self.rest[1..],
                Some(b']') => break,
                _ => return Err(self.rest),
            }
        }
        self.rest = &self.rest[1..];
        Ok(Value::Tuple(values))
    }

    fn is_null(&self) -> bool {
        let next = self.rest.get(4).copied();
        self.rest.starts_with(b"null") && next.is_none_or(|next| !is_operator_byte(next))
    }

    fn operator(&mut self) -> Result<Operator, Wrong<'a>> {
        let fits = OPERATORS.iter().filter(|(text, _)| self.rest.starts_with(text));
        match fits.max_by_key(|(text, _)| text.len()) {
            Some((text, operator)) => {
                self.rest = &self.rest[text.len()..];
                Ok(*operator)
            }
            None => {
                self.take_while(is_operator_byte);
                Err(self.rest)
            }
        }
    }
}
