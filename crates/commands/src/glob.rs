//! Glob patterns as Redis writes them: `*`, `?`, `[a-z]`, `[^a]` and backslash.
//!
//! Short patterns are compared directly, which takes at most the product of both lengths. For
//! longer ones the pattern is [compiled](compiled::Compiled) first. Then stars cost nothing, and
//! literal text between two stars is searched in linear time. Long runs of `?` and classes are
//! searched 64 positions at a time; after [`WORK_MAX`] such steps the text counts as not matching.

mod compiled;

use compiled::Compiled;
use std::cell::OnceCell;

/// Comparison of letters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Case {
    /// `A` differs from `a`.
    Sensitive,
    /// ASCII letters match in either case.
    Insensitive,
}

/// Maximum number of stars followed by other elements that a match may use, as in Redis.
const STARS_MAX: usize = 1000;

/// Maximum product of both lengths for a direct comparison.
const DIRECT_MAX: usize = 4096;

/// Maximum length of a compiled pattern, since compiling takes several times the pattern's memory.
const COMPILED_MAX: usize = 256 * 1024;

/// Maximum number of steps of one comparison, beyond steps that are linear in both lengths. A step
/// takes about a nanosecond. Only contrived patterns reach this: hundreds of `?` and classes
/// against a text of thousands of bytes.
const WORK_MAX: usize = 1 << 24;

/// A pattern for comparison with many texts.
pub struct Pattern<'p> {
    pattern: &'p [u8],
    case: Case,
    /// Compiled for the first text that makes it worth it.
    compiled: OnceCell<Compiled>,
}

impl<'p> Pattern<'p> {
    /// Creates a pattern without compiling it.
    pub fn new(pattern: &'p [u8], case: Case) -> Self {
        Pattern { pattern, case, compiled: OnceCell::new() }
    }

    /// Whether the whole of `text` matches. Takes time proportional to the sum of both lengths,
    /// plus at most some tens of milliseconds.
    pub fn matches(&self, text: &[u8]) -> bool {
        let (pattern, case) = (self.pattern, self.case);
        if pattern.len().saturating_mul(text.len()) <= DIRECT_MAX {
            return matches_directly(pattern, text, case, &mut usize::MAX.clone());
        }
        let mut work = WORK_MAX.saturating_add(8 * (pattern.len() + text.len()));
        if pattern.len() > COMPILED_MAX {
            return matches_directly(pattern, text, case, &mut work);
        }
        self.compiled.get_or_init(|| Compiled::new(pattern, case)).matches(text, &mut work)
    }

    /// Units for comparing a text of this length.
    pub(crate) fn units(&self, text: usize) -> usize {
        let product = self.pattern.len().saturating_mul(text);
        1 + if product <= DIRECT_MAX { product / 16 } else { text + product / 1024 }
    }
}

/// Like [`Pattern::matches`], for a single text.
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    Pattern::new(pattern, case).matches(text)
}

/// Compares pattern and text in parallel and backtracks to the last star. No match after `work`
/// steps.
fn matches_directly(pattern: &[u8], text: &[u8], case: Case, work: &mut usize) -> bool {
    let (mut p, mut t) = (0, 0);
    // The position to backtrack to: behind the last star, and one byte further in the text.
    let mut retry = None;
    let mut stars = 0;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            if pattern.get(p).is_some_and(|&next| next != b'*') {
                stars += 1;
                if stars > STARS_MAX {
                    return false;
                }
            }
            retry = Some((p, t));
            continue;
        }
        let (step, length) = match text.get(t) {
            Some(&byte) => match_one(&pattern[p..], byte, case),
            None if p == pattern.len() => return true,
            None => return false,
        };
        let Some(left) = work.checked_sub(length) else { return false };
        *work = left;
        match (step, retry) {
            (true, _) => {
                p += length;
                t += 1;
            }
            (false, Some((after_star, from))) => {
                retry = Some((after_star, from + 1));
                (p, t) = (after_star, from + 1);
            }
            (false, None) => return false,
        }
    }
}

/// Whether `text` contains a special character of patterns.
pub fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|b| matches!(b, b'*' | b'?' | b'['))
}

/// Whether the first element of `pattern` matches `byte`, and the element's length.
fn match_one(pattern: &[u8], byte: u8, case: Case) -> (bool, usize) {
    match pattern {
        [] => (false, 1),
        [b'?', ..] => (true, 1),
        [b'[', class @ ..] => match_class(class, byte, case),
        [b'\\', escaped, ..] => (equal(*escaped, byte, case), 2),
        [literal, ..] => (equal(*literal, byte, case), 1),
    }
}

/// Whether a class matches `byte`, and the class's length including its opening bracket.
fn match_class(class: &[u8], byte: u8, case: Case) -> (bool, usize) {
    let (byte, mut found) = (fold(byte, case), false);
    let (negated, length) =
        class_of(class, case, |low, high| found |= (low..=high).contains(&byte));
    (found != negated, length + 1)
}

/// Parses a class up to its closing bracket (or to the end of the pattern, as Redis does). Passes
/// its ranges to `take`; returns whether it is negated, and its length.
fn class_of(class: &[u8], case: Case, mut take: impl FnMut(u8, u8)) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    loop {
        let (low, high, length) = match class[at..] {
            [] => return (negated, at),
            [b']', ..] => return (negated, at + 1),
            [b'\\', literal, ..] => (literal, literal, 2),
            [low, b'-', high, ..] => (low.min(high), low.max(high), 3),
            [literal, ..] => (literal, literal, 1),
        };
        take(fold(low, case), fold(high, case));
        at += length;
    }
}

fn equal(a: u8, b: u8, case: Case) -> bool {
    fold(a, case) == fold(b, case)
}

fn fold(byte: u8, case: Case) -> u8 {
    match case {
        Case::Sensitive => byte,
        Case::Insensitive => byte.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn insensitive(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), Case::Insensitive)
    }

    #[test]
    fn patterns() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "maxmemory"),
            ("MAX*", "maxmemory"),
            ("*mem*y", "maxmemory"),
            ("p?rt", "port"),
            ("[a-m]*[^x]", "maxmemory"),
            ("[z-a]z", "mz"),
            (r"\*", "*"),
            (r"[\]]", "]"),
            ("[abc", "b"),
        ] {
            assert!(insensitive(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("a", ""), ("?", ""), ("*a", "ab"), ("[^a]", "a"), ("p?rt", "prt")]
        {
            assert!(!insensitive(pattern, text), "{pattern} {text}");
        }
        assert!(!matches(b"A*", b"ab", Case::Sensitive));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        assert!(!insensitive(&"*a".repeat(200), &"b".repeat(5000)));
        let text = "a".repeat(2000);
        assert!(insensitive(&("**a".repeat(1000) + "*"), &text));
        assert!(!insensitive(&("*a".repeat(1001) + "*"), &text));
    }

    /// Reference implementation by exhaustive search.
    fn model(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| model(rest, &text[skip..])),
            (_, []) => false,
            (_, [byte, rest @ ..]) => {
                let (is_match, length) = match_one(pattern, *byte, Case::Sensitive);
                is_match && model(&pattern[length..], rest)
            }
        }
    }

    fn draw(random: &mut Random, alphabet: &[u8], len_max: u64) -> Vec<u8> {
        let len = random.below(len_max + 1);
        (0..len).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect()
    }

    fn directly(pattern: &[u8], text: &[u8], case: Case) -> bool {
        matches_directly(pattern, text, case, &mut usize::MAX.clone())
    }

    /// Compiled patterns match like directly compared ones, for parts of any length and either
    /// case.
    #[test]
    fn a_compiled_pattern_matches_what_it_says() {
        let mut random = Random::new(11);
        let mut matched = 0;
        for round in 0..60_000 {
            let case = if round % 2 == 0 { Case::Sensitive } else { Case::Insensitive };
            let pattern = draw(&mut random, br"aAb*?[]^-\", 9);
            let text = draw(&mut random, b"aAbB*-", 8);
            let expected = directly(&pattern, &text, case);
            let context = (pattern.escape_ascii(), text.escape_ascii());
            let compiled = Compiled::new(&pattern, case).matches(&text, &mut WORK_MAX.clone());
            assert_eq!(compiled, expected, "{context:?}");
            matched += usize::from(expected);
        }
        assert!(matched > 1000, "{matched} matches");
        matched = 0;
        for round in 0..3000 {
            // Derived from the text, with some stars, so that many match; long enough for several
            // blocks.
            let text = draw(&mut random, b"ab", 400);
            let from = random.below(text.len() as u64 + 1) as usize;
            let mut pattern = b"*".to_vec();
            for &byte in &text[from..] {
                match random.below(40) {
                    0 => pattern.push(b'?'),
                    1 => pattern.extend_from_slice(&[b'[', byte, b'x', b']']),
                    2 if round % 3 == 0 => pattern.extend_from_slice(b"*"),
                    3 if round % 7 == 0 => pattern.push(b'a'),
                    _ => pattern.push(byte),
                }
            }
            if round % 2 == 0 {
                pattern.push(b'*');
            }
            let expected = directly(&pattern, &text, Case::Sensitive);
            let context = (pattern.escape_ascii(), text.escape_ascii());
            let compiled = Compiled::new(&pattern, Case::Sensitive);
            assert_eq!(compiled.matches(&text, &mut WORK_MAX.clone()), expected, "{context:?}");
            matched += usize::from(expected);
        }
        assert!(matched > 500 && matched < 2900, "{matched} matches");
    }

    /// Steps are byte comparisons. The products of the lengths would be 6 and 0.9 billion.
    #[test]
    fn long_patterns_and_texts_take_no_product_of_their_lengths() {
        let text = [&b"a".repeat(60_000)[..], b"b"].concat();
        let class = [&b"["[..], &b"xyz".repeat(33_000), b"a]*c"].concat();
        assert!(!matches(&class, &text, Case::Sensitive));
        let class = Pattern::new(&class, Case::Sensitive);
        (0..2000).for_each(|_| assert!(!class.matches(&text)));
        let elements = [&b"*"[..], &b"?a".repeat(15_000), b"c*"].concat();
        let elements = Pattern::new(&elements, Case::Sensitive);
        (0..3).for_each(|_| assert!(!elements.matches(&text)));
    }

    /// Patterns mostly of `?` and classes, in texts that match almost everywhere.
    #[test]
    fn no_pattern_and_text_take_long() {
        let began = std::time::Instant::now();
        for (part, byte) in [("?a", 1_000_000), ("[ab]?", 30_000), ("?", 200_000)] {
            let text = [&b"a".repeat(byte)[..], b"b"].concat();
            for stars in 1..4 {
                let part = part.repeat(60_000 / part.len() / stars);
                let pattern = [format!("*{part}").repeat(stars).as_bytes(), b"c*"].concat();
                assert!(!matches(&pattern, &text, Case::Sensitive));
            }
        }
        // Patterns that are too long to be compiled.
        let text = "a".repeat(1_000_000);
        assert!(!insensitive(&("*".to_string() + &"?a".repeat(400_000) + "c*"), &text));
        assert!(insensitive(&("*".to_string() + &"?a".repeat(400_000) + "*"), &text));
        assert!(insensitive(&("[a]".repeat(1_000_000)), &text));
        // Takes a second or two; without `WORK_MAX` it would take hours.
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
    }

    #[test]
    fn going_back_to_the_last_star_is_enough() {
        let mut random = Random::new(7);
        let mut draw = |alphabet: &[u8], len_max: u64| -> Vec<u8> {
            let len = random.below(len_max + 1);
            (0..len).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect()
        };
        let mut matched = 0;
        for _ in 0..100_000 {
            let (pattern, text) = (draw(br"aab*?[]^-\", 9), draw(b"aab*-", 8));
            let expected = model(&pattern, &text);
            matched += usize::from(expected);
            let context = (pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(matches(&pattern, &text, Case::Sensitive), expected, "{context:?}");
        }
        assert!(matched > 1000, "{matched} matches");
    }
}
