//! The interpreter's C interface ([`crate::c_api`]), made safe to use. Beside it unsafe code is
//! where the interpreter is made and ended ([`crate::interpreter`], [`crate::memory`],
//! [`crate::extra`]), where a table's parts are looked at ([`crate::lists`]), where the processor's
//! time is read ([`crate::pace`]) and in functions that take the place of Lua's own:
//! [`crate::base`], [`crate::tables`], [`crate::sort`], [`crate::gsub`], [`crate::coroutine`],
//! [`crate::digits`].
//!
//! Lua raises errors by jumping over frames. No frame of ours that owns anything is ever jumped
//! over:
//!
//! * A function of ours returns its error, and the frame that raises it, [`enter`], owns nothing by
//!   then.
//! * While a function of ours runs, no allocation fails
//!   ([`Memory::lenient`](crate::memory::Memory)); the limit is looked at when it has returned.
//! * No method of [`Stack`] runs a script's code or a metamethod, except [`Stack::protected_call`],
//!   which catches errors.
//!
//! A caller that pushes makes room first: [`Stack::reserve`] beyond the 20 slots that every
//! function has.

use crate::c_api;
pub(crate) use crate::c_api::{Native, Stack};
use crate::extra::{Extra, Failure};
use crate::interrupt::count_work;
use crate::messages::in_dialect;
use mlua_sys as ffi;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

pub(crate) use ffi::{
    LUA_ERRMEM, LUA_GLOBALSINDEX, LUA_REGISTRYINDEX, LUA_TBOOLEAN, LUA_TFUNCTION,
    LUA_TLIGHTUSERDATA, LUA_TNIL, LUA_TNONE, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE,
};

/// Error of a library function.
#[derive(Debug)]
pub(crate) enum Raise {
    /// An error table as `redis.error_reply` makes it, with this text.
    Reply(Cow<'static, [u8]>),
    /// A message that begins with the place of the call.
    Located(Cow<'static, str>),
    /// A message alone.
    Plain(Cow<'static, str>),
    /// An argument, from 1, that is not as it should be.
    Argument(c_int, Cow<'static, str>),
    /// The value on top of the stack.
    Top,
}

impl Raise {
    /// A message, located, made for the occasion.
    pub fn new(text: String) -> Self {
        Raise::Located(Cow::Owned(text))
    }

    /// A message, located, known beforehand.
    pub const fn fixed(text: &'static str) -> Self {
        Raise::Located(Cow::Borrowed(text))
    }
}

/// Bytes of a script's own words that a message quotes, and of a chunk's name.
pub(crate) const SHOWN_MAX: usize = 1024;

/// A script's own words as a message quotes them.
pub(crate) fn shown(words: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&words[..words.len().min(SHOWN_MAX)])
}

/// Running functions among which the one is looked for that the script was in when it ended.
const FRAMES_MAX: c_int = 16;

/// Bytes of a text that are compiled between two counts.
const COMPILED_AT_ONCE: usize = 1024;

/// Error of a call that runs out of memory.
pub(crate) const NOT_ENOUGH_MEMORY: &str = "not enough memory";

/// Call frame of a running function.
pub(crate) struct Frame {
    /// The function's name in the call.
    pub name: Option<Vec<u8>>,
    /// Whether that names a method.
    pub is_method: bool,
    /// Whether it is not one of Lua.
    pub is_native: bool,
    /// Name of its chunk.
    pub source: Vec<u8>,
    /// The line that is being executed; -1 if there is none.
    pub line: c_int,
}

// What `Stack` stands for holds below: the state is alive, the indices are valid by construction of
// the callers, and the calls that may raise are reached with lenient memory or in a frame that owns
// nothing.
impl Stack {
    /// Returns the state outside of Lua's values ([`Extra`]).
    #[inline]
    pub fn extra(self) -> *mut Extra {
        let mut extra: *mut c_void = std::ptr::null_mut();
        // The user data of a state's allocator is the `Extra` that it was made with.
        c_api::lua_getallocf(self, &mut extra);
        extra.cast()
    }

    /// Works with what belongs to the interpreter. `work` calls nothing of the interpreter.
    #[inline]
    pub fn with<T>(self, work: impl FnOnce(&mut Extra) -> T) -> T {
        // SAFETY: the extra outlives the state; only this thread uses it, and `work` is the only
        // reference meanwhile.
        work(unsafe { &mut *self.extra() })
    }

    #[inline]
    pub fn top(self) -> c_int {
        c_api::lua_gettop(self)
    }

    #[inline]
    pub fn set_top(self, top: c_int) {
        c_api::lua_settop(self, top)
    }

    #[inline]
    pub fn pop(self, n: c_int) {
        self.set_top(-n - 1);
    }

    #[inline]
    pub fn copy(self, index: c_int) {
        c_api::lua_pushvalue(self, index)
    }

    pub fn remove(self, index: c_int) {
        c_api::lua_remove(self, index)
    }

    pub fn insert(self, index: c_int) {
        c_api::lua_insert(self, index)
    }

    pub fn replace(self, index: c_int) {
        c_api::lua_replace(self, index)
    }

    /// Makes room for `n` more values; false if there are too many already.
    #[inline]
    pub fn reserve(self, n: c_int) -> bool {
        c_api::lua_checkstack(self, n) != 0
    }

    #[inline]
    pub fn kind(self, index: c_int) -> c_int {
        c_api::lua_type(self, index)
    }

    /// Name of the type of a value.
    pub fn kind_name(self, index: c_int) -> &'static str {
        match self.kind(index) {
            LUA_TNIL => "nil",
            LUA_TBOOLEAN => "boolean",
            LUA_TNUMBER => "number",
            LUA_TSTRING => "string",
            LUA_TTABLE => "table",
            LUA_TFUNCTION => "function",
            ffi::LUA_TTHREAD => "thread",
            LUA_TNONE => "no value",
            _ => "userdata",
        }
    }

    #[inline]
    pub fn push_nil(self) {
        c_api::lua_pushnil(self)
    }

    #[inline]
    pub fn push_boolean(self, value: bool) {
        c_api::lua_pushboolean(self, c_int::from(value))
    }

    #[inline]
    pub fn push_number(self, value: f64) {
        c_api::lua_pushnumber(self, value)
    }

    #[inline]
    pub fn push_bytes(self, bytes: &[u8]) {
        // SAFETY: see above; the bytes are copied.
        unsafe { ffi::lua_pushlstring_(self.raw(), bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Pushes a null that tables may hold, unlike nil.
    pub fn push_null(self) {
        c_api::lua_pushlightuserdata(self, std::ptr::null_mut())
    }

    /// Whether a value is the null of [`Stack::push_null`].
    pub fn is_null(self, index: c_int) -> bool {
        self.kind(index) == LUA_TLIGHTUSERDATA && c_api::lua_touserdata(self, index).is_null()
    }

    /// Pushes a function of ours, which is known by its type alone.
    pub fn push_function<F>(self, function: F)
    where
        F: Fn(Stack) -> Result<c_int, Raise> + Copy + 'static,
    {
        const { assert!(size_of::<F>() == 0, "a function item, or a closure without captures") };
        let _ = function;
        c_api::lua_pushcclosure(self, enter::<F>, 0)
    }

    /// Pushes a function of ours with this many values from the top, which it finds as its
    /// upvalues.
    pub fn push_closure<F>(self, function: F, upvalues: c_int)
    where
        F: Fn(Stack) -> Result<c_int, Raise> + Copy + 'static,
    {
        const { assert!(size_of::<F>() == 0, "a function item, or a closure without captures") };
        let _ = function;
        c_api::lua_pushcclosure(self, enter::<F>, upvalues)
    }

    /// The index of an upvalue of the function that runs, from 1.
    pub fn upvalue(at: c_int) -> c_int {
        ffi::lua_upvalueindex(at)
    }

    /// Pushes a function that asks one of ours and then calls the function of the interpreter that
    /// is its first upvalue; it takes this many values from the top as its upvalues.
    pub fn push_before<F>(self, function: F, upvalues: c_int)
    where
        F: Fn(Stack) -> Before + Copy + 'static,
    {
        const { assert!(size_of::<F>() == 0, "a function item, or a closure without captures") };
        let _ = function;
        c_api::lua_pushcclosure(self, enter_upvalue::<F>, upvalues)
    }

    /// Pushes a function of the interpreter.
    pub fn push_native(self, function: Native, upvalues: c_int) {
        c_api::lua_pushcclosure(self, function, upvalues)
    }

    #[inline]
    pub fn to_number(self, index: c_int) -> f64 {
        c_api::lua_tonumber(self, index)
    }

    /// Whether a value is a number, or a text that reads as one.
    pub fn is_number(self, index: c_int) -> bool {
        c_api::lua_isnumber(self, index) != 0
    }

    #[inline]
    pub fn to_boolean(self, index: c_int) -> bool {
        c_api::lua_toboolean(self, index) != 0
    }

    /// The bytes of a string, or of a number, which becomes its text where it lies. They are there
    /// for as long as the value is on the stack or in a table; the caller keeps to it.
    #[inline]
    pub fn to_bytes<'a>(self, index: c_int) -> Option<&'a [u8]> {
        let mut len = 0;
        let text = c_api::lua_tolstring(self, index, &mut len);
        // SAFETY: `len` bytes are there for as long as the value is reachable.
        (!text.is_null()).then(|| unsafe { std::slice::from_raw_parts(text.cast(), len) })
    }

    /// An address that tells a table from others.
    #[inline]
    pub fn address(self, index: c_int) -> usize {
        c_api::lua_topointer(self, index) as usize
    }

    /// Elements of a table's array, or bytes of a string.
    pub fn len(self, index: c_int) -> usize {
        c_api::lua_objlen(self, index)
    }

    #[inline]
    pub fn new_table(self, elements: usize, fields: usize) {
        let clamp = |n: usize| n.min(1 << 20) as c_int;
        c_api::lua_createtable(self, clamp(elements), clamp(fields))
    }

    /// Replaces the key on top by its value in the table at `index`.
    #[inline]
    pub fn raw_get(self, index: c_int) {
        c_api::lua_rawget(self, index)
    }

    /// Pushes the value of a field.
    pub fn raw_get_field(self, index: c_int, name: &[u8]) -> c_int {
        let index = self.absolute(index);
        self.push_bytes(name);
        self.raw_get(index);
        self.kind(-1)
    }

    #[inline]
    pub fn raw_get_index(self, index: c_int, n: c_int) -> c_int {
        c_api::lua_rawgeti(self, index, n);
        self.kind(-1)
    }

    /// Sets, in the table at `index`, the key below the top to the value on top, and takes both.
    /// The key is neither nil nor no number: the caller sees to it.
    #[inline]
    pub fn raw_set(self, index: c_int) {
        c_api::lua_rawset(self, index)
    }

    /// Sets a field to the value on top, and takes it.
    pub fn raw_set_field(self, index: c_int, name: &[u8]) {
        let index = self.absolute(index);
        self.push_bytes(name);
        self.insert(-2);
        self.raw_set(index);
    }

    /// Sets an element to the value on top, and takes it.
    #[inline]
    pub fn raw_set_index(self, index: c_int, n: c_int) {
        c_api::lua_rawseti(self, index, n)
    }

    /// Replaces the key on top by the next key and its value; false at the end, when nothing is
    /// left. The key is nil or one that this gave, of a table that no key was added to since: the
    /// caller sees to it.
    pub fn next(self, index: c_int) -> bool {
        // SAFETY: at the index is a table, and it has the key, so that no error is raised.
        unsafe { c_api::lua_next(self, index) != 0 }
    }

    /// Gives the value at `index` the table on top as its metatable, and takes it.
    pub fn set_metatable(self, index: c_int) {
        c_api::lua_setmetatable(self, index);
    }

    /// Pushes the metatable; false, and nothing is pushed, if there is none.
    pub fn metatable(self, index: c_int) -> bool {
        c_api::lua_getmetatable(self, index) != 0
    }

    /// Replaces this many values on top, texts and numbers, by their text.
    pub fn concatenate(self, values: c_int) {
        // SAFETY: values that are texts and numbers run no script's code, and have a text.
        unsafe { c_api::lua_concat(self, values) }
    }

    /// The index from below.
    pub fn absolute(self, index: c_int) -> c_int {
        if index < 0 && index > LUA_REGISTRYINDEX { self.top() + index + 1 } else { index }
    }

    /// Keeps the value on top for later and takes it from the stack.
    pub fn keep(self) -> c_int {
        c_api::luaL_ref(self, LUA_REGISTRYINDEX)
    }

    /// Releases a registry reference.
    pub fn release(self, kept: c_int) {
        c_api::luaL_unref(self, LUA_REGISTRYINDEX, kept)
    }

    /// Compiles a text and pushes the function, or the message why not, which means nothing if the
    /// script is to end by then. No garbage is collected meanwhile: Lua 5.1's parser does not hold
    /// on to the name of the chunk. Allocations may fail: the interpreter catches that itself.
    pub fn load(self, text: &[u8], name: &CStr) -> bool {
        let was = self.with(|extra| std::mem::replace(&mut extra.memory.lenient, false));
        c_api::lua_gc(self, ffi::LUA_GCSTOP, 0);
        let mut rest = text;
        // SAFETY: see above; both texts and the rest of the first are there, and loading is
        // protected and returns.
        let status =
            unsafe { ffi::lua_load(self.raw(), next_piece, (&raw mut rest).cast(), name.as_ptr()) };
        c_api::lua_gc(self, ffi::LUA_GCRESTART, 0);
        self.with(|extra| extra.memory.lenient = was);
        status == 0
    }

    /// The bytecode of the function on top, which is one of Lua; none if it takes more than `max`
    /// bytes.
    pub fn dump(self, max: usize) -> Option<Vec<u8>> {
        let mut sink = (Vec::new(), max);
        let data: *mut (Vec<u8>, usize) = &mut sink;
        // SAFETY: `write_dump` is given the sink, which is there until the call returns. Nothing is
        // allocated in the interpreter, and no error is raised.
        let status = unsafe { ffi::lua_dump_(self.raw(), write_dump, data.cast()) };
        (status == 0).then_some(sink.0)
    }

    /// Whether the running script is to end.
    #[inline]
    pub fn ends(self) -> bool {
        self.with(|extra| extra.ends)
    }

    /// Calls a function with the arguments above it, and catches its errors: on `Err` (the status),
    /// the error is on top. `handler` is the index of the function that sees the error first, or 0.
    pub fn protected_call(self, args: c_int, results: c_int, handler: c_int) -> Result<(), c_int> {
        match c_api::lua_pcall(self, args, results, handler) {
            0 => Ok(()),
            status => Err(status),
        }
    }

    /// Collects garbage, all of it.
    pub fn collect(self) {
        c_api::lua_gc(self, ffi::LUA_GCCOLLECT, 0);
    }

    /// Resets garbage collection to Lua's defaults, which a script may have changed with
    /// `collectgarbage`.
    pub fn reset_collector(self) {
        for (setting, value) in
            [(ffi::LUA_GCSETPAUSE, 200), (ffi::LUA_GCSETSTEPMUL, 200), (ffi::LUA_GCRESTART, 0)]
        {
            c_api::lua_gc(self, setting, value);
        }
    }

    /// The coroutine at an index, which lives as long as it is there.
    pub fn coroutine(self, index: c_int) -> Option<Stack> {
        // SAFETY: a value that is no coroutine gives null; the caller keeps the coroutine
        // reachable.
        unsafe { c_api::lua_tothread(self, index) }
    }

    /// Pushes the place of the running function's call, as messages begin with it.
    pub fn push_place(self) {
        c_api::luaL_where(self, 1);
    }

    /// Whether a function is running.
    pub fn runs_function(self) -> bool {
        self.record(0).is_some()
    }

    /// Returns the interpreter's record of the function `level` calls below the running one.
    fn record(self, level: c_int) -> Option<ffi::lua_Debug> {
        // SAFETY: a record is plain data, null pointers included, and the interpreter fills it.
        unsafe {
            let mut record: ffi::lua_Debug = std::mem::zeroed();
            (ffi::lua_getstack(self.raw(), level, &mut record) != 0).then_some(record)
        }
    }

    /// The function that runs `level` calls below the running one.
    pub fn frame(self, level: c_int) -> Option<Frame> {
        let mut record = self.record(level)?;
        // SAFETY: the interpreter fills the record; its pointers are valid as long as the frame is.
        unsafe {
            ffi::lua_getinfo(self.raw(), c"Sln".as_ptr(), &mut record);
            let text = |text: *const c_char| (!text.is_null()).then(|| CStr::from_ptr(text));
            Some(Frame {
                name: text(record.name).map(|name| name.to_bytes().to_vec()),
                is_method: text(record.namewhat) == Some(c"method"),
                is_native: text(record.what) == Some(c"C"),
                source: text(record.source).unwrap_or_default().to_bytes().to_vec(),
                line: record.currentline,
            })
        }
    }

    /// Lets `hook` be called as often as it should by now, by this coroutine, or by the interpreter
    /// outside of any; before the next instruction if the script is to end.
    pub fn set_period(self) {
        let period = self.with(|extra| {
            extra.memory.period = if extra.ends { 1 } else { extra.memory.wanted_period() };
            extra.memory.period
        });
        c_api::lua_sethook(self, Some(hook), ffi::LUA_MASKCOUNT, period);
    }
}

/// Arguments of functions, with the errors of Lua's own libraries.
impl Stack {
    pub fn type_error(self, argument: c_int, expected: &str) -> Raise {
        let got =
            if self.kind(argument) == LUA_TNONE { "no value" } else { self.kind_name(argument) };
        Raise::Argument(argument, Cow::Owned(format!("{expected} expected, got {got}")))
    }

    pub fn check_number(self, argument: c_int) -> Result<f64, Raise> {
        if self.is_number(argument) {
            Ok(self.to_number(argument))
        } else {
            Err(self.type_error(argument, "number"))
        }
    }

    pub fn check_integer(self, argument: c_int) -> Result<i64, Raise> {
        self.check_number(argument).map(truncated)
    }

    /// Whether an outermost library function that has ended leaves more memory in use than allowed,
    /// after collecting garbage. `was` is true if another library function called it.
    #[inline]
    fn exceeds(self, was: bool) -> bool {
        self.with(|extra| !was && extra.memory.is_over()) && {
            self.collect();
            self.with(|extra| extra.memory.is_over())
        }
    }

    pub fn check_bytes<'a>(self, argument: c_int) -> Result<&'a [u8], Raise> {
        self.to_bytes(argument).ok_or_else(|| self.type_error(argument, "string"))
    }
}

/// A number as a C cast makes it an integer on x86-64.
#[inline]
pub(crate) fn truncated(number: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Entry point for the interpreter: runs a library function and raises its error.
unsafe extern "C-unwind" fn enter<F>(stack: Stack) -> c_int
where
    F: Fn(Stack) -> Result<c_int, Raise> + Copy + 'static,
{
    // SAFETY: the interpreter passes its state; `F` has no bytes, so any value of it is the one
    // there is.
    unsafe { run(stack, std::ptr::read(NonNull::<F>::dangling().as_ptr())) }
}

/// Decision before a function of the interpreter's own libraries is called.
pub(crate) enum Before {
    /// Nothing more.
    Call,
    /// These steps are counted.
    Count(usize),
    /// The function is not called.
    Refuse(&'static str),
}

/// Entry point for the interpreter: asks `F` for its decision, then calls the function in the first
/// upvalue.
unsafe extern "C-unwind" fn enter_upvalue<F>(stack: Stack) -> c_int
where
    F: Fn(Stack) -> Before + Copy + 'static,
{
    // SAFETY: as in `enter`.
    unsafe { call_after(stack, std::ptr::read(NonNull::<F>::dangling().as_ptr())) }
}

/// Does the necessary work before the function that is the first upvalue, and calls that.
///
/// # Safety
/// As for [`raise`].
pub(crate) unsafe fn call_after(stack: Stack, ask: impl Fn(Stack) -> Before) -> c_int {
    // SAFETY: nothing in this frame is owned, and the answer is plain data.
    unsafe {
        match ask(stack) {
            Before::Call => {}
            Before::Count(steps) => attempt(stack, |stack| count_work(stack, steps)),
            Before::Refuse(text) => attempt(stack, |_| Err(Raise::Plain(Cow::Borrowed(text)))),
        }
    }
    call_upvalue(stack)
}

/// Hands out the next piece of a text that is being compiled. The time that compiling takes may
/// grow with the square of the text's length: of a chain of `and`, for one.
unsafe extern "C-unwind" fn next_piece(
    state: *mut ffi::lua_State,
    rest: *mut c_void,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: the interpreter passes its state and what `load` gave it, which nothing else refers
    // to meanwhile; this frame owns nothing.
    unsafe {
        let stack = Stack::of(NonNull::new_unchecked(state));
        let rest = &mut *rest.cast::<&[u8]>();
        let (piece, after) = rest.split_at(rest.len().min(COMPILED_AT_ONCE));
        *rest = after;
        *len = piece.len();
        if count_work(stack, piece.len()).is_err() {
            end(stack);
        }
        piece.as_ptr().cast()
    }
}

/// Ends the script. Unlike what [`raise`] raises, this runs no error handler of the script, which
/// might never return: it is an allocation that fails, of which Lua tells no handler. Whatever
/// catches it is to look whether [the script ends](Stack::ends), and calls this again.
///
/// # Safety
/// As for [`raise`].
#[cold]
pub(crate) unsafe fn end(stack: Stack) -> ! {
    note_end(stack);
    loop {
        stack.with(|extra| extra.memory.refuses = true);
        c_api::lua_createtable(stack, 0, 0);
    }
}

/// Notes why the script ends, and where.
fn note_end(stack: Stack) {
    stack.with(|extra| extra.ends = true);
    if stack.with(|extra| extra.end.is_some()) {
        return;
    }
    let text = crate::extra::interrupted(stack).unwrap_or_default();
    let frames = (0..FRAMES_MAX).map_while(|level| stack.frame(level));
    let frame = { frames }.find(|frame| !frame.is_native);
    let place = frame.map(|frame| (frame.source, frame.line));
    let failure = Failure { text: format!("ERR {text}").into(), place, is_counted: false };
    stack.with(|extra| extra.end = Some(failure));
}

/// Raises the value on top as an error.
///
/// # Safety
/// No frame up to the one that catches it owns anything.
pub(crate) unsafe fn raise(stack: Stack) -> ! {
    // SAFETY: the state is alive.
    unsafe { ffi::lua_error(stack.raw()) }
}

/// Calls a function with the arguments above it, which may be a script's and raise errors.
///
/// # Safety
/// As for [`raise`].
#[inline]
pub(crate) unsafe fn call(stack: Stack, args: c_int, results: c_int) {
    // SAFETY: the state is alive.
    unsafe { ffi::lua_call(stack.raw(), args, results) }
}

/// Runs a function of ours and raises its error.
///
/// # Safety
/// As for [`raise`].
#[inline]
pub(crate) unsafe fn run(
    stack: Stack,
    function: impl Fn(Stack) -> Result<c_int, Raise> + Copy,
) -> c_int {
    let was = stack.with(|extra| std::mem::replace(&mut extra.memory.lenient, true));
    let pushed = match function(stack) {
        Ok(results) => results,
        Err(raise) => {
            push_error(stack, raise);
            -1
        }
    };
    let over = stack.exceeds(was);
    if over {
        stack.set_top(0);
        stack.push_bytes(NOT_ENOUGH_MEMORY.as_bytes());
    }
    let ends = stack.with(|extra| {
        extra.memory.lenient = was;
        extra.ends
    });
    if !over && !ends && pushed >= 0 {
        return pushed;
    }
    // SAFETY: nothing in this frame is owned.
    unsafe { if ends { end(stack) } else { raise(stack) } }
}

/// Runs one part of a function that has to run scripts' code between its parts.
///
/// # Safety
/// As for [`raise`].
pub(crate) unsafe fn attempt<T: Copy>(
    stack: Stack,
    part: impl FnOnce(Stack) -> Result<T, Raise>,
) -> T {
    let was = stack.with(|extra| std::mem::replace(&mut extra.memory.lenient, true));
    let result = part(stack).map_err(|raise| push_error(stack, raise));
    let over = stack.exceeds(was);
    if over && result.is_ok() {
        stack.push_bytes(NOT_ENOUGH_MEMORY.as_bytes());
    }
    let ends = stack.with(|extra| {
        extra.memory.lenient = was;
        extra.ends
    });
    if let Ok(value) = result
        && !over
        && !ends
    {
        return value;
    }
    // SAFETY: nothing in this frame is owned: `T` and the unit are plain data.
    unsafe { if ends { end(stack) } else { raise(stack) } }
}

fn push_error(stack: Stack, raise: Raise) {
    if !stack.reserve(8) {
        stack.set_top(0);
    }
    match raise {
        Raise::Reply(text) => push_reply_error(stack, false, &text),
        Raise::Plain(text) => stack.push_bytes(text.as_bytes()),
        Raise::Located(text) => push_located(stack, text.as_bytes()),
        Raise::Argument(argument, text) => {
            push_located(stack, &argument_error(stack, argument, &text))
        }
        Raise::Top => {}
    }
}

/// Pushes an error as a table with the text as `err`; that of a command is marked, since it has
/// been counted.
pub(crate) fn push_reply_error(stack: Stack, is_counted: bool, text: &[u8]) {
    stack.new_table(0, 2);
    if is_counted {
        stack.push_bytes(text);
    } else {
        let dialect = stack.with(|extra| extra.dialect);
        stack.push_bytes(&in_dialect(dialect, text));
    }
    stack.raw_set_field(-2, b"err");
    if is_counted {
        stack.push_boolean(true);
        stack.raw_set_field(-2, b"ignore_error_stats_update");
    }
}

fn push_located(stack: Stack, text: &[u8]) {
    stack.push_place();
    let place = stack.to_bytes(-1).unwrap_or_default();
    let whole = [place, text].concat();
    stack.pop(1);
    stack.push_bytes(&whole);
}

/// Formats Lua's message for a bad argument, with the name by which the function was called.
fn argument_error(stack: Stack, argument: c_int, text: &str) -> Vec<u8> {
    let Some(frame) = stack.frame(0) else {
        return format!("bad argument #{argument} ({text})").into_bytes();
    };
    let name = String::from_utf8_lossy(frame.name.as_deref().unwrap_or(b"?"));
    match (frame.is_method, argument - 1) {
        (true, 0) => format!("calling '{name}' on bad self ({text})"),
        (true, argument) => format!("bad argument #{argument} to '{name}' ({text})"),
        (false, _) => format!("bad argument #{argument} to '{name}' ({text})"),
    }
    .into_bytes()
}

/// Takes a piece of the bytecode of a function; anything but 0 ends the dump.
unsafe extern "C-unwind" fn write_dump(
    _: *mut ffi::lua_State,
    piece: *const c_void,
    len: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: it is the sink of `Stack::dump`, to which there is no other reference meanwhile.
    let (bytes, max) = unsafe { &mut *data.cast::<(Vec<u8>, usize)>() };
    if len > max.saturating_sub(bytes.len()) {
        return 1;
    }
    if len > 0 {
        // SAFETY: that many bytes are there.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.cast(), len) });
    }
    0
}

/// Hook called after each period of instructions: lets the server do pending work, or ends the
/// script.
unsafe extern "C-unwind" fn hook(stack: Stack, _: *mut ffi::lua_Debug) {
    let goes_on = crate::interrupt::look(stack);
    stack.set_period();
    if !goes_on {
        // SAFETY: nothing in this frame is owned.
        unsafe { end(stack) };
    }
}

/// Calls the function that is the first upvalue of the running one, with its arguments.
pub(crate) fn call_upvalue(stack: Stack) -> c_int {
    let Some(function) = c_api::lua_tocfunction(stack, Stack::upvalue(1)) else { return 0 };
    // SAFETY: the closures that call this were made with a C function as their first upvalue; that
    // function uses no upvalues itself, and its errors jump over frames that own nothing.
    unsafe { function(stack) }
}
