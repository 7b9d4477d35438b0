//! Effects that go back to the member which forwarded their command: an argument that they contain,
//! as the value of a `SET`, does not travel twice.
//!
//! ```text
//! origin   EXEC SET key VALUE -----> home: executes
//!          puts VALUE in <----- effects without VALUE, and which argument it was
//! ```
//!
//! The home keeps the whole record, for others and for a link that breaks meanwhile; the origin
//! puts the argument in as the record arrives. From then on there is no difference.

use crate::origin::Call;
use crate::wire::{Exec, Record, Tag, put_record, tag_of_effects};
use memchr::memmem;
use std::ops::Range;
use std::sync::Arc;

/// Shorter arguments stay where they are.
const LEN_MIN: usize = 16;

/// The longest argument of a forwarded command.
pub(crate) struct Argument {
    /// The command, as it came.
    record: Arc<[u8]>,
    /// Where it stands there.
    place: Range<usize>,
    command: usize,
    arg: usize,
}

impl Argument {
    /// That of a command which was read from these bytes, if it is long enough to matter.
    pub fn longest(record: &Arc<[u8]>, exec: &Exec<'_>) -> Option<Self> {
        let all = exec.commands.iter().enumerate().flat_map(|(command, args)| {
            args.iter().enumerate().map(move |(arg, bytes)| (bytes.len(), command, arg))
        });
        let (len, command, arg) = all.max().filter(|(len, ..)| *len >= LEN_MIN)?;
        let bytes = exec.commands[command][arg];
        let at = bytes.as_ptr().addr().checked_sub(record.as_ptr().addr())?;
        (at + len <= record.len()).then(|| {
            let place = at..at + len;
            Argument { record: record.clone(), place, command, arg }
        })
    }

    /// A record of effects without it; none if it is not in there.
    pub fn shorten(&self, effects: &[u8]) -> Option<Box<[u8]>> {
        let bytes = &self.record[self.place.clone()];
        let at = memmem::find(effects, bytes)?;
        // Before it stands what says which command it is of: a client may have made an argument that
        // looks like that.
        tag_of_effects(&effects[..at])?;
        let rest = [&effects[..at], &effects[at + bytes.len()..]].concat();
        let mut out = Vec::with_capacity(rest.len() + LEN_MIN);
        let (command, arg) = (self.command as u64, self.arg as u64);
        put_record(&mut out, &Record::Shortened { at: at as u64, command, arg, rest: &rest });
        Some(out.into())
    }
}

/// The record that [`Argument::shorten`] has shortened; `call` finds the command. None if it is of
/// no command here, or something else.
pub(crate) fn restore<'a>(
    shortened: &Record<'_>,
    call: impl FnOnce(Tag) -> Option<&'a Call>,
) -> Option<Vec<u8>> {
    let &Record::Shortened { at, command, arg, rest } = shortened else { return None };
    let (before, behind) = rest.split_at_checked(usize::try_from(at).ok()?)?;
    let commands = &call(tag_of_effects(before)?)?.commands;
    let args = commands.get(usize::try_from(command).ok()?)?;
    let arg = args.get(usize::try_from(arg).ok()?)?;
    Some([before, arg, behind].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_map::Node;
    use crate::view::Identity;
    use crate::wire::{Parts, Tags};

    fn call(args: &[&[u8]]) -> Call {
        let command = args.iter().map(|arg| arg.to_vec()).collect();
        Call { slots: vec![7], commands: vec![command], ..Call::default() }
    }

    fn bytes(record: &Record<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        put_record(&mut out, record);
        out
    }

    /// A command as it arrives, and its longest argument.
    fn longest(call: &Call) -> Option<Argument> {
        let record = Arc::from(bytes(&Record::Exec(call.exec(3, 3, 1))));
        let read = Record::read(&record);
        let Ok(Record::Exec(exec)) = &read else { panic!("{read:?}") };
        Argument::longest(&record, exec)
    }

    fn effects(value: &[u8]) -> Vec<u8> {
        let origin = Identity { node: Node(2), incarnation: 9 };
        let tag = Some(Tag { origin, slot: 7, oseq: 3 });
        let group = [b"about a key ", value, b" and more"].concat();
        let (parts, served) = (Parts::default(), Tags::default());
        bytes(&Record::Effects { tag, parts, served, group: &group })
    }

    #[test]
    fn an_argument_goes_one_way_only() {
        let value = b"a value that is long enough";
        let call = call(&[b"SET", b"key", value]);
        let argument = longest(&call).unwrap();
        let whole = effects(value);
        let short = argument.shorten(&whole).unwrap();
        assert!(short.len() + value.len() < whole.len() + 8, "{} of {}", short.len(), whole.len());
        let record = Record::read(&short).unwrap();
        let named = |tag: Tag| (tag.slot == 7 && tag.oseq == 3).then_some(&call);
        assert_eq!(restore(&record, named), Some(whole));
        // One that looks like the beginning of its own effects.
        let without_value = effects(b"");
        let alike = &without_value[1..17];
        let argument = longest(&self::call(&[b"SET", b"key", alike])).unwrap();
        assert!(argument.shorten(&effects(alike)).is_none());
        // What the command has made of it, another command, none.
        let argument = longest(&call).unwrap();
        assert!(argument.shorten(&effects(b"something else that is long")).is_none());
        assert!(longest(&self::call(&[b"SET", b"key", b"short"])).is_none());
        assert_eq!(restore(&record, |_| None), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let call = call(&[b"SET", b"key", b"a value that is long enough"]);
        let rest = effects(b"");
        let at = rest.len() as u64 - 9;
        let restore = |at, command, arg, rest: &[u8]| {
            restore(&Record::Shortened { at, command, arg, rest }, |_| Some(&call))
        };
        assert!(restore(at, 0, 2, &rest).is_some());
        for (at, command, arg) in [(at, 1, 2), (at, 0, 3), (999, 0, 2), (u64::MAX, 0, 2), (2, 0, 2)]
        {
            assert_eq!(restore(at, command, arg, &rest), None);
        }
        let untagged = bytes(&Record::End { epoch: 700 });
        assert_eq!(restore(2, 0, 2, &untagged), None);
        assert_eq!(restore(0, 0, 2, b""), None);
    }
}
