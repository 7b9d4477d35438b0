//! `ARGREP`: elements with a matching text.

use super::regex::{Regex, Searched};
use super::{BYTES_PER_UNIT, beside, index, read, write_number};
use crate::arrays::read::{limit, write_pair};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::glob::{Case, Pattern};
use crate::long::{UNITS_PER_ITEM, expect};
use memchr::memmem::Finder;
use petrel_keyspace::array::INDEX_MAX;
use petrel_table::options::ArgrepOption;
use std::ops::ControlFlow;

/// Predicates of a call at most.
const PREDICATES_MAX: usize = 250;

/// Bytes of all compiled patterns of a call at most.
const REGEX_BYTES_MAX: usize = 8 << 20;

/// Units for compiling a byte of a pattern.
const UNITS_PER_PATTERN_BYTE: usize = 100;

/// Bytes of a compiled pattern that are made in a unit of work.
const COMPILED_BYTES_PER_UNIT: usize = 4;

/// Bytes that are compared in a unit of work, regardless of case.
const FOLDED_BYTES_PER_UNIT: usize = 8;

/// The arguments of a call.
struct Asked<'a> {
    predicates: Vec<ArgrepOption<'a>>,
    is_and: bool,
    limit: u64,
    with_values: bool,
    case: Case,
}

/// A predicate, prepared for many texts.
enum Predicate<'a> {
    Exact(&'a [u8]),
    Within(Box<Finder<'a>>),
    Glob(Box<Pattern<'a>>),
    Regex(Box<Regex>),
}

/// The predicates of a call, and room for a text in lower case.
struct Predicates<'a> {
    all: Vec<Predicate<'a>>,
    is_and: bool,
    case: Case,
    folded: Vec<u8>,
}

/// An end of the range: `-` and `+` are the least and the greatest index.
fn end(text: &[u8]) -> Result<u64, Fail> {
    match text {
        b"-" => Ok(0),
        b"+" => Ok(INDEX_MAX),
        text => index(text),
    }
}

fn asked<'a>(ctx: &Ctx<'a>) -> Result<Asked<'a>, Fail> {
    let mut asked = Asked {
        predicates: Vec::new(),
        is_and: false,
        limit: u64::MAX,
        with_values: false,
        case: Case::Sensitive,
    };
    for option in ctx.options::<ArgrepOption<'a>>(4) {
        match option? {
            ArgrepOption::And => asked.is_and = true,
            ArgrepOption::Or => asked.is_and = false,
            ArgrepOption::Limit(text) => asked.limit = limit(text)?,
            ArgrepOption::Withvalues => asked.with_values = true,
            ArgrepOption::Nocase => asked.case = Case::Insensitive,
            _ if asked.predicates.len() == PREDICATES_MAX => {
                return Err(Fail::fixed("ERR too many predicates, maximum is 250"));
            }
            predicate => asked.predicates.push(predicate),
        }
    }
    if asked.predicates.is_empty() { Err(Fail::SYNTAX) } else { Ok(asked) }
}

impl<'a> Predicates<'a> {
    /// Prepares predicates. `folds` keeps their texts in lower case; `pace` counts the work.
    fn of(
        asked: &Asked<'a>,
        folds: &'a [Vec<u8>],
        pace: &mut dyn FnMut(usize) -> Outcome,
    ) -> Result<Self, Fail> {
        let is_regex = |predicate: &&ArgrepOption<'_>| matches!(predicate, ArgrepOption::Re(_));
        let regexes = asked.predicates.iter().filter(is_regex).count();
        let (mut all, mut regex_bytes) = (Vec::with_capacity(asked.predicates.len()), 0);
        let is_folded = asked.case == Case::Insensitive;
        for (i, predicate) in asked.predicates.iter().enumerate() {
            let text = |text: &'a [u8]| if is_folded { &folds[i][..] } else { text };
            all.push(match *predicate {
                ArgrepOption::Match(part) => Predicate::Within(Box::new(Finder::new(text(part)))),
                ArgrepOption::Glob(pattern) => {
                    Predicate::Glob(Box::new(Pattern::new(pattern, asked.case)))
                }
                ArgrepOption::Re(pattern) => {
                    pace(pattern.len() * UNITS_PER_PATTERN_BYTE)?;
                    let regex = Regex::new(pattern, is_folded, regexes)?;
                    pace(regex.bytes() / COMPILED_BYTES_PER_UNIT)?;
                    regex_bytes += regex.bytes();
                    if regex_bytes > REGEX_BYTES_MAX {
                        return Err(super::regex::TOO_LARGE);
                    }
                    Predicate::Regex(Box::new(regex))
                }
                ArgrepOption::Exact(whole) => Predicate::Exact(text(whole)),
                _ => return Err(Fail::SYNTAX),
            });
        }
        let folded = Vec::new();
        Ok(Predicates { all, is_and: asked.is_and, case: asked.case, folded })
    }

    /// Whether a text matches. `pace` counts the work.
    fn matches(
        &mut self,
        text: &[u8],
        pace: &mut dyn FnMut(usize) -> Outcome,
    ) -> Result<bool, Fail> {
        let is_folded = self.case == Case::Insensitive;
        let mut is_prepared = false;
        for predicate in &mut self.all {
            let needs_fold = matches!(predicate, Predicate::Exact(_) | Predicate::Within(_));
            if is_folded && needs_fold && !is_prepared {
                pace(text.len() / FOLDED_BYTES_PER_UNIT)?;
                self.folded.clear();
                self.folded.extend(text.iter().map(u8::to_ascii_lowercase));
                is_prepared = true;
            }
            let read = if is_folded && needs_fold { &self.folded[..] } else { text };
            let is_match = match predicate {
                Predicate::Exact(whole) => {
                    pace(1)?;
                    *whole == read
                }
                Predicate::Within(finder) => {
                    pace(1 + read.len() / BYTES_PER_UNIT)?;
                    finder.find(read).is_some()
                }
                Predicate::Glob(pattern) => {
                    pace(pattern.units(text.len()))?;
                    pattern.matches(text)
                }
                Predicate::Regex(regex) => match regex.search(text, pace) {
                    Searched::Found(is_match) => is_match,
                    Searched::Ended(fail) => return Err(fail),
                },
            };
            if is_match != self.is_and {
                return Ok(is_match);
            }
        }
        Ok(self.is_and)
    }
}

/// `ARGREP key start end <EXACT string | MATCH string | GLOB pattern | RE pattern>...
/// [AND | OR | LIMIT limit | WITHVALUES | NOCASE]...`
pub(super) fn grep(ctx: &mut Ctx<'_>) -> Outcome {
    let (start, end) = (end(ctx.arg(2))?, end(ctx.arg(3))?);
    let asked = asked(ctx)?;
    let folds: Vec<Vec<u8>> = match asked.case {
        Case::Sensitive => Vec::new(),
        Case::Insensitive => asked
            .predicates
            .iter()
            .map(|predicate| match *predicate {
                ArgrepOption::Exact(text) | ArgrepOption::Match(text) => text.to_ascii_lowercase(),
                _ => Vec::new(),
            })
            .collect(),
    };
    let (mut held, mut pacer) = (ctx.exec.ks.transient(), ctx.exec.pacer());
    let mut predicates = Predicates::of(&asked, &folds, &mut |units| pacer.pace(units))?;
    let mut found: Vec<u64> = Vec::new();
    if let Some(array) = read(ctx)? {
        let ended = array.each(start, end, &mut |index, element| {
            let is_match = element.with_text(|text| {
                pacer.pace(UNITS_PER_ITEM)?;
                predicates.matches(text, &mut |units| pacer.pace(units))
            });
            match is_match {
                Err(fail) => return ControlFlow::Break(Err(fail)),
                Ok(false) => return ControlFlow::Continue(()),
                Ok(true) => found.push(index),
            }
            if !held.fits(found.capacity() * size_of::<u64>()) {
                return ControlFlow::Break(Err(Fail::OUT_OF_MEMORY));
            }
            match found.len() as u64 >= asked.limit {
                true => ControlFlow::Break(Ok(())),
                false => ControlFlow::Continue(()),
            }
        });
        ended.break_value().unwrap_or(Ok(()))?;
    }
    expect(found.len().saturating_mul(UNITS_PER_ITEM), ctx.exec.units_here)?;
    let (array, reply) = beside(ctx)?;
    reply.array(found.len());
    for index in found {
        if asked.with_values {
            let element = array.and_then(|array| array.get(index));
            pacer.pace_reply(
                UNITS_PER_ITEM + element.map_or(0, |element| element.text_len()) / BYTES_PER_UNIT,
            )?;
            write_pair(reply, index, element);
        } else {
            pacer.pace_reply(1)?;
            write_number(reply, index);
        }
    }
    Ok(())
}
