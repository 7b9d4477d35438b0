//! Counts in many tasks over one connection: `counter [URL]`.

use petrel_client::{Client, Commands};

#[tokio::main]
async fn main() -> petrel_client::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url).await?;
    client.del(["example:counter"]).await?;
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.incr("example:counter").await })
        })
        .collect();
    for task in tasks {
        match task.await {
            Ok(result) => drop(result?),
            Err(error) => eprintln!("{error}"),
        }
    }
    let count: i64 = client.get("example:counter").reply().await?;
    println!("counted to {count}");
    Ok(())
}
