//! The near cache of a cluster, against Redis in cluster mode and a scripted node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use petrel_client::{
    Cluster, ClusterOptions, Commands, ErrorKind, MockServer, NearCacheOptions, Options, Value,
};

use crate::group::{move_empty_slot, start, until};

/// "foo" is in this slot, which the third node of a group serves.
const SLOT: usize = 12182;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_invalidates_its_keys() {
    let Some(nodes) = start(0).await else { return };
    let cluster = Cluster::connect(&nodes[0].url()).await.unwrap();
    let near = cluster.near_cache(NearCacheOptions::default()).await.unwrap();
    let other = Cluster::connect(&nodes[1].url()).await.unwrap();
    let keys: Vec<String> = (0..60).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        other.set(key, "old").await.unwrap();
        until("it is read", async || near.get(key).await.unwrap().is_some()).await;
    }
    let before = near.statistics();
    for key in &keys {
        assert_eq!(near.get(key).await.unwrap().unwrap(), "old");
    }
    let after = near.statistics();
    assert_eq!((after.hits - before.hits, after.misses - before.misses), (60, 0), "{after:?}");
    for key in &keys {
        other.set(key, "new").await.unwrap();
        until("the change is told", async || near.get(key).await.unwrap().unwrap() == "new").await;
    }
    // What is not cached goes to the cluster, and one node that is emptied empties its keys only.
    near.set("through", 1).await.unwrap();
    assert_eq!(near.ttl("through").await.unwrap(), -1);
    let error = near.hget(&keys[0], "f").await.unwrap_err();
    assert_eq!((error.command(), error.code()), ("HGET", Some("WRONGTYPE")));
    let primaries = other.primaries().await.unwrap();
    let kept: i64 = primaries[1].dbsize().await.unwrap() + primaries[2].dbsize().await.unwrap();
    primaries[0].flushall().await.unwrap();
    until("the emptied node's keys are gone", async || {
        near.statistics().keys <= usize::try_from(kept).unwrap()
    })
    .await;
    let gone = other.exists(&keys).await.unwrap();
    let mut found = 0;
    for key in &keys {
        found += i64::from(near.get(key).await.unwrap().is_some());
    }
    assert!(found == gone && found > 0 && found < 60, "{found} of {gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_node_empties_its_keys_alone() {
    let Some(mut nodes) = start(0).await else { return };
    let mut options = ClusterOptions::new(Options::from_url(&nodes[0].url()).unwrap());
    options.node.timeout = Some(Duration::from_millis(500));
    let cluster = Cluster::with_options(options).await.unwrap();
    let near = cluster.near_cache(NearCacheOptions::default()).await.unwrap();
    let keys: Vec<String> = (0..60).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        cluster.set(key, "v").await.unwrap();
        until("it is read", async || near.get(key).await.unwrap().is_some()).await;
    }
    let lost = cluster.primaries().await.unwrap()[2].dbsize().await.unwrap();
    assert!(lost > 0 && lost < 60);
    nodes[2].kill();
    let left = 60 - usize::try_from(lost).unwrap();
    until("its keys are gone", async || near.statistics().keys == left).await;
    let (mut hits, mut errors) = (0, 0);
    for key in &keys {
        let mut command = petrel_client::Command::named("GET");
        command.push(key);
        match near.cached(&command) {
            Some(_) => hits += 1,
            None if errors == 0 => {
                // Neither an older value nor an endless wait.
                near.get(key).await.unwrap_err();
                errors += 1;
            }
            None => {}
        }
    }
    assert_eq!((hits, errors), (left, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_slots_are_forgotten() {
    let Some(nodes) = start(0).await else { return };
    let cluster = Cluster::connect(&nodes[0].url()).await.unwrap();
    let near = cluster.near_cache(NearCacheOptions::default()).await.unwrap();
    // Nothing is there, which is cached, too.
    assert_eq!(near.get("foo").await.unwrap(), None);
    assert_eq!(near.get("foo").await.unwrap(), None);
    assert_eq!(near.statistics().hits, 1);
    cluster.set("bar", "v").await.unwrap();
    until("it is cached", async || {
        near.get("bar").await.unwrap();
        near.statistics().keys == 2
    })
    .await;
    move_empty_slot(&nodes, SLOT, 2, 0).await;
    // The old node would not tell of this.
    nodes[0].client().await.set("foo", "moved").await.unwrap();
    // Any command that is told MOVED has the map read again.
    cluster.set("{foo}other", 1).await.unwrap();
    until("the slot's keys are forgotten", async || {
        near.get("foo").await.unwrap().is_some_and(|value| value == "moved")
    })
    .await;
    // The new node tells of changes.
    until("it is cached again", async || {
        let before = near.statistics().hits;
        near.get("foo").await.unwrap();
        near.statistics().hits > before
    })
    .await;
    cluster.set("foo", "changed").await.unwrap();
    until("the change is told", async || near.get("foo").await.unwrap().unwrap() == "changed")
        .await;
}

/// As of a single server: writers tell a model what readers must have heard of, while slots move to
/// and fro.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_older_than_what_was_acknowledged() {
    let Some(nodes) = start(0).await else { return };
    let cluster = Cluster::connect(&nodes[0].url()).await.unwrap();
    let near = cluster.near_cache(NearCacheOptions::default()).await.unwrap();
    const KEYS: usize = 6;
    let model: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    for key in 0..KEYS {
        cluster.set(format!("n{key}"), 0).await.unwrap();
    }
    let writers: Vec<_> = (0..KEYS)
        .map(|key| {
            let (cluster, near, model) = (cluster.clone(), near.clone(), model.clone());
            tokio::spawn(async move {
                for count in 1..=100u64 {
                    let name = format!("n{key}");
                    cluster.set(&name, count).await.unwrap();
                    while near.get(&name).reply::<u64>().await.unwrap() < count {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    model[key].fetch_max(count, SeqCst);
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..3)
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
    let moving = {
        let stop = stop.clone();
        tokio::spawn(async move {
            // An empty slot, so that the map changes while keys stay where they are.
            while !stop.load(SeqCst) {
                move_empty_slot(&nodes, SLOT, 2, 0).await;
                move_empty_slot(&nodes, SLOT, 0, 2).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            nodes
        })
    };
    for writer in writers {
        writer.await.unwrap();
    }
    stop.store(true, SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    drop(moving.await.unwrap());
    let statistics = near.statistics();
    assert!(statistics.hits > 0 && statistics.invalidations > 0, "{statistics:?}");
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn text(text: &'static str) -> Value {
    Value::Bulk(text.into())
}

/// A reply to `CLUSTER SLOTS`: all slots, at one node.
pub fn all_slots(host: &'static str) -> Value {
    let node = Value::Array(vec![text(host), Value::Integer(1)]);
    Value::Array(vec![Value::Array(vec![Value::Integer(0), Value::Integer(16_383), node])])
}

fn expect_fill(server: &MockServer, value: Value) {
    server.expect(["CLIENT", "CACHING", "YES"]).reply(ok());
    server.expect(["GET", "k"]).reply(value);
    server.expect(["PTTL", "k"]).reply(Value::Integer(-1));
}

#[tokio::test]
async fn a_redirected_reply_is_not_kept() {
    let server = MockServer::new();
    server.expect(["CLUSTER", "SLOTS"]).reply(all_slots("a"));
    server.expect(["CLIENT", "TRACKING", "ON", "OPTIN"]).reply(ok());
    expect_fill(&server, text("1"));
    let cluster = server.cluster().await.unwrap();
    let near = cluster.near_cache(NearCacheOptions::default()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(near.get("k").await.unwrap().unwrap(), "1");
    }
    server.finish();
    near.forget("k");
    // The slot is being moved: the cluster's own connections find the key, and since the node that
    // has it does not tell of its changes, the reply is not kept.
    for _ in 0..2 {
        let ask = || Value::Error("ASK 7629 b:1".into());
        server.expect(["CLIENT", "CACHING", "YES"]).reply(ok());
        server.expect(["GET", "k"]).reply(ask());
        server.expect(["PTTL", "k"]).reply(ask());
        server.expect(["GET", "k"]).reply(ask());
        server.expect(["ASKING"]).reply(ok());
        server.expect(["GET", "k"]).reply(text("2"));
        assert_eq!(near.get("k").await.unwrap().unwrap(), "2");
        assert_eq!(near.statistics().keys, 0);
    }
    server.finish();
}

#[tokio::test]
async fn resp2_is_refused() {
    let server = MockServer::resp2();
    server.expect(["CLUSTER", "SLOTS"]).reply(all_slots("a"));
    let cluster = server.cluster().await.unwrap();
    let error = cluster.near_cache(NearCacheOptions::default()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Configuration(_)), "{error}");
}
