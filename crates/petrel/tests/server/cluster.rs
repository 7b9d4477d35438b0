//! A server as a member of a cluster, by the command line.

use crate::harness::{Client, Scratch, Server, eventually, run_to_end, show};
use crate::http::get;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Arguments of a cluster in which every member holds all data; later arguments override them.
pub const FOUND: &str =
    "--cluster-create --cluster-copies all --cluster-passphrase-file passphrase --bind 127.0.0.1";

pub fn scratch(passphrase: &str) -> Scratch {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("passphrase"), passphrase).unwrap();
    scratch
}

pub fn start(scratch: Scratch, args: &str) -> Server {
    Server::start_in(scratch, "epoll", &args.split(' ').collect::<Vec<_>>())
}

/// The flags of a server that joins the cluster of another.
pub fn join(member: &Server) -> String {
    let output = member.output();
    let bus = output.lines().find_map(|line| line.split_once("the bus is at ")).unwrap().1;
    FOUND.replace("--cluster-create", &format!("--cluster-join {bus}"))
}

pub fn call(client: &mut Client, command: &str) -> String {
    client.text(&command.split(' ').collect::<Vec<_>>())
}

/// Like [`call`], but connects again if the server closes the connection, as when no other owner
/// acknowledges the command's changes.
pub fn call_or_reconnect(server: &Server, client: &mut Client, command: &str) -> String {
    client.send(&command.split(' ').collect::<Vec<_>>());
    match client.receive() {
        Some(reply) => show(&reply),
        None => {
            *client = server.connect();
            "closed".into()
        }
    }
}

/// Waits until a server serves its cluster's data.
pub fn await_service(server: &Server) -> Client {
    let mut client = server.connect();
    eventually("the server serves", || {
        call(&mut client, "CLUSTER INFO").starts_with("cluster_state:ok\r\n")
    });
    client
}

pub fn await_line(server: &Server, part: &str) {
    eventually(part, || server.output().contains(part));
}

#[test]
fn a_founder_serves_alone_and_comes_back_with_its_data() {
    let flags = format!("{FOUND} --appendonly yes");
    let server = start(scratch("secret\n"), &flags);
    let mut client = await_service(&server);
    assert_eq!(call(&mut client, "SET a 1"), "OK");
    assert_eq!(call(&mut client, "INCR a"), "2");
    let id = call(&mut client, "CLUSTER MYID");
    assert_eq!(id.len(), 40);
    let nodes = call(&mut client, "CLUSTER NODES");
    assert!(nodes.starts_with(&id) && nodes.ends_with("connected 0-16383\n"), "{nodes}");
    assert_eq!(call(&mut client, "CLUSTER LINKS"), "[]");
    let help = call(&mut client, "CLUSTER HELP");
    assert!(help.contains("KEYSLOT") && !help.contains("ADDSLOTS"), "{help}");
    let info = call(&mut client, "INFO cluster");
    assert!(info.contains("cluster_enabled:0\r\ncluster_state:ok\r\n"), "{info}");
    // Keys expire by themselves: this is their home.
    assert_eq!(call(&mut client, "SET b 1 PX 1"), "OK");
    eventually("a key expires", || call(&mut client, "DBSIZE") == "1");

    server.signal(libc::SIGKILL);
    let mut server = server;
    server.exit_code();
    let mut server = start(server.into_scratch(), &flags);
    let mut client = await_service(&server);
    assert_eq!(call(&mut client, "INCR a"), "3");
    assert_eq!(call(&mut client, "CLUSTER MYID"), id);

    server.signal(libc::SIGTERM);
    assert_eq!(server.exit_code(), Some(0));
    // The directory returns to its cluster, whichever member it is to join.
    let flags = flags.replace("--cluster-create", "--cluster-join 127.0.0.1:1");
    let server = start(server.into_scratch(), &flags);
    let mut client = await_service(&server);
    assert_eq!(call(&mut client, "INCR a"), "4");
    assert_eq!(call(&mut client, "CLUSTER MYID"), id);
}

/// Queues between workers and the agent are allocated as they fill.
#[test]
fn an_empty_member_allocates_little() {
    let founder = start(scratch("secret"), &format!("{FOUND} --cluster-copies 2"));
    await_service(&founder);
    let second = start(scratch("secret"), &join(&founder));
    await_service(&second);
    for member in [&founder, &second] {
        assert!(member.info("allocator_allocated") < 4 << 20);
    }
}

#[test]
fn who_has_data_does_not_join() {
    let founder = start(scratch("secret"), FOUND);
    await_service(&founder);
    let refused = |place: &Scratch, appendonly: &str, what: &str| {
        let args = format!("--port 0 --unixsocket s --appendonly {appendonly} {}", join(&founder));
        let output = run_to_end(place, &args.split(' ').collect::<Vec<_>>());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("cluster-join: {what} holds data")), "{text}");
        assert!(!place.path("cluster").exists());
    };
    let end = |mut server: Server| {
        server.signal(libc::SIGTERM);
        assert_eq!(server.exit_code(), Some(0), "{}", server.output());
        server.into_scratch()
    };
    // A snapshot, and the log, which is looked at whether it is on or not.
    let server = Server::start_in(scratch("secret"), "epoll", &[]);
    let mut client = server.connect();
    assert_eq!(call(&mut client, "SET a 1"), "OK");
    assert_eq!(call(&mut client, "SAVE"), "OK");
    let place = end(server);
    let saved = std::fs::read(place.path("dump.rdb")).unwrap();
    for appendonly in ["no", "yes"] {
        refused(&place, appendonly, "dump.rdb");
    }
    assert!(std::fs::read(place.path("dump.rdb")).unwrap() == saved);
    std::fs::rename(place.path("dump.rdb"), place.path("appendonly.aof")).unwrap();
    refused(&place, "yes", "appendonly.aof");
    let server = Server::start_in(scratch("secret"), "epoll", &["--appendonly", "yes"]);
    assert_eq!(call(&mut server.connect(), "SET a 1"), "OK");
    let place = end(server);
    for appendonly in ["no", "yes"] {
        refused(&place, appendonly, "appendonlydir");
    }
    let server = Server::start_in(place, "epoll", &["--appendonly", "yes"]);
    assert_eq!(call(&mut server.connect(), "GET a"), "1");
    // A server without data joins, even with a log that was created empty.
    let server = Server::start_in(scratch("secret"), "epoll", &["--appendonly", "yes"]);
    assert_eq!(call(&mut server.connect(), "SAVE"), "OK");
    let place = end(server);
    let member = start(place, &format!("{} --appendonly yes", join(&founder)));
    let mut client = await_service(&member);
    assert_eq!(call(&mut client, "SET b 2"), "OK");
    // After a restart it has its data.
    let member = start(end(member), &format!("{} --appendonly yes", join(&founder)));
    assert_eq!(call(&mut await_service(&member), "GET b"), "2");
}

#[test]
fn a_file_of_another_server_is_loaded_as_it_was_meant() {
    let place = scratch("secret");
    let commands = ["SET a 1", "MULTI", "SET b 2", "FLUSHALL", "SET c 3", "EXEC", "SET d 4"];
    let encoded = |command: &&str| {
        let words: Vec<&str> = command.split(' ').collect();
        let args = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), args.collect::<String>())
    };
    let file: String = commands.iter().map(encoded).collect();
    std::fs::write(place.path("appendonly.aof"), file).unwrap();
    let server = start(place, &format!("{FOUND} --appendonly yes"));
    let mut client = await_service(&server);
    assert_eq!(call(&mut client, "DBSIZE"), "2", "{}", server.output());
    assert_eq!(call(&mut client, "MGET a b c d"), "[nil nil 3 4]");
}

#[test]
fn a_stranger_is_turned_away() {
    let founder = start(scratch("secret"), FOUND);
    await_service(&founder);
    let port = crate::harness::free_port();
    let stranger = start(scratch("guess"), &format!("{} --http-port {port}", join(&founder)));
    await_line(&founder, "was rejected: passphrase or name of the cluster differ");
    await_line(&stranger, "passphrase or name of the cluster differ there");
    let mut client = stranger.connect();
    assert!(call(&mut client, "CLUSTER INFO").starts_with("cluster_state:fail\r\n"));
    assert_eq!(call(&mut client, "CLUSTER MYID").len(), 40);
    assert!(call(&mut client, "GET a").starts_with("LOADING "));
    assert_eq!(get(port, "/health").0, "HTTP/1.1 200 OK");
    let (status, why) = get(port, "/ready");
    assert!(status.contains("503") && why.contains("not a member of the cluster yet"), "{why}");
    for server in [&founder, &stranger] {
        let output = server.output();
        assert!(!output.contains("secret") && !output.contains("guess"), "{output}");
    }
}

#[test]
fn who_has_the_data_takes_the_slots_back_though_others_wait() {
    let port = crate::harness::free_port();
    let flags = format!("{FOUND} --appendonly yes --cluster-port {port}");
    let mut founder = start(scratch("secret"), &flags);
    let mut client = await_service(&founder);
    assert_eq!(call(&mut client, "SET a 1"), "OK");
    let other = start(scratch("secret"), &join(&founder));
    eventually("two members", || call(&mut client, "CLUSTER NODES").lines().count() == 2);
    founder.signal(libc::SIGKILL);
    founder.exit_code();
    let founder = start(founder.into_scratch(), &flags);
    let mut client = await_service(&founder);
    assert_eq!(call(&mut client, "INCR a"), "2");
    let mut client = other.connect();
    let own = format!("@{port} ");
    eventually("the other hears of it", || {
        let nodes = call(&mut client, "CLUSTER NODES");
        nodes.lines().count() == 2 && nodes.lines().any(|line| line.contains(&own))
    });
}

#[test]
fn a_passphrase_is_not_shown() {
    let server = start(Scratch::new(), &FOUND.replace("-file passphrase", " hushhush"));
    let mut client = await_service(&server);
    for command in ["CONFIG GET cluster-*", "INFO everything", "CLUSTER INFO", "CLUSTER NODES"] {
        let reply = call(&mut client, command);
        assert!(reply.len() > 40 && !reply.contains("hushhush"), "{command}: {reply}");
    }
    assert!(!server.output().contains("hushhush"));
}

#[test]
fn a_witness_serves_no_data() {
    let founder = start(scratch("secret"), FOUND);
    await_service(&founder);
    let port = crate::harness::free_port();
    let flags = format!("{} --cluster-role witness --http-port {port}", join(&founder));
    let witness = start(scratch("secret"), &flags);
    let mut client = witness.connect();
    eventually("two members", || call(&mut client, "CLUSTER NODES").lines().count() == 2);
    let is_refused = |client: &mut Client| {
        for command in ["GET a", "SET a 1"] {
            let reply = call(client, command);
            assert!(reply.starts_with("CLUSTERDOWN This node is a witness"), "{reply}");
        }
        // It is as healthy as it will be, and no client should be sent to it.
        assert_eq!(call(client, "PING"), "PONG");
        assert_eq!(get(port, "/health").0, "HTTP/1.1 200 OK");
        let (status, why) = get(port, "/ready");
        assert!(status.contains("503") && why.contains("a witness"), "{status} {why}");
    };
    is_refused(&mut client);
    await_line(&witness, " votes");
    is_refused(&mut client);
    let nodes = call(&mut client, "CLUSTER NODES");
    assert_eq!(nodes.matches(" myself,witness - ").count(), 1, "{nodes}");
    let mut client = founder.connect();
    assert_eq!(call(&mut client, "SET a 1"), "OK");
    // It leaves when it is stopped; the founder goes on.
    witness.signal(libc::SIGTERM);
    eventually("one member", || call(&mut client, "CLUSTER NODES").lines().count() == 1);
}

#[test]
fn flags_that_contradict_each_other_say_what_to_change() {
    for (args, part) in [
        ("--cluster-create", "set cluster-passphrase-file"),
        ("--cluster-create --cluster-join a --cluster-passphrase x", "contradict each other"),
        ("--cluster-create --cluster-passphrase x --replicaof a 1", "cannot be a replica"),
        ("--cluster-join a --cluster-passphrase-file none", "none: No such file or directory"),
    ] {
        let args: Vec<&str> =
            ["--port", "0", "--unixsocket", "s"].into_iter().chain(args.split(' ')).collect();
        let output = run_to_end(&Scratch::new(), &args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(part), "{args:?}: {error}");
    }
}

/// The value that is counted up at each of the servers by turns, while `during` runs; all values.
pub fn count_meanwhile<T>(servers: &[&Server], during: impl FnOnce() -> T) -> (Vec<String>, T) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counters: Vec<_> = servers
            .iter()
            .map(|server| {
                let (mut client, is_over) = (server.connect(), &is_over);
                scope.spawn(move || {
                    let mut values = Vec::new();
                    while !is_over.load(Relaxed) {
                        let value = call_or_reconnect(server, &mut client, "INCR counter");
                        // Refused while its home is changing, or unknown.
                        if value.parse::<u64>().is_ok() {
                            values.push(value);
                        }
                    }
                    values
                })
            })
            .collect();
        let result = during();
        is_over.store(true, Relaxed);
        (counters.into_iter().flat_map(|counter| counter.join().unwrap()).collect(), result)
    })
}

/// All keys of a server with their values.
fn content(client: &mut Client) -> String {
    let mut keys: Vec<String> = (0..500).map(|at| format!("key{at}")).collect();
    keys.extend(["counter".into(), "list".into(), "hash".into()]);
    let count = call(client, "DBSIZE");
    let dumped = keys.iter().map(|key| call(client, &format!("DUMP {key}")));
    dumped.fold(count, |content, value| content + "\n" + &value)
}

fn await_same_content(servers: &[&Server]) {
    eventually("all members hold the same", || {
        let mut contents = servers.iter().map(|server| content(&mut server.connect()));
        let first = contents.next().unwrap();
        contents.all(|content| content == first)
    });
}

#[test]
fn members_come_and_go_under_load_and_hold_the_same() {
    // A busy machine may not run a member for a while.
    const TIMEOUT: &str = "--cluster-node-timeout 8000";
    let founder = start(scratch("secret"), &format!("{FOUND} {TIMEOUT}"));
    let mut client = await_service(&founder);
    for at in 0..500 {
        assert_eq!(call(&mut client, &format!("SET key{at} {at}")), "OK");
    }
    call(&mut client, "RPUSH list a b c");
    call(&mut client, "HSET hash a 1 b 2");
    let flags = format!("{} {TIMEOUT}", join(&founder));
    let (mut values, (second, third)) = count_meanwhile(&[&founder], || {
        let joined = [(); 2].map(|()| start(scratch("secret"), &flags));
        joined.iter().for_each(|server| drop(await_service(server)));
        let [second, third] = joined;
        (second, third)
    });
    // Each has its share of the hash slots, and any executes commands of any key.
    eventually("three primaries", || {
        call(&mut client, "CLUSTER INFO").contains("cluster_size:3\r\n")
    });
    let mut others = [second.connect(), third.connect()];
    for (at, other) in (0..500).zip([0, 1].into_iter().cycle()) {
        let other = &mut others[other];
        assert_eq!(call(other, &format!("GET key{at}")), at.to_string());
        assert_eq!(
            call(other, &format!("APPEND key{at} x")),
            (at.to_string().len() + 1).to_string()
        );
        assert_eq!(call(other, &format!("GET key{at}")), format!("{at}x"));
    }
    assert_eq!(call(&mut others[0], "LPOP list"), "a");
    assert_eq!(call(&mut others[1], "HINCRBY hash a 5"), "6");
    await_same_content(&[&founder, &second, &third]);

    // One member dies; the others continue, and it rejoins under a new identity.
    let mut third = third;
    let (more, third) = count_meanwhile(&[&founder, &second], || {
        third.signal(libc::SIGKILL);
        third.exit_code();
        eventually("two primaries", || {
            call(&mut client, "CLUSTER INFO").contains("cluster_size:2\r\n")
        });
        let third = start(third.into_scratch(), &flags);
        await_service(&third);
        third
    });
    values.extend(more);
    // One leaves in order: its hash slots are taken over first.
    let mut second = second;
    let (more, ()) = count_meanwhile(&[&founder, &third], || {
        second.signal(libc::SIGTERM);
        assert_eq!(second.exit_code(), Some(0));
    });
    values.extend(more);
    await_same_content(&[&founder, &third]);
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), count, "a value was given twice");
    assert!(count > 100, "{count} values");
    let last: usize = call(&mut client, "GET counter").parse().unwrap();
    assert!(last >= count, "{last} of {count}");
}
