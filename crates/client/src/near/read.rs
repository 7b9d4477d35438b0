//! [`NearRead`]: a read of one key that looks into the cache without building a command, and
//! [`NearReadWith`], which lends the reply.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use petrel_resp::Value;

use super::entry::Question;
use super::store::{Lent, Take, Typed};
use super::{NearCall, Source};
use crate::argument::ToArg;
use crate::error::{Error, ErrorKind, Result};
use crate::reply::FromReply;
use crate::request::{Command, CommandInfo};

/// A read of one key through a near cache; does nothing until it is awaited.
#[must_use = "futures do nothing unless polled"]
pub struct NearRead<'a, K, R> {
    source: Source<'a>,
    info: &'static CommandInfo,
    timeout: Option<Duration>,
    stage: Stage<'a, K, R>,
    reply: PhantomData<fn() -> R>,
}

enum Stage<'a, K, R> {
    Start(K),
    /// Not cached. A fill allocates anyway, and the future of a hit stays small.
    Asking(Box<NearCall<'a, R>>),
    Over,
}

impl<'a, K: ToArg, R> NearRead<'a, K, R> {
    #[inline]
    pub(super) fn new(source: Source<'a>, info: &'static CommandInfo, key: K) -> Self {
        Self { source, info, timeout: None, stage: Stage::Start(key), reply: PhantomData }
    }

    /// Turns the reply into another type.
    #[inline]
    pub fn reply<N: FromReply>(self) -> NearRead<'a, K, N> {
        let Self { source, info, timeout, stage, .. } = self;
        let stage = match stage {
            Stage::Start(key) => Stage::Start(key),
            // It was polled, and is used up.
            _ => Stage::Over,
        };
        NearRead { source, info, timeout, stage, reply: PhantomData }
    }

    /// Lends the string to a function instead of handing it out: a hit allocates nothing and
    /// counts no reference. Without a string, because there is no such key, the function is not
    /// called and the result is `None`.
    ///
    /// ```no_run
    /// # async fn example(near: petrel_client::NearCache) -> petrel_client::Result<()> {
    /// let lines = near.get("text").read_with(|text| text.split(|b| *b == b'\n').count()).await?;
    /// println!("{} lines", lines.unwrap_or(0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Memory that is replaced meanwhile is freed when the function has returned, so it should not
    /// wait for anything.
    #[inline]
    pub fn read_with<F: FnOnce(&[u8]) -> T, T>(self, read: F) -> NearReadWith<'a, K, F> {
        NearReadWith { of: self.reply(), read: Some(read) }
    }

    /// Sets the timeout of the command, in place of that in the client's options.
    pub fn within(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The read as a command.
    #[cold]
    fn call(&self, key: &K) -> NearCall<'a, R> {
        let mut command = Command::new(self.info);
        command.push(key);
        command.timeout = self.timeout;
        NearCall::new(self.source, command)
    }
}

impl<K: ToArg, R: FromReply> NearRead<'_, K, R> {
    /// Looks into the cache, before anything is asked.
    #[inline]
    fn look<T: Take>(&mut self, take: T) -> Option<T::Output> {
        let Stage::Start(key) = &self.stage else { return None };
        let store = &self.source.shared().store;
        let found = store.take(key.as_bytes()?, Question::of_key(self.info), take)?;
        self.stage = Stage::Over;
        Some(found)
    }

    /// Asks the server.
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Result<R>> {
        if let Stage::Start(key) = &self.stage {
            self.stage = Stage::Asking(Box::new(self.call(key)));
        }
        let Stage::Asking(call) = &mut self.stage else {
            return Poll::Ready(Err(Error::new(ErrorKind::Closed)));
        };
        let polled = Pin::new(&mut **call).poll(cx);
        if polled.is_ready() {
            self.stage = Stage::Over;
        }
        polled
    }
}

/// Nothing in it is pinned.
impl<K, R> Unpin for NearRead<'_, K, R> {}

impl<K: ToArg, R: FromReply> Future for NearRead<'_, K, R> {
    type Output = Result<R>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        match self.look(Typed::default()) {
            Some(result) => Poll::Ready(result.map_err(|error| error.of_command(self.info.name))),
            None => self.poll_call(cx),
        }
    }
}

/// A read of one key that lends the string it finds; does nothing until it is awaited. Made by
/// [`NearRead::read_with`].
#[must_use = "futures do nothing unless polled"]
pub struct NearReadWith<'a, K, F> {
    of: NearRead<'a, K, Value>,
    read: Option<F>,
}

/// Nothing in it is pinned.
impl<K, F> Unpin for NearReadWith<'_, K, F> {}

impl<K: ToArg, F: FnOnce(&[u8]) -> T, T> Future for NearReadWith<'_, K, F> {
    type Output = Result<Option<T>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { of, read } = &mut *self;
        let result = match of.look(Lent(read)) {
            Some(result) => result,
            None => match of.poll_call(cx) {
                Poll::Ready(result) => result.and_then(|value| Lent(read).value(&value)),
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(result.map_err(|error| error.of_command(of.info.name)))
    }
}

impl<K, F> std::fmt::Debug for NearReadWith<'_, K, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.of.fmt(f)
    }
}

impl<K, R> std::fmt::Debug for NearRead<'_, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NearRead").field("command", &self.info.name).finish_non_exhaustive()
    }
}
