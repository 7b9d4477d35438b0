//! The interpreter's C interface, made safe to use. Beside it unsafe code is where the interpreter
//! is made and ended ([`crate::interpreter`], [`crate::memory`], [`crate::extra`]), where a table's
//! parts are looked at ([`crate::lists`]) and in functions that take the place of Lua's own:
//! [`crate::base`], [`crate::sort`], [`crate::gsub`], [`crate::coroutine`], [`crate::digits`].
//!
//! Lua raises errors by jumping over frames. No frame of ours that owns anything is ever jumped
//! over:
//!
//! * A function of ours returns its error, and the frame that raises it, [`enter`], owns nothing by
//!   then.
//! * While a function of ours runs, no allocation fails
//!   ([`Memory::lenient`](crate::memory::Memory)); the limit is looked at when it has returned.
//! * [`Stack`] has no method that runs a script's code or a metamethod, but for
//!   [`Stack::protected_call`], which catches.
//!
//! A caller that pushes makes room first: [`Stack::reserve`] beyond the 20 slots that every
//! function has.

use crate::extra::Extra;
use crate::words::in_words_of;
use mlua_sys as ffi;
use std::borrow::Cow;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

pub(crate) use ffi::{
    LUA_ERRMEM, LUA_GLOBALSINDEX, LUA_REGISTRYINDEX, LUA_TBOOLEAN, LUA_TFUNCTION,
    LUA_TLIGHTUSERDATA, LUA_TNIL, LUA_TNONE, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, lua_State,
};

/// A state of the interpreter, as the function that it calls sees it. Valid while the call lasts.
#[derive(Clone, Copy)]
pub(crate) struct Stack(NonNull<lua_State>);

/// Why a function of a library fails.
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

/// What a failed call leaves as its error.
pub(crate) const NOT_ENOUGH_MEMORY: &str = "not enough memory";

/// One running function.
pub(crate) struct Frame {
    /// Whether it is not one of Lua.
    pub is_native: bool,
    /// Name of its chunk.
    pub source: Vec<u8>,
    /// The line that is being executed; -1 if there is none.
    pub line: c_int,
}

// Every `unsafe` below holds by what `Stack` stands for: the state is alive, the indices are valid
// by construction of the callers, and the calls that may raise are reached with lenient memory or
// in a frame that owns nothing.
impl Stack {
    #[inline]
    pub fn raw(self) -> *mut lua_State {
        self.0.as_ptr()
    }

    /// What belongs to the interpreter beside its values.
    #[inline]
    pub fn extra(self) -> *mut Extra {
        let mut extra: *mut c_void = std::ptr::null_mut();
        // SAFETY: the state is alive; the user data of its allocator is the `Extra` that it was
        // made with.
        unsafe { ffi::lua_getallocf(self.raw(), &mut extra) };
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
        // SAFETY: see above.
        unsafe { ffi::lua_gettop(self.raw()) }
    }

    #[inline]
    pub fn set_top(self, top: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_settop(self.raw(), top) }
    }

    #[inline]
    pub fn pop(self, n: c_int) {
        self.set_top(-n - 1);
    }

    #[inline]
    pub fn copy(self, index: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_pushvalue(self.raw(), index) }
    }

    pub fn remove(self, index: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_remove(self.raw(), index) }
    }

    pub fn insert(self, index: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_insert(self.raw(), index) }
    }

    pub fn replace(self, index: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_replace(self.raw(), index) }
    }

    /// Makes room for `n` more values; false if there are too many already.
    #[inline]
    pub fn reserve(self, n: c_int) -> bool {
        // SAFETY: see above.
        unsafe { ffi::lua_checkstack(self.raw(), n) != 0 }
    }

    #[inline]
    pub fn kind(self, index: c_int) -> c_int {
        // SAFETY: see above.
        unsafe { ffi::lua_type(self.raw(), index) }
    }

    /// Name of the type of a value.
    pub fn kind_name(self, index: c_int) -> &'static str {
        // SAFETY: see above; the names are constants of the interpreter, in ASCII.
        let name = unsafe { CStr::from_ptr(ffi::lua_typename(self.raw(), self.kind(index))) };
        name.to_str().unwrap_or_default()
    }

    #[inline]
    pub fn push_nil(self) {
        // SAFETY: see above.
        unsafe { ffi::lua_pushnil(self.raw()) }
    }

    #[inline]
    pub fn push_boolean(self, value: bool) {
        // SAFETY: see above.
        unsafe { ffi::lua_pushboolean(self.raw(), c_int::from(value)) }
    }

    #[inline]
    pub fn push_number(self, value: f64) {
        // SAFETY: see above.
        unsafe { ffi::lua_pushnumber(self.raw(), value) }
    }

    #[inline]
    pub fn push_bytes(self, bytes: &[u8]) {
        // SAFETY: see above; the bytes are copied.
        unsafe { ffi::lua_pushlstring_(self.raw(), bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Pushes a null that tables may hold, unlike nil.
    pub fn push_null(self) {
        // SAFETY: see above.
        unsafe { ffi::lua_pushlightuserdata(self.raw(), std::ptr::null_mut()) }
    }

    /// Whether a value is the null of [`Stack::push_null`].
    pub fn is_null(self, index: c_int) -> bool {
        // SAFETY: see above.
        self.kind(index) == LUA_TLIGHTUSERDATA
            && unsafe { ffi::lua_touserdata(self.raw(), index) }.is_null()
    }

    /// Pushes a function of ours, which is known by its type alone.
    pub fn push_function<F>(self, function: F)
    where
        F: Fn(Stack) -> Result<c_int, Raise> + Copy + 'static,
    {
        const { assert!(size_of::<F>() == 0, "a function item, or a closure without captures") };
        let _ = function;
        // SAFETY: see above.
        unsafe { ffi::lua_pushcclosure(self.raw(), enter::<F>, 0) }
    }

    /// Pushes a function of ours with this many values from the top, which it finds as its
    /// upvalues.
    pub fn push_closure<F>(self, function: F, upvalues: c_int)
    where
        F: Fn(Stack) -> Result<c_int, Raise> + Copy + 'static,
    {
        const { assert!(size_of::<F>() == 0, "a function item, or a closure without captures") };
        let _ = function;
        // SAFETY: see above.
        unsafe { ffi::lua_pushcclosure(self.raw(), enter::<F>, upvalues) }
    }

    /// The index of an upvalue of the function that runs, from 1.
    pub fn upvalue(at: c_int) -> c_int {
        ffi::lua_upvalueindex(at)
    }

    /// Pushes a function of the interpreter.
    pub fn push_native(self, function: ffi::lua_CFunction, upvalues: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_pushcclosure(self.raw(), function, upvalues) }
    }

    #[inline]
    pub fn to_number(self, index: c_int) -> f64 {
        // SAFETY: see above.
        unsafe { ffi::lua_tonumber(self.raw(), index) }
    }

    /// Whether a value is a number, or a text that reads as one.
    pub fn is_number(self, index: c_int) -> bool {
        // SAFETY: see above.
        unsafe { ffi::lua_isnumber(self.raw(), index) != 0 }
    }

    #[inline]
    pub fn to_boolean(self, index: c_int) -> bool {
        // SAFETY: see above.
        unsafe { ffi::lua_toboolean(self.raw(), index) != 0 }
    }

    /// The bytes of a string, or of a number, which becomes its text where it lies. They are there
    /// for as long as the value is on the stack or in a table; the caller keeps to it.
    #[inline]
    pub fn to_bytes<'a>(self, index: c_int) -> Option<&'a [u8]> {
        let mut len = 0;
        // SAFETY: see above; the text lives as long as the value is reachable.
        unsafe {
            let text = ffi::lua_tolstring(self.raw(), index, &mut len);
            if text.is_null() { None } else { Some(std::slice::from_raw_parts(text.cast(), len)) }
        }
    }

    /// An address that tells a table from others.
    #[inline]
    pub fn address(self, index: c_int) -> usize {
        // SAFETY: see above.
        unsafe { ffi::lua_topointer(self.raw(), index) as usize }
    }

    /// Elements of a table's array, or bytes of a string.
    pub fn len(self, index: c_int) -> usize {
        // SAFETY: see above.
        unsafe { ffi::lua_objlen(self.raw(), index) }
    }

    #[inline]
    pub fn new_table(self, elements: usize, fields: usize) {
        let clamp = |n: usize| n.min(1 << 20) as c_int;
        // SAFETY: see above.
        unsafe { ffi::lua_createtable(self.raw(), clamp(elements), clamp(fields)) }
    }

    /// Replaces the key on top by its value in the table at `index`.
    #[inline]
    pub fn raw_get(self, index: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_rawget_(self.raw(), index) }
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
        // SAFETY: see above.
        unsafe { ffi::lua_rawgeti_(self.raw(), index, n) };
        self.kind(-1)
    }

    /// Sets, in the table at `index`, the key below the top to the value on top, and takes both.
    /// The key is neither nil nor no number: the caller sees to it.
    #[inline]
    pub fn raw_set(self, index: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_rawset(self.raw(), index) }
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
        // SAFETY: see above.
        unsafe { ffi::lua_rawseti_(self.raw(), index, n) }
    }

    /// Replaces the key on top by the next key and its value; false at the end, when nothing is
    /// left.
    pub fn next(self, index: c_int) -> bool {
        // SAFETY: see above; callers pass a key that the table has, or nil.
        unsafe { ffi::lua_next(self.raw(), index) != 0 }
    }

    /// Gives the value at `index` the table on top as its metatable, and takes it.
    pub fn set_metatable(self, index: c_int) {
        // SAFETY: see above.
        unsafe { ffi::lua_setmetatable(self.raw(), index) };
    }

    /// Pushes the metatable; false, and nothing is pushed, if there is none.
    pub fn metatable(self, index: c_int) -> bool {
        // SAFETY: see above.
        unsafe { ffi::lua_getmetatable(self.raw(), index) != 0 }
    }

    /// The index from below.
    pub fn absolute(self, index: c_int) -> c_int {
        if index < 0 && index > LUA_REGISTRYINDEX { self.top() + index + 1 } else { index }
    }

    /// Keeps the value on top for later and takes it from the stack.
    pub fn keep(self) -> c_int {
        // SAFETY: see above.
        unsafe { ffi::luaL_ref(self.raw(), LUA_REGISTRYINDEX) }
    }

    /// Forgets what was kept.
    pub fn release(self, kept: c_int) {
        // SAFETY: see above.
        unsafe { ffi::luaL_unref(self.raw(), LUA_REGISTRYINDEX, kept) }
    }

    /// Compiles a text and pushes the function, or the message why not. No garbage is collected
    /// meanwhile: Lua 5.1's parser does not hold on to the name of the chunk. Allocations may
    /// fail: the interpreter catches that itself.
    pub fn load(self, text: &[u8], name: &CStr) -> bool {
        let was = self.with(|extra| std::mem::replace(&mut extra.memory.lenient, false));
        // SAFETY: see above; loading is protected and returns.
        let status = unsafe {
            ffi::lua_gc(self.raw(), ffi::LUA_GCSTOP, 0);
            let status =
                ffi::luaL_loadbuffer(self.raw(), text.as_ptr().cast(), text.len(), name.as_ptr());
            ffi::lua_gc(self.raw(), ffi::LUA_GCRESTART, 0);
            status
        };
        self.with(|extra| extra.memory.lenient = was);
        status == 0
    }

    /// Calls a function with the arguments above it, and catches what it raises: `Err` has the
    /// status then, and the error is on top. `handler` is the index of the function that sees
    /// the error first, or 0.
    pub fn protected_call(self, args: c_int, results: c_int, handler: c_int) -> Result<(), c_int> {
        // SAFETY: see above.
        match unsafe { ffi::lua_pcall(self.raw(), args, results, handler) } {
            0 => Ok(()),
            status => Err(status),
        }
    }

    /// Collects garbage, all of it.
    pub fn collect(self) {
        // SAFETY: see above.
        unsafe { ffi::lua_gc(self.raw(), ffi::LUA_GCCOLLECT, 0) };
    }

    /// Lets garbage be collected as often as Lua has it, whatever `collectgarbage` was told.
    pub fn reset_collector(self) {
        for (setting, value) in
            [(ffi::LUA_GCSETPAUSE, 200), (ffi::LUA_GCSETSTEPMUL, 200), (ffi::LUA_GCRESTART, 0)]
        {
            // SAFETY: see above; these settings allocate nothing.
            unsafe { ffi::lua_gc(self.raw(), setting, value) };
        }
    }

    /// The function that runs `level` calls below the running one.
    pub fn frame(self, level: c_int) -> Option<Frame> {
        // SAFETY: the interpreter fills the record, whose pointers are read while the frame is
        // there.
        unsafe {
            let mut record: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.raw(), level, &mut record) == 0 {
                return None;
            }
            ffi::lua_getinfo(self.raw(), c"Sl".as_ptr(), &mut record);
            Some(Frame {
                is_native: CStr::from_ptr(record.what).to_bytes() == b"C",
                source: CStr::from_ptr(record.source).to_bytes().to_vec(),
                line: record.currentline,
            })
        }
    }

    /// Lets `hook` be called as often as it should by now, by this coroutine, or by the interpreter
    /// outside of any. Before every instruction if the script is to end, so that none catches
    /// the error and goes on.
    pub fn set_period(self) {
        let period = self.with(|extra| {
            extra.memory.period = if extra.ends { 1 } else { extra.memory.wanted_period() };
            extra.memory.period
        });
        // SAFETY: see above.
        unsafe { ffi::lua_sethook(self.raw(), Some(hook), ffi::LUA_MASKCOUNT, period) };
    }

    /// A state as the function that it calls sees it.
    ///
    /// # Safety
    /// It is alive, and is not used for longer than it is.
    pub unsafe fn of(state: *mut lua_State) -> Self {
        // SAFETY: it is alive, so it is not null.
        Stack(unsafe { NonNull::new_unchecked(state) })
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

    /// Whether a function of ours, which has ended, leaves more in use than may be, and `was` not
    /// called by another: that does not count what is garbage by now.
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

/// What the interpreter calls: runs a function of ours and raises its error.
unsafe extern "C-unwind" fn enter<F>(state: *mut lua_State) -> c_int
where
    F: Fn(Stack) -> Result<c_int, Raise> + Copy + 'static,
{
    // SAFETY: the interpreter passes its state; `F` has no bytes, so any value of it is the one
    // there is.
    unsafe { run(state, std::ptr::read(NonNull::<F>::dangling().as_ptr())) }
}

/// Runs a function of ours and raises its error.
///
/// # Safety
/// The state is alive, and no frame above owns anything when the error is raised.
#[inline]
pub(crate) unsafe fn run(
    state: *mut lua_State,
    function: impl Fn(Stack) -> Result<c_int, Raise> + Copy,
) -> c_int {
    // SAFETY: the state is alive.
    let stack = unsafe { Stack::of(state) };
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
    stack.with(|extra| extra.memory.lenient = was);
    if !over && pushed >= 0 {
        return pushed;
    }
    // SAFETY: nothing in this frame is owned.
    unsafe { ffi::lua_error(state) }
}

/// Does a part of what a function does that has to run scripts' code between its parts.
///
/// # Safety
/// As for [`run`].
pub(crate) unsafe fn attempt<T: Copy>(
    state: *mut lua_State,
    part: impl FnOnce(Stack) -> Result<T, Raise>,
) -> T {
    // SAFETY: the state is alive.
    let stack = unsafe { Stack::of(state) };
    let was = stack.with(|extra| std::mem::replace(&mut extra.memory.lenient, true));
    let result = part(stack).map_err(|raise| push_error(stack, raise));
    let over = stack.exceeds(was);
    if over && result.is_ok() {
        stack.push_bytes(NOT_ENOUGH_MEMORY.as_bytes());
    }
    stack.with(|extra| extra.memory.lenient = was);
    if let Ok(value) = result
        && !over
    {
        return value;
    }
    // SAFETY: nothing in this frame is owned: `T` and the unit are plain data.
    unsafe { ffi::lua_error(state) }
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
        stack.push_bytes(&in_words_of(dialect, text));
    }
    stack.raw_set_field(-2, b"err");
    if is_counted {
        stack.push_boolean(true);
        stack.raw_set_field(-2, b"ignore_error_stats_update");
    }
}

fn push_located(stack: Stack, text: &[u8]) {
    // SAFETY: see `Stack`.
    unsafe { ffi::luaL_where(stack.raw(), 1) };
    let place = stack.to_bytes(-1).unwrap_or_default();
    let whole = [place, text].concat();
    stack.pop(1);
    stack.push_bytes(&whole);
}

/// What Lua says of an argument, with the name by which the function was called.
fn argument_error(stack: Stack, argument: c_int, text: &str) -> Vec<u8> {
    // SAFETY: the interpreter fills the record, whose pointers are read while the frame is there.
    let (name, is_method) = unsafe {
        let mut record: ffi::lua_Debug = std::mem::zeroed();
        if ffi::lua_getstack(stack.raw(), 0, &mut record) == 0 {
            return format!("bad argument #{argument} ({text})").into_bytes();
        }
        ffi::lua_getinfo(stack.raw(), c"n".as_ptr(), &mut record);
        let name = if record.name.is_null() { c"?" } else { CStr::from_ptr(record.name) };
        let is_method = !record.namewhat.is_null() && CStr::from_ptr(record.namewhat) == c"method";
        (String::from_utf8_lossy(name.to_bytes()).into_owned(), is_method)
    };
    match (is_method, argument - 1) {
        (true, 0) => format!("calling '{name}' on bad self ({text})"),
        (true, argument) => format!("bad argument #{argument} to '{name}' ({text})"),
        (false, _) => format!("bad argument #{argument} to '{name}' ({text})"),
    }
    .into_bytes()
}

/// Called after each period of instructions: lets the server do what has to be done
/// meanwhile, or end the script.
unsafe extern "C-unwind" fn hook(state: *mut lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: the interpreter passes its state.
    let stack = unsafe { Stack::of(state) };
    let interrupted = crate::extra::interrupted(stack);
    stack.set_period();
    let Some(text) = interrupted else { return };
    stack.push_bytes(text.as_bytes());
    // SAFETY: nothing in this frame is owned.
    unsafe { ffi::lua_error(state) };
}

/// Lets the hook be called sooner, amid an instruction that has made much longer ones possible.
///
/// # Safety
/// The extra is that of an interpreter that allocates, and nothing else refers to it.
pub(crate) unsafe fn shorten_period(extra: *mut Extra) {
    // SAFETY: the running state is alive; setting a hook allocates nothing and may be done at any
    // moment.
    unsafe {
        if !(*extra).running.is_null() {
            Stack::of((*extra).running).set_period();
        }
    }
}

/// Calls the function that is the first upvalue of the running one, with its arguments.
pub(crate) fn call_upvalue(stack: Stack) -> c_int {
    // SAFETY: the closures that call this were made with a C function as their first upvalue, which
    // uses none itself; what it raises jumps over frames that own nothing.
    unsafe {
        match ffi::lua_tocfunction(stack.raw(), ffi::lua_upvalueindex(1)) {
            Some(function) => function(stack.raw()),
            None => 0,
        }
    }
}
