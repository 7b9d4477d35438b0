//! Commands written as text with places for numbers: `HSET hash:{n:08} field{?10} v{n*31+at%100}`.
//!
//! A place holds a sum of products of integers, the variables `n`, `at` and `size`, and random
//! numbers (`?10` is drawn from 0 to 9, `?n` below `n`), then optionally `%` with a number that the
//! sum is taken modulo, and `:` with the number of digits it is filled up to with zeros; `{512B}`
//! is a value of 512 bytes. Words are separated as in a shell; a word `;` separates the commands of
//! one operation.

use petrel_resp::encode_command;

use crate::random::Random;

/// The variables of a template.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables {
    /// Number of the key.
    pub n: u64,
    /// Number of the element.
    pub at: u64,
    /// Elements of the collection, or keys.
    pub size: u64,
}

/// Commands to be filled with numbers.
#[derive(Clone, Debug)]
pub struct Template(Vec<Vec<Word>>);

type Word = Vec<Piece>;

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Number { terms: Vec<Vec<Factor>>, modulo: Option<u64>, digits: usize },
}

#[derive(Clone, Copy, Debug)]
enum Factor {
    Integer(u64),
    N,
    At,
    Size,
    RandomBelow(u64),
    RandomBelowSize,
}

impl Template {
    /// Reads a template. An error names the wrong place.
    pub fn parse(text: &str) -> Result<Template, String> {
        let words = shlex::split(text).ok_or_else(|| format!("'{text}': a quote is left open"))?;
        let commands = words.split(|word| word == ";");
        let commands = commands.map(|words| words.iter().map(|word| parse_word(word)).collect());
        Ok(Template(commands.collect::<Result<_, String>>()?))
    }

    /// Reads a template of the program itself.
    ///
    /// # Panics
    ///
    /// If it is wrong; tests read all of them.
    pub fn known(text: &str) -> Template {
        Template::parse(text).expect("a template of the program itself is tested")
    }

    /// Commands, and so replies, of one operation.
    pub fn replies(&self) -> u64 {
        self.0.len() as u64
    }

    /// Appends the commands.
    pub fn put(&self, variables: Variables, random: &mut Random, out: &mut Vec<u8>) {
        for words in &self.0 {
            let mut arguments = Arguments::default();
            words.iter().for_each(|word| arguments.add(word, variables, random));
            arguments.encode(out);
        }
    }

    /// Appends one command: this template's words, then those of `element` for each number of
    /// `elements`.
    pub fn put_with(
        &self,
        element: &Template,
        elements: std::ops::Range<u64>,
        variables: Variables,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) {
        let mut arguments = Arguments::default();
        self.0.iter().flatten().for_each(|word| arguments.add(word, variables, random));
        for at in elements {
            let variables = Variables { at, ..variables };
            element.0.iter().flatten().for_each(|word| arguments.add(word, variables, random));
        }
        arguments.encode(out);
    }
}

fn parse_word(word: &str) -> Result<Word, String> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some((text, after)) = rest.split_once('{') {
        let (place, after) =
            after.split_once('}').ok_or_else(|| format!("'{word}': a brace is left open"))?;
        pieces.push(Piece::Text(text.to_owned()));
        pieces.push(parse_place(place).ok_or_else(|| format!("'{{{place}}}' is no place"))?);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

fn parse_place(text: &str) -> Option<Piece> {
    if let Some(size) = text.strip_suffix('B') {
        return Some(Piece::Text("v".repeat(size.parse().ok()?)));
    }
    let (text, digits) = match text.split_once(':') {
        Some((text, digits)) => (text, digits.parse().ok().filter(|digits| *digits <= 20)?),
        None => (text, 0),
    };
    let (sum, modulo) = match text.split_once('%') {
        Some((sum, modulo)) => (sum, Some(modulo.parse().ok().filter(|modulo| *modulo > 0)?)),
        None => (text, None),
    };
    let product = |text: &str| text.split('*').map(parse_factor).collect::<Option<Vec<_>>>();
    let terms = sum.split('+').map(product).collect::<Option<Vec<_>>>()?;
    Some(Piece::Number { terms, modulo, digits })
}

fn parse_factor(text: &str) -> Option<Factor> {
    match text {
        "n" => Some(Factor::N),
        "at" => Some(Factor::At),
        "size" => Some(Factor::Size),
        "?size" => Some(Factor::RandomBelowSize),
        _ => match text.strip_prefix('?') {
            Some(bound) => bound.parse().ok().map(Factor::RandomBelow),
            None => text.parse().ok().map(Factor::Integer),
        },
    }
}

/// The arguments of one command, one behind the other.
#[derive(Debug, Default)]
struct Arguments {
    text: String,
    ends: Vec<usize>,
}

impl Arguments {
    fn add(&mut self, word: &Word, variables: Variables, random: &mut Random) {
        for piece in word {
            match piece {
                Piece::Text(text) => self.text.push_str(text),
                Piece::Number { terms, modulo, digits } => {
                    let mut value = |factor: &Factor| match *factor {
                        Factor::Integer(number) => number,
                        Factor::N => variables.n,
                        Factor::At => variables.at,
                        Factor::Size => variables.size,
                        Factor::RandomBelow(bound) => random.below(bound),
                        Factor::RandomBelowSize => random.below(variables.size),
                    };
                    let sum = terms.iter().fold(0u64, |sum, factors| {
                        let product = |product: u64, f| product.wrapping_mul(value(f));
                        sum.wrapping_add(factors.iter().fold(1, product))
                    });
                    let number = modulo.map_or(sum, |modulo| sum % modulo);
                    use std::fmt::Write;
                    // Writing to a string does not fail.
                    let _ = write!(self.text, "{number:0digits$}");
                }
            }
        }
        self.ends.push(self.text.len());
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut begin = 0;
        let cut = |end: &usize| &self.text.as_bytes()[std::mem::replace(&mut begin, *end)..*end];
        encode_command(&self.ends.iter().map(cut).collect::<Vec<&[u8]>>(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &str) -> String {
        let mut out = Vec::new();
        let variables = Variables { n: 7, at: 3, size: 100 };
        Template::parse(text).unwrap().put(variables, &mut Random::new(1), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn places_are_filled() {
        assert_eq!(put("GET k:{n:04}"), "*2\r\n$3\r\nGET\r\n$6\r\nk:0007\r\n");
        assert_eq!(
            put("A {n*31+at*7%100} '{size} b'"),
            "*3\r\n$1\r\nA\r\n$2\r\n38\r\n$5\r\n100 b\r\n"
        );
        assert_eq!(put("A {3B}"), "*2\r\n$1\r\nA\r\n$3\r\nvvv\r\n");
        assert_eq!(put("A ; B"), "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
        let drawn = put(&"{?10} ".repeat(1000));
        assert!((0..10).all(|digit| drawn.contains(&format!("\r\n{digit}\r\n"))));
        assert!(!drawn.contains("$2"));
    }

    #[test]
    fn elements_follow_the_head() {
        let mut out = Vec::new();
        let (head, element) = (Template::known("SADD s{n}"), Template::known("m{at}"));
        let variables = Variables { n: 1, ..Variables::default() };
        head.put_with(&element, 4..6, variables, &mut Random::new(1), &mut out);
        assert_eq!(out, b"*4\r\n$4\r\nSADD\r\n$2\r\ns1\r\n$2\r\nm4\r\n$2\r\nm5\r\n");
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for text in ["a {", "a {x}", "a {n%0}", "a {?}", "a {n:99}", "a 'b", "a {n+}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
