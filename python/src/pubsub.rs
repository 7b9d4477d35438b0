//! Messages of channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use petrel_client::{ChannelKind, Error, Message, Result};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::client::{Core, duration, made};
use crate::remote::Listener;
use crate::shape::{self, Decoding};
use crate::{argument, failure, runtime};

/// Messages between the subscriber and Python at most; others wait in the subscriber.
const QUEUED_MAX: usize = 256;

/// Subscribes to channels or unsubscribes from them.
struct Change {
    kind: ChannelKind,
    is_wanted: bool,
    channels: Vec<Vec<u8>>,
    done: oneshot::Sender<Result<()>>,
}

/// What a subscription has of the task that owns the subscriber.
pub(crate) struct Parts {
    changes: mpsc::UnboundedSender<Change>,
    messages: Arc<Mutex<mpsc::Receiver<Message>>>,
    interruptions: Arc<AtomicU64>,
}

/// Subscriptions and the messages that they bring.
#[pyclass(frozen, module = "petrel._petrel")]
pub(crate) struct Subscription {
    core: Py<Core>,
    parts: parking_lot::Mutex<Option<Parts>>,
}

impl Subscription {
    pub(crate) fn new(core: Py<Core>, parts: Parts) -> Self {
        Self { core, parts: parking_lot::Mutex::new(Some(parts)) }
    }

    /// Starts the task that owns a subscriber.
    pub(crate) fn parts(subscriber: Listener) -> Parts {
        let (changes, wanted) = mpsc::unbounded_channel();
        let (sender, messages) = mpsc::channel(QUEUED_MAX);
        let interruptions = Arc::new(AtomicU64::new(0));
        tokio::spawn(serve(subscriber, wanted, sender, interruptions.clone()));
        Parts { changes, messages: Arc::new(Mutex::new(messages)), interruptions }
    }

    fn with<T>(&self, py: Python<'_>, take: impl FnOnce(&Parts) -> T) -> PyResult<T> {
        let parts = self.parts.lock();
        let gone = || failure::new(py, "ConnectionError", "the subscription is closed", "", "");
        parts.as_ref().map(take).ok_or_else(gone)
    }
}

/// Takes messages and changes for as long as someone wants them.
async fn serve(
    mut subscriber: Listener,
    mut changes: mpsc::UnboundedReceiver<Change>,
    messages: mpsc::Sender<Message>,
    interruptions: Arc<AtomicU64>,
) {
    loop {
        let next = async {
            let permit = messages.reserve().await.ok()?;
            subscriber.next().await.map(|message| permit.send(message))
        };
        tokio::select! {
            change = changes.recv() => {
                let Some(Change { kind, is_wanted, channels, done }) = change else { return };
                let _ = done.send(subscriber.change(kind, is_wanted, channels).await);
            }
            sent = next => if sent.is_none() { return },
        }
        interruptions.store(subscriber.interruptions(), Ordering::Relaxed);
    }
}

#[pymethods]
impl Subscription {
    /// Subscribes or unsubscribes; done when the server has confirmed it. `kind` is `channel`,
    /// `pattern` or `shard`.
    fn change(
        &self,
        py: Python<'_>,
        kind: &str,
        is_wanted: bool,
        channels: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let kind = match kind {
            "pattern" => ChannelKind::Pattern,
            "shard" => ChannelKind::Shard,
            _ => ChannelKind::Channel,
        };
        let channels = channels.iter().map(argument::bytes).collect::<PyResult<_>>()?;
        let (done, is_done) = oneshot::channel();
        let change = Change { kind, is_wanted, channels, done };
        let sent = self.with(py, |parts| parts.changes.send(change).is_ok())?;
        self.core.get().finish(
            py,
            Box::pin(async move {
                let result = match is_done.await {
                    Ok(result) if sent => result,
                    _ => Err(Error::closed()),
                };
                made(move |py| result.map(|()| py.None()).map_err(|error| failure::of(py, &error)))
            }),
        )
    }

    /// Messages that have come, waited for at most `limit` seconds: a list of
    /// `(kind, pattern, channel, payload)`, empty after that time, `None` when there will be none
    /// any more.
    #[pyo3(signature = (limit))]
    fn next(&self, py: Python<'_>, limit: Option<f64>) -> PyResult<Py<PyAny>> {
        let limit = limit.map(|seconds| duration(py, seconds)).transpose()?;
        let messages = self.with(py, |parts| parts.messages.clone())?;
        let decoding = self.core.get().decoding();
        self.core.get().finish(
            py,
            Box::pin(async move {
                let mut taken = Vec::new();
                let mut messages = messages.lock().await;
                let wait = messages.recv_many(&mut taken, QUEUED_MAX);
                let is_over = match limit {
                    None => wait.await == 0,
                    Some(limit) => {
                        tokio::time::timeout(limit, wait).await.is_ok_and(|count| count == 0)
                    }
                };
                made(move |py| match is_over {
                    true => Ok(py.None()),
                    false => list(py, &taken, decoding),
                })
            }),
        )
    }

    /// How often the connection was lost; messages published meanwhile are lost.
    fn interruptions(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |parts| parts.interruptions.load(Ordering::Relaxed))
    }

    /// Ends all subscriptions.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let _runtime = runtime::handle(py)?;
        drop(self.parts.lock().take());
        Ok(())
    }
}

fn list(py: Python<'_>, messages: &[Message], decoding: Decoding) -> PyResult<Py<PyAny>> {
    let list = PyList::empty(py);
    for Message { kind, pattern, channel, payload } in messages {
        let kind = match kind {
            ChannelKind::Channel => "message",
            ChannelKind::Pattern => "pmessage",
            ChannelKind::Shard => "smessage",
        };
        let pattern = match pattern {
            Some(pattern) => shape::string(py, pattern, decoding)?,
            None => py.None().into_bound(py),
        };
        let channel = shape::string(py, channel, decoding)?;
        list.append((kind, pattern, channel, shape::string(py, payload, decoding)?))?;
    }
    Ok(list.into_any().unbind())
}
