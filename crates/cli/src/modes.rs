//! Work other than executing commands: `--stat`, `--scan`, `--pipe` and their like.

mod file;
mod keys;
mod latency;
mod pipe;
mod stat;

pub use file::{rdb, replica};
pub use keys::{big_keys, hot_keys, memory_of_keys, scan};
pub use latency::{intrinsic_latency, latency};
pub use pipe::pipe;
pub use stat::stat;

use petrel_resp::Value;

/// Returns a reply, or an error reply as an error.
fn checked(command: &str, reply: Value) -> Result<Value, String> {
    match reply {
        Value::Error(text) => Err(format!("{command}: {}", String::from_utf8_lossy(&text))),
        reply => Ok(reply),
    }
}
