//! The owner of a state.

use crate::extra::Extra;
use crate::vm::Stack;
use mlua_sys as ffi;
use mlua_sys::lua_State;
use std::ptr::NonNull;

/// A state with what belongs to it, closed when dropped.
pub(crate) struct Interpreter {
    state: NonNull<lua_State>,
    extra: NonNull<Extra>,
}

// SAFETY: a state belongs to no thread in particular, nor does what belongs to it while no script
// runs; both are used through this owner alone, and so by one thread at a time.
unsafe impl Send for Interpreter {}

impl Interpreter {
    /// A new state without libraries; none if there is no memory for it.
    pub fn new(extra: Extra) -> Option<Self> {
        let extra = Box::into_raw(Box::new(extra));
        // SAFETY: the allocator is made for this user data, which outlives the state.
        let state = unsafe { ffi::lua_newstate(crate::allocator::allocate, extra.cast()) };
        let extra = NonNull::new(extra)?;
        Some(Interpreter { state: NonNull::new(state)?, extra })
    }

    /// The state's stack.
    #[inline]
    pub fn stack(&self) -> Stack {
        // SAFETY: the state is alive for as long as this is, and the holder of a stack has borrowed
        // the interpreter.
        unsafe { Stack::of(self.state) }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // SAFETY: this owns both; the state, which uses the other, goes first.
        unsafe {
            ffi::lua_close(self.state.as_ptr());
            drop(Box::from_raw(self.extra.as_ptr()));
        }
    }
}
