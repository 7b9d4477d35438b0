//! Limits of scripts: memory, counted by the allocator, and work between two checks whether to
//! continue.

use petrel_lua::{Compiled, Failure, Lua, Purpose, Release, ScriptReply, Server};
use petrel_resp::{Dialect, Protocol, Reply, RespWriter};
use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most that it had.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(change: isize) {
    let now = NOW.get() + change;
    NOW.set(now);
    PEAK.set(PEAK.get().max(now));
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory of scripts.
const LIMIT: usize = 16 << 20;

/// Allowance beyond the limit: messages, the interpreter's stack, initial memory of a library
/// function's frame.
const SLACK: isize = 256 << 10;

/// Answers commands with large replies, and counts questions.
#[derive(Default)]
struct Asked {
    interrupts: usize,
    /// Interrupts before each call of `mark`.
    marks: Vec<usize>,
    /// Questions until the script is to end; 0: it is not.
    ends_after: usize,
    /// Bytes at which the reply is dropped; 0: at none.
    reply_max: usize,
    results: usize,
    /// Like `ends_after`, but counts checks while the result is written.
    result_ends_after: usize,
    noted: usize,
}

impl Server for Asked {
    fn call(&mut self, args: &[&[u8]], reply: &mut ScriptReply) -> bool {
        let count = |at: usize| -> usize {
            args.get(at).and_then(|arg| std::str::from_utf8(arg).ok()?.parse().ok()).unwrap_or(0)
        };
        match args[0] {
            b"mark" => {
                self.marks.push(self.interrupts);
                reply.null();
            }
            b"list" => {
                reply.array(count(1));
                (0..count(1)).for_each(|_| reply.bulk(&[b'x'; 100]));
            }
            b"map" => {
                reply.map(count(1));
                for n in 0..count(1) {
                    reply.integer(n as i64);
                    reply.double(0.5);
                }
            }
            b"tables" => {
                reply.array(count(1));
                (0..count(1)).for_each(|_| reply.array(0));
            }
            _ => reply.bulk(&vec![b'x'; count(1)]),
        }
        false
    }

    fn interrupt(&mut self) -> Option<Cow<'static, str>> {
        self.interrupts += 1;
        (self.interrupts == self.ends_after).then(|| "ended".into())
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, &'static str> {
        Ok(true)
    }

    fn begin_result(&mut self) {
        self.results += 1;
        if self.result_ends_after > 0 {
            self.interrupts = 0;
            self.ends_after = self.result_ends_after;
        }
    }

    fn note_result(&mut self, bytes: usize) {
        self.noted = bytes;
    }
}

fn interpreter(limit: usize) -> Lua {
    let release =
        Release { dialect: Dialect::default(), redis_version: "8.0.0", valkey_version: "9.0.0" };
    Lua::new(Purpose::Scripts, limit, release)
}

/// Runs a script: what comes of it, and the reply.
fn run(
    lua: &mut Lua,
    script: &str,
    args: &[&[u8]],
    server: &mut Asked,
) -> (Result<(), Failure>, Vec<u8>) {
    let compiled: Compiled = match lua.compile(script.as_bytes(), c"s", server) {
        Ok(compiled) => compiled,
        Err(text) => return (Err(Failure { text, ..Failure::default() }), Vec::new()),
    };
    let (mut bytes, mut shared) = (b"+before\r\n".to_vec(), Vec::new());
    let end = if server.reply_max > 0 { server.reply_max } else { usize::MAX };
    let mut reply = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp2).limited(end);
    let result = lua.run_script(&compiled, &[], args, server, &mut reply);
    lua.release(compiled);
    assert!(bytes.starts_with(b"+before\r\n"));
    (result, bytes.split_off(b"+before\r\n".len()))
}

/// Each makes much of little, or would.
const GREEDY: &[&str] = &[
    "return #cmsgpack.pack(cmsgpack.unpack(string.rep('\\145\\144', 3e6)))",
    "local s = '\\221' .. struct.pack('>I4', 4e6) .. string.rep('\\144', 4e6) cmsgpack.unpack(s)",
    "local s = '\\221' .. struct.pack('>I4', 4e6) .. string.rep('\\1', 4e6) cmsgpack.unpack(s)",
    "local s = '\\223' .. struct.pack('>I4', 4e6) for i = 1, 3e5 do s = s end cmsgpack.unpack(s)",
    "local t = {} for i = 1, 1e5 do t[i] = struct.pack('>BI4B', 206, i, 1) end \
     cmsgpack.unpack('\\223' .. struct.pack('>I4', 1e5) .. table.concat(t))",
    "local s = cmsgpack.pack(string.rep('x', 2e6)) s = string.rep(s, 3) cmsgpack.unpack(s)",
    "local s = cmsgpack.pack(string.rep('x', 3e6)) local t = {} \
     for i = 1, 8 do t[i] = cmsgpack.unpack(s) .. i end",
    "cjson.decode('[' .. string.rep('[],', 2e6) .. '1]')",
    "cjson.decode('[' .. string.rep('1,', 3e6) .. '1]')",
    "cjson.decode('[\"' .. string.rep('x', 7e6) .. '\"]')",
    "local t = {} for i = 1, 1e5 do t[i] = '\"' .. i .. '\":1' end cjson.decode('{' .. table.concat(t, ',') .. '}')",
    "local s = string.rep('\\1', 2e6) cjson.encode(s)",
    "local s = string.rep('x', 5e6) cjson.encode({s, s, s, s})",
    "local t = {} for i = 1, 20 do t = {t, t} end cjson.encode(t)",
    "local t = {} for i = 1, 15 do t = {t, t, t, t} end cmsgpack.pack(t)",
    "local s = string.rep('x', 5e6) cmsgpack.pack(s, s, s, s, s)",
    "string.gsub(string.rep('a', 1e6), '.*', string.rep('%0', 1e5))",
    "string.gsub(string.rep('a', 1e6), 'a', string.rep('b', 1e3))",
    "string.gsub(string.rep('a', 1e6), 'a', function() return 'bcdefgh' end)",
    "local s = string.rep('a', 4e6) string.match(s, string.rep('(', 30) .. '.*' .. string.rep(')', 30))",
    "local s = string.rep('a', 4e6) for a, b, c in string.gmatch(s, '((((.*))))') do end",
    "string.rep('x', 15e6)",
    "string.rep('abcdefg', 2e6)",
    "local s = string.rep('x', 6e6) struct.pack('ssssss', s, s, s, s, s, s)",
    "struct.unpack(string.rep('c4000000', 5), string.rep('x', 20e6))",
    "local s = string.rep('x', 2e6) struct.unpack(string.rep('s!', 20), string.rep(s .. '\\0', 6))",
    "struct.pack(string.rep('x', 10e6))",
    "local s = string.rep('x', 9e6) redis.log(3, s, s, s, s)",
    "local s = string.rep('x', 9e6) redis.error_reply(s)",
    "local s = string.rep('x', 9e6) error(s)",
    "local s = string.rep('x', 9e6) return {err = s}",
    "local s = string.rep('\\255', 9e6) return {ok = s}",
    "local s = string.rep('\\255', 3e6) return _G[s]",
    "local s = string.rep('x', 9e6) cjson.encode_invalid_numbers(s)",
    "local s = string.rep('x', 2e6) redis.call('get', unpack((function() \
         local t = {} for i = 1, 5000 do t[i] = s end return t end)()))",
    "redis.call('list', 1e6)",
    "redis.call('map', 1e6)",
    "redis.setresp(3) redis.call('map', 1e6)",
    "redis.call('tables', 1e6)",
    "redis.call('get', 15e6)",
    "local t = {} for i = 1, 40 do t[i] = redis.pcall('get', 1e6) end",
    "loadstring(string.rep('a=1 ', 2e6))",
    "load((function() local n = 0 return function() n = n + 1 return n < 9e5 and 'a=1 b=2 ' or nil end end)())",
    "local t = {} for i = 1, 1e6 do t[i] = i end",
    "local s = 'x' while true do s = s .. s end",
];

#[test]
fn no_function_takes_more_memory_than_scripts_may_have() {
    for held in ["", "for i = 1, 3e5 do KEYS[i] = i end "] {
        for greedy in GREEDY {
            let script = format!("{held}{greedy}");
            let mut lua = interpreter(LIMIT);
            let before = NOW.get() - lua.memory() as isize;
            // Exclude the memory of a command's reply and of the written result: it is not the
            // script's.
            let outside = 15_000_000 * isize::from(greedy.contains("'get', 15e6"));
            PEAK.set(NOW.get());
            let (result, reply) = run(&mut lua, &script, &[], &mut Asked::default());
            let peak = PEAK.get() - before - outside - reply.len() as isize * 2;
            assert!(peak < LIMIT as isize + SLACK, "{peak} {script}: {:?}", result.map_err(shown));
            // The script's memory is free afterwards.
            assert_eq!(
                run(&mut lua, "return 1", &[], &mut Asked::default()),
                (Ok(()), b":1\r\n".to_vec())
            );
            assert!(lua.memory() < LIMIT / 2, "{script}");
        }
    }
}

fn shown(failure: Failure) -> String {
    String::from_utf8_lossy(&failure.text[..failure.text.len().min(100)]).into_owned()
}

#[test]
fn functions_may_take_what_scripts_may_have() {
    let mut lua = interpreter(LIMIT);
    for (script, reply) in [
        ("return #cjson.encode(string.rep('x', 4e6))", ":4000002\r\n"),
        ("return #cjson.decode('[' .. string.rep('1,', 1e5) .. '1]')", ":100001\r\n"),
        ("return #cmsgpack.unpack('\\220\\255\\255' .. string.rep('\\1', 65535))", ":65535\r\n"),
        ("return #string.gsub(string.rep('a', 1e6), 'a', 'bbb')", ":3000000\r\n"),
        ("return #redis.call('list', 5e4)", ":50000\r\n"),
        // Garbage makes room.
        (
            "local n = 0 for i = 1, 50 do n = n + #cjson.encode(string.rep('x', 3e6)) end return n",
            ":150000100\r\n",
        ),
        (
            "local n = 0 for i = 1, 50 do n = n + #redis.call('get', 3e6) end return n",
            ":150000000\r\n",
        ),
        (
            "local n = 0 for i = 1, 50 do n = n + #cmsgpack.pack(cmsgpack.unpack(cmsgpack.pack(string.rep('x', 2e6)))) end return n",
            ":100000250\r\n",
        ),
    ] {
        let (result, got) = run(&mut lua, script, &[], &mut Asked::default());
        assert_eq!((result, &*String::from_utf8_lossy(&got)), (Ok(()), reply), "{script}");
    }
}

#[test]
fn long_calls_are_asked_in_their_course_whether_to_go_on() {
    let text = "x".repeat(8 << 20);
    // Work in one step, such as copying or compiling, is counted before.
    for (call, least) in [
        ("cjson.encode(ARGV[1])", 4),
        ("cjson.decode('\"' .. ARGV[1] .. '\"')", 4),
        ("cjson.decode(string.rep(' ', 8e6) .. '1')", 4),
        ("cmsgpack.unpack(cmsgpack.pack(ARGV[1]))", 1),
        ("redis.sha1hex(ARGV[1])", 4),
        ("string.gsub(ARGV[1], '.*', '%0%0')", 4),
        ("string.rep('x', 2e7)", 4),
        ("redis.log(3, ARGV[1])", 1),
        ("loadstring('return \"' .. ARGV[1] .. '\"')", 1),
        ("struct.pack(string.rep('x', 8e6))", 4),
        ("struct.size(string.rep('x', 8e6))", 4),
        ("struct.unpack(string.rep('x', 8e6), ARGV[1])", 4),
    ] {
        let script = format!("local r = redis.call r('mark') local v = {call} r('mark')");
        let mut server = Asked::default();
        let (result, _) =
            run(&mut interpreter(256 << 20), &script, &[text.as_bytes()], &mut server);
        assert_eq!(result, Ok(()), "{call}");
        // Checks during the call.
        let asked = server.marks[1] - server.marks[0];
        assert!(asked >= least, "{call}: {asked}");
        // And it ends, at once, though it may be caught.
        let script = format!("pcall(function() return {call} end) redis.call('mark')");
        let ends_after = server.marks[0] + least;
        let mut server = Asked { ends_after, ..Asked::default() };
        let (result, _) =
            run(&mut interpreter(256 << 20), &script, &[text.as_bytes()], &mut server);
        assert_eq!(shown(result.unwrap_err()), "ERR ended", "{call}");
        assert!(server.marks.is_empty());
    }
}

/// A table that holds another a thousand times, which does so in turn.
const NESTED: &str = "local t = {} for i = 1, 1e3 do t[i] = t end return t";

#[test]
fn a_result_is_no_larger_than_scripts_may_have_memory() {
    let mut lua = interpreter(LIMIT);
    for script in [
        NESTED,
        "local t = {} for i = 1, 1e3 do t[i] = t end return {map = t}",
        "local s = string.rep('x', 1e6) local t = {} for i = 1, 100 do t[i] = s end return t",
        "local s = string.rep('x', 1e6) local t = {} for i = 1, 100 do t[i] = {ok = s} end return t",
        "local s = {verbatim_string = {string = string.rep('x', 1e6), format = 'txt'}} \
         local t = {} for i = 1, 100 do t[i] = s end return t",
    ] {
        let (result, reply) = run(&mut lua, script, &[], &mut Asked::default());
        assert_eq!(
            shown(result.unwrap_err()),
            "ERR the script's result is larger than script-memory-limit",
            "{script}"
        );
        assert!(reply.is_empty());
    }
    let (result, reply) = run(&mut lua, "return string.rep('x', 7e6)", &[], &mut Asked::default());
    assert_eq!((result, reply.len()), (Ok(()), 7_000_012));
}

#[test]
fn writing_a_result_ends_when_the_script_is_to_end() {
    let mut lua = interpreter(LIMIT);
    // The last writes next to nothing: it looks at many fields that are no more there.
    let emptied = "local m = {} for i = 1, 5e4 do m['k' .. i] = i end for i = 1, 5e4 do m['k' .. i] = nil end \
                   local e = {map = m} local t = {} for i = 1, 1e5 do t[i] = e end return t";
    for script in [NESTED, emptied] {
        let mut server = Asked { result_ends_after: 10, ..Asked::default() };
        let (result, reply) = run(&mut lua, script, &[], &mut server);
        assert_eq!(shown(result.unwrap_err()), "ERR ended");
        assert_eq!((server.results, reply.len()), (1, 0));
        // The next one is not.
        let (result, reply) = run(&mut lua, "return {1}", &[], &mut Asked::default());
        assert_eq!((result, &reply[..]), (Ok(()), &b"*1\r\n:1\r\n"[..]));
    }
}

#[test]
fn a_result_that_nobody_will_read_is_not_written() {
    let mut server = Asked { reply_max: 1 << 20, ..Asked::default() };
    let (result, reply) = run(&mut interpreter(LIMIT), NESTED, &[], &mut server);
    // What came behind is dropped by the writer's owner.
    assert!(result.is_ok() && reply.len() < 4096, "{}", reply.len());
    // It would be sixteen times as large.
    assert!((100_000..1 << 20).contains(&server.noted), "{}", server.noted);
    // A small value is not announced.
    let mut server = Asked::default();
    let (result, reply) = run(&mut interpreter(LIMIT), "return 'x'", &[], &mut server);
    assert_eq!((result, &reply[..], server.results), (Ok(()), &b"$1\r\nx\r\n"[..], 0));
}

#[test]
fn how_often_garbage_is_collected_is_each_scripts_own() {
    let mut lua = interpreter(64 << 20);
    let grown = |lua: &mut Lua| {
        let script = "local t for i = 1, 2e5 do t = {i} end return 1";
        let base = lua.memory();
        PEAK.set(NOW.get());
        run(lua, script, &[], &mut Asked::default()).0.expect("it runs");
        PEAK.get() - NOW.get() + lua.memory() as isize - base as isize
    };
    let usual = grown(&mut lua);
    for setting in [
        "collectgarbage('stop')",
        "collectgarbage('setpause', 100000)",
        "collectgarbage('setstepmul', 1)",
        "pcall(collectgarbage, 'stop') error('so')",
        "coroutine.wrap(collectgarbage)('stop')",
    ] {
        let _ = run(&mut lua, setting, &[], &mut Asked::default());
        lua.collect();
        let now = grown(&mut lua);
        assert!(now < usual * 3 + (1 << 20), "{setting}: {now} against {usual}");
    }
    // Values that were set before.
    let values = "return {collectgarbage('setpause', 300), collectgarbage('setstepmul', 300)}";
    for _ in 0..2 {
        let (result, reply) = run(&mut lua, values, &[], &mut Asked::default());
        assert_eq!((result, &reply[..]), (Ok(()), &b"*2\r\n:200\r\n:200\r\n"[..]));
    }
}

#[test]
fn arguments_are_part_of_the_memory() {
    let mut lua = interpreter(LIMIT);
    let large = vec![b'x'; LIMIT];
    let (result, _) = run(&mut lua, "return 1", &[&large], &mut Asked::default());
    assert_eq!(shown(result.unwrap_err()), "ERR not enough memory");
    let (result, _) = run(&mut lua, "return 1", &[&large[..1000]], &mut Asked::default());
    assert_eq!(result, Ok(()));
}

/// Calls every function with as many arguments as fit into a frame, and few: the interpreter's
/// assertions, which debug builds have, end the process if one takes more room than it asked for.
const FULL_FRAMES: &str = r##"
    local sizes = {0, 1, 2, 3, 19, 20, 21, 22, 7950, 7980, 7990, 7997}
    local calls = 0
    local function try(f, value)
        for _, size in ipairs(sizes) do
            local arguments = {}
            for i = 1, size do arguments[i] = value end
            pcall(f, unpack(arguments, 1, size))
            pcall(pcall, f, unpack(arguments, 1, size))
            xpcall(function() return f(unpack(arguments, 1, size)) end, f)
            pcall(coroutine.wrap(function(...) return f(...) end), unpack(arguments, 1, size))
            calls = calls + 1
        end
    end
    local function try_all(library, seen)
        for name, f in pairs(library) do
            if type(f) == "function" then
                for _, value in ipairs({1, "x", "1", {1, 2, 3}, function(...) return ... end, unpack}) do
                    try(f, value)
                end
            elseif type(f) == "table" and not seen[f] then
                seen[f] = true
                try_all(f, seen)
            end
        end
    end
    try_all(_G, {[_G] = true})
    assert(select("#", pcall(unpack, {}, 1, 7990)) == 7991)
    assert(select("#", xpcall(function() return unpack({}, 1, 7990) end, error)) == 7991)
    local depth = 0
    local function deeper() depth = depth + 1 return xpcall(deeper, deeper) end
    deeper()
    assert(depth > 100)
    return calls
"##;

#[test]
fn functions_keep_to_their_frames() {
    let (result, reply) = run(&mut interpreter(256 << 20), FULL_FRAMES, &[], &mut Asked::default());
    assert_eq!(result.map_err(shown), Ok(()));
    assert!(reply.len() >= b":1000\r\n".len(), "{}", String::from_utf8_lossy(&reply));
}
