//! [`Inbox`]: received messages that were not taken yet, and the subscriptions.

use std::collections::{BTreeSet, VecDeque};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use petrel_resp::Value;
use tokio::sync::Notify;

use super::message::{ChannelKind, Message};
use crate::argument::{ArgWriter, ToArg};
use crate::error::{Error, ErrorKind, Result};
use crate::request::Command;

/// Bytes of messages that wait to be taken, after which nothing more is read: the server then keeps
/// them, up to its own limit (`client-output-buffer-limit`).
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A channel, pattern or shard channel with its kind.
pub(super) type Channel = (ChannelKind, Bytes);

pub(super) type Channels = BTreeSet<Channel>;

/// Messages and subscriptions of a subscriber.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) state: Mutex<State>,
    /// Notified when a subscription is confirmed or refused.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    reader: Option<Waker>,
    pub(super) wanted: Channels,
    pub(super) refusal: Option<Error>,
    pub(super) is_over: bool,
}

/// A change of subscriptions.
pub(super) struct Change {
    pub(super) is_wanted: bool,
    pub(super) command: Command,
    pub(super) channels: Channels,
}

impl Change {
    pub(super) fn new<C: ToArg>(
        kind: ChannelKind,
        is_wanted: bool,
        channels: impl IntoIterator<Item = C>,
    ) -> Self {
        let name = if is_wanted { kind.subscribe() } else { kind.unsubscribe() };
        let mut command = Command::raw(name);
        for channel in channels {
            channel.write_arg(&mut ArgWriter(&mut command.buffer));
        }
        let arguments = command.arguments().skip(1);
        let channels = arguments.map(|channel| (kind, Bytes::copy_from_slice(channel))).collect();
        Self { is_wanted, command, channels }
    }
}

impl Inbox {
    /// Records the wanted subscriptions.
    pub(super) fn begin(&self, change: &Change) {
        let mut state = self.state.lock();
        state.refusal = None;
        match change.is_wanted {
            true => state.wanted.extend(change.channels.iter().cloned()),
            false => state.wanted.retain(|channel| !change.channels.contains(channel)),
        }
    }

    /// Waits until a change is done, as far as `is_confirmed` says of each channel, or refused.
    pub(super) async fn finish(
        &self,
        change: Change,
        limit: Option<Duration>,
        is_confirmed: impl Fn(&Channel) -> bool,
    ) -> Result<()> {
        let Change { is_wanted, command, channels } = change;
        let name = command.name();
        let done = async {
            loop {
                let changed = self.changed.notified();
                {
                    let mut state = self.state.lock();
                    if let Some(error) = state.refusal.take() {
                        state.wanted.retain(|channel| !channels.contains(channel));
                        return Err(error);
                    }
                    if state.is_over {
                        return Err(Error::new(ErrorKind::Closed));
                    }
                }
                if channels.iter().all(|channel| is_confirmed(channel) == is_wanted) {
                    return Ok(());
                }
                changed.await;
            }
        };
        let result = match limit {
            None => done.await,
            Some(limit) => tokio::time::timeout(limit, done).await.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::TimedOut { after: limit, unconnected: None }))
            }),
        };
        result.map_err(|error| error.of_command(&name))
    }

    /// The next message. `resume` is called if reading had stopped and may go on.
    pub(super) fn poll_message(
        &self,
        cx: &mut Context<'_>,
        resume: impl FnOnce(),
    ) -> Poll<Option<Message>> {
        let mut state = self.state.lock();
        let Some(message) = state.messages.pop_front() else {
            if state.is_over {
                return Poll::Ready(None);
            }
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let was_full = state.bytes >= WAITING_BYTES_MAX;
        state.bytes -= size_of_message(&message);
        let reads_again = was_full && state.bytes < WAITING_BYTES_MAX;
        drop(state);
        if reads_again {
            resume();
        }
        Poll::Ready(Some(message))
    }

    /// Takes a push. If it is no message but tells of a subscription: which, and whether it is
    /// there now.
    pub(super) fn take(&self, items: Vec<Value>) -> Option<(bool, Channel)> {
        let mut texts = items.into_iter().map(|item| match item {
            Value::Bulk(text) | Value::Simple(text) => Some(text),
            _ => None,
        });
        let word = texts.next().flatten().unwrap_or_default();
        let mut text = || texts.next().flatten();
        let message = match &word[..] {
            b"message" => text().zip(text()).map(|both| (ChannelKind::Channel, None, both)),
            b"smessage" => text().zip(text()).map(|both| (ChannelKind::Shard, None, both)),
            b"pmessage" => {
                let pattern = text();
                text().zip(text()).map(|both| (ChannelKind::Pattern, pattern, both))
            }
            word => {
                let (kind, is_there) = match word {
                    b"subscribe" => (ChannelKind::Channel, true),
                    b"unsubscribe" => (ChannelKind::Channel, false),
                    b"psubscribe" => (ChannelKind::Pattern, true),
                    b"punsubscribe" => (ChannelKind::Pattern, false),
                    b"ssubscribe" => (ChannelKind::Shard, true),
                    b"sunsubscribe" => (ChannelKind::Shard, false),
                    _ => return None,
                };
                return Some((is_there, (kind, text()?)));
            }
        };
        let (kind, pattern, (channel, payload)) = message?;
        let message = Message { kind, pattern, channel, payload };
        let mut state = self.state.lock();
        state.bytes += size_of_message(&message);
        state.messages.push_back(message);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        None
    }

    /// Rejects the pending subscriptions.
    pub(super) fn refuse(&self, error: Error) {
        self.state.lock().refusal = Some(error);
        self.changed.notify_waiters();
    }

    /// Whether nothing more should be read for now.
    pub(super) fn is_full(&self) -> bool {
        self.state.lock().bytes >= WAITING_BYTES_MAX
    }

    /// Ends the messages: no more will arrive.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        let reader = state.reader.take();
        drop(state);
        self.changed.notify_waiters();
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

fn size_of_message(message: &Message) -> usize {
    size_of::<Message>() + message.channel.len() + message.payload.len()
}
