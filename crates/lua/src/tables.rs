//! Functions of the library `table` that would keep a script from being ended: `foreach` and the
//! like, which call a function for each element that may be none of the script's own and so counts
//! no instructions, and `insert`, which moves elements to any place, even one out of range.
//!
//! Functions that they call may raise an error: no frame here owns anything.

use crate::base;
use crate::interrupt::{Tally, count_work};
use crate::protected::is_protected;
use crate::vm::{self, LUA_TFUNCTION, LUA_TNIL, LUA_TTABLE, Raise, Stack, truncated};
use mlua_sys as ffi;
use std::ffi::c_int;

/// `table.foreach(t, f)`
pub(crate) unsafe extern "C-unwind" fn foreach(stack: Stack) -> c_int {
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    unsafe {
        vm::attempt(stack, check);
        stack.push_nil();
        while ffi::lua_next(stack.raw(), 1) != 0 {
            vm::attempt(stack, |stack| count_work(stack, 1));
            stack.copy(2);
            stack.copy(-3);
            stack.copy(-3);
            vm::call(stack, 2, 1);
            if stack.kind(-1) != LUA_TNIL {
                return 1;
            }
            stack.pop(2);
        }
    }
    0
}

/// `table.foreachi(t, f)`
pub(crate) unsafe extern "C-unwind" fn foreachi(stack: Stack) -> c_int {
    // SAFETY: as above.
    unsafe {
        vm::attempt(stack, check);
        for n in 1..=c_int::try_from(stack.len(1)).unwrap_or(c_int::MAX) {
            vm::attempt(stack, |stack| count_work(stack, 1));
            stack.copy(2);
            stack.push_number(f64::from(n));
            stack.raw_get_index(1, n);
            vm::call(stack, 2, 1);
            if stack.kind(-1) != LUA_TNIL {
                return 1;
            }
            stack.pop(1);
        }
    }
    0
}

fn check(stack: Stack) -> Result<(), Raise> {
    if stack.kind(1) != LUA_TTABLE {
        return Err(stack.type_error(1, "table"));
    }
    if stack.kind(2) != LUA_TFUNCTION {
        return Err(stack.type_error(2, "function"));
    }
    stack.set_top(2);
    Ok(())
}

/// `table.insert(t, [place,] value)`: Lua's own (the first upvalue), unless the place is before the
/// first one.
pub(crate) unsafe extern "C-unwind" fn insert(stack: Stack) -> c_int {
    // An `int` in Lua 5.1.
    let is_before = stack.top() == 3
        && stack.kind(1) == LUA_TTABLE
        && stack.is_number(2)
        && (truncated(stack.to_number(2)) as i32) < 1
        && !is_protected(stack, 1);
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    unsafe {
        if is_before { vm::run(stack, insert_before) } else { vm::call_after(stack, base::guarded) }
    }
}

/// Moves all elements, and as many places before them as there are from the one that is meant.
fn insert_before(stack: Stack) -> Result<c_int, Raise> {
    let place = truncated(stack.to_number(2)) as i32;
    let mut tally = Tally::new(stack);
    let len = c_int::try_from(stack.len(1)).unwrap_or(c_int::MAX - 1);
    for n in (i64::from(place) + 1..=i64::from(len) + 1).rev() {
        tally.step()?;
        stack.raw_get_index(1, (n - 1) as c_int);
        stack.set_index(1, n as c_int)?;
    }
    stack.set_index(1, place)?;
    Ok(0)
}
