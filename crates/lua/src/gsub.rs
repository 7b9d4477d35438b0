//! `string.gsub` with a function or a table as its replacement. It runs a script's code between two
//! matches, which may raise an error, so its frame owns nothing: the pieces replaced so far are
//! kept in a Lua table.

use crate::base::joined;
use crate::pattern::{CAPTURES_MAX, Match};
use crate::strings::{self, Substitution};
use crate::vm::{self, LUA_TFUNCTION, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE, Raise, Stack};
use mlua_sys as ffi;
use std::ffi::c_int;

/// The slot of the table of pieces, behind the arguments.
const PIECES: c_int = 5;

/// `string.gsub(s, pattern, replacement [, n])`
pub(crate) unsafe extern "C-unwind" fn gsub(stack: Stack) -> c_int {
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    unsafe {
        match stack.kind(3) {
            LUA_TFUNCTION | LUA_TTABLE => substitute(stack),
            _ => vm::run(stack, strings::substitute_text),
        }
    }
}

/// Replaces each match by a function's result or a table's value.
unsafe fn substitute(stack: Stack) -> c_int {
    // SAFETY: the state is alive; all that this frame holds is plain data, and each part that may
    // raise is either run by `vm::attempt`, or a call of the interpreter at which nothing is
    // owned.
    unsafe {
        let plan: Substitution = vm::attempt(stack, |stack| {
            let plan = strings::substitution(stack)?;
            stack.set_top(PIECES - 1);
            stack.new_table(0, 0);
            // For captures, and what works with them.
            if !stack.reserve(CAPTURES_MAX as c_int + 8) {
                return Err(Raise::fixed("stack overflow"));
            }
            Ok(plan)
        });
        let text_len = stack.len(1);
        let (mut at, mut copied, mut replaced, mut pieces) = (0, 0, 0, 0);
        while replaced < plan.replaced_max {
            let found = vm::attempt(stack, |stack| strings::match_at(stack, at));
            if let Some(found) = found {
                replaced += 1;
                pieces = vm::attempt(stack, |stack| begin(stack, &found, copied, pieces));
                if stack.kind(3) == LUA_TFUNCTION {
                    vm::call(stack, found.values() as c_int, 1);
                } else {
                    ffi::lua_gettable(stack.raw(), 3);
                }
                pieces = vm::attempt(stack, |stack| end(stack, &found, pieces));
                copied = found.end;
            }
            match found {
                Some(found) if found.end > at => at = found.end,
                _ if at < text_len => at += 1,
                _ => break,
            }
            if plan.anchored {
                break;
            }
        }
        vm::run(stack, move |stack| finish(stack, copied, pieces, replaced))
    }
}

/// Stores the text before a match, and pushes the key or argument for its replacement. Returns the
/// number of pieces.
fn begin(stack: Stack, found: &Match, copied: usize, pieces: c_int) -> Result<c_int, Raise> {
    let text = stack.check_bytes(1)?;
    let mut pieces = pieces;
    if copied < found.begin {
        stack.push_text(&text[copied..found.begin])?;
        pieces += 1;
        stack.set_index(PIECES, pieces)?;
    }
    if stack.kind(3) == LUA_TFUNCTION {
        stack.copy(3);
        strings::push_values(stack, text, found, found.values())?;
    } else {
        strings::push_value(stack, text, found, 0)?;
    }
    Ok(pieces)
}

/// Stores the replacement on top, or the match itself if that is nil or false. Returns the number
/// of pieces.
fn end(stack: Stack, found: &Match, pieces: c_int) -> Result<c_int, Raise> {
    if !stack.to_boolean(-1) {
        stack.pop(1);
        stack.push_text(&stack.check_bytes(1)?[found.begin..found.end])?;
    } else if !matches!(stack.kind(-1), LUA_TSTRING | LUA_TNUMBER) {
        let kind = stack.kind_name(-1);
        return Err(Raise::new(format!("invalid replacement value (a {kind})")));
    }
    stack.set_index(PIECES, pieces + 1)?;
    Ok(pieces + 1)
}

/// Pushes the joined pieces with the text after the last match, and the number of replacements.
fn finish(stack: Stack, copied: usize, pieces: c_int, replaced: i64) -> Result<c_int, Raise> {
    let text = stack.check_bytes(1)?;
    let mut whole = joined(stack, PIECES, pieces)?;
    whole.extend(&text[copied..])?;
    whole.push_value()?;
    stack.push_number(replaced as f64);
    Ok(2)
}

#[cfg(test)]
mod tests {
    use crate::against_lua::compare;

    /// Calls every function of patterns with drawn texts and patterns; a line per call says what
    /// came of it.
    const DRAWN: &[u8] = br##"
        local seed, lines = 20240607, {}
        local function draw(n)
            seed = (seed * 1103515245 + 12345) % 2147483648
            return math.floor(seed / 65536) % n + 1
        end
        local items = {"a", "b", ".", "%a", "%d", "%s", "%w", "%A", "%Z", "[ab]", "[^a]", "[a-c]", "[%d-]", "[]a]",
            "[^]%s]", "%.", "%b()", "%f[%a]", "%f[^%w]", "%1", "%2", "%0", "(", ")", "()", "(a*)", "(.-)", "^", "$",
            "-", "*", "+", "?", "%", "[", "]", "%z", "\0", " ", "%p", "%c", "%x", "%U", "%l", "%q", "[a", "[%"}
        local letters = {"a", "b", "c", "1", " ", "(", ")", ".", "\0", "A", "-", "\233", "]", "%", "\n"}
        local function text(from, most)
            local parts = {}
            for i = 1, draw(most + 1) - 1 do parts[i] = from[draw(#from)] end
            return table.concat(parts)
        end
        local function note(what, ...)
            local parts = {what}
            for i = 1, select("#", ...) do parts[#parts + 1] = tostring((select(i, ...))) end
            lines[#lines + 1] = table.concat(parts, "|")
        end
        local function all(s, p)
            local seen = {}
            for a, b in string.gmatch(s, p) do
                seen[#seen + 1] = tostring(a) .. "," .. tostring(b)
                if #seen > 20 then break end
            end
            return table.concat(seen, ";")
        end
        local replacements = {"x", "%0%0", "<%1>", "%2", "%", "%%", "%a", 7, {a = "X", b = false, [""] = 1},
            function(...) return select("#", ...) .. tostring((...)) end, function() end, function(a) return {} end,
            setmetatable({}, {__index = function(t, k) return k .. "!" end}), function(a) return a, 1 end}
        for i = 1, 12000 do
            local s, p = text(letters, 9), text(items, 5)
            local from = draw(14) - 6
            note(s .. "~" .. p .. "~" .. from, pcall(string.find, s, p, from))
            note("match", pcall(string.match, s, p, from))
            note("plain", pcall(string.find, s, p, from, draw(2) == 1))
            note("gmatch", pcall(all, s, p))
            local replacement = replacements[draw(#replacements)]
            note("gsub " .. type(replacement), pcall(string.gsub, s, p, replacement))
            note("gsub", pcall(string.gsub, s, p, replacement, draw(5) - 2))
            note("rep", pcall(string.rep, s, draw(5) - 2))
        end
        note("arguments", pcall(string.find, "a"))
        note("arguments", pcall(string.gsub, "a", "a"))
        note("arguments", pcall(string.gsub, "a", "a", true))
        note("arguments", pcall(string.gsub, "a", "a", "b", "c"))
        note("arguments", pcall(string.rep, "a"))
        note("arguments", pcall(string.gmatch, {}, "a"))
        note("numbers", string.find(1234, 23), string.gsub(1212, 1, 3), string.rep(12, "3"))
        note("errors", pcall(string.gsub, "abc", "%w", function(c) error("of " .. c, 0) end))
        return table.concat(lines, "\n")
    "##;

    #[test]
    fn patterns_match_as_luas_own_do() {
        compare(DRAWN);
    }
}
