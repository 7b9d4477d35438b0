//! Paths: JSONPath, which begins with `$`, and the legacy paths of RedisJSON, which do not.
//! Projections, such as `$.a + 1`, compute values instead of selecting them.
//!
//! A legacy path selects the same values as with `$.` before it; only replies differ. Nodes are
//! visited depth first, in the order of the document; a node found in two ways is visited twice.

mod expr;
mod filter;
mod function;
mod parse;
mod parse_expr;
mod pattern;
mod search;

use crate::print::print_string;
use crate::tape::Document;
use crate::value::Value;
pub use crate::work::SearchError;
use crate::work::Work;
use expr::{Expr, Scope};
use filter::Filter;
use std::fmt;
use std::ops::ControlFlow;

/// Maximum number of segments and selectors in a path.
pub const SELECTORS_MAX: usize = 256;
/// Maximum number of patterns of a path: each takes up to some hundred KiB.
pub const PATTERNS_MAX: usize = 16;

/// A path to values of a document.
#[derive(Debug)]
pub struct Path {
    segments: Vec<Segment>,
    /// For a projection, which has no segments.
    projection: Option<Box<Expr>>,
    /// As it was written.
    text: Box<str>,
    is_legacy: bool,
    is_static: bool,
    patterns: usize,
}

/// Callback for each value that a search finds, with the steps to it and the rest of its budget;
/// returns whether that is enough.
pub type Visit<'v, 'd> = dyn FnMut(Value<'d>, &[Step<'d>], &mut Work) -> ControlFlow<()> + 'v;

/// Step from a container to a value in it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Step<'a> {
    /// To the member of this name.
    Name(&'a [u8]),
    /// To the element at this index.
    Index(usize),
}

/// Segment of a path: the selectors applied to each node.
#[derive(Debug)]
struct Segment {
    /// Applies to descendants of the node too.
    descends: bool,
    selectors: Vec<Selector>,
}

#[derive(Debug)]
enum Selector {
    Name(Box<str>),
    /// Negative ones count from the end.
    Index(i64),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    All,
    Filter(Box<Filter>),
}

/// Syntax error of a path, with its position.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathError {
    text: String,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for PathError {}

impl Path {
    /// Parses a path or a projection.
    ///
    /// # Errors
    /// If it is none, or has more than [`SELECTORS_MAX`] selectors and operands.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let is_legacy = Self::is_legacy_text(text);
        let (query, patterns) = parse::query(text, is_legacy)?;
        let (segments, projection) = match query {
            Expr::Root(segments) => (segments, None),
            projection => (Vec::new(), Some(Box::new(projection))),
        };
        let is_legacy = is_legacy && projection.is_none();
        let is_static = is_static(&segments) && projection.is_none();
        Ok(Path { segments, projection, text: text.into(), is_legacy, is_static, patterns })
    }

    /// Whether a path that is so written is a legacy path, if it is one and no projection.
    pub fn is_legacy_text(text: &str) -> bool {
        match text.as_bytes() {
            [b'$'] | [b'$', b'.' | b'[' | b'~' | b' ', ..] | [b'(', ..] => false,
            [b'-' | b'+', ..] => {
                let operand = text[1..].trim_start();
                let is_query = ["$.", "$[", "$~", "$ "].iter().any(|it| operand.starts_with(it));
                let is_call = parse_expr::begins_with_call(operand);
                !(is_query || operand == "$" || operand.starts_with('(') || is_call)
            }
            _ => !parse_expr::begins_with_call(text),
        }
    }

    /// Whether it computes values instead of selecting them: only [`Path::project`] finds any.
    pub fn is_projection(&self) -> bool {
        self.projection.is_some()
    }

    /// The values that a projection computes, as an array; none if it is a path.
    ///
    /// # Errors
    /// If that takes too many steps.
    pub fn project(
        &self,
        root: Value<'_>,
        work: &mut Work,
    ) -> Result<Option<Document>, SearchError> {
        let Some(projection) = &self.projection else { return Ok(None) };
        let scope = Scope { node: root, root };
        let made = work.for_search(root.tape().len(), |work| projection.evaluate(scope, work))?;
        Ok(Some(made.into_list()))
    }

    /// Whether it does not begin with `$`, so that replies are about one value.
    pub fn is_legacy(&self) -> bool {
        self.is_legacy
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is the whole document's.
    pub fn is_root(&self) -> bool {
        self.segments.is_empty() && !self.is_projection()
    }

    /// The place that it leads to in every document, if it names each step: none with an index
    /// from the end, wildcards and the like.
    pub fn steps(&self) -> Option<Vec<Step<'_>>> {
        if self.is_projection() {
            return None;
        }
        let mut steps = Vec::with_capacity(self.segments.len());
        for segment in &self.segments {
            steps.push(segment.step()?);
        }
        Some(steps)
    }

    /// The steps before the first part that selects by anything but a name or an index: values that
    /// the path finds are below, and depend on nothing else. No steps if it has filters, which may
    /// read any value, and for a projection.
    pub fn leading_steps(&self) -> Vec<Step<'_>> {
        let is_filter = |selector: &Selector| matches!(selector, Selector::Filter(_));
        if self.segments.iter().any(|segment| segment.selectors.iter().any(is_filter)) {
            return Vec::new();
        }
        self.segments.iter().map_while(Segment::step).collect()
    }

    /// Whether every part names one member or one element, maybe counted from the end.
    #[inline]
    pub fn is_static(&self) -> bool {
        self.is_static
    }

    /// Whether it has patterns, which take memory from their first use on.
    pub fn has_patterns(&self) -> bool {
        self.patterns > 0
    }

    /// Bytes that it takes, about.
    pub fn footprint(&self) -> usize {
        /// Bytes for each one of the text: a part of a path takes 32, a filter some hundred.
        const PER_BYTE: usize = 48;
        let projection = || self.projection.as_ref().map_or(0, |expr| expr.footprint());
        let patterns =
            if self.has_patterns() { footprint(&self.segments) + projection() } else { 0 };
        size_of::<Self>() + PER_BYTE * self.text.len() + patterns
    }

    /// The name that the last part selects, if it is one.
    pub fn last_name(&self) -> Option<&[u8]> {
        match self.segments.last()?.step()? {
            Step::Name(name) => Some(name),
            Step::Index(_) => None,
        }
    }

    /// Finds values, each with the steps to it, until that is enough.
    ///
    /// # Errors
    /// If that takes too many steps.
    pub fn search<'d>(
        &self,
        root: Value<'d>,
        work: &mut Work,
        visit: &mut Visit<'_, 'd>,
    ) -> Result<(), SearchError> {
        if self.is_projection() {
            return Ok(());
        }
        search::find(&self.segments, root, work, visit)
    }

    /// Finds all values, like [`Path::search`] with a budget of its own.
    ///
    /// # Errors
    /// If that takes too many steps.
    pub fn find<'d>(
        &self,
        root: Value<'d>,
        found: &mut dyn FnMut(Value<'d>, &[Step<'d>]),
    ) -> Result<(), SearchError> {
        self.search(root, &mut Work::default(), &mut |value, steps, _| {
            found(value, steps);
            ControlFlow::Continue(())
        })
    }

    /// Finds what would contain a value that is to be added: like [`Path::search`] without the last
    /// part.
    ///
    /// # Errors
    /// If that takes too many steps.
    pub fn search_parents<'d>(
        &self,
        root: Value<'d>,
        work: &mut Work,
        visit: &mut Visit<'_, 'd>,
    ) -> Result<(), SearchError> {
        let outer = self.segments.len().saturating_sub(1);
        search::find(&self.segments[..outer], root, work, visit)
    }

    /// The one value that a path finds in which every part names one step, without a search.
    #[inline]
    pub fn find_static<'d>(&self, root: Value<'d>) -> Option<Value<'d>> {
        let mut value = root;
        debug_assert!(!self.is_projection());
        for segment in &self.segments {
            value = match &segment.selectors[..] {
                [Selector::Name(name)] => value.member(name.as_bytes())?,
                [Selector::Index(index)] => value.item(search::resolve(*index, value.len())?)?,
                _ => return None,
            };
        }
        Some(value)
    }
}

/// The path of a place, each step in brackets.
pub fn path_to(place: &[Step<'_>]) -> Vec<u8> {
    let mut text = vec![b'$'];
    for step in place {
        text.push(b'[');
        match step {
            Step::Name(name) => print_string(name, &mut text),
            Step::Index(index) => {
                text.extend_from_slice(itoa::Buffer::new().format(*index).as_bytes());
            }
        }
        text.push(b']');
    }
    text
}

/// Whether every segment names one member or one element.
fn is_static(segments: &[Segment]) -> bool {
    segments.iter().all(|segment| {
        !segment.descends
            && matches!(segment.selectors[..], [Selector::Name(_) | Selector::Index(_)])
    })
}

/// Bytes that the compiled patterns of segments take.
fn footprint(segments: &[Segment]) -> usize {
    let of_selector = |selector: &Selector| match selector {
        Selector::Filter(filter) => filter.footprint(),
        _ => 0,
    };
    segments.iter().flat_map(|segment| &segment.selectors).map(of_selector).sum()
}

impl Segment {
    fn step(&self) -> Option<Step<'_>> {
        match &self.selectors[..] {
            [Selector::Name(name)] if !self.descends => Some(Step::Name(name.as_bytes())),
            [Selector::Index(index)] if !self.descends => {
                usize::try_from(*index).ok().map(Step::Index)
            }
            _ => None,
        }
    }
}
