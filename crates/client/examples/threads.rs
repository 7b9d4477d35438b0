//! Counts in plain threads over one connection: `threads [URL]`.

use petrel_client::Commands;
use petrel_client::blocking::Client;

fn main() -> petrel_client::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url)?;
    client.del(["example:counter"]).run()?;
    std::thread::scope(|scope| {
        let count = || (0..100).try_for_each(|_| client.incr("example:counter").run().map(drop));
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    println!("counted to {:?}", client.get("example:counter").reply::<Option<i64>>().run()?);
    Ok(())
}
