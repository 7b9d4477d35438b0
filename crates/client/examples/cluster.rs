//! Counts on every node of a cluster, listens to a channel of a shard, and reads through a near
//! cache: `cluster [URL of any node]`.

use petrel_client::{Cluster, Commands, NearCacheOptions, Pipeline};

#[tokio::main]
async fn main() -> petrel_client::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let cluster = Cluster::connect(&url).await?;
    let mut pipeline = Pipeline::new();
    let counts: Vec<_> =
        (0..10).map(|n| pipeline.incr(format!("example:counter:{n}")).queue()).collect();
    let mut replies = cluster.run(pipeline).await?;
    for (n, count) in counts.into_iter().enumerate() {
        println!("counter {n}: {}", replies.take(count)?);
    }
    println!("{} primaries", cluster.primaries().await?.len());

    let mut subscriber = cluster.subscriber();
    subscriber.ssubscribe(["example:channel"]).await?;
    cluster.spublish("example:channel", "hello").await?;
    if let Some(message) = subscriber.next().await {
        println!("message: {}", message.payload.escape_ascii());
    }

    let near = cluster.near_cache(NearCacheOptions::default()).await?;
    for _ in 0..1000 {
        near.get("example:counter:0").await?;
    }
    println!("{:?}", near.statistics());
    Ok(())
}
