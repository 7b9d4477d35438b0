//! Scripts: results, restrictions, and memory freed afterwards.

use crate::client::{Client, show};
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn replies() {
    Client::new().follow(
        r##"
        EVAL "return 3.99" 0 => 3
        EVAL "return -3.99" 0 => -3
        EVAL "return 1/0" 0 => -9223372036854775808
        EVAL "return true" 0 => 1
        EVAL "return false" 0 => nil
        EVAL "return nil" 0 => nil
        EVAL "return {1,'a',{2,true,false},nil,4}" 0 => [1 "a" [2 1 nil]]
        EVAL "return {ok='fine'}" 0 => fine
        EVAL "return {ok=12}" 0 => []
        EVAL "return {err='FINE not'}" 0 => FINE not
        EVAL "return redis.error_reply('boom')" 0 => ERR boom
        EVAL "return redis.error_reply('-MY boom')" 0 => MY boom
        EVAL "return redis.error_reply()" 0 => ERR wrong number or type of arguments
        EVAL "return redis.status_reply('fine')" 0 => fine
        EVAL "return {double=3.5}" 0 => "3.5"
        EVAL "return {map={a=1}}" 0 => ["a" 1]
        EVAL "return {set={a=true}}" 0 => ["a"]
        EVAL "return {KEYS[1],KEYS[2],ARGV[1],ARGV[2],#KEYS,#ARGV}" 2 a b c => ["a" "b" "c"]
        EVAL "return function() end" 0 => nil
        EVAL "redis.setresp(3) return true" 0 => 1
        EVAL "redis.setresp(3) return false" 0 => 0
        EVAL "redis.setresp(4)" 0 => ERR RESP version must be 2 or 3. script: ...
        EVAL "return redis.sha1hex('')" 0 => "da39a3ee5e6b4b0d3255bfef95601890afd80709"
        EVAL "math.randomseed(5) return tostring(math.random())" 0 => "0.52483957937213"
        EVAL "return math.random(5,1)" 0 => ERR user_script:1: bad argument #2 to 'random' (interval is empty) script: ...
        EVAL "return redis.acl_check_cmd('set','a','b')" 0 => 1
        EVAL "return redis.acl_check_cmd('set')" 0 => ERR Wrong number of args for redis.acl_check_cmd() script: ...
        "##,
    );
    Client::new().resp3().follow(
        r##"
        EVAL "redis.setresp(3) return {true,false}" 0 => [Boolean(true) Boolean(false)]
        EVAL "return true" 0 => 1
        "##,
    );
}

#[test]
fn commands_of_scripts() {
    Client::new().follow(
        r##"
        EVAL "return redis.call('SET',KEYS[1],ARGV[1])" 1 a 7 => OK
        EVAL "return redis.call('GET',KEYS[1])" 1 a => "7"
        EVAL "return redis.call('GET',KEYS[1])" 1 b => nil
        EVAL "redis.setresp(3) return redis.call('GET',KEYS[1]) == nil" 1 b => 1
        EVAL "return redis.call('GET','a') .. redis.call('INCR','b')" 0 => "71"
        EVAL "return redis.call('INCRBY',KEYS[1],1.5)" 1 a => ERR value is not an integer or out of range script: ...
        EVAL "redis.call('SET','f',1e20) return redis.call('GET','f')" 0 => "1e+20"
        EVAL "return redis.call('HSET',KEYS[1],'x',1,'y',2)" 1 h => 2
        EVAL "return redis.call('HGETALL',KEYS[1])" 1 h => ["x" "1" "y" "2"]
        EVAL "redis.setresp(3) return redis.call('HGETALL',KEYS[1]).map.y" 1 h => "2"
        EVAL "return redis.call('LPUSH','l',1,2,3)" 1 l => 3
        EVAL "return redis.call('GET',KEYS[1])" 1 l => WRONGTYPE Operation against a key holding the wrong kind of value script: ...
        EVAL "local r=redis.pcall('GET',KEYS[1]) return {type(r),r.err}" 1 l => ["table" "WRONGTYPE Operation against a key holding the wrong kind of value"]
        EVAL "return redis.call()" 0 => ERR Please specify at least one argument for this redis lib call script: ...
        EVAL "return redis.call('SET','a',{})" 0 => ERR Lua redis lib command arguments must be strings or integers script: ...
        EVAL "return redis.call('NOPE')" 0 => ERR Unknown Redis command called from script script: ...
        EVAL "return redis.call('GET')" 0 => ERR Wrong number of args calling Redis command from script script: ...
        EVAL "return redis.pcall('MULTI')" 0 => ERR This Redis command is not allowed from script
        EVAL "return redis.pcall('EVAL','return 1',0)" 0 => ERR This Redis command is not allowed from script
        EVAL "return redis.pcall('WATCH','a')" 0 => ERR This Redis command is not allowed from script
        EVAL "return redis.call('BLPOP','nope',0)" 0 => nil
        EVAL "redis.call('FLUSHALL') return redis.call('DBSIZE')" 1 a => 0
        EVAL "return #redis.call('KEYS','*')" 1 a => 0
        "##,
    );
}

#[test]
fn errors() {
    Client::new().follow(
        r##"
        EVAL "error('boom')" 0 => ERR user_script:1: boom script: 82903a0434f1503e152f89c03c9acd881a0e8150, on @user_script:1.
        EVAL "error({err='MY boom'})" 0 => MY boom script: ...
        EVAL "error({})" 0 => ERR unknown error script: ...
        EVAL "error()" 0 => ERR nil script: ...
        EVAL "return (" 0 => ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'
        EVAL "return 1" => ERR wrong number of arguments for 'eval' command
        EVAL "return 1" x => ERR value is not an integer or out of range
        EVAL "return 1" -1 => ERR Number of keys can't be negative
        EVAL "return 1" 2 a => ERR Number of keys can't be greater than number of args
        EVAL "local function f() return f() + 1 end return f()" 0 => ERR user_script:1: stack overflow script: ...
        EVAL "local t={} t[1]=t return pcall(function() local u=setmetatable({},{__index=function(t,k) return t[k] end}) return u.x end)" 0 => nil
        "##,
    );
}

#[test]
fn flags() {
    Client::new().follow(
        r##"
        EVAL "#!lua\nreturn 1" 0 => 1
        EVAL "#!lua flags=no-writes\nreturn redis.call('SET','x',1)" 0 => ERR Write commands are not allowed from read-only scripts. script: 642c8addd939657fdb9f1a3651aa7e9c3e5b4fe8, on @user_script:2.
        EVAL "#!lua flags=nope\nreturn 1" 0 => ERR Unexpected flag in script shebang: nope
        EVAL "#!lua name=a\nreturn 1" 0 => ERR Unknown lua shebang option: name=a
        EVAL "#!foo\nreturn 1" 0 => ERR Unexpected engine in script shebang: #!foo
        EVAL #!lua 0 => ERR Invalid script shebang
        EVAL_RO "#!lua\nreturn 1" 0 => ERR Can not execute a script with write flag using *_ro command.
        EVAL_RO "#!lua flags=no-writes\nreturn 1" 0 => 1
        EVAL_RO "return redis.call('SET','x',1)" 0 => ERR Write commands are not allowed from read-only scripts. script: ...
        EVAL_RO "return redis.call('GET','x')" 1 x => nil
        "##,
    );
}

#[test]
fn known_scripts() {
    Client::new().follow(
        r##"
        EVALSHA nope 0 => NOSCRIPT No matching script. Please use EVAL.
        EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 => NOSCRIPT No matching script. Please use EVAL.
        SCRIPT LOAD "return 1" => "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
        EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 => 1
        EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0 => 1
        EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 => 1
        SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db nope => [1 0]
        SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db => "return 1"
        SCRIPT LOAD "x y" => ERR Error compiling script (new function): user_script:1: '=' expected near 'y'
        SCRIPT FLUSH nope => ERR SCRIPT FLUSH only support SYNC|ASYNC option
        SCRIPT FLUSH ASYNC => OK
        SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db => [0]
        EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0 => NOSCRIPT No matching script. Please use EVAL.
        SCRIPT KILL => NOTBUSY No scripts in execution right now.
        SCRIPT DEBUG NO => OK
        "##,
    );
}

#[test]
fn scripts_that_came_with_eval_are_forgotten_when_there_are_many() {
    let mut client = Client::new();
    let first = client.run("SCRIPT LOAD \"return 'stays'\"");
    let sum = |client: &mut Client, n: usize| {
        client.run(&format!("EVAL \"return redis.sha1hex('return {n}')\" 0"))
    };
    for n in 0..600 {
        assert_eq!(client.run(&format!("EVAL \"return {n}\" 0")), n.to_string());
    }
    let (oldest, newest) = (sum(&mut client, 0), sum(&mut client, 599));
    assert_eq!(
        client.run(&format!("SCRIPT EXISTS {oldest} {newest} {first}").replace('"', "")),
        "[0 1 1]"
    );
}

#[test]
fn nothing_is_left_behind() {
    Client::new().follow(
        r##"
        EVAL "x=10" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "return foo" 0 => ERR user_script:1: Script attempted to access nonexistent global variable 'foo' script: ...
        EVAL "redis = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "redis.call = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "KEYS = {}" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "string.len = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "math.abs = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "table.sort = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "os.clock = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "coroutine.wrap = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "getmetatable(_G).__index = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "getmetatable('').__index = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "getmetatable('').__index.len = 1" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "setmetatable(_G,{})" 0 => ERR Attempt to modify a readonly table script: ...
        EVAL "setmetatable(redis,{})" 0 => ERR Attempt to modify a readonly table script: ...
        EVAL "rawset(_G,'a',1)" 0 => ERR Attempt to modify a readonly table script: ...
        EVAL "table.insert(_G,1)" 0 => ERR Attempt to modify a readonly table script: ...
        EVAL "table.remove(math)" 0 => ERR Attempt to modify a readonly table script: ...
        EVAL "table.sort(_G)" 0 => ERR Attempt to modify a readonly table script: ...
        EVAL "for k,v in pairs(_G) do if type(v)=='table' and k~='KEYS' and k~='ARGV' then if pcall(function() v.x=1 end) then return k end end end return 'none'" 0 => "none"
        EVAL "local t=getmetatable(_G) while t do if pcall(function() t.x=1 end) then return 'open' end t=getmetatable(t) end return 'shut'" 0 => "shut"
        EVAL "return rawget(_G,'print')" 0 => nil
        EVAL "local n=0 for k in pairs(redis) do n=n+1 end return n > 10" 0 => 1
        EVAL "return type(rawget(_G,'redis'))" 0 => "table"
        EVAL "return _G._G == _G" 0 => 1
        EVAL "return next(_G) ~= nil" 0 => 1
        EVAL "return {pcall(next,_G,'nope')}" 0 => [nil "invalid key to \'next\'"]
        "##,
    );
}

#[test]
fn ways_out() {
    Client::new().follow(
        r##"
        EVAL "return {type(rawget(_G,'setfenv')),type(rawget(_G,'getfenv')),type(rawget(_G,'debug')),type(rawget(_G,'newproxy')),type(rawget(_G,'dofile')),type(rawget(_G,'require')),type(rawget(_G,'io'))}" 0 => ["nil" "nil" "nil" "nil" "nil" "nil" "nil"]
        EVAL "local n=0 for k in pairs(os) do n=n+1 end return {n,type(os.clock())}" 0 => [1 "number"]
        EVAL "return loadstring(string.dump(function() end))" 0 => nil
        EVAL "local s=string.dump(function() end) local n=0 return load(function() n=n+1 return s:sub(n,n) end)" 0 => nil
        EVAL "return pcall(unpack,{},0,2147483647)" 0 => nil
        EVAL "return pcall(unpack,{},-2147483648,2147483647)" 0 => nil
        EVAL "local a={} for i=1,7999 do a[i]=1 end return redis.call('LPUSH',KEYS[1],unpack(a))" 1 long => 7999
        EVAL "return loadstring('return 7')()" 0 => 7
        EVAL "local p={'return',' 8'} local n=0 return load(function() n=n+1 return p[n] end)()" 0 => 8
        EVAL "loadstring('x=1')()" 0 => ERR [string "x=1"]:1: Attempt to modify a readonly table script: ...
        EVAL "return type(rawget(_G,'package'))" 0 => "nil"
        EVAL "return loadstring('return ['..string.rep('=',100000)..'[')" 0 => nil
        EVAL "return loadstring('return ['..string.rep('=',100000)..'[x]'..string.rep('=',100000)..']')()" 0 => "x"
        EVAL "for i=1,200 do loadstring('local a={} return '..i,string.rep('n',i))() collectgarbage() end return 1" 0 => 1
        EVAL "return pcall(string.format,'%99999d',1)" 0 => nil
        EVAL "getmetatable('').__add = function() return 1 end" 0 => ERR user_script:1: Attempt to modify a readonly table script: ...
        EVAL "return pcall(setmetatable,'',{})" 0 => nil
        EVAL "return {pcall(function() return 'a'+1 end)}" 0 => [nil "user_script:1: attempt to perform arithmetic on a string value"]
        "##,
    );
}

/// Exhausting memory, the interpreter's stack or the thread's stack ends with an error.
#[test]
fn scripts_that_exhaust_what_there_is_fail() {
    const MEMORY: &str = "not enough memory";
    const STACK: &str = "stack overflow";
    let mut client = Client::new();
    client.exec.shared.scripts.memory_max.store(8 << 20, Relaxed);
    for (script, error) in [
        ("local s = 'x' while true do s = s .. s end", MEMORY),
        ("local t = {} while true do t[#t + 1] = {} end", MEMORY),
        ("local t = {} while true do t = {t} end", MEMORY),
        ("local t = {} for i = 1, 1e9 do t[i] = i end", MEMORY),
        ("local t = {} while true do t[#t + 1] = coroutine.create(function() end) end", MEMORY),
        ("local t = {} while true do t[#t + 1] = function() return t end end", MEMORY),
        (
            "local s, t = string.rep('x', 1e6), {} for i = 1, 1e3 do t[i] = s end return table.concat(t)",
            MEMORY,
        ),
        ("return string.gsub(string.rep('x', 1e5), 'x', string.rep('y', 1e3))", MEMORY),
        (
            "return string.format(string.rep('%s', 90), unpack({string.rep('x', 1e6)}))",
            "bad argument",
        ),
        ("local t = {} for i = 1, 30 do t = {t, t} end return cjson.encode(t)", MEMORY),
        ("local t = {} for i = 1, 16 do t = {t, t, t, t} end return cmsgpack.pack(t)", MEMORY),
        ("local function f() return f() + 1 end return f()", STACK),
        ("local function f(s) return string.gsub(s, '.', f) end return f('x')", STACK),
        ("local function f() return coroutine.wrap(f)() end return f()", STACK),
        (
            "local t = {} setmetatable(t, {__index = function(t, k) return t[k] end}) return t.x",
            STACK,
        ),
        ("local function f(t) table.sort(t, function() f({2, 1}) end) end f({2, 1})", STACK),
        (
            "local t = {} setmetatable(t, {__index = t, __newindex = t}) return t.x",
            "loop in gettable",
        ),
        ("assert(loadstring(string.rep('(', 1e5)))", "too many syntax levels"),
        ("return unpack({}, 1, 1e7)", "too many results"),
    ] {
        let reply = client.run(&format!("EVAL \"{script}\" 0"));
        assert!(reply.starts_with("ERR ") && reply.contains(error), "{script}: {reply}");
        // Its memory is free again, and further scripts run.
        assert_eq!(client.run("EVAL \"return #string.rep('x', 1e6)\" 0"), "1000000", "{script}");
    }
}

#[test]
fn transactions_and_scripts() {
    let mut client = Client::new();
    client.follow(
        r##"
        MULTI => OK
        EVAL "return redis.call('SET','b',1)" 1 a => QUEUED
        EVAL "return redis.call('INCR','b')" 0 => QUEUED
        EXEC => [OK 2]
        WATCH b => OK
        EVAL "return redis.call('INCR','b')" 0 => 3
        MULTI => OK
        GET b => QUEUED
        EXEC => nil-array
        "##,
    );
}

/// Every change of a watched key aborts the transaction, however it is made, and no other call
/// does.
#[test]
fn watched_keys_and_scripts() {
    let mut client = Client::new();
    let mut other = client.another();
    let library: &[u8] = b"#!lua name=w\nredis.register_function('w', function(k) return redis.call('SET', k[1], 'f') end)";
    client.call(&[b"FUNCTION", b"LOAD", library]);
    for (script, changes) in [
        ("EVAL \"return redis.call('SET', 'k', 1)\" 0", true),
        ("EVAL \"return redis.call('SET', KEYS[1], 2)\" 1 k", true),
        ("EVAL \"redis.call('SET', 'k', 3) error('late')\" 0", true),
        ("EVAL \"return redis.pcall('LPUSH', 'k', 3)\" 0", false),
        ("EVAL \"return redis.call('GET', 'k')\" 0", false),
        ("EVAL_RO \"return redis.pcall('SET', 'k', 4)\" 1 k", false),
        ("FCALL w 1 k", true),
        ("FCALL w 1 l", false),
    ] {
        client.follow("SET k 0 => OK\nWATCH k => OK");
        other.run(script);
        client.follow("MULTI => OK\nSET done 1 => QUEUED");
        assert_eq!(client.run("EXEC"), if changes { "nil-array" } else { "[OK]" }, "{script}");
    }
}

#[test]
fn scripts_under_the_memory_limit() {
    let mut client = Client::new();
    client.follow("SET k v => OK");
    let keyspace = client.exec.ks.keyspace().clone();
    keyspace.set_memory_limit(1, petrel_keyspace::Policy::NoEviction);
    client.follow(
        r##"
        EVAL "return redis.call('GET', 'k')" 0 => "v"
        EVAL "return redis.call('SET', 'k', 'w')" 0 => OOM command not allowed when used memory > 'maxmemory'...
        EVAL "return redis.pcall('LPUSH', KEYS[1], 'w')" 1 l => OOM command not allowed when used memory > 'maxmemory'...
        EVAL "#!lua\nreturn 1" 0 => OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'
        EVAL "#!lua flags=no-writes\nreturn redis.call('GET', 'k')" 0 => "v"
        EVAL "#!lua flags=allow-oom\nreturn redis.call('SET', 'k', 'w')" 0 => OK
        EVAL "redis.call('DEL', 'k') return redis.call('SET', 'k', 'x')" 0 => OK
        "##,
    );
    // Eviction makes room for a script beforehand, and does not count the script's memory while it
    // runs.
    keyspace.set_memory_limit(0, petrel_keyspace::Policy::AllKeysLru);
    for n in 0..200 {
        client.run(&format!("SET filler{n} {}", "x".repeat(100)));
    }
    let limit = keyspace.stats().used / 2;
    keyspace.set_memory_limit(limit, petrel_keyspace::Policy::AllKeysLru);
    client.follow(
        r##"
        EVAL "redis.call('SET', 'mine', 'v') return redis.call('GET', 'mine')" 0 => "v"
        "##,
    );
    assert!(keyspace.stats().evicted > 0);
}

/// PFCOUNT may write its cached count, so it is rejected in read-only scripts.
#[test]
fn counting_in_a_hyperloglog_is_no_mere_reading() {
    let mut client = Client::new();
    client.follow("PFADD k a b => 1");
    let text = "return redis.call('PFCOUNT', KEYS[1])";
    let flagged = format!("#!lua flags=no-writes\n{text}");
    let ask = |client: &mut Client, command: &str, script: &str| {
        show(&client.call(&[command.as_bytes(), script.as_bytes(), b"1", b"k"]))
    };
    assert_eq!(ask(&mut client, "EVAL", text), "2");
    for (command, script) in [("EVAL_RO", text), ("EVAL", &flagged), ("EVAL_RO", &flagged)] {
        let reply = ask(&mut client, command, script);
        assert!(reply.contains("Write commands are not allowed from read-only scripts"), "{reply}");
    }
    let get = text.replace("PFCOUNT", "STRLEN");
    assert!(!ask(&mut client, "EVAL_RO", &get).contains("not allowed"));
}
