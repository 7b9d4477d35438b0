//! Limits of a client, and of all clients together.

use crate::harness::*;
use std::time::{Duration, Instant};

with_each_backend!(
    more_clients_than_allowed_are_refused,
    a_reader_that_does_not_read_is_closed,
    a_reader_that_reads_too_slowly_is_closed_after_a_while,
    unfinished_requests_are_bounded,
    strangers_may_send_little,
    idle_clients_are_closed,
    all_clients_together_are_bounded,
    whoever_makes_it_too_much_is_closed_at_once,
    a_reply_without_end_ends_at_the_limit,
    a_reply_is_limited_while_it_grows,
    replies_of_documents_are_limited_while_they_grow,
    replies_of_many_parts_are_limited_while_they_grow,
    replies_stay_under_the_memory_limit,
    keys_make_room_for_buffers_of_clients_that_do_not_write,
    what_commands_gather_stays_under_the_memory_limit,
    strings_grow_under_the_memory_limit,
    batches_are_limited_between_their_commands,
    unwanted_replies_take_no_memory,
    who_reads_only_at_the_end_gets_everything,
    who_reads_slowly_is_not_served_further,
    who_has_ended_sending_gets_every_answer,
    what_is_announced_and_not_sent_is_not_counted,
);

/// The most memory that the server has had, in MB.
fn peak_mb(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.pid());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// A list of 100 elements of 10 KB, and a string of 15 KB: small enough to be copied into each
/// reply.
fn with_values(server: &Server) -> Client {
    let mut client = server.connect();
    let element = "x".repeat(10_000);
    let mut push = vec!["RPUSH", "list"];
    push.resize(102, &element);
    assert_eq!(client.text(&push), "100");
    assert_eq!(client.text(&["SET", "string", &"x".repeat(15_000)]), "OK");
    client
}

/// A request with a reply of 1 GB.
fn much() -> Vec<u8> {
    let mut args = vec![&b"string"[..]; 70_000];
    args[0] = b"MGET";
    encode(&args)
}

const MOST_MB: u64 = 250;

fn a_reply_is_limited_while_it_grows(backend: &str) {
    let limit = ["--client-output-buffer-limit", "normal 8mb 0 0"];
    let server = Server::start(backend, &limit);
    let mut client = with_values(&server);
    let many = much();
    for resp3 in [false, true] {
        if resp3 {
            client.call(&["HELLO", "3"]);
        }
        client.send_bytes(&many);
        assert_eq!(client.read_to_end(), "", "a reply of 1 GB");
        client = server.connect();
        client.send_bytes(&encode(&[b"MULTI"]));
        client.send_bytes(&encode(&[b"LRANGE", b"list", b"0", b"-1"]).repeat(1000));
        client.send_bytes(&encode(&[b"INCR", b"executed"]));
        client.send_bytes(&encode(&[b"EXEC"]));
        let received = client.read_to_end();
        assert!(!received.contains('x'), "a transaction is executed and not answered");
        client = server.connect();
        let script = b"local l = redis.call('LRANGE', 'list', 0, -1) local t = {} \
                       for i = 1, 1000 do t[i] = l end return t";
        client.send_bytes(&encode(&[b"EVAL", script, b"0"]));
        assert_eq!(client.read_to_end(), "", "what a script returns");
        client = server.connect();
    }
    assert_eq!(client.text(&["GET", "executed"]), "2", "what was begun has its effect");
    assert_eq!(server.info("client_output_buffer_limit_disconnections"), 6);
    let peak = peak_mb(&server);
    assert!(peak < MOST_MB, "{peak} MB");
}

/// Sets a document of this many bytes at `k`, within two arrays, and returns a path that finds it
/// ten thousand times.
fn with_document(client: &mut Client, len: usize) -> String {
    let text = format!("[[[\"{}\"]]]", "x".repeat(len));
    assert_eq!(client.text(&["JSON.SET", "k", "$", &text]), "OK");
    let union = format!("[{}]", vec!["0"; 100].join(","));
    format!("${union}{union}")
}

fn replies_of_documents_are_limited_while_they_grow(backend: &str) {
    let server = Server::start(backend, &["--client-output-buffer-limit", "normal 8mb 0 0"]);
    let many = |len: usize| {
        let mut args = vec!["k"; len + 2];
        (args[0], args[len + 1]) = ("JSON.MGET", "$");
        args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>()
    };
    // Each is 1 GB or more if it is whole.
    for len in [100_000, 1 << 20] {
        let mut client = server.connect();
        let path = with_document(&mut client, len);
        let keys = many(10_000);
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let calls: [&[&[u8]]; 5] = [
            &[b"JSON.ARRPOP", b"k", path.as_bytes()],
            &[b"JSON.GET", b"k", path.as_bytes()],
            &[b"JSON.RESP", b"k", path.as_bytes()],
            &[b"JSON.STRAPPEND", b"k", &[path.as_bytes(), b"[0]"].concat(), b"\"x\""],
            &keys,
        ];
        for call in calls {
            let mut client = server.connect();
            with_document(&mut client, len);
            client.send_bytes(&encode(call));
            client.send_bytes(&encode(&[b"QUIT"]));
            // It is closed, or the path is refused.
            let received = client.read_to_end();
            assert!(received.len() < 100_000, "{} bytes", received.len());
        }
    }
    let peak = peak_mb(&server);
    assert!(peak < MOST_MB, "{peak} MB");
}

fn replies_of_many_parts_are_limited_while_they_grow(backend: &str) {
    let server = Server::start(backend, &["--client-output-buffer-limit", "normal 2mb 0 0"]);
    let mut client = with_values(&server);
    client.call(&["SET", "large", &"x".repeat(1 << 20)]);
    let value = "x".repeat(10_000);
    (0..300).for_each(|_| drop(client.call(&["XADD", "stream", "*", "f", &value])));
    // Each says a name of 1 MB of itself.
    let name = "n".repeat(1 << 20);
    let mut named: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    named.iter_mut().for_each(|one| drop(one.call(&["CLIENT", "SETNAME", &name])));
    let often = |before: &[&str], words: &[&str], times: usize| -> Vec<String> {
        [before.to_vec(), words.repeat(times)].concat().into_iter().map(str::to_owned).collect()
    };
    let calls = [
        often(&["MGET"], &["string"], 100_000),
        often(&["MGET"], &["large"], 5_000),
        often(&["XRANGE", "stream", "-", "+"], &[], 0),
        often(&["XREVRANGE", "stream", "+", "-"], &[], 0),
        often(&["BITFIELD", "large"], &["GET", "i64", "0"], 120_000),
        often(&["COMMAND", "DOCS"], &["georadius"], 100_000),
        often(&["COMMAND", "INFO"], &["georadius"], 100_000),
        often(&["CLIENT", "LIST"], &[], 0),
    ];
    for (number, call) in calls.iter().enumerate() {
        let mut client = server.connect();
        let call: Vec<&[u8]> = call.iter().map(String::as_bytes).collect();
        client.send_bytes(&encode(&call));
        assert_eq!(client.read_to_end(), "", "{}", call[0].escape_ascii());
        let closed = server.info("client_output_buffer_limit_disconnections");
        assert_eq!(closed, number as i64 + 1, "{}", call[0].escape_ascii());
    }
    let peak = peak_mb(&server);
    assert!(peak < MOST_MB, "{peak} MB");
}

fn replies_stay_under_the_memory_limit(backend: &str) {
    let server = Server::start(backend, &["--maxmemory", "100mb"]);
    let mut client = with_values(&server);
    eventually("the limit is known", || {
        client.send_bytes(&much());
        let is_closed = client.read_to_end().len() < 200 << 20;
        client = server.connect();
        is_closed
    });
    client.send_bytes(&much());
    assert_eq!(client.read_to_end(), "", "a reply of 1 GB");
    // The buffer is copied while it grows.
    let peak = peak_mb(&server);
    assert!(peak < 2 * MOST_MB, "{peak} MB");
    // What fits is answered.
    let mut client = server.connect();
    assert!(client.text(&["LRANGE", "list", "0", "-1"]).len() > 1_000_000);
    assert!(server.info("client_output_buffer_limit_disconnections") >= 1);
}

/// Replies that are not read, and requests that are not complete: no command makes room for them.
fn keys_make_room_for_buffers_of_clients_that_do_not_write(backend: &str) {
    const LIMIT: i64 = 64 << 20;
    let limit = LIMIT.to_string();
    let memory = ["--threads", "1", "--maxmemory", &limit, "--maxmemory-policy", "volatile-lru"];
    let args = [&memory[..], &["--maxmemory-eviction-tenacity", "100"]].concat();
    let server = Server::start(backend, &args);
    let mut client = server.connect();
    let value = "x".repeat(4000);
    // Without an expiry it is not evicted: keys set within a second are equally old to LRU.
    assert_eq!(client.text(&["SET", "read", &value]), "OK");
    let mut keys = 0;
    while server.info("evicted_keys") == 0 {
        let mut set = |n| client.send(&["SET", &format!("key:{n}"), &value, "EX", "10000"]);
        (keys..keys + 1000).for_each(&mut set);
        (0..1000).for_each(|_| assert_eq!(show(&client.receive().unwrap()), "OK"));
        keys += 1000;
    }
    let within = |buffers: i64| {
        let used = server.info("used_memory");
        assert!(used <= LIMIT / 100 * 101, "{used} of {LIMIT} used");
        server.info("mem_clients_normal") >= buffers
    };
    let mut silent = Vec::new();
    for each in 0..16 {
        let (mut reader, mut sender) = (server.connect(), server.connect());
        sender.send_bytes(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n");
        sender.send_bytes(&vec![b'x'; 900_000]);
        eventually("buffers are there", || {
            // How much of the replies the kernel takes differs.
            reader.send_bytes(&encode(&[b"GET", b"read"]).repeat(100));
            within((each + 1) * 1_500_000)
        });
        silent.extend([reader, sender]);
    }
    assert!(server.info("evicted_keys") > 4_000);
}

fn what_commands_gather_stays_under_the_memory_limit(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    for first in (0..200_000).step_by(1000) {
        let members: Vec<String> = (first..first + 1000).map(|n| n.to_string()).collect();
        let mut add = vec!["SADD", "set"];
        add.extend(members.iter().map(String::as_str));
        client.text(&add);
    }
    client.text(&["SADD", "other", "a"]);
    let texts = format!("[{}]", vec!["[0]"; 300_000].join(","));
    assert_eq!(client.text(&["JSON.SET", "k", "$", &texts]), "OK");
    let before = server.info("used_memory");
    let limit = (before + (6 << 20)).to_string();
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory", &limit]), "OK");
    let calls: [&[&str]; 6] = [
        &["SORT", "set"],
        &["SORT", "set", "BY", "nosort", "GET", "#", "STORE", "sorted"],
        &["SUNION", "set", "other"],
        &["ZUNION", "2", "set", "other"],
        &["JSON.NUMINCRBY", "k", "$..*", "1"],
        &["JSON.ARRAPPEND", "k", "$[*]", "\"a text of some length, which each array would have\""],
    ];
    for call in calls {
        let reply = client.text(call);
        assert!(reply.starts_with("OOM "), "{call:?}: {}", &reply[..reply.len().min(100)]);
    }
    assert!((server.info("used_memory") - before).abs() < 1 << 20, "it is given back");
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory", "1gb"]), "OK");
    for call in calls {
        let reply = client.text(call);
        assert!(!reply.starts_with("OOM "), "{call:?}: {}", &reply[..reply.len().min(100)]);
    }
}

/// Values that a command of few bytes makes large: padded strings, and copies.
fn strings_grow_under_the_memory_limit(backend: &str) {
    let server = Server::start(backend, &["--maxmemory", "100mb"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["SETRANGE", "large", "60000000", "x"]), "60000001");
    let calls: [(&[&str], &str); 7] = [
        (&["SETRANGE", "k", "200000000", "x"], "200000001"),
        (&["SETBIT", "k", "1600000000", "1"], "0"),
        (&["BITFIELD", "k", "SET", "u8", "1600000000", "1"], "[0]"),
        (&["BITFIELD", "k", "GET", "u8", "0", "INCRBY", "u8", "1600000000", "0"], "[0 0]"),
        (&["BITOP", "NOT", "k", "large"], "60000001"),
        (&["COPY", "large", "k"], "1"),
        (&["EVAL", "return redis.call('SETRANGE', 'k', 200000000, 'x')", "1", "k"], "200000001"),
    ];
    for (call, _) in calls {
        let reply = client.text(call);
        assert!(reply.contains("OOM command not allowed"), "{call:?}: {reply}");
        assert_eq!(client.text(&["EXISTS", "k"]), "0", "{call:?}");
    }
    let (used, peak) = (server.info("used_memory"), peak_mb(&server));
    assert!(used < 100 << 20 && peak < MOST_MB, "{used} used, {peak} MB");
    // Small steps are made up for by eviction.
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]), "OK");
    for n in 0..60 {
        let key = n.to_string();
        assert_eq!(client.text(&["SETRANGE", &key, "4000000", "x"]), "4000001");
    }
    assert!(server.info("used_memory") < 110 << 20);
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory", "1gb"]), "OK");
    assert_eq!(client.text(&["SETRANGE", "large", "60000000", "x"]), "60000001");
    for (call, reply) in calls {
        assert_eq!(client.text(call), reply, "{call:?}");
        client.call(&["DEL", "k"]);
    }
}

fn batches_are_limited_between_their_commands(backend: &str) {
    let ranges = encode(&[b"LRANGE", b"list", b"0", b"-1"]).repeat(1000);
    let server = Server::start(backend, &["--client-output-buffer-limit", "normal 8mb 0 0"]);
    let mut client = with_values(&server);
    client.send_bytes(&ranges);
    eventually("it is closed", || server.info("client_output_buffer_limit_disconnections") == 1);
    let peak = peak_mb(&server);
    assert!(peak < MOST_MB, "{peak} MB under an output limit");

    let server = Server::start(backend, &["--maxmemory-clients", "8mb"]);
    let mut client = with_values(&server);
    client.send_bytes(&ranges);
    eventually("it is evicted", || {
        server.info("evicted_clients") + server.info("client_output_buffer_limit_disconnections")
            == 1
    });
    let peak = peak_mb(&server);
    assert!(peak < MOST_MB, "{peak} MB under a limit of all clients");
}

fn unwanted_replies_take_no_memory(backend: &str) {
    let server = Server::start(backend, &["--client-output-buffer-limit", "normal 8mb 0 0"]);
    let mut client = with_values(&server);
    let skip = encode(&[b"CLIENT", b"REPLY", b"SKIP"]);
    let skipped = [encode(&[b"ECHO", b"before"]), skip, much()];
    client.send_bytes(&skipped.concat());
    assert_eq!(show(&client.receive().unwrap()), "before");
    assert_eq!(client.text(&["PING"]), "PONG", "it is within its limit");
    let peak = peak_mb(&server);
    assert!(peak < MOST_MB, "{peak} MB");
}

fn who_reads_only_at_the_end_gets_everything(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = with_values(&server);
    let times = 1000;
    for n in 0..times {
        let number = n.to_string();
        client.send_bytes(&encode(&[b"GET", b"string"]).repeat(5));
        client.send_bytes(&encode(&[b"ECHO", number.as_bytes()]));
    }
    for n in 0..times {
        for _ in 0..5 {
            assert_eq!(show(&client.receive().unwrap()).len(), 15_000);
        }
        assert_eq!(show(&client.receive().unwrap()), n.to_string());
    }
}

fn who_reads_slowly_is_not_served_further(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    assert_eq!(client.text(&["SET", "large", &"x".repeat(1_000_000)]), "OK");
    client.send_bytes(&encode(&[b"GET", b"large"]).repeat(1000));
    let mut most = 0;
    for _ in 0..60 {
        assert_eq!(show(&client.receive().unwrap()).len(), 1_000_000);
        most = most.max(server.info("mem_clients_normal"));
    }
    assert!(most < 300_000_000, "{most} bytes of 1 GB waited");
}

fn who_has_ended_sending_gets_every_answer(backend: &str) {
    let server = Server::start(backend, &[]);
    with_values(&server);
    let pipelines = [
        (encode(&[b"PING"]).repeat(20_000), 7 * 20_000),
        (encode(&[b"GET", b"string"]).repeat(2000), 15_010 * 2000),
    ];
    for (pipeline, expected) in pipelines {
        let mut client = server.connect();
        client.send_bytes(&pipeline);
        client.end_sending();
        assert_eq!(client.read_to_end().len(), expected);
    }
}

fn what_is_announced_and_not_sent_is_not_counted(backend: &str) {
    let limit = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let server = Server::start(backend, &limit);
    let mut other = server.connect();
    assert_eq!(other.text(&["SET", "key", &"x".repeat(1_000_000)]), "OK");
    let mut client = server.connect();
    client.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000000\r\nxxx");
    for sent in [1_000_000, 9_000_000, 10_000_000] {
        client.send_bytes(&vec![b'x'; sent]);
        eventually("it has come", || server.info("mem_clients_normal") > sent as i64 / 3);
        assert!(server.info("used_memory") < 50_000_000);
        assert_eq!(other.text(&["SET", "small", "x"]), "OK");
    }
    assert_eq!(server.info("evicted_keys"), 0);
    assert_eq!(other.text(&["STRLEN", "key"]), "1000000");
    let rest = vec![b'x'; 400_000_000 - 20_000_003];
    client.send_bytes(&rest[..rest.len() / 2]);
    eventually("all of it counts", || server.info("evicted_keys") > 0);
}

fn a_reply_without_end_ends_at_the_limit(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    client.text(&["HSET", "hash", "a", "b"]);
    client.text(&["SADD", "set", "a"]);
    client.text(&["ZADD", "sorted", "1", "a"]);
    let draws = [["HRANDFIELD", "hash"], ["SRANDMEMBER", "set"], ["ZRANDMEMBER", "sorted"]];
    let times = "-999999999";
    for [command, key] in draws {
        assert_eq!(client.text(&[command, key, times]), "ERR value is out of range");
    }
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"];
    assert_eq!(client.text(&limit), "OK");
    for [command, key] in draws {
        client.send(&[command, key, times]);
        assert_eq!(client.read_to_end(), "");
        client = server.connect();
    }
    assert_eq!(server.info("client_output_buffer_limit_disconnections"), 3);
    let nested = format!("return #redis.call('HRANDFIELD', 'hash', {times})");
    let refused = client.text(&["EVAL", &nested, "0"]);
    assert!(refused.starts_with("ERR value is out of range"), "{refused}");
}

fn more_clients_than_allowed_are_refused(backend: &str) {
    let server = Server::start(backend, &["--maxclients", "3"]);
    eventually("the harness's own connection is gone", || server.info("connected_clients") == 1);
    let mut clients: Vec<Client> = Vec::new();
    eventually("three are in", || {
        clients.clear();
        clients = (0..3).map(|_| server.connect()).collect();
        clients.iter_mut().all(|client| {
            client.send(&["PING"]);
            client.receive().is_some_and(|reply| show(&reply) == "PONG")
        })
    });
    let mut refused = server.connect();
    assert_eq!(refused.read_to_end(), "-ERR max number of clients reached\r\n");
    assert_eq!(clients[0].text(&["CONFIG", "SET", "maxclients", "4"]), "OK");
    let mut fourth = server.connect();
    assert_eq!(fourth.text(&["PING"]), "PONG");
    let text = fourth.text(&["INFO", "stats"]);
    let line = text.lines().find(|line| line.starts_with("rejected_connections:")).unwrap();
    assert_ne!(line, "rejected_connections:0");
}

/// Asks for much more than the socket holds.
fn ask_for_much(server: &Server, times: usize) -> Client {
    let mut client = server.connect();
    let value = "x".repeat(100_000);
    assert_eq!(client.text(&["SET", "k", &value]), "OK");
    client.send_bytes(&encode(&[b"GET", b"k"]).repeat(times));
    client
}

fn a_reader_that_does_not_read_is_closed(backend: &str) {
    let server = Server::start(backend, &["--client-output-buffer-limit", "normal 2mb 0 0"]);
    let mut client = ask_for_much(&server, 400);
    eventually("it is closed", || server.info("client_output_buffer_limit_disconnections") == 1);
    let received = client.read_to_end().len();
    assert!(received < 30_000_000, "{received} of 40 MB arrived");
    eventually("it is forgotten", || server.info("mem_clients_normal") < 10_000);
    assert_eq!(ask_for_much(&server, 10).text(&["PING"]).len(), 100_000);
}

fn a_reader_that_reads_too_slowly_is_closed_after_a_while(backend: &str) {
    let server = Server::start(backend, &["--client-output-buffer-limit", "normal 0 1mb 1"]);
    let start = Instant::now();
    let client = ask_for_much(&server, 100);
    eventually("its output waits", || server.info("mem_clients_normal") > 1 << 20);
    eventually("it is closed", || server.info("client_output_buffer_limit_disconnections") == 1);
    assert!(start.elapsed() >= Duration::from_millis(900));
    drop(client);
}

fn unfinished_requests_are_bounded(backend: &str) {
    let server = Server::start(backend, &["--client-query-buffer-limit", "1mb"]);
    // Announced as one value, and as endless arguments.
    let mut one = server.connect();
    one.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\n");
    one.send_bytes(&vec![b'x'; 1_500_000]);
    assert_eq!(one.read_to_end(), "");
    let mut many = server.connect();
    many.send_bytes(b"*1000000\r\n$4\r\nMGET\r\n");
    let argument = b"$10\r\n0123456789\r\n".repeat(10_000);
    for _ in 0..20 {
        many.send_bytes(&argument);
    }
    assert_eq!(many.read_to_end(), "");
    assert_eq!(server.info("client_query_buffer_limit_disconnections"), 2);

    let mut inline = server.connect();
    inline.send_bytes(&vec![b'x'; 70_000]);
    assert_eq!(inline.read_to_end(), "-ERR Protocol error: too big inline request\r\n");
    let mut bulk = server.connect();
    bulk.send_bytes(b"*1\r\n$600000000\r\n");
    assert_eq!(bulk.read_to_end(), "-ERR Protocol error: invalid bulk length\r\n");
}

fn strangers_may_send_little(backend: &str) {
    let server = Server::start(backend, &["--requirepass", "pw"]);
    for (request, expected) in [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut client = server.connect();
        client.send_bytes(request.as_bytes());
        assert_eq!(client.read_to_end(), expected);
    }
    let mut client = server.connect();
    assert_eq!(client.text(&["AUTH", "pw"]), "OK");
    assert_eq!(client.text(&["ECHO", &"x".repeat(20_000)]).len(), 20_000);
}

fn idle_clients_are_closed(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut idle = server.connect();
    let mut busy = server.connect();
    assert_eq!(busy.text(&["CONFIG", "SET", "timeout", "1"]), "OK");
    let (sender, closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(idle.receive().is_none()));
    eventually("the idle one is closed", || {
        assert_eq!(busy.text(&["PING"]), "PONG", "the busy one is not");
        closed.try_recv() == Ok(true)
    });
}

fn all_clients_together_are_bounded(backend: &str) {
    let server = Server::start(backend, &["--maxmemory-clients", "1200kb"]);
    let partial = |name: &str, bytes: usize| {
        let mut client = server.connect();
        client.text(&["CLIENT", "SETNAME", name]);
        client.send_bytes(format!("*2\r\n$4\r\nECHO\r\n${bytes}\r\n").as_bytes());
        client.send_bytes(&vec![b'x'; bytes]);
        client
    };
    let mut precious = server.connect();
    precious.text(&["CLIENT", "NO-EVICT", "on"]);
    precious.send_bytes(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n");
    precious.send_bytes(&vec![b'x'; 1_000_000]);
    let mut small = partial("small", 100_000);
    let mut large = partial("large", 1_500_000);
    assert!(large.receive().is_none(), "the largest of those that may be closed goes");
    assert_eq!(server.info("evicted_clients"), 1);
    small.send_bytes(b"\r\n");
    assert_eq!(show(&small.receive().unwrap()).len(), 100_000);
}

/// Without waiting for a round of upkeep: what would be too much is neither executed nor kept.
fn whoever_makes_it_too_much_is_closed_at_once(backend: &str) {
    let server = Server::start(backend, &["--maxmemory-clients", "2mb"]);
    let mut large = server.connect();
    large.send_bytes(&encode(&[b"SET", b"large", &vec![b'x'; 3_000_000]]));
    assert_eq!(large.read_to_end(), "");
    let mut watcher = server.connect();
    let keys: Vec<Vec<u8>> = (0..60_000).map(|i| format!("key:{i}").into_bytes()).collect();
    let mut command: Vec<&[u8]> = vec![b"WATCH"];
    command.extend(keys.iter().map(|key| &key[..]));
    watcher.send_bytes(&encode(&command));
    assert_eq!(watcher.read_to_end(), "", "places of watched keys count");
    assert_eq!(server.connect().text(&["EXISTS", "large"]), "0");
    assert_eq!(server.info("evicted_clients"), 2);
}
