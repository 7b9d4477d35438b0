//! Functions: libraries, their declarations, and calls.

use crate::client::Client;

const LIBRARY: &[u8] = b"#!lua name=lib
redis.register_function('echo', function(keys, args) return {keys[1], args[1], #keys, #args} end)
redis.register_function{function_name='get', callback=function(keys) return redis.call('GET', keys[1]) end, \
flags={'no-writes', 'allow-oom'}, description='reads'}
redis.register_function('set', function(keys, args) return redis.call('SET', keys[1], args[1]) end)
redis.register_function('fails', function() error('boom') end)
redis.register_function('global', function() x = 1 end)
redis.register_function('keys', function() return KEYS end)
redis.register_function('declares', function() redis.register_function('x', function() end) end)
local n = 0
redis.register_function('counts', function() n = n + 1 return n end)";

fn loaded() -> Client {
    let mut client = Client::new();
    assert_eq!(crate::client::show(&client.call(&[b"FUNCTION", b"LOAD", LIBRARY])), "\"lib\"");
    client
}

#[test]
fn calls() {
    loaded().follow(
        r##"
        FCALL echo 1 a b => ["a" "b" 1 1]
        FCALL ECHO 0 => []
        FCALL set 1 k v => OK
        FCALL get 1 k => "v"
        FCALL_RO get 1 k => "v"
        FCALL_RO set 1 k v => ERR Can not execute a script with write flag using *_ro command.
        FCALL nope 0 => ERR Function not found
        FCALL echo x => ERR Bad number of keys provided
        FCALL echo -1 => ERR Number of keys can't be negative
        FCALL echo 3 a => ERR Number of keys can't be greater than number of args
        FCALL fails 0 => ERR user_function:5: boom script: fails, on @user_function:5.
        FCALL global 0 => ERR user_function:6: Attempt to modify a readonly table script: global, on @user_function:6.
        FCALL keys 0 => ERR user_function:7: Script attempted to access nonexistent global variable 'KEYS' script: keys, ...
        FCALL declares 0 => ERR user_function:8: attempt to call field 'register_function' (a nil value) script: ...
        FCALL counts 0 => 1
        FCALL counts 0 => 2
        "##,
    );
}

#[test]
fn libraries() {
    let mut client = loaded();
    let before = client.run("FUNCTION LIST LIBRARYNAME L*");
    assert!(
        before.starts_with("[[\"library_name\" \"lib\" \"engine\" \"LUA\" \"functions\""),
        "{before}"
    );
    client.follow(
        r##"
        FUNCTION LIST LIBRARYNAME x* => []
        FUNCTION LIST LIBRARYNAME => ERR library name argument was not given
        FUNCTION LIST WITHCODE WITHCODE => ERR Unknown argument WITHCODE
        FUNCTION STATS => ["running_script" nil "engines" ["LUA" ["libraries_count" 1 "functions_count" 8]]]
        FUNCTION RESTORE abc => ERR DUMP payload version or checksum are wrong
        FUNCTION RESTORE abc x => ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.
        FUNCTION KILL => NOTBUSY No scripts in execution right now.
        "##,
    );
    let petrel_resp::Value::Bulk(dump) = client.call(&[b"FUNCTION", b"DUMP"]) else {
        panic!("no bytes")
    };
    let mut restore = |policy: &[u8]| {
        crate::client::show(&client.call(&[b"FUNCTION", b"RESTORE", &dump, policy]))
    };
    assert_eq!(restore(b"APPEND"), "ERR Library lib already exists");
    assert_eq!(restore(b"REPLACE"), "OK");
    assert_eq!(restore(b"FLUSH"), "OK");
    client.follow(
        r##"
        FUNCTION DELETE nope => ERR Library not found
        FUNCTION DELETE lib => OK
        FCALL echo 0 => ERR Function not found
        "##,
    );
    assert_eq!(crate::client::show(&client.call(&[b"FUNCTION", b"RESTORE", &dump])), "OK");
    client.follow(
        r##"
        FCALL echo 0 => []
        FUNCTION FLUSH x => ERR FUNCTION FLUSH only supports SYNC|ASYNC option
        FUNCTION FLUSH SYNC => OK
        FUNCTION LIST => []
        "##,
    );
}

#[test]
fn a_change_is_seen_by_every_thread() {
    let mut client = loaded();
    let mut other = client.another();
    assert_eq!(other.run("FCALL echo 0"), "[]");
    let changed: &[u8] =
        b"#!lua name=lib\nredis.register_function('echo', function() return 7 end)";
    client.call(&[b"FUNCTION", b"LOAD", b"REPLACE", changed]);
    assert_eq!(other.run("FCALL echo 0"), "7");
    assert_eq!(other.run("FCALL get 0"), "ERR Function not found");
}

#[test]
fn what_libraries_may_not_be() {
    Client::new().follow(
        r##"
        FUNCTION LOAD "return 1" => ERR Missing library metadata
        FUNCTION LOAD "#!lua\nreturn 1" => ERR Library name was not given
        FUNCTION LOAD "#!foo name=x\nreturn 1" => ERR Engine 'foo' not found
        FUNCTION LOAD "#!lua name=x-y\nreturn 1" => ERR Library names can only contain letters, ...
        FUNCTION LOAD "#!lua name=a name=b\nreturn 1" => ERR Invalid metadata value, name argument was given multiple times
        FUNCTION LOAD "#!lua foo=a\nreturn 1" => ERR Invalid metadata value given: foo=a
        FUNCTION LOAD foo "#!lua name=a" => ERR Unknown option given: foo
        FUNCTION LOAD "#!lua name=a\nreturn 1" => ERR No functions registered
        FUNCTION LOAD "#!lua name=a\nx y" => ERR Error compiling function: user_function:2: '=' expected near 'y'
        FUNCTION LOAD "#!lua name=a\nredis.call('GET','x')" => ERR Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'call'
        FUNCTION LOAD "#!lua name=a\nfoo=1" => ERR Error registering functions: ERR user_function:2: Attempt to modify a readonly table
        FUNCTION LOAD "#!lua name=a\nreturn math" => ERR Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'math'
        FUNCTION LOAD "#!lua name=a\nredis.register_function()" => ERR Error registering functions: ERR wrong number of arguments to redis.register_function
        FUNCTION LOAD "#!lua name=a\nredis.register_function('a-b',function() end)" => ERR Error registering functions: ERR Library names can only contain letters, ...
        FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='a'}" => ERR Error registering functions: ERR redis.register_function must get a callback argument
        FUNCTION LOAD "#!lua name=a\nredis.register_function{function_name='a',callback=function() end,flags={'x'}}" => ERR Error registering functions: ERR unknown flag given
        EVAL "#!lua flags=NO-WRITES\nreturn 1" 0 => ERR Unexpected flag in script shebang: NO-WRITES
        FUNCTION LOAD "#!lua name=caps\nredis.register_function{function_name='c',callback=function() end,flags={'NO-WRITES'}}" => "caps"
        FUNCTION LIST LIBRARYNAME caps => [["library_name" "caps" "engine" "LUA" "functions" [["name" "c" "description" nil "flags" [no-writes]]]]]
        FUNCTION DELETE caps => OK
        FUNCTION LOAD "#!lua name=a\nredis.register_function('a',function() end) redis.register_function('a',function() end)" => ERR Error registering functions: ERR Function already exists in the library
        FUNCTION LOAD "#!lua name=a\nwhile true do end" => ERR Error registering functions: ERR FUNCTION LOAD timeout
        FUNCTION LOAD "#!lua name=a\nredis.register_function('f',function() end)" => "a"
        FUNCTION LOAD "#!lua name=b\nredis.register_function('F',function() end)" => ERR Function F already exists
        FUNCTION LOAD "#!lua name=a\nredis.register_function('f',function() end)" => ERR Library 'a' already exists
        "##,
    );
}
