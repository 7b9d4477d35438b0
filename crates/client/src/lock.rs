//! [`Lock`]: mutual exclusion between programs, by a key.

use std::time::Duration;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::near::NearCache;
use crate::script::Script;
use crate::typed::Commands;

/// Deletes the key if it holds the token.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Sets the key's expiry if it holds the token.
const EXTEND: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// Options of locks.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// Time that a lock outlives a dead holder. A live holder extends it after each third of that
    /// time.
    pub ttl: Duration,
}

impl Default for LockOptions {
    /// 10 s.
    fn default() -> Self {
        Self { ttl: Duration::from_secs(10) }
    }
}

/// A lock that is held; see [`NearCache::lock`].
///
/// It is released when it is dropped, by a task of the runtime, or at once by [`Lock::release`].
/// A lock is a lease: a holder that cannot reach the server for as long as the lease lives loses it
/// and [`Lock::lost`] tells so. What must never be done twice needs a check of its own at the place
/// where it is done.
#[derive(Debug)]
pub struct Lock {
    client: Client,
    key: Vec<u8>,
    token: String,
    extending: Option<tokio::task::JoinHandle<()>>,
    lost: tokio::sync::watch::Receiver<bool>,
}

impl NearCache {
    /// Waits until this program holds the lock of a key, which others of its kind contend for by
    /// the same name. While it is held elsewhere the key is read through the cache, so that the end
    /// of the lock is noticed by its invalidation, without asking again and again.
    pub async fn lock(&self, key: impl AsRef<[u8]>, options: LockOptions) -> Result<Lock> {
        let key = key.as_ref();
        loop {
            if let Some(lock) = self.try_lock(key, options.clone()).await? {
                return Ok(lock);
            }
            self.wait_for_release(key).await?;
        }
    }

    /// Takes the lock of a key unless it is held.
    pub async fn try_lock(
        &self,
        key: impl AsRef<[u8]>,
        options: LockOptions,
    ) -> Result<Option<Lock>> {
        let ttl_ms = i64::try_from(options.ttl.as_millis()).unwrap_or(i64::MAX);
        if ttl_ms < 30 {
            let text = "a lock's ttl should be 30 ms or more".to_owned();
            return Err(Error::new(ErrorKind::Configuration(text)));
        }
        let (client, key) = (self.client().clone(), key.as_ref().to_vec());
        let token = format!("{:032x}", fastrand::u128(..));
        if !client.set(&key, &token).nx().px(ttl_ms).await? {
            return Ok(None);
        }
        let (lose, lost) = tokio::sync::watch::channel(false);
        let extending = extend(client.clone(), key.clone(), token.clone(), options.ttl, lose);
        let extending = Some(tokio::spawn(extending));
        Ok(Some(Lock { client, key, token, extending, lost }))
    }

    /// Waits until the key is gone, or the lease that it is now has ended.
    pub(crate) async fn wait_for_release(&self, key: &[u8]) -> Result<()> {
        let Ok(left) = u64::try_from(self.client().pttl(key).await?) else { return Ok(()) };
        let until = tokio::time::Instant::now() + Duration::from_millis(left + 1);
        loop {
            // Begun before the read, so that an invalidation in between is not missed.
            let changed = self.changed();
            if self.get(key).await?.is_none() {
                return Ok(());
            }
            if tokio::time::timeout_at(until, changed).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Extends a lease until it is lost.
async fn extend(
    client: Client,
    key: Vec<u8>,
    token: String,
    ttl: Duration,
    lose: tokio::sync::watch::Sender<bool>,
) {
    let script = Script::new(EXTEND);
    let ttl_ms = ttl.as_millis().to_string();
    let mut held_until = tokio::time::Instant::now() + ttl;
    loop {
        tokio::time::sleep(ttl / 3).await;
        let asked = tokio::time::Instant::now();
        let arguments = [&token, &ttl_ms];
        let keys = [&key];
        let run = script.run::<bool>(&client, &keys, &arguments);
        match tokio::time::timeout_at(held_until, run).await {
            Ok(Ok(true)) => held_until = asked + ttl,
            Ok(Err(_)) if tokio::time::Instant::now() < held_until => {}
            _ => {
                let _ = lose.send(true);
                return;
            }
        }
    }
}

impl Lock {
    /// Whether the lock is known to be lost.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Waits until the lock is lost.
    pub async fn lost(&mut self) {
        let _ = self.lost.wait_for(|lost| *lost).await;
    }

    /// Runs a script that ends the lock, of two keys, the lock's the second, and of the lock's
    /// token and two more arguments.
    pub(crate) async fn finish_with(
        mut self,
        script: &str,
        key: &[u8],
        arguments: [&[u8]; 2],
    ) -> Result<bool> {
        if let Some(extending) = self.extending.take() {
            extending.abort();
        }
        let arguments = [self.token.as_bytes(), arguments[0], arguments[1]];
        Script::new(script).run(&self.client, &[key, &self.key], &arguments).await
    }

    /// Releases the lock; false if it was lost before.
    pub async fn release(mut self) -> Result<bool> {
        if let Some(extending) = self.extending.take() {
            extending.abort();
        }
        Script::new(RELEASE).run(&self.client, &[&self.key], &[&self.token]).await
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let Some(extending) = self.extending.take() else { return };
        extending.abort();
        let (client, key) = (self.client.clone(), std::mem::take(&mut self.key));
        let token = std::mem::take(&mut self.token);
        // Outside of a runtime the lease ends by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = Script::new(RELEASE).run::<bool>(&client, &[&key], &[&token]).await;
            });
        }
    }
}
