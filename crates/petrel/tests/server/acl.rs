//! Users: logging in, changes that hold for living connections, files.

use crate::harness::{Scratch, Server, eventually, run_to_end};
use std::time::Duration;

#[test]
fn users_log_in_and_are_known_by_their_names() {
    let server = Server::start("epoll", &[]);
    let (mut admin, mut client) = (server.connect(), server.connect());
    assert_eq!(admin.text(&["ACL", "SETUSER", "bob", "on", ">one", ">two", "~*", "+@all"]), "OK");
    const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
    for wrong in [&["AUTH", "bob", "three"], &["AUTH", "nobody", "one"], &["AUTH", "BOB", "one"]] {
        assert_eq!(client.text(wrong), WRONG);
    }
    assert!(client.text(&["AUTH", "one"]).starts_with("ERR AUTH <password> called without"));
    assert_eq!(client.text(&["AUTH", "bob", "one", "x"]), "ERR syntax error");
    assert_eq!(client.text(&["ACL", "WHOAMI"]), "default");
    assert_eq!(client.text(&["AUTH", "bob", "two"]), "OK");
    assert_eq!(client.text(&["ACL", "WHOAMI"]), "bob");
    assert!(client.text(&["CLIENT", "INFO"]).contains(" user=bob "));
    assert_eq!(client.text(&["RESET"]), "RESET");
    assert_eq!(client.text(&["ACL", "WHOAMI"]), "default");
    assert_eq!(client.text(&["HELLO", "2", "AUTH", "bob", "no", "SETNAME", "x"]), WRONG);
    assert_eq!(client.text(&["CLIENT", "GETNAME"]), "nil");
    client.call(&["HELLO", "3", "AUTH", "bob", "one", "SETNAME", "x"]);
    assert_eq!(client.text(&["ACL", "WHOAMI"]), "bob");
    assert!(admin.text(&["CLIENT", "LIST", "USER", "bob"]).contains(" name=x "));
    assert_eq!(admin.text(&["CLIENT", "LIST", "USER", "nobody"]), "ERR No such user 'nobody'");
    assert_eq!(admin.text(&["CLIENT", "KILL", "USER", "bob"]), "1");
    assert_eq!(client.receive(), None);
    assert_eq!(server.info("acl_access_denied_auth"), 4);
}

#[test]
fn guessing_passwords_is_logged_now_and_then() {
    let server = Server::start("epoll", &["--requirepass", "secret"]);
    let mut client = server.connect();
    for i in 0..500 {
        assert!(client.text(&["AUTH", &i.to_string()]).starts_with("WRONGPASS"));
    }
    assert_eq!(client.text(&["AUTH", "secret"]), "OK");
    let entries = client.text(&["ACL", "LOG"]);
    assert!(entries.contains("count 500 reason auth "), "{entries}");
    let lines = server.output().matches("login failed for a client at").count();
    assert!((1..100).contains(&lines), "{lines} lines");
}

#[test]
fn changes_hold_for_living_connections_of_every_worker() {
    let server = Server::start("epoll", &["--threads", "2"]);
    let mut admin = server.connect();
    let rules = ["ACL", "SETUSER", "bob", "on", "nopass", "~*", "&*", "+@all"];
    assert_eq!(admin.text(&rules), "OK");
    let mut others: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for other in &mut others {
        assert_eq!(other.text(&["AUTH", "bob", "x"]), "OK");
        assert_eq!(other.text(&["SET", "k", "v"]), "OK");
    }
    assert_eq!(admin.text(&["ACL", "SETUSER", "bob", "-set"]), "OK");
    for other in &mut others {
        let refused = "NOPERM User bob has no permissions to run the 'set' command";
        assert_eq!(other.text(&["SET", "k", "v"]), refused);
        assert_eq!(other.text(&["GET", "k"]), "\"v\"".trim_matches('"'));
    }
    // Permissions of blocked clients are checked again when they could be served; a refused element
    // stays.
    others[0].send(&["BLPOP", "list", "0"]);
    eventually("it waits", || server.info("blocked_clients") == 1);
    assert_eq!(admin.text(&["ACL", "SETUSER", "bob", "resetkeys", "~k"]), "OK");
    assert_eq!(admin.text(&["RPUSH", "list", "a"]), "1");
    let answer = others[0].receive().map(|value| crate::harness::show(&value));
    assert_eq!(answer.as_deref(), Some("NOPERM No permissions to access a key"));
    assert_eq!(admin.text(&["LLEN", "list"]), "1");
    assert_eq!(admin.text(&["ACL", "DELUSER", "bob", "nobody"]), "1");
    for other in &mut others {
        assert_eq!(other.receive(), None, "connections of users that are gone are closed");
    }
    assert_eq!(admin.text(&["PING"]), "PONG");
}

/// A blocked client is served with the rights of that moment, or not at all: what would have been
/// taken stays.
#[test]
fn who_waits_may_lose_the_right_to_what_comes() {
    let server = Server::start("epoll", &["--threads", "2"]);
    let mut admin = server.connect();
    assert_eq!(admin.text(&["XGROUP", "CREATE", "stream", "g", "$", "MKSTREAM"]), "OK");
    let no_key = "NOPERM No permissions to access a key";
    let no_command =
        |name: &str| format!("NOPERM User bob has no permissions to run the '{name}' command");
    let group = ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "stream", ">"];
    // The blocked command, the changed permissions, the arriving data, and the reply.
    type Case<'c> = (&'c [&'c str], &'c [&'c str], &'c [&'c str], String);
    let cases: [Case<'_>; 9] = [
        (&["BLPOP", "a", "b", "0"], &["resetkeys", "~a"], &["RPUSH", "a", "v"], no_key.into()),
        (&["BRPOP", "a", "0"], &["-brpop"], &["RPUSH", "a", "v"], no_command("brpop")),
        (
            &["BLMPOP", "0", "2", "a", "b", "LEFT"],
            &["resetkeys", "~b"],
            &["RPUSH", "b", "v"],
            no_key.into(),
        ),
        (
            &["BLMOVE", "a", "b", "LEFT", "LEFT", "0"],
            &["resetkeys", "~a", "%R~b"],
            &["RPUSH", "a", "v"],
            no_key.into(),
        ),
        (
            &["BRPOPLPUSH", "a", "b", "0"],
            &["-@all"],
            &["RPUSH", "a", "v"],
            no_command("brpoplpush"),
        ),
        (&["BZPOPMIN", "z", "0"], &["resetkeys", "%R~z"], &["ZADD", "z", "1", "v"], no_key.into()),
        (
            &["BZMPOP", "0", "1", "z", "MAX"],
            &["-@sortedset"],
            &["ZADD", "z", "1", "v"],
            no_command("bzmpop"),
        ),
        (&group, &["db=1"], &["XADD", "stream", "*", "f", "v"], String::new()),
        (
            &["XREAD", "BLOCK", "0", "STREAMS", "stream", "$"],
            &["resetkeys", "%W~stream"],
            &["XADD", "stream", "*", "f", "v"],
            no_key.into(),
        ),
    ];
    for (wait, lost, feed, refused) in cases {
        let rules = ["ACL", "SETUSER", "bob", "reset", "on", "nopass", "~*", "&*", "+@all"];
        assert_eq!(admin.text(&rules), "OK");
        let mut client = server.connect();
        assert_eq!(client.text(&["AUTH", "bob", "x"]), "OK");
        client.send(wait);
        eventually("it waits", || server.info("blocked_clients") == 1);
        assert_eq!(admin.text(&[&["ACL", "SETUSER", "bob"], lost].concat()), "OK");
        admin.call(feed);
        let answer = client.receive().map(|value| crate::harness::show(&value)).unwrap();
        if refused.is_empty() {
            assert!(answer.starts_with("NOPERM No permissions to access database"), "{answer}");
        } else {
            assert_eq!(answer, refused, "{wait:?}");
        }
        let left = match feed[0] {
            "RPUSH" => admin.text(&["LLEN", feed[1]]),
            "ZADD" => admin.text(&["ZCARD", feed[1]]),
            _ => admin.text(&["XPENDING", "stream", "g"]).replace("[0 nil nil nil]", "1"),
        };
        assert_eq!(left, "1", "{wait:?}");
        assert_eq!(admin.text(&["DEL", "a", "b", "z"]), if feed[0] == "XADD" { "0" } else { "1" });
    }
}

/// MIGRATE reads and removes the key here, so it needs permission for both.
#[test]
fn keys_are_not_migrated_by_who_may_not_touch_them() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    let rules = ["ACL", "SETUSER", "bob", "on", "nopass", "+@all", "~k*", "%R~r"];
    assert_eq!(client.text(&rules), "OK");
    assert_eq!(client.text(&["MSET", "k", "v", "r", "v", "x", "v"]), "OK");
    assert_eq!(client.text(&["AUTH", "bob", "x"]), "OK");
    let refused = "NOPERM No permissions to access a key";
    let begin = ["MIGRATE", "127.0.0.1", "1"];
    for keys in [
        &["x", "0", "10"][..],
        &["r", "0", "10"],
        &["", "0", "10", "KEYS", "k", "x"],
        &["", "0", "10", "COPY", "REPLACE", "AUTH2", "k", "k", "KEYS", "x", "k"],
        &["", "0", "10", "AUTH", "KEYS", "KEYS", "x"],
    ] {
        assert_eq!(client.text(&[&begin, keys].concat()), refused, "{keys:?}");
    }
    let tried = client.text(&[&begin[..], &["", "0", "10", "KEYS", "k", "k2"]].concat());
    assert!(!tried.starts_with("NOPERM"), "{tried}");
}

#[test]
fn subscribers_that_lose_a_channel_are_closed_before_the_reply() {
    let server = Server::start("epoll", &["--threads", "2"]);
    let mut admin = server.connect();
    let set = ["ACL", "SETUSER", "bob", "on", "nopass", "+@all", "resetchannels", "&a*", "&b"];
    assert_eq!(admin.text(&set), "OK");
    let mut others: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for (i, other) in others.iter_mut().enumerate() {
        assert_eq!(other.text(&["AUTH", "bob", "x"]), "OK");
        assert_eq!(other.text(&["CLIENT", "SETNAME", &format!("n{i}")]), "OK");
        let command: &[&str] = match i {
            0 => &["SUBSCRIBE", "a1"],
            1 => &["SSUBSCRIBE", "b"],
            2 => &["PSUBSCRIBE", "a*"],
            _ => &["SUBSCRIBE", "a2"],
        };
        other.call(command);
    }
    let mut outsider = server.connect();
    assert_eq!(outsider.text(&["AUTH", "bob", "x"]), "OK");
    for forbidden in [&["SUBSCRIBE", "c"], &["PSUBSCRIBE", "a1*"], &["SSUBSCRIBE", "bb"]] {
        assert_eq!(outsider.text(forbidden), "NOPERM No permissions to access a channel");
    }
    assert_eq!(outsider.text(&["PUBLISH", "c", "x"]), "NOPERM No permissions to access a channel");
    assert_eq!(admin.text(&["ACL", "SETUSER", "bob", "resetchannels", "&a1", "&b", "&a*"]), "OK");
    assert_eq!(admin.text(&["CLIENT", "LIST"]).matches(" user=bob ").count(), 5);
    assert_eq!(admin.text(&["ACL", "SETUSER", "bob", "resetchannels", "&a1"]), "OK");
    let list = admin.text(&["CLIENT", "LIST"]);
    assert!(list.contains(" name=n0 ") && !list.contains(" name=n1 "), "{list}");
    assert!(!list.contains(" name=n2 ") && !list.contains(" name=n3 "), "{list}");
    assert!(others[0].is_silent(Duration::from_millis(20)));
    assert_eq!(others[1].receive(), None);
}

#[test]
fn databases_that_queued_commands_select() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    let rules = [
        "ACL",
        "SETUSER",
        "bob",
        "on",
        "nopass",
        "+@all",
        "~*",
        "db=0",
        "(+get ~* db=1)",
        "(+select)",
    ];
    assert_eq!(client.text(&rules), "OK");
    assert_eq!(client.text(&["AUTH", "bob", "x"]), "OK");
    for (command, reply) in [
        ("MULTI", "OK"),
        ("SET k v", "QUEUED"),
        ("SELECT 1", "QUEUED"),
        ("GET k", "QUEUED"),
        ("SELECT 0", "QUEUED"),
        ("GET k", "QUEUED"),
        ("EXEC", "[OK OK nil OK v]"),
        ("MULTI", "OK"),
        ("SELECT 1", "QUEUED"),
        ("SET k v", "NOPERM User bob has no permissions to run the 'set' command"),
        ("DISCARD", "OK"),
    ] {
        let words: Vec<_> = command.split(' ').collect();
        assert_eq!(client.text(&words).replace('"', ""), reply, "{command}");
    }
}

#[test]
fn a_file_of_users_is_loaded_and_saved_as_a_whole() {
    let scratch = Scratch::new();
    let file = scratch.path("users.acl");
    std::fs::write(&file, "# users\n\nuser bob on >pw ~b:* +get (~c +set)\n").unwrap();
    let path = file.to_str().unwrap().to_owned();
    let server = Server::start_in(scratch, "epoll", &["--aclfile", &path]);
    let mut client = server.connect();
    assert_eq!(client.text(&["ACL", "USERS"]).replace('"', ""), "[bob default]");
    assert_eq!(client.text(&["ACL", "SETUSER", "eve", "on", "nopass", "~e", "+@read"]), "OK");
    assert_eq!(client.text(&["ACL", "SAVE"]), "OK");
    let saved = std::fs::read_to_string(&file).unwrap();
    assert!(saved.contains("\nuser default on nopass sanitize-payload ~* &* +@all\n"), "{saved}");
    assert!(
        saved.contains("user eve on nopass sanitize-payload ~e resetchannels -@all +@read\n"),
        "{saved}"
    );
    assert!(!saved.contains("pw") && saved.contains(" (~c resetchannels -@all +set)\n"), "{saved}");
    let mut eve = server.connect();
    assert_eq!(eve.text(&["AUTH", "eve", "x"]), "OK");
    std::fs::write(&file, format!("{saved}user x +nosuch\nusr y\nuser z (~a\nuser bob off\n"))
        .unwrap();
    let error = client.text(&["ACL", "LOAD"]);
    for part in [
        ":4: user 'x', rule '+nosuch': Unknown command",
        ":5: ",
        ":6: ",
        ":7: Duplicate user 'bob'",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert_eq!(client.text(&["ACL", "USERS"]).replace('"', ""), "[bob default eve]");
    std::fs::write(&file, "user bob on nopass +@all\n").unwrap();
    assert_eq!(client.text(&["ACL", "LOAD"]), "OK");
    assert_eq!(client.text(&["ACL", "USERS"]).replace('"', ""), "[bob default]");
    assert_eq!(eve.receive(), None);
    std::fs::remove_file(&file).unwrap();
    assert!(client.text(&["ACL", "LOAD"]).starts_with("ERR cannot read "));
    assert_eq!(client.text(&["ACL", "SAVE"]), "OK");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("user bob on nopass"));
}

#[test]
fn users_of_the_configuration_and_what_is_wrong_with_them() {
    let scratch = Scratch::new();
    for (text, error) in [
        ("user bob on\nuser bob off\n", "petrel.conf:2: Duplicate user 'bob' found"),
        (
            "port 0\nuser bob on +nosuch\n",
            "petrel.conf:2: user 'bob', rule '+nosuch': Unknown command",
        ),
        ("user bob (~a\n", "petrel.conf:1: user 'bob': no parenthesis closes '(~a'"),
        ("user\n", "petrel.conf:1: user takes a name and rules"),
        (
            "user bob on\naclfile x\n",
            "petrel.conf:1: users can be defined either in the configuration or in the aclfile",
        ),
        ("aclfile nosuch\n", "cannot read nosuch: "),
    ] {
        std::fs::write(scratch.path("petrel.conf"), text).unwrap();
        let output = run_to_end(&scratch, &[scratch.path("petrel.conf").to_str().unwrap()]);
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && shown.contains(error), "{text}: {shown}");
    }
}

#[test]
fn the_configuration_is_rewritten_with_users() {
    let scratch = Scratch::new();
    let file = scratch.path("petrel.conf");
    std::fs::write(&file, "user bob on nopass ~b +get\n").unwrap();
    let path = file.to_str().unwrap().to_owned();
    let server = Server::start_in(scratch, "epoll", &[&path]);
    let mut client = server.connect();
    assert_eq!(client.text(&["ACL", "SETUSER", "bob", "~c"]), "OK");
    assert_eq!(client.text(&["ACL", "SETUSER", "eve", "(+get ~\"x\")"]), "OK");
    assert_eq!(client.text(&["CONFIG", "REWRITE"]), "OK");
    let written = std::fs::read_to_string(&file).unwrap();
    let bob = "user bob on nopass sanitize-payload ~b ~c resetchannels -@all +get\n";
    assert!(written.starts_with(bob), "{written}");
    assert!(
        written.contains("\nuser eve off sanitize-payload resetchannels -@all \"(~\\\"x\\\"\" "),
        "{written}"
    );
}

#[test]
fn scripts_do_what_their_caller_may() {
    let server = Server::start("epoll", &[]);
    let (mut admin, mut client) = (server.connect(), server.connect());
    let rules = [
        "ACL", "SETUSER", "bob", "on", "nopass", "+eval", "+evalsha", "+get", "+multi", "+exec",
        "~k", "~r",
    ];
    assert_eq!(admin.text(&rules), "OK");
    assert_eq!(client.text(&["AUTH", "bob", "x"]), "OK");
    assert_eq!(
        client.text(&["EVAL", "return 1", "1", "x"]),
        "NOPERM No permissions to access a key"
    );
    for (script, refused) in [
        ("return redis.call('get','x')", "No permissions to access a key"),
        (
            "return redis.call('SeT','k','v')",
            "User bob has no permissions to run the 'set' command",
        ),
        (
            "return redis.pcall('set','k','v')",
            "User bob has no permissions to run the 'set' command",
        ),
        (
            "return redis.call('publish','c','v')",
            "User bob has no permissions to run the 'publish' command",
        ),
    ] {
        let error = client.text(&["EVAL", script, "0"]);
        assert!(error.starts_with(&format!("ERR ACL failure in script: {refused}")), "{error}");
        let entry = admin.text(&["ACL", "LOG", "1"]);
        assert!(entry.contains(" context lua ") && entry.contains(" username bob "), "{entry}");
    }
    let asks = "return {redis.acl_check_cmd('get','k'), redis.acl_check_cmd('get','x'), redis.acl_check_cmd('set','k','v')}";
    assert_eq!(client.text(&["EVAL", asks, "0"]), "[1 nil nil]");
    // What another user loaded does not run with that user's rights, nor does it in
    // a transaction.
    let sum = admin.text(&["SCRIPT", "LOAD", "return redis.call('set', 'k', 'v')"]);
    assert!(client.text(&["EVALSHA", &sum, "0"]).starts_with("ERR ACL failure in script: "));
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(client.text(&["EVALSHA", &sum, "0"]), "QUEUED");
    assert!(client.text(&["EXEC"]).starts_with("[ERR ACL failure in script: "));
    assert_eq!(admin.text(&["EXISTS", "k"]), "0");
}

/// Functions run with the rights of their caller, not of the user that loaded them, whatever way
/// they are called.
#[test]
fn functions_do_what_their_caller_may() {
    let server = Server::start("epoll", &[]);
    let (mut admin, mut client) = (server.connect(), server.connect());
    let library = "#!lua name=l\n\
        redis.register_function('any', function(keys, args) return redis.call(unpack(args)) end)\n\
        redis.register_function{function_name='look', flags={'no-writes'}, \
            callback=function(keys, args) return redis.call(unpack(args)) end}";
    assert_eq!(admin.text(&["FUNCTION", "LOAD", library]), "l");
    assert_eq!(admin.text(&["MSET", "k", "v", "r", "v", "x", "v"]), "OK");
    assert_eq!(admin.text(&["RPUSH", "list", "1"]), "1");
    let rules = [
        "ACL",
        "SETUSER",
        "bob",
        "on",
        "nopass",
        "+@all",
        "-@admin",
        "-function|load",
        "-flushall",
        "-restore",
        "~k*",
        "%R~r*",
        "~list",
        "&a*",
    ];
    assert_eq!(admin.text(&rules), "OK");
    assert_eq!(client.text(&["AUTH", "bob", "x"]), "OK");
    let key = "No permissions to access a key";
    let commands: [(&[&str], &str); 13] = [
        (&["GET", "x"], key),
        (&["SET", "r", "1"], key),
        (&["COPY", "x", "k"], key),
        (&["COPY", "r", "r2"], key),
        (&["RENAME", "r", "k"], key),
        (&["SORT", "list", "STORE", "x"], key),
        (&["LMOVE", "list", "x", "LEFT", "LEFT"], key),
        (&["GEORADIUS", "k", "0", "0", "1", "m", "STORE", "x"], key),
        (&["XREAD", "STREAMS", "k", "x", "0", "0"], key),
        (&["RESTORE", "k", "0", "v"], "User bob has no permissions to run the 'restore' command"),
        (&["FLUSHALL"], "User bob has no permissions to run the 'flushall' command"),
        (&["PUBLISH", "b", "m"], "No permissions to access a channel"),
        (&["SPUBLISH", "b", "m"], "No permissions to access a channel"),
    ];
    for (command, why) in commands {
        let refused = format!("ERR ACL failure in script: {why}");
        for call in [&["FCALL", "any", "0"], &["FCALL", "look", "0"], &["FCALL_RO", "look", "0"]] {
            let answer = client.text(&[&call[..], command].concat());
            assert!(
                answer.starts_with(&refused) || answer.contains("from read-only"),
                "{call:?} {command:?}: {answer}"
            );
        }
        // Nor in a transaction.
        assert_eq!(client.text(&["MULTI"]), "OK");
        assert_eq!(client.text(&[&["FCALL", "any", "0"], command].concat()), "QUEUED");
        let answer = client.text(&["EXEC"]);
        assert!(answer.starts_with(&format!("[{refused}")), "{command:?}: {answer}");
    }
    let sort = client.text(&["FCALL", "any", "0", "SORT", "list", "BY", "x*"]);
    assert!(sort.starts_with("ERR BY option of SORT denied"), "{sort}");
    assert_eq!(client.text(&["FCALL", "any", "0", "GET", "r"]), "v");
    assert_eq!(client.text(&["FCALL", "any", "0", "PUBLISH", "a1", "m"]), "0");
    // Keys are checked where they are declared, too.
    assert_eq!(client.text(&["FCALL", "any", "1", "x", "GET", "k"]), format!("NOPERM {key}"));
    for (command, name) in
        [(&["FUNCTION", "LOAD", library][..], "function|load"), (&["FLUSHALL"], "flushall")]
    {
        let refused = format!("NOPERM User bob has no permissions to run the '{name}' command");
        assert_eq!(client.text(command), refused);
    }
    assert_eq!(admin.text(&["ACL", "SETUSER", "bob", "-fcall", "-@scripting"]), "OK");
    let refused = "NOPERM User bob has no permissions to run the 'fcall' command";
    assert_eq!(client.text(&["FCALL", "any", "0", "GET", "k"]), refused);
    assert_eq!(admin.text(&["MGET", "k", "r", "x"]), "[v v v]");
}

#[test]
fn commands_have_their_old_names_in_rules() {
    let args = [
        "--rename-command",
        "SET",
        "put",
        "--rename-command",
        "ping",
        "",
        "--rename-command",
        "Config",
        "cfg",
    ];
    let server = Server::start("epoll", &args);
    let mut client = server.connect();
    assert!(client.text(&["SET", "k", "v"]).starts_with("ERR unknown command 'SET'"));
    assert!(client.text(&["PING"]).starts_with("ERR unknown command 'PING'"));
    assert_eq!(client.text(&["PUT", "k", "v"]), "OK");
    let rules = ["ACL", "SETUSER", "bob", "on", "nopass", "~*", "+@all", "-set", "-config|get"];
    assert_eq!(client.text(&rules), "OK");
    assert!(
        client.text(&["ACL", "SETUSER", "bob", "+put"]).contains("Unknown command or category")
    );
    assert_eq!(client.text(&["AUTH", "bob", "x"]), "OK");
    assert!(client.text(&["put", "k", "v"]).contains("no permissions to run the 'set' command"));
    assert!(
        client
            .text(&["cfg", "get", "x"])
            .contains("no permissions to run the 'config|get' command")
    );
    let scratch = Scratch::new();
    for (names, error) in [
        (["nosuch", "x"], "rename-command: there is no command 'nosuch'"),
        (["get", "SET"], "rename-command: there is a command 'SET' already"),
    ] {
        let output = run_to_end(&scratch, &["--rename-command", names[0], names[1]]);
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && shown.contains(error), "{shown}");
    }
}

#[test]
fn who_has_not_logged_in_cannot_pile_up_replies() {
    let server = Server::start("epoll", &["--requirepass", "secret"]);
    let mut client = server.connect();
    // The client reads nothing: output beyond the kernel's buffers soon exceeds the limit.
    eventually("it is closed", || {
        client.send_bytes(&b"*1\r\n$4\r\nPING\r\n".repeat(1000));
        server.connect().text(&["AUTH", "secret"]) == "OK"
            && server.output().contains("bytes of output are waiting")
    });
}

#[test]
fn a_password_holds_whoever_else_is_named() {
    for file in [false, true] {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("users.acl"), "user bob on nopass +@all ~*\n").unwrap();
        let args: &[&str] = match file {
            true => &["--requirepass", "pw", "--aclfile", "users.acl"],
            false => &["--requirepass", "pw", "--user", "bob", "on", "nopass", "+@all", "~*"],
        };
        let server = Server::start_in(scratch, "epoll", args);
        let mut client = server.connect();
        assert_eq!(client.text(&["PING"]), "NOAUTH Authentication required.");
        assert_eq!(client.text(&["AUTH", "pw"]), "OK");
        assert_eq!(client.text(&["AUTH", "bob", "x"]), "OK");
        if file {
            assert_eq!(client.text(&["ACL", "LOAD"]), "OK");
            assert_eq!(server.connect().text(&["PING"]), "NOAUTH Authentication required.");
        }
    }
}
