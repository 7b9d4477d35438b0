//! The tables `KEYS` and `ARGV`. Creating two tables for every script and collecting them takes a
//! quarter of the instructions of a short script, so the tables are reused.
//!
//! ```text
//!  GLOBALS ── "KEYS" ──▶ kept table ─ as made but for its elements ─▶ emptied ─▶ the next script's
//!                            │
//!                            └─ changed in another way, or too short ─▶ another in its place
//! ```
//!
//! A script may do anything with these tables: set metatables or fields, remove elements. The next
//! script must see none of that, not even the order in which `pairs` visits elements or the result
//! of `#` for a list with holes, both of which follow from how the parts of the table have grown.
//! Lua's API does not expose these; [`Shape`] reads them.

use crate::interrupt::{HASHED_WHOLE, STRING_STEPS, Tally};
use crate::vm::{Raise, Stack};
use std::ffi::{c_int, c_void};

/// Bytes of an element of a table, of a field of one, and of the table itself.
pub(crate) const ELEMENT_BYTES: usize = 16;
pub(crate) const NODE_BYTES: usize = 40;
pub(crate) const TABLE_BYTES: usize = size_of::<Table>();

/// Bytes of an element of a list beside its text.
const LISTED_BYTES: usize = 64;

/// Elements for which a kept table has room.
const ROOM: usize = 4;

/// A table as Lua 5.1 lays it out: `Table` in its `lobject.h`.
#[repr(C)]
struct Table {
    next: *mut c_void,
    kind: u8,
    marked: u8,
    flags: u8,
    log2_nodes: u8,
    metatable: *const c_void,
    array: *const c_void,
    nodes: *const c_void,
    last_free: *const c_void,
    grey: *const c_void,
    elements: c_int,
}

/// Parts of a table other than its contents: its metatable and the memory of its elements and
/// fields, as addresses that are only compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Shape {
    metatable: usize,
    array: usize,
    elements: c_int,
    nodes: usize,
    log2_nodes: u8,
}

impl Shape {
    /// Reads the shape of the table at `index`.
    #[inline]
    fn of(stack: Stack, index: c_int) -> Self {
        let table = stack.address(index) as *const Table;
        // SAFETY: the address of a table is that of its structure, which is alive while it is on
        // the stack. Lua 5.1 is built with this crate and not developed any more.
        let table = unsafe { &*table };
        Shape {
            metatable: table.metatable as usize,
            array: table.array as usize,
            elements: table.elements,
            nodes: table.nodes as usize,
            log2_nodes: table.log2_nodes,
        }
    }
}

/// Bytes that the table at `index` may need at most when one more key is set: both of its parts may
/// grow to twice as many slots as they have together, and there is the old part beside the new one.
#[inline]
pub(crate) fn growth_max(stack: Stack, index: c_int) -> usize {
    (places(stack, index) + 4) * 2 * (ELEMENT_BYTES + NODE_BYTES)
}

/// Places for keys that the table at `index` has, used or not.
pub(crate) fn places(stack: Stack, index: c_int) -> usize {
    let Shape { elements, log2_nodes, .. } = Shape::of(stack, index);
    elements as usize + (1 << log2_nodes)
}

/// `KEYS` or `ARGV`.
#[derive(Debug)]
pub(crate) struct List {
    /// Stack index of the name.
    name: c_int,
    /// Stack index of the reused table.
    table: c_int,
    /// Stack index of the globals.
    globals: c_int,
    /// The kept table as it was made.
    made: Shape,
    /// Elements of the running script.
    len: usize,
}

impl List {
    /// An empty list of this name, for the globals at `globals`. It takes two slots of the stack,
    /// for as long as that is.
    pub fn new(stack: Stack, name: &str, globals: c_int) -> Self {
        stack.push_bytes(name.as_bytes());
        let name = stack.top();
        stack.new_table(ROOM, 0);
        let table = stack.top();
        List { name, table, globals, made: Shape::of(stack, table), len: 0 }
    }

    /// Lets scripts find the table that is kept.
    #[cold]
    pub fn publish(&self, stack: Stack) {
        stack.copy(self.name);
        stack.copy(self.table);
        stack.raw_set(self.globals);
    }

    /// Gives the list these elements. It is empty.
    ///
    /// # Errors
    /// If the script is to end: then it may have some of them.
    #[inline]
    pub fn fill(&mut self, stack: Stack, values: &[&[u8]]) -> Result<(), Raise> {
        self.len = values.len();
        if values.len() > ROOM {
            return self.replace(stack, values);
        }
        for (n, value) in (1..).zip(values) {
            stack.push_bytes(value);
            stack.raw_set_index(self.table, n);
        }
        Ok(())
    }

    /// Removes the running script's arguments and everything the script stored in the table.
    #[inline]
    pub fn empty(&mut self, stack: Stack) {
        if self.len > ROOM {
            return self.publish(stack);
        }
        if Shape::of(stack, self.table) != self.made {
            return self.renew(stack);
        }
        for n in 1..=self.len {
            stack.push_nil();
            stack.raw_set_index(self.table, n as c_int);
        }
        stack.push_nil();
        if stack.next(self.table) {
            stack.pop(2);
            self.renew(stack);
        }
    }

    /// Lets the running script find another table, with room for these.
    #[cold]
    fn replace(&self, stack: Stack, values: &[&[u8]]) -> Result<(), Raise> {
        stack.copy(self.name);
        push_list(stack, values)?;
        stack.raw_set(self.globals);
        Ok(())
    }

    /// Keeps another table.
    #[cold]
    fn renew(&mut self, stack: Stack) {
        stack.new_table(ROOM, 0);
        stack.replace(self.table);
        self.made = Shape::of(stack, self.table);
        self.publish(stack);
    }
}

/// Bytes that a list of these elements takes.
#[inline]
pub(crate) fn list_bytes(values: &[&[u8]]) -> usize {
    values.iter().map(|value| value.len() + LISTED_BYTES).sum()
}

/// Pushes a list of these elements.
///
/// # Errors
/// If the script is to end: then there is no list, or a part of it.
pub(crate) fn push_list(stack: Stack, values: &[&[u8]]) -> Result<(), Raise> {
    let mut tally = Tally::new(stack);
    stack.new_table(values.len(), 0);
    for (n, value) in (1..).zip(values) {
        tally.add(if value.len() < HASHED_WHOLE { 1 } else { STRING_STEPS })?;
        stack.push_bytes(value);
        stack.raw_set_index(-2, n);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Purpose;
    use crate::against_lua::{interpreter, run};

    const LIST: &[u8] = b"local t = {} for k, v in pairs(KEYS) do t[#t + 1] = tostring(k) .. tostring(v) end \
        for k, v in pairs(ARGV) do t[#t + 1] = tostring(k) .. tostring(v) end \
        return table.concat(t, ' ') .. ' ' .. #KEYS .. ' ' .. #ARGV .. tostring(getmetatable(KEYS))";

    #[test]
    fn whatever_a_script_does_with_its_lists_the_next_one_finds_its_own() {
        let many: Vec<String> = (0..ROOM + 3).map(|n| n.to_string()).collect();
        let many: Vec<&[u8]> = many.iter().map(|text| text.as_bytes()).collect();
        let mut lua = interpreter(Purpose::Scripts);
        for script in [
            "return 'ok'",
            "KEYS[1] = nil ARGV[1] = nil return 'ok'",
            "KEYS[2] = 'two' ARGV[4] = 'four' return 'ok'",
            "KEYS[9] = 'nine' return 'ok'",
            "KEYS.field = 'f' return 'ok'",
            "KEYS.field = 'f' KEYS.field = nil return 'ok'",
            "for n = 1, 100 do ARGV['f' .. n] = n end for n = 1, 100 do ARGV['f' .. n] = nil end return 'ok'",
            "for n = 1, 100 do ARGV[n] = n end for n = 1, 100 do ARGV[n] = nil end return 'ok'",
            "setmetatable(KEYS, {__index = function() return 'there' end, __mode = 'kv'}) return 'ok'",
            "setmetatable(KEYS, {__index = ARGV, __metatable = 'mine'}) return 'ok'",
            "table.insert(KEYS, 1, 'first') table.sort(KEYS) return 'ok'",
            "rawset(KEYS, 'own', KEYS) rawset(ARGV, ARGV, 1) return 'ok'",
            "KEYS[3] = KEYS error('ended')",
            "local t = {} for n = 1, 1e6 do t[n] = KEYS end return 'ok'",
        ] {
            for count in [0, 1, 2, ROOM, ROOM + 1, ROOM + 3] {
                let _ = run(&mut lua, script.as_bytes(), &many[..count], &many[..count]);
                for found in [0, 1, ROOM, ROOM + 2, 2] {
                    let expected = run(
                        &mut interpreter(Purpose::Scripts),
                        LIST,
                        &many[..found],
                        &many[1..found.max(1)],
                    );
                    let got = run(&mut lua, LIST, &many[..found], &many[1..found.max(1)]);
                    assert_eq!(got, expected, "{found} behind {count} of {script}");
                }
            }
        }
    }

    #[test]
    fn a_table_is_kept_until_a_script_changes_more_than_its_elements() {
        let mut lua = interpreter(Purpose::Scripts);
        let mut address = |script: &str, keys: &[&[u8]]| {
            run(&mut lua, script.as_bytes(), keys, &[]).expect("it runs");
            String::from_utf8(run(&mut lua, b"return tostring(KEYS)", &[], &[]).expect("it runs"))
                .expect("an address")
        };
        let first = address("return KEYS[1]", &[b"a"]);
        assert_eq!(address("KEYS[1] = 'b' return 'ok'", &[b"a"]), first);
        assert_eq!(address("return 'ok'", &[&b"a"[..]; ROOM + 1]), first);
        assert_ne!(address("KEYS.field = nil KEYS.field = 1 return 'ok'", &[b"a"]), first);
    }

    #[test]
    fn functions_have_no_lists_of_that_name() {
        let mut lua = interpreter(Purpose::Functions);
        for name in ["KEYS", "ARGV"] {
            assert_eq!(run(&mut lua, format!("return {name}").as_bytes(), &[], &[]), None);
        }
    }

    #[test]
    fn what_a_script_was_given_is_not_kept() {
        let mut lua = interpreter(Purpose::Scripts);
        let large = vec![b'x'; 1 << 20];
        for count in [1, ROOM + 1] {
            let args: Vec<&[u8]> = std::iter::repeat_n(&large[..], count).collect();
            run(&mut lua, b"return 'ok'", &[], &args).expect("it runs");
            lua.collect();
            assert!(lua.memory() < 1 << 20, "{}", lua.memory());
        }
    }
}
