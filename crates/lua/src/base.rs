//! Functions of Lua's base library in the form that scripts get: potentially long ones count their
//! work first, and protected tables cannot be changed.

use crate::interrupt::{BYTES_PER_STEP, Tally, count_work, ended};
use crate::lists::places;
use crate::protected::{READONLY, is_protected, push_behind};
use crate::scratch::Scratch;
use crate::vm::{
    Before, LUA_TFUNCTION, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Raise, SHOWN_MAX, Stack,
    attempt, call, end, run, truncated,
};
use mlua_sys as ffi;
use std::ffi::{CString, c_int};

/// Before a function that changes its first argument: that may be a table that scripts may not
/// change.
pub(crate) fn guarded(stack: Stack) -> Before {
    if stack.kind(1) != LUA_TTABLE {
        return Before::Call;
    }
    if is_protected(stack, 1) {
        return Before::Refuse(READONLY);
    }
    // From this many arguments on (the second upvalue) it moves the elements of a list.
    if stack.top() >= stack.to_number(Stack::upvalue(2)) as c_int {
        return Before::Count(stack.len(1) / 2);
    }
    Before::Call
}

/// Before a function that walks over its first argument, a text.
pub(crate) fn walking(stack: Stack) -> Before {
    if stack.kind(1) == LUA_TSTRING {
        Before::Count(stack.len(1) / BYTES_PER_STEP)
    } else {
        Before::Call
    }
}

/// Before a function that walks over all of its arguments, texts or numbers.
pub(crate) fn formatting(stack: Stack) -> Before {
    let texts = (1..=stack.top()).filter(|&i| stack.kind(i) == LUA_TSTRING);
    Before::Count(texts.map(|i| stack.len(i) / BYTES_PER_STEP).sum())
}

/// Before a function that walks over its first argument, a table.
pub(crate) fn traversing(stack: Stack) -> Before {
    if stack.kind(1) == LUA_TTABLE { Before::Count(places(stack, 1) / 2) } else { Before::Call }
}

/// Maximum that `collectgarbage` may set, in percent: it bounds a collection by an allocation to
/// ten times the default work. Without a bound each would look at all values there are, and an
/// instruction of the script would take as long.
const PERCENT_MAX: i64 = 1000;
const PAUSE_MIN: i64 = 100;

/// Before a function that may look at all values there are.
pub(crate) fn collecting(stack: Stack) -> Before {
    let wanted = truncated(stack.to_number(2));
    let bounded = match stack.to_bytes(1).filter(|_| stack.kind(1) == LUA_TSTRING) {
        Some(b"setpause") => Some(wanted.clamp(PAUSE_MIN, PERCENT_MAX)),
        // None at all, to Lua, means no bound.
        Some(b"setstepmul") if wanted < 1 => Some(PERCENT_MAX),
        Some(b"setstepmul") => Some(wanted.min(PERCENT_MAX)),
        _ => None,
    };
    if let Some(bounded) = bounded
        && (stack.top() == 1 || stack.is_number(2) || stack.kind(2) == LUA_TNIL)
    {
        stack.set_top(1);
        stack.push_number(bounded as f64);
    }
    let used = stack.with(|extra| {
        extra.sets_collector = true;
        extra.memory.used
    });
    Before::Count(used / 64)
}

/// Before a function that reads its first argument: what stands for a protected table is replaced
/// by the table itself.
pub(crate) fn seeing_through(stack: Stack) -> Before {
    if stack.kind(1) == LUA_TTABLE && is_protected(stack, 1) {
        push_behind(stack, 1);
        stack.replace(1);
    }
    Before::Call
}

/// `pcall(f [, argument ...])`, but that an error which is a table, as those of commands are, is
/// handed on as its text.
pub(crate) unsafe extern "C-unwind" fn pcall(stack: Stack) -> c_int {
    expect(stack, 1);
    stack.push_boolean(true);
    stack.insert(1);
    let called = stack.protected_call(stack.top() - 2, ffi::LUA_MULTRET, 0);
    end_if_due(stack);
    if called.is_err() {
        stack.push_boolean(false);
        stack.replace(1);
        if stack.kind(-1) == LUA_TTABLE {
            let was = stack.with(|extra| std::mem::replace(&mut extra.memory.lenient, true));
            let kind = stack.raw_get_field(-1, b"err");
            stack.with(|extra| extra.memory.lenient = was);
            match kind {
                LUA_TSTRING => stack.replace(-2),
                _ => stack.pop(1),
            }
        }
    }
    stack.top()
}

/// `xpcall(f, handler)`
pub(crate) unsafe extern "C-unwind" fn xpcall(stack: Stack) -> c_int {
    const HANDLER: c_int = 2;
    expect(stack, 2);
    stack.set_top(2);
    stack.insert(1);
    stack.push_boolean(true);
    stack.insert(1);
    let called = stack.protected_call(0, ffi::LUA_MULTRET, HANDLER);
    end_if_due(stack);
    if called.is_err() {
        stack.push_boolean(false);
        stack.replace(1);
    }
    stack.remove(HANDLER);
    stack.top()
}

/// Raises an error unless there are that many arguments.
fn expect(stack: Stack, arguments: c_int) {
    if stack.top() < arguments {
        let missing = |_| Err::<(), _>(Raise::Argument(arguments, "value expected".into()));
        // SAFETY: no frame of the functions that call this owns anything.
        unsafe { attempt(stack, missing) }
    }
}

/// A function that has caught the end of the script lets it go on.
fn end_if_due(stack: Stack) {
    if stack.ends() {
        // SAFETY: no frame of the functions that call this owns anything.
        unsafe { end(stack) }
    }
}

/// `loadstring(text [, name])`. Compiled functions are refused: those are not checked, and could do
/// anything.
pub(crate) fn loadstring(stack: Stack) -> Result<c_int, Raise> {
    let text = stack.check_bytes(1)?;
    let name = if stack.top() > 1 { stack.to_bytes(2) } else { None };
    load_text(stack, text, name.unwrap_or(text))
}

fn load_text(stack: Stack, text: &[u8], name: &[u8]) -> Result<c_int, Raise> {
    let name = &name[..name.len().min(SHOWN_MAX)];
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let name = CString::new(&name[..end]).unwrap_or_default();
    if text.first() == Some(&27) {
        let shown: String = name.to_string_lossy().chars().filter(|c| !c.is_control()).collect();
        stack.push_nil();
        let message = format!("[string \"{shown}\"]:1: unexpected symbol near 'char(27)'");
        stack.push_bytes(message.as_bytes());
        return Ok(2);
    }
    if stack.load(text, &name) {
        return Ok(1);
    }
    if stack.ends() {
        return Err(ended(stack));
    }
    stack.push_nil();
    stack.insert(-2);
    Ok(2)
}

/// `load(reader [, name])`. A reader of pieces may hand out a compiled function, so the pieces are
/// collected first, in a table: a frame that runs a script's code owns nothing.
pub(crate) unsafe extern "C-unwind" fn load_pieces(stack: Stack) -> c_int {
    const PIECES: c_int = 3;
    // SAFETY: the interpreter passes its state; no value of this frame is owned when a piece is
    // asked for or an error raised.
    unsafe {
        ffi::luaL_checktype(stack.raw(), 1, LUA_TFUNCTION);
        ffi::luaL_optlstring(stack.raw(), 2, c"=(load)".as_ptr(), std::ptr::null_mut());
        stack.set_top(PIECES - 1);
        let mut pieces = 0;
        attempt(stack, |stack| {
            stack.new_table(0, 0);
            Ok(())
        });
        loop {
            stack.copy(1);
            call(stack, 0, 1);
            if !attempt(stack, |stack| keep_piece(stack, PIECES, pieces + 1)) {
                break;
            }
            pieces += 1;
        }
        run(stack, move |stack| {
            let text = joined(stack, PIECES, pieces)?;
            let name = stack.to_bytes(2).unwrap_or(b"=(load)");
            load_text(stack, &text, name)
        })
    }
}

/// Takes the piece on top and keeps it as an element of the table at `pieces`; false if it is the
/// end. A reader that is none of the script's own functions counts no instructions.
fn keep_piece(stack: Stack, pieces: c_int, at: c_int) -> Result<bool, Raise> {
    match stack.kind(-1) {
        LUA_TNIL => return Ok(false),
        LUA_TSTRING | LUA_TNUMBER => {}
        _ => return Err(Raise::fixed("reader function must return a string")),
    }
    let len = stack.to_bytes(-1).unwrap_or_default().len();
    count_work(stack, 1 + len / BYTES_PER_STEP)?;
    if len > 0 {
        stack.set_index(pieces, at)?;
    }
    Ok(len > 0)
}

/// The elements of the table at `pieces`, from 1 to `count`, as one text.
pub(crate) fn joined(stack: Stack, pieces: c_int, count: c_int) -> Result<Scratch, Raise> {
    let (mut whole, mut tally) = (Scratch::new(stack), Tally::new(stack));
    for piece in 1..=count {
        stack.raw_get_index(pieces, piece);
        let text = stack.to_bytes(-1).unwrap_or_default();
        tally.add(1 + text.len() / BYTES_PER_STEP)?;
        whole.extend(text)?;
        stack.pop(1);
    }
    Ok(whole)
}
