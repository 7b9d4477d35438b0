//! [`CacheAside`]: values that are computed where they are missing, each by one program at a time.

use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::lock::{Lock, LockOptions};
use crate::near::NearCache;
use crate::typed::Commands;

/// Suffix of a key that names the lock of its filler: after the key, so that the lock is in the
/// same slot and has the same prefixes.
const LOCK_SUFFIX: &[u8] = b":filling";

/// Sets a key if its lock is held with this token, and releases the lock. A filler with an expired
/// lease changes nothing, since another filler may have been quicker.
const STORE: &str = "if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end \
     redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) \
     redis.call('DEL', KEYS[2]) return 1";

/// Values that are read through a near cache, and computed where they are missing.
///
/// However many tasks and programs miss a key at the same time, one of them computes the value; the
/// others wait until it has been stored, which the invalidation of the filler's lock announces,
/// without asking again and again. If it fails or dies, the next one computes.
///
/// ```no_run
/// # async fn example(near: petrel_client::NearCache) -> petrel_client::Result<()> {
/// use petrel_client::CacheAside;
/// use std::time::Duration;
///
/// let pages = CacheAside::new(near, Duration::from_secs(60));
/// let page = pages.get("page:7", async || petrel_client::Result::Ok("computed")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CacheAside {
    near: NearCache,
    ttl: Duration,
    lock: LockOptions,
}

impl CacheAside {
    /// Values that live for `ttl` after they were computed.
    pub fn new(near: NearCache, ttl: Duration) -> Self {
        Self { near, ttl, lock: LockOptions::default() }
    }

    /// Sets the options of the lock: its TTL is the time that others wait for a filler that has
    /// died.
    pub fn with_lock(mut self, options: LockOptions) -> Self {
        self.lock = options;
        self
    }

    /// The near cache that is read through.
    pub fn near_cache(&self) -> &NearCache {
        &self.near
    }

    /// Returns the value of a key: from the near cache, from the server, or from `fill`, and stores
    /// a value from `fill`. An error of `fill` is returned to this caller alone, and nothing is
    /// stored.
    pub async fn get<V, E>(
        &self,
        key: impl AsRef<[u8]>,
        fill: impl AsyncFnOnce() -> std::result::Result<V, E>,
    ) -> std::result::Result<Bytes, E>
    where
        V: Into<Bytes>,
        E: From<Error>,
    {
        let key = key.as_ref();
        let lock_key = [key, LOCK_SUFFIX].concat();
        loop {
            if let Some(value) = self.near.get(key).await? {
                return Ok(value);
            }
            let Some(lock) = self.near.try_lock(&lock_key, self.lock.clone()).await? else {
                self.near.wait_for_release(&lock_key).await?;
                continue;
            };
            // Another one may have stored it since it was missed.
            if let Some(value) = self.near.client().get(key).await? {
                lock.release().await?;
                self.near.forget(key);
                return Ok(value);
            }
            return match fill().await {
                Ok(value) => {
                    let value = value.into();
                    self.store(key, lock, &value).await?;
                    Ok(value)
                }
                Err(error) => {
                    // The next caller computes; if the release fails, after the lease.
                    let _ = lock.release().await;
                    Err(error)
                }
            };
        }
    }

    /// Removes a value, so that the next reader computes it.
    pub async fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let removed = self.near.client().del([key.as_ref()]).await? > 0;
        self.near.forget(key);
        Ok(removed)
    }

    async fn store(&self, key: &[u8], lock: Lock, value: &Bytes) -> Result<()> {
        let ttl_ms = match u64::try_from(self.ttl.as_millis()) {
            Ok(ttl_ms) if ttl_ms > 0 => ttl_ms.min(i64::MAX as u64 / 2).to_string(),
            _ => {
                let text = "values should live for 1 ms or more".to_owned();
                return Err(Error::new(ErrorKind::Configuration(text)));
            }
        };
        lock.finish_with(STORE, key, [value, ttl_ms.as_bytes()]).await?;
        self.near.forget(key);
        Ok(())
    }
}
