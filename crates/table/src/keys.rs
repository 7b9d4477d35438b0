//! Positions of the keys of a call.

use crate::bits;
use crate::key_spec::{BeginSearch, FindKeys, KeyFlags, KeySpec};
use std::ops::Range;

/// A key of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyRef {
    /// Index of the argument; the command's name is argument 0.
    pub index: u32,
    /// Effect of the command on the key.
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
/// order of the key specs. A key named twice is listed twice. Specs of arguments that are routed
/// like keys but are none (`NOT_KEY`) are skipped.
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
        if let Some(locate) = spec.locate {
            keys.extend(
                locate(args).map(|index| KeyRef { index: index as u32, flags: spec.flags }),
            );
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

/// Key flags of a `SET` call: it overwrites the key, unless an option needs the old value.
pub fn set_key_flags(args: &[&[u8]]) -> KeyFlags {
    const COMPARING: [&[u8]; 4] = [b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"];
    let options = args.get(3..).unwrap_or_default();
    let has = |option: &[u8]| options.iter().any(|arg| arg.eq_ignore_ascii_case(option));
    if has(b"GET") {
        bits!(KeyFlags: RW, ACCESS, UPDATE)
    } else if COMPARING.iter().any(|option| has(option)) {
        bits!(KeyFlags: RW, UPDATE)
    } else {
        bits!(KeyFlags: OW, UPDATE)
    }
}

/// Key flags of a `DELEX` call: it removes the key, unless a condition needs the value.
pub fn delex_key_flags(args: &[&[u8]]) -> KeyFlags {
    if args.len() > 2 { bits!(KeyFlags: RW, DELETE) } else { bits!(KeyFlags: RM, DELETE) }
}

/// Key flags of a `BITFIELD` call: it reads the key if every operation is a `GET`.
pub fn bitfield_key_flags(args: &[&[u8]]) -> KeyFlags {
    const WRITING: KeyFlags = bits!(KeyFlags: RW, ACCESS, UPDATE);
    let mut at = 2;
    while at < args.len() {
        let (word, left) = (args[at], args.len() - at - 1);
        at += match left {
            2.. if word.eq_ignore_ascii_case(b"GET") => 3,
            1.. if word.eq_ignore_ascii_case(b"OVERFLOW") => 2,
            _ => return WRITING,
        };
    }
    bits!(KeyFlags: RO, ACCESS)
}

/// The keys of `XREAD` and `XREADGROUP`: the first half of what stands behind `STREAMS`, or none
/// where there is no such word or the halves are not alike. The words before it are read as the
/// commands read them, since a group may well be called `streams`.
pub fn stream_keys(args: &[&[u8]]) -> Range<usize> {
    const OPTIONS: [(&[u8], usize); 7] = [
        (b"BLOCK", 2),
        (b"CLAIM", 2),
        (b"COUNT", 2),
        (b"GROUP", 3),
        (b"MAXCOUNT", 2),
        (b"MAXSIZE", 2),
        (b"NOACK", 1),
    ];
    let mut at = 1;
    while let Some(word) = args.get(at) {
        if word.eq_ignore_ascii_case(b"STREAMS") {
            let behind = args.len() - (at + 1);
            return at + 1..at + 1 + if behind.is_multiple_of(2) { behind / 2 } else { 0 };
        }
        match OPTIONS.iter().find(|(option, _)| word.eq_ignore_ascii_case(option)) {
            Some((_, words)) => at += words,
            None => break,
        }
    }
    0..0
}

/// Destination key of a `GEORADIUS` call: the last one named by `STORE` or `STOREDIST`.
pub fn georadius_destination(args: &[&[u8]]) -> Range<usize> {
    destination_from(6, args)
}

/// Destination key of a `GEORADIUSBYMEMBER` call.
pub fn georadiusbymember_destination(args: &[&[u8]]) -> Range<usize> {
    destination_from(5, args)
}

/// The options are read as the commands read them, since a key may well be called `store`.
fn destination_from(mut at: usize, args: &[&[u8]]) -> Range<usize> {
    let mut destination = 0..0;
    while let Some(word) = args.get(at) {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if (is(b"STORE") || is(b"STOREDIST")) && at + 1 < args.len() {
            destination = at + 1..at + 2;
            at += 1;
        } else if is(b"COUNT") {
            at += 1;
        }
        at += 1;
    }
    destination
}

/// Destination key of a `SORT` call: the last `STORE` counts.
pub fn sort_destination(args: &[&[u8]]) -> Range<usize> {
    let mut found = 0..0;
    let mut at = 2;
    while at < args.len() {
        let is = |word: &[u8]| args[at].eq_ignore_ascii_case(word);
        let values = match () {
            () if is(b"LIMIT") => 2,
            () if is(b"BY") || is(b"GET") || is(b"STORE") => 1,
            () => 0,
        };
        if is(b"STORE") && at + 1 < args.len() {
            found = at + 1..at + 2;
        }
        at += 1 + values;
    }
    found
}

/// The place of the only key, unless the keys follow `KEYS`.
pub fn migrated_key(args: &[&[u8]]) -> Range<usize> {
    if args[3].is_empty() && keys_option(args).is_some() { 3..3 } else { 3..4 }
}

/// The places of the keys that follow `KEYS`.
pub fn migrated_keys(args: &[&[u8]]) -> Range<usize> {
    match keys_option(args) {
        Some(at) if args[3].is_empty() => at + 1..args.len(),
        _ => 0..0,
    }
}

/// The place of the option `KEYS`.
fn keys_option(args: &[&[u8]]) -> Option<usize> {
    let mut i = 6;
    while i < args.len() {
        let is = |name: &[u8]| args[i].eq_ignore_ascii_case(name);
        if is(b"KEYS") {
            return Some(i);
        }
        i += if is(b"AUTH2") {
            3
        } else if is(b"AUTH") {
            2
        } else {
            1
        };
    }
    None
}

/// None: the key of one spec that another finds.
pub fn no_keys(_: &[&[u8]]) -> Range<usize> {
    0..0
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

/// Parses a count of keys; a negative count is 0, and the command itself reports the error.
fn parse_count(digits: &[u8]) -> Result<usize, InvalidKeys> {
    let digits = str::from_utf8(digits).map_err(|_| InvalidKeys)?;
    let count: i64 = digits.parse().map_err(|_| InvalidKeys)?;
    Ok(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RO: KeyFlags = KeyFlags::RO;

    fn positions(spec: KeySpec, call: &str) -> Result<Vec<u32>, InvalidKeys> {
        let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        let mut keys = Vec::new();
        key_positions(&[spec], &args, &mut keys)?;
        Ok(keys.iter().map(|key| key.index).collect())
    }

    fn keyword(keyword: &'static str, start: i16, limit: u16) -> KeySpec {
        let begin = BeginSearch::Keyword { keyword, start };
        let find = FindKeys::Range { last: -1, step: 1, limit };
        KeySpec { begin, find, ..KeySpec::unknown(RO) }
    }

    #[test]
    fn ranges() {
        assert_eq!(positions(KeySpec::at(1, RO), "get a"), Ok(vec![1]));
        assert_eq!(positions(KeySpec::at(2, RO), "get a"), Ok(vec![]));
        assert_eq!(positions(KeySpec::range(1, -1, 1, RO), "del a b c"), Ok(vec![1, 2, 3]));
        assert_eq!(positions(KeySpec::range(1, -1, 2, RO), "mset a 1 b 2"), Ok(vec![1, 3]));
        assert_eq!(positions(KeySpec::range(1, -2, 1, RO), "blpop a b 0"), Ok(vec![1, 2]));
        assert_eq!(positions(KeySpec::range(1, -2, 1, RO), "blpop a"), Ok(vec![]));
        assert_eq!(positions(KeySpec::range(1, 1, 1, RO), "rename a"), Err(InvalidKeys));
        assert_eq!(positions(KeySpec::unknown(RO), "sort a by b"), Ok(vec![]));
    }

    #[test]
    fn counts() {
        let spec = KeySpec::counted(2, 1, RO);
        assert_eq!(positions(spec, "eval s 2 a b c"), Ok(vec![3, 4]));
        assert_eq!(positions(spec, "eval s 0 a"), Ok(vec![]));
        assert_eq!(positions(spec, "eval s -1 a"), Ok(vec![]));
        for count in ["3", "x", "9223372036854775807", "9223372036854775808"] {
            assert_eq!(positions(spec, &format!("eval s {count} a b")), Err(InvalidKeys));
        }
        let pairs = KeySpec::counted(1, 2, RO);
        assert_eq!(positions(pairs, "msetex 2 a 1 b 2 NX"), Ok(vec![2, 4]));
        assert_eq!(positions(pairs, "msetex 3 a 1 b 2"), Err(InvalidKeys));
    }

    #[test]
    fn keywords() {
        let streams = keyword("STREAMS", 1, 2);
        assert_eq!(positions(streams, "xread count 2 streams a b 0 0"), Ok(vec![4, 5]));
        assert_eq!(positions(streams, "xread streams"), Ok(vec![]));
        assert_eq!(positions(streams, "xread count 2"), Ok(vec![]));
        let keys = keyword("KEYS", -2, 0);
        assert_eq!(positions(keys, "migrate h 1 k 0 9 KEYS a b"), Ok(vec![7, 8]));
        assert_eq!(positions(keys, "migrate h 1 k 0 9 keys"), Ok(vec![]));
        assert_eq!(positions(keys, "migrate"), Ok(vec![]));
    }

    #[test]
    fn streams_are_found_behind_the_options() {
        let keys = |call: &str| {
            let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
            stream_keys(&args)
        };
        assert_eq!(keys("xread streams a b 0 0"), 2..4);
        assert_eq!(keys("xread count 1 block 0 streams a 0"), 6..7);
        assert_eq!(keys("xreadgroup group streams streams noack streams a >"), 6..7);
        for call in
            ["xread", "xread streams", "xread streams a b 0", "xread count", "xread x streams a 0"]
        {
            assert!(keys(call).is_empty(), "{call}");
        }
    }

    #[test]
    fn the_last_destination_counts() {
        let keys = |call: &str| {
            let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
            let meta = match args[0] {
                b"georadius" => crate::commands::GEORADIUS,
                _ => crate::commands::GEORADIUSBYMEMBER,
            };
            let mut keys = Vec::new();
            key_positions(meta.keys, &args, &mut keys).unwrap();
            keys.iter().map(|key| key.index).collect::<Vec<_>>()
        };
        assert_eq!(keys("georadius g 0 0 1 km store a STORE b"), [1, 9]);
        assert_eq!(keys("georadius g 0 0 1 km storedist a count store"), [1, 7]);
        assert_eq!(keys("georadius g 0 0 1 km store store storedist b"), [1, 9]);
        assert_eq!(keys("georadius g 0 0 1 km count 1 store"), [1]);
        assert_eq!(keys("georadiusbymember g m 1 km storedist a asc"), [1, 6]);
    }

    #[test]
    fn flags_follow_the_options() {
        let set = crate::commands::SET.keys;
        let mut keys = Vec::new();
        key_positions(set, &[b"set", b"k", b"GET"], &mut keys).unwrap();
        key_positions(set, &[b"set", b"k", b"v", b"ex", b"9", b"get"], &mut keys).unwrap();
        let flags: Vec<_> = keys.iter().map(|key| key.flags.names().collect::<Vec<_>>()).collect();
        assert_eq!(flags, [vec!["OW", "update"], vec!["RW", "access", "update"]]);
    }

    #[test]
    fn bitfield_reads_if_it_only_gets() {
        let flags = |call: &str| {
            let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
            bitfield_key_flags(&args)
        };
        for reading in ["bitfield k", "bitfield k get u8 0", "bitfield k OVERFLOW sat GET i5 #1"] {
            assert!(flags(reading).contains(KeyFlags::RO), "{reading}");
        }
        for writing in ["bitfield k get u8 0 set u8 0 1", "bitfield k get u8", "bitfield k nope"] {
            assert!(flags(writing).contains(KeyFlags::RW), "{writing}");
        }
    }
}
