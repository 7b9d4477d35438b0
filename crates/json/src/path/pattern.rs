//! Patterns of filters: regular expressions with bounded memory and time.
//!
//! A pattern is matched by a lazy DFA, which takes a step or so for each byte. Where that would
//! fill its memory again and again, and where words end at characters beyond ASCII, the NFA is
//! simulated, and every state counts for every byte.

use crate::work::{SearchError, Work};
use regex_automata::hybrid::dfa;
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures, pikevm};
use regex_automata::util::syntax;
use regex_automata::{Input, hybrid};
use regex_syntax::hir::{Hir, Look};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Longest pattern, in bytes of text. The parser's result takes some thousand times that.
const TEXT_MAX: usize = 1024;

/// Bytes that the compiled pattern may have: `\w` takes 20 KB of them.
const NFA_BYTES_MAX: usize = 512 << 10;

/// Bytes that the states of the lazy DFA may have.
const CACHE_BYTES_MAX: usize = 256 << 10;

/// Fillings of the cache in one search after which the NFA is simulated.
const FILLINGS_MAX: usize = 4;

/// Steps that compiling a pattern takes, at least and for each byte of its text.
const COMPILE_STEPS: u64 = 4000;
const COMPILE_STEPS_PER_BYTE: u64 = 1000;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    nfa: NFA,
    /// None if the pattern has more states than its memory holds.
    lazy: Option<(dfa::DFA, Mutex<dfa::Cache>)>,
}

impl Pattern {
    /// Compiles a pattern that matches a part of a text, or all of it; none if the text is not a
    /// valid one.
    pub fn compile(
        text: &[u8],
        is_whole: bool,
        work: &mut Work,
    ) -> Result<Option<Self>, SearchError> {
        let Ok(text) = str::from_utf8(text) else { return Ok(None) };
        if text.len() > TEXT_MAX {
            return Err(SearchError::Pattern);
        }
        work.spend(COMPILE_STEPS + COMPILE_STEPS_PER_BYTE * text.len() as u64)?;
        let config = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(NFA_BYTES_MAX))
            .which_captures(WhichCaptures::None);
        let syntax = syntax::Config::new().utf8(false);
        let Ok(parsed) = syntax::parse_with(text, &syntax) else { return Ok(None) };
        let parsed = match is_whole {
            true => Hir::concat(vec![Hir::look(Look::Start), parsed, Hir::look(Look::End)]),
            false => parsed,
        };
        let nfa = match NFA::compiler().configure(config).build_from_hir(&parsed) {
            Ok(nfa) => nfa,
            Err(error) if error.size_limit().is_some() => return Err(SearchError::Pattern),
            Err(_) => return Ok(None),
        };
        work.spend(nfa.memory_usage() as u64 / 2)?;
        let config = dfa::Config::new()
            .cache_capacity(CACHE_BYTES_MAX)
            .minimum_cache_clear_count(Some(FILLINGS_MAX))
            .unicode_word_boundary(true);
        let lazy = dfa::Builder::new().configure(config).build_from_nfa(nfa.clone()).ok();
        let lazy = lazy.map(|dfa| {
            let cache = Mutex::new(dfa.create_cache());
            (dfa, cache)
        });
        Ok(Some(Pattern { nfa, lazy }))
    }

    /// Whether a part of a text matches.
    pub fn matches(&self, text: &[u8], work: &mut Work) -> Result<bool, SearchError> {
        work.spend(1 + text.len() as u64 / 4)?;
        if let Some((dfa, cache)) = &self.lazy
            && let Some(is_match) = lazy_match(dfa, &mut lock(cache), text, work)?
        {
            return Ok(is_match);
        }
        let states = self.nfa.states().len() as u64;
        work.spend(states.saturating_mul(1 + text.len() as u64) / 2)?;
        let Ok(simulated) = pikevm::Builder::new().build_from_nfa(self.nfa.clone()) else {
            return Err(SearchError::Pattern);
        };
        Ok(simulated.is_match(&mut simulated.create_cache(), text))
    }

    /// Bytes that it takes.
    pub fn footprint(&self) -> usize {
        let lazy = self.lazy.as_ref();
        let lazy = lazy.map(|(dfa, cache)| dfa.memory_usage() + lock(cache).memory_usage());
        size_of::<Self>() + self.nfa.memory_usage() + lazy.unwrap_or(0)
    }
}

fn lock(cache: &Mutex<dfa::Cache>) -> MutexGuard<'_, dfa::Cache> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The match of the lazy DFA; none if it gives up. Making a state takes time by its size.
fn lazy_match(
    dfa: &hybrid::dfa::DFA,
    cache: &mut dfa::Cache,
    text: &[u8],
    work: &mut Work,
) -> Result<Option<bool>, SearchError> {
    let before = (cache.memory_usage(), cache.clear_count());
    let found = dfa.try_search_fwd(cache, &Input::new(text).earliest(true));
    let fillings = cache.clear_count() - before.1;
    let grown = cache.memory_usage().saturating_sub(before.0) + fillings * CACHE_BYTES_MAX;
    if found.is_err() || cache.clear_count() > 0 {
        // The next search has all its fillings.
        cache.reset(dfa);
    }
    work.spend(grown as u64 / 4)?;
    Ok(found.ok().map(|found| found.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(text: &str) -> Pattern {
        Pattern::compile(text.as_bytes(), false, &mut Work::unlimited()).unwrap().unwrap()
    }

    #[test]
    fn patterns_match_parts_of_texts() {
        let cases = [
            ("^The", "The end", true),
            ("^The", "At The end", false),
            ("(?i)price$", "a PRICE", true),
            (r"\bfoo\b", "a foo b", true),
            // Word boundaries at non-ASCII text, unsupported by the lazy DFA.
            (r"\bfoo\b", "\u{e9}foo \u{e9} foo", true),
            (r"\bfoo\b", "\u{e9}foo", false),
            (r"^\w+@\w+\.\w{2,}$", "j\u{f6}rg@example.org", true),
            ("[a-c]{3}", "ab", false),
            ("", "", true),
        ];
        for (pattern, text, expected) in cases {
            let found = compiled(pattern).matches(text.as_bytes(), &mut Work::default());
            assert_eq!(found, Ok(expected), "{pattern} in {text}");
        }
        assert!(Pattern::compile(b"(", false, &mut Work::default()).unwrap().is_none());
    }

    #[test]
    fn whole_texts_are_matched() {
        let cases = [("a|ab", "ab", true), ("a", "ab", false), ("(?x) a b # c", "ab", true)];
        for (pattern, text, expected) in cases {
            let compiled = Pattern::compile(pattern.as_bytes(), true, &mut Work::default());
            let found = compiled.unwrap().unwrap().matches(text.as_bytes(), &mut Work::default());
            assert_eq!(found, Ok(expected), "{pattern} in {text}");
        }
        assert!(Pattern::compile(b"a)(b", true, &mut Work::default()).unwrap().is_none());
    }

    #[test]
    fn neither_memory_nor_time_is_without_end() {
        let large = [&r"\w".repeat(500)[..], r"(\w{100}){100}", r"[\w--\d]{1000}", "a"];
        for text in large.map(|text| text.repeat(TEXT_MAX / 600 + 1)) {
            let Ok(Some(pattern)) = Pattern::compile(text.as_bytes(), false, &mut Work::default())
            else {
                continue;
            };
            let most = NFA_BYTES_MAX + 2 * CACHE_BYTES_MAX;
            assert!(pattern.footprint() < most, "{text}: {}", pattern.footprint());
        }
        let long = "a".repeat(TEXT_MAX + 1);
        let refused = Pattern::compile(long.as_bytes(), false, &mut Work::default());
        assert_eq!(refused.unwrap_err(), SearchError::Pattern);
        // Its DFA has more states than there is memory for, whatever is kept of it.
        let pattern = compiled("[ab]*a[ab]{300}c");
        let mut random = 1u32;
        let text: Vec<u8> = (0..1 << 20)
            .map(|_| {
                random = random.wrapping_mul(1_103_515_245).wrapping_add(12345);
                b'a' + (random >> 30 & 1) as u8
            })
            .collect();
        let mut work = Work::default();
        assert_eq!(pattern.matches(&text, &mut work), Err(SearchError::TooMuchWork));
        let mut work = Work::default();
        assert_eq!(pattern.matches(&text[..1000], &mut work), Ok(false));
        assert!(pattern.footprint() < NFA_BYTES_MAX + 2 * CACHE_BYTES_MAX);
    }
}
