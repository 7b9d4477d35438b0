//! How often commands allocate, once buffers have grown.

#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "shared with the other tests, which use all of it"
)]
#[path = "client/servers.rs"]
mod servers;

use petrel_client::{Client, Commands};
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
