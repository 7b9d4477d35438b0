//! Unions, intersections and differences of sets.

use crate::embed::OutOfMemory;
use crate::handle::Handle;
use crate::handle::transient::Transient;
use crate::state::effect::Effect;
use crate::structures::form::WrongType;
use crate::structures::key_hash::Key;
use crate::structures::packed::Item;
use crate::structures::set::SetRef;
use crate::structures::set::builder::SetBuilder;
use crate::structures::set::encoding::SetThresholds;
use crate::structures::view::View;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Operation on several sets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SetOperation {
    /// Members of any set.
    Union,
    /// Members of every set.
    Intersection,
    /// Members of the first set and of no other.
    Difference,
}

/// A member, independent of the form of its set.
#[derive(Eq, Hash, PartialEq)]
enum Member<'a> {
    Int(i64),
    Text(&'a [u8]),
}

impl<'a> Member<'a> {
    fn of(item: Item<'a>) -> Self {
        let item = match item {
            Item::Text(text) => Item::from_text(text),
            item => item,
        };
        match item {
            Item::Int(n) => Member::Int(n),
            Item::Text(text) => Member::Text(text),
        }
    }
}

/// Takes a member.
type Each<'e, 'a> = &'e mut dyn FnMut(Item<'a>) -> ControlFlow<()>;

/// Returns whether to continue; gets the work since the last call, in units of about ten
/// nanoseconds.
pub type GoOn<'g> = &'g mut dyn FnMut(usize) -> bool;

/// Units for looking up a member in a set, and for returning one.
const LOOK_UNITS: usize = 8;

fn pace(go_on: GoOn<'_>, looks: usize) -> ControlFlow<()> {
    if go_on(LOOK_UNITS * (1 + looks)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Bytes per member of a result: its reference, and its entry in the table of seen members.
const MEMBER_BYTES: usize = 2 * size_of::<Item<'static>>() + size_of::<Member<'static>>();

/// Reasons why sets cannot be combined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CombineError {
    /// A key holds another type.
    WrongType,
    /// The result does not fit under the memory limit.
    OutOfMemory,
}

impl From<WrongType> for CombineError {
    fn from(_: WrongType) -> Self {
        CombineError::WrongType
    }
}

impl From<OutOfMemory> for CombineError {
    fn from(_: OutOfMemory) -> Self {
        CombineError::OutOfMemory
    }
}

impl SetOperation {
    /// Maximum number of members of the result.
    fn len_max(self, sets: &[Option<SetRef<'_>>]) -> usize {
        let lens = || sets.iter().flatten().map(SetRef::len);
        match self {
            SetOperation::Union => lens().sum(),
            SetOperation::Intersection => lens().min().unwrap_or(0),
            SetOperation::Difference => sets.first().copied().flatten().map_or(0, |set| set.len()),
        }
    }

    /// Passes every member of the result to `each` once, until it breaks or `go_on` ends it. A
    /// missing key is an empty set.
    fn combine<'a>(self, sets: &[Option<SetRef<'a>>], each: Each<'_, 'a>, go_on: GoOn<'_>) {
        let _ = match self {
            SetOperation::Union => union(sets, each, go_on),
            SetOperation::Intersection => intersection(sets, each, go_on),
            SetOperation::Difference => difference(sets, each, go_on),
        };
    }
}

/// Passes all members of the largest set, then the members that the other sets add.
fn union<'a>(sets: &[Option<SetRef<'a>>], each: Each<'_, 'a>, go_on: GoOn<'_>) -> ControlFlow<()> {
    let mut others: Vec<SetRef<'a>> = sets.iter().copied().flatten().collect();
    let Some(largest) = (0..others.len()).max_by_key(|&i| others[i].len()) else {
        return ControlFlow::Continue(());
    };
    let largest = others.remove(largest);
    largest.try_each(&mut |member| {
        pace(go_on, 0)?;
        each(member)
    })?;
    let mut seen = HashSet::new();
    let is_only = others.len() == 1;
    for other in others {
        other.try_each(&mut |member| {
            pace(go_on, 2)?;
            if largest.contains_item(&member) || !is_only && !seen.insert(Member::of(member)) {
                return ControlFlow::Continue(());
            }
            each(member)
        })?;
    }
    ControlFlow::Continue(())
}

/// Passes the members of the smallest set that all others contain. Smaller sets are checked first.
fn intersection<'a>(
    sets: &[Option<SetRef<'a>>],
    each: Each<'_, 'a>,
    go_on: GoOn<'_>,
) -> ControlFlow<()> {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<_>>>() else {
        return ControlFlow::Continue(());
    };
    sets.sort_by_cached_key(SetRef::len);
    let Some((smallest, others)) = sets.split_first() else { return ControlFlow::Continue(()) };
    smallest.try_each(&mut |member| {
        pace(go_on, others.len())?;
        if others.iter().all(|other| other.contains_item(&member)) {
            return each(member);
        }
        ControlFlow::Continue(())
    })
}

/// Passes the members of the first set that no other contains: looks up each member in the other
/// sets, or all members of the others in the first, whichever is less work.
fn difference<'a>(
    sets: &[Option<SetRef<'a>>],
    each: Each<'_, 'a>,
    go_on: GoOn<'_>,
) -> ControlFlow<()> {
    let Some((&Some(first), others)) = sets.split_first() else {
        return ControlFlow::Continue(());
    };
    let mut others: Vec<SetRef<'a>> = others.iter().copied().flatten().collect();
    let len = first.len();
    let lens = others.iter().map(SetRef::len);
    if len.saturating_mul(others.len()) > lens.sum::<usize>() + len {
        let mut gone = HashSet::new();
        for other in others {
            other.try_each(&mut |member| {
                pace(go_on, 2)?;
                if first.contains_item(&member) {
                    gone.insert(Member::of(member));
                }
                ControlFlow::Continue(())
            })?;
        }
        return first.try_each(&mut |member| {
            pace(go_on, 1)?;
            if gone.contains(&Member::of(member)) {
                ControlFlow::Continue(())
            } else {
                each(member)
            }
        });
    }
    others.sort_by_cached_key(|other| std::cmp::Reverse(other.len()));
    first.try_each(&mut |member| {
        pace(go_on, others.len())?;
        if others.iter().any(|other| other.contains_item(&member)) {
            return ControlFlow::Continue(());
        }
        each(member)
    })
}

impl Handle {
    /// The distinct members of a combination of sets, or some of them if `go_on` ends it; and the
    /// count of the memory that they take. Reading counts as for [`Handle::read`].
    ///
    /// # Errors
    /// If a key holds another type, or the members do not fit under the memory limit.
    pub fn set_combine(
        &mut self,
        db: u16,
        operation: SetOperation,
        keys: &[Key<'_>],
        go_on: GoOn<'_>,
    ) -> Result<(Vec<Item<'_>>, Option<Transient>), CombineError> {
        let sets = self.sets_at(db, keys)?;
        let held = self.hold(operation.len_max(&sets) * MEMBER_BYTES)?;
        let mut members = Vec::new();
        let mut each = |member| {
            members.push(member);
            ControlFlow::Continue(())
        };
        operation.combine(&sets, &mut each, go_on);
        Ok((members, held))
    }

    /// Number of members of a combination of sets, counted up to `limit`, until `go_on` returns
    /// false.
    pub fn set_count(
        &mut self,
        db: u16,
        operation: SetOperation,
        keys: &[Key<'_>],
        limit: usize,
        go_on: GoOn<'_>,
    ) -> Result<usize, WrongType> {
        let sets = self.sets_at(db, keys)?;
        let mut count = 0;
        let mut each = |_| {
            count += 1;
            if count < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        operation.combine(&sets, &mut each, go_on);
        Ok(count)
    }

    /// Replaces a key with a combination of sets, possibly including its own; returns the number of
    /// members. The key is removed if there are none. None, with nothing changed, if `go_on` ends
    /// it.
    pub fn set_store(
        &mut self,
        db: u16,
        key: Key<'_>,
        operation: SetOperation,
        sources: &[Key<'_>],
        go_on: GoOn<'_>,
    ) -> Result<Option<usize>, WrongType> {
        let sets = self.sets_at(db, sources)?;
        let access = self.initial_access(key.hash);
        let limits = SetThresholds::of(&self.ks.limits);
        let mut builder = SetBuilder::new(limits, &self.ks.hasher);
        let cache = &mut self.cache;
        let mut each = |member| {
            builder.add(member, cache);
            ControlFlow::Continue(())
        };
        let mut is_ended = false;
        let mut go_on = |units| {
            is_ended = !go_on(units);
            !is_ended
        };
        operation.combine(&sets, &mut each, &mut go_on);
        if is_ended {
            let entry = builder.entry(key.bytes, access, &mut self.cache);
            self.free_later(entry);
            return Ok(None);
        }
        let len = builder.len();
        if len == 0 {
            self.remove(db, key);
            return Ok(Some(0));
        }
        let entry = builder.entry(key.bytes, access, &mut self.cache);
        self.put_entry(db, key, entry);
        let effect = Effect::Store { key: key.bytes, value: View::new(entry), expiry: None };
        self.record(db, key, &effect);
        Ok(Some(len))
    }

    /// The sets at keys. They stay valid until the stripes are unlocked, because nothing is freed
    /// under a lock and they are not changed: callers do not keep them for longer.
    fn sets_at<'a>(
        &mut self,
        db: u16,
        keys: &[Key<'_>],
    ) -> Result<Vec<Option<SetRef<'a>>>, WrongType> {
        let mut sets = Vec::with_capacity(keys.len());
        for &key in keys {
            let set = match self.read(db, key) {
                Some(view) => Some(SetRef::of(view.entry()).ok_or(WrongType)?),
                None => None,
            };
            sets.push(set);
        }
        Ok(sets)
    }
}
