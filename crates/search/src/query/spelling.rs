//! Spelling: words of a query, and terms that are close to them.

use super::ast::{FieldMask, Node, NodeKind, TagValue};
use crate::structures::terms::TermId;
use crate::structures::texts::Texts;
use crate::text::is_term_of_word;

/// A word of a query, and the fields that it is searched in.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryWord {
    /// Folded bytes.
    pub text: Box<[u8]>,
    /// The fields.
    pub fields: FieldMask,
}

/// The words of a query, also those of phrases, tags, and below `-` and `~`; not those of patterns.
pub fn query_words(tree: &Node) -> Vec<QueryWord> {
    let mut words = Vec::new();
    collect(tree, &mut words);
    words
}

fn collect(node: &Node, words: &mut Vec<QueryWord>) {
    let mut add = |text: &[u8], fields| {
        let text = crate::text::fold(&super::unescape(text)).into();
        words.push(QueryWord { text, fields });
    };
    match &node.kind {
        NodeKind::Term(term) if !term.text.is_empty() => add(&term.text, node.fields),
        NodeKind::Tag { values, .. } => {
            for value in values {
                match value {
                    TagValue::Exact(text) => add(text, FieldMask::ALL),
                    TagValue::Words(texts) => {
                        texts.iter().for_each(|text| add(text, FieldMask::ALL));
                    }
                    TagValue::Pattern(_) => {}
                }
            }
        }
        NodeKind::Intersection(nodes) | NodeKind::Union(nodes) | NodeKind::Phrase(nodes) => {
            nodes.iter().for_each(|node| collect(node, words));
        }
        NodeKind::Optional(child) | NodeKind::Not(child) => collect(child, words),
        NodeKind::Knn(knn) => collect(&knn.filter, words),
        _ => {}
    }
}

/// A word that others are compared with, by the Levenshtein distance in characters.
#[derive(Debug)]
pub struct Near {
    word: Vec<char>,
    distance: usize,
    term: Vec<char>,
    row: Vec<usize>,
}

impl Near {
    /// Words within a distance of a word.
    pub fn new(word: &[u8], distance: usize) -> Self {
        let word = String::from_utf8_lossy(word).chars().collect();
        Near { word, distance, term: Vec::new(), row: Vec::new() }
    }

    /// Whether a word is close.
    pub fn is_near(&mut self, term: &[u8]) -> bool {
        // A character has at most four bytes.
        let (least, most) = (term.len() / 4, term.len());
        if self.word.len() + self.distance < least || most + self.distance < self.word.len() {
            return false;
        }
        self.term.clear();
        self.term.extend(String::from_utf8_lossy(term).chars());
        if self.word.len().abs_diff(self.term.len()) > self.distance {
            return false;
        }
        self.row.clear();
        self.row.extend(0..=self.term.len());
        for (at, letter) in self.word.iter().enumerate() {
            let mut diagonal = self.row[0];
            self.row[0] = at + 1;
            let mut least = self.row[0];
            for column in 1..=self.term.len() {
                let replaced = diagonal + usize::from(self.term[column - 1] != *letter);
                diagonal = self.row[column];
                self.row[column] = replaced.min(self.row[column] + 1).min(self.row[column - 1] + 1);
                least = least.min(self.row[column]);
            }
            if least > self.distance {
                return false;
            }
        }
        self.row[self.term.len()] <= self.distance
    }
}

/// Terms with these numbers that are words, close, and in a document's fields; with their numbers
/// of documents.
pub fn near_terms(
    texts: &Texts,
    numbers: std::ops::Range<TermId>,
    near: &mut Near,
    fields: FieldMask,
    each: &mut dyn FnMut(&[u8], usize),
) {
    for number in numbers {
        let term = texts.terms().text(number);
        if is_term_of_word(term) && near.is_near(term) && is_in_fields(texts, number, fields) {
            each(term, texts.frequency(number));
        }
    }
}

/// Whether a document has a term in one of the fields.
fn is_in_fields(texts: &Texts, term: TermId, fields: FieldMask) -> bool {
    if fields == FieldMask::ALL || !texts.has_fields() {
        return texts.frequency(term) > 0;
    }
    let Some(mut cursor) = texts.cursor(term) else { return false };
    while cursor.current().is_some() {
        if cursor.mask() & fields.0 != 0 {
            return true;
        }
        cursor.advance();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_of_characters() {
        for (word, term, distance, expected) in [
            ("hel", "help", 1, true),
            ("hel", "hello", 1, false),
            ("ubar", "\u{fc}ber", 1, false),
            ("ubar", "\u{fc}ber", 2, true),
            ("", "a", 1, true),
            ("\u{fc}\u{fc}\u{fc}\u{fc}", "", 4, true),
            ("\u{1f642}", "a", 1, true),
        ] {
            let is_near = Near::new(word.as_bytes(), distance).is_near(term.as_bytes());
            assert_eq!(is_near, expected, "{word} {term} {distance}");
        }
    }
}
