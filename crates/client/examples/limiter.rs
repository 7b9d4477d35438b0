//! Five events a second for each user, over all programs: `limiter [URL]`.

use std::time::Duration;

use petrel_client::{Client, RateLimiter};

#[tokio::main(flavor = "current_thread")]
async fn main() -> petrel_client::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url).await?;
    let limiter = RateLimiter::new(client, "example:limit:", 5, Duration::from_secs(1));
    let mut passed = 0;
    while passed < 8 {
        let permission = limiter.take("ann").await?;
        if permission.is_granted {
            passed += 1;
            println!("event {passed} passes, {} more may", permission.remaining);
        } else {
            println!("wait for {} ms", permission.resets_in.as_millis());
            tokio::time::sleep(permission.resets_in).await;
        }
    }
    // Events that pass together or not at all.
    let many = limiter.take_many("bob", 6).await?;
    println!("six of another user at once: {}", if many.is_granted { "pass" } else { "refused" });
    Ok(())
}
