//! Tables that scripts may not change, and what stands for them.

use crate::vm::{LUA_GLOBALSINDEX, Stack};
use std::ffi::c_int;

pub(crate) const READONLY: &str = "Attempt to modify a readonly table";

/// Whether the value at `index` stands for a table that scripts may not change.
pub(crate) fn is_protected(stack: Stack, index: c_int) -> bool {
    // Most tables have no metatable, let alone one of ours.
    if !stack.metatable(index) {
        return false;
    }
    stack.pop(1);
    let address = stack.address(index);
    stack.with(|extra| extra.protected.contains(&address))
}

/// Pushes the table that the protected one at `index` stands for.
pub(crate) fn push_behind(stack: Stack, index: c_int) {
    if stack.metatable(index) {
        stack.raw_get_field(-1, b"__index");
        stack.remove(-2);
    } else {
        stack.push_nil();
    }
}

/// The table of globals is what stands for it from now on.
pub(crate) fn set_globals(stack: Stack) {
    stack.replace(LUA_GLOBALSINDEX);
}
