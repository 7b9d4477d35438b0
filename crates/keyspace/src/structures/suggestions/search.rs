//! The best terms of a prefix. Scores are those of RediSearch.

use super::{Suggestion, Suggestions};
use petrel_search::text::fold;
use std::cmp::Ordering;

/// Score of a term that is the prefix itself.
const EXACT: f32 = i32::MAX as f32;

/// Terms that are kept beyond the best before these are sorted.
const SPARE: usize = 64;

/// A search.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The beginning of the terms.
    pub prefix: &'a [u8],
    /// Whether beginnings that differ by one character are found too.
    pub is_fuzzy: bool,
    /// Maximum number of terms.
    pub max: usize,
}

impl Suggestions {
    /// The best terms with their scores, the best first. `go_on` is called for each term that
    /// is looked at, and may end the search.
    pub fn best(
        &self,
        wanted: Wanted<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Vec<(f32, &Suggestion)> {
        let prefix = fold(wanted.prefix);
        let letters: Vec<char> = String::from_utf8_lossy(&prefix).chars().collect();
        let mut found: Vec<(f32, &Suggestion)> = Vec::new();
        let first: &[u8] = if wanted.is_fuzzy { b"" } else { &prefix };
        let mut row = Vec::new();
        for suggestion in self.from(first) {
            let begins = suggestion.folded().starts_with(&prefix);
            if !go_on() || !begins && !wanted.is_fuzzy {
                break;
            }
            let text = String::from_utf8_lossy(suggestion.folded());
            if begins || begins_nearly(&letters, &text, &mut row) {
                let score = score(suggestion, &text, &letters, wanted.prefix.len(), begins);
                found.push((score, suggestion));
                if found.len() / 2 > wanted.max.saturating_add(SPARE) {
                    keep_best(&mut found, wanted.max);
                }
            }
        }
        keep_best(&mut found, wanted.max);
        found
    }
}

fn keep_best(found: &mut Vec<(f32, &Suggestion)>, max: usize) {
    let compare = |a: &(f32, &Suggestion), b: &(f32, &Suggestion)| -> Ordering {
        b.0.total_cmp(&a.0).then_with(|| a.1.term().cmp(b.1.term()))
    };
    found.sort_unstable_by(compare);
    found.truncate(max);
}

/// The score of a found term. Its length in characters is compared with that of the prefix in
/// bytes, as in Redis.
fn score(
    suggestion: &Suggestion,
    text: &str,
    prefix: &[char],
    prefix_bytes: usize,
    begins: bool,
) -> f32 {
    let len = text.chars().count();
    // A term counts as the prefix itself if all but its last character are the same, in their case.
    let own = String::from_utf8_lossy(suggestion.term());
    let same = own.chars().zip(prefix).take_while(|(a, b)| a == *b).count();
    let is_same = same + 1 >= len && (begins || len > 1);
    let is_exact = len == prefix.len() && is_same;
    let score = f64::from(if is_exact { EXACT } else { suggestion.score });
    let near = if begins { 1.0 } else { (-2f64).exp() };
    (score * near / ((1 + len.abs_diff(prefix_bytes)) as f64).sqrt()) as f32
}

/// Whether a beginning of a text differs from a prefix by at most one inserted, removed or
/// replaced character.
fn begins_nearly(prefix: &[char], text: &str, row: &mut Vec<usize>) -> bool {
    if prefix.len() <= 1 {
        return true;
    }
    row.clear();
    row.extend(0..=prefix.len());
    // Beginnings that are longer by more than one differ by more.
    for (at, letter) in text.chars().take(prefix.len() + 1).enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for column in 1..=prefix.len() {
            let replaced = diagonal + usize::from(prefix[column - 1] != letter);
            diagonal = row[column];
            row[column] = replaced.min(row[column] + 1).min(row[column - 1] + 1);
        }
        if row[prefix.len()] <= 1 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(terms: &[(&str, f32)]) -> Suggestions {
        let mut all = Suggestions::default();
        terms.iter().for_each(|(term, score)| all.put(Suggestion::new(term.as_bytes(), *score)));
        all
    }

    fn found(all: &Suggestions, prefix: &str, is_fuzzy: bool) -> Vec<(String, f32)> {
        let wanted = Wanted { prefix: prefix.as_bytes(), is_fuzzy, max: 20 };
        let found = all.best(wanted, &mut || true);
        let text = |term: &[u8]| String::from_utf8_lossy(term).into_owned();
        found.into_iter().map(|(score, one)| (text(one.term()), score)).collect()
    }

    fn named(found: &[(&str, f32)]) -> Vec<(String, f32)> {
        found.iter().map(|(term, score)| (term.to_string(), *score)).collect()
    }

    #[test]
    fn scores_are_those_of_redis() {
        let terms = ["\u{e9}", "\u{e9}a", "\u{e9}ab", "a\u{e9}", "ab\u{e9}", "ab", "abc", "abcd"];
        let words = all(&terms.map(|term| (term, 2.0)));
        let score = |score: f64, n: f64| (score / n.sqrt()) as f32;
        let root = |n: f64| score(2.0, n);
        let (exact, near) = (f64::from(EXACT), (-2f64).exp());
        assert_eq!(
            found(&words, "\u{e9}", false),
            named(&[("\u{e9}", score(exact, 2.0)), ("\u{e9}a", 2.0), ("\u{e9}ab", root(2.0))])
        );
        assert_eq!(
            found(&words, "AB", false),
            named(&[
                ("ab", EXACT),
                ("abc", root(2.0)),
                ("ab\u{e9}", root(2.0)),
                ("abcd", root(3.0))
            ])
        );
        assert_eq!(
            found(&words, "axc", true),
            named(&[("abc", score(2.0 * near, 1.0)), ("abcd", score(2.0 * near, 2.0))])
        );
        assert_eq!(
            found(&words, "abx", true)[..2],
            named(&[("abc", score(exact * near, 1.0)), ("ab\u{e9}", score(exact * near, 1.0))])
        );
        assert_eq!(found(&words, "", false).len(), 8);
        assert_eq!(found(&words, "x", false), []);
        assert_eq!(found(&words, "x", true).len(), 8);
    }

    #[test]
    fn only_the_best_are_kept() {
        let terms: Vec<String> = (0..1000).map(|n| format!("t{n:04}")).collect();
        let terms: Vec<_> = terms.iter().zip(0u16..).map(|(t, n)| (&**t, f32::from(n))).collect();
        let words = all(&terms);
        let wanted = Wanted { prefix: b"t", is_fuzzy: false, max: 2 };
        let best = words.best(wanted, &mut || true);
        let best: Vec<_> = best.iter().map(|(_, one)| one.term()).collect();
        assert_eq!(best, [&b"t0999"[..], b"t0998"]);
        let mut left = 10;
        let mut go_on = || {
            left -= 1;
            left > 0
        };
        assert_eq!(words.best(wanted, &mut go_on).len(), 2);
    }
}
