//! Counts on every node of a cluster: `cluster [URL of any node]`.

use petrel_client::{Cluster, Commands, Pipeline};

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
    Ok(())
}
