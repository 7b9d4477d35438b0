//! Arguments of search commands, which Redis reads in its own way and with its own errors.

use crate::fail::Fail;
use crate::numbers;

const CONVERSION: &str = "Could not convert argument to expected type";
const MISSING: &str = "Expected an argument, but none provided";
const BOUNDS: &str = "Value is outside acceptable bounds";

/// A cursor over arguments.
pub(super) struct Arguments<'a> {
    all: &'a [&'a [u8]],
    at: usize,
}

fn bad(option: &str, why: &str) -> Fail {
    Fail::new(format!("Bad arguments for {option}: {why}"))
}

impl<'a> Arguments<'a> {
    /// Arguments after those of fixed meaning.
    pub fn new(all: &'a [&'a [u8]]) -> Self {
        Arguments { all, at: 0 }
    }

    /// Whether all were read.
    pub fn is_empty(&self) -> bool {
        self.at == self.all.len()
    }

    /// Number of arguments that were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next argument.
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let word = *self.all.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// Reads the next argument if it is this word.
    pub fn take(&mut self, word: &str) -> bool {
        let is_it =
            self.all.get(self.at).is_some_and(|next| next.eq_ignore_ascii_case(word.as_bytes()));
        self.at += usize::from(is_it);
        is_it
    }

    /// The value of an option.
    pub fn value(&mut self, option: &str) -> Result<&'a [u8], Fail> {
        self.next().ok_or_else(|| bad(option, MISSING))
    }

    /// A number that is not negative.
    pub fn number(&mut self, option: &str) -> Result<u64, Fail> {
        let number = numbers::integer(self.value(option)?).map_err(|_| bad(option, CONVERSION))?;
        u64::try_from(number).map_err(|_| bad(option, BOUNDS))
    }

    /// The error of a number that is too small or too large.
    pub fn out_of_bounds(option: &str) -> Fail {
        bad(option, BOUNDS)
    }

    /// A number of either sign.
    pub fn integer(&mut self, option: &str) -> Result<i64, Fail> {
        numbers::integer(self.value(option)?).map_err(|_| bad(option, CONVERSION))
    }

    /// A number of arguments, and those.
    pub fn list(&mut self, option: &str) -> Result<&'a [&'a [u8]], Fail> {
        let len = usize::try_from(self.number(option)?).map_err(|_| bad(option, BOUNDS))?;
        let rest = &self.all[self.at..];
        let list = rest.get(..len).ok_or_else(|| bad(option, MISSING))?;
        self.at += len;
        Ok(list)
    }
}
