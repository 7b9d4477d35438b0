//! The language of `FILTER`: an expression over the JSON attributes of an element.
//!
//! ```text
//! .year >= 1980 and .genre in ["drama", "crime"] or not (.rating < 7.5)
//! ```
//!
//! | precedence | operators |
//! |---|---|
//! | highest | `not`, `!` |
//! | | `**`, from the right |
//! | | `*`, `/`, `%` |
//! | | `+`, `-` |
//! | | `>`, `>=`, `<`, `<=`, `==`, `!=`, `in` |
//! | | `and`, `&&` |
//! | lowest | `or`, `\|\|` |
//!
//! Operands are numbers, strings in either quotes, tuples `[1, "a"]`, `null` and selectors `.name`
//! of top-level attributes. An element passes if the value is not 0, not empty and not null; it
//! does not if an attribute that is selected is missing or an object, or its attributes are no JSON
//! up to there. What is an error, and where it is said to be, follows Redis 8.2; and so do
//! conversions: a string counts as the number it spells, as 0 if it spells none, as does a tuple.

mod json;
mod run;
#[cfg(test)]
mod tests;
mod token;

use token::{Operator, Token, Tokens};

/// Longest expression, bytes, and most of its tokens: it is run for each element.
const EXPRESSION_MAX: usize = 64 * 1024;

/// A filter that is ready to be run.
#[derive(Clone, Debug)]
pub struct Filter {
    program: Vec<Step>,
    text: Box<[u8]>,
}

/// An expression that is no filter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SyntaxError {
    /// The expression from where it is wrong; all of it if that is not known.
    pub near: Vec<u8>,
}

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(f64),
    Text(Vec<u8>),
    Tuple(Vec<Value>),
    Null,
}

#[derive(Clone, Debug)]
enum Step {
    Value(Value),
    Select(Vec<u8>),
    Apply(Operator),
}

impl Filter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If it is none.
    pub fn compile(expression: &[u8]) -> Result<Self, SyntaxError> {
        let whole = || SyntaxError { near: expression.into() };
        if expression.len() > EXPRESSION_MAX {
            return Err(SyntaxError { near: expression[..64].into() });
        }
        let mut tokens = Tokens::new(expression);
        let mut compiler = Compiler::default();
        loop {
            let token = tokens.next().map_err(|near| match near {
                b"" => whole(),
                near => SyntaxError { near: near.into() },
            })?;
            match token {
                None => break,
                Some(token) => compiler.take(token).ok_or_else(whole)?,
            }
        }
        let program = compiler.finish().ok_or_else(whole)?;
        Ok(Filter { program, text: expression.into() })
    }

    /// The expression.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Puts operators behind their operands (Dijkstra's shunting yard).
#[derive(Default)]
struct Compiler {
    program: Vec<Step>,
    operators: Vec<Operator>,
    /// Values that there are when the program so far has run.
    depth: usize,
}

impl Compiler {
    fn take(&mut self, token: Token) -> Option<()> {
        match token {
            Token::Value(value) => self.push(Step::Value(value)),
            Token::Selector(name) => self.push(Step::Select(name)),
            Token::Operator(Operator::Open) => self.operators.push(Operator::Open),
            Token::Operator(Operator::Close) => loop {
                match self.operators.pop()? {
                    Operator::Open => break,
                    operator => self.apply(operator)?,
                }
            },
            Token::Operator(operator) => {
                while let Some(&before) = self.operators.last()
                    && before != Operator::Open
                    && (before.precedence() > operator.precedence()
                        || before.precedence() == operator.precedence()
                            && !operator.is_from_the_right())
                {
                    self.operators.pop();
                    self.apply(before)?;
                }
                self.operators.push(operator);
            }
        }
        Some(())
    }

    fn push(&mut self, step: Step) {
        self.program.push(step);
        self.depth += 1;
    }

    fn apply(&mut self, operator: Operator) -> Option<()> {
        self.depth = self.depth.checked_sub(operator.operands())? + 1;
        self.program.push(Step::Apply(operator));
        Some(())
    }

    fn finish(mut self) -> Option<Vec<Step>> {
        while let Some(operator) = self.operators.pop() {
            if operator == Operator::Open {
                return None;
            }
            self.apply(operator)?;
        }
        (self.depth == 1).then_some(self.program)
    }
}
