//! Argument elision: effects that return to the origin of their command omit arguments which they
//! contain, such as key and value of a `SET`, because the origin still has them.
//!
//! ```text
//! origin   EXEC SET KEY VALUE --------> primary: executes
//!          inserts KEY, VALUE <-------- effects without them, and which arguments they were
//! ```
//!
//! The primary keeps the complete record for other receivers and for a new link. The origin
//! restores the arguments as the record arrives, so everything later sees the complete record.

use crate::wire::{Pieces, Record, Tag, put_record, tag_of_effects};
use memchr::memmem;
use petrel_keyspace::Call;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Minimum length of an elided argument, in bytes.
const LEN_MIN: usize = 8;

/// Maximum number of arguments elided in one record.
const PIECES_MAX: usize = 4;

/// Offsets at which an argument is tried first: keys and values follow a few bytes of header.
const NEAR: usize = 16;

/// The longest arguments of a forwarded command.
pub(crate) struct Arguments {
    /// The received record of the command.
    record: Arc<[u8]>,
    /// Byte ranges of the arguments in it, and their indexes, ascending. The first `count` are in
    /// use.
    longest: [(Range<usize>, u64); PIECES_MAX],
    count: usize,
}

/// Room for the parts of a record.
#[derive(Default)]
struct Room {
    rest: Vec<u8>,
    pieces: Vec<u8>,
    record: Vec<u8>,
}

/// Capacity kept of each part, in bytes.
const ROOM_MAX: usize = 64 << 10;

thread_local! {
    static ROOM: Cell<Option<Box<Room>>> = const { Cell::new(None) };
}

impl Arguments {
    /// Selects the longest arguments of a command that was read from `record`; none if all are
    /// short.
    pub fn longest(record: &Arc<[u8]>, call: &Call<&[u8]>) -> Option<Self> {
        let begin = record.as_ptr().addr();
        let all = (0u64..).zip(call.commands.iter().flatten());
        let mut longest: [(Range<usize>, u64); PIECES_MAX] = Default::default();
        let mut count = 0;
        for (arg, bytes) in all.filter(|(_, bytes)| bytes.len() >= LEN_MIN) {
            let at = bytes.as_ptr().addr().checked_sub(begin)?;
            let place = at..at.checked_add(bytes.len()).filter(|end| *end <= record.len())?;
            if count < PIECES_MAX {
                longest[count] = (place, arg);
                count += 1;
                continue;
            }
            // Remove the shortest, so the order stays ascending.
            let shortest = (0..PIECES_MAX).min_by_key(|&at| longest[at].0.len())?;
            if longest[shortest].0.len() < place.len() {
                longest[shortest..].rotate_left(1);
                longest[PIECES_MAX - 1] = (place, arg);
            }
        }
        (count > 0).then(|| Arguments { record: record.clone(), longest, count })
    }

    /// A record of effects without the arguments; none if it contains none of them.
    pub fn elide(&self, effects: &[u8]) -> Option<Box<[u8]>> {
        // The tag stays as it is, even if a client constructs an argument that looks like it.
        let (_, mut from) = tag_of_effects(effects)?;
        let (mut pieces, mut count, mut kept) = ([(0, 0); PIECES_MAX], 0, 0);
        let mut room = ROOM.take().unwrap_or_default();
        room.rest.clear();
        for (place, arg) in &self.longest[..self.count] {
            let bytes = &self.record[place.clone()];
            let Some(at) = find(&effects[from..], bytes).map(|at| from + at) else { continue };
            room.rest.extend_from_slice(&effects[kept..at]);
            pieces[count] = ((at - kept) as u64, *arg);
            count += 1;
            from = at + bytes.len();
            kept = from;
        }
        room.rest.extend_from_slice(&effects[kept..]);
        let elided = (count > 0).then(|| room.record_of(&pieces[..count]));
        room.shrink();
        ROOM.set(Some(room));
        elided
    }
}

impl Room {
    /// The record of the rest and these pieces.
    fn record_of(&mut self, pieces: &[(u64, u64)]) -> Box<[u8]> {
        let Room { rest, pieces: room, record } = self;
        let pieces = Pieces::of(room, pieces.iter().copied());
        record.clear();
        put_record(record, &Record::Elided { pieces, rest });
        record[..].into()
    }

    fn shrink(&mut self) {
        [&mut self.rest, &mut self.record].into_iter().for_each(|part| part.shrink_to(ROOM_MAX));
    }
}

/// Offset of an argument: usually near the beginning, after a few numbers.
fn find(effects: &[u8], argument: &[u8]) -> Option<usize> {
    let is_there = |at: &usize| effects.get(*at..).is_some_and(|rest| rest.starts_with(argument));
    (0..NEAR).find(is_there).or_else(|| memmem::find(effects, argument))
}

/// Restores a record from [`Arguments::elide`]; `call` finds the command. None if the record is not
/// of a pending command, or malformed.
pub(crate) fn restore<'a>(
    elided: &Record<'_>,
    call: impl FnOnce(Tag) -> Option<&'a Call>,
) -> Option<Vec<u8>> {
    let &Record::Elided { pieces, mut rest } = elided else { return None };
    // The tag precedes all elided arguments.
    let first = usize::try_from(pieces.iter().next()?.0).ok()?;
    let commands = &call(tag_of_effects(rest.get(..first)?)?.0)?.commands;
    let mut record = Vec::new();
    for (count, (before, arg)) in pieces.iter().enumerate() {
        let (kept, behind) = rest.split_at_checked(usize::try_from(before).ok()?)?;
        let arg = commands.iter().flatten().nth(usize::try_from(arg).ok()?)?;
        if count >= PIECES_MAX {
            return None;
        }
        record.extend_from_slice(kept);
        record.extend_from_slice(arg);
        rest = behind;
    }
    record.extend_from_slice(rest);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_map::Node;
    use crate::view::Identity;
    use crate::wire::{Exec, Parts, Tags};

    fn call(args: &[&[u8]]) -> Call {
        let command = args.iter().map(|arg| arg.to_vec()).collect();
        Call { slots: vec![7], commands: vec![command], ..Call::default() }
    }

    fn bytes(record: &Record<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        put_record(&mut out, record);
        out
    }

    /// The longest arguments of a command, as its primary selects them.
    fn longest(call: &Call) -> Option<Arguments> {
        let exec = Exec { oseq: 3, first: 3, tenure: 1, call: call.borrowed() };
        let record = Arc::from(bytes(&Record::Exec(exec)));
        let read = Record::read(&record);
        let Ok(Record::Exec(exec)) = &read else { panic!("{read:?}") };
        Arguments::longest(&record, &exec.call)
    }

    fn effects(value: &[u8]) -> Vec<u8> {
        let origin = Identity { node: Node(2), incarnation: 9 };
        let tag = Some(Tag { origin, slot: 7, oseq: 3 });
        let group = [b"about a key ", value, b" and more"].concat();
        let (parts, served) = (Parts::default(), Tags::default());
        bytes(&Record::Effects { tag, parts, served, group: &group })
    }

    #[test]
    fn arguments_go_one_way_only() {
        let value = b"a value that is long enough";
        let call = call(&[b"SET", b"about a key", value]);
        let arguments = longest(&call).unwrap();
        let whole = effects(value);
        let short = arguments.elide(&whole).unwrap();
        assert_eq!(short.len(), whole.len() - value.len() - 11 + 2 + 1 + 4);
        let record = Record::read(&short).unwrap();
        let named = |tag: Tag| (tag.slot == 7 && tag.oseq == 3).then_some(&call);
        assert_eq!(restore(&record, named), Some(whole));
        // A value that looks like the beginning of its own effects.
        let without_value = effects(b"");
        let alike = &without_value[1..17];
        let arguments = longest(&self::call(&[b"SET", b"key", alike])).unwrap();
        let whole = effects(alike);
        let short = arguments.elide(&whole).unwrap();
        let call = self::call(&[b"SET", b"key", alike]);
        assert_eq!(restore(&Record::read(&short).unwrap(), |_| Some(&call)), Some(whole));
        // Changed values, another command, no command.
        let arguments = longest(&self::call(&[b"SET", b"key", value])).unwrap();
        assert!(arguments.elide(&effects(b"something else that is long")).is_none());
        assert!(longest(&self::call(&[b"SET", b"key", b"short"])).is_none());
        assert_eq!(restore(&record, |_| None), None);
        // The four longest of many arguments.
        let args: Vec<Vec<u8>> = (8..20).map(|len| vec![len; len.into()]).collect();
        let call = self::call(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let whole = effects(&args.concat());
        let short = longest(&call).unwrap().elide(&whole).unwrap();
        assert_eq!(short.len(), whole.len() - 16 - 17 - 18 - 19 + 2 + 1 + 8);
        assert_eq!(restore(&Record::read(&short).unwrap(), |_| Some(&call)), Some(whole));
    }

    #[test]
    fn nonsense_is_refused() {
        let call = call(&[b"SET", b"key", b"a value that is long enough"]);
        let rest = effects(b"");
        let at = rest.len() as u64 - 9;
        let restore = |pieces: &[(u64, u64)], rest: &[u8]| {
            let mut room = Vec::new();
            let pieces = Pieces::of(&mut room, pieces.iter().copied());
            restore(&Record::Elided { pieces, rest }, |_| Some(&call))
        };
        assert!(restore(&[(at, 2)], &rest).is_some());
        assert!(restore(&[(at, 2), (9, 1), (0, 0)], &rest).is_some());
        for (at, arg) in [(at, 3), (999, 2), (u64::MAX, 2), (2, 2)] {
            assert_eq!(restore(&[(at, arg)], &rest), None);
        }
        assert_eq!(restore(&[(at, 2), (10, 1)], &rest), None);
        assert_eq!(restore(&[(at, 2); 1], &bytes(&Record::End { epoch: 700 })), None);
        assert_eq!(restore(&[(at, 1), (0, 1), (0, 1), (0, 1), (0, 1)], &rest), None);
        assert_eq!(restore(&[(0, 2)], b""), None);
        assert_eq!(restore(&[], &rest), None);
    }
}
