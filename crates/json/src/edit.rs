//! Applies a change to the bytes of a tape.

use crate::change::{Change, Misfit, Op};
use crate::parse::DEPTH_MAX;
use crate::path::Step;
use crate::tape::{BYTES_MAX, Header, Writer, is_container, is_object, span, string};
use crate::value::Value;
use std::borrow::Cow;
use std::ops::Range;

/// A change of a tape: some headers are overwritten where they are, then one range is replaced,
/// which lies behind them.
#[derive(Clone, Debug)]
pub struct Edit<'a> {
    headers: Vec<(usize, Header)>,
    /// Range of the tape that is replaced.
    pub range: Range<usize>,
    /// By what.
    pub insert: Cow<'a, [u8]>,
}

/// A place of a tape.
struct Place {
    /// Starts of the containers around the place, the outermost first.
    around: Vec<usize>,
    /// The bytes at it.
    range: Range<usize>,
    /// By how much the number of elements of the innermost container changes.
    counted: isize,
}

impl<'a> Edit<'a> {
    /// Computes the edit that makes the change.
    ///
    /// # Errors
    /// If there is no such place or the document would become too large.
    pub fn of(tape: &[u8], change: &Change<'a>) -> Result<Self, Misfit> {
        let (place, insert) = match change.op {
            Op::Set(value) => replace(tape, change.place, value)?,
            Op::Insert { count, values } => {
                check_depth(change.place.len(), values)?;
                let mut place = find_gap(tape, change.place)?;
                place.counted = count as isize;
                (place, Cow::Borrowed(values))
            }
            Op::Remove { count } => (find_removed(tape, change.place, count)?, Cow::default()),
        };
        place.edit(tape, insert)
    }

    /// Bytes that the tape has more afterwards.
    pub fn grows_by(&self) -> isize {
        self.insert.len() as isize - self.range.len() as isize
    }

    /// Overwrites the headers of a tape; the range is left to be replaced.
    pub fn write_headers(&self, tape: &mut [u8]) {
        for (at, header) in &self.headers {
            let len = header.len();
            tape[*at..*at + len].copy_from_slice(&header.bytes()[..len]);
        }
    }

    /// Makes the change.
    pub fn apply(&self, tape: &mut Vec<u8>) {
        self.write_headers(tape);
        if self.insert.len() == self.range.len() {
            tape[self.range.clone()].copy_from_slice(&self.insert);
        } else {
            tape.splice(self.range.clone(), self.insert.iter().copied());
        }
    }
}

fn check_depth(outer: usize, mut values: &[u8]) -> Result<(), Misfit> {
    while !values.is_empty() {
        let value = Value::new(values);
        if is_container(values[0]) && outer + value.depth() > DEPTH_MAX {
            return Err(Misfit::TooDeep);
        }
        values = &values[value.tape().len()..];
    }
    Ok(())
}

/// Replaces the value at a place, or adds a member.
fn replace<'a>(
    tape: &[u8],
    steps: &[Step<'_>],
    value: &'a [u8],
) -> Result<(Place, Cow<'a, [u8]>), Misfit> {
    check_depth(steps.len(), value)?;
    if let Some(place) = find(tape, steps) {
        return Ok((place, Cow::Borrowed(value)));
    }
    let Some((Step::Name(name), outer)) = steps.split_last() else { return Err(Misfit::NoPlace) };
    let mut place = find(tape, outer).ok_or(Misfit::NoPlace)?;
    if !is_object(tape[place.range.start]) {
        return Err(Misfit::NoPlace);
    }
    place.around.push(place.range.start);
    place.range = place.range.end..place.range.end;
    place.counted = 1;
    let mut writer = Writer::default();
    writer.string(name);
    writer.out.extend_from_slice(value);
    Ok((place, writer.into_bytes().into()))
}

/// Finds the value at a place.
fn find(tape: &[u8], steps: &[Step<'_>]) -> Option<Place> {
    let mut around = Vec::with_capacity(steps.len());
    let mut at = 0;
    for step in steps {
        around.push(at);
        at = match step {
            Step::Name(name) => member_at(tape, at, name)?.1,
            Step::Index(index) => item_at(tape, at, *index).filter(|(.., is_end)| !is_end)?.0,
        };
    }
    let range = at..at + span(&tape[at..]);
    Some(Place { around, range, counted: 0 })
}

/// Finds the member of this name in the object at `at`: the start of its name and of its value.
fn member_at(tape: &[u8], at: usize, name: &[u8]) -> Option<(usize, usize)> {
    if !is_object(tape[at]) {
        return None;
    }
    let header = Header::read(&tape[at..]);
    let mut place = at + header.len();
    let end = place + header.body;
    while place < end {
        let value = place + span(&tape[place..]);
        if string(&tape[place..]) == name {
            return Some((place, value));
        }
        place = value + span(&tape[value..]);
    }
    None
}

/// Finds the element at `index` in the array at `at`; or, with `true`, the end of the array if
/// `index` is its length.
fn item_at(tape: &[u8], at: usize, index: usize) -> Option<(usize, bool)> {
    if !is_container(tape[at]) || is_object(tape[at]) {
        return None;
    }
    let header = Header::read(&tape[at..]);
    let mut place = at + header.len();
    if index >= header.count {
        return (index == header.count).then_some((place + header.body, true));
    }
    for _ in 0..index {
        place += span(&tape[place..]);
    }
    Some((place, false))
}

/// Finds where elements can be inserted.
fn find_gap(tape: &[u8], steps: &[Step<'_>]) -> Result<Place, Misfit> {
    let Some((Step::Index(index), outer)) = steps.split_last() else { return Err(Misfit::NoPlace) };
    let mut place = find(tape, outer).ok_or(Misfit::NoPlace)?;
    let (at, _) = item_at(tape, place.range.start, *index).ok_or(Misfit::NoPlace)?;
    place.around.push(place.range.start);
    place.range = at..at;
    Ok(place)
}

/// Finds a member with its name, or this many elements.
fn find_removed(tape: &[u8], steps: &[Step<'_>], count: usize) -> Result<Place, Misfit> {
    let Some((last, outer)) = steps.split_last() else { return Err(Misfit::NoPlace) };
    let mut place = find(tape, outer).ok_or(Misfit::NoPlace)?;
    let inner = place.range.start;
    let range = match last {
        Step::Name(name) if count == 1 => {
            let (from, value) = member_at(tape, inner, name).ok_or(Misfit::NoPlace)?;
            from..value + span(&tape[value..])
        }
        Step::Name(_) => return Err(Misfit::NoPlace),
        Step::Index(index) => {
            let (from, _) = item_at(tape, inner, *index).ok_or(Misfit::NoPlace)?;
            if count > Header::read(&tape[inner..]).count - index {
                return Err(Misfit::NoPlace);
            }
            let mut end = from;
            for _ in 0..count {
                end += span(&tape[end..]);
            }
            from..end
        }
    };
    place.around.push(inner);
    place.range = range;
    place.counted = -(count as isize);
    Ok(place)
}

impl Place {
    /// Replaces the bytes at this place.
    fn edit<'a>(self, tape: &[u8], insert: Cow<'a, [u8]>) -> Result<Edit<'a>, Misfit> {
        let mut grown = insert.len() as isize - self.range.len() as isize;
        if tape.len().saturating_add_signed(grown) > BYTES_MAX {
            return Err(Misfit::TooLong);
        }
        if grown == 0 && self.counted == 0 {
            return Ok(Edit { headers: Vec::new(), range: self.range, insert });
        }
        let mut headers = Vec::with_capacity(self.around.len());
        // Number of outer containers that keep their header's width, counted from the outermost.
        let mut kept = self.around.len();
        let mut counted = self.counted;
        for (level, at) in self.around.iter().enumerate().rev() {
            let old = Header::read(&tape[*at..]);
            let body = old.body.saturating_add_signed(grown);
            let count = old.count.saturating_add_signed(counted);
            counted = 0;
            let new = Header { body, count, ..old }.widened();
            if new.width > old.width {
                kept = level;
                grown += (new.len() - old.len()) as isize;
            }
            headers.push((*at, new));
        }
        headers.reverse();
        let widened = headers.split_off(kept);
        let Some(from) = widened.first().map(|(at, _)| *at) else {
            return Ok(Edit { headers, range: self.range, insert });
        };
        // Rewrite everything from the outermost header that widens to the place.
        let mut anew = Vec::with_capacity(self.range.start - from + insert.len() + 64);
        let mut copied = from;
        for (at, header) in widened {
            anew.extend_from_slice(&tape[copied..at]);
            anew.extend_from_slice(&header.bytes()[..header.len()]);
            copied = at + Header::read(&tape[at..]).len();
        }
        anew.extend_from_slice(&tape[copied..self.range.start]);
        anew.extend_from_slice(&insert);
        Ok(Edit { headers, range: from..self.range.end, insert: anew.into() })
    }
}
