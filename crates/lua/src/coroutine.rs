//! `coroutine.resume` and `coroutine.wrap`: those of Lua 5.1, but that it is known which coroutine
//! runs, and that a script that creates and resumes many of them is asked whether to go on: each
//! counts its instructions for itself.

use crate::c_api;
use crate::interrupt::count_work;
use crate::vm::{self, LUA_TNUMBER, LUA_TSTRING, Raise, Stack};
use mlua_sys as ffi;
use std::ffi::c_int;

/// Steps counted for resuming a coroutine: the instruction hook starts again in each coroutine, so
/// 100 of them may each run a whole period between two checks of the time.
const STEPS: usize = 1000;

/// `coroutine.resume(co [, value ...])`
pub(crate) unsafe extern "C-unwind" fn resume(stack: Stack) -> c_int {
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    let resumed = unsafe {
        match stack.coroutine(1) {
            Some(co) => run(stack, co, stack.top() - 1),
            None => vm::attempt(stack, |_| Err(Raise::Argument(1, "coroutine expected".into()))),
        }
    };
    stack.push_boolean(resumed.is_some());
    let values = resumed.unwrap_or(1);
    stack.insert(-(values + 1));
    values + 1
}

/// `coroutine.wrap(f)`, for which the first upvalue is `coroutine.create`.
pub(crate) unsafe extern "C-unwind" fn wrap(stack: Stack) -> c_int {
    vm::call_upvalue(stack);
    stack.push_native(wrapped, 1);
    1
}

/// Native function returned by `coroutine.wrap`; its upvalue is the coroutine.
unsafe extern "C-unwind" fn wrapped(stack: Stack) -> c_int {
    let Some(co) = stack.coroutine(Stack::upvalue(1)) else { return 0 };
    // SAFETY: the interpreter passes its state; this frame owns nothing.
    unsafe {
        match run(stack, co, stack.top()) {
            Some(values) => values,
            None => {
                if matches!(stack.kind(-1), LUA_TSTRING | LUA_TNUMBER) {
                    stack.push_place();
                    stack.insert(-2);
                    stack.concatenate(2);
                }
                vm::raise(stack)
            }
        }
    }
}

/// Resumes a coroutine with the top `args` values. Returns the number of values that it yields or
/// returns, left on the stack; or `None` if it cannot be resumed or fails, with only the error
/// left.
///
/// # Safety
/// As for [`vm::raise`].
unsafe fn run(stack: Stack, co: Stack, args: c_int) -> Option<c_int> {
    // SAFETY: this frame owns nothing. Nothing between the two settings of what runs raises an
    // error: resuming catches them.
    unsafe {
        vm::attempt(stack, |stack| {
            count_work(stack, STEPS)?;
            co.reserve(args).then_some(()).ok_or(Raise::fixed("too many arguments to resume"))
        });
        if let Some(status) = hindrance(stack, co) {
            vm::attempt(stack, |stack| {
                stack.push_bytes(format!("cannot resume {status} coroutine").as_bytes());
                Ok(())
            });
            return None;
        }
        c_api::lua_xmove(stack, co, args);
        c_api::lua_setlevel(stack, co);
        co.set_period();
        stack.with(|extra| extra.running = Some(co));
        let status = c_api::lua_resume(co, args);
        stack.with(|extra| extra.running = Some(stack));
        // Its values may have grown.
        stack.set_period();
        if stack.ends() {
            vm::end(stack);
        }
        if status != 0 && status != ffi::LUA_YIELD {
            c_api::lua_xmove(co, stack, 1);
            return None;
        }
        let values = co.top();
        vm::attempt(stack, |stack| {
            let has_room = stack.reserve(values + 1);
            has_room.then_some(()).ok_or(Raise::fixed("too many results to resume"))
        });
        c_api::lua_xmove(co, stack, values);
        Some(values)
    }
}

/// State that prevents a coroutine from being resumed, if it is in one.
fn hindrance(stack: Stack, co: Stack) -> Option<&'static str> {
    match c_api::lua_status(co) {
        _ if stack == co => Some("running"),
        ffi::LUA_YIELD => None,
        0 if co.runs_function() => Some("normal"),
        0 if co.top() > 0 => None,
        _ => Some("dead"),
    }
}

#[cfg(test)]
mod tests {
    use crate::against_lua::compare;

    /// Operations on coroutines; each prints a line with its result.
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
