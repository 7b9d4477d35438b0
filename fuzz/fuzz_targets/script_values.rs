//! Values that a script builds are converted, encoded and decoded under a small limit of memory: no more is ever allocated
//! than it and `SLACK`, and nothing panics.
//!
//! Each byte of the input is a step: what becomes of the values in hand, or the text that is decoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_lua::{Lua, Purpose, Release, ScriptReply, Server};
use petrel_resp::{Dialect, Protocol, Reply, RespWriter};
use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// Memory of scripts: the interpreter itself takes some 40 KiB of it.
const LIMIT: usize = 512 << 10;

/// What may be allocated beyond it: messages, the interpreter's stack, arguments of commands.
const SLACK: isize = 256 << 10;

static NOW: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

struct Counting;

fn count(change: isize) {
    let now = NOW.fetch_add(change, Relaxed) + change;
    PEAK.fetch_max(now, Relaxed);
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

/// Answers a command with a reply that its arguments describe, and ends the script after a while.
struct Replies {
    questions: u32,
}

impl Server for Replies {
    fn call(&mut self, args: &[&[u8]], reply: &mut ScriptReply) -> bool {
        let text = args.get(1).copied().unwrap_or_default();
        for &byte in text.iter().take(64) {
            let len = usize::from(byte >> 3);
            match byte & 7 {
                0 => reply.array(len),
                1 => reply.map(len),
                2 => reply.set(len),
                3 => drop(reply.attribute(len)),
                4 => reply.bulk(&[b'x'; 4096][..len * 128]),
                5 => reply.double(len as f64),
                6 => reply.verbatim(b"txt", &text[..text.len().min(len)]),
                _ => reply.error(text),
            }
        }
        // What was announced comes, and more than that is dropped.
        (0..4000).for_each(|n| reply.integer(n));
        false
    }

    fn interrupt(&mut self) -> Option<Cow<'static, str>> {
        self.questions += 1;
        (self.questions > 40).then(|| "ended".into())
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, &'static str> {
        Ok(true)
    }
}

/// Does a step with each byte of `ARGV[1]`; `ARGV[2]` is what is decoded.
const SCRIPT: &[u8] = br##"
local input, text = ARGV[1], ARGV[2]
local value, other = {}, text
local deep = {}
local function step(byte)
    local kind, n = byte % 32, math.floor(byte / 32) + 1
    if kind == 0 then value = {value, other}
    elseif kind == 1 then for i = 1, 4 ^ n do value = {value} end
    elseif kind == 2 then local t = {} for i = 1, 4 ^ n do t[i] = value end value = t
    elseif kind == 3 then local t = {} for i = 1, 4 ^ n do t['k' .. i] = value end value = t
    elseif kind == 4 then value, other = other, value
    elseif kind == 5 then value = cjson.encode(value)
    elseif kind == 6 then value = cjson.decode(value)
    elseif kind == 7 then value = cmsgpack.pack(value, other)
    elseif kind == 8 then value, other = cmsgpack.unpack(value)
    elseif kind == 9 then value = string.rep(value, 4 ^ n)
    elseif kind == 10 then value = string.gsub(value, '.', string.rep('%0', n * n))
    elseif kind == 11 then value = string.gsub(value, '.', function(c) return c .. c end)
    elseif kind == 12 then value = {string.match(value, '(((.*)))')}
    elseif kind == 13 then value = struct.pack('sBc0>I4!8d', value, n, value, n, n)
    elseif kind == 14 then value = {struct.unpack(text, value)}
    elseif kind == 15 then value = redis.call('any', value)
    elseif kind == 16 then redis.setresp(n % 2 + 2)
    elseif kind == 17 then value = {map = value}
    elseif kind == 18 then value = {set = value, [value] = value}
    elseif kind == 19 then value = {verbatim_string = {string = value, format = other}}
    elseif kind == 20 then value = {ok = value}
    elseif kind == 21 then value = {big_number = value}
    elseif kind == 22 then value = redis.error_reply(value)
    elseif kind == 23 then value[1] = value
    elseif kind == 24 then value = text
    elseif kind == 25 then value = 0.1 * n
    elseif kind == 26 then value = {redis.sha1hex(value), loadstring(value)}
    elseif kind == 27 then value = {redis.pcall('any', unpack(value))}
    elseif kind == 28 then collectgarbage(({'stop', 'restart', 'collect', 'step'})[n % 4 + 1])
    elseif kind == 29 then deep[#deep + 1] = value
    elseif kind == 30 then cjson.encode_sparse_array(true, n, n) cjson.encode_invalid_numbers(n % 2 == 0)
    else redis.log(1, value, value) end
end
for i = 1, #input do
    local ok, message = pcall(step, string.byte(input, i))
    if not ok and type(message) == 'string' and #message > 100 then value = message end
end
return {value, other, deep}
"##;

fuzz_target!(|input: &[u8]| {
    let Some((&split, rest)) = input.split_first() else { return };
    let (steps, text) = rest.split_at(rest.len().min(usize::from(split)));
    let release =
        Release { dialect: Dialect::default(), redis_version: "8.0.0", valkey_version: "9.0.0" };
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let mut lua = Lua::new(Purpose::Scripts, LIMIT, release);
    let compiled =
        lua.compile(SCRIPT, c"s", &mut Replies { questions: 0 }).expect("the script is right");
    // What is written is bounded by as much, and not the script's memory.
    let (mut bytes, mut shared) = (Vec::with_capacity(2 * LIMIT), Vec::new());
    PEAK.store(NOW.load(Relaxed), Relaxed);
    let outside = 2 * LIMIT as isize;
    let mut reply = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3);
    let result =
        lua.run_script(&compiled, &[], &[steps, text], &mut Replies { questions: 0 }, &mut reply);
    let peak = PEAK.load(Relaxed) - before - outside;
    assert!(peak <= LIMIT as isize + SLACK, "{peak} bytes");
    assert!(bytes.len() <= LIMIT + SLACK as usize);
    assert!(result.is_ok() || bytes.is_empty());
    lua.release(compiled);
    // Nothing of it is left for the next.
    let again =
        lua.compile(b"return #KEYS", c"s", &mut Replies { questions: 0 }).expect("it is right");
    let mut reply = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3);
    lua.run_script(&again, &[], &[], &mut Replies { questions: 0 }, &mut reply).expect("it runs");
    lua.release(again);
});
