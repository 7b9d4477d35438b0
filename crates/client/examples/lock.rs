//! Programs that take turns by a lock: `lock [URL] [PROGRAMS]`. One that waits is woken by the
//! invalidation of the lock's key, and asks nothing meanwhile.

use std::time::{Duration, Instant};

use petrel_client::{Client, Commands, LockOptions, NearCacheOptions};

#[tokio::main]
async fn main() -> petrel_client::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "redis://localhost".to_owned());
    let programs: u32 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let counter = Client::connect(&url).await?;
    counter.del(["example:lock", "example:sum"]).await?;
    let begin = Instant::now();
    let tasks: Vec<_> = (0..programs)
        .map(|program| {
            let url = url.clone();
            tokio::spawn(async move {
                // A connection and a cache of its own, as another program has.
                let client = Client::connect(&url).await?;
                let near = client.near_cache(NearCacheOptions::default()).await?;
                let options = LockOptions { ttl: Duration::from_secs(5) };
                let mut lock = near.lock("example:lock", options).await?;
                println!("{:4} ms: {program} holds the lock", begin.elapsed().as_millis());
                // Read, think, write: wrong without the lock.
                let work = async {
                    let sum: Option<i64> = client.get("example:sum").reply().await?;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    client.set("example:sum", sum.unwrap_or(0) + 1).await
                };
                tokio::select! {
                    done = work => drop(done?),
                    () = lock.lost() => println!("{program} has lost the lock"),
                }
                lock.release().await.map(drop)
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|_| petrel_client::Error::closed())??;
    }
    let sum: i64 = counter.get("example:sum").reply().await?;
    println!("{programs} programs have added {sum}");
    counter.del(["example:sum"]).await?;
    Ok(())
}
