//! TLS with an authority of one's own: `tls rediss://HOST:PORT [FILE.pem]`. Without the file the
//! system's authorities are trusted.

use petrel_client::{Client, Commands, Options};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "rediss://localhost:6380".to_owned());
    let mut options = Options::from_url(&url)?;
    if let Some(path) = arguments.next() {
        options.tls_roots_pem = Some(std::fs::read(path)?);
    }
    let client = Client::with_options(options).await?;
    println!("{}", client.ping().await?);
    client.set("example:tls", "over TLS").ex(60).await?;
    let value: Option<String> = client.get("example:tls").reply().await?;
    println!("{value:?}");
    Ok(())
}
