//! A text with marks, and its summary: fragments around its found words.
//!
//! Lengths, limits and blanks are as observed at RediSearch 2.10.

use super::marks::{Mark, Marks};
use crate::text::is_separator;
use std::collections::HashSet;
use std::ops::Range;

/// Words up to this distance are in one fragment.
const DISTANCE_MAX: u32 = 8;

/// Bytes that a word of the surroundings counts.
const WORD_LEN: u64 = 6;

/// Texts around a found word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tags<'t> {
    /// Text before the word.
    pub open: &'t [u8],
    /// Text behind the word.
    pub close: &'t [u8],
}

/// Form of a summary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Summary<'s> {
    /// Maximum number of fragments.
    pub fragments: u32,
    /// Words of a fragment.
    pub len: u32,
    /// Text behind each fragment.
    pub separator: &'s [u8],
}

/// The output would be too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooLong;

/// Bytes of limited number.
pub struct Output<'o> {
    /// The bytes.
    pub bytes: &'o mut Vec<u8>,
    /// Largest number of bytes.
    pub max: usize,
}

impl Output<'_> {
    fn push(&mut self, text: &[u8]) -> Result<(), TooLong> {
        if text.len() > self.max.saturating_sub(self.bytes.len()) {
            return Err(TooLong);
        }
        self.bytes.extend_from_slice(text);
        Ok(())
    }

    /// Adds a part of a fragment, with one space for each run of blanks.
    fn push_plain(&mut self, text: &[u8]) -> Result<(), TooLong> {
        let mut rest = text;
        while !rest.is_empty() {
            let is_blank = rest[0].is_ascii_whitespace();
            let same = |byte: &u8| byte.is_ascii_whitespace() == is_blank;
            let len = rest.iter().position(|byte| !same(byte)).unwrap_or(rest.len());
            let (run, others) = rest.split_at(len);
            self.push(if is_blank { b" " } else { run })?;
            rest = others;
        }
        Ok(())
    }
}

/// Writes a text with tags around its found words.
///
/// # Errors
/// If the output would be too long.
pub fn write_marked(
    text: &[u8],
    marks: &Marks,
    tags: Tags<'_>,
    out: &mut Output<'_>,
) -> Result<(), TooLong> {
    let mut at = 0;
    for mark in &marks.all {
        out.push(&text[at..mark.bytes.start])?;
        for part in [tags.open, &text[mark.bytes.clone()], tags.close] {
            out.push(part)?;
        }
        at = mark.bytes.end;
    }
    out.push(&text[at..])
}

/// Writes the summary of a text. `score`: the weight of a term, which decides between fragments.
///
/// # Errors
/// If the output would be too long.
pub fn write_summary(
    text: &[u8],
    marks: &Marks,
    summary: Summary<'_>,
    tags: Option<Tags<'_>>,
    score: &dyn Fn(&[u8]) -> f64,
    out: &mut Output<'_>,
) -> Result<(), TooLong> {
    if marks.is_empty() {
        return out.push(if tags.is_some() { text } else { beginning(text, summary) });
    }
    let chosen = chosen(marks, summary, score);
    let mut begin = 0;
    for (at, fragment) in chosen.iter().enumerate() {
        let found = &marks.all[fragment.clone()];
        let context = context(found, summary);
        let (Some(first), Some(last)) = (found.first(), found.last()) else { continue };
        let next = chosen.get(at + 1).map(|next| &marks.all[next.start]);
        let end = next.map_or(text.len(), |next| next.bytes.start);
        let surroundings = &text[begin..first.bytes.start];
        let mut at = first.bytes.start - context.map_or(0, |len| before(surroundings, len));
        begin = last.bytes.end;
        for mark in found {
            out.push_plain(&text[at..mark.bytes.start])?;
            let tags = tags.unwrap_or(Tags { open: b"", close: b"" });
            out.push(tags.open)?;
            out.push_plain(&text[mark.bytes.clone()])?;
            out.push(tags.close)?;
            at = mark.bytes.end;
        }
        if let Some(len) = context {
            out.push_plain(after(&text[last.bytes.end..end], len))?;
        }
        out.push(summary.separator)?;
    }
    Ok(())
}

/// The marks of the fragments of most weight, in the order of the text.
fn chosen(marks: &Marks, summary: Summary<'_>, score: &dyn Fn(&[u8]) -> f64) -> Vec<Range<usize>> {
    let mut fragments: Vec<Range<usize>> = Vec::new();
    for at in 0..marks.all.len() {
        let before = at.checked_sub(1).map(|before| marks.all[before].position);
        let distance = before.map(|before| marks.all[at].position - before);
        match fragments.last_mut().filter(|_| distance.is_some_and(|one| one <= DISTANCE_MAX)) {
            Some(last) => last.end = at + 1,
            None => fragments.push(at..at + 1),
        }
    }
    let count = usize::try_from(summary.fragments).unwrap_or(usize::MAX);
    if fragments.len() <= count {
        return fragments;
    }
    let scores = marks.scores(score);
    let weight = |fragment: &Range<usize>| -> f64 {
        let found = marks.all[fragment.clone()].iter();
        let terms: HashSet<u32> = found.flat_map(|mark| marks.terms_of(mark)).copied().collect();
        terms.into_iter().map(|term| scores[term as usize]).sum()
    };
    let mut weighed: Vec<_> = fragments.into_iter().map(|one| (weight(&one), one)).collect();
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut chosen: Vec<_> = weighed.into_iter().take(count).map(|(_, one)| one).collect();
    chosen.sort_by_key(|fragment| fragment.start);
    chosen
}

/// Bytes of the surroundings on each side; none if the fragment is long enough.
fn context(found: &[Mark], summary: Summary<'_>) -> Option<u64> {
    let position = |mark: Option<&Mark>| mark.map_or(0, |mark| mark.position);
    let span = position(found.last()) - position(found.first());
    // Found words behind the first do not count.
    let words = (span + 2).saturating_sub(found.len() as u32);
    let left = summary.len.checked_sub(words)?;
    Some(u64::from(left).div_ceil(2) * WORD_LEN)
}

/// Bytes of a fragment before its first mark: at most `len` of the text there, without a cut word.
fn before(text: &[u8], len: u64) -> usize {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let within = &text[text.len().saturating_sub(len)..];
    let separator = within.iter().position(|&byte| is_separator(byte)).unwrap_or(within.len());
    let word = within[separator..].iter().position(|&byte| !is_separator(byte));
    word.map_or(0, |word| within.len() - separator - word)
}

/// The words behind the last mark, at most `len` bytes and one, without a cut word and without
/// punctuation at the end; the first byte stays.
fn after(rest: &[u8], len: u64) -> &[u8] {
    let len = usize::try_from(len).unwrap_or(usize::MAX).saturating_add(1);
    let mut within = &rest[..len.min(rest.len())];
    for ends in [|byte: u8| !is_separator(byte), is_separator] {
        while let [_, .., last] = within
            && ends(*last)
        {
            within = &within[..within.len() - 1];
        }
    }
    within
}

/// The beginning of a text without found words.
fn beginning<'t>(text: &'t [u8], summary: Summary<'_>) -> &'t [u8] {
    let words = u64::from(summary.fragments) * u64::from(summary.len);
    let len = words.saturating_add(1).saturating_mul(WORD_LEN);
    let mut within = &text[..text.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
    while let [_, .., last] = within
        && !is_separator(*last)
    {
        within = &within[..within.len() - 1];
    }
    within.trim_ascii_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::ast::{Node, NodeKind, Term};
    use crate::query::highlight::{MarkedText, Matcher};
    use crate::text::Synonyms;

    /// Marks of the word `zzz`.
    fn marks(text: &str) -> Marks {
        let term = Term { text: (*b"zzz").into(), expanded: false, verbatim: true };
        let marked = MarkedText {
            text: text.as_bytes(),
            stems: None,
            synonyms: &Synonyms::default(),
            is_stop_word: &|word| word == b"the",
        };
        let matcher = Matcher::of(&Node::new(NodeKind::Term(term)));
        Marks::find(marked, &matcher, &mut || Ok::<_, ()>(())).unwrap()
    }

    fn summary(text: &str, len: u32, fragments: u32) -> String {
        let summary = Summary { fragments, len, separator: b"|" };
        let mut bytes = Vec::new();
        let mut out = Output { bytes: &mut bytes, max: 1000 };
        write_summary(text.as_bytes(), &marks(text), summary, None, &|_| 1.0, &mut out).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn fragments_are_those_of_redis() {
        let cases = [
            ("aaa bbb ccc zzz ddd eee fff", 1, "zzz |"),
            ("aaa bbb ccc zzz ddd eee fff", 2, "ccc zzz ddd|"),
            ("aaa bbb ccc zzz ddd eee fff", 4, "bbb ccc zzz ddd eee|"),
            ("aaa bbb ccc zzz ddd eee fff", 0, "zzz|"),
            ("a zzz!! b", 4, "zzz!|"),
            ("(a) zzz (b)", 2, "a) zzz (b|"),
            ("zzz a zzz b", 1, "zzz a zzz|"),
            ("zzz a zzz b", 2, "zzz a zzz |"),
            ("zzz zzz a zzz b", 1, "zzz zzz a zzz|"),
            ("zzz zzz zzz b", 1, "zzz zzz zzz |"),
            ("zzz the 1 2 3 4 5 6 7 zzz", 1, "zzz the 1 2 3 4 5 6 7 zzz|"),
            ("zzz 1 2 3 4 5 6 7 8 zzz", 1, "zzz |zzz|"),
            ("a zzz  \t b, zzz", 1, "zzz b, zzz|"),
            ("zzz 1 2 3 4 5 6 7 8 zzz 9", 20, "zzz 1 2 3 4 5 6 7 8|1 2 3 4 5 6 7 8 zzz |"),
            ("abc, def; ghi", 20, "abc, def;"),
            ("abc def...", 20, "abc def..."),
            ("abcdef abcdef abcdef", 1, "abcdef abcdef"),
            ("xxxxxxxxxxxxxxxxxxxxxxxxx", 1, "x"),
            ("", 1, ""),
        ];
        for (text, len, expected) in cases {
            assert_eq!(summary(text, len, 3), expected, "{text} {len}");
        }
        assert_eq!(summary("zzz 1 2 3 4 5 6 7 8 zzz", 1, 1), "zzz |");
        assert_eq!(summary("zzz 1 2 3 4 5 6 7 8 zzz", 1, 0), "");
    }

    #[test]
    fn output_is_limited() {
        let text = "zzz a ZZZ.";
        let tags = Tags { open: b"[", close: b"]" };
        let mut bytes = b"before".to_vec();
        let mut out = Output { bytes: &mut bytes, max: 20 };
        assert_eq!(write_marked(text.as_bytes(), &marks(text), tags, &mut out), Ok(()));
        assert_eq!(bytes, b"before[zzz] a [ZZZ].");
        let mut out = Output { bytes: &mut bytes, max: 39 - 6 };
        assert_eq!(write_marked(text.as_bytes(), &marks(text), tags, &mut out), Err(TooLong));
    }
}
