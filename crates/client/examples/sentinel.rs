//! Writes to the primary and reads from a replica, through failovers: `sentinel SERVICE URL...`,
//! with the URLs of sentinels.

use std::time::Duration;

use petrel_client::{Commands, Options, Sentinel, SentinelOptions};

#[tokio::main]
async fn main() -> petrel_client::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let service = arguments.next().unwrap_or_else(|| "mymaster".to_owned());
    let mut sentinels = Vec::new();
    for url in arguments {
        sentinels.push(Options::from_url(&url)?);
    }
    if sentinels.is_empty() {
        sentinels.push(Options::from_url("redis://localhost:26379")?);
    }
    // User, password and database of the servers themselves; the address is found.
    let node = Options::from_url("redis://found-by-sentinels")?;
    let found = Sentinel::connect(SentinelOptions { service, sentinels, node }).await?;
    let (primary, replica) = (found.primary().await?, found.replica().await?);
    for number in 0..30 {
        match primary.set("example:number", number).await {
            Ok(()) => {
                let seen: Option<i64> = replica.get("example:number").reply().await?;
                println!("wrote {number}, a replica has {seen:?}");
            }
            Err(error) => println!("{error}"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
