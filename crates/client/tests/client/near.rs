//! The near cache, against real servers and against a model with concurrent writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use petrel_client::{Client, Commands, ErrorKind, NearCache, NearCacheOptions};

use crate::servers::{Kind, Server, with_each_server};

with_each_server!(
    reads_and_invalidations,
    lent,
    expiry,
    misses_ask_once,
    prefixes,
    lost_connections_empty_it,
    never_older_than_what_was_acknowledged,
    resp2_is_refused,
);

/// Waits until something holds.
async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not come to hold");
}

/// Reads of a key with no other argument, by their own methods and as commands: one reply each.
async fn key_reads(near: &NearCache) {
    let before = near.statistics();
    for _ in 0..10 {
        assert_eq!(near.strlen("k").await.unwrap(), 1);
        assert_eq!(Commands::strlen(near, "k").await.unwrap(), 1);
        assert_eq!(near.type_(b"h").await.unwrap(), "hash");
        assert_eq!(near.hlen("h".to_owned()).await.unwrap(), 1);
        assert_eq!(near.hgetall("h").await.unwrap()[&b"a"[..]], "1");
        assert_eq!(near.get("k").reply::<String>().await.unwrap(), "1");
        assert_eq!(near.zcard("none").await.unwrap(), 0);
        let error = near.get("k").reply::<Vec<i64>>().await.unwrap_err();
        assert_eq!(error.command(), "GET");
        let error = near.llen("h").await.unwrap_err();
        assert_eq!((error.command(), error.code()), ("LLEN", Some("WRONGTYPE")));
    }
    let after = near.statistics();
    assert!(after.misses <= before.misses + 5 + 10, "{after:?}, before {before:?}");
    assert!(after.hits >= before.hits + 70 - 5, "{after:?}, before {before:?}");
}

/// Lent values: of misses, of hits, short and long, and where there is none.
async fn lent(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    let values = [("empty", ""), ("short", "value"), ("long", &"x".repeat(1000))];
    client.mset(values).await.unwrap();
    client.rpush("list", ["a"]).await.unwrap();
    for _ in 0..10 {
        for (key, value) in values {
            let same = near.get(key).read_with(|text| text == value.as_bytes()).await.unwrap();
            assert_eq!(same, Some(true), "{key}");
        }
        let none = near.get("none").read_with(|_| panic!("there is no value")).await;
        assert_eq!(none.unwrap(), None::<()>);
        let error = near.get("list").read_with(<[u8]>::len).await.unwrap_err();
        assert_eq!((error.command(), error.code()), ("GET", Some("WRONGTYPE")));
        let error = near.llen("list").read_with(<[u8]>::len).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::UnexpectedReply { .. }), "{error}");
        assert_eq!(error.command(), "LLEN");
    }
    let done = near.statistics();
    assert!(done.misses <= 5 + 10 && done.hits >= 45, "{done:?}");
    let text = near.get("short").reply::<i64>().read_with(<[u8]>::to_vec).await.unwrap();
    assert_eq!(text.unwrap(), b"value");
    // A function that reads the cache itself.
    let near = &near;
    let inner = near.get("long").read_with(|_| {
        let mut read = std::pin::pin!(near.get("long").read_with(<[u8]>::len).into_future());
        let waker = std::task::Waker::noop();
        read.as_mut().poll(&mut std::task::Context::from_waker(waker))
    });
    assert!(matches!(inner.await.unwrap(), Some(std::task::Poll::Ready(Ok(Some(1000))))));
    client.set("short", "other").await.unwrap();
    eventually(async || {
        near.get("short").read_with(|text| text == b"other").await.unwrap().unwrap()
    })
    .await;
}

async fn reads_and_invalidations(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    assert_eq!(near.get("k").await.unwrap(), None);
    client.set("k", "1").await.unwrap();
    eventually(async || near.get("k").await.unwrap().is_some()).await;
    client.hset("h", [("a", "1")]).await.unwrap();
    eventually(async || near.hget("h", "a").await.unwrap().is_some()).await;
    let before = near.statistics();
    for _ in 0..100 {
        assert_eq!(near.get("k").reply::<i64>().await.unwrap(), 1);
        assert_eq!(near.hget("h", "a").reply::<i64>().await.unwrap(), 1);
        // Arguments are a part of what is cached.
        assert_eq!(near.hget("h", "b").await.unwrap(), None);
    }
    let after = near.statistics();
    assert!(after.hits >= before.hits + 297 && after.misses <= before.misses + 3, "{after:?}");
    key_reads(&near).await;
    client.hset("h", [("a", "2")]).await.unwrap();
    eventually(async || near.hget("h", "a").reply::<i64>().await.unwrap() == 2).await;
    eventually(async || near.hgetall("h").await.unwrap()[&b"a"[..]] == "2").await;
    client.flushall().await.unwrap();
    eventually(async || near.get("k").await.unwrap().is_none()).await;
    // Writes, and reads that are not cached, go through.
    near.set("k", "3").await.unwrap();
    assert_eq!(near.ttl("k").await.unwrap(), -1);
    near.forget("k");
    assert_eq!(near.get("k").reply::<i64>().await.unwrap(), 3);
    assert_eq!(near.lpush("k", ["x"]).await.unwrap_err().code(), Some("WRONGTYPE"));
    let error = near.hget("k", "x").await.unwrap_err();
    assert_eq!((error.command(), error.code()), ("HGET", Some("WRONGTYPE")));
}

async fn expiry(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    client.set("k", "1").px(60).await.unwrap();
    near.get("k").await.unwrap();
    tokio::time::sleep(Duration::from_millis(70)).await;
    assert_eq!(near.get("k").await.unwrap(), None);
    let ttl_max = Some(Duration::from_millis(20));
    let near = client.near_cache(NearCacheOptions { ttl_max, ..Default::default() }).await.unwrap();
    client.set("k", "1").await.unwrap();
    near.get("k").await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    near.get("k").await.unwrap();
    assert_eq!(near.statistics().misses, 2);
}

async fn misses_ask_once(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    client.set("k", "1").await.unwrap();
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let near = near.clone();
            tokio::spawn(async move {
                // Some readers go away; the others are answered nevertheless.
                let call = near.get("k").reply::<i64>();
                if n % 3 == 0 {
                    let _ = tokio::time::timeout(Duration::ZERO, call.into_future()).await;
                } else {
                    assert_eq!(call.await.unwrap(), 1);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(near.statistics().misses, 1, "{:?}", near.statistics());
}

async fn prefixes(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let options = NearCacheOptions { prefixes: vec![b"user:".to_vec()], ..Default::default() };
    let near = client.near_cache(options).await.unwrap();
    client.mset([("user:1", "a"), ("other", "b")]).await.unwrap();
    eventually(async || near.get("user:1").await.unwrap().is_some()).await;
    let before = near.statistics();
    for _ in 0..10 {
        near.get("user:1").await.unwrap();
        near.get("other").await.unwrap();
    }
    let after = near.statistics();
    assert!(after.hits >= before.hits + 9, "{after:?}");
    assert!(after.misses <= before.misses + 1, "{after:?}");
    client.set("user:1", "c").await.unwrap();
    eventually(async || near.get("user:1").await.unwrap().unwrap() == "c").await;
}

async fn lost_connections_empty_it(kind: Kind) {
    let Some(mut server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    client.set("k", "1").await.unwrap();
    eventually(async || near.get("k").await.unwrap().is_some()).await;
    server = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    })
    .await
    .unwrap();
    eventually(async || near.get("k").await.is_ok_and(|value| value.is_none())).await;
    // Tracking is on again.
    eventually(async || client.set("k", "2").await.is_ok()).await;
    eventually(async || near.get("k").await.unwrap().is_some()).await;
    client.set("k", "3").await.unwrap();
    eventually(async || near.get("k").await.unwrap().unwrap() == "3").await;
    drop(server);
}

/// Writers count a key up, and tell the model once readers must have heard of it: when the writer
/// itself, over the cache's client, has seen its invalidation. No read that begins later returns an
/// older count.
async fn never_older_than_what_was_acknowledged(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    const KEYS: usize = 4;
    let model: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    client.mset((0..KEYS).map(|key| (format!("n{key}"), 0))).await.unwrap();
    let writers: Vec<_> = (0..KEYS)
        .map(|key| {
            let (client, near, model) = (client.clone(), near.clone(), model.clone());
            tokio::spawn(async move {
                for count in 1..=150u64 {
                    let name = format!("n{key}");
                    client.set(&name, count).await.unwrap();
                    while near.get(&name).reply::<u64>().await.unwrap() < count {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    model[key].fetch_max(count, SeqCst);
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..4)
        .map(|reader| {
            let (near, model, stop) = (near.clone(), model.clone(), stop.clone());
            tokio::spawn(async move {
                let mut reads = reader;
                while !stop.load(SeqCst) {
                    reads += 1;
                    let key = reads % KEYS;
                    let acknowledged = model[key].load(SeqCst);
                    let count: u64 = near.get(format!("n{key}")).reply().await.unwrap();
                    assert!(count >= acknowledged, "{count} after {acknowledged}");
                    if reads % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    stop.store(true, SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    let statistics = near.statistics();
    assert!(statistics.hits > 0 && statistics.invalidations > 0, "{statistics:?}");
}

async fn resp2_is_refused(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&format!("{}?protocol=2", server.url())).await.unwrap();
    let error = client.near_cache(NearCacheOptions::default()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Configuration(_)), "{error}");
}
