//! The result of a script as a reply.

use crate::vm::{LUA_TBOOLEAN, LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Stack, truncated};
use petrel_resp::{Protocol, Reply};

/// Slots of the interpreter's stack that one table needs.
const SLOTS: i32 = 6;

/// Tables within tables that are written: each takes a part of the thread's stack.
const DEPTH_MAX: usize = 1000;

/// Writes the value on top, and takes it. `protocol` is what the script speaks: in RESP3 a boolean is one.
pub(crate) fn write(stack: Stack, protocol: Protocol, reply: &mut dyn Reply) {
    write_nested(stack, protocol, reply, 0);
}

fn write_nested(stack: Stack, protocol: Protocol, reply: &mut dyn Reply, depth: usize) {
    match stack.kind(-1) {
        LUA_TSTRING => reply.bulk(stack.to_bytes(-1).unwrap_or_default()),
        LUA_TNUMBER => reply.integer(truncated(stack.to_number(-1))),
        LUA_TBOOLEAN => write_boolean(stack.to_boolean(-1), protocol, reply),
        LUA_TTABLE if depth < DEPTH_MAX && stack.reserve(SLOTS) => {
            write_table(stack, protocol, reply, depth + 1);
        }
        LUA_TTABLE => reply.error(b"ERR reached lua stack limit"),
        _ => reply.null(),
    }
    stack.pop(1);
}

fn write_boolean(value: bool, protocol: Protocol, reply: &mut dyn Reply) {
    match protocol {
        Protocol::Resp3 => reply.boolean(value),
        Protocol::Resp2 if value => reply.integer(1),
        Protocol::Resp2 => reply.null(),
    }
}

/// A table with a field that says what it is, or an array.
fn write_table(stack: Stack, protocol: Protocol, reply: &mut dyn Reply, depth: usize) {
    let has = |name: &[u8], kind: i32| {
        if stack.raw_get_field(-1, name) == kind {
            return true;
        }
        stack.pop(1);
        false
    };
    if has(b"err", LUA_TSTRING) {
        let text = stack.to_bytes(-1).unwrap_or_default();
        reply.error(text.strip_prefix(b"-").unwrap_or(text));
    } else if has(b"ok", LUA_TSTRING) {
        write_status(stack.to_bytes(-1).unwrap_or_default(), reply);
    } else if has(b"double", LUA_TNUMBER) {
        reply.double(stack.to_number(-1));
    } else if has(b"map", LUA_TTABLE) {
        write_pairs(stack, protocol, reply, true, depth);
    } else if has(b"set", LUA_TTABLE) {
        write_pairs(stack, protocol, reply, false, depth);
    } else if has(b"big_number", LUA_TSTRING) {
        let digits = String::from_utf8_lossy(stack.to_bytes(-1).unwrap_or_default());
        reply.big_number(&digits.replace(['\r', '\n'], " "));
    } else if !has(b"verbatim_string", LUA_TTABLE) {
        return write_array(stack, protocol, reply, depth);
    } else if !write_verbatim(stack, reply) {
        stack.pop(1);
        return write_array(stack, protocol, reply, depth);
    }
    stack.pop(1);
}

fn write_status(text: &[u8], reply: &mut dyn Reply) {
    let text = String::from_utf8_lossy(text);
    if text.contains(['\r', '\n']) {
        reply.simple(&text.replace(['\r', '\n'], " "));
    } else {
        reply.simple(&text);
    }
}

/// The table on top as a map, or its keys as a set.
fn write_pairs(
    stack: Stack,
    protocol: Protocol,
    reply: &mut dyn Reply,
    with_values: bool,
    depth: usize,
) {
    let mut len = 0;
    stack.push_nil();
    while stack.next(-2) {
        len += 1;
        stack.pop(1);
    }
    if with_values {
        reply.map(len)
    } else {
        reply.set(len)
    }
    stack.push_nil();
    while stack.next(-2) {
        // The key is written as a copy: what is on top is taken.
        stack.copy(-2);
        write_nested(stack, protocol, reply, depth);
        if with_values { write_nested(stack, protocol, reply, depth) } else { stack.pop(1) }
    }
}

fn write_verbatim(stack: Stack, reply: &mut dyn Reply) -> bool {
    let is_text = stack.raw_get_field(-1, b"string") == LUA_TSTRING;
    let is_format = stack.raw_get_field(-2, b"format") == LUA_TSTRING;
    if is_text && is_format {
        let mut format = *b"   ";
        let given = stack.to_bytes(-1).unwrap_or_default();
        for (to, from) in format.iter_mut().zip(given) {
            *to = *from;
        }
        reply.verbatim(&format, stack.to_bytes(-2).unwrap_or_default());
    }
    stack.pop(2);
    is_text && is_format
}

/// The elements before the first that is nil.
fn write_array(stack: Stack, protocol: Protocol, reply: &mut dyn Reply, depth: usize) {
    let mut len = 0;
    while stack.raw_get_index(-1, len + 1) != LUA_TNIL {
        len += 1;
        stack.pop(1);
    }
    stack.pop(1);
    reply.array(len as usize);
    for n in 1..=len {
        stack.raw_get_index(-1, n);
        write_nested(stack, protocol, reply, depth);
    }
}
