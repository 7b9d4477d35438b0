//! Memory that library functions use. No allocation fails while one of them runs (`vm.rs` says
//! why), so each calls [`Stack::make_room`] before it takes more than a little, and [`Scratch`]
//! memory outside of the interpreter is counted too.

use crate::interrupt::{HASHED_WHOLE, STRING_STEPS, count_work};
use crate::lists::growth_max;
use crate::vm::{LUA_REGISTRYINDEX, NOT_ENOUGH_MEMORY, Raise, Stack};
use std::ffi::c_int;
use std::ops::Deref;

/// Bytes of a string beside its text.
const STRING_BYTES: usize = 32;

/// Bytes of a function's scratch memory at first.
const SCRATCH_MIN: usize = 64;

/// Steps counted for a `set` that may run out of memory.
const CAREFUL_STEPS: usize = 8;

const FULL: Raise = Raise::Plain(std::borrow::Cow::Borrowed(NOT_ENOUGH_MEMORY));

impl Stack {
    /// Makes sure that this many more bytes may be in use, if need be by collecting garbage.
    ///
    /// # Errors
    /// If they may not, or the script is to end.
    #[inline]
    pub fn make_room(self, bytes: usize) -> Result<(), Raise> {
        if self.with(|extra| extra.memory.fits(bytes)) { Ok(()) } else { self.clear_room(bytes) }
    }

    #[cold]
    fn clear_room(self, bytes: usize) -> Result<(), Raise> {
        // All values are looked at.
        let used = self.with(|extra| extra.memory.used);
        count_work(self, used / 64)?;
        self.collect();
        if self.with(|extra| extra.memory.fits(bytes)) { Ok(()) } else { Err(FULL) }
    }

    /// Pushes a text of any length.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    #[inline]
    pub fn push_text(self, text: &[u8]) -> Result<(), Raise> {
        if text.len() >= HASHED_WHOLE {
            count_work(self, STRING_STEPS)?;
        }
        self.make_room(text.len().saturating_add(STRING_BYTES))?;
        self.push_bytes(text);
        Ok(())
    }

    /// [`Stack::raw_set`] for a table of any size, which may have to grow by as much as it has.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    #[inline]
    pub fn set(self, index: c_int) -> Result<(), Raise> {
        if !self.may_grow(index) {
            count_work(self, CAREFUL_STEPS)?;
        }
        self.set_at_once(index)
    }

    /// [`Stack::raw_set_index`] in the same way.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    #[inline]
    pub fn set_index(self, index: c_int, n: c_int) -> Result<(), Raise> {
        if !self.may_grow(index) {
            count_work(self, CAREFUL_STEPS)?;
        }
        self.set_index_at_once(index, n)
    }

    /// Like [`Stack::set`], but does not check whether the script is to end, for use within a
    /// command.
    ///
    /// # Errors
    /// If there is no memory for it.
    #[inline]
    pub fn set_at_once(self, index: c_int) -> Result<(), Raise> {
        if self.may_grow(index) {
            self.raw_set(index);
            return Ok(());
        }
        self.set_carefully(index)
    }

    /// [`Stack::set_index`] in the same way.
    ///
    /// # Errors
    /// As [`Stack::set_at_once`].
    #[inline]
    pub fn set_index_at_once(self, index: c_int, n: c_int) -> Result<(), Raise> {
        if self.may_grow(index) {
            self.raw_set_index(index, n);
            return Ok(());
        }
        let index = self.absolute(index);
        self.push_number(f64::from(n));
        self.insert(-2);
        self.set_carefully(index)
    }

    /// Whether there is room for all that a table may need for one more key.
    #[inline]
    fn may_grow(self, index: c_int) -> bool {
        let growth = growth_max(self, index);
        self.with(|extra| extra.memory.fits(growth))
    }

    /// Lets the allocations fail of which the table may need one.
    #[cold]
    fn set_carefully(self, index: c_int) -> Result<(), Raise> {
        let index = self.absolute(index);
        if !self.reserve(4) {
            return Err(Raise::fixed("stack overflow"));
        }
        if !self.try_set(index) {
            self.collect();
            if !self.try_set(index) {
                return Err(FULL);
            }
        }
        self.pop(2);
        Ok(())
    }

    /// Sets the key below the top to the value on top, which stay there; false if there is no
    /// memory for it.
    fn try_set(self, index: c_int) -> bool {
        let setter = self.with(|extra| extra.setter);
        self.raw_get_index(LUA_REGISTRYINDEX, setter);
        self.copy(index);
        self.copy(-4);
        self.copy(-4);
        let was = self.with(|extra| std::mem::replace(&mut extra.memory.lenient, false));
        let result = self.protected_call(3, 0, 0);
        self.with(|extra| extra.memory.lenient = was);
        if result.is_err() {
            self.pop(1);
        }
        result.is_ok()
    }
}

/// Sets a field of a table: its three arguments.
pub(crate) unsafe extern "C-unwind" fn setter(stack: Stack) -> c_int {
    stack.raw_set(1);
    0
}

/// Bytes that a function puts together, counted as memory of the script.
pub(crate) struct Scratch {
    stack: Stack,
    bytes: Vec<u8>,
}

impl Scratch {
    /// Without any.
    pub fn new(stack: Stack) -> Self {
        Scratch { stack, bytes: Vec::new() }
    }

    /// Makes room for this many more.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    #[inline]
    pub fn reserve(&mut self, more: usize) -> Result<(), Raise> {
        if more > self.bytes.capacity() - self.bytes.len() { self.grow(more) } else { Ok(()) }
    }

    #[inline(never)]
    fn grow(&mut self, more: usize) -> Result<(), Raise> {
        let (len, old) = (self.bytes.len(), self.bytes.capacity());
        let needed = len.saturating_add(more);
        self.stack.make_room(needed - old)?;
        let left = self.stack.with(|extra| extra.memory.left());
        let wanted = needed.max(old * 2).max(SCRATCH_MIN).min(old.saturating_add(left)).max(needed);
        self.bytes.reserve_exact(wanted - len);
        let grown = self.bytes.capacity() - old;
        self.stack.with(|extra| extra.memory.used += grown);
        Ok(())
    }

    /// Adds a byte.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    #[inline]
    pub fn push(&mut self, byte: u8) -> Result<(), Raise> {
        self.reserve(1)?;
        self.bytes.push(byte);
        Ok(())
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), Raise> {
        self.reserve(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds this many zeros.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    pub fn extend_zeros(&mut self, count: usize) -> Result<(), Raise> {
        self.reserve(count)?;
        self.bytes.resize(self.bytes.len() + count, 0);
        Ok(())
    }

    /// Adds the first this many bytes once more.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    pub fn repeat_first(&mut self, count: usize) -> Result<(), Raise> {
        self.reserve(count)?;
        self.bytes.extend_from_within(..count);
        Ok(())
    }

    /// Removes the contents and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Pushes the whole as a value.
    ///
    /// # Errors
    /// As [`Stack::make_room`].
    pub fn push_value(&self) -> Result<(), Raise> {
        self.stack.push_text(&self.bytes)
    }
}

impl Deref for Scratch {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let bytes = self.bytes.capacity();
        self.stack.with(|extra| extra.memory.used -= bytes);
    }
}
