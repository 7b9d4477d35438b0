//! `table.sort`: Lua's own compares without an instruction of the script's in between, however long
//! that takes. This one counts its steps. It compares and exchanges as that of Lua 5.1 does, so
//! that equal elements end up in the same order.
//!
//! A comparison may run a script's code, which may raise an error: no frame here owns anything.

use crate::c_api;
use crate::interrupt::count_work;
use crate::vm::{self, LUA_TFUNCTION, LUA_TNIL, LUA_TNONE, LUA_TSTRING, LUA_TTABLE, Raise, Stack};
use mlua_sys as ffi;
use std::ffi::c_int;

/// The slot of the comparison, behind the list.
const COMPARISON: c_int = 2;

/// Steps that are counted together.
const STEPS: usize = 1024;

/// Slots that are needed for one comparison and exchange; parts are sorted within each other, each
/// by as many.
const SLOTS: c_int = 40;

/// `table.sort(list [, comparison])`
pub(crate) unsafe extern "C-unwind" fn sort(stack: Stack) -> c_int {
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    unsafe {
        let last = vm::attempt(stack, |stack| {
            if stack.kind(1) != LUA_TTABLE {
                return Err(stack.type_error(1, "table"));
            }
            if !matches!(stack.kind(COMPARISON), LUA_TNIL | LUA_TNONE | LUA_TFUNCTION) {
                return Err(stack.type_error(COMPARISON, "function"));
            }
            if !stack.reserve(SLOTS) {
                return Err(Raise::fixed("stack overflow ()"));
            }
            let last = c_int::try_from(stack.len(1));
            stack.set_top(COMPARISON);
            last.map_err(|_| Raise::fixed("array too big"))
        });
        let compares = stack.kind(COMPARISON) == LUA_TFUNCTION;
        let mut sorter = Sorter { stack, compares, steps: 0 };
        sorter.sort(1, last);
        vm::attempt(stack, |stack| count_work(stack, sorter.steps));
    }
    0
}

/// A list that is being sorted. Plain data.
struct Sorter {
    stack: Stack,
    compares: bool,
    steps: usize,
}

// Every method is called with the list and the comparison in their slots, and leaves the stack as
// it says.
impl Sorter {
    /// Sorts the elements from `low` to `high`: quicksort around the median of three. The smaller
    /// part is sorted by a call, the larger one goes on here, so calls nest no deeper than the
    /// logarithm of the length.
    unsafe fn sort(&mut self, mut low: c_int, mut high: c_int) {
        // SAFETY: see above; all that these frames hold is plain data.
        unsafe {
            while low < high {
                self.order(low, high);
                if high - low == 1 {
                    return;
                }
                let middle = low + (high - low) / 2;
                if !self.order(low, middle) {
                    self.order(middle, high);
                }
                if high - low == 2 {
                    return;
                }
                // The pivot stays on the stack, and waits at the end of the part.
                self.push(middle);
                self.stack.copy(-1);
                self.push(high - 1);
                self.set(middle);
                self.set(high - 1);
                let split = self.partition(low, high);
                self.stack.pop(1);
                self.push(high - 1);
                self.push(split);
                self.set(high - 1);
                self.set(split);
                if split - low < high - split {
                    self.sort(low, split - 1);
                    low = split + 1;
                } else {
                    self.sort(split + 1, high);
                    high = split - 1;
                }
            }
        }
    }

    /// Moves elements less than the pivot (on top of the stack) before the others; returns the
    /// start of the latter. The bounds are in order with the pivot already, so they end the search
    /// unless the comparison contradicts itself.
    unsafe fn partition(&mut self, low: c_int, high: c_int) -> c_int {
        let (mut left, mut right) = (low, high - 1);
        // SAFETY: see above.
        unsafe {
            loop {
                left += 1;
                self.push(left);
                while self.is_less(-1, -2) {
                    if left > high {
                        self.refuse();
                    }
                    self.stack.pop(1);
                    left += 1;
                    self.push(left);
                }
                right -= 1;
                self.push(right);
                while self.is_less(-3, -1) {
                    if right < low {
                        self.refuse();
                    }
                    self.stack.pop(1);
                    right -= 1;
                    self.push(right);
                }
                if right < left {
                    self.stack.pop(2);
                    return left;
                }
                self.set(left);
                self.set(right);
            }
        }
    }

    /// Exchanges two elements if the second is less than the first; says whether it was.
    unsafe fn order(&mut self, first: c_int, second: c_int) -> bool {
        self.push(first);
        self.push(second);
        // SAFETY: see above.
        let wrong = unsafe { self.is_less(-1, -2) };
        if wrong {
            self.set(first);
            self.set(second);
        } else {
            self.stack.pop(2);
        }
        wrong
    }

    /// Whether the value at `a`, counted from the top, is less than that at `b`.
    unsafe fn is_less(&mut self, a: c_int, b: c_int) -> bool {
        // SAFETY: see above; a call pushes the function, and so finds the values further below.
        unsafe {
            self.count(a, b);
            if !self.compares {
                return ffi::lua_lessthan(self.stack.raw(), a, b) != 0;
            }
            self.stack.copy(COMPARISON);
            self.stack.copy(a - 1);
            self.stack.copy(b - 2);
            vm::call(self.stack, 2, 1);
            let less = self.stack.to_boolean(-1);
            self.stack.pop(1);
            less
        }
    }

    /// Counts a comparison of two values, of which texts are walked over.
    unsafe fn count(&mut self, a: c_int, b: c_int) {
        self.steps += 2;
        if self.stack.kind(a) == LUA_TSTRING && self.stack.kind(b) == LUA_TSTRING {
            self.steps += self.stack.len(a).min(self.stack.len(b)) / 16;
        }
        if self.steps >= STEPS {
            let steps = std::mem::take(&mut self.steps);
            // SAFETY: see above.
            unsafe { vm::attempt(self.stack, |stack| count_work(stack, steps)) };
        }
    }

    /// Pushes an element.
    fn push(&self, at: c_int) {
        c_api::lua_rawgeti(self.stack, 1, at);
    }

    /// Makes the value on top an element, and takes it.
    fn set(&self, at: c_int) {
        self.stack.raw_set_index(1, at);
    }

    unsafe fn refuse(&self) {
        // SAFETY: see above.
        unsafe {
            vm::attempt(self.stack, |_| -> Result<(), Raise> {
                Err(Raise::fixed("invalid order function for sorting"))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::against_lua::compare;

    /// Sorts drawn lists, of which many elements are equal, by comparisons of all kinds; a line per
    /// list says what came of it.
    const DRAWN: &[u8] = br##"
        local seed, lines = 20240607, {}
        local function draw(n)
            seed = (seed * 1103515245 + 12345) % 2147483648
            return math.floor(seed / 65536) % n + 1
        end
        local function note(what, list, ...)
            local parts = {what}
            for i = 1, select("#", ...) do parts[#parts + 1] = tostring((select(i, ...))) end
            for i = 1, #list do
                parts[#parts + 1] = type(list[i]) == "table" and list[i].key .. ":" .. list[i].place or tostring(list[i])
            end
            lines[#lines + 1] = table.concat(parts, "|")
        end
        local by = {
            function(a, b) return a.key < b.key end,
            function(a, b) return a.key > b.key end,
            function(a, b) return a.key <= b.key end,
            function(a, b) return true end,
            function(a, b) return nil end,
            function(a, b) return a.key % 7 < b.key % 7 end,
            function(a, b) if a.key == 3 then error("at 3", 0) end return a.key < b.key end,
        }
        for i = 1, 1000 do
            local len, kinds = draw(40) - 1, draw(30)
            local numbers, texts, tables, mixed = {}, {}, {}, {}
            for n = 1, len do
                local key = draw(kinds)
                numbers[n], texts[n], tables[n] = key, "k" .. key, {key = key, place = n}
                mixed[n] = draw(20) == 1 and "x" or key
            end
            note("numbers", numbers, pcall(table.sort, numbers))
            note("texts", texts, pcall(table.sort, texts))
            note("mixed", mixed, pcall(table.sort, mixed))
            note("tables", tables, pcall(table.sort, tables, by[draw(#by)]))
        end
        local less = {__lt = function(a, b) return a.key < b.key end}
        local many = {}
        for n = 1, 5000 do many[n] = setmetatable({key = draw(1000), place = n}, less) end
        note("many", many, pcall(table.sort, many))
        note("again", many, pcall(table.sort, many, function(a, b) return b < a end))
        note("arguments", {}, pcall(table.sort))
        note("arguments", {}, pcall(table.sort, {}, 1))
        note("arguments", {}, pcall(table.sort, {2, 1}, nil))
        return table.concat(lines, "\n")
    "##;

    #[test]
    fn lists_are_sorted_as_luas_own_sorts_them() {
        compare(DRAWN);
    }
}
