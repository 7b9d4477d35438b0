//! The owner of a state.

use crate::extra::Extra;
use crate::vm::Stack;
use mlua_sys as ffi;
use std::ptr::NonNull;

/// A state with what belongs to it, closed when dropped.
pub(crate) struct Interpreter {
    stack: Stack,
    extra: NonNull<Extra>,
}

// SAFETY: a state belongs to no thread in particular, nor does what belongs to it while no script
// runs; both are used through this owner alone, and so by one thread at a time.
unsafe impl Send for Interpreter {}

impl Interpreter {
    /// A new state without libraries; none if there is no memory for it.
    pub fn new(extra: Extra) -> Option<Self> {
        let extra = Box::into_raw(Box::new(extra));
        // SAFETY: the allocator is made for this user data, which outlives the state. The state is
        // alive for as long as this is, and the holder of a stack has borrowed the interpreter.
        let stack = unsafe {
            let state = ffi::lua_newstate(crate::allocator::allocate, extra.cast());
            Stack::of(NonNull::new(state)?)
        };
        Some(Interpreter { stack, extra: NonNull::new(extra)? })
    }

    /// The state's stack.
    #[inline]
    pub fn stack(&self) -> Stack {
        self.stack
    }

    /// Like [`Stack::with`], without asking the interpreter for the place of the extra.
    #[inline]
    pub fn with<T>(&self, work: impl FnOnce(&mut Extra) -> T) -> T {
        // SAFETY: as in `Stack::with`; this owns the extra.
        work(unsafe { &mut *self.extra.as_ptr() })
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // SAFETY: this owns both; the state, which uses the other, goes first.
        unsafe {
            ffi::lua_close(self.stack.raw());
            drop(Box::from_raw(self.extra.as_ptr()));
        }
    }
}
