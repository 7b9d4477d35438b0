//! The client for plain threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use petrel_client::blocking::Client;
use petrel_client::{Commands, DedicatedCommands, ErrorKind, Pipeline, RawCommand};

use crate::servers::{Kind, Server};

#[test]
fn petrel() {
    all(Kind::Petrel);
}

#[test]
fn redis() {
    all(Kind::Redis);
}

fn all(kind: Kind) {
    let Some(mut server) = Server::start(kind, &[]) else { return };
    for url in [server.url(), server.socket_url(), format!("{}?protocol=2", server.url())] {
        let client = Client::connect(&url).unwrap();
        client.set("k", "v").run().unwrap();
        assert_eq!(client.get("k").reply::<String>().run().unwrap(), "v");
        let big = vec![7; 5_000_000];
        client.set("big", &big).run().unwrap();
        assert_eq!(client.get("big").run().unwrap().unwrap(), big);
        let error = client.lpush("k", ["x"]).run().unwrap_err();
        assert_eq!((error.command(), error.code()), ("LPUSH", Some("WRONGTYPE")));
        let error = client.command("BLPOP").args(["k", "0"]).run().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NeedsDedicated));
    }
    dedicated(&mut server);
    let client = Client::connect(&format!("{}?timeout_ms=10000", server.url())).unwrap();
    echoes(&client, 8, 2000, &AtomicBool::new(false), true);
    // More than there are cores: batches are written and read by one thread for the others.
    echoes(&client, 64, 300, &AtomicBool::new(false), true);
    kills(&client, &mut server);
    server.stop();
    let client_of_none = Client::connect(&format!("{}?timeout_ms=100", server.url()));
    assert!(client_of_none.unwrap_err().is_disconnected());
}

/// Threads whose replies say whose they are; every call must succeed if `all` says so.
fn echoes(client: &Client, threads: usize, calls: usize, stop: &AtomicBool, all: bool) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut answered = 0;
                for call in 0..calls {
                    if stop.load(Relaxed) {
                        break;
                    }
                    let text = format!("{thread}:{call}:{}", "y".repeat(call % 200));
                    match client.echo(&text).run() {
                        Ok(reply) => {
                            assert_eq!(reply, text);
                            answered += 1;
                        }
                        Err(error) => assert!(!all, "{error}"),
                    }
                }
                assert!(answered > 0);
            });
        }
    });
}

/// Commands that wait, transactions with a watch, and what comes of a lost connection.
fn dedicated(server: &mut Server) {
    let client = Client::connect(&format!("{}?timeout_ms=1000", server.url())).unwrap();
    let mut own = client.dedicated().unwrap();
    assert_eq!(own.blpop(["list"], 0.01).run().unwrap(), None);
    std::thread::scope(|scope| {
        let pops = scope.spawn(move || {
            // Longer than other commands may take.
            let popped = own.blpop(["list"], 0).run().unwrap();
            (own, popped)
        });
        std::thread::sleep(Duration::from_millis(1500));
        client.rpush("list", ["a"]).run().unwrap();
        let (mut own, popped) = pops.join().unwrap();
        let (key, value) = popped.unwrap();
        assert_eq!((&key[..], &value[..]), (&b"list"[..], &b"a"[..]));

        own.watch(["k"]).run().unwrap();
        client.set("k", "changed").run().unwrap();
        let mut transaction = Pipeline::transaction();
        transaction.set("k", "mine").queue();
        let error = own.run(transaction).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::WatchedKeyChanged), "{error}");
        assert_eq!(own.wait(0, 1).run().unwrap(), 0);
        let error = own.command("SUBSCRIBE").arg("channel").run().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unanswered));

        server.restart();
        // What the server knew of the connection is lost.
        assert!(own.get("k").run().unwrap_err().is_disconnected());
        assert!(own.get("k").run().unwrap_err().is_disconnected());
        // The client that threads share has another connection by then.
        assert_eq!(client.get("k").run().unwrap(), None);
    });
}

fn kills(client: &Client, server: &mut Server) {
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let flag = stop.clone();
        scope.spawn(move || echoes(client, 8, usize::MAX, &flag, false));
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(150));
            server.restart();
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Relaxed);
    });
    assert_eq!(client.ping().run().unwrap(), "PONG");
}
