//! Keys, and the fields of a hash, as streams: `scan [URL]`.

use petrel_client::{Client, Commands, Pipeline, ScanOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> petrel_client::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url).await?;
    let mut pipeline = Pipeline::new();
    for number in 0..1_000 {
        pipeline.set(format!("example:scan:{number}"), number).queue();
        pipeline.hset("example:fields", [(format!("field:{number}"), number)]).queue();
    }
    client.run(pipeline).await?;

    let options =
        ScanOptions { pattern: Some(b"example:scan:*".to_vec()), ..ScanOptions::default() };
    // A key may come twice when the server's table grows meanwhile.
    let mut keys = std::collections::HashSet::new();
    let mut walk = client.scan_keys(&options);
    while let Some(key) = walk.next().await {
        keys.insert(key?);
    }
    println!("{} keys", keys.len());

    let options = ScanOptions { count: Some(100), ..ScanOptions::default() };
    let (mut fields, mut sum) = (0, 0);
    let mut walk = client.scan_hash("example:fields", &options);
    while let Some(field) = walk.next().await {
        let (_, value) = field?;
        fields += 1;
        sum += String::from_utf8_lossy(&value).parse::<i64>().unwrap_or(0);
    }
    println!("{fields} fields, whose values are {sum} together");
    client.unlink(keys).await?;
    client.unlink(["example:fields"]).await?;
    Ok(())
}
