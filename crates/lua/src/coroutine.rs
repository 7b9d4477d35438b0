//! `coroutine.resume` and `coroutine.wrap`: those of Lua 5.1, but that it is known which coroutine
//! runs, and that a script that creates and resumes many of them is asked whether to go on: each
//! counts its instructions for itself.

use crate::vm::{self, LUA_TNUMBER, LUA_TSTRING, Raise, Stack, lua_State};
use crate::work::count_work;
use mlua_sys as ffi;
use std::ffi::c_int;

/// Steps that resuming counts as: 100 coroutines may each execute what is between two looks at the
/// time.
const STEPS: usize = 1000;

// Beside what the bindings have.
unsafe extern "C-unwind" {
    /// Lets calls of the interpreter within `to` count as nested in those of `from`.
    fn lua_setlevel(from: *mut lua_State, to: *mut lua_State);
}

/// `coroutine.resume(co [, value ...])`
pub(crate) unsafe extern "C-unwind" fn resume(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    unsafe {
        let co = ffi::lua_tothread(state, 1);
        if co.is_null() {
            return vm::run(state, |_| Err(Raise::Argument(1, "coroutine expected".into())));
        }
        let resumed = run(state, co, ffi::lua_gettop(state) - 1);
        ffi::lua_pushboolean(state, c_int::from(resumed.is_some()));
        let values = resumed.unwrap_or(1);
        ffi::lua_insert(state, -(values + 1));
        values + 1
    }
}

/// `coroutine.wrap(f)`, for which the first upvalue is `coroutine.create`.
pub(crate) unsafe extern "C-unwind" fn wrap(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    unsafe {
        vm::call_upvalue(Stack::of(state));
        ffi::lua_pushcclosure(state, wrapped, 1);
    }
    1
}

/// The function that `wrap` answers, whose upvalue is the coroutine.
unsafe extern "C-unwind" fn wrapped(state: *mut lua_State) -> c_int {
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    unsafe {
        let co = ffi::lua_tothread(state, ffi::lua_upvalueindex(1));
        match run(state, co, ffi::lua_gettop(state)) {
            Some(values) => values,
            None => {
                if matches!(ffi::lua_type(state, -1), LUA_TSTRING | LUA_TNUMBER) {
                    ffi::luaL_where(state, 1);
                    ffi::lua_insert(state, -2);
                    ffi::lua_concat(state, 2);
                }
                ffi::lua_error(state)
            }
        }
    }
}

/// Resumes a coroutine with this many values from the top, and leaves what it yields or returns: so
/// many values. Or, if it cannot be resumed or fails, the error alone: none.
unsafe fn run(state: *mut lua_State, co: *mut lua_State, args: c_int) -> Option<c_int> {
    // SAFETY: both states are alive, the second because it is on the stack of the first, or an
    // upvalue of its function; this frame owns nothing. Nothing between the two settings of what
    // runs raises an error: resuming catches them.
    unsafe {
        vm::attempt(state, |stack| {
            count_work(stack, STEPS)?;
            let has_room = ffi::lua_checkstack(co, args) != 0;
            has_room.then_some(()).ok_or(Raise::fixed("too many arguments to resume"))
        });
        if let Some(status) = hindrance(state, co) {
            vm::attempt(state, |stack| {
                stack.push_bytes(format!("cannot resume {status} coroutine").as_bytes());
                Ok(())
            });
            return None;
        }
        ffi::lua_xmove(state, co, args);
        lua_setlevel(state, co);
        let (stack, inner) = (Stack::of(state), Stack::of(co));
        inner.set_period();
        stack.with(|extra| extra.running = co);
        let status = ffi::lua_resume_(co, args);
        stack.with(|extra| extra.running = state);
        // The script is to end: here too it does before the next instruction. Or its values have
        // grown.
        stack.set_period();
        if status != 0 && status != ffi::LUA_YIELD {
            ffi::lua_xmove(co, state, 1);
            return None;
        }
        let values = ffi::lua_gettop(co);
        vm::attempt(state, |stack| {
            let has_room = stack.reserve(values + 1);
            has_room.then_some(()).ok_or(Raise::fixed("too many results to resume"))
        });
        ffi::lua_xmove(co, state, values);
        Some(values)
    }
}

/// Why a coroutine cannot be resumed, if it cannot: what it is.
unsafe fn hindrance(state: *mut lua_State, co: *mut lua_State) -> Option<&'static str> {
    // SAFETY: as above; the record is filled in by the interpreter.
    unsafe {
        let mut record: ffi::lua_Debug = std::mem::zeroed();
        match ffi::lua_status(co) {
            _ if state == co => Some("running"),
            ffi::LUA_YIELD => None,
            0 if ffi::lua_getstack(co, 0, &mut record) > 0 => Some("normal"),
            0 if ffi::lua_gettop(co) > 0 => None,
            _ => Some("dead"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::against_lua::compare;

    /// What can be done with coroutines; a line says what came of each.
    const CALLS: &[u8] = br##"
        local lines = {}
        local function note(what, ...)
            local parts = {what}
            for i = 1, select("#", ...) do
                local value = tostring((select(i, ...)))
                parts[#parts + 1] = value:find("^thread") and "thread" or value
            end
            lines[#lines + 1] = table.concat(parts, "|")
        end
        local co = coroutine.create(function(a, b)
            note("began", a, b, coroutine.running())
            local c, d, e = coroutine.yield(a + b, "x")
            note("went on", c, d, e)
            coroutine.yield()
            error({})
        end)
        note("new", coroutine.status(co))
        note("first", coroutine.resume(co, 1, 2))
        note("waits", coroutine.status(co))
        note("second", coroutine.resume(co, nil, 4))
        note("third", (coroutine.resume(co)))
        note("dead", coroutine.status(co), coroutine.resume(co))
        note("returns", coroutine.resume(coroutine.create(function(...) return ... end), 1, nil, 3))
        note("fails", coroutine.resume(coroutine.create(function() error("so", 0) end)))
        note("itself", coroutine.resume(coroutine.create(function()
            return coroutine.resume(coroutine.running())
        end)))
        local outer
        outer = coroutine.create(function()
            return coroutine.resume(coroutine.create(function() return coroutine.status(outer), coroutine.resume(outer) end))
        end)
        note("the caller", coroutine.resume(outer))
        local sum = 0
        for value in coroutine.wrap(function() for i = 1, 100 do coroutine.yield(i) end end) do sum = sum + value end
        note("wrapped", sum)
        local wrapped = coroutine.wrap(function() error("so", 0) end)
        note("wrapped fails", pcall(wrapped))
        note("wrapped is dead", pcall(wrapped))
        note("a number", pcall(coroutine.wrap(function() error(7, 0) end)))
        note("a table", type(select(2, pcall(coroutine.wrap(function() error({}, 0) end)))))
        note("arguments", pcall(coroutine.resume, 1))
        note("arguments", pcall(coroutine.wrap, 1))
        note("arguments", pcall(coroutine.create, tostring))
        note("not outside", pcall(coroutine.yield, 1))
        local function nest(n) return n == 0 and 0 or coroutine.wrap(function() return nest(n - 1) + 1 end)() end
        note("nested", nest(100))
        note("nested too deep", (pcall(nest, 300)))
        local many = {}
        for i = 1, 7000 do many[i] = i end
        note("many", select("#", coroutine.resume(coroutine.create(function(...) return ... end), unpack(many))))
        return table.concat(lines, "\n")
    "##;

    #[test]
    fn coroutines_run_as_luas_own_do() {
        compare(CALLS);
    }
}
