//! [`NearRead`]: a read of one key that looks into the cache without building a command.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::entry::Question;
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
    /// It was not cached. A fill allocates anyway, and the future of a hit stays small.
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

    /// How long the command may take, in place of what the client's options say.
    pub fn within(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The same as a command.
    #[cold]
    fn call(&self, key: &K) -> NearCall<'a, R> {
        let mut command = Command::new(self.info);
        command.push(key);
        command.timeout = self.timeout;
        NearCall::new(self.source, command)
    }
}

/// Nothing in it is pinned.
impl<K, R> Unpin for NearRead<'_, K, R> {}

impl<K: ToArg, R: FromReply> Future for NearRead<'_, K, R> {
    type Output = Result<R>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        let this = &mut *self;
        if let Stage::Start(key) = &this.stage {
            let store = &this.source.shared().store;
            let cached =
                key.as_bytes().and_then(|key| store.read(key, Question::of_key(this.info)));
            if let Some(result) = cached {
                this.stage = Stage::Over;
                return Poll::Ready(result.map_err(|error| error.of_command(this.info.name)));
            }
            this.stage = Stage::Asking(Box::new(this.call(key)));
        }
        let Stage::Asking(call) = &mut this.stage else {
            return Poll::Ready(Err(Error::new(ErrorKind::Closed)));
        };
        let polled = Pin::new(&mut **call).poll(cx);
        if polled.is_ready() {
            this.stage = Stage::Over;
        }
        polled
    }
}

impl<K, R> std::fmt::Debug for NearRead<'_, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NearRead").field("command", &self.info.name).finish_non_exhaustive()
    }
}
