//! How often commands allocate, once buffers have grown.

#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "shared with the other tests, which use all of it"
)]
#[path = "client/servers.rs"]
mod servers;

use petrel_client::{Client, Commands, NearCacheOptions};
use servers::{Kind, Server};

/// Calls of all tasks together, about.
const CALLS: u64 = 3200;

/// Allocations in [`CALLS`] calls of several tasks, on one thread together with the driver.
fn allocations(kind: Kind, tasks: u64, value_len: usize, sets: bool) -> Option<u64> {
    let server = Server::start(kind, &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(Client::connect(&server.url())).unwrap();
    let value = vec![b'v'; value_len];
    let run = |calls: u64| {
        let work = (0..tasks).map(|_| {
            let (client, value) = (client.clone(), value.clone());
            runtime.spawn(async move {
                for _ in 0..calls {
                    match sets {
                        true => client.set("a-key-of-16-byte", &value[..]).await.unwrap(),
                        false => drop(client.get("a-key-of-16-byte").await.unwrap().unwrap()),
                    }
                }
            })
        });
        let work: Vec<_> = work.collect();
        runtime.block_on(async {
            for task in work {
                task.await.unwrap();
            }
        });
    };
    runtime.block_on(client.set("a-key-of-16-byte", &value[..]).into_future()).unwrap();
    let calls = CALLS / tasks;
    run(calls);
    // Starting tasks allocates; the difference of two runs is what their calls do.
    let few = allocation_counter::measure(|| run(calls)).count_total;
    let many = allocation_counter::measure(|| run(3 * calls)).count_total;
    Some(many.saturating_sub(few) / 2)
}

#[test]
fn a_set_allocates_nothing_and_a_get_its_value() {
    for kind in [Kind::Petrel, Kind::Redis] {
        for tasks in [1, 64] {
            for value_len in [64, 256, 1024] {
                let Some(sets) = allocations(kind, tasks, value_len, true) else { continue };
                let Some(gets) = allocations(kind, tasks, value_len, false) else { continue };
                println!("{tasks} tasks, {value_len} B: {sets} and {gets} in {CALLS} calls");
                // A buffer may grow once more, since batches are not of one size.
                assert!(sets <= CALLS / 50, "{sets} allocations in {CALLS} SETs");
                assert!(gets <= CALLS + CALLS / 50, "{gets} allocations in {CALLS} GETs");
            }
        }
    }
}

#[test]
fn a_hit_that_is_lent_allocates_nothing() {
    for kind in [Kind::Petrel, Kind::Redis] {
        let Some(server) = Server::start(kind, &[]) else { continue };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::connect(&server.url()).await.unwrap();
            let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
            for value_len in [64, 1024] {
                client.set("k", vec![b'v'; value_len]).await.unwrap();
                let read = async || near.get("k").read_with(<[u8]>::len).await.unwrap().unwrap();
                while read().await != value_len {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                // What a second read finds is where all that follow look.
                read().await;
                let before = allocation_counter::measure(|| ()).count_total;
                let mut reads = std::pin::pin!(async {
                    for _ in 0..CALLS {
                        assert_eq!(read().await, value_len);
                    }
                });
                let waker = std::task::Waker::noop();
                let mut context = std::task::Context::from_waker(waker);
                let counted = allocation_counter::measure(|| {
                    assert!(reads.as_mut().poll(&mut context).is_ready(), "all are hits");
                });
                assert_eq!(counted.count_total, before, "{value_len} B");
            }
        });
    }
}
