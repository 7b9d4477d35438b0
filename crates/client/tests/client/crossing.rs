//! Replies never cross: each call returns its own reply or an error, whatever happens to the
//! connection and to other calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use petrel_client::{Client, Commands, NearCacheOptions, Pipeline, RawCommand};

use crate::servers::{Kind, Server, with_each_server};

with_each_server!(
    many_calls,
    kills_and_restarts,
    cancelled_calls,
    cancelled_pipelines_and_reads,
    bytes_in_flight_are_bounded,
);

/// Calls whose replies say which call they are of; returns how many were answered, and how many
/// failed.
async fn echo_until(client: &Client, task: u64, stop: &AtomicBool, calls: u64) -> (u64, u64) {
    let (mut answered, mut failed) = (0, 0);
    for call in 0..calls {
        if stop.load(Relaxed) {
            break;
        }
        let text = format!("{task}:{call}:{}", "x".repeat((call % 300) as usize));
        match client.command("ECHO").arg(&text).reply::<String>().await {
            Ok(reply) => {
                assert_eq!(reply, text);
                answered += 1;
            }
            Err(_) => failed += 1,
        }
    }
    (answered, failed)
}

/// Tasks of [`many_calls`].
const TASKS: u64 = 64;

/// Calls of each task: few, unless `PETREL_CLIENT_CALLS` says how many there are to be in all.
fn calls_of_each_task() -> u64 {
    let wanted = std::env::var("PETREL_CLIENT_CALLS").ok().and_then(|text| text.parse().ok());
    wanted.map_or(500, |all: u64| all.div_ceil(TASKS))
}

async fn many_calls(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    for connections in [1, 3] {
        let url = format!("{}?connections={connections}", server.url());
        let client = Client::connect(&url).await.unwrap();
        let calls = calls_of_each_task();
        let tasks = (0..TASKS).map(|task| {
            let client = client.clone();
            tokio::spawn(
                async move { echo_until(&client, task, &AtomicBool::new(false), calls).await },
            )
        });
        for task in tasks.collect::<Vec<_>>() {
            assert_eq!(task.await.unwrap(), (calls, 0));
        }
    }
}

async fn kills_and_restarts(kind: Kind) {
    let Some(mut server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&format!("{}?timeout_ms=5000", server.url())).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let (client, stop) = (client.clone(), stop.clone());
            tokio::spawn(async move { echo_until(&client, task, &stop, u64::MAX).await })
        })
        .collect();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        server = tokio::task::spawn_blocking(move || {
            server.restart();
            server
        })
        .await
        .unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // After all of that it still works.
    assert_eq!(client.command("PING").reply::<String>().await.unwrap(), "PONG");
    stop.store(true, Relaxed);
    let mut total = (0, 0);
    for task in tasks {
        let (answered, failed) = task.await.unwrap();
        total = (total.0 + answered, total.1 + failed);
    }
    assert!(total.0 > 0, "{total:?}");
}

async fn cancelled_calls(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let cancelled = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..16u64)
        .map(|task| {
            let (client, cancelled) = (client.clone(), cancelled.clone());
            tokio::spawn(async move {
                for call in 0..400u64 {
                    let text = format!("{task}:{call}");
                    let request = client.command("ECHO").arg(&text).reply::<String>();
                    // Between never polled and polled until it is done.
                    let polls = (task * 7 + call) % 4;
                    match poll_times(request.into_future(), polls).await {
                        Some(reply) => assert_eq!(reply.unwrap(), text),
                        None => drop(cancelled.fetch_add(1, Relaxed)),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(cancelled.load(Relaxed) > 1000);
    assert_eq!(client.command("ECHO").arg("end").reply::<String>().await.unwrap(), "end");
}

/// Whatever is given up, at whichever point, while the server is restarted: what is answered is
/// answered with its own reply.
async fn cancelled_pipelines_and_reads(kind: Kind) {
    let Some(mut server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&format!("{}?timeout_ms=5000", server.url())).await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..12u64)
        .map(|task| {
            let (client, near) = (client.clone(), near.clone());
            let (stop, answered) = (stop.clone(), answered.clone());
            tokio::spawn(async move {
                let mut call = 0;
                while !stop.load(Relaxed) {
                    call += 1;
                    let polls = call % 4;
                    let texts = [format!("{task}:{call}:a"), format!("{task}:{call}:b")];
                    if task % 3 == 0 {
                        // A key for each value, so that a value of another call would be seen.
                        let _ = client.set(&texts[0], &texts[0]).await;
                        let read = near.get(&texts[0]).reply::<Option<String>>().into_future();
                        if let Some(Ok(Some(value))) = poll_times(read, polls).await {
                            assert_eq!(value, texts[0]);
                            answered.fetch_add(1, Relaxed);
                        }
                        continue;
                    }
                    let mut pipeline = match task % 3 {
                        1 => Pipeline::new(),
                        _ => Pipeline::transaction(),
                    };
                    let queued = texts
                        .each_ref()
                        .map(|text| pipeline.command("ECHO").arg(text).reply::<String>().queue());
                    let run = Box::pin(client.run(pipeline));
                    if let Some(Ok(mut replies)) = poll_times(run, polls).await {
                        for (queued, text) in queued.into_iter().zip(&texts) {
                            assert_eq!(replies.take(queued).unwrap(), *text);
                        }
                        answered.fetch_add(1, Relaxed);
                    }
                }
            })
        })
        .collect();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        server = tokio::task::spawn_blocking(move || {
            server.restart();
            server
        })
        .await
        .unwrap();
    }
    let before = answered.load(Relaxed);
    while answered.load(Relaxed) < before + 100 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.store(true, Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(client.command("ECHO").arg("end").reply::<String>().await.unwrap(), "end");
}

/// Polls a future so many times at most, or until it is done if `times` is 3.
async fn poll_times<F: Future + Unpin>(mut future: F, times: u64) -> Option<F::Output> {
    if times == 3 {
        return Some(future.await);
    }
    for _ in 0..times {
        let polled = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut future).poll(cx))
        })
        .await;
        if let std::task::Poll::Ready(output) = polled {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn bytes_in_flight_are_bounded(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let url = format!("{}?bytes_in_flight_max=2000", server.url());
    let client = Client::connect(&url).await.unwrap();
    let value = "v".repeat(700);
    let tasks: Vec<_> = (0..40)
        .map(|task| {
            let (client, value) = (client.clone(), value.clone());
            tokio::spawn(async move {
                for call in 0..50 {
                    let text = format!("{task}:{call}:{value}");
                    // Some give up while they wait for space.
                    if call % 5 == 4 {
                        let call = client.command("ECHO").arg(&text).reply::<String>();
                        let _ = tokio::time::timeout(Duration::from_micros(50), call.into_future())
                            .await;
                        continue;
                    }
                    let reply: String = client.command("ECHO").arg(&text).reply().await.unwrap();
                    assert_eq!(reply, text);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
