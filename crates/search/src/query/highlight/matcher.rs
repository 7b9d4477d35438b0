//! Words of a query, and whether a word of a text is one of them.

use crate::query::ast::{Node, NodeKind, Pattern};
use crate::query::matching::{fold_pattern, form_of, is_near, is_of_pattern};
use crate::text::{Language, Synonyms, is_group};
use std::collections::HashSet;

/// Words of a query that a document may contain, in any field.
#[derive(Debug, Default)]
pub struct Matcher {
    /// Terms as the dictionary has them: words, stems, groups of synonyms.
    terms: HashSet<Box<[u8]>>,
    has_stems: bool,
    has_groups: bool,
    /// Folded patterns.
    patterns: Vec<Pattern>,
    /// Folded words with their distances.
    similar: Vec<(Box<[u8]>, usize)>,
}

impl Matcher {
    /// The words of a query. Those below `-` are none.
    pub fn of(tree: &Node) -> Self {
        let mut matcher = Self::default();
        matcher.add(tree);
        matcher
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.patterns.is_empty() && self.similar.is_empty()
    }

    fn add(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Term(term) => {
                let form = form_of(term);
                self.has_stems |= term.expanded && form.starts_with(b"+");
                self.has_groups |= term.expanded && is_group(&form);
                self.terms.insert(form.into());
            }
            NodeKind::Pattern(pattern) => self.patterns.push(fold_pattern(pattern)),
            NodeKind::Fuzzy { text, distance } => {
                self.similar.push((crate::text::fold(text).into(), usize::from(*distance)));
            }
            NodeKind::Intersection(nodes) | NodeKind::Union(nodes) | NodeKind::Phrase(nodes) => {
                nodes.iter().for_each(|node| self.add(node));
            }
            NodeKind::Optional(child) => self.add(child),
            NodeKind::Knn(knn) => self.add(&knn.filter),
            _ => {}
        }
    }

    /// Passes the terms to `each` by which a folded word of a text is found. `stems`: the language
    /// of its stems, if it has any.
    pub fn terms_of(
        &self,
        word: &[u8],
        stems: Option<Language>,
        synonyms: &Synonyms,
        each: &mut dyn FnMut(&[u8]),
    ) {
        let mut distances = Vec::new();
        let is_found = self.terms.contains(word)
            || self.patterns.iter().any(|pattern| is_of_pattern(pattern, word))
            || (self.similar.iter())
                .any(|(text, distance)| is_near(text, word, *distance, &mut distances));
        if is_found {
            each(word);
        }
        let mut test = |term: &[u8]| {
            if self.terms.contains(term) {
                each(term);
            }
        };
        if self.has_groups {
            synonyms.terms_of(word).for_each(|term| test(&term));
        }
        if self.has_stems {
            let stem = stems.and_then(|language| language.stem(word));
            // A word that is its own stem is not posted as a stem.
            if let Some(stem) = stem.filter(|stem| **stem != *word) {
                test(&[b"+", &stem[..]].concat());
            }
        }
    }
}
