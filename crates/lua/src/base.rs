//! Functions of Lua's base library as scripts get them: those that could run for long count their
//! work first, and protected tables stay as they are.

use crate::protected::{READONLY, is_protected, push_behind};
use crate::vm::{
    LUA_TFUNCTION, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Raise, SHOWN_MAX, Stack,
    attempt, call_upvalue, lua_State, run,
};
use crate::work::count_work;
use mlua_sys as ffi;
use std::ffi::{CString, c_int};

/// Calls a function of the interpreter's libraries (the first upvalue), unless its first argument
/// is a table that scripts may not change.
pub(crate) unsafe extern "C-unwind" fn guarded(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state.
    let stack = unsafe { Stack::of(state) };
    if stack.kind(1) == LUA_TTABLE && is_protected(stack, 1) {
        let was = stack.with(|extra| std::mem::replace(&mut extra.memory.lenient, true));
        stack.push_bytes(READONLY.as_bytes());
        stack.with(|extra| extra.memory.lenient = was);
        // SAFETY: nothing in this frame is owned.
        unsafe { ffi::lua_error(state) }
    }
    // From this many arguments on (the second upvalue) it moves the elements of a list.
    if stack.top() >= stack.to_number(Stack::upvalue(2)) as c_int && stack.kind(1) == LUA_TTABLE {
        let elements = stack.len(1);
        // SAFETY: nothing in this frame is owned.
        unsafe { attempt(state, |stack| count_work(stack, elements / 2)) };
    }
    call_upvalue(stack)
}

/// Calls a function of the interpreter's libraries (the first upvalue) that walks over its first
/// argument, a text.
pub(crate) unsafe extern "C-unwind" fn walking(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state.
    let stack = unsafe { Stack::of(state) };
    if stack.kind(1) == LUA_TSTRING {
        let len = stack.len(1);
        // SAFETY: nothing in this frame is owned.
        unsafe { attempt(state, |stack| count_work(stack, len / 16)) };
    }
    call_upvalue(stack)
}

/// Calls a function of the interpreter's libraries (the first upvalue) that may look at all values
/// there are.
pub(crate) unsafe extern "C-unwind" fn collecting(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state.
    let stack = unsafe { Stack::of(state) };
    let used = stack.with(|extra| {
        extra.sets_collector = true;
        extra.memory.used
    });
    // SAFETY: nothing in this frame is owned.
    unsafe { attempt(state, |stack| count_work(stack, used / 64)) };
    call_upvalue(stack)
}

/// Calls a function of the interpreter's libraries (the first upvalue) that reads its first
/// argument: what stands for a protected table is replaced by the table itself.
pub(crate) unsafe extern "C-unwind" fn seeing_through(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state.
    let stack = unsafe { Stack::of(state) };
    if stack.kind(1) == LUA_TTABLE && is_protected(stack, 1) {
        push_behind(stack, 1);
        stack.replace(1);
    }
    call_upvalue(stack)
}

/// Lua's own `pcall` (the first upvalue), but that an error which is a table, as those of commands
/// are, is handed on as its text.
pub(crate) unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state.
    let stack = unsafe { Stack::of(state) };
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
pub(crate) unsafe extern "C-unwind" fn load_pieces(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state; no value of this frame is owned when a piece is
    // asked for, and all pieces are on the interpreter's stack.
    unsafe {
        ffi::luaL_checktype(state, 1, LUA_TFUNCTION);
        ffi::luaL_optlstring(state, 2, c"=(load)".as_ptr(), std::ptr::null_mut());
        ffi::lua_settop(state, 2);
        ffi::lua_pushlstring_(state, c"".as_ptr(), 0);
        loop {
            ffi::lua_pushvalue(state, 1);
            ffi::lua_call(state, 0, 1);
            match ffi::lua_type(state, -1) {
                LUA_TNIL => break,
                LUA_TSTRING | LUA_TNUMBER if ffi::lua_objlen(state, -1) == 0 => break,
                LUA_TSTRING | LUA_TNUMBER => ffi::lua_concat(state, 2),
                _ => {
                    ffi::luaL_error(state, c"reader function must return a string".as_ptr());
                }
            }
        }
        ffi::lua_settop(state, 3);
        if ffi::lua_isnil(state, 2) != 0 {
            ffi::lua_pushlstring_(state, c"=(load)".as_ptr(), 7);
            ffi::lua_replace(state, 2);
        }
    }
    // SAFETY: nothing in this frame is owned.
    unsafe { enter_loaded(state) }
}

/// Compiles the third value on the stack, under the name that is the second.
unsafe fn enter_loaded(state: *mut lua_State) -> c_int {
    let compile = |stack: Stack| {
        let text = stack.check_bytes(3)?;
        let name = stack.check_bytes(2)?;
        load_text(stack, text, name)
    };
    // SAFETY: as for whatever the interpreter calls.
    unsafe { run(state, compile) }
}
