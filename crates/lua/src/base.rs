//! Functions of Lua's base library as scripts get them: those that could run for long count their
//! work first, and protected tables stay as they are.

use crate::protected::{READONLY, is_protected, push_behind};
use crate::vm::{
    Before, LUA_TFUNCTION, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Raise, SHOWN_MAX, Stack,
    call, call_upvalue, run,
};
use crate::work::count_work;
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
    if stack.kind(1) == LUA_TSTRING { Before::Count(stack.len(1) / 16) } else { Before::Call }
}

/// Before a function that may look at all values there are.
pub(crate) fn collecting(stack: Stack) -> Before {
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

/// Lua's own `pcall` (the first upvalue), but that an error which is a table, as those of commands
/// are, is handed on as its text.
pub(crate) unsafe extern "C-unwind" fn pcall(stack: Stack) -> c_int {
    let results = call_upvalue(stack);
    if results == 2 && stack.kind(-1) == LUA_TTABLE && !stack.to_boolean(-2) {
        let was = stack.with(|extra| std::mem::replace(&mut extra.memory.lenient, true));
        let kind = stack.raw_get_field(-1, b"err");
        stack.with(|extra| extra.memory.lenient = was);
        match kind {
            LUA_TSTRING => stack.replace(-2),
            _ => stack.pop(1),
        }
    }
    results
}

/// `loadstring(text [, name])`. Compiled functions are refused: those are not checked, and could do
/// anything.
pub(crate) fn loadstring(stack: Stack) -> Result<c_int, Raise> {
    let text = stack.check_bytes(1)?;
    let name = if stack.top() > 1 { stack.to_bytes(2) } else { None };
    load_text(stack, text, name.unwrap_or(text))
}

fn load_text(stack: Stack, text: &[u8], name: &[u8]) -> Result<c_int, Raise> {
    count_work(stack, text.len())?;
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
    stack.push_nil();
    stack.insert(-2);
    Ok(2)
}

/// A reader of pieces may hand out a compiled function: `load` collects the pieces first.
pub(crate) unsafe extern "C-unwind" fn load_pieces(stack: Stack) -> c_int {
    // SAFETY: the interpreter passes its state; no value of this frame is owned when a piece is
    // asked for or an error raised, and all pieces are on the interpreter's stack.
    unsafe {
        ffi::luaL_checktype(stack.raw(), 1, LUA_TFUNCTION);
        ffi::luaL_optlstring(stack.raw(), 2, c"=(load)".as_ptr(), std::ptr::null_mut());
        stack.set_top(2);
        stack.push_bytes(b"");
        loop {
            stack.copy(1);
            call(stack, 0, 1);
            match stack.kind(-1) {
                LUA_TNIL => break,
                LUA_TSTRING | LUA_TNUMBER if stack.len(-1) == 0 => break,
                LUA_TSTRING | LUA_TNUMBER => stack.concatenate(2),
                _ => {
                    ffi::luaL_error(stack.raw(), c"reader function must return a string".as_ptr());
                }
            }
        }
        stack.set_top(3);
        if stack.kind(2) == LUA_TNIL {
            stack.push_bytes(b"=(load)");
            stack.replace(2);
        }
        run(stack, |stack| load_text(stack, stack.check_bytes(3)?, stack.check_bytes(2)?))
    }
}
