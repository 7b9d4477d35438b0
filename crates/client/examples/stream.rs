//! Streams that the program makes itself, as for a tunnel or a proxy: `stream [HOST:PORT]`.

use petrel_client::{Client, Commands, Options};
use tokio::net::TcpStream;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "localhost:6379".to_owned());

    // User, password and database are taken from the URL, as always; its host is not.
    let options = Options::from_url("redis://localhost")?;

    // A stream that is there already; it is not made anew when it ends.
    let stream = TcpStream::connect(&address).await?;
    let client = Client::from_stream(options.clone(), stream).await?;
    println!("{}", client.ping().await?);

    // A function that makes one, now and whenever the connection was lost.
    let connect = move || {
        let address = address.clone();
        async move {
            println!("connecting to {address}");
            TcpStream::connect(address).await
        }
    };
    let client = Client::with_connector(options, connect).await?;
    println!("{}", client.ping().await?);
    Ok(())
}
