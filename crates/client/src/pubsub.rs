//! [`Subscriber`]: messages of channels, on a connection of its own.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_core::Stream;
use parking_lot::Mutex;
use petrel_resp::{Protocol, Value};
use tokio::sync::Notify;

use crate::argument::{ArgWriter, ToArg};
use crate::client::Client;
use crate::dedicated::OwnedLane;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::PushSink;
use crate::request::Command;

/// Bytes of messages that wait to be taken, after which nothing more is read: the server then keeps
/// them, up to its own limit (`client-output-buffer-limit`).
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A message of a channel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// What was subscribed to.
    pub kind: ChannelKind,
    /// The pattern that matched, of a subscription by pattern.
    pub pattern: Option<Bytes>,
    /// The channel.
    pub channel: Bytes,
    /// What was published.
    pub payload: Bytes,
}

/// What can be subscribed to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ChannelKind {
    /// Channels by name.
    Channel,
    /// Channels by pattern.
    Pattern,
    /// Channels of a shard.
    Shard,
}

impl ChannelKind {
    const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    fn subscribe(self) -> &'static str {
        match self {
            Self::Channel => "SUBSCRIBE",
            Self::Pattern => "PSUBSCRIBE",
            Self::Shard => "SSUBSCRIBE",
        }
    }

    fn unsubscribe(self) -> &'static str {
        match self {
            Self::Channel => "UNSUBSCRIBE",
            Self::Pattern => "PUNSUBSCRIBE",
            Self::Shard => "SUNSUBSCRIBE",
        }
    }
}

/// Subscriptions, and the messages they bring. A lost connection is made anew and everything is
/// subscribed to again; messages published in between are lost, which
/// [`Subscriber::interruptions`] tells. Made by [`Client::subscriber`]; works with RESP2, too.
///
/// Messages are taken by [`Subscriber::next`], or as a [`Stream`].
#[derive(Debug)]
pub struct Subscriber {
    lane: OwnedLane,
    inbox: Arc<Inbox>,
}

/// What arrives for a subscriber.
#[derive(Debug, Default)]
struct Inbox {
    state: Mutex<State>,
    /// Told when a subscription is confirmed or refused.
    changed: Notify,
}

type Channels = BTreeSet<(ChannelKind, Bytes)>;

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    reader: Option<Waker>,
    wanted: Channels,
    confirmed: Channels,
    refusal: Option<Error>,
    connections: u64,
    is_over: bool,
}

impl Client {
    /// A connection that subscribes to channels.
    pub async fn subscriber(&self) -> Result<Subscriber> {
        self.open_subscriber(true).await
    }

    /// The same; `reconnect` says whether a lost connection is made anew. Without, it is the end of
    /// the messages.
    pub(crate) async fn open_subscriber(&self, reconnect: bool) -> Result<Subscriber> {
        let inbox = Arc::new(Inbox::default());
        let lane = self.open_lane(reconnect, Some(inbox.clone())).await?;
        Ok(Subscriber { lane: OwnedLane(lane), inbox })
    }
}

impl Subscriber {
    /// Subscribes to channels by name; returns when the server has confirmed all of them.
    pub async fn subscribe<C: ToArg>(
        &mut self,
        channels: impl IntoIterator<Item = C>,
    ) -> Result<()> {
        self.change(ChannelKind::Channel, true, channels).await
    }

    /// Subscribes to the channels that match patterns.
    pub async fn psubscribe<C: ToArg>(
        &mut self,
        patterns: impl IntoIterator<Item = C>,
    ) -> Result<()> {
        self.change(ChannelKind::Pattern, true, patterns).await
    }

    /// Subscribes to channels of the shard.
    pub async fn ssubscribe<C: ToArg>(
        &mut self,
        channels: impl IntoIterator<Item = C>,
    ) -> Result<()> {
        self.change(ChannelKind::Shard, true, channels).await
    }

    /// Ends subscriptions. Messages that have arrived can still be taken.
    pub async fn unsubscribe<C: ToArg>(
        &mut self,
        kind: ChannelKind,
        channels: impl IntoIterator<Item = C>,
    ) -> Result<()> {
        self.change(kind, false, channels).await
    }

    /// The next message, waited for; `None` after the client's runtime was shut down.
    pub async fn next(&mut self) -> Option<Message> {
        std::future::poll_fn(|cx| self.poll_message(cx)).await
    }

    /// How often the connection was lost; messages published until it was made anew are lost.
    pub fn interruptions(&self) -> u64 {
        self.inbox.state.lock().connections.saturating_sub(1)
    }

    async fn change<C: ToArg>(
        &mut self,
        kind: ChannelKind,
        is_wanted: bool,
        channels: impl IntoIterator<Item = C>,
    ) -> Result<()> {
        let name = if is_wanted { kind.subscribe() } else { kind.unsubscribe() };
        let mut command = Command::raw(name);
        for channel in channels {
            channel.write_arg(&mut ArgWriter(&mut command.buffer));
        }
        let channels: Channels = command
            .arguments()
            .skip(1)
            .map(|channel| (kind, Bytes::copy_from_slice(channel)))
            .collect();
        if channels.is_empty() {
            return Ok(());
        }
        {
            let mut state = self.inbox.state.lock();
            state.refusal = None;
            match is_wanted {
                true => state.wanted.extend(channels.iter().cloned()),
                false => state.wanted.retain(|channel| !channels.contains(channel)),
            }
        }
        self.lane.0.send(&command)?;
        let confirmed = async {
            loop {
                let changed = self.inbox.changed.notified();
                {
                    let mut state = self.inbox.state.lock();
                    if let Some(error) = state.refusal.take() {
                        state.wanted.retain(|channel| !channels.contains(channel));
                        return Err(error.of_command(name));
                    }
                    if state.is_over {
                        return Err(Error::new(ErrorKind::Closed).of_command(name));
                    }
                    let known =
                        channels.iter().filter(|one| state.confirmed.contains(*one)).count();
                    if known == if is_wanted { channels.len() } else { 0 } {
                        return Ok(());
                    }
                }
                changed.await;
            }
        };
        match self.lane.0.timeout() {
            None => confirmed.await,
            Some(limit) => match tokio::time::timeout(limit, confirmed).await {
                Ok(result) => result,
                Err(_) => {
                    let kind = ErrorKind::TimedOut { after: limit, unconnected: None };
                    Err(Error::new(kind).of_command(name))
                }
            },
        }
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let mut state = self.inbox.state.lock();
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
            self.lane.0.wake_driver();
        }
        Poll::Ready(Some(message))
    }
}

impl Stream for Subscriber {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.poll_message(cx)
    }
}

fn size_of_message(message: &Message) -> usize {
    size_of::<Message>() + message.channel.len() + message.payload.len()
}

impl PushSink for Inbox {
    fn push(&self, items: Vec<Value>) {
        let mut texts = items.into_iter().map(|item| match item {
            Value::Bulk(text) | Value::Simple(text) => Some(text),
            _ => None,
        });
        let kind = texts.next().flatten().unwrap_or_default();
        let mut text = || texts.next().flatten();
        let mut state = self.state.lock();
        let message = match &kind[..] {
            b"message" => text().zip(text()).map(|both| (ChannelKind::Channel, None, both)),
            b"smessage" => text().zip(text()).map(|both| (ChannelKind::Shard, None, both)),
            b"pmessage" => {
                let pattern = text();
                text().zip(text()).map(|both| (ChannelKind::Pattern, pattern, both))
            }
            word => {
                if let Some(channel) = text() {
                    state.note_change(word, channel);
                    drop(state);
                    self.changed.notify_waiters();
                }
                return;
            }
        };
        let Some((kind, pattern, (channel, payload))) = message else { return };
        let message = Message { kind, pattern, channel, payload };
        state.bytes += size_of_message(&message);
        state.messages.push_back(message);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn reply(&self, reply: Value) {
        match reply {
            Value::Array(items) => self.push(items),
            Value::Error(text) => {
                self.state.lock().refusal = Some(Error::from_reply(&text));
                self.changed.notify_waiters();
            }
            _ => {}
        }
    }

    fn takes_replies(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.state.lock().bytes >= WAITING_BYTES_MAX
    }

    fn connected(&self, _: Protocol) -> Vec<Command> {
        let mut state = self.state.lock();
        state.connections += 1;
        let mut commands = Vec::new();
        for kind in ChannelKind::ALL {
            let mut command = Command::raw(kind.subscribe());
            let channels = state.wanted.iter().filter(|(other, _)| *other == kind);
            let count = channels
                .map(|(_, channel)| channel.write_arg(&mut ArgWriter(&mut command.buffer)))
                .count();
            commands.extend((count > 0).then_some(command));
        }
        commands
    }

    fn disconnected(&self) {
        self.state.lock().confirmed.clear();
    }

    fn closed(&self) {
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

impl State {
    fn note_change(&mut self, word: &[u8], channel: Bytes) {
        let (kind, is_subscribed) = match word {
            b"subscribe" => (ChannelKind::Channel, true),
            b"unsubscribe" => (ChannelKind::Channel, false),
            b"psubscribe" => (ChannelKind::Pattern, true),
            b"punsubscribe" => (ChannelKind::Pattern, false),
            b"ssubscribe" => (ChannelKind::Shard, true),
            b"sunsubscribe" => (ChannelKind::Shard, false),
            _ => return,
        };
        match is_subscribed {
            true => drop(self.confirmed.insert((kind, channel))),
            false => drop(self.confirmed.remove(&(kind, channel))),
        }
    }
}
