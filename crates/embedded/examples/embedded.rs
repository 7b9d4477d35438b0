//! Commands on an engine in this process, and what one costs: `embedded [KEYS]`.

use std::time::Instant;

use petrel_client::{Commands, Pipeline};
use petrel_embedded::Engine;

/// Reads that are measured.
const READS: u64 = 2_000_000;

fn main() -> petrel_client::Result<()> {
    let count: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let engine = Engine::default();
    let client = engine.client();

    client.set("name", "petrel").ex(60).run()?;
    let name: Option<String> = client.get("name").reply().run()?;
    println!("{}", name.unwrap_or_default());

    let mut transaction = Pipeline::transaction();
    transaction.incr("visits").queue();
    let visits = transaction.incr("visits").queue();
    println!("{} visits", client.run(transaction)?.take(visits)?);

    // A user who may read one prefix.
    engine.set_user("reader", &["on", ">secret", "~name*", "+@read"])?;
    let reader = engine.client_as("reader", "secret")?;
    if let Err(error) = reader.get("visits").run() {
        println!("{error}");
    }

    let keys: Vec<String> = (0..count).map(|n| format!("key:{n:012}")).collect();
    for key in &keys {
        client.set(key, [b'x'; 64]).run()?;
    }
    let (begin, mut at) = (Instant::now(), 0u64);
    for _ in 0..READS {
        // A step that visits all keys, far from one another.
        at = (at + 7_919) % count.max(1);
        client.get(&keys[at as usize]).run()?;
    }
    let nanoseconds = begin.elapsed().as_nanos() as f64 / READS as f64;
    println!("GET of {count} keys: {nanoseconds:.0} ns");
    Ok(())
}
