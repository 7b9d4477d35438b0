//! Finding what a path selects.

use super::{Segment, Selector, Step, TooMuchWork};
use crate::value::{Kind, Value};

/// Nodes that any search may look at; what a longer document adds is [`WORK_PER_BYTE`].
const WORK_MIN: u64 = 1 << 20;
/// Nodes for every byte of the document.
const WORK_PER_BYTE: u64 = 32;

/// What a search may still do.
pub(super) struct Work {
    left: u64,
}

impl Work {
    fn of(root: Value<'_>) -> Self {
        Work { left: WORK_MIN + WORK_PER_BYTE * root.tape().len() as u64 }
    }

    /// Uses some of it up.
    #[inline]
    pub fn spend(&mut self, steps: u64) -> Result<(), TooMuchWork> {
        self.left = self.left.checked_sub(steps).ok_or(TooMuchWork)?;
        Ok(())
    }
}

/// One search.
struct Search<'d, 'f> {
    root: Value<'d>,
    steps: Vec<Step<'d>>,
    found: &'f mut dyn FnMut(Value<'d>, &[Step<'d>]),
}

pub(super) fn find<'d>(
    segments: &[Segment],
    root: Value<'d>,
    found: &mut dyn FnMut(Value<'d>, &[Step<'d>]),
) -> Result<(), TooMuchWork> {
    find_below(segments, root, root, &mut Work::of(root), found)
}

/// Finds values below one that need not be the document's root.
pub(super) fn find_below<'d>(
    segments: &[Segment],
    from: Value<'d>,
    root: Value<'d>,
    work: &mut Work,
    found: &mut dyn FnMut(Value<'d>, &[Step<'d>]),
) -> Result<(), TooMuchWork> {
    Search { root, steps: Vec::new(), found }.walk(segments, from, work)
}

/// The element that an index means in an array of so many.
#[inline]
pub(super) fn resolve(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add_unsigned(len as u64)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

impl<'d> Search<'d, '_> {
    fn walk(
        &mut self,
        segments: &[Segment],
        at: Value<'d>,
        work: &mut Work,
    ) -> Result<(), TooMuchWork> {
        work.spend(1)?;
        let Some((segment, rest)) = segments.split_first() else {
            (self.found)(at, &self.steps);
            return Ok(());
        };
        for selector in &segment.selectors {
            self.select(selector, rest, at, work)?;
        }
        if segment.descends {
            self.each(at, &mut |search, child| search.walk(segments, child, work))?;
        }
        Ok(())
    }

    /// Goes on behind what a selector selects of a node.
    fn select(
        &mut self,
        selector: &Selector,
        rest: &[Segment],
        at: Value<'d>,
        work: &mut Work,
    ) -> Result<(), TooMuchWork> {
        match selector {
            Selector::Name(wanted) => {
                for (name, value) in at.members() {
                    work.spend(1)?;
                    if name == wanted.as_bytes() {
                        return self
                            .step(Step::Name(name), |search| search.walk(rest, value, work));
                    }
                }
                Ok(())
            }
            Selector::Index(_) if at.kind() != Kind::Array => Ok(()),
            Selector::Index(index) => {
                let Some(index) = resolve(*index, at.len()) else { return Ok(()) };
                work.spend(index as u64 / 16)?;
                let Some(value) = at.item(index) else { return Ok(()) };
                self.step(Step::Index(index), |search| search.walk(rest, value, work))
            }
            Selector::Slice { .. } if at.kind() != Kind::Array => Ok(()),
            Selector::Slice { start, end, step } => {
                self.slice(at, (*start, *end, *step), rest, work)
            }
            Selector::All => self.each(at, &mut |search, child| search.walk(rest, child, work)),
            Selector::Filter(filter) => {
                let root = self.root;
                self.each(at, &mut |search, child| match filter.passes(child, root, work)? {
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
    ) -> Result<(), TooMuchWork> {
        let len = at.len() as i64;
        let absolute = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
        if step > 0 {
            let from = start.map_or(0, absolute).clamp(0, len);
            let until = end.map_or(len, absolute).clamp(0, len);
            work.spend(until as u64 / 16)?;
            let taken = usize::try_from(until - from).unwrap_or(0);
            let items = at.items().enumerate().skip(from as usize).take(taken);
            for (index, value) in items.step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
                self.step(Step::Index(index), |search| search.walk(rest, value, work))?;
            }
        } else if step < 0 {
            let from = start.map_or(len - 1, absolute).clamp(-1, len - 1);
            let until = end.map_or(-1, absolute).clamp(-1, len - 1);
            work.spend(len as u64 / 16)?;
            let values: Vec<_> = at.items().collect();
            let mut index = from;
            while index > until {
                let value = values[index as usize];
                self.step(Step::Index(index as usize), |search| search.walk(rest, value, work))?;
                index = index.saturating_add(step);
            }
        }
        Ok(())
    }

    /// Calls for every element or member.
    fn each(
        &mut self,
        at: Value<'d>,
        visit: &mut dyn FnMut(&mut Self, Value<'d>) -> Result<(), TooMuchWork>,
    ) -> Result<(), TooMuchWork> {
        for (index, value) in at.items().enumerate() {
            self.step(Step::Index(index), |search| visit(search, value))?;
        }
        for (name, value) in at.members() {
            self.step(Step::Name(name), |search| visit(search, value))?;
        }
        Ok(())
    }

    /// Takes a step for the time of a visit.
    #[inline]
    fn step(
        &mut self,
        step: Step<'d>,
        visit: impl FnOnce(&mut Self) -> Result<(), TooMuchWork>,
    ) -> Result<(), TooMuchWork> {
        self.steps.push(step);
        let result = visit(self);
        self.steps.pop();
        result
    }
}
