//! Locks and rate limits that programs share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use petrel_client::{Client, Commands, LockOptions, NearCacheOptions, RateLimiter};

use crate::servers::{Kind, Server, with_each_server};

with_each_server!(locks_exclude, locks_are_leases, limits);

async fn locks_exclude(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let is_held = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        // As different programs: each has its own connections.
        let client = Client::connect(&server.url()).await.unwrap();
        let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
        let is_held = is_held.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..10 {
                let lock = near.lock("lock", LockOptions::default()).await.unwrap();
                assert!(!is_held.swap(true, SeqCst), "held twice");
                tokio::time::sleep(Duration::from_millis(1)).await;
                is_held.store(false, SeqCst);
                match round % 2 {
                    0 => assert!(lock.release().await.unwrap()),
                    _ => drop(lock),
                }
            }
        }));
    }
    let began = Instant::now();
    for task in tasks {
        task.await.unwrap();
    }
    // Were the end of a lock not noticed, each turn would take a lease of 10 s.
    assert!(began.elapsed() < Duration::from_secs(60));
}

async fn locks_are_leases(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    let options = || LockOptions { ttl: Duration::from_secs(2) };
    let mut lock = near.try_lock("lock", options()).await.unwrap().unwrap();
    assert!(near.try_lock("lock", options()).await.unwrap().is_none());
    // It is extended while it is held.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!lock.is_lost() && client.exists(["lock"]).await.unwrap() == 1);
    client.set("lock", "of another").await.unwrap();
    lock.lost().await;
    assert!(lock.is_lost() && !lock.release().await.unwrap());
    assert_eq!(client.get("lock").await.unwrap().unwrap(), "of another");
    // A holder that has died: its lease ends.
    client.set("lock", "of the dead").px(100).await.unwrap();
    assert!(near.lock("lock", options()).await.unwrap().release().await.unwrap());
    assert!(near.lock("lock", LockOptions { ttl: Duration::ZERO }).await.is_err());
}

async fn limits(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let limiter = RateLimiter::new(client.clone(), "limit:", 5, Duration::from_secs(100));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.take("ann").await.unwrap().is_granted })
        })
        .collect();
    let mut granted = 0;
    for task in tasks {
        granted += usize::from(task.await.unwrap());
    }
    assert_eq!(granted, 5);
    assert!(!limiter.take_many("bob", 6).await.unwrap().is_granted);
    let permission = limiter.take_many("bob", 3).await.unwrap();
    assert!(permission.is_granted && permission.remaining == 2);
    assert!(permission.resets_in <= Duration::from_secs(100));
    let short = RateLimiter::new(client, "short:", 1, Duration::from_millis(50));
    assert!(short.take("x").await.unwrap().is_granted);
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert!(short.take("x").await.unwrap().is_granted);
}
