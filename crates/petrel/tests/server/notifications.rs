//! Events of keys as messages: their names, their order, their channels.

use crate::harness::*;
use std::time::Duration;

with_each_backend!(
    events_have_the_names_of_redis,
    events_go_to_the_channels_asked_for,
    fields_are_named,
    valkey_calls_expired_what_is_given_a_time_that_has_passed,
    a_read_tells_of_the_last_field_that_had_expired,
    what_upkeep_removes_is_told,
    nothing_is_told_unasked,
    a_transaction_tells_of_each_command,
);

struct Listener {
    client: Client,
    listener: Client,
    publisher: Client,
}

impl Listener {
    fn new(server: &Server, letters: &str) -> Self {
        let mut client = server.connect();
        assert_eq!(client.text(&["CONFIG", "SET", "notify-keyspace-events", letters]), "OK");
        client.text(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        let mut listener = server.connect();
        listener.call(&["PSUBSCRIBE", "__*"]);
        listener.call(&["SUBSCRIBE", "end"]);
        Listener { client, listener, publisher: server.connect() }
    }

    /// Executes a command and tells the events that it made.
    fn events(&mut self, command: &str) -> String {
        self.client.call(&command.split(' ').collect::<Vec<_>>());
        self.publisher.call(&["PUBLISH", "end", "x"]);
        let mut events = Vec::new();
        loop {
            let message = show(&self.listener.receive().expect("a message"));
            let Some(event) = message.strip_prefix("[pmessage __* ") else { break };
            let event = event.replace("__keyevent@0__:", "").replace("__keyspace@0__:", "#");
            events.push(event.trim_end_matches(']').to_owned());
        }
        events.join(", ")
    }
}

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

fn events_have_the_names_of_redis(backend: &str) {
    let server = Server::start(backend, DEBUG);
    let mut listener = Listener::new(&server, "EAmnoc");
    for (command, events) in [
        ("GET k", "keymiss k"),
        ("SET k 1 EX 100", "new k, set k, expire k"),
        ("SET k 2", "overwritten k, set k"),
        ("INCRBY k 5", "incrby k"),
        ("APPEND k x", "append k"),
        ("RPUSH l a b c", "new l, rpush l"),
        ("SET l 1", "overwritten l, type_changed l, set l"),
        ("RENAME k l", "new l, rename_from k, rename_to l, overwritten l"),
        ("RENAME l l", ""),
        ("COPY l k", "new k, copy_to k"),
        ("MSETEX 1 k a EX 10", "overwritten k, expire k, set k"),
        ("MOVE k 1", "__keyevent@1__:new k, move_from k, __keyevent@1__:move_to k"),
        ("GETDEL l", "del l"),
        ("RPUSH l a", "new l, rpush l"),
        ("LMOVE l m LEFT RIGHT", "new m, rpush m, lpop l, del l"),
        ("RPOPLPUSH m m", "lpush m, rpop m"),
        ("LTRIM m 0 -1", "ltrim m"),
        ("LPOP m", "lpop m, del m"),
        ("SADD s a", "new s, sadd s"),
        ("SADD s a", ""),
        ("SMOVE s t a", "srem s, del s, new t, sadd t"),
        ("SPOP t 9", "spop t, del t"),
        ("ZADD z 1 a 2 b", "new z, zadd z"),
        ("ZINCRBY z 1 a", "zincr z"),
        ("ZRANGESTORE d z 0 -1", "new d, zrangestore d"),
        ("ZRANGESTORE d z 5 6", "del d"),
        ("ZMPOP 1 z MAX COUNT 9", "zpopmax z, del z"),
        ("HSETEX h PX 0 FIELDS 1 f v", "new h, hset h, hdel h, del h"),
        ("HSETEX h EX 100 FIELDS 2 f v g w", "new h, hset h, hexpire h"),
        ("HSETEX h FNX EX 9 FIELDS 1 f v", ""),
        ("HSETEX none FXX EX 9 FIELDS 1 f v", ""),
        ("HGETDEL h FIELDS 2 f g", "hdel h, del h"),
        ("XADD x 1-1 f v", "new x, xadd x"),
        ("XADD x MAXLEN 1 2-1 f v", "xadd x, xtrim x"),
        ("XGROUP CREATE x g 0", "xgroup-create x"),
        ("XREADGROUP GROUP g c STREAMS x >", "xgroup-createconsumer x"),
        ("PFADD p a", "new p, pfadd p"),
        ("PFMERGE p none", "keymiss none, pfadd p"),
        ("PFMERGE q p", "keymiss q, new q, pfadd q"),
        ("PEXPIRE x 1", "expire x"),
    ] {
        assert_eq!(listener.events(command), events, "{command}");
    }
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(listener.events("DEL x"), "expired x");
}

fn events_go_to_the_channels_asked_for(backend: &str) {
    let server = Server::start(backend, DEBUG);
    let mut listener = Listener::new(&server, "KE$");
    assert_eq!(listener.events("SET k 1 EX 100"), "#k set, set k");
    assert_eq!(listener.client.text(&["CONFIG", "GET", "notify*"]), "[notify-keyspace-events $KE]");
    let mut listener = Listener::new(&server, "Kg");
    assert_eq!(listener.events("SET k 1 EX 100"), "#k expire");
    assert_eq!(listener.events("DEL k"), "#k del");
    let refusal = listener.client.text(&["CONFIG", "SET", "notify-keyspace-events", "Kw"]);
    assert!(refusal.contains("Invalid event class character"), "{refusal}");
}

fn fields_are_named(backend: &str) {
    let server = Server::start(backend, DEBUG);
    let mut listener = Listener::new(&server, "STIVh");
    assert_eq!(
        listener.events("HSET h f1 v longer w"),
        "__subkeyspace@0__:h hset|2:f1,6:longer, __subkeyevent@0__:hset 1:h|2:f1,6:longer, \
         __subkeyspaceitem@0__:h\nf1 hset, __subkeyspaceitem@0__:h\nlonger hset, \
         __subkeyspaceevent@0__:hset|h 2:f1,6:longer"
    );
    assert_eq!(listener.events("SET k v"), "");
}

fn valkey_calls_expired_what_is_given_a_time_that_has_passed(backend: &str) {
    for (dialect, name) in [("redis", "hdel"), ("valkey", "hexpired")] {
        let server = Server::start(backend, &[DEBUG, &["--dialect", dialect]].concat());
        let mut listener = Listener::new(&server, "Ehg");
        listener.client.call(&["HSET", "h", "f", "v", "g", "w"]);
        listener.events("PING");
        assert_eq!(listener.events("HPEXPIRE h 0 FIELDS 1 f"), format!("{name} h"));
        assert_eq!(listener.events("HGETEX h EXAT 1 FIELDS 1 g"), format!("{name} h, del h"));
        let mut listener = Listener::new(&server, "Egx");
        let name = if dialect == "valkey" { "expired" } else { "del" };
        for expiring in ["EXPIRE k -1", "PEXPIREAT k 1", "GETEX k EXAT 1"] {
            listener.events("SET k v");
            assert_eq!(listener.events(expiring), format!("{name} k"), "{dialect}");
        }
        listener.events("SET k v");
        assert_eq!(listener.events("EXPIRE k 100"), "expire k");
        assert_eq!(listener.events("DEL k"), "del k");
    }
}

fn a_read_tells_of_the_last_field_that_had_expired(backend: &str) {
    let server = Server::start(backend, DEBUG);
    let mut listener = Listener::new(&server, "Ehg");
    listener.client.call(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    for (command, after) in [
        ("HGET h f", ""),
        ("HMGET h f", ""),
        ("HSTRLEN h f", ""),
        ("HEXISTS h f", ""),
        ("HGETEX h FIELDS 1 f", ""),
        ("HGETDEL h FIELDS 1 f", ""),
        ("SORT l BY nosort GET h*->f", ""),
        ("HINCRBY h f 2", ", hincrby h"),
        ("HSETNX h f v", ", hset h"),
    ] {
        for (others, told) in [("", "hexpired h, del h"), ("k v", "hexpired h")] {
            listener.client.call(&["DEL", "h", "l"]);
            listener.client.call(&["RPUSH", "l", ""]);
            let fields = ["f v", others].join(" ");
            let mut store = vec!["HSET", "h"];
            store.extend(fields.split_whitespace());
            listener.client.call(&store);
            listener.client.call(&["HPEXPIRE", "h", "1", "FIELDS", "1", "f"]);
            std::thread::sleep(Duration::from_millis(5));
            listener.events("PING");
            assert_eq!(listener.events(command), format!("{told}{after}"), "{command}");
        }
    }
}

fn what_upkeep_removes_is_told(backend: &str) {
    let server = Server::start(backend, DEBUG);
    let mut client = server.connect();
    client.call(&["CONFIG", "SET", "notify-keyspace-events", "Exeh"]);
    let mut listener = server.connect();
    listener.call(&["PSUBSCRIBE", "__keyevent@0__:*ed"]);
    client.call(&["SET", "short", "v", "PX", "20"]);
    let next = |listener: &mut Client| show(&listener.receive().expect("a message"));
    assert!(next(&mut listener).ends_with("__keyevent@0__:expired short]"));
    client.call(&["HSET", "h", "f", "v", "g", "w"]);
    client.call(&["HPEXPIRE", "h", "20", "FIELDS", "1", "f"]);
    assert!(next(&mut listener).ends_with("__keyevent@0__:hexpired h]"));
    client.call(&["DEL", "h"]);
    client.call(&["SET", "k", "v"]);
    client.call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "1"]);
    assert!(next(&mut listener).ends_with("__keyevent@0__:evicted k]"));
}

fn nothing_is_told_unasked(backend: &str) {
    let server = Server::start(backend, DEBUG);
    let mut client = server.connect();
    let mut listener = server.connect();
    listener.call(&["PSUBSCRIBE", "*"]);
    client.call(&["SET", "k", "v"]);
    client.call(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    client.call(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    client.call(&["DEL", "k"]);
    assert!(listener.is_silent(Duration::from_millis(50)));
}

fn a_transaction_tells_of_each_command(backend: &str) {
    let server = Server::start(backend, DEBUG);
    let mut listener = Listener::new(&server, "EA");
    for command in ["MULTI", "SET a 1", "INCR a", "LPUSH b x", "LPOP b"] {
        assert_eq!(listener.events(command), "");
    }
    assert_eq!(listener.events("EXEC"), "set a, incrby a, lpush b, lpop b, del b");
}
