//! Replacements for those functions of `string` that could run for long: pattern matching
//! ([`crate::pattern`]) and `rep`.

use crate::interrupt::{BYTES_PER_STEP, PIECE, Tally, ask, count_work, ended};
use crate::pattern::{
    Captured, Match, Matcher, PATTERN_LEN_MAX, Steps, Stop, anchored, is_plain, until_zero,
};
use crate::scratch::Scratch;
use crate::vm::{LUA_TNIL, LUA_TNONE, Raise, Stack, truncated};
use memchr::memmem;
use std::ffi::c_int;

/// Replaces functions of the table at `library`.
pub(crate) fn open(stack: Stack, library: c_int) {
    let library = stack.absolute(library);
    stack.push_function(find);
    stack.raw_set_field(library, b"find");
    stack.push_function(match_);
    stack.raw_set_field(library, b"match");
    for name in [&b"gmatch"[..], b"gfind"] {
        stack.push_function(gmatch);
        stack.raw_set_field(library, name);
    }
    stack.push_native(crate::gsub::gsub, 0);
    stack.raw_set_field(library, b"gsub");
    stack.push_function(rep);
    stack.raw_set_field(library, b"rep");
}

/// Matches, with the steps that the script has left.
fn matching<T>(
    stack: Stack,
    work: impl FnOnce(&mut Steps<'_>) -> Result<T, Stop>,
) -> Result<T, Raise> {
    let mut asking = || ask(stack);
    let mut steps = Steps { left: stack.with(|extra| extra.steps), ask: &mut asking };
    let result = work(&mut steps);
    let left = steps.left;
    stack.with(|extra| extra.steps = left);
    result.map_err(|stop| raise(stack, stop))
}

fn raise(stack: Stack, stop: Stop) -> Raise {
    match stop {
        Stop::Malformed(text) => Raise::fixed(text),
        Stop::Interrupted => ended(stack),
    }
}

fn optional_integer(stack: Stack, argument: c_int, default: i64) -> Result<i64, Raise> {
    match stack.kind(argument) {
        LUA_TNIL | LUA_TNONE => Ok(default),
        _ => stack.check_integer(argument),
    }
}

fn check_pattern(pattern: &[u8]) -> Result<&[u8], Raise> {
    if until_zero(pattern).len() > PATTERN_LEN_MAX {
        return Err(Raise::fixed("pattern too long"));
    }
    Ok(pattern)
}

/// `string.find(s, pattern [, init [, plain]])`
fn find(stack: Stack) -> Result<c_int, Raise> {
    let (text, pattern, from) = searched(stack)?;
    if !stack.to_boolean(4) && !is_plain(pattern) {
        let Some(found) = search(stack, text, pattern, from)? else { return Ok(1) };
        stack.push_number((found.begin + 1) as f64);
        stack.push_number(found.end as f64);
        return Ok(2 + push_values(stack, text, &found, found.captures())?);
    }
    count_work(stack, (text.len() - from) / BYTES_PER_STEP)?;
    match memmem::find(&text[from..], pattern) {
        Some(at) => {
            stack.push_number((from + at + 1) as f64);
            stack.push_number((from + at + pattern.len()) as f64);
            Ok(2)
        }
        None => {
            stack.push_nil();
            Ok(1)
        }
    }
}

/// `string.match(s, pattern [, init])`
fn match_(stack: Stack) -> Result<c_int, Raise> {
    let (text, pattern, from) = searched(stack)?;
    match search(stack, text, pattern, from)? {
        Some(found) => push_values(stack, text, &found, found.values()),
        None => Ok(1),
    }
}

/// The text and the pattern that the first arguments are, and the offset that the third says, from
/// 1 or from the end.
fn searched<'a>(stack: Stack) -> Result<(&'a [u8], &'a [u8], usize), Raise> {
    let (text, pattern) = (stack.check_bytes(1)?, stack.check_bytes(2)?);
    let place = optional_integer(stack, 3, 1)?;
    let len = text.len() as i64;
    let place = if place < 0 { place.saturating_add(len + 1) } else { place };
    Ok((text, pattern, (place - 1).clamp(0, len) as usize))
}

/// Searches; pushes nil if there is nothing.
fn search(stack: Stack, text: &[u8], pattern: &[u8], from: usize) -> Result<Option<Match>, Raise> {
    let (anchored, pattern) = anchored(check_pattern(pattern)?);
    let found = matching(stack, |steps| Matcher::new(text, pattern, steps).from(from, anchored))?;
    if found.is_none() {
        stack.push_nil();
    }
    Ok(found)
}

/// Pushes this many of the values that a match yields.
pub(crate) fn push_values(
    stack: Stack,
    text: &[u8],
    found: &Match,
    values: usize,
) -> Result<c_int, Raise> {
    if !stack.reserve(values as c_int) {
        return Err(Raise::fixed("stack overflow (too many captures)"));
    }
    for at in 0..values {
        push_value(stack, text, found, at)?;
    }
    Ok(values as c_int)
}

/// Pushes one of them.
pub(crate) fn push_value(stack: Stack, text: &[u8], found: &Match, at: usize) -> Result<(), Raise> {
    match found.value(text, at).map_err(|stop| raise(stack, stop))? {
        Captured::Text(part) => stack.push_text(part),
        Captured::Position(place) => {
            stack.push_number(place as f64);
            Ok(())
        }
    }
}

/// `string.gmatch(s, pattern)`. Here the sign of the beginning stands for itself.
fn gmatch(stack: Stack) -> Result<c_int, Raise> {
    stack.check_bytes(1)?;
    check_pattern(stack.check_bytes(2)?)?;
    stack.set_top(2);
    stack.push_number(0.0);
    stack.push_closure(next_match, 3);
    Ok(1)
}

/// The function that `gmatch` answers: its upvalues are the text, the pattern, and where to go on.
fn next_match(stack: Stack) -> Result<c_int, Raise> {
    let [text, pattern, from] = [1, 2, 3].map(Stack::upvalue);
    let bytes = |index| stack.to_bytes(index).unwrap_or_default();
    let (text, pattern, at) = (bytes(text), bytes(pattern), stack.to_number(from) as usize);
    if at > text.len() {
        return Ok(0);
    }
    let found = matching(stack, |steps| Matcher::new(text, pattern, steps).from(at, false))?;
    let Some(found) = found else { return Ok(0) };
    stack.push_number((found.end + usize::from(found.end == found.begin)) as f64);
    stack.replace(from);
    push_values(stack, text, &found, found.values())
}

/// Arguments of `gsub` other than the replacement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Substitution {
    pub anchored: bool,
    /// Matches that are replaced, at most.
    pub replaced_max: i64,
}

/// Reads the arguments of `gsub` other than the third.
pub(crate) fn substitution(stack: Stack) -> Result<Substitution, Raise> {
    let (text, pattern) = (stack.check_bytes(1)?, stack.check_bytes(2)?);
    // An `int` in Lua 5.1.
    let replaced_max = optional_integer(stack, 4, text.len() as i64 + 1)? as i32;
    let (anchored, _) = anchored(check_pattern(pattern)?);
    Ok(Substitution { anchored, replaced_max: i64::from(replaced_max) })
}

/// The match of the pattern, the second argument, that begins at an offset of the text, the first.
pub(crate) fn match_at(stack: Stack, at: usize) -> Result<Option<Match>, Raise> {
    let (text, pattern) = (stack.check_bytes(1)?, stack.check_bytes(2)?);
    let (_, pattern) = anchored(pattern);
    matching(stack, |steps| Matcher::new(text, pattern, steps).at(at))
}

/// `string.gsub(s, pattern, replacement [, n])` with a text as the replacement, in which `%1`
/// stands for a capture.
pub(crate) fn substitute_text(stack: Stack) -> Result<c_int, Raise> {
    let plan = substitution(stack)?;
    let text = stack.check_bytes(1)?;
    let Some(replacement) = stack.to_bytes(3) else {
        return Err(Raise::Argument(3, "string/function/table expected".into()));
    };
    let (mut out, mut at, mut replaced) = (Scratch::new(stack), 0, 0);
    while replaced < plan.replaced_max {
        let found = match_at(stack, at)?;
        if let Some(found) = &found {
            replaced += 1;
            put_replacement(stack, text, found, replacement, &mut out)?;
        }
        match (found, text.get(at)) {
            (Some(found), _) if found.end > at => at = found.end,
            (_, Some(&byte)) => {
                out.push(byte)?;
                at += 1;
            }
            _ => break,
        }
        if plan.anchored {
            break;
        }
    }
    out.extend(&text[at..])?;
    out.push_value()?;
    stack.push_number(replaced as f64);
    Ok(2)
}

fn put_replacement(
    stack: Stack,
    text: &[u8],
    found: &Match,
    replacement: &[u8],
    out: &mut Scratch,
) -> Result<(), Raise> {
    let (mut bytes, mut tally) = (replacement.iter(), Tally::new(stack));
    while let Some(&byte) = bytes.next() {
        // A sign at the end is followed by the zero that ends every string.
        let meant = if byte == b'%' { bytes.next().copied().unwrap_or(0) } else { byte };
        if byte != b'%' || !meant.is_ascii_digit() {
            out.push(meant)?;
            continue;
        }
        let before = out.len();
        if meant == b'0' {
            out.extend(&text[found.begin..found.end])?;
        } else {
            let value = found.value(text, usize::from(meant - b'1'));
            match value.map_err(|stop| raise(stack, stop))? {
                Captured::Text(part) => out.extend(part)?,
                Captured::Position(place) => out.extend(place.to_string().as_bytes())?,
            }
        }
        tally.add(1 + (out.len() - before) / BYTES_PER_STEP)?;
    }
    // Count the replacement's remaining bytes.
    count_work(stack, replacement.len() / BYTES_PER_STEP)
}

/// `string.rep(s, n)`
fn rep(stack: Stack) -> Result<c_int, Raise> {
    let text = stack.check_bytes(1)?;
    // An `int` in Lua 5.1.
    let times = truncated(stack.check_number(2)?) as i32;
    let times = usize::try_from(times).unwrap_or(0);
    let len = text.len().saturating_mul(times);
    let mut whole = Scratch::new(stack);
    whole.reserve(len)?;
    if len > 0 {
        whole.extend(text)?;
    }
    // Twice as much each time, a piece at most.
    while whole.len() < len {
        let more =
            whole.len().min(len - whole.len()).min(PIECE.max(text.len()) / text.len() * text.len());
        count_work(stack, more / BYTES_PER_STEP)?;
        whole.repeat_first(more)?;
    }
    whole.push_value()?;
    Ok(1)
}
