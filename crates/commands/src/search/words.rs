//! Words of a query: the parse of its text, its stems, and the options that change its tree.

use crate::fail::Fail;
use crate::search::query::Options;
use petrel_search::index::json::JsonPaths;
use petrel_search::index::schema::{IndexFlag, Schema};
use petrel_search::index::search::Found;
use petrel_search::index::texts::TextRules;
use petrel_search::query::ast::{FieldMask, Node, NodeKind};
use petrel_search::query::{self, Expansion, Fields, Scorer, Settings};
use petrel_search::text::Language;

/// Divisor of a score before its hyperbolic tangent is taken.
const TANH_FACTOR: f64 = 4.0;

/// Options about words.
#[derive(Default)]
pub(super) struct WordOptions<'a> {
    pub is_verbatim: bool,
    pub no_stop_words: bool,
    pub in_order: bool,
    /// Number of other words between words; negative: any.
    pub slop: Option<i64>,
    pub language: Option<Language>,
    pub fields: Option<&'a [&'a [u8]]>,
    pub expander: Option<&'a [u8]>,
}

/// A scorer by its name.
#[derive(Clone, Copy)]
pub(super) struct NamedScorer {
    pub scorer: Scorer,
    normal: Normal,
}

/// Ways of bringing scores to the range from 0 to 1.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Normal {
    No,
    /// By the highest score of the result.
    Highest,
    Tanh,
}

impl NamedScorer {
    pub fn of(name: &[u8]) -> Option<Self> {
        let (name, normal) = match name {
            b"BM25STD.NORM" => (&b"BM25STD"[..], Normal::Highest),
            b"BM25STD.TANH" => (&b"BM25STD"[..], Normal::Tanh),
            _ => (name, Normal::No),
        };
        Scorer::of(name).map(|scorer| NamedScorer { scorer, normal })
    }

    /// Brings the scores of a result to their range.
    pub fn normalize(self, found: &mut Found) {
        let highest = found.score_max;
        for hit in &mut found.hits {
            hit.score = match self.normal {
                Normal::No => return,
                Normal::Highest if highest > 0.0 => hit.score / highest,
                Normal::Highest => hit.score,
                Normal::Tanh => (hit.score / TANH_FACTOR).tanh(),
            };
        }
    }
}

/// Parses a query of an index. `rules`: those of its words, if it has any.
pub(super) fn parse(
    text: &[u8],
    options: &Options<'_>,
    schema: &Schema,
    rules: Option<&TextRules>,
) -> Result<Node, Fail> {
    let no_stop_words = options.words().no_stop_words;
    let is_stop_word =
        |word: &[u8]| !no_stop_words && rules.is_some_and(|rules| rules.is_stop_word(word));
    let settings = Settings {
        dialect: options.dialect(),
        fields: schema,
        parameters: options.parameters(),
        is_stop_word: &is_stop_word,
    };
    query::parse(text, &settings).map_err(|error| Fail::new(error.text))
}

/// Adds stems and synonyms to the words of a query.
pub(super) fn expand(
    tree: &mut Node,
    options: &Options<'_>,
    rules: Option<&TextRules>,
) -> Result<(), Fail> {
    let words = options.words();
    let Some(rules) = rules.filter(|_| !words.is_verbatim) else { return Ok(()) };
    let stems = Some(words.language.unwrap_or(rules.language()));
    let synonyms = Some(&**rules.synonyms());
    let expansion = match words.expander {
        None | Some(b"DEFAULT") => Expansion { synonyms, stems },
        Some(b"SBSTEM") => Expansion { synonyms: None, stems },
        Some(b"SYNONYM") => Expansion { synonyms, stems: None },
        Some(b"PHONETIC") => {
            return Err(Fail::fixed("ERR EXPANDER PHONETIC is not supported yet"));
        }
        // An unknown expander expands nothing, as in Redis.
        Some(_) => return Ok(()),
    };
    query::expand(tree, &expansion);
    Ok(())
}

/// Restricts a query by options beside it: fields, distances, ranges of numbers.
pub(super) fn restrict(tree: &mut Node, options: &Options<'_>, schema: &Schema) {
    let words = options.words();
    if let Some(names) = words.fields {
        let fields = names.iter().filter_map(|name| schema.text_field(name));
        let mask = fields.fold(FieldMask::NONE, |mask, field| mask.or(FieldMask::of(field)));
        each_node(tree, &mut |node| node.fields = node.fields.and(mask));
    }
    if schema.has_flag(IndexFlag::NoFields) {
        each_node(tree, &mut |node| node.fields = FieldMask::ALL);
    }
    let slop = words.slop.and_then(|slop| u32::try_from(slop).ok());
    if slop.is_some() || words.in_order {
        each_node(tree, &mut |node| {
            if matches!(node.kind, NodeKind::Intersection(_)) {
                node.attributes.slop = node.attributes.slop.or(slop);
                let in_order = words.in_order || node.attributes.in_order == Some(true);
                node.attributes.in_order = Some(in_order);
            }
        });
    }
    for range in options.ranges() {
        let range = Node::new(NodeKind::Numeric(range.clone()));
        if let NodeKind::Intersection(children) | NodeKind::Phrase(children) = &mut tree.kind {
            children.insert(0, range);
            continue;
        }
        let own = std::mem::replace(tree, Node::new(NodeKind::Empty));
        tree.kind = NodeKind::Intersection(vec![range, own]);
    }
}

/// Rejects distances between words of JSON values that have no order: those of a path with more
/// than one value.
pub(super) fn check_order(
    tree: &Node,
    schema: &Schema,
    paths: Option<&JsonPaths>,
) -> Result<(), Fail> {
    let Some(paths) = paths else { return Ok(()) };
    let unordered = schema.texts().enumerate().find(|(at, number)| {
        !paths.is_ordered(*number) && limits_distance(tree, FieldMask::of(*at))
    });
    match unordered {
        None => Ok(()),
        Some((_, number)) => {
            let name = &schema.fields[number].name;
            let parts: [&[u8]; 3] = [
                b"slop/inorder are not supported for field `",
                name,
                b"` since it has undefined ordering",
            ];
            Err(Fail::new(parts.concat()))
        }
    }
}

/// Whether a query limits the distance of words in a field.
fn limits_distance(node: &Node, field: FieldMask) -> bool {
    let names = |child: &Node| {
        let is_word = matches!(
            child.kind,
            NodeKind::Term(_)
                | NodeKind::Phrase(_)
                | NodeKind::Pattern(_)
                | NodeKind::Fuzzy { .. }
                | NodeKind::Union(_)
                | NodeKind::Intersection(_)
        );
        is_word && child.fields.and(field) != FieldMask::NONE
    };
    match &node.kind {
        NodeKind::Intersection(children) => {
            let has_limit =
                node.attributes.slop.is_some() || node.attributes.in_order == Some(true);
            has_limit && children.iter().any(names)
                || children.iter().any(|child| limits_distance(child, field))
        }
        NodeKind::Union(children) | NodeKind::Phrase(children) => {
            children.iter().any(|child| limits_distance(child, field))
        }
        NodeKind::Not(child) | NodeKind::Optional(child) => limits_distance(child, field),
        _ => false,
    }
}

/// Whether a query has words.
pub(super) fn has_words(tree: &Node) -> bool {
    match &tree.kind {
        NodeKind::Term(_) | NodeKind::Phrase(_) | NodeKind::Pattern(_) | NodeKind::Fuzzy { .. } => {
            true
        }
        NodeKind::Intersection(children) | NodeKind::Union(children) => {
            children.iter().any(has_words)
        }
        NodeKind::Not(child) | NodeKind::Optional(child) => has_words(child),
        _ => false,
    }
}

/// Changes each node of a tree.
fn each_node(node: &mut Node, change: &mut dyn FnMut(&mut Node)) {
    change(node);
    match &mut node.kind {
        NodeKind::Intersection(children)
        | NodeKind::Phrase(children)
        | NodeKind::Union(children) => {
            children.iter_mut().for_each(|child| each_node(child, change));
        }
        NodeKind::Not(child) | NodeKind::Optional(child) => each_node(child, change),
        _ => {}
    }
}
