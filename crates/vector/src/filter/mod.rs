//! Filter language of `FILTER`: expressions over the JSON attributes of an element.
//!
//! ```text
//! .year >= 1980 and .genre in ["drama", "crime"] or not (.rating < 7.5)
//! ```
//!
//! | precedence | operators |
//! |---|---|
//! | highest | `not`, `!` |
//! | | `**`, right-associative |
//! | | `*`, `/`, `%` |
//! | | `+`, `-` |
//! | | `>`, `>=`, `<`, `<=`, `==`, `!=`, `in` |
//! | | `and`, `&&` |
//! | lowest | `or`, `\|\|` |
//!
//! Operands are numbers, strings in either quotes, tuples `[1, "a"]`, `null` and selectors `.name`
//! of top-level attributes. An element passes if the value is not 0, not empty and not null. It
//! does not pass if a selected attribute is missing or an object, or the attributes are not JSON up
//! to there. Errors and their positions follow Redis 8.2, and so do conversions: a string counts as
//! the number that it spells, or as 0, as does a tuple. An element also fails if the evaluation
//! exceeds some 16 million comparisons of values, or of eight bytes each of long strings.

mod json;
mod run;
#[cfg(test)]
mod tests;
mod token;

use std::collections::HashMap;
use token::{Operator, Token, Tokens};

/// Maximum length of an expression in bytes: it is evaluated for each element.
const EXPRESSION_MAX: usize = 64 * 1024;

/// A compiled filter. For an element it takes time linear in its program and in the element's
/// attributes, and in their product at most [`run::WORK_MAX`].
#[derive(Clone, Debug)]
pub struct Filter {
    program: Vec<Step>,
    names: Names,
    text: Box<[u8]>,
}

/// Distinct attributes that a filter selects, in ascending order.
#[derive(Clone, Debug, Default)]
struct Names(Vec<Vec<u8>>);

/// Syntax error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SyntaxError {
    /// The expression from the error on; all of it if the position is unknown.
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
    /// Attribute at this index of the [`Names`].
    Select(usize),
    Apply(Operator),
}

impl Filter {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If its syntax is invalid.
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
        let (program, names) = compiler.finish().ok_or_else(whole)?;
        Ok(Filter { program, names, text: expression.into() })
    }

    /// Cost of running the filter over `bytes` of attributes, in units of about ten nanoseconds.
    pub(crate) fn units(&self, attributes: usize) -> usize {
        8 + self.program.len() * 4 + (self.text.len() + attributes) / 8
    }

    /// Source text of the expression.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Conversion to postfix order (Dijkstra's shunting yard).
#[derive(Default)]
struct Compiler {
    program: Vec<Step>,
    /// Attributes in order of first occurrence, and the index of each.
    places: HashMap<Vec<u8>, usize>,
    operators: Vec<Operator>,
    /// Stack depth after the program so far.
    depth: usize,
}

impl Compiler {
    fn take(&mut self, token: Token) -> Option<()> {
        match token {
            Token::Value(value) => self.push(Step::Value(value)),
            Token::Selector(name) => {
                let next = self.places.len();
                let place = *self.places.entry(name).or_insert(next);
                self.push(Step::Select(place));
            }
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

    fn finish(mut self) -> Option<(Vec<Step>, Names)> {
        while let Some(operator) = self.operators.pop() {
            if operator == Operator::Open {
                return None;
            }
            self.apply(operator)?;
        }
        let mut names: Vec<(Vec<u8>, usize)> = self.places.into_iter().collect();
        names.sort_unstable();
        let mut moved = vec![0; names.len()];
        names.iter().enumerate().for_each(|(to, &(_, from))| moved[from] = to);
        for step in &mut self.program {
            if let Step::Select(place) = step {
                *place = moved[*place];
            }
        }
        let names = Names(names.into_iter().map(|(name, _)| name).collect());
        (self.depth == 1).then_some((self.program, names))
    }
}

impl Names {
    /// Index of a name.
    fn place_of(&self, name: &[u8]) -> Option<usize> {
        // Most filters select one or two names.
        match self.0.len() {
            ..=4 => self.0.iter().position(|other| other == name),
            _ => self.0.binary_search_by(|other| other[..].cmp(name)).ok(),
        }
    }
}
