//! The grammar of filters and expressions.
//!
//! ```text
//! filter      all { "||" all }            all     condition { "&&" condition }
//! condition   "!" condition | sum [ relation sum ]
//! sum         product { ("+" | "-") product }
//! product     factor { ("*" | "/" | "%") factor }
//! factor      [ "+" | "-" ] ( "(" filter ")" | base [ "~" ] | base { "." name "(" [ args ] ")" } )
//! base        "@" path | "$" path | name "(" [ args ] ")" | literal
//! ```
//!
//! A filter in parentheses is an operand if it is an expression only.

use super::PATTERNS_MAX;
use super::PathError;
use super::expr::{Expr, Match, Operator, Sign};
use super::filter::{Comparison, Filter, Relation};
use super::function::Function;
use super::parse::{Parsed, Reader};
use crate::parse::{Parse, parse as parse_json};
use crate::print::print_string;
use crate::tape::{Document, Writer};
use std::sync::OnceLock;

/// Maximum depth of nested filters, parentheses and arguments.
const NESTING_MAX: usize = 32;

/// Operands that an expression expects.
const OPERAND: &str =
    "<string>, <number>, <path>, <function>, <array>, <object>, true, false, null";

/// An expression, or a condition that is none.
enum Item {
    Expr(Expr),
    Filter(Filter),
}

/// An operator between the sides of a condition.
enum Joint {
    Compare(Comparison),
    Relate(Relation),
    RelateNot(Relation),
    Match,
}

impl Item {
    fn into_filter(self) -> Filter {
        match self {
            Item::Expr(expr) => Filter::Holds(expr),
            Item::Filter(filter) => filter,
        }
    }
}

/// The end of a name that a text begins with, and the rest from its parenthesis on, if it is that
/// of a function.
fn function_name(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (name, rest) = text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()));
    let rest = rest.trim_start_matches(' ');
    rest.starts_with('(').then_some((name, rest))
}

/// Whether a text begins with a call of a function.
pub(super) fn begins_with_call(text: &str) -> bool {
    function_name(text).is_some()
}

impl<'t> Reader<'t> {
    /// Name of the method that is called here, and the position behind it.
    pub fn method(&self) -> Option<(&'t str, usize)> {
        let (name, rest) = function_name(self.text[self.at..].strip_prefix('.')?)?;
        Some((name, self.text.len() - rest.len()))
    }

    /// A path or a projection, which may begin with a path that was read.
    pub fn projection(&mut self, first: Option<Expr>) -> Parsed<Expr> {
        let first = first.map(|first| self.methods_or_keys(first)).transpose()?;
        match self.sum(first.map(Item::Expr))? {
            Item::Expr(expr) => Ok(expr),
            Item::Filter(_) => Err(self.expected("an operator")),
        }
    }

    pub fn filter(&mut self) -> Parsed<Filter> {
        self.any_of().map(Item::into_filter)
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            let text = format!("filters are nested at most {NESTING_MAX} deep");
            return Err(PathError { text });
        }
        let result = read(self)?;
        self.nesting -= 1;
        Ok(result)
    }

    /// Conditions joined by `||`.
    fn any_of(&mut self) -> Parsed<Item> {
        self.nested(|reader| reader.joined("||", Filter::Or, Self::all_of))
    }

    /// Conditions joined by `&&`.
    fn all_of(&mut self) -> Parsed<Item> {
        self.joined("&&", Filter::And, Self::condition)
    }

    fn joined(
        &mut self,
        token: &str,
        join: fn(Vec<Filter>) -> Filter,
        read: fn(&mut Self) -> Parsed<Item>,
    ) -> Parsed<Item> {
        let first = read(self)?;
        if !self.take_spaced(token) {
            return Ok(first);
        }
        let mut all = vec![first.into_filter(), read(self)?.into_filter()];
        while self.take_spaced(token) {
            all.push(read(self)?.into_filter());
        }
        Ok(Item::Filter(join(all)))
    }

    fn condition(&mut self) -> Parsed<Item> {
        self.skip_space();
        if self.take("!") {
            self.count_selector()?;
            let negated = self.nested(Self::condition)?.into_filter();
            return Ok(Item::Filter(Filter::Not(Box::new(negated))));
        }
        let left = match self.sum(None)? {
            Item::Expr(left) => left,
            filter @ Item::Filter(_) => return Ok(filter),
        };
        let Some(joint) = self.joint() else { return Ok(Item::Expr(left)) };
        let right = self.operand(Self::sum)?;
        Ok(Item::Filter(match joint {
            Joint::Compare(how) => Filter::Compare(left, how, right),
            Joint::Relate(how) => Filter::Relate(left, how, right),
            Joint::RelateNot(how) => Filter::Not(Box::new(Filter::Relate(left, how, right))),
            Joint::Match => Filter::Holds(self.matching(left, right, false)?),
        }))
    }

    /// An operator between two sides, if there is one.
    fn joint(&mut self) -> Option<Joint> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let signs = [
            ("=~", Joint::Match),
            ("==", Joint::Compare(Comparison::Equal)),
            ("!=", Joint::Compare(Comparison::NotEqual)),
            ("<=", Joint::Compare(Comparison::LessOrEqual)),
            (">=", Joint::Compare(Comparison::GreaterOrEqual)),
            ("<", Joint::Compare(Comparison::Less)),
            (">", Joint::Compare(Comparison::Greater)),
        ];
        if let Some((sign, joint)) = signs.into_iter().find(|(sign, _)| rest.starts_with(sign)) {
            self.at += sign.len();
            return Some(joint);
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let joint = match word {
            "in" => Joint::Relate(Relation::In),
            "nin" => Joint::RelateNot(Relation::In),
            "subsetof" => Joint::Relate(Relation::SubsetOf),
            "anyof" => Joint::Relate(Relation::AnyOf),
            "noneof" => Joint::RelateNot(Relation::AnyOf),
            "size" | "sizeof" => Joint::Relate(Relation::Size),
            "empty" => Joint::Relate(Relation::Empty),
            _ => return None,
        };
        self.at += word.len();
        Some(joint)
    }

    /// A test by a pattern. Literal patterns are counted, since they stay compiled.
    fn matching(&mut self, text: Expr, pattern: Expr, is_whole: bool) -> Parsed<Expr> {
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            let text = format!("a path has at most {PATTERNS_MAX} patterns");
            return Err(PathError { text });
        }
        let compiled = OnceLock::new();
        Ok(Expr::Match(Box::new(Match { text, pattern, is_whole, compiled })))
    }

    /// An expression, where a condition would be no operand.
    fn operand(&mut self, read: fn(&mut Self, Option<Item>) -> Parsed<Item>) -> Parsed<Expr> {
        match read(self, None)? {
            Item::Expr(expr) => Ok(expr),
            Item::Filter(_) => Err(self.expected("'&&', '||', ')', ']'")),
        }
    }

    fn sum(&mut self, first: Option<Item>) -> Parsed<Item> {
        let operators = [("+", Operator::Add), ("-", Operator::Subtract)];
        self.chain(&operators, first, Self::product)
    }

    fn product(&mut self, first: Option<Item>) -> Parsed<Item> {
        let operators =
            [("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];
        self.chain(&operators, first, Self::factor)
    }

    /// Operands joined by operators of one precedence, from left to right.
    fn chain(
        &mut self,
        operators: &[(&str, Operator)],
        first: Option<Item>,
        read: fn(&mut Self, Option<Item>) -> Parsed<Item>,
    ) -> Parsed<Item> {
        let mut left = match read(self, first)? {
            Item::Expr(left) => left,
            filter @ Item::Filter(_) => return Ok(filter),
        };
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take_spaced(sign)) {
            let right = self.operand(read)?;
            left = Expr::Arithmetic(*operator, Box::new((left, right)));
        }
        Ok(Item::Expr(left))
    }

    fn factor(&mut self, first: Option<Item>) -> Parsed<Item> {
        if let Some(first) = first {
            return Ok(first);
        }
        self.count_selector()?;
        self.skip_space();
        let is_number = self.text[self.at..].starts_with(|c: char| "+-".contains(c))
            && self.text[self.at + 1..].starts_with(|c: char| c.is_ascii_digit());
        let sign = match self.peek() {
            Some('+') => Some(Sign::Plus),
            Some('-') if !is_number => Some(Sign::Minus),
            _ => None,
        };
        if let Some(sign) = sign {
            self.at += 1;
            return match self.primary()? {
                Item::Expr(expr) => Ok(Item::Expr(Expr::Sign(sign, Box::new(expr)))),
                Item::Filter(_) => Err(self.expected(OPERAND)),
            };
        }
        self.primary()
    }

    fn primary(&mut self) -> Parsed<Item> {
        if self.take_spaced("(") {
            let inner = self.any_of()?;
            return match self.take_spaced(")") {
                true => Ok(inner),
                false => Err(self.expected("')', '&&', '||', an operator")),
            };
        }
        let base = self.base()?;
        self.methods_or_keys(base).map(Item::Expr)
    }

    /// `~`, or calls of methods of the operand before.
    fn methods_or_keys(&mut self, mut of: Expr) -> Parsed<Expr> {
        if self.take_spaced("~") {
            return Ok(Expr::Call(Function::Keys, vec![of]));
        }
        while let Some((name, end)) = self.method() {
            self.at = end;
            of = self.call(name, vec![of])?;
            self.skip_space();
        }
        Ok(of)
    }

    /// A call with the arguments in parentheses that are here.
    fn call(&mut self, name: &str, mut args: Vec<Expr>) -> Parsed<Expr> {
        self.count_selector()?;
        self.at += 1;
        self.nested(|reader| {
            if reader.take_spaced(")") {
                return Ok(());
            }
            loop {
                args.push(reader.operand(Self::sum)?);
                if reader.take_spaced(")") {
                    return Ok(());
                }
                if !reader.take(",") {
                    return Err(reader.expected("',', ')'"));
                }
            }
        })?;
        if let ("match" | "search", 2) = (name, args.len()) {
            let pattern = args.remove(1);
            return self.matching(args.remove(0), pattern, name == "match");
        }
        Ok(Expr::Call(Function::of(name, args.len()), args))
    }

    fn base(&mut self) -> Parsed<Expr> {
        self.skip_space();
        let mut segments = Vec::new();
        match self.peek() {
            Some(from @ ('@' | '$')) => {
                self.at += 1;
                self.segments(&mut segments)?;
                Ok(if from == '@' { Expr::Current(segments) } else { Expr::Root(segments) })
            }
            Some('"' | '\'') => {
                let mut writer = Writer::default();
                writer.string(self.quoted()?.as_bytes());
                Ok(Expr::Literal(writer.finish()))
            }
            Some('[' | '{') => Ok(Expr::Literal(self.container()?)),
            _ => match function_name(&self.text[self.at..]) {
                Some((name, rest)) => {
                    self.at = self.text.len() - rest.len();
                    self.call(name, Vec::new())
                }
                None => Ok(Expr::Literal(self.literal()?)),
            },
        }
    }

    /// An array or an object; its strings may have quotes of either kind.
    fn container(&mut self) -> Parsed<Document> {
        let (mut json, mut depth) = (Vec::new(), 0usize);
        loop {
            let Some(&byte) = self.text.as_bytes().get(self.at) else {
                return Err(self.expected("']', '}'"));
            };
            match byte {
                b'"' | b'\'' => {
                    print_string(self.quoted()?.as_bytes(), &mut json);
                    continue;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            json.push(byte);
            self.at += 1;
            if depth == 0 {
                let parsed = parse_json(&json, Parse::default());
                return parsed.map_err(|_| self.expected(OPERAND));
            }
        }
    }

    /// A number, `true`, `false`, `null`.
    fn literal(&mut self) -> Parsed<Document> {
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let mut len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        // A number may have methods.
        let of_method = |at: &usize| function_name(&rest[at + 1..]).is_some();
        len = rest[..len].match_indices('.').map(|(at, _)| at).find(of_method).unwrap_or(len);
        let parsed = parse_json(&rest.as_bytes()[..len], Parse::default());
        let document = parsed.map_err(|_| self.expected(OPERAND))?;
        self.at += len;
        Ok(document)
    }
}
