//! Attempts to circumvent permissions.

use crate::client::Client;
use petrel_commands::acl::{Denial, Reason};
use petrel_commands::{Access, Fail};

const KEY: &str = "NOPERM No permissions to access a key";
const DATABASE: &str = "NOPERM No permissions to access database";

/// An administrator, and a user `u` with these rules.
pub fn with_rules(rules: &str) -> (Client, Client) {
    let admin = Client::new();
    let mut user = admin.another();
    set(&admin, rules);
    let named = user.exec.shared.users.find(b"u");
    user.session.become_user(named);
    (admin, user)
}

pub fn set(admin: &Client, rules: &str) {
    let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    let rules = petrel_commands::acl::join_selectors(&rules).expect("parentheses are closed");
    let shared = &admin.exec.shared;
    shared.users.set(&shared.registry, b"u", &rules).expect("these are rules");
}

fn refused(command: &str) -> String {
    format!("NOPERM User u has no permissions to run the '{command}' command")
}

/// The last denial in `ACL LOG`.
fn last(client: &Client) -> (&'static str, &'static str, String) {
    let entry = client.exec.shared.users.log.newest(1).remove(0);
    (entry.reason, entry.context.name(), String::from_utf8(entry.object).expect("text"))
}

#[test]
fn commands_in_any_case_and_subcommands_one_by_one() {
    let (_admin, mut user) = with_rules("~* +get +object|freq +lolwut|VERSION -@connection");
    user.exec.shared.users.log.set_len_max(10);
    assert_eq!(user.run("gEt k"), "nil");
    for (call, name) in
        [("SET k v", "set"), ("sEt k v", "set"), ("OBJECT ENCODING k", "object|encoding")]
    {
        assert_eq!(user.run(call), refused(name));
        assert_eq!(last(&user), ("command", "toplevel", name.to_owned()));
    }
    assert_eq!(user.run("oBJECT eNCODING k"), refused("object|encoding"));
    assert!(!user.run("OBJECT FREQ k").starts_with("NOPERM"));
    // The first argument decides, ignoring case.
    assert!(!user.run("LOLWUT version").starts_with("NOPERM"));
    assert_eq!(user.run("LOLWUT"), refused("lolwut"));
    assert_eq!(user.run("LOLWUT 5 VERSION"), refused("lolwut"));
    // Errors for unknown commands and wrong arity are returned to every user.
    assert_eq!(user.run("NOSUCH"), "ERR unknown command 'NOSUCH', with args beginning with: ");
    assert_eq!(user.run("SET k"), "ERR wrong number of arguments for 'set' command");
    assert_eq!(user.run("OBJECT NOSUCH"), "ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP.");
}

#[test]
fn keys_by_what_is_done_to_them() {
    let (mut admin, mut user) = with_rules("+@all %R~r* %W~w* ~rw*");
    admin.follow("MSET r 1 w 1 rw 1 x 1 => OK");
    for (allowed, call) in [
        (true, "GET r"),
        (false, "GET w"),
        (true, "GET rw"),
        (false, "GET x"),
        (false, "SET r v"),
        (true, "SET w v"),
        (false, "SET w v GET"),
        (true, "SET rw v GET"),
        (true, "STRLEN w"),
        (true, "EXISTS w r rw"),
        (false, "EXISTS w x"),
        (true, "TYPE w"),
        (true, "COPY r w REPLACE"),
        (false, "COPY w r"),
        (false, "COPY r x"),
        (false, "COPY x w"),
        (false, "RENAME r w"),
        (false, "RENAME rw x"),
        (true, "COPY rw rw2"),
        (true, "RENAME rw2 rw3"),
        (false, "RENAMENX x rw"),
        (true, "DEL w"),
        (false, "DEL r"),
        (true, "DEL rw3 w"),
        (false, "UNLINK w x"),
        (false, "GETDEL w"),
        (true, "APPEND w 1"),
        (false, "INCR r"),
        (true, "BITFIELD r GET u4 0"),
        (false, "BITFIELD r GET u4 0 SET u4 0 1"),
        (false, "BITFIELD w GET u4 0"),
        (true, "BITOP AND w r rw"),
        (false, "BITOP AND w w rw"),
        (false, "BITOP AND r r"),
        (true, "SINTERSTORE w r1 rw1"),
        (false, "SINTERSTORE w x"),
        (false, "ZUNIONSTORE w 2 r x"),
        (false, "ZUNIONSTORE x 1 r"),
        (true, "SORT r1 STORE w"),
        (false, "SORT r STORE x"),
        (false, "SORT w1"),
        (false, "LMOVE r w LEFT LEFT"),
        (false, "MSET w 1 x 1"),
        (false, "MGET r x"),
        (false, "WATCH x"),
        (true, "WATCH r"),
        (false, "RESTORE x 0 v"),
        (false, "RESTORE r 0 v REPLACE"),
        (false, "DUMP w"),
        (false, "XREAD STREAMS r1 x 0 0"),
        (false, "GEORADIUS r1 0 0 1 m STORE x"),
        (false, "GEORADIUS r1 0 0 1 m STORE w STORE x"),
        (false, "OBJECT ENCODING x"),
        (false, "MEMORY USAGE x"),
        (false, "EXPIRE r 1"),
        (false, "TOUCH x"),
        (false, "PFMERGE w x"),
    ] {
        let reply = user.run(call);
        assert_eq!(reply != KEY, allowed, "{call}: {reply}");
    }
}

/// For every command with keys, access is denied if any one of its keys is denied, wherever it is
/// among the arguments.
#[test]
fn no_key_goes_unnoticed() {
    let (_admin, mut user) = with_rules("+@all ~k*");
    for call in [
        "BITOP OR k1 k2 k3",
        "BLMOVE k1 k2 LEFT LEFT 0.01",
        "BLMPOP 0.01 2 k1 k2 LEFT",
        "BLPOP k1 k2 0.01",
        "BRPOPLPUSH k1 k2 0.01",
        "BZMPOP 0.01 2 k1 k2 MIN",
        "BZPOPMIN k1 k2 0.01",
        "COPY k1 k2",
        "DEL k1 k2",
        "EVAL \"return 1\" 2 k1 k2",
        "EVAL_RO \"return 1\" 2 k1 k2",
        "EVALSHA 0000000000000000000000000000000000000000 2 k1 k2",
        "EXISTS k1 k2",
        "FCALL f 2 k1 k2",
        "FCALL_RO f 2 k1 k2",
        "GEORADIUS k1 0 0 1 m STORE k2",
        "GEORADIUS k1 0 0 1 m STORE k2 STOREDIST k3",
        "GEORADIUSBYMEMBER k1 m 1 m STOREDIST k2",
        "GEOSEARCHSTORE k1 k2 FROMLONLAT 0 0 BYRADIUS 1 m",
        "LCS k1 k2",
        "LMOVE k1 k2 LEFT LEFT",
        "LMPOP 2 k1 k2 LEFT",
        "MGET k1 k2 k3",
        "MSET k1 v k2 v",
        "MSETEX 2 k1 v k2 v",
        "MSETNX k1 v k2 v",
        "OBJECT ENCODING k1",
        "PFCOUNT k1 k2",
        "PFMERGE k1 k2 k3",
        "RENAME k1 k2",
        "RENAMENX k1 k2",
        "RPOPLPUSH k1 k2",
        "SDIFF k1 k2",
        "SDIFFSTORE k1 k2 k3",
        "SINTER k1 k2",
        "SINTERCARD 2 k1 k2",
        "SINTERSTORE k1 k2 k3",
        "SMOVE k1 k2 m",
        "SORT k1 STORE k2",
        "SORT k1 BY nosort STORE k2 LIMIT 0 1 STORE k3",
        "SORT_RO k1",
        "SUNION k1 k2",
        "SUNIONSTORE k1 k2 k3",
        "TOUCH k1 k2",
        "UNLINK k1 k2",
        "WATCH k1 k2",
        "XGROUP CREATE k1 g 0 MKSTREAM",
        "XINFO STREAM k1",
        "XREAD COUNT 1 STREAMS k1 k2 0 0",
        "XREADGROUP GROUP g c STREAMS k1 k2 0 0",
        "ZDIFF 2 k1 k2",
        "ZDIFFSTORE k1 2 k2 k3",
        "ZINTER 2 k1 k2",
        "ZINTERCARD 2 k1 k2",
        "ZINTERSTORE k1 2 k2 k3 WEIGHTS 1 2",
        "ZMPOP 2 k1 k2 MIN",
        "ZRANGESTORE k1 k2 0 1",
        "ZUNION 2 k1 k2",
        "ZUNIONSTORE k1 2 k2 k3",
    ] {
        // The last one of a repeated option counts.
        let words: Vec<&str> = call.split(' ').collect();
        let is_key = |word: &str| matches!(word, "k1" | "k2" | "k3");
        let is_last = |i: usize| {
            let option = words[i - 1];
            !matches!(option, "STORE" | "STOREDIST")
                || !words[i + 1..].iter().any(|word| matches!(*word, "STORE" | "STOREDIST"))
        };
        let places: Vec<_> = (1..words.len()).filter(|&i| is_key(words[i]) && is_last(i)).collect();
        assert!(!places.is_empty(), "{call}");
        for place in places {
            let mut others = words.clone();
            others[place] = "x";
            let others = others.join(" ");
            assert_eq!(user.run(&others), KEY, "{others}");
        }
        let reply = user.run(call);
        assert!(!reply.starts_with("NOPERM"), "{call}: {reply}");
        user.run("UNWATCH");
    }
}

#[test]
fn selectors_do_not_add_up() {
    let (_admin, mut user) = with_rules("(%R~r* +@all) (%W~w* +@all) (~k +get)");
    user.exec.shared.users.log.set_len_max(10);
    for (call, reply) in [
        ("GET r", "nil"),
        ("LPUSH w 1", "1"),
        ("GET w", KEY),
        ("COPY r w", KEY),
        ("GET k", "nil"),
        ("LPUSH k 1", KEY),
        ("MGET r1 r2 x", KEY),
    ] {
        assert_eq!(user.run(call), reply, "{call}");
    }
    // The selector that passed the most checks determines the reason.
    assert_eq!(last(&user), ("key", "toplevel", "x".to_owned()));
}

#[test]
fn patterns_of_sort_need_every_key() {
    const BY: &str = "ERR BY option of SORT denied due to insufficient ACL permissions.";
    const GET: &str = "ERR GET option of SORT denied due to insufficient ACL permissions.";
    let (mut admin, mut user) = with_rules("+sort +sort_ro ~l %W~*");
    admin.follow("RPUSH l 2 1 => 2\nMSET k1 a k2 b => OK");
    for (call, reply) in [
        ("SORT l BY k*", BY),
        ("SORT_RO l BY k*", BY),
        ("SORT l GET k*", GET),
        ("SORT l GET #", GET),
        ("SORT l BY nosort GET k*", GET),
        ("SORT l BY nosort", "[\"2\" \"1\"]"),
    ] {
        assert_eq!(user.run(call), reply, "{call}");
    }
    set(&admin, "(+sort %R~*)");
    assert_eq!(user.run("SORT l GET k*"), "[\"a\" \"b\"]");
    // Reading all keys has to be allowed by the same selector as the command.
    set(&admin, "resetkeys ~l clearselectors (+get allkeys)");
    assert_eq!(user.run("SORT l GET k*"), GET);
}

#[test]
fn transactions_are_checked_when_they_are_queued_and_again_when_they_run() {
    let (admin, mut user) = with_rules("+@all ~k*");
    user.exec.shared.users.log.set_len_max(10);
    user.follow("MULTI => OK");
    assert_eq!(user.run("GET x"), KEY);
    assert_eq!(last(&user), ("key", "multi", "x".to_owned()));
    user.follow("EXEC => EXECABORT Transaction discarded because of previous errors.");

    user.follow("MULTI => OK\nSET k1 v => QUEUED\nSET k2 v => QUEUED\nGET k3 => QUEUED");
    set(&admin, "resetkeys ~k2 -get");
    const CHANGED: &str = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
                           call. This command is no longer allowed for the following reason: ";
    let key = format!("{CHANGED}no permission to touch the specified keys");
    let command = format!("{CHANGED}no permission to execute the command or subcommand");
    assert_eq!(user.run("EXEC"), format!("[{key} OK {command}]"));
    assert_eq!(last(&user), ("command", "multi", "get".to_owned()));

    user.follow("MULTI => OK\nSET k2 w => QUEUED");
    set(&admin, "-exec");
    let refused = refused("exec");
    assert_eq!(user.run("EXEC"), format!("EXECABORT Transaction discarded because of: {refused}"));
    assert!(!user.session.in_multi());
}

#[test]
fn databases_one_by_one() {
    let (mut admin, mut user) = with_rules("+@all ~* db=1,2");
    user.exec.shared.users.log.set_len_max(10);
    for (call, object) in [
        ("GET k", "get"),
        ("FLUSHDB", "flushdb"),
        ("FLUSHALL", "flushall"),
        ("KEYS *", "keys"),
        ("DBSIZE", "dbsize"),
        ("RANDOMKEY", "randomkey"),
        ("SCAN 0", "scan"),
        ("WATCH k", "watch"),
        ("SWAPDB 1 3", "3"),
        ("SWAPDB 0 1", "0"),
        ("MOVE k 1", "move"),
        ("MOVE k 3", "3"),
        ("COPY k l DB 1", "copy"),
        ("COPY k l DB 1 DB 3", "3"),
        ("COPY k l DB 3 DB 1", "3"),
        ("OBJECT ENCODING k", "object|encoding"),
    ] {
        assert_eq!(user.run(call), DATABASE, "{call}");
        assert_eq!(last(&user), ("database", "toplevel", object.to_owned()));
    }
    user.session.db = 1;
    user.follow(
        "SET k v => OK
         MOVE k 2 => 1
         SWAPDB 1 2 => OK
         GET k => \"v\"
         SWAPDB 1 99 => ERR DB index is out of range
         MOVE k 0 => NOPERM No permissions to access database
         CLUSTER FLUSHSLOT 0 => NOPERM No permissions to access database",
    );
    set(&admin, "alldbs db=0");
    assert_eq!(user.run("GET k"), DATABASE);
    admin.follow("DBSIZE => 0");
}

#[test]
fn the_default_user_can_be_restricted_and_those_who_have_not_logged_in_may_do_nothing() {
    let mut client = Client::new();
    let shared = client.exec.shared.clone();
    let rules = |rules: &[&str]| {
        shared.users.set(&shared.registry, b"default", rules).expect("these are rules");
    };
    assert!(shared.users.are_open());
    rules(&["-get"]);
    assert_eq!(
        client.run("GET k"),
        "NOPERM User default has no permissions to run the 'get' command"
    );
    assert_eq!(client.run("SET k v"), "OK");
    rules(&["+get", "resetpass", ">secret"]);
    assert!(!shared.users.are_open());
    // A session that is the default user already stays logged in.
    assert_eq!(client.run("GET k"), "\"v\"");
    client.session.log_out();
    assert_eq!(client.run("GET k"), String::from_utf8_lossy(Fail::NO_AUTH.text()));
    assert_eq!(client.session.access, Access::Unauthenticated);
    assert!(shared.users.authenticate(b"default", b"wrong").is_none());
    let user = shared.users.authenticate(b"default", b"secret").expect("that is its password");
    assert_eq!(user.name(), b"default");
    rules(&["off"]);
    assert!(shared.users.authenticate(b"default", b"secret").is_none());
}

#[test]
fn who_is_removed_may_do_nothing_any_more() {
    let (admin, mut user) = with_rules("+@all ~* &* on nopass");
    assert_eq!(user.run("SET k v"), "OK");
    user.follow("MULTI => OK\nSET k w => QUEUED");
    let shared = admin.exec.shared.clone();
    assert!(shared.users.remove(&shared.registry, b"u").is_some());
    assert_eq!(
        user.run("EXEC"),
        format!("EXECABORT Transaction discarded because of: {}", refused("exec"))
    );
    assert_eq!(user.run("GET k"), refused("get"));
    assert!(shared.users.authenticate(b"u", b"x").is_none());
    assert!(shared.users.remove(&shared.registry, b"default").is_none());
}

#[test]
fn asking_leaves_no_trace() {
    let (_admin, mut user) = with_rules("+get ~k");
    let get = user.exec.registry().find(b"get").expect("it exists");
    let asked = user.exec.check_call(&user.session, get, &[b"get", b"x"]);
    assert_eq!(asked, Err(Denial { reason: Reason::Key, index: 1 }));
    assert_eq!(user.exec.check_call(&user.session, get, &[b"get", b"k"]), Ok(()));
    assert_eq!(user.exec.shared.users.refused(), [0; 5]);
    assert_eq!(user.run("GET x"), KEY);
    assert_eq!(user.exec.shared.users.refused(), [0, 0, 1, 0, 0]);
}
