//! Reads through a near cache, what a hit costs, and what a change of another program does:
//! `near [URL] [KEYS] [READS]`.

use std::time::Instant;

use petrel_client::{Client, Commands, NearCacheOptions, Pipeline};

/// Keys that are stored, or read, together.
const TOGETHER: usize = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> petrel_client::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "redis://localhost".to_owned());
    let mut number = |otherwise| {
        arguments.next().and_then(|text| text.parse().ok()).filter(|n| *n > 0).unwrap_or(otherwise)
    };
    let (count, reads): (usize, usize) = (number(10_000), number(2_000_000));
    let client = Client::connect(&url).await?;
    let options = NearCacheOptions { bytes_max: 1 << 30, ..NearCacheOptions::default() };
    let near = client.near_cache(options).await?;

    let keys: Vec<String> = (0..count).map(|n| format!("key:{n:012}")).collect();
    for some in keys.chunks(TOGETHER) {
        let mut pipeline = Pipeline::new();
        for key in some {
            pipeline.set(key, [b'x'; 64]).ex(600).queue();
        }
        client.run(pipeline).await?;
        let fills: Vec<_> = some
            .iter()
            .map(|key| {
                let (near, key) = (near.clone(), key.clone());
                tokio::spawn(async move { near.get(key).await })
            })
            .collect();
        for fill in fills {
            fill.await.map_err(|_| petrel_client::Error::closed())??;
        }
    }

    let (begin, mut at) = (Instant::now(), 0);
    for _ in 0..reads {
        // A step that visits all keys, far from one another.
        at = (at + 7_919) % count;
        near.get(&keys[at]).await?;
    }
    let nanoseconds = begin.elapsed().as_nanos() as f64 / reads as f64;
    println!("a hit among {count} keys: {nanoseconds:.0} ns");
    println!("{:?}", near.statistics());

    // Another program changes a key: the server says so.
    Client::connect(&url).await?.set(&keys[0], "changed").await?;
    while near.get(&keys[0]).await?.is_some_and(|value| value != "changed") {
        tokio::task::yield_now().await;
    }
    println!("the change has come");
    client.del(&keys).await?;
    Ok(())
}
