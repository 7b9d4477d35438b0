//! [`Subscriber`] and [`ClusterSubscriber`]: messages of channels, on connections of their own.

mod cluster;
mod inbox;
mod message;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use parking_lot::Mutex;
use petrel_resp::{Protocol, Value};

use crate::argument::{ArgWriter, ToArg};
use crate::client::Client;
use crate::dedicated::OwnedLane;
use crate::error::{Error, Result};
use crate::lane::PushSink;
use crate::request::Command;
pub use cluster::ClusterSubscriber;
use inbox::{Change, Channels, Inbox};
pub use message::{ChannelKind, Message};

/// Subscriptions and their messages. A lost connection is replaced and all subscriptions are
/// restored; messages published in between are lost, which [`Subscriber::interruptions`] counts.
/// Made by [`Client::subscriber`]; works with RESP2, too.
///
/// Messages are taken by [`Subscriber::next`], or as a [`Stream`].
#[derive(Debug)]
pub struct Subscriber {
    lane: OwnedLane,
    sink: Arc<Sink>,
}

/// Sink of the connection.
#[derive(Debug, Default)]
struct Sink {
    inbox: Inbox,
    state: Mutex<SinkState>,
}

#[derive(Debug, Default)]
struct SinkState {
    confirmed: Channels,
    connections: u64,
}

impl Client {
    /// A connection that subscribes to channels.
    pub async fn subscriber(&self) -> Result<Subscriber> {
        self.open_subscriber(true).await
    }

    /// Like [`Client::subscriber`]; `reconnect` says whether a lost connection is replaced.
    /// Otherwise it ends the messages.
    pub(crate) async fn open_subscriber(&self, reconnect: bool) -> Result<Subscriber> {
        let sink = Arc::new(Sink::default());
        let lane = self.open_lane(reconnect, Some(sink.clone())).await?;
        Ok(Subscriber { lane: OwnedLane(lane), sink })
    }
}

/// The ways to subscribe, each by a method `change`.
macro_rules! subscriptions {
    ($name:ty) => {
        impl $name {
            /// Subscribes to channels by name; returns when the server has confirmed all of them.
            pub async fn subscribe<C: ToArg>(
                &mut self,
                channels: impl IntoIterator<Item = C>,
            ) -> Result<()> {
                self.change(Change::new(ChannelKind::Channel, true, channels)).await
            }

            /// Subscribes to the channels that match patterns.
            pub async fn psubscribe<C: ToArg>(
                &mut self,
                patterns: impl IntoIterator<Item = C>,
            ) -> Result<()> {
                self.change(Change::new(ChannelKind::Pattern, true, patterns)).await
            }

            /// Subscribes to channels of shards.
            pub async fn ssubscribe<C: ToArg>(
                &mut self,
                channels: impl IntoIterator<Item = C>,
            ) -> Result<()> {
                self.change(Change::new(ChannelKind::Shard, true, channels)).await
            }

            /// Ends subscriptions. Messages that have arrived can still be taken.
            pub async fn unsubscribe<C: ToArg>(
                &mut self,
                kind: ChannelKind,
                channels: impl IntoIterator<Item = C>,
            ) -> Result<()> {
                self.change(Change::new(kind, false, channels)).await
            }

            /// The next message, waited for; `None` after the client's runtime was shut down.
            pub async fn next(&mut self) -> Option<Message> {
                std::future::poll_fn(|cx| self.poll_message(cx)).await
            }
        }

        impl Stream for $name {
            type Item = Message;

            fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
                self.poll_message(cx)
            }
        }
    };
}
subscriptions!(Subscriber);
subscriptions!(ClusterSubscriber);

impl Subscriber {
    /// Number of lost connections; messages published until the connection was replaced are lost.
    pub fn interruptions(&self) -> u64 {
        self.sink.state.lock().connections.saturating_sub(1)
    }

    async fn change(&mut self, change: Change) -> Result<()> {
        if change.channels.is_empty() {
            return Ok(());
        }
        let inbox = &self.sink.inbox;
        inbox.begin(&change);
        self.lane.0.send(&change.command)?;
        let is_confirmed = |channel: &_| self.sink.state.lock().confirmed.contains(channel);
        inbox.finish(change, self.lane.0.timeout(), is_confirmed).await
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.sink.inbox.poll_message(cx, || self.lane.0.wake_driver())
    }
}

impl PushSink for Sink {
    fn push(&self, items: Vec<Value>) {
        let Some((is_there, channel)) = self.inbox.take(items) else { return };
        match is_there {
            true => drop(self.state.lock().confirmed.insert(channel)),
            false => drop(self.state.lock().confirmed.remove(&channel)),
        }
        self.inbox.changed.notify_waiters();
    }

    fn reply(&self, reply: Value) {
        match reply {
            Value::Array(items) => self.push(items),
            Value::Error(text) => self.inbox.refuse(Error::from_reply(&text)),
            _ => {}
        }
    }

    fn takes_replies(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.inbox.is_full()
    }

    fn connected(&self, _: Protocol) -> Vec<Command> {
        self.state.lock().connections += 1;
        let state = self.inbox.state.lock();
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
        self.inbox.end();
    }
}
