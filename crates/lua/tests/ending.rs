//! A script ends when it is to end, whatever it does: it cannot catch that, hand it to a handler of
//! its own, or stay where it is not asked.

use petrel_lua::{Failure, Lua, Purpose, Release, ScriptReply, Server};
use petrel_resp::{Dialect, Protocol, Reply, RespWriter};
use std::borrow::Cow;
use std::sync::mpsc;
use std::time::Duration;

/// Memory of scripts.
const LIMIT: usize = 128 << 20;

/// A script that has not ended by then never does.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends a script after a number of questions.
#[derive(Clone, Copy, Default)]
struct Ender {
    ends_after: usize,
    asked: usize,
    /// Calls of a command once the script was to end.
    called_after: usize,
}

impl Server for Ender {
    fn call(&mut self, args: &[&[u8]], reply: &mut ScriptReply) -> bool {
        self.called_after += usize::from(self.asked >= self.ends_after);
        reply.bulk(args[0]);
        // Each command took long, so that it is asked at its end.
        true
    }

    fn interrupt(&mut self) -> Option<Cow<'static, str>> {
        self.asked += 1;
        (self.asked >= self.ends_after).then(|| "ended".into())
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, &'static str> {
        Ok(true)
    }
}

fn interpreter() -> Lua {
    let release =
        Release { dialect: Dialect::default(), redis_version: "8.0.0", valkey_version: "9.0.0" };
    Lua::new(Purpose::Scripts, LIMIT, release)
}

/// Compiles and runs a script: what comes of it, and the server behind it.
fn run(lua: &mut Lua, script: &str, args: &[&[u8]], server: &mut Ender) -> Result<(), Failure> {
    let compiled = lua.compile(script.as_bytes(), c"s", server);
    let compiled = compiled.map_err(|text| Failure { text, ..Failure::default() })?;
    let (mut bytes, mut shared) = (Vec::new(), Vec::new());
    let mut reply = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp2);
    let result = lua.run_script(&compiled, &[], args, server, &mut reply);
    lua.release(compiled);
    result
}

/// Does something on another thread, and fails if that does not return.
fn patiently<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{error}: {what}"))
}

/// Runs a script that is to end after some questions.
fn ends(script: &str, args: &[Vec<u8>]) {
    for ends_after in [1, 40] {
        ends_at(ends_after, script, args);
    }
}

fn ends_at(ends_after: usize, script: &str, args: &[Vec<u8>]) {
    let (text, args) = (script.to_owned(), args.to_vec());
    let (result, server) = patiently(script, move || {
        let mut lua = interpreter();
        let mut server = Ender { ends_after, ..Ender::default() };
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let result = run(&mut lua, &text, &args, &mut server);
        // The interpreter can be used as before.
        let mut other = Ender { ends_after: usize::MAX, ..Ender::default() };
        assert_eq!(run(&mut lua, "return pcall(error, 'so')", &[], &mut other), Ok(()));
        (result, server)
    });
    let text = result.expect_err(script).text;
    assert_eq!(String::from_utf8_lossy(&text), "ERR ended", "{script}");
    assert_eq!((server.asked, server.called_after), (ends_after, 0), "{script}");
}

#[test]
fn error_handlers_end() {
    for script in [
        "xpcall(error, function() while true do end end)",
        "while true do xpcall(error, function() while true do end end) end",
        "xpcall(error, function() xpcall(error, function() while true do end end) while true do end end)",
        "local function f() while true do xpcall(error, f) end end f()",
        "xpcall(function() while true do end end, function() while true do end end)",
        "xpcall(function() while true do end end, function() return redis.call('again') end) while true do end",
        "xpcall(error, function() while true do pcall(function() while true do end end) end end)",
        "xpcall(error, function() coroutine.wrap(function() while true do end end)() end) while true do end",
        "xpcall(error, function() while true do coroutine.resume(coroutine.create(function() while true do end end)) end end)",
        "coroutine.wrap(function() xpcall(error, function() while true do end end) end)() while true do end",
        "local f f = coroutine.wrap(function() while true do pcall(coroutine.yield) end end) while true do f() end",
        "xpcall(error, function() while true do redis.pcall('get') end end)",
        "xpcall(error, function() while true do redis.call('get') end end)",
        "xpcall(redis.call, function() while true do end end)",
        // An error in a handler calls the handler.
        "local function f() local n = 0 while n < 1e6 do n = n + 1 end error('again') end while true do xpcall(error, f) end",
        "local function f() return f() + 1 end while true do xpcall(f, f) end",
        "local function f() return pcall(f) and f() end while true do xpcall(f, function() return f() end) end",
        "local t = setmetatable({}, {__tostring = function() while true do end end}) error(tostring(t))",
        "local t = setmetatable({}, {__tostring = function() while true do end end}) \
         xpcall(function() error(t) end, function(e) return tostring(e) end)",
        "local t = setmetatable({}, {__index = function() while true do end end}) \
         xpcall(function() return t.x end, function(e) return t.x end)",
        "while true do xpcall(error, error) end",
        "while true do xpcall(error, pcall) end",
        "while true do xpcall(error, xpcall) end",
        "while true do xpcall(error, coroutine.wrap(function() while true do pcall(coroutine.yield) end end)) end",
    ] {
        ends(script, &[]);
    }
}

#[test]
fn what_catches_errors_does_not_catch_the_end() {
    for script in [
        "while true do pcall(function() while true do end end) end",
        "local function f() while true do pcall(f) end end f()",
        "local function f() while true do coroutine.wrap(f)() end end while true do pcall(f) end",
        "while true do pcall(string.rep, 'x', 1e6) end",
        "while true do pcall(pcall, pcall, string.rep, 'x', 1e6) end",
        "while true do pcall(xpcall, function() while true do end end, function() end) end",
        "while true do pcall(table.sort, {3, 2, 1}, function() while true do end end) end",
        "while true do pcall(string.gsub, 'x', 'x', function() while true do end end) end",
        "while true do pcall(load, function() while true do end end) end",
        "while true do loadstring(string.rep('a = 1 ', 1e5)) end",
        "while true do pcall(redis.call, 'get') end",
        "local t = setmetatable({}, {__lt = function() while true do end end}) \
         while true do pcall(table.sort, {t, t, t}) end",
        "local t = setmetatable({}, {__concat = function() while true do end end}) while true do pcall(function() return t .. t end) end",
    ] {
        ends(script, &[]);
    }
}

/// Functions that call each other and run no instruction of the script in between.
#[test]
fn functions_that_call_functions_end() {
    for script in [
        "load(os.clock)",
        "load(math.random)",
        "while true do pcall(load, redis.setresp) pcall(load, math.random) end",
        // Every table has the next ones as its keys.
        "local level = {[{}] = table.foreach} for depth = 1, 30 do \
             local next = {} for i = 1, 30 do local t = {} for k, v in pairs(level) do t[k] = v end next[t] = table.foreach end level = next \
         end while true do table.foreach(level, table.foreach) end",
        "local f = coroutine.wrap(function() while true do coroutine.yield() end end) \
         local t = {} for i = 1, 1e5 do t[i] = i end while true do table.foreachi(t, f) end",
        "local t = {} for i = 1, 1e4 do t[i] = 'x' end while true do table.foreachi(t, redis.call) end",
        "local t = {} for i = 1, 1e4 do t[string.rep] = 'x' t[i] = 1 end while true do table.foreach(t, pcall) end",
        "local t = {} for i = 1, 1e5 do t[i] = i % 7 end while true do table.sort(t, math.min) end",
        "while true do string.gsub(string.rep('a', 1e5), 'a', string.upper) end",
    ] {
        ends(script, &[]);
    }
}

#[test]
fn long_calls_end() {
    for script in [
        "string.find(('a'):rep(50), ('a*'):rep(30) .. 'b')",
        "string.gsub(('a'):rep(1e5), ('[' .. ('b'):rep(1000) .. 'a]*'):rep(3) .. 'c', '')",
        "table.insert({}, -2147483647, 1)",
        "local t = {1, 2, 3} table.insert(t, -2^31 + 1, 1)",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.concat(t) table.maxn(t) end",
        "local s = string.rep('\\0', 1e6) while true do string.format('%q', s) end",
        "loadstring('local a return ' .. string.rep('a and ', 2e5) .. 'a') while true do end",
        "loadstring('local a if a then ' .. string.rep('elseif a then ', 2e5)) while true do end",
        "while true do load(function() return 'a=1 ' end) end",
    ] {
        ends(script, &[]);
    }
}

/// A script's settings of the garbage collector never make one allocation collect everything.
#[test]
fn the_collector_leaves_time() {
    for setting in [
        "setpause', 0",
        "setstepmul', 0",
        "setstepmul'",
        "setstepmul', 2^30",
        "setstepmul', -1",
        "setpause', -2^31",
        "setstepmul', nil",
    ] {
        let build = "local t = {} for i = 1, 500 do local u = {} for j = 1, 500 do u[j] = {} end t[i] = u end";
        let set = format!("collectgarbage('setpause', 0) collectgarbage('{setting})");
        ends(&format!("{build} {set} while true do local x = {{}} end"), &[]);
    }
}

/// Strings of which Lua hashes the same bytes: to make one more takes the longer the more there
/// are.
fn alike(count: usize) -> Vec<Vec<u8>> {
    let unhashed: Vec<usize> = (0..64).filter(|at| at % 3 != 0).collect();
    let one = |n: usize| {
        let mut text = vec![b'a'; 64];
        (0..20).filter(|bit| n >> bit & 1 == 1).for_each(|bit| text[unhashed[bit]] = b'b');
        text
    };
    (0..count).map(one).collect()
}

#[test]
fn strings_that_are_alike_keep_no_script_from_ending() {
    let list = [&b"[\""[..], &alike(1 << 16).join(&b"\",\""[..]), b"\"]"].concat();
    // As if each took no longer than any, the first would be asked five times, and the second six.
    ends_at(20, "return #cjson.decode(ARGV[1])", std::slice::from_ref(&list));
    ends_at(20, "return 1", &alike(1 << 16));
    ends_at(20, "for text in string.gmatch(ARGV[1], '%a+') do end", &[list]);
}

#[test]
fn a_text_that_takes_long_to_compile_is_given_up() {
    for (before, part) in
        [("return ", "a and "), ("return ", "not a or "), ("if a then ", "elseif a then ")]
    {
        let script = format!("local a {before}{}a", part.repeat(1 << 20));
        let (result, asked) = patiently(part, move || {
            let mut server = Ender { ends_after: 30, ..Ender::default() };
            let result = interpreter().compile(script.as_bytes(), c"s", &mut server);
            (result, server.asked)
        });
        assert_eq!(result, Err(b"ERR ended".to_vec()), "{part}");
        assert_eq!(asked, 30);
    }
}

/// The error names the place where the script was when it ended.
#[test]
fn the_end_has_a_place() {
    for (script, line) in [
        ("\nwhile true do end", 2),
        ("\n\nlocal f = string.rep\nwhile true do pcall(f, 'x', 1e6) end", 4),
        ("xpcall(error,\nfunction()\nwhile true do end end)", 3),
        ("coroutine.wrap(function()\nwhile true do end end)()", 2),
    ] {
        let mut server = Ender { ends_after: 3, ..Ender::default() };
        let failure = run(&mut interpreter(), script, &[], &mut server).expect_err(script);
        assert_eq!(failure.place, Some((b"s".to_vec(), line)), "{script}");
        assert!(!failure.is_counted);
    }
}

/// Errors that do not end the script go to handlers and are caught as usual.
#[test]
fn other_errors_are_caught() {
    let mut lua = interpreter();
    for script in [
        "local ok, text = xpcall(function() error('so', 0) end, function(e) return e .. '!' end) assert(not ok and text == 'so!')",
        "local ok, text = xpcall(error, function() error('so') end) assert(not ok)",
        "local ok, text = pcall(string.rep, 'x', 1e9) assert(not ok and text == 'not enough memory')",
        "local ok, text = pcall(function() local s = 'x' while true do s = s .. s end end) assert(not ok and text == 'not enough memory')",
        "local f = coroutine.wrap(function() error({1}) end) local ok, t = pcall(f) assert(not ok and t[1] == 1)",
        "local n = 0 assert(table.foreach({1, 2, a = 3}, function(k, v) n = n + v end) == nil and n == 6)",
        "assert(table.foreach({5, 6}, function(k, v) return v > 5 and k or nil end) == 2)",
        "assert(table.foreachi({5, 6, 7}, function(i, v) return v == 6 and i or nil end) == 2)",
        "assert(table.foreachi({5, 6, 7}, function() end) == nil)",
        "assert(not pcall(table.foreach, 1, 2) and not pcall(table.foreach, {}) and not pcall(table.foreachi, {}, 2))",
        "local t = {1, 2} table.insert(t, 0, 9) assert(t[0] == 9 and t[1] == nil and t[2] == 1 and t[3] == 2)",
        "local t = {1, 2} table.insert(t, -1, 9) assert(t[-1] == 9 and t[0] == nil and t[3] == 2)",
        "local t = {1, 2} table.insert(t, 1, 9) table.insert(t, 9, 8) table.insert(t, 7) assert(table.concat(t, ',') == '9,1,2,,7' or t[1] == 9)",
        "assert(not pcall(table.insert, {}, 1, 2, 3) and not pcall(table.insert, 1, 2) and not pcall(table.insert, {}))",
        "assert(not pcall(table.insert, string, 0, 1) and not pcall(table.insert, string, 1))",
        "local n = 0 local f = load(function() n = n + 1 return ({'return ', 7, nil})[n] end) assert(f() == 7)",
        "local f, text = load(function() end) assert(type(f) == 'function')",
        "local f, text = load(function() return nil end, 'name') assert(type(f) == 'function')",
        "local ok, text = pcall(load, function() return {} end) assert(not ok and text:find('must return a string'))",
        "assert(string.format('%s %5d %q', 'x', 7, 'y') == 'x     7 \"y\"' and table.maxn({1, 2, [9] = 1}) == 9)",
        "assert(collectgarbage('setpause', 300) == 200 and collectgarbage('setpause') == 300 and collectgarbage('count') > 0)",
    ] {
        let mut server = Ender { ends_after: usize::MAX, ..Ender::default() };
        assert_eq!(run(&mut lua, script, &[], &mut server), Ok(()), "{script}");
    }
}
