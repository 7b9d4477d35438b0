//! The functions of the interpreter's C interface that any holder of a live state may call, as they
//! are linked: their proof obligations stand here, once, and not at each call.
//!
//! A [`Stack`] stands for a live state, and these functions accept no other pointer to one.
//! [`crate::vm`] and its callers guarantee the rest: an index belongs to the running function or
//! its upvalues, the stack has space for each push, an index that must hold a table holds one, and
//! allocations are lenient or no frame above owns anything. Functions declared `safe` run a
//! script's code protected or not at all, and raise errors only for arguments that [`crate::vm`]
//! and its callers exclude. Functions that read memory through a pointer, or need more than this,
//! are unsafe: each call says why it holds.

use mlua_sys::{lua_Debug, lua_State};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

/// A state of the interpreter, as the function that it calls sees it. Valid while the call lasts.
#[derive(Clone, Copy, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct Stack(NonNull<lua_State>);

impl Stack {
    /// A state as the function that it calls sees it.
    ///
    /// # Safety
    /// It is alive, and the stack is not used for longer than it is.
    #[inline]
    pub unsafe fn of(state: NonNull<lua_State>) -> Self {
        Stack(state)
    }

    #[inline]
    pub fn raw(self) -> *mut lua_State {
        self.0.as_ptr()
    }
}

/// A function that the interpreter calls, with its state: it returns how many values of the top are
/// its results.
pub(crate) type Native = unsafe extern "C-unwind" fn(stack: Stack) -> c_int;

/// Hook that the interpreter calls after a number of instructions.
pub(crate) type Hook = unsafe extern "C-unwind" fn(stack: Stack, record: *mut lua_Debug);

// SAFETY: the declarations are those of Lua 5.1's lua.h, lauxlib.h and lualib.h, with `Stack` in
// place of the pointer to a state, which is never null; the module's comment has the other
// conditions.
unsafe extern "C-unwind" {
    pub(crate) safe fn lua_gettop(stack: Stack) -> c_int;
    pub(crate) safe fn lua_settop(stack: Stack, top: c_int);
    pub(crate) safe fn lua_pushvalue(stack: Stack, index: c_int);
    pub(crate) safe fn lua_remove(stack: Stack, index: c_int);
    pub(crate) safe fn lua_insert(stack: Stack, index: c_int);
    pub(crate) safe fn lua_replace(stack: Stack, index: c_int);
    pub(crate) safe fn lua_checkstack(stack: Stack, slots: c_int) -> c_int;
    pub(crate) safe fn lua_xmove(from: Stack, to: Stack, values: c_int);

    pub(crate) safe fn lua_type(stack: Stack, index: c_int) -> c_int;
    pub(crate) safe fn lua_isnumber(stack: Stack, index: c_int) -> c_int;
    pub(crate) safe fn lua_tonumber(stack: Stack, index: c_int) -> f64;
    pub(crate) safe fn lua_toboolean(stack: Stack, index: c_int) -> c_int;
    pub(crate) safe fn lua_tolstring(stack: Stack, index: c_int, len: &mut usize) -> *const c_char;
    pub(crate) safe fn lua_touserdata(stack: Stack, index: c_int) -> *mut c_void;
    pub(crate) safe fn lua_topointer(stack: Stack, index: c_int) -> *const c_void;
    /// The coroutine at an index, which lives as long as it is there.
    pub(crate) fn lua_tothread(stack: Stack, index: c_int) -> Option<Stack>;
    pub(crate) safe fn lua_tocfunction(stack: Stack, index: c_int) -> Option<Native>;
    pub(crate) safe fn lua_objlen(stack: Stack, index: c_int) -> usize;

    pub(crate) safe fn lua_pushnil(stack: Stack);
    pub(crate) safe fn lua_pushnumber(stack: Stack, number: f64);
    pub(crate) safe fn lua_pushboolean(stack: Stack, value: c_int);
    pub(crate) safe fn lua_pushlightuserdata(stack: Stack, pointer: *mut c_void);
    pub(crate) safe fn lua_pushcclosure(stack: Stack, function: Native, upvalues: c_int);

    pub(crate) safe fn lua_createtable(stack: Stack, elements: c_int, fields: c_int);
    pub(crate) safe fn lua_rawget(stack: Stack, index: c_int);
    pub(crate) safe fn lua_rawgeti(stack: Stack, index: c_int, at: c_int);
    pub(crate) safe fn lua_rawset(stack: Stack, index: c_int);
    pub(crate) safe fn lua_rawseti(stack: Stack, index: c_int, at: c_int);
    pub(crate) fn lua_next(stack: Stack, index: c_int) -> c_int;
    pub(crate) safe fn lua_getmetatable(stack: Stack, index: c_int) -> c_int;
    pub(crate) safe fn lua_setmetatable(stack: Stack, index: c_int) -> c_int;
    pub(crate) fn lua_concat(stack: Stack, values: c_int);

    /// Calls a function and catches its errors.
    pub(crate) safe fn lua_pcall(
        stack: Stack,
        args: c_int,
        results: c_int,
        handler: c_int,
    ) -> c_int;
    /// Runs a coroutine, which catches its errors.
    pub(crate) safe fn lua_resume(stack: Stack, args: c_int) -> c_int;
    pub(crate) safe fn lua_status(stack: Stack) -> c_int;
    /// Lets calls of the interpreter within `to` count as nested in those of `from`.
    pub(crate) safe fn lua_setlevel(from: Stack, to: Stack);
    pub(crate) safe fn lua_gc(stack: Stack, what: c_int, data: c_int) -> c_int;
    pub(crate) safe fn lua_getallocf(
        stack: Stack,
        data: &mut *mut c_void,
    ) -> unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize) -> *mut c_void;
    pub(crate) safe fn lua_sethook(
        stack: Stack,
        hook: Option<Hook>,
        mask: c_int,
        count: c_int,
    ) -> c_int;

    pub(crate) safe fn luaL_where(stack: Stack, level: c_int);
    pub(crate) safe fn luaL_ref(stack: Stack, table: c_int) -> c_int;
    pub(crate) safe fn luaL_unref(stack: Stack, table: c_int, kept: c_int);

    pub(crate) fn luaopen_base(stack: Stack) -> c_int;
    pub(crate) fn luaopen_table(stack: Stack) -> c_int;
    pub(crate) fn luaopen_string(stack: Stack) -> c_int;
    pub(crate) fn luaopen_math(stack: Stack) -> c_int;
    pub(crate) fn luaopen_os(stack: Stack) -> c_int;
}
