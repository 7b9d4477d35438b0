//! Prints the messages of a channel: `messages [URL] [CHANNEL]`.

use petrel_client::Client;

#[tokio::main]
async fn main() -> petrel_client::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "redis://localhost".to_owned());
    let channel = arguments.next().unwrap_or_else(|| "news".to_owned());
    let mut subscriber = Client::connect(&url).await?.subscriber().await?;
    subscriber.subscribe([&channel]).await?;
    while let Some(message) = subscriber.next().await {
        println!("{}", message.payload.escape_ascii());
    }
    Ok(())
}
