//! [`RateLimiter`]: a maximum number of events in a window of time, shared by all programs.

use std::time::Duration;

use crate::client::Client;
use crate::error::Result;
use crate::script::Script;

/// Counts an event in the current window, which begins with its first event; returns the count and
/// the rest of the window. Events beyond the limit are not counted.
const TAKE: &str = "local count = tonumber(redis.call('GET', KEYS[1]) or '0') \
     local left = redis.call('PTTL', KEYS[1]) \
     if left < 0 then left = tonumber(ARGV[3]) count = 0 end \
     if count + tonumber(ARGV[1]) > tonumber(ARGV[2]) then return {0, count, left} end \
     count = count + tonumber(ARGV[1]) \
     redis.call('SET', KEYS[1], count, 'PX', left) \
     return {1, count, left}";

/// Admits a maximum number of events in a window of time, for all programs that use the same keys.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    client: Client,
    script: Script,
    prefix: Vec<u8>,
    limit: u64,
    window: Duration,
}

/// Answer of a [`RateLimiter`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Permission {
    /// Whether the event may pass.
    pub is_granted: bool,
    /// Number of events that this window still admits.
    pub remaining: u64,
    /// Time until the window ends.
    pub resets_in: Duration,
}

impl RateLimiter {
    /// A limiter with the given prefix of keys. A window begins with its first event; its length
    /// has a resolution, and a minimum, of one millisecond.
    pub fn new(client: Client, prefix: impl Into<Vec<u8>>, limit: u64, window: Duration) -> Self {
        let window = window.max(Duration::from_millis(1));
        Self { client, script: Script::new(TAKE), prefix: prefix.into(), limit, window }
    }

    /// Asks whether one event of a subject, such as a user, may pass, and counts it if so.
    pub async fn take(&self, subject: impl AsRef<[u8]>) -> Result<Permission> {
        self.take_many(subject, 1).await
    }

    /// Like [`RateLimiter::take`], for several events, admitted together or not at all.
    pub async fn take_many(&self, subject: impl AsRef<[u8]>, events: u64) -> Result<Permission> {
        let key = [&self.prefix[..], subject.as_ref()].concat();
        let window_ms = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        let arguments = [events, self.limit, window_ms];
        let (is_granted, count, left): (bool, u64, u64) =
            self.script.run(&self.client, &[key], &arguments).await?;
        Ok(Permission {
            is_granted,
            remaining: self.limit.saturating_sub(count),
            resets_in: Duration::from_millis(left),
        })
    }
}
