//! Expansion of words: stems beside the words of a query.

use super::ast::{Node, NodeKind, Term};
use crate::text::Language;

/// Replaces each word that is not verbatim by the union of the word, its stem as a stem (`+run`)
/// and its stem as a word. Words of phrases and below `-` and `~` stay, as in Redis.
pub fn expand(node: &mut Node, language: Language) {
    match &mut node.kind {
        NodeKind::Intersection(children) | NodeKind::Union(children) => {
            for child in children {
                expand(child, language);
            }
        }
        NodeKind::Knn(knn) => expand(&mut knn.filter, language),
        NodeKind::Term(term) if !term.verbatim && !term.text.is_empty() => {
            let stem = language.stem_of_query(&term.text);
            let fields = node.fields;
            let added = |text: Vec<u8>| {
                let term = Term { text: text.into(), expanded: true, verbatim: true };
                Node { fields, ..Node::new(NodeKind::Term(term)) }
            };
            let mut forms = vec![added([b"+", &stem[..]].concat())];
            if *stem != *term.text {
                forms.push(added(stem));
            }
            term.verbatim = true;
            let union = Node { fields, ..Node::new(NodeKind::Union(Vec::new())) };
            let word = std::mem::replace(node, union);
            if let NodeKind::Union(children) = &mut node.kind {
                children.push(word);
                children.append(&mut forms);
            }
        }
        _ => {}
    }
}
