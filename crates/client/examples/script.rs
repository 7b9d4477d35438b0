//! A Lua script, sent by its digest: `script [URL]`.

use petrel_client::{Client, Commands, Script};

#[tokio::main(flavor = "current_thread")]
async fn main() -> petrel_client::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url).await?;
    client.set("example:stock", 3).await?;
    let buy = Script::new(
        "local left = tonumber(redis.call('GET', KEYS[1]) or '0')
         local wanted = tonumber(ARGV[1])
         if left < wanted then return {0, left} end
         return {1, redis.call('DECRBY', KEYS[1], wanted)}",
    );
    println!("digest {}", buy.digest());
    for wanted in [2, 2, 1] {
        let (is_sold, left): (bool, i64) = buy.run(&client, &["example:stock"], &[wanted]).await?;
        println!("{wanted}: {}, {left} left", if is_sold { "sold" } else { "too many" });
    }
    // One that only reads is sent again when the connection is lost.
    let look = Script::readonly("return redis.call('GET', KEYS[1])");
    let left: i64 = look.run(&client, &["example:stock"], &[""; 0]).await?;
    println!("{left} left");
    client.del(["example:stock"]).await?;
    Ok(())
}
