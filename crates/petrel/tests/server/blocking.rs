//! Clients that wait for keys, on several threads.

use crate::harness::*;
use std::time::{Duration, Instant};

with_each_backend!(
    who_comes_first_is_served_first,
    what_has_expired_in_a_transaction_is_not_there,
    time_runs_out,
    unblock_ends_a_wait,
    the_disconnected_take_nothing,
    the_killed_take_nothing,
    what_was_sent_ahead_is_executed_afterwards,
    much_may_be_sent_ahead,
    a_pipeline_waits_behind_those_who_came_before,
    pause_delays_what_is_served,
    the_muted_get_no_answer,
    what_is_moved_is_passed_on_between_threads,
    waiting_is_shown,
    nothing_but_time_or_unblock_ends_the_wait_for_replicas,
    shutdown_does_not_wait,
);

fn start(backend: &str) -> Server {
    Server::start(backend, &["--threads", "4"])
}

/// Lets a client wait, and returns when it does.
fn wait(server: &Server, client: &mut Client, args: &[&str]) {
    let before = server.info("blocked_clients");
    client.send(args);
    eventually("it waits", || server.info("blocked_clients") == before + 1);
}

fn answer(client: &mut Client) -> String {
    show(&client.receive().expect("an answer"))
}

fn who_comes_first_is_served_first(backend: &str) {
    let server = start(backend);
    let mut pusher = server.connect();
    let mut waiters: Vec<Client> = (0..7).map(|_| server.connect()).collect();
    for round in 0..3 {
        for (i, waiter) in waiters.iter_mut().enumerate() {
            let other = format!("other{i}");
            let (one, two) = (["BLPOP", "k", "0"], ["BLPOP", &other, "k", "0"]);
            wait(&server, waiter, if i % 2 == 0 { &one } else { &two });
        }
        for i in 0..7 {
            pusher.text(&["RPUSH", "k", &format!("{round}-{i}")]);
        }
        for (i, waiter) in waiters.iter_mut().enumerate() {
            assert_eq!(answer(waiter), format!("[k {round}-{i}]"));
        }
    }
    assert_eq!(server.info("blocked_clients"), 0);
    assert_eq!(server.info("total_blocking_keys"), 0);
}

fn what_has_expired_in_a_transaction_is_not_there(backend: &str) {
    let server = Server::start(backend, &["--threads", "4", "--enable-debug-command", "yes"]);
    let (mut waiter, mut pusher) = (server.connect(), server.connect());
    wait(&server, &mut waiter, &["BLPOP", "k", "0"]);
    pusher.text(&["MULTI"]);
    for call in ["RPUSH k old", "PEXPIRE k 1", "DEBUG SLEEP 0.01", "LLEN k"] {
        pusher.text(&call.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(pusher.text(&["EXEC"]), "[1 1 OK 1]");
    assert_eq!(server.info("blocked_clients"), 1);
    pusher.text(&["RPUSH", "k", "new"]);
    assert_eq!(answer(&mut waiter), "[k new]");
}

fn time_runs_out(backend: &str) {
    let server = start(backend);
    let mut clients: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    let start = Instant::now();
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(&["BLPOP", "k", &format!("0.{i}5")]);
    }
    for (i, client) in clients.iter_mut().enumerate() {
        assert_eq!(answer(client), "nil");
        let expected = Duration::from_millis(i as u64 * 100 + 50);
        assert!(start.elapsed() >= expected, "{:?}", start.elapsed());
    }
    assert_eq!(server.info("clients_in_timeout_table"), 0);
    let mut modern = server.connect();
    modern.call(&["HELLO", "3"]);
    modern.send_bytes(b"BLPOP k 0.01\r\nQUIT\r\n");
    assert_eq!(modern.read_to_end(), "_\r\n+OK\r\n");
}

fn unblock_ends_a_wait(backend: &str) {
    let server = start(backend);
    let mut unblocker = server.connect();
    let mut waiters: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for (i, waiter) in waiters.iter_mut().enumerate() {
        let id = waiter.text(&["CLIENT", "ID"]);
        assert_eq!(unblocker.text(&["CLIENT", "UNBLOCK", &id]), "0", "it does not wait yet");
        wait(&server, waiter, &["BLPOP", "k", "j", "0"]);
        let (how, expected) = [
            (&[][..], "nil"),
            (&["TIMEOUT"], "nil"),
            (&["ERROR"], "UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            (&["error"], "UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        ][i];
        let line = [&["CLIENT", "UNBLOCK", &id], how].concat();
        if i % 2 == 0 {
            assert_eq!(unblocker.text(&line), "1");
        } else {
            unblocker.text(&["MULTI"]);
            unblocker.text(&line);
            unblocker.text(&line);
            assert_eq!(unblocker.text(&["EXEC"]), "[1 0]");
        }
        assert_eq!(answer(waiter), expected);
        assert_eq!(unblocker.text(&line), "0");
        assert_eq!(waiter.text(&["PING"]), "PONG");
    }
    assert_eq!(unblocker.text(&["CLIENT", "UNBLOCK", "12345"]), "0");
    let stats = unblocker.text(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_blpop:")).unwrap();
    assert!(line.contains("calls=4,") && line.contains("failed_calls=2"), "{line}");
}

fn the_disconnected_take_nothing(backend: &str) {
    let server = start(backend);
    let mut pusher = server.connect();
    for round in 0..40 {
        let mut leaver = server.connect();
        let mut stayer = server.connect();
        let args = [&["BLPOP", "k", "0"][..], &["BLPOP", "k", "j", "0"]][round % 2];
        wait(&server, &mut leaver, args);
        wait(&server, &mut stayer, args);
        drop(leaver);
        pusher.text(&["RPUSH", "k", "v"]);
        assert_eq!(answer(&mut stayer), "[k v]");
        drop(stayer);
    }
    eventually("nobody is left", || server.info("connected_clients") == 2);
    assert_eq!(server.info("blocked_clients"), 0);
}

fn the_killed_take_nothing(backend: &str) {
    let server = start(backend);
    let mut pusher = server.connect();
    for _ in 0..20 {
        let mut killed = server.connect();
        let mut stayer = server.connect();
        let id = killed.text(&["CLIENT", "ID"]);
        wait(&server, &mut killed, &["BLPOP", "k", "0"]);
        wait(&server, &mut stayer, &["BLPOP", "k", "0"]);
        pusher.send_bytes(format!("CLIENT KILL ID {id}\r\nRPUSH k v\r\n").as_bytes());
        assert_eq!((answer(&mut pusher), answer(&mut pusher)), ("1".into(), "1".into()));
        assert_eq!(answer(&mut stayer), "[k v]");
        assert!(killed.receive().is_none());
    }
    eventually("nobody is left", || server.info("connected_clients") == 2);
    assert_eq!(server.info("blocked_clients"), 0);
}

fn what_was_sent_ahead_is_executed_afterwards(backend: &str) {
    let server = start(backend);
    let mut pusher = server.connect();
    let mut waiter = server.connect();
    waiter.send_bytes(b"PING\r\nBLPOP k 0\r\nPING 1\r\nBLPOP k 0\r\n*2\r\n$4\r\nPI");
    assert_eq!(answer(&mut waiter), "PONG");
    assert!(waiter.is_silent(Duration::from_millis(30)));
    waiter.send_bytes(b"NG\r\n$1\r\n2\r\nPING 3\r\n");
    assert!(waiter.is_silent(Duration::from_millis(30)));
    pusher.text(&["RPUSH", "k", "a"]);
    assert_eq!((answer(&mut waiter), answer(&mut waiter)), ("[k a]".into(), "1".into()));
    assert!(waiter.is_silent(Duration::from_millis(30)));
    pusher.text(&["RPUSH", "k", "b"]);
    assert_eq!(answer(&mut waiter), "[k b]");
    assert_eq!((answer(&mut waiter), answer(&mut waiter)), ("2".into(), "3".into()));
    // After a connection ends during a blocked command, neither that nor its later commands are
    // executed.
    waiter.send_bytes(b"BLPOP k 0\r\nSET x 1\r\n");
    eventually("it waits", || server.info("blocked_clients") == 1);
    drop(waiter);
    eventually("it is gone", || server.info("blocked_clients") == 0);
    assert_eq!(pusher.text(&["EXISTS", "x"]), "0");
}

fn much_may_be_sent_ahead(backend: &str) {
    let server = start(backend);
    let mut pusher = server.connect();
    let mut waiter = server.connect();
    wait(&server, &mut waiter, &["BLPOP", "k", "0"]);
    let value = "x".repeat(1000);
    let count = 2000;
    let sender = std::thread::spawn(move || {
        for _ in 0..count {
            assert!(waiter.send_bytes(&encode(&[b"ECHO", value.as_bytes()])));
        }
        waiter
    });
    std::thread::sleep(Duration::from_millis(50));
    pusher.text(&["RPUSH", "k", "v"]);
    let mut waiter = sender.join().unwrap();
    assert_eq!(answer(&mut waiter), "[k v]");
    for _ in 0..count {
        assert_eq!(answer(&mut waiter).len(), 1000);
    }
}

fn a_pipeline_waits_behind_those_who_came_before(backend: &str) {
    let server = start(backend);
    let mut first = server.connect();
    let mut second = server.connect();
    wait(&server, &mut first, &["BLPOP", "k", "0"]);
    second.send_bytes(b"RPUSH k 1\r\nBLPOP k 0\r\n");
    assert_eq!(answer(&mut first), "[k 1]");
    assert_eq!(answer(&mut second), "1");
    eventually("it waits", || server.info("blocked_clients") == 1);
    first.send_bytes(b"MULTI\r\nRPUSH k 2\r\nBLPOP k 0\r\nBLPOP k 0\r\nRPUSH k 3\r\nEXEC\r\n");
    let replies: Vec<String> = (0..6).map(|_| answer(&mut first)).collect();
    assert_eq!(replies[5], "[1 [k 2] nil 1]");
    assert_eq!(answer(&mut second), "[k 3]");
}

fn pause_delays_what_is_served(backend: &str) {
    let server = start(backend);
    let mut pauser = server.connect();
    let mut waiter = server.connect();
    let mut late = server.connect();
    let mut pusher = server.connect();
    wait(&server, &mut waiter, &["BLPOP", "k", "0"]);
    wait(&server, &mut late, &["BLPOP", "j", "0.05"]);
    assert_eq!(pauser.text(&["CLIENT", "PAUSE", "60000", "WRITE"]), "OK");
    pusher.send(&["RPUSH", "k", "v"]);
    assert_eq!(answer(&mut late), "nil", "time goes on");
    assert!(waiter.is_silent(Duration::from_millis(30)));
    assert_eq!(server.info("blocked_clients"), 2);
    assert_eq!(pauser.text(&["CLIENT", "UNPAUSE"]), "OK");
    assert_eq!(answer(&mut pusher), "1");
    assert_eq!(answer(&mut waiter), "[k v]");
}

fn the_muted_get_no_answer(backend: &str) {
    let server = start(backend);
    let mut pusher = server.connect();
    let mut waiter = server.connect();
    waiter.send_bytes(b"CLIENT REPLY SKIP\r\nBLPOP k 0\r\nPING 1\r\n");
    eventually("it waits", || server.info("blocked_clients") == 1);
    pusher.text(&["RPUSH", "k", "v"]);
    assert_eq!(answer(&mut waiter), "1");
    waiter.send_bytes(b"CLIENT REPLY OFF\r\nBLPOP k 0\r\nCLIENT REPLY ON\r\n");
    eventually("it waits", || server.info("blocked_clients") == 1);
    pusher.text(&["RPUSH", "k", "v"]);
    assert_eq!(answer(&mut waiter), "OK");
    assert_eq!(pusher.text(&["EXISTS", "k"]), "0");
}

fn what_is_moved_is_passed_on_between_threads(backend: &str) {
    let server = start(backend);
    let mut pusher = server.connect();
    let mut movers: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for (i, mover) in movers.iter_mut().enumerate() {
        let (from, to) = (format!("k{i}"), format!("k{}", i + 1));
        wait(&server, mover, &["BLMOVE", &from, &to, "LEFT", "RIGHT", "0"]);
    }
    let mut taker = server.connect();
    wait(&server, &mut taker, &["BLPOP", "k5", "0"]);
    assert_eq!(pusher.text(&["RPUSH", "k0", "7"]), "1");
    assert!(movers.iter_mut().all(|mover| answer(mover) == "7"));
    assert_eq!(answer(&mut taker), "[k5 7]");
    assert_eq!(pusher.text(&["DBSIZE"]), "0");
}

fn waiting_is_shown(backend: &str) {
    let server = start(backend);
    let mut looker = server.connect();
    let mut waiter = server.connect();
    waiter.text(&["CLIENT", "SETNAME", "waiter"]);
    wait(&server, &mut waiter, &["BLPOP", "k", "j", "100"]);
    let line = looker.text(&["CLIENT", "LIST", "FLAGS", "b"]);
    assert_eq!(line.lines().count(), 1, "{line}");
    for part in [" name=waiter ", " flags=bU ", " cmd=blpop "] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert_eq!(server.info("total_blocking_keys"), 2);
    assert_eq!(server.info("total_blocking_keys_on_nokey"), 0);
    assert_eq!(server.info("clients_in_timeout_table"), 1);
    looker.text(&["RPUSH", "j", "v"]);
    assert_eq!(answer(&mut waiter), "[j v]");
    assert_eq!(looker.text(&["CLIENT", "LIST", "FLAGS", "b"]), "");
    assert_eq!(server.info("clients_in_timeout_table"), 0);
}

fn shutdown_does_not_wait(backend: &str) {
    let mut server = start(backend);
    let mut waiters: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for waiter in &mut waiters {
        wait(&server, waiter, &["BLPOP", "k", "0"]);
    }
    server.connect().send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0));
    assert!(waiters.iter_mut().all(|waiter| waiter.receive().is_none()));
}

fn nothing_but_time_or_unblock_ends_the_wait_for_replicas(backend: &str) {
    let server = start(backend);
    let mut client = server.connect();
    assert_eq!(client.text(&["WAIT", "1", "20"]), "0");
    assert_eq!(client.text(&["WAITAOF", "0", "1", "20"]), "[0 0]");
    let id = client.text(&["CLIENT", "ID"]);
    let mut other = server.connect();
    wait(&server, &mut client, &["WAIT", "1", "0"]);
    assert_eq!(other.text(&["CLIENT", "UNBLOCK", &id]), "1");
    assert_eq!(answer(&mut client), "0");
    assert_eq!(other.text(&["CLIENT", "UNBLOCK", &id]), "0");
    wait(&server, &mut client, &["WAITAOF", "0", "3", "0"]);
    assert_eq!(other.text(&["CLIENT", "UNBLOCK", &id, "ERROR"]), "1");
    assert_eq!(answer(&mut client), "UNBLOCKED client unblocked via CLIENT UNBLOCK");
    wait(&server, &mut client, &["WAIT", "1", "0"]);
    drop(client);
    eventually("the wait ends with the connection", || server.info("blocked_clients") == 0);
}
