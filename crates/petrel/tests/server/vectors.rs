//! Vector sets in our own form: through a kill with a log, a snapshot, and on a replica.

use crate::harness::*;

/// Adds and changes elements, and returns everything that is to be found again.
fn fill(client: &mut Client) -> Vec<String> {
    for n in 0..200 {
        let components: Vec<String> =
            (0..70).map(|i| (n * 31 + i * i * 7) % 19 - 9).map(|x: i32| x.to_string()).collect();
        let name = format!("e{}", n % 150);
        let mut args = vec!["VADD", "k", "VALUES", "70"];
        args.extend(components.iter().map(String::as_str));
        args.extend([&name[..], "RABITQ", "M", "8", "SETATTR", "{\"a\":1}"]);
        client.call(&args);
    }
    client.call(&["VREM", "k", "e7"]);
    client.call(&["VSETATTR", "k", "e8", "{\"a\":2}"]);
    contents(client)
}

fn contents(client: &mut Client) -> Vec<String> {
    let mut all = vec![client.text(&["VCARD", "k"]), client.text(&["VRANGE", "k", "-", "+"])];
    for n in 0..150 {
        let name = format!("e{n}");
        all.push(client.text(&["VEMB", "k", &name, "RAW"]));
        all.push(client.text(&["VGETATTR", "k", &name]));
    }
    all.push(client.text(&["VSIM", "k", "ELE", "e9", "TRUTH", "WITHSCORES", "FILTER", ".a == 1"]));
    all
}

#[test]
fn our_own_form_is_there_after_a_kill_and_a_snapshot() {
    let log = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start("epoll", &log);
    let expected = fill(&mut server.connect());
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    let mut server = Server::start_in(server.into_scratch(), "epoll", &log);
    let mut client = server.connect();
    eventually("the data", || client.text(&["PING"]) == "PONG");
    assert_eq!(contents(&mut client), expected);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert_eq!(client.text(&["SAVE"]), "OK");
    server.signal(libc::SIGTERM);
    server.exit_code();
    let server = Server::start_in(server.into_scratch(), "epoll", &[]);
    let mut client = server.connect();
    eventually("the data", || client.text(&["PING"]) == "PONG");
    assert_eq!(contents(&mut client), expected);
}

#[test]
fn a_replica_has_the_same_codes() {
    let port = free_port().to_string();
    let args = ["--repl-diskless-sync-delay", "0", "--port", &port];
    let primary = Server::start("epoll", &args);
    let mut client = primary.connect();
    fill(&mut client);
    let replica = Server::start("epoll", &[]);
    let mut follower = replica.connect();
    assert_eq!(follower.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    eventually("the copy", || follower.text(&["VCARD", "k"]) == "149");
    // What follows comes as commands.
    let expected = fill(&mut client);
    eventually("the commands", || contents(&mut follower) == expected);
}
