//! Commands on an engine in this process, and what one costs: `embedded [KEYS] [READS]`.

use std::time::Instant;

use petrel_client::{Commands, Pipeline};
use petrel_embedded::Engine;

fn main() -> petrel_client::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| {
        arguments.next().and_then(|text| text.parse().ok()).filter(|n| *n > 0).unwrap_or(otherwise)
    };
    let (count, reads): (u64, u64) = (number(10_000), number(2_000_000));
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
    for _ in 0..reads {
        // A step that visits all keys, far from one another.
        at = (at + 7_919) % count;
        client.get(&keys[at as usize]).run()?;
    }
    let nanoseconds = begin.elapsed().as_nanos() as f64 / reads as f64;
    println!("GET of {count} keys: {nanoseconds:.0} ns");
    Ok(())
}
