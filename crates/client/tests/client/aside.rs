//! Cache-aside: one filler for all callers that miss a key, in all programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use petrel_client::{
    CacheAside, Client, Commands, Error, ErrorKind, LockOptions, NearCacheOptions,
};

use crate::servers::{Kind, Server, with_each_server};

with_each_server!(one_fills_for_all, failures_pass_on, a_filler_that_died_is_waited_out);

const TTL: Duration = Duration::from_secs(60);

/// As another program would have it: with connections and a near cache of its own.
async fn program(server: &Server, options: NearCacheOptions) -> CacheAside {
    let client = Client::connect(&server.url()).await.unwrap();
    CacheAside::new(client.near_cache(options).await.unwrap(), TTL)
}

async fn one_fills_for_all(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    for prefixes in [vec![], vec![b"page:".to_vec()]] {
        let options = || NearCacheOptions { prefixes: prefixes.clone(), ..Default::default() };
        let programs = [
            program(&server, options()).await,
            program(&server, options()).await,
            program(&server, options()).await,
        ];
        let fills = Arc::new(AtomicUsize::new(0));
        for round in 0..5 {
            let tasks: Vec<_> = (0..60)
                .map(|task| {
                    let (pages, fills) = (programs[task % 3].clone(), fills.clone());
                    tokio::spawn(async move {
                        pages
                            .get(format!("page:{round}"), async || {
                                fills.fetch_add(1, SeqCst);
                                tokio::time::sleep(Duration::from_millis(30)).await;
                                petrel_client::Result::Ok(format!("page {round}"))
                            })
                            .await
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap().unwrap(), format!("page {round}"));
            }
            assert_eq!(fills.load(SeqCst), round + 1, "one of sixty computes");
        }
        // It is stored with its time to live, and nothing is left of the locks.
        let client = programs[0].near_cache().client();
        let left = client.pttl("page:0").await.unwrap();
        assert!(left > 0 && left <= TTL.as_millis() as i64, "{left}");
        assert_eq!(client.dbsize().await.unwrap(), 5);
        // What is removed is computed anew.
        assert!(programs[1].remove("page:0").await.unwrap());
        let again = programs[1].get("page:0", async || petrel_client::Result::Ok("new")).await;
        assert_eq!(again.unwrap(), "new");
        client.flushall().await.unwrap();
    }
}

async fn failures_pass_on(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let pages = program(&server, NearCacheOptions::default()).await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let (pages, attempts) = (pages.clone(), attempts.clone());
            tokio::spawn(async move {
                let fill = async || match attempts.fetch_add(1, SeqCst) {
                    0..3 => Err(Error::from(ErrorKind::Configuration("not now".into()))),
                    _ => Ok("done"),
                };
                pages.get("page", fill).await
            })
        })
        .collect();
    let mut failed = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(value) => assert_eq!(value, "done"),
            Err(error) => {
                assert!(error.to_string().contains("not now"), "{error}");
                failed += 1;
            }
        }
    }
    assert_eq!((failed, attempts.load(SeqCst)), (3, 4));
}

async fn a_filler_that_died_is_waited_out(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let pages = program(&server, NearCacheOptions::default()).await;
    let client = pages.near_cache().client();
    client.set("page:filling", "another program").px(400).await.unwrap();
    let begin = Instant::now();
    let value = pages.get("page", async || petrel_client::Result::Ok("v")).await.unwrap();
    assert_eq!(value, "v");
    assert!(begin.elapsed() >= Duration::from_millis(300), "{:?}", begin.elapsed());
    // One that was slower than its lease stores nothing over what was stored meanwhile.
    pages.remove("page").await.unwrap();
    let short = pages.clone().with_lock(LockOptions { ttl: Duration::from_millis(90) });
    let value = short
        .get("page", async || {
            client.del(["page:filling"]).await?;
            client.set("page", "newer").await?;
            petrel_client::Result::Ok("older")
        })
        .await;
    assert_eq!(value.unwrap(), "older");
    assert_eq!(client.get("page").await.unwrap().unwrap(), "newer");
}
