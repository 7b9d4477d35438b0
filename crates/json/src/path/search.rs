//! Finds the values that a path selects.

use super::expr::Scope;
use super::{Segment, Selector, Step, Visit};
use crate::value::{Items, Kind, Value};
use crate::work::{SearchError, Work, passing};
use std::ops::ControlFlow;

/// Elements between two places of an array that a slice with a negative step notes, to go on from.
const STRIDE: usize = 64;

/// Reasons for ending a search early.
pub(super) enum Halt {
    /// The caller wants no more values.
    Enough,
    Error(SearchError),
}

impl From<SearchError> for Halt {
    fn from(error: SearchError) -> Self {
        Halt::Error(error)
    }
}

type Walked = Result<(), Halt>;

/// State of a search.
struct Search<'d, 'f, 'v> {
    root: Value<'d>,
    steps: Vec<Step<'d>>,
    visit: &'f mut Visit<'v, 'd>,
    /// The caller is a filter: its work is part of the search around it.
    is_inner: bool,
}

pub(super) fn find<'d>(
    segments: &[Segment],
    root: Value<'d>,
    work: &mut Work,
    visit: &mut Visit<'_, 'd>,
) -> Result<(), SearchError> {
    work.for_search(root.tape().len(), |work| {
        let search = Search { root, steps: Vec::new(), visit, is_inner: false };
        search.run(segments, root, work)
    })
}

/// Finds values below one that need not be the document's root, for a filter.
pub(super) fn find_below<'d>(
    segments: &[Segment],
    from: Value<'d>,
    root: Value<'d>,
    work: &mut Work,
    visit: &mut Visit<'_, 'd>,
) -> Result<(), SearchError> {
    Search { root, steps: Vec::new(), visit, is_inner: true }.run(segments, from, work)
}

/// The value that segments lead to which name one step each; none if there is none.
pub(super) fn find_static<'d>(
    segments: &[Segment],
    from: Value<'d>,
    work: &mut Work,
) -> Result<Option<Value<'d>>, SearchError> {
    let mut value = from;
    for segment in segments {
        let next = match &segment.selectors[..] {
            [Selector::Name(name)] => member(value, name.as_bytes(), work)?.map(|found| found.1),
            [Selector::Index(index)] => item(value, *index, work)?.map(|found| found.1),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    work.spend(1)?;
    Ok(Some(value))
}

/// Resolves an index, which may be negative, in an array of `len` elements.
#[inline]
pub(super) fn resolve(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add_unsigned(len as u64)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

/// The member of this name.
#[inline]
fn member<'d>(
    at: Value<'d>,
    wanted: &[u8],
    work: &mut Work,
) -> Result<Option<(&'d [u8], Value<'d>)>, SearchError> {
    for (name, value) in at.members() {
        work.spend(1 + passing(value.tape().len()))?;
        if name == wanted {
            return Ok(Some((name, value)));
        }
    }
    Ok(None)
}

/// The element at an index, counted from the end if that is negative.
#[inline]
pub(super) fn item<'d>(
    at: Value<'d>,
    index: i64,
    work: &mut Work,
) -> Result<Option<(usize, Value<'d>)>, SearchError> {
    if at.kind() != Kind::Array {
        return Ok(None);
    }
    let Some(index) = resolve(index, at.len()) else { return Ok(None) };
    spend_skipping(work, at, index)?;
    Ok(at.item(index).map(|value| (index, value)))
}

/// Takes the steps for skipping this many elements of an array.
#[inline]
fn spend_skipping(work: &mut Work, at: Value<'_>, elements: usize) -> Result<(), SearchError> {
    let mean = at.tape().len() / at.len().max(1);
    work.spend(elements as u64 / 4 + elements as u64 * passing(mean))
}

impl<'d> Search<'d, '_, '_> {
    fn run(
        mut self,
        segments: &[Segment],
        from: Value<'d>,
        work: &mut Work,
    ) -> Result<(), SearchError> {
        match self.walk(segments, from, work) {
            Ok(()) | Err(Halt::Enough) => Ok(()),
            Err(Halt::Error(error)) => Err(error),
        }
    }

    fn walk(&mut self, segments: &[Segment], at: Value<'d>, work: &mut Work) -> Walked {
        work.spend(1)?;
        let Some((segment, rest)) = segments.split_first() else {
            let Search { visit, steps, is_inner, .. } = self;
            let visited = match is_inner {
                true => visit(at, steps, work),
                false => work.beside_search(|work| visit(at, steps, work)),
            };
            return match visited {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Halt::Enough),
            };
        };
        // Nothing is in a scalar.
        if at.is_empty() {
            return Ok(());
        }
        work.nested(|work| {
            for selector in &segment.selectors {
                self.select(selector, rest, at, work)?;
            }
            if segment.descends {
                self.each(at, work, &mut |search, child, work| search.walk(segments, child, work))?;
            }
            Ok(())
        })
    }

    /// Continues the search with each value that the selector selects.
    fn select(
        &mut self,
        selector: &Selector,
        rest: &[Segment],
        at: Value<'d>,
        work: &mut Work,
    ) -> Walked {
        match selector {
            Selector::Name(wanted) => match member(at, wanted.as_bytes(), work)? {
                Some((name, value)) => {
                    self.step(Step::Name(name), |search| search.walk(rest, value, work))
                }
                None => Ok(()),
            },
            Selector::Index(index) => match item(at, *index, work)? {
                Some((index, value)) => {
                    self.step(Step::Index(index), |search| search.walk(rest, value, work))
                }
                None => Ok(()),
            },
            Selector::Slice { .. } if at.kind() != Kind::Array => Ok(()),
            Selector::Slice { start, end, step } => {
                self.slice(at, (*start, *end, *step), rest, work)
            }
            Selector::All => {
                self.each(at, work, &mut |search, child, work| search.walk(rest, child, work))
            }
            Selector::Filter(filter) => {
                let root = self.root;
                self.each(at, work, &mut |search, child, work| match filter
                    .passes(Scope { node: child, root }, work)?
                {
                    true => search.walk(rest, child, work),
                    false => Ok(()),
                })
            }
        }
    }

    /// The elements of a slice, as RFC 9535 bounds it.
    fn slice(
        &mut self,
        at: Value<'d>,
        (start, end, step): (Option<i64>, Option<i64>, i64),
        rest: &[Segment],
        work: &mut Work,
    ) -> Walked {
        let len = at.len() as i64;
        let absolute = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
        if step > 0 {
            let from = start.map_or(0, absolute).clamp(0, len);
            let until = end.map_or(len, absolute).clamp(0, len);
            spend_skipping(work, at, until as usize)?;
            let taken = usize::try_from(until - from).unwrap_or(0);
            let items = at.items().enumerate().skip(from as usize).take(taken);
            for (index, value) in items.step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
                self.step(Step::Index(index), |search| search.walk(rest, value, work))?;
            }
        } else if step < 0 {
            let from = start.map_or(len - 1, absolute).clamp(-1, len - 1);
            let until = end.map_or(-1, absolute).clamp(-1, len - 1);
            spend_skipping(work, at, len as usize)?;
            let mut backwards = Backwards::of(at, usize::try_from(from + 1).unwrap_or(0));
            let mut index = from;
            while index > until {
                let (value, passed) = backwards.item(index as usize);
                spend_skipping(work, at, passed)?;
                if let Some(value) = value {
                    let step = Step::Index(index as usize);
                    self.step(step, |search| search.walk(rest, value, work))?;
                }
                index = index.saturating_add(step);
            }
        }
        Ok(())
    }

    /// Calls for every element or member.
    fn each(
        &mut self,
        at: Value<'d>,
        work: &mut Work,
        visit: &mut dyn FnMut(&mut Self, Value<'d>, &mut Work) -> Walked,
    ) -> Walked {
        for (index, value) in at.items().enumerate() {
            work.spend(passing(value.tape().len()))?;
            self.step(Step::Index(index), |search| visit(search, value, work))?;
        }
        for (name, value) in at.members() {
            work.spend(passing(value.tape().len()))?;
            self.step(Step::Name(name), |search| visit(search, value, work))?;
        }
        Ok(())
    }

    /// Takes a step for the time of a visit.
    #[inline]
    fn step(&mut self, step: Step<'d>, visit: impl FnOnce(&mut Self) -> Walked) -> Walked {
        self.steps.push(step);
        let result = visit(self);
        self.steps.pop();
        result
    }
}

/// An array that is visited from its end. An element is found from the one before it: so
/// places are recorded on the way to the end, and the elements behind one at a time.
struct Backwards<'d> {
    marks: Vec<Items<'d>>,
    /// The elements behind a mark, and which mark that is.
    run: Vec<Value<'d>>,
    of: usize,
}

impl<'d> Backwards<'d> {
    /// Creates it for the first `len` elements.
    fn of(array: Value<'d>, len: usize) -> Self {
        let mut items = array.items();
        let mut marks = Vec::with_capacity(len.div_ceil(STRIDE));
        for _ in (0..len).step_by(STRIDE) {
            marks.push(items.clone());
            items.nth(STRIDE - 1);
        }
        Backwards { marks, run: Vec::new(), of: usize::MAX }
    }

    /// The element at an index, and how many were passed to find it.
    fn item(&mut self, index: usize) -> (Option<Value<'d>>, usize) {
        let of = index / STRIDE;
        let mut passed = 0;
        if self.of != of {
            self.run.clear();
            if let Some(mark) = self.marks.get(of) {
                self.run.extend(mark.clone().take(STRIDE));
            }
            (self.of, passed) = (of, self.run.len());
        }
        (self.run.get(index % STRIDE).copied(), passed)
    }
}
