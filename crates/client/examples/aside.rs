//! A hundred tasks miss the same value, which one of them computes: `aside [URL]`.

use std::time::Duration;

use petrel_client::{CacheAside, Client, NearCacheOptions};

#[tokio::main]
async fn main() -> petrel_client::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url).await?;
    let near = client.near_cache(NearCacheOptions::default()).await?;
    let reports = CacheAside::new(near, Duration::from_secs(60));
    reports.remove("example:report").await?;
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            let reports = reports.clone();
            tokio::spawn(async move {
                let compute = async || {
                    println!("task {task} computes");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    petrel_client::Result::Ok(format!("computed by task {task}"))
                };
                reports.get("example:report", compute).await
            })
        })
        .collect();
    for task in tasks {
        match task.await {
            Ok(report) => drop(report?),
            Err(error) => eprintln!("{error}"),
        }
    }
    println!("{:?}", reports.near_cache().statistics());
    Ok(())
}
