//! Which arguments of a call are its keys.

use crate::spec::{BeginSearch, FindKeys, KeyFlags, KeySpec};

/// A key of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyRef {
    /// Its place among the arguments; the command's name is argument 0.
    pub index: u32,
    /// What the command does to it.
    pub flags: KeyFlags,
}

/// The arguments name keys that are not there: a count that is no number, or beyond the arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InvalidKeys;

impl InvalidKeys {
    /// The error that `COMMAND GETKEYS` answers.
    pub const MESSAGE: &str = "ERR Invalid arguments specified for command";
}

/// Appends the keys of the call `args` (the name included, the arity checked) to `keys`, in the
/// order of the key specs. A key named twice is listed twice. Specs of what is routed like a key but is none
/// are passed over.
///
/// # Errors
///
/// When a count of keys is not a number or points beyond the arguments; `keys` then
/// holds some of the keys.
pub fn key_positions(
    specs: &[KeySpec],
    args: &[&[u8]],
    keys: &mut Vec<KeyRef>,
) -> Result<(), InvalidKeys> {
    for spec in specs {
        if spec.flags.contains(KeyFlags::NOT_KEY) {
            continue;
        }
        let Some(begin) = begin(spec.begin, args) else { continue };
        let Some(run) = run(spec.find, begin, args)? else { continue };
        let flags = spec.narrow.map_or(spec.flags, |narrow| narrow(args));
        let indexes = (run.first..=run.last).step_by(run.step);
        keys.extend(indexes.map(|index| KeyRef { index: index as u32, flags }));
    }
    Ok(())
}

/// Evenly spaced arguments; `last` is below the number of arguments.
struct Run {
    first: usize,
    last: usize,
    step: usize,
}

/// The argument at which a spec's keys begin, if the call has it.
fn begin(search: BeginSearch, args: &[&[u8]]) -> Option<usize> {
    let index = match search {
        BeginSearch::Unknown => return None,
        BeginSearch::Index(index) => usize::from(index),
        BeginSearch::Keyword { keyword, start } => {
            let is_keyword = |index: &usize| args[*index].eq_ignore_ascii_case(keyword.as_bytes());
            let from_end = usize::from(start.unsigned_abs());
            let found = if start >= 0 {
                (from_end..args.len()).find(is_keyword)
            } else {
                (1..(args.len() + 1).saturating_sub(from_end)).rev().find(is_keyword)
            };
            found? + 1
        }
    };
    (index < args.len()).then_some(index)
}

/// The keys from `begin` on; `None` if there are none.
fn run(find: FindKeys, begin: usize, args: &[&[u8]]) -> Result<Option<Run>, InvalidKeys> {
    let end = args.len();
    let (first, last, step) = match find {
        FindKeys::Unknown => return Ok(None),
        FindKeys::Range { last, step, limit } if last < 0 => {
            let span = end - begin;
            let span = if limit > 1 { span / usize::from(limit) } else { span };
            let beyond = usize::from(last.unsigned_abs()) - 1;
            match span.checked_sub(beyond) {
                None | Some(0) => return Ok(None),
                Some(span) => (begin, begin + span - 1, step),
            }
        }
        FindKeys::Range { last, step, .. } => {
            (begin, begin + usize::from(last.unsigned_abs()), step)
        }
        FindKeys::KeyNum { count, first, step } => {
            let count = args.get(begin + usize::from(count)).ok_or(InvalidKeys)?;
            let count = parse_count(count)?;
            let Some(following) = count.checked_sub(1) else { return Ok(None) };
            let first = begin + usize::from(first);
            let last = following.checked_mul(usize::from(step)).and_then(|n| n.checked_add(first));
            (first, last.ok_or(InvalidKeys)?, step)
        }
    };
    if last >= end {
        return Err(InvalidKeys);
    }
    Ok(Some(Run { first, last, step: usize::from(step.max(1)) }))
}

/// A count of keys; a negative one counts as none, and the command itself says what is wrong with it.
fn parse_count(digits: &[u8]) -> Result<usize, InvalidKeys> {
    let digits = str::from_utf8(digits).map_err(|_| InvalidKeys)?;
    let count: i64 = digits.parse().map_err(|_| InvalidKeys)?;
    Ok(usize::try_from(count).unwrap_or(0))
}
