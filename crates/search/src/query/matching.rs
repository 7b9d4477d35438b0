//! Terms of the dictionary that a pattern or a fuzzy word stands for.

use super::ast::{Pattern, Term};
use super::lexer::unescape;
use crate::structures::terms::TermId;
use crate::structures::texts::Texts;
use crate::text::{fold, is_group};

/// Shorter prefixes match nothing (`MINPREFIX`).
pub const PREFIX_LEN_MIN: usize = 2;

/// Terms that one pattern is expanded to (`MAXPREFIXEXPANSIONS`); those of most documents.
pub const EXPANSIONS_MAX: usize = 200;

/// The terms that match a pattern, at most [`EXPANSIONS_MAX`].
pub(super) fn matching_terms(texts: &Texts, pattern: &Pattern) -> Vec<TermId> {
    let terms = texts.terms();
    let found = match pattern {
        Pattern::Prefix(text) if text.len() >= PREFIX_LEN_MIN => {
            terms.with_prefix(&fold(text)).collect()
        }
        Pattern::Suffix(text) if text.len() >= PREFIX_LEN_MIN => {
            let suffix = fold(text);
            terms.containing(&suffix).filter(|&id| terms.text(id).ends_with(&suffix)).collect()
        }
        Pattern::Infix(text) if text.len() >= PREFIX_LEN_MIN => {
            terms.containing(&fold(text)).collect()
        }
        Pattern::Wildcard(text) => {
            let wildcard = fold(text);
            let matches = |(id, term): (TermId, &[u8])| matches(&wildcard, term).then_some(id);
            terms.iter().filter_map(matches).collect()
        }
        _ => Vec::new(),
    };
    most_frequent(texts, found)
}

/// The folded form of a pattern.
pub(super) fn fold_pattern(pattern: &Pattern) -> Pattern {
    match pattern {
        Pattern::Prefix(text) => Pattern::Prefix(fold(text).into()),
        Pattern::Suffix(text) => Pattern::Suffix(fold(text).into()),
        Pattern::Infix(text) => Pattern::Infix(fold(text).into()),
        Pattern::Wildcard(text) => Pattern::Wildcard(fold(text).into()),
    }
}

/// Whether a term matches a folded pattern.
pub(super) fn is_of_pattern(pattern: &Pattern, term: &[u8]) -> bool {
    match pattern {
        Pattern::Prefix(text) => text.len() >= PREFIX_LEN_MIN && term.starts_with(text),
        Pattern::Suffix(text) => text.len() >= PREFIX_LEN_MIN && term.ends_with(text),
        Pattern::Infix(text) => {
            text.len() >= PREFIX_LEN_MIN && memchr::memmem::find(term, text).is_some()
        }
        Pattern::Wildcard(text) => matches(text, term),
    }
}

/// The terms within a Levenshtein distance in bytes, at most [`EXPANSIONS_MAX`].
pub(super) fn similar_terms(texts: &Texts, word: &[u8], distance: u8) -> Vec<TermId> {
    let word = fold(word);
    let distance = usize::from(distance);
    let mut row = Vec::new();
    let terms = texts.terms().iter();
    let near = terms.filter(|(_, term)| is_near(&word, term, distance, &mut row));
    most_frequent(texts, near.map(|(id, _)| id).collect())
}

/// Drops all but the terms of most documents. Stems are terms too, as in Redis.
fn most_frequent(texts: &Texts, mut terms: Vec<TermId>) -> Vec<TermId> {
    terms.retain(|&id| texts.frequency(id) > 0);
    if terms.len() > EXPANSIONS_MAX {
        terms.sort_by_key(|&id| std::cmp::Reverse(texts.frequency(id)));
        terms.truncate(EXPANSIONS_MAX);
        terms.sort_unstable();
    }
    terms
}

/// Whether a term matches a pattern with `*`, `?` and escapes. Time is at most the product of both
/// lengths.
fn matches(pattern: &[u8], term: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, position));
                at += 1;
                continue;
            }
            None if position == term.len() => return true,
            Some(b'?') if position < term.len() => Some(1),
            Some(b'\\') if pattern.len() > at + 1 => {
                (term.get(position) == pattern.get(at + 1)).then_some(2)
            }
            Some(byte) => (term.get(position) == Some(byte)).then_some(1),
            None => None,
        };
        if let Some(width) = step {
            at += width;
            position += 1;
            continue;
        }
        match star {
            Some((after, from)) if from < term.len() => {
                star = Some((after, from + 1));
                at = after;
                position = from + 1;
            }
            _ => return false,
        }
    }
}

/// Whether two words differ by at most `max` inserted, removed or replaced bytes.
pub(super) fn is_near(word: &[u8], term: &[u8], max: usize, row: &mut Vec<usize>) -> bool {
    if word.len().abs_diff(term.len()) > max {
        return false;
    }
    row.clear();
    row.extend(0..=term.len());
    for (at, byte) in word.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        let mut least = row[0];
        for column in 1..=term.len() {
            let replaced = diagonal + usize::from(term[column - 1] != *byte);
            diagonal = row[column];
            row[column] = replaced.min(row[column] + 1).min(row[column - 1] + 1);
            least = least.min(row[column]);
        }
        if least > max {
            return false;
        }
    }
    row[term.len()] <= max
}

/// The text of a term as the dictionary has it. Names of groups of synonyms are not folded.
pub(super) fn form_of(term: &Term) -> Vec<u8> {
    let is_own = term.text.is_ascii() || term.expanded && is_group(&term.text);
    if is_own { term.text.to_vec() } else { fold(&unescape(&term.text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, term, expected) in [
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*a", "aaa", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("??", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), term.as_bytes()), expected, "{pattern} {term}");
        }
        assert!(!matches("*a".repeat(200).as_bytes(), "a".repeat(199).as_bytes()));
    }

    #[test]
    fn distances() {
        let mut row = Vec::new();
        for (word, term, max, expected) in [
            ("hello", "hello", 0, true),
            ("hello", "hallo", 1, true),
            ("hello", "hell", 1, true),
            ("hello", "yellow", 1, false),
            ("hello", "yellow", 2, true),
            ("", "ab", 2, true),
            ("kitten", "sitting", 3, true),
            ("kitten", "sitting", 2, false),
        ] {
            assert_eq!(
                is_near(word.as_bytes(), term.as_bytes(), max, &mut row),
                expected,
                "{word} {term}"
            );
        }
    }
}
