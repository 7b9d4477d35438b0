//! Places of the found words of a text.

use super::matcher::Matcher;
use crate::text::{Language, Synonyms, Tokens};
use std::collections::HashMap;
use std::ops::Range;

/// A text, and how its words are read.
#[derive(Clone, Copy)]
pub struct MarkedText<'t> {
    /// The text.
    pub text: &'t [u8],
    /// The language of its stems, if its words have any.
    pub stems: Option<Language>,
    /// Synonyms of its words.
    pub synonyms: &'t Synonyms,
    /// True for a folded word that has no position.
    pub is_stop_word: &'t dyn Fn(&[u8]) -> bool,
}

/// Found words of a text, in their order.
#[derive(Debug, Default)]
pub struct Marks {
    pub(super) all: Vec<Mark>,
    /// Terms of the marks, by number.
    terms: Vec<u32>,
    numbers: HashMap<Box<[u8]>, u32>,
}

/// A found word.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// Place in the text.
    pub bytes: Range<usize>,
    /// Number of words before it.
    pub position: u32,
    terms: Range<usize>,
}

impl Marks {
    /// Finds words. `pace` is called for each word of the text, and may end the search.
    ///
    /// # Errors
    /// Returns the first error of `pace`.
    pub fn find<E>(
        marked: MarkedText<'_>,
        matcher: &Matcher,
        pace: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut marks = Self::default();
        let mut tokens = Tokens::new(marked.text);
        let mut position = 0u32;
        loop {
            pace()?;
            let terms = marks.terms.len();
            let Some((word, start)) = tokens.token() else { return Ok(marks) };
            if (marked.is_stop_word)(word) {
                continue;
            }
            position = position.saturating_add(1);
            matcher.terms_of(word, marked.stems, marked.synonyms, &mut |term| {
                let next = marks.numbers.len() as u32;
                let number = match marks.numbers.get(term) {
                    Some(number) => *number,
                    None => *marks.numbers.entry(term.into()).or_insert(next),
                };
                marks.terms.push(number);
            });
            if marks.terms.len() > terms {
                let terms = terms..marks.terms.len();
                let bytes = start..tokens.end();
                marks.all.push(Mark { bytes, position, terms });
            }
        }
    }

    /// Whether no word was found.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Numbers of the terms of a mark.
    pub(super) fn terms_of(&self, mark: &Mark) -> &[u32] {
        &self.terms[mark.terms.clone()]
    }

    /// Scores of the terms, by their number.
    pub(super) fn scores(&self, score: &dyn Fn(&[u8]) -> f64) -> Vec<f64> {
        let mut scores = vec![0.0; self.numbers.len()];
        for (term, number) in &self.numbers {
            scores[*number as usize] = score(term);
        }
        scores
    }
}
