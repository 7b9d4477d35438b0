//! Searches in texts beside a model that looks at every document.

use petrel_search::query::ast::{FieldMask, Node, NodeKind, Pattern, Term};
use petrel_search::query::{BoxedRows, EveryRow, Memory, Scorer, Scoring, TextSearch};
use petrel_search::structures::texts::{FieldText, Texts};
use petrel_search::text::{Language, Tokens};
use proptest::prelude::*;
use std::collections::BTreeMap;

const WORDS: [&str; 8] = ["ab", "abc", "bcd", "cab", "dd", "abba", "c", "bd"];

/// Tokens with their position and field.
type Document = Vec<(String, u32, usize)>;

fn document(texts: &[String]) -> Document {
    let mut document = Vec::new();
    let mut position = 0;
    for (field, text) in texts.iter().enumerate() {
        let mut tokens = Tokens::new(text.as_bytes());
        while let Some((token, _)) = tokens.token() {
            position += 1;
            document.push((String::from_utf8_lossy(token).into_owned(), position, field));
        }
    }
    document
}

fn is_like(pattern: &Pattern, term: &str) -> bool {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match pattern {
        Pattern::Prefix(part) => part.len() > 1 && term.starts_with(&text(part)),
        Pattern::Suffix(part) => part.len() > 1 && term.ends_with(&text(part)),
        Pattern::Infix(part) => part.len() > 1 && term.contains(&text(part)),
        Pattern::Wildcard(_) => unreachable!(),
    }
}

fn distance(one: &str, other: &str) -> usize {
    match (one.split_at_checked(1), other.split_at_checked(1)) {
        (None, _) => other.len(),
        (_, None) => one.len(),
        (Some((a, one_rest)), Some((b, other_rest))) if a == b => distance(one_rest, other_rest),
        (Some((_, one_rest)), Some((_, other_rest))) => {
            let replaced = distance(one_rest, other_rest);
            let removed = distance(one_rest, other);
            1 + replaced.min(removed).min(distance(one, other_rest))
        }
    }
}

/// Positions of a condition's words. `None`: the document does not match.
fn matched(node: &Node, document: &Document) -> Option<Vec<u32>> {
    let found = |accepts: &dyn Fn(&str) -> bool| {
        let terms: BTreeMap<&str, u128> =
            document.iter().fold(BTreeMap::new(), |mut terms, (term, _, field)| {
                *terms.entry(term.as_str()).or_default() |= 1 << field;
                terms
            });
        let is_in_fields = |term: &str| {
            node.fields == FieldMask::ALL || terms.get(term).is_some_and(|f| f & node.fields.0 != 0)
        };
        let positions: Vec<u32> = document
            .iter()
            .filter(|(term, ..)| accepts(term) && is_in_fields(term))
            .map(|(_, position, _)| *position)
            .collect();
        (!positions.is_empty()).then_some(positions)
    };
    match &node.kind {
        NodeKind::Term(term) => found(&|word| word.as_bytes() == &*term.text),
        NodeKind::Pattern(pattern) => found(&|word| is_like(pattern, word)),
        NodeKind::Fuzzy { text, distance: max } => {
            let text = String::from_utf8_lossy(text).into_owned();
            found(&|word| distance(&text, word) <= usize::from(*max))
        }
        NodeKind::Union(children) => {
            let all: Vec<_> =
                children.iter().filter_map(|child| matched(child, document)).collect();
            (!all.is_empty()).then(|| all.concat())
        }
        NodeKind::Intersection(children) => {
            let lists: Option<Vec<_>> =
                children.iter().map(|child| matched(child, document)).collect();
            let lists = lists?;
            let slop = node.attributes.slop;
            let in_order = node.attributes.in_order == Some(true);
            let has_place = (slop.is_none() && !in_order) || place(&lists, slop, in_order);
            has_place.then(|| lists.concat())
        }
        NodeKind::Phrase(children) => {
            let lists: Option<Vec<_>> =
                children.iter().map(|child| matched(child, document)).collect();
            let lists = lists?;
            (lists.len() == 1 || place(&lists, Some(0), true)).then(|| lists.concat())
        }
        NodeKind::Not(child) => matched(child, document).is_none().then(Vec::new),
        NodeKind::Optional(child) => Some(matched(child, document).unwrap_or_default()),
        NodeKind::Everything => Some(Vec::new()),
        _ => None,
    }
}

/// Whether one position of each list lies within a window. Lists without any do not count.
fn place(lists: &[Vec<u32>], slop: Option<u32>, in_order: bool) -> bool {
    let lists: Vec<_> = lists.iter().filter(|list| !list.is_empty()).collect();
    fn choose(lists: &[&Vec<u32>], chosen: &mut Vec<u32>, fits: &dyn Fn(&[u32]) -> bool) -> bool {
        let Some((list, rest)) = lists.split_first() else { return fits(chosen) };
        list.iter().any(|&position| {
            chosen.push(position);
            let fits = choose(rest, chosen, fits);
            chosen.pop();
            fits
        })
    }
    choose(&lists, &mut Vec::new(), &|chosen| {
        let Some(least) = chosen.iter().min() else { return true };
        let largest = chosen.iter().max().unwrap();
        let others = (largest - least + 1).saturating_sub(chosen.len() as u32);
        let is_distinct = (1..chosen.len()).all(|at| !chosen[..at].contains(&chosen[at]));
        (if in_order { chosen.is_sorted() } else { is_distinct })
            && slop.is_none_or(|slop| others <= slop)
    })
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(&WORDS[..]).prop_map(Into::into)
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(word(), 0..9).prop_map(|words| words.join(" "))
}

fn term(text: &str) -> Node {
    let text = text.as_bytes().into();
    Node::new(NodeKind::Term(Term { text, expanded: false, verbatim: true }))
}

fn query() -> impl Strategy<Value = Node> {
    let part = |text: String| -> Box<[u8]> { text.as_bytes().into() };
    let leaf = prop_oneof![
        4 => word().prop_map(|word| term(&word)),
        1 => word().prop_map(|word| {
            let mut node = term(&word);
            node.fields = FieldMask::of(1);
            node
        }),
        1 => word().prop_map(move |text| Node::new(NodeKind::Pattern(Pattern::Prefix(part(text))))),
        1 => word().prop_map(move |text| Node::new(NodeKind::Pattern(Pattern::Suffix(part(text))))),
        1 => word().prop_map(move |text| Node::new(NodeKind::Pattern(Pattern::Infix(part(text))))),
        1 => (word(), 1..3u8).prop_map(move |(text, distance)| {
            Node::new(NodeKind::Fuzzy { text: part(text), distance })
        }),
        1 => prop::collection::vec(word(), 1..4).prop_map(|words| {
            Node::new(NodeKind::Phrase(words.iter().map(|word| term(word)).collect()))
        }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let many = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            3 => (many.clone(), prop::option::of(0..4u32), any::<Option<bool>>()).prop_map(
                |(children, slop, in_order)| {
                    let mut node = Node::new(NodeKind::Intersection(children));
                    node.attributes.slop = slop;
                    node.attributes.in_order = in_order;
                    node
                },
            ),
            2 => many.prop_map(|children| Node::new(NodeKind::Union(children))),
            1 => inner.clone().prop_map(|child| Node::new(NodeKind::Not(Box::new(child)))),
            1 => inner.prop_map(|child| Node::new(NodeKind::Optional(Box::new(child)))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn searches_find_what_the_model_finds(
        documents in prop::collection::vec((text(), text()), 1..40),
        copies in 1..9usize,
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        vacuumed in any::<bool>(),
        queries in prop::collection::vec(query(), 1..8),
    ) {
        let documents: Vec<Vec<String>> = std::iter::repeat_n(&documents, copies)
            .flatten()
            .map(|(one, other)| vec![one.clone(), other.clone()])
            .collect();
        let mut texts = Texts::new(2, Language::default());
        for (row, document) in documents.iter().enumerate() {
            let fields: Vec<_> = document
                .iter()
                .enumerate()
                .map(|(field, text)| FieldText {
                    field, weight: 1.0, has_stems: false, indexes_empty: false, text: text.as_bytes(),
 is_further: false,
                })
                .collect();
            texts.add(row as u32, &fields, Language::default(), &|_| false);
        }
        let mut alive = vec![true; documents.len()];
        for index in removed {
            let row = index.index(documents.len());
            if std::mem::replace(&mut alive[row], false) {
                texts.remove(row as u32);
            }
        }
        let is_visible = |row: u32| alive.get(row as usize) == Some(&true);
        if vacuumed {
            texts.begin_vacuum();
            let mut next = Some(0);
            while let Some(from) = next {
                next = texts.vacuum(from, 50, &is_visible);
            }
        }
        let documents: Vec<_> = documents.iter().map(|texts| document(texts)).collect();
        for query in queries {
            let end = documents.len() as u32;
            let others = |node: &Node, _: f64| -> Option<BoxedRows<'_>> {
                let is_everything = node.kind == NodeKind::Everything;
                is_everything.then(|| Box::new(EveryRow::new(end, &is_visible)) as BoxedRows<'_>)
            };
            let memory = Memory::default();
            let search = TextSearch {
                texts: &texts,
                limit: u32::MAX,
                others: &others,
                scoring: Scoring::new(Scorer::Bm25Std, &texts, texts.documents()),
                memory: &memory,
            };
            let expected: Vec<u32> = (0..documents.len() as u32)
                .filter(|&row| is_visible(row) && matched(&query, &documents[row as usize]).is_some())
                .collect();
            let (total, hits) = search.best(&query, usize::MAX, &is_visible, &|_| 1.0);
            let mut rows: Vec<u32> = hits.iter().map(|hit| hit.row).collect();
            prop_assert!(hits.is_sorted());
            rows.sort_unstable();
            prop_assert_eq!((total, &rows), (expected.len(), &expected), "{:?}", query);
            let (total, best) = search.best(&query, 3, &is_visible, &|_| 1.0);
            prop_assert_eq!((total, &best[..]), (expected.len(), &hits[..hits.len().min(3)]));
        }
    }
}
