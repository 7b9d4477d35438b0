//! Tests code that uses a client without a server: run with `--features mock`.

use petrel_client::{Client, Commands, MockServer, Result, Value};

/// What is to be tested: counts a visit, and says how many there were.
async fn visit(client: &Client, page: &str) -> Result<String> {
    let visits = client.incr(format!("visits:{page}")).retry().await?;
    Ok(format!("visit {visits} of {page}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = MockServer::new();
    // The connection is lost before the reply comes.
    server.expect(["INCR", "visits:home"]).no_reply();
    server.disconnect();
    server.expect(["INCR", "visits:home"]).reply(Value::Integer(7));
    let client = server.client().await?;
    println!("{}", visit(&client, "home").await?);
    server.finish();
    Ok(())
}
