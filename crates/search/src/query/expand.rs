//! Expansion of words: stems and synonyms beside the words of a query.

use super::ast::{Node, NodeKind, Term};
use crate::text::{Language, Synonyms};

/// Forms that are added to words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expansion<'e> {
    /// Groups of synonyms.
    pub synonyms: Option<&'e Synonyms>,
    /// Language of stems.
    pub stems: Option<Language>,
}

impl Expansion<'_> {
    /// Forms of a word: its groups (`~group`), its stem as a stem (`+run`) and as a word.
    fn forms(&self, word: &[u8]) -> Vec<Vec<u8>> {
        let mut forms = Vec::new();
        if let Some(synonyms) = self.synonyms.filter(|synonyms| !synonyms.is_empty()) {
            forms.extend(synonyms.terms_of(&crate::text::fold(word)));
        }
        if let Some(language) = self.stems {
            let stem = language.stem_of_query(word);
            forms.push([b"+", &stem[..]].concat());
            if *stem != *word {
                forms.push(stem);
            }
        }
        forms
    }
}

/// Replaces each word that is not verbatim by the union of the word and its forms. Words of phrases
/// and below `-` and `~` stay, as in Redis.
pub fn expand(node: &mut Node, expansion: &Expansion<'_>) {
    match &mut node.kind {
        NodeKind::Intersection(children) | NodeKind::Union(children) => {
            for child in children {
                expand(child, expansion);
            }
        }
        NodeKind::Knn(knn) => expand(&mut knn.filter, expansion),
        NodeKind::Term(term) if !term.verbatim && !term.text.is_empty() => {
            let forms = expansion.forms(&term.text);
            if forms.is_empty() {
                return;
            }
            let fields = node.fields;
            let added = |text: Vec<u8>| {
                let term = Term { text: text.into(), expanded: true, verbatim: true };
                Node { fields, ..Node::new(NodeKind::Term(term)) }
            };
            term.verbatim = true;
            let union = Node { fields, ..Node::new(NodeKind::Union(Vec::new())) };
            let word = std::mem::replace(node, union);
            if let NodeKind::Union(children) = &mut node.kind {
                children.push(word);
                children.extend(forms.into_iter().map(added));
            }
        }
        _ => {}
    }
}
