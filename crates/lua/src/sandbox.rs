//! The sandbox: libraries and globals that scripts can use.
//!
//! Scripts get those functions of Lua's libraries that can neither leave the interpreter nor break
//! it. The tables of globals and of libraries cannot be changed: in place of each, scripts get an
//! empty table that *stands for* it; its metatable redirects reads to the table itself and refuses
//! writes. Functions that bypass a metatable for writing (`rawset`, `table.insert`, `setmetatable`
//! ...) refuse these tables too, and functions that bypass it for reading (`rawget`, `next`) see
//! through them. So no script sees changes made by another.

use crate::c_api;
use crate::extra::{Purpose, Release};
use crate::protected::{READONLY, set_globals};
use crate::vm::{self, LUA_GLOBALSINDEX, LUA_TNIL, Native, Raise, Stack};
use crate::{api, base, bit, cjson, cmsgpack, random, strings, structs, tables};
use std::ffi::c_int;

/// Globals of the base library that scripts do not get.
const WITHHELD: &str = "dofile getfenv load loadfile loadstring newproxy print require setfenv";

/// Functions that change their first argument, the library of each, and from how many arguments on
/// it may move all elements of a list.
const CHANGING: &[(&str, &str, u8)] = &[
    ("", "rawset", u8::MAX),
    ("", "setmetatable", u8::MAX),
    ("table", "remove", 2),
    ("table", "sort", u8::MAX),
];

/// Functions that read their first argument around its metatable.
const READING: &[(&str, &str)] = &[("", "next"), ("", "rawget"), ("", "rawequal")];

/// Functions that walk over a text.
const WALKING: &[&str] = &["lower", "reverse", "upper"];

const LIBRARIES: &[&str] =
    &["bit", "cjson", "cmsgpack", "coroutine", "math", "os", "redis", "string", "struct", "table"];

/// Opens the libraries, in place of all globals, and pushes the table of globals, which only the
/// server changes.
pub(crate) fn open(stack: Stack, purpose: Purpose, release: Release) {
    for (name, library) in [
        ("", c_api::luaopen_base as Native),
        ("table", c_api::luaopen_table),
        ("string", c_api::luaopen_string),
        ("math", c_api::luaopen_math),
        ("os", c_api::luaopen_os),
    ] {
        stack.push_native(library, 0);
        stack.push_bytes(name.as_bytes());
        // Cannot fail: there is memory, and the libraries are whole.
        let _ = stack.protected_call(1, 0, 0);
    }
    stack.copy(LUA_GLOBALSINDEX);
    let globals = stack.top();
    restrict(stack, globals);
    api::open(stack, globals, purpose, release);
    bit::open(stack, globals);
    cjson::open(stack, globals);
    cmsgpack::open(stack, globals);
    structs::open(stack, globals);
    protect(stack, globals, release);
    debug_assert_eq!(stack.top(), globals);
}

fn restrict(stack: Stack, globals: c_int) {
    let set = |library, name| set_member(stack, globals, library, name);
    let get = |library, name| get_member(stack, globals, library, name);
    stack.push_native(crate::sort::sort, 0);
    set("table", "sort");
    stack.push_native(crate::coroutine::resume, 0);
    set("coroutine", "resume");
    get("coroutine", "create");
    stack.push_native(crate::coroutine::wrap, 1);
    set("coroutine", "wrap");
    get("", "collectgarbage");
    stack.push_before(base::collecting, 1);
    set("", "collectgarbage");
    for &(library, name, arguments) in CHANGING {
        get(library, name);
        stack.push_number(f64::from(arguments));
        stack.push_before(base::guarded, 2);
        set(library, name);
    }
    for &(library, name) in READING {
        get(library, name);
        stack.push_before(base::seeing_through, 1);
        set(library, name);
    }
    for name in WALKING {
        get("string", name);
        stack.push_before(base::walking, 1);
        set("string", name);
    }
    stack.raw_get_field(globals, b"string");
    strings::open(stack, -1);
    stack.pop(1);
    for (name, function) in [("pcall", base::pcall as Native), ("xpcall", base::xpcall)] {
        stack.push_native(function, 0);
        set("", name);
    }
    restrict_tables(stack, globals);
    for name in WITHHELD.split(' ') {
        stack.push_nil();
        set("", name);
    }
    stack.push_function(base::loadstring);
    set("", "loadstring");
    stack.push_function(unpack);
    set("", "unpack");
    stack.push_native(base::load_pieces, 0);
    set("", "load");
    get("", "next");
    let next = stack.keep();
    stack.with(|extra| extra.next = next);
    stack.push_function(pairs);
    set("", "pairs");
    // Of the system, the processor's time.
    get("os", "clock");
    stack.new_table(0, 1);
    stack.insert(-2);
    stack.raw_set_field(-2, b"clock");
    set("", "os");
    stack.push_function(random::random);
    set("math", "random");
    stack.push_function(random::randomseed);
    set("math", "randomseed");
}

/// Replaces functions that walk over tables, and those for formatting values.
fn restrict_tables(stack: Stack, globals: c_int) {
    let set = |library, name| set_member(stack, globals, library, name);
    let get = |library, name| get_member(stack, globals, library, name);
    get("table", "insert");
    stack.push_number(3.0);
    stack.push_native(tables::insert, 2);
    set("table", "insert");
    for (name, function) in [("foreach", tables::foreach as Native), ("foreachi", tables::foreachi)]
    {
        stack.push_native(function, 0);
        set("table", name);
    }
    for name in ["concat", "maxn"] {
        get("table", name);
        stack.push_before(base::traversing, 1);
        set("table", name);
    }
    get("string", "format");
    stack.push_before(base::formatting, 1);
    set("string", "format");
}

/// Pushes a function of a library, or a global where the library is empty.
fn get_member(stack: Stack, globals: c_int, library: &str, name: &str) {
    if library.is_empty() {
        stack.raw_get_field(globals, name.as_bytes());
    } else {
        stack.raw_get_field(globals, library.as_bytes());
        stack.raw_get_field(-1, name.as_bytes());
        stack.remove(-2);
    }
}

/// Sets the same to the value on top, and takes that.
fn set_member(stack: Stack, globals: c_int, library: &str, name: &str) {
    if library.is_empty() {
        stack.raw_set_field(globals, name.as_bytes());
    } else {
        stack.raw_get_field(globals, library.as_bytes());
        stack.insert(-2);
        stack.raw_set_field(-2, name.as_bytes());
        stack.pop(1);
    }
}

/// `pairs(t)`
fn pairs(stack: Stack) -> Result<c_int, Raise> {
    if stack.kind(1) != vm::LUA_TTABLE {
        return Err(stack.type_error(1, "table"));
    }
    let next = stack.with(|extra| extra.next);
    stack.raw_get_index(vm::LUA_REGISTRYINDEX, next);
    stack.copy(1);
    stack.push_nil();
    Ok(3)
}

/// `unpack(t [, i [, j]])`: Lua 5.1's own miscounts what does not fit 31 bits.
fn unpack(stack: Stack) -> Result<c_int, Raise> {
    if stack.kind(1) != vm::LUA_TTABLE {
        return Err(stack.type_error(1, "table"));
    }
    let given = |argument| !matches!(stack.kind(argument), LUA_TNIL | vm::LUA_TNONE);
    let first = if given(2) { stack.check_integer(2)? as i32 } else { 1 };
    let last = if given(3) { stack.check_integer(3)? as i32 } else { stack.len(1) as i32 };
    let count = i64::from(last) - i64::from(first) + 1;
    if count <= 0 {
        return Ok(0);
    }
    let count = i32::try_from(count).ok().filter(|&count| count < i32::MAX && stack.reserve(count));
    let count = count.ok_or(Raise::fixed("too many results to unpack"))?;
    for n in first..=last {
        stack.raw_get_index(1, n);
    }
    Ok(count)
}

/// Puts what stands for each library, and for the globals, in its place.
fn protect(stack: Stack, globals: c_int, release: Release) {
    for name in LIBRARIES {
        if stack.raw_get_field(globals, name.as_bytes()) == LUA_TNIL {
            stack.pop(1);
            continue;
        }
        stand_for(stack);
        stack.raw_set_field(globals, name.as_bytes());
    }
    // By both of its names.
    stack.raw_get_field(globals, b"redis");
    api::set_server(stack, globals, release);
    // Strings: their methods, behind a metatable that shows what stands for another of its kind.
    stack.push_bytes(b"");
    if stack.metatable(-1) {
        stack.new_table(0, 1);
        stack.raw_get_field(globals, b"string");
        stack.raw_set_field(-2, b"__index");
        stand_for(stack);
        stack.raw_set_field(-2, b"__metatable");
        stack.pop(1);
    }
    stack.pop(1);
    stack.copy(globals);
    refuse_unknown(stack);
    stand_for(stack);
    stack.copy(-1);
    stack.raw_set_field(globals, b"_G");
    set_globals(stack);
}

/// Makes reading an absent key from the table on top an error.
pub(crate) fn refuse_unknown(stack: Stack) {
    stack.new_table(0, 1);
    stack.push_function(no_such_global);
    stack.raw_set_field(-2, b"__index");
    stack.set_metatable(-2);
}

/// Redirects reads of the globals to the table on top, and pops it.
pub(crate) fn exchange_globals(stack: Stack) {
    stack.copy(LUA_GLOBALSINDEX);
    if stack.metatable(-1) {
        stack.copy(-3);
        stack.raw_set_field(-2, b"__index");
        stack.pop(1);
    }
    stack.pop(2);
}

/// Replaces the table on top by one that stands for it.
pub(crate) fn stand_for(stack: Stack) {
    stack.new_table(0, 0);
    // The metatable: reads go on, writes do not, and `getmetatable` gets another that cannot
    // be changed.
    stack.new_table(0, 3);
    stack.copy(-3);
    stack.raw_set_field(-2, b"__index");
    push_refusal(stack);
    stack.raw_set_field(-2, b"__newindex");
    push_shown_metatable(stack);
    stack.raw_set_field(-2, b"__metatable");
    stack.set_metatable(-2);
    let address = stack.address(-1);
    stack.with(|extra| extra.protected.push(address));
    stack.remove(-2);
}

/// Pushes what `getmetatable` shows of a protected table, the same of all: something that refuses
/// to be changed.
fn push_shown_metatable(stack: Stack) {
    let shown = stack.with(|extra| extra.shown);
    if shown != 0 {
        stack.raw_get_index(vm::LUA_REGISTRYINDEX, shown);
        return;
    }
    stack.new_table(0, 0);
    stack.new_table(0, 3);
    stack.new_table(0, 0);
    stack.raw_set_field(-2, b"__index");
    push_refusal(stack);
    stack.raw_set_field(-2, b"__newindex");
    stack.push_boolean(false);
    stack.raw_set_field(-2, b"__metatable");
    stack.set_metatable(-2);
    let address = stack.address(-1);
    stack.copy(-1);
    let shown = stack.keep();
    stack.with(|extra| {
        extra.protected.push(address);
        extra.shown = shown;
    });
}

/// Pushes the function that refuses changes.
fn push_refusal(stack: Stack) {
    if stack.with(|extra| extra.refusal) == 0 {
        stack.push_function(refuse);
        let kept = stack.keep();
        stack.with(|extra| extra.refusal = kept);
    }
    let kept = stack.with(|extra| extra.refusal);
    stack.raw_get_index(vm::LUA_REGISTRYINDEX, kept);
}

fn refuse(_: Stack) -> Result<c_int, Raise> {
    Err(Raise::fixed(READONLY))
}

fn no_such_global(stack: Stack) -> Result<c_int, Raise> {
    let name = vm::shown(stack.to_bytes(2).unwrap_or_default());
    Err(Raise::new(format!("Script attempted to access nonexistent global variable '{name}'")))
}
