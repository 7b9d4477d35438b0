//! CLIENT, AUTH, and the other commands about connections.

use crate::harness::*;
use std::time::{Duration, Instant};

with_each_backend!(
    list_shows_and_filters,
    filters_of_one_kind_replace_each_other,
    commands_and_reads_are_counted,
    kill_closes_connections_of_any_worker,
    pause_holds_commands_back,
    a_pause_of_writes_lets_scripts_pass_that_only_read,
    reply_mutes_a_connection,
    auth_admits,
    tcp_connections_have_addresses,
    closed_connections_are_not_shown_to_later_ones,
    half_closed_connections_are_there_until_they_are_answered,
);

/// The value of a field in a line of `CLIENT LIST`.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let found = line.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("{name} in {line}"))
}

fn list_shows_and_filters(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut one = server.connect();
    let mut two = server.connect();
    one.text(&["CLIENT", "SETNAME", "one"]);
    one.text(&["CLIENT", "SETINFO", "LIB-NAME", "lib"]);
    one.text(&["CLIENT", "NO-EVICT", "on"]);
    two.text(&["SELECT", "3"]);
    two.text(&["MULTI"]);
    two.text(&["SET", "a", "b"]);
    let list = one.text(&["CLIENT", "LIST"]);
    let lines: Vec<&str> = list.lines().filter(|line| field(line, "cmd") != "NULL").collect();
    assert_eq!(lines.len(), 2, "{list}");
    let expected = [
        ("name", "one"),
        ("flags", "Ue"),
        ("db", "0"),
        ("multi", "-1"),
        ("cmd", "client|list"),
        ("lib-name", "lib"),
        ("user", "default"),
        ("resp", "2"),
        ("tot-cmds", "3"),
        ("idle", "0"),
    ];
    for (name, value) in expected {
        assert_eq!(field(lines[0], name), value, "{name} in {}", lines[0]);
    }
    for (name, value) in [("flags", "xU"), ("db", "3"), ("multi", "1"), ("cmd", "set")] {
        assert_eq!(field(lines[1], name), value, "{name} in {}", lines[1]);
    }
    let workers: Vec<&str> = lines.iter().map(|line| field(line, "io-thread")).collect();
    assert_ne!(workers[0], workers[1], "connections are shared out");
    let id = field(lines[1], "id");
    let mut count = |filter: &[&str]| {
        let args = [&["CLIENT", "LIST"], filter].concat();
        one.text(&args).lines().filter(|line| field(line, "cmd") != "NULL").count()
    };
    for (filter, expected) in [
        (&["ID", id][..], 1),
        (&["ID", id, id, "999"], 1),
        (&["NOT-ID", id], 1),
        (&["NAME", "one"], 1),
        (&["NOT-NAME", "one"], 1),
        (&["DB", "3"], 1),
        (&["FLAGS", "x"], 1),
        (&["FLAGS", "U"], 2),
        (&["TYPE", "normal"], 2),
        (&["TYPE", "replica"], 0),
        (&["USER", "default"], 2),
        (&["SKIPME", "yes"], 1),
        (&["LIB-NAME", "lib", "FLAGS", "e"], 1),
        (&["MAXAGE", "1000"], 0),
        (&["NAME", ""], 0),
        (&["CAPA", "r"], 0),
        (&["NOT-CAPA", "r"], 2),
        (&["IP", "127.0.0.1"], 0),
    ] {
        assert_eq!(count(filter), expected, "{filter:?}");
    }
    assert_eq!(two.text(&["RESET"]), "RESET");
    assert_eq!(two.text(&["CLIENT", "CAPA", "redirect", "unheard-of"]), "OK");
    assert_eq!(count(&["CAPA", "r"]), 1);
    assert!(two.text(&["CLIENT", "INFO"]).trim_end().ends_with(" capa=r"));
}

fn filters_of_one_kind_replace_each_other(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    let ids: Vec<String> = clients.iter_mut().map(|one| one.text(&["CLIENT", "ID"])).collect();
    clients[1].text(&["CLIENT", "SETNAME", "named"]);
    let mut one = server.connect();
    let mut list = |filter: &[&str]| one.text(&[&["CLIENT", "LIST"], filter].concat());
    assert_eq!(list(&["ID", &ids[0], "ID", &ids[1], &ids[2]]).lines().count(), 3);
    assert_eq!(list(&["NAME", "other", "NAME", "named"]).lines().count(), 1);
    assert_eq!(list(&["TYPE", "replica", "TYPE", "normal", "ID", &ids[0]]).lines().count(), 1);
    for (filter, error) in [
        (&["ID", "x"][..], "ERR Invalid client ID"),
        (&["ID", "1", "x"], "ERR Invalid client ID"),
        (&["NOT-ID", "x"], "ERR syntax error"),
        (&["NOT-ID", "0"], "ERR client-id should be greater than 0"),
        (&["FLAGS", "NQ"], "ERR Unknown flags found in the provided filter: NQ"),
        (&["CAPA", "x"], "ERR Unknown capa found in the provided filter: x"),
        (&["DB", "x"], "ERR DB is not an integer or out of range"),
        (&["DB", "16"], "ERR DB number should be between 0 and 15"),
        (&["NOT-IDLE", "1"], "ERR syntax error"),
        (&["NAME"], "ERR syntax error"),
    ] {
        assert_eq!(list(filter), error, "{filter:?}");
    }
    assert_eq!(one.text(&["CLIENT", "KILL", "NAME", "x", "NAME", "named", "ID", &ids[1]]), "1");
    assert_eq!(one.text(&["CLIENT", "KILL", "ID", &ids[0], "ID", &ids[2]]), "2");
}

fn commands_and_reads_are_counted(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    client.send_bytes(&encode(&[b"PING"]).repeat(5));
    (0..5).for_each(|_| drop(client.receive()));
    let id = client.text(&["CLIENT", "ID"]);
    let mut other = server.connect();
    let mut line = || other.text(&["CLIENT", "LIST", "ID", &id]);
    assert_eq!(field(&line(), "tot-cmds"), "6");
    assert_eq!(field(&line(), "avg-pipeline-len-sum"), "6");
    let reads: u32 = field(&line(), "read-events").parse().unwrap();
    assert!((2..=6).contains(&reads), "{reads}");
    client.send(&["BLPOP", "list", "0"]);
    eventually("it waits", || field(&line(), "flags") == "bU");
    assert_eq!(field(&line(), "tot-cmds"), "6");
    server.connect().call(&["RPUSH", "list", "v"]);
    client.receive();
    assert_eq!(field(&line(), "tot-cmds"), "7");
}

fn kill_closes_connections_of_any_worker(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut killer = server.connect();
    let mut others: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    let ids: Vec<String> = others.iter_mut().map(|client| client.text(&["CLIENT", "ID"])).collect();
    assert_eq!(killer.text(&["CLIENT", "KILL", "ID", &ids[0], &ids[1]]), "2");
    assert!(others[0].receive().is_none() && others[1].receive().is_none());
    assert_eq!(others[2].text(&["PING"]), "PONG");
    assert_eq!(killer.text(&["CLIENT", "KILL", "ID", &ids[0]]), "0");
    assert_eq!(killer.text(&["CLIENT", "KILL", "1.2.3.4:5"]), "ERR No such client");
    assert_eq!(killer.text(&["CLIENT", "KILL", "TYPE", "normal"]), "4");
    assert!(others[2..].iter_mut().all(|client| client.receive().is_none()));
    killer.send_bytes(b"CLIENT KILL TYPE normal SKIPME no\r\nPING\r\n");
    assert_eq!(killer.read_to_end(), ":1\r\n", "it kills itself once it has answered");
    eventually("all are gone", || server.info("connected_clients") == 1);
}

fn pause_holds_commands_back(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut pauser = server.connect();
    let mut others: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    assert_eq!(pauser.text(&["CLIENT", "PAUSE", "60000", "WRITE"]), "OK");
    for other in &mut others {
        assert_eq!(other.text(&["GET", "k"]), "nil");
        assert!(other.text(&["INCR"]).starts_with("ERR wrong number of arguments"));
        other.send(&["INCR", "k"]);
        assert!(other.is_silent(Duration::from_millis(30)));
    }
    eventually("both wait", || server.info("blocked_clients") == 2);
    assert_eq!(pauser.text(&["CLIENT", "UNPAUSE"]), "OK");
    let sums: Vec<_> = others.iter_mut().map(|other| show(&other.receive().unwrap())).collect();
    assert!(sums.contains(&"1".into()) && sums.contains(&"2".into()));
    assert_eq!(server.info("blocked_clients"), 0);

    assert_eq!(pauser.text(&["CLIENT", "PAUSE", "150"]), "OK");
    let start = Instant::now();
    assert_eq!(others[0].text(&["GET", "k"]), "2");
    assert!(start.elapsed() >= Duration::from_millis(100), "reads wait too");
}

fn reply_mutes_a_connection(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    client.send_bytes(
        b"CLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY SKIP\r\nNOSUCH\r\nCLIENT REPLY ON\r\nPING\r\n\
          CLIENT REPLY SKIP\r\nECHO no\r\nECHO yes\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nQUIT\r\n",
    );
    assert_eq!(client.read_to_end(), "+OK\r\n+PONG\r\n$3\r\nyes\r\n+OK\r\n+OK\r\n");
}

fn auth_admits(backend: &str) {
    let server = Server::start(backend, &["--requirepass", "secret"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["GET", "k"]), "NOAUTH Authentication required.");
    assert!(client.text(&["HELLO", "3"]).starts_with("NOAUTH HELLO must be called"));
    assert!(client.text(&["AUTH", "wrong"]).starts_with("WRONGPASS"));
    assert!(client.text(&["AUTH", "someone", "secret"]).starts_with("WRONGPASS"));
    assert_eq!(client.text(&["AUTH", "secret"]), "OK");
    assert_eq!(client.text(&["GET", "k"]), "nil");
    assert_eq!(client.text(&["RESET"]), "RESET");
    assert!(client.text(&["GET", "k"]).starts_with("NOAUTH"));
    assert!(client.text(&["HELLO", "3", "AUTH", "default", "secret"]).contains("proto:3"));
    assert!(client.text(&["INFO", "stats"]).contains("acl_access_denied_auth:2\r\n"));
    // A pipeline that begins with its password needs no second round.
    let mut quick = server.connect();
    quick.send_bytes(b"AUTH secret\r\nPING\r\nQUIT\r\n");
    assert_eq!(quick.read_to_end(), "+OK\r\n+PONG\r\n+OK\r\n");
}

fn tcp_connections_have_addresses(backend: &str) {
    let port = free_port();
    let server = Server::start(backend, &["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    let mut client = Client::tcp(port);
    let line = client.text(&["CLIENT", "INFO"]);
    assert_eq!(field(&line, "laddr"), format!("127.0.0.1:{port}"));
    assert!(field(&line, "addr").starts_with("127.0.0.1:"));
    assert_eq!(field(&line, "flags"), "N");
    let address = field(&line, "addr").to_string();
    let mut other = server.connect();
    assert_eq!(field(&other.text(&["CLIENT", "INFO"]), "addr"), "s:0");
    assert_eq!(other.text(&["CLIENT", "LIST", "IP", "127.0.0.1"]).lines().count(), 1);
    assert_eq!(other.text(&["CLIENT", "KILL", &address]), "OK");
    assert!(client.receive().is_none());
}

fn a_pause_of_writes_lets_scripts_pass_that_only_read(backend: &str) {
    let server = Server::start(backend, &[]);
    let (mut reader, mut writer) = (server.connect(), server.connect());
    let reads = "#!lua flags=no-writes\nreturn 12";
    let sum = reader.text(&["SCRIPT", "LOAD", reads]);
    let library = "#!lua name=l\nredis.register_function{function_name='f', \
                   callback=function() return 12 end, flags={'no-writes'}}";
    assert_eq!(reader.text(&["FUNCTION", "LOAD", library]), "l");
    let mut other = server.connect();
    assert_eq!(other.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), "OK");
    assert_eq!(reader.text(&["EVAL", reads, "0"]), "12");
    assert_eq!(reader.text(&["EVALSHA", &sum, "0"]), "12");
    assert_eq!(reader.text(&["FCALL", "F", "0"]), "12");
    assert_eq!(reader.text(&["MULTI"]), "OK");
    assert_eq!(reader.text(&["EVAL", reads, "0"]), "QUEUED");
    assert_eq!(reader.text(&["EXEC"]), "[12]");
    writer.text(&["MULTI"]);
    writer.text(&["EVAL", "return 13", "0"]);
    writer.send(&["EXEC"]);
    eventually("EXEC is held back", || server.info("blocked_clients") == 1);
    assert_eq!(other.text(&["CLIENT", "UNPAUSE"]), "OK");
    assert_eq!(show(&writer.receive().unwrap()), "[13]");
}

/// A client that connects after others have closed does not see them, whichever worker has them and
/// whatever that is doing.
fn closed_connections_are_not_shown_to_later_ones(backend: &str) {
    let server = Server::start(backend, &["--threads", "4"]);
    for _ in 0..250 {
        let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| drop(client.call(&["PING"])));
        drop(clients);
        let mut later = server.connect();
        let list = later.text(&["CLIENT", "LIST"]);
        assert_eq!(list.lines().count(), 1, "{list}");
        let info = later.text(&["INFO", "clients"]);
        assert!(info.contains("connected_clients:1\r\n"), "{info}");
        assert_eq!(later.text(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]), "0");
    }
}

/// A program may close its sending side after a request.
fn half_closed_connections_are_there_until_they_are_answered(backend: &str) {
    let server = Server::start(backend, &["--threads", "1"]);
    let mut asking = server.connect();
    let ask = encode(&[b"CLIENT", b"LIST"]);
    let count = encode(&[b"INFO", b"clients"]);
    asking.send_bytes(&[ask, count].concat());
    asking.stop_sending();
    let answers = asking.read_to_end();
    assert!(answers.contains("cmd=client|list"), "{answers}");
    assert!(answers.contains("connected_clients:1\r\n"), "{answers}");
}
