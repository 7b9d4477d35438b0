//! Publishing and subscribing, as commands of a connection do it.

use crate::client::{Client, Flag, Subscribed};
use crate::host::ServerHost;
use crate::state::outbox::{Delivery, Recipient};
use crate::state::pubsub::subscribers::SUBSCRIPTIONS_MAX;
use crate::state::pubsub::{ChannelKind, Message, Name};
use petrel_commands::{Fail, Outcome};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl ServerHost {
    /// Publishes a message; returns how many connections get it.
    #[inline]
    pub fn publish_message(&mut self, kind: ChannelKind, channel: &[u8], payload: &[u8]) -> u64 {
        if self.server.channels.is_silent(kind) {
            return 0;
        }
        self.publish_to_some(kind, channel, payload)
    }

    fn publish_to_some(&mut self, kind: ChannelKind, channel: &[u8], payload: &[u8]) -> u64 {
        let server = self.server.clone();
        let Some(mut audience) = server.channels.audience(kind, channel) else { return 0 };
        let patterns = std::mem::take(&mut audience.patterns);
        let message = Arc::new(Message::new(kind, channel, payload, patterns));
        for (worker, _) in audience.counts.iter() {
            self.deliver(worker, Delivery::Channel(message.clone()));
        }
        audience.counts.total()
    }

    /// Whether the connection being served may have this many more subscriptions.
    ///
    /// # Errors
    /// If it would be subscribed to too much.
    pub fn admit_subscriptions(&self, kind: ChannelKind, more: usize) -> Outcome {
        if self.count_subscriptions(kind) + more <= SUBSCRIPTIONS_MAX {
            return Ok(());
        }
        Err(Fail::new(format!(
            "ERR a connection may not have more than {SUBSCRIPTIONS_MAX} subscriptions of a kind"
        )))
    }

    /// Subscribes the connection being served; does nothing if it is subscribed already. Returns by
    /// how many bytes memory has grown, which are the caller's to count.
    #[must_use]
    pub fn subscribe(&mut self, kind: ChannelKind, name: &[u8]) -> i64 {
        let own = self.subscribers.of(self.client.id);
        if own.is_some_and(|own| own.contains(kind, name)) {
            return 0;
        }
        if own.is_none() {
            self.server.channels.count_client(true);
            self.client.set(Flag::PubSub, true);
        }
        let server = self.server.clone();
        let mut held = server.channels.hold(kind, name);
        self.collect_before_change();
        let name = held.add(name, self.worker() as u16);
        self.subscribers.add(kind, name, Recipient::of(&self.client));
        drop(held);
        self.show_subscriptions()
    }

    /// Ends a subscription of the current connection. Earlier messages are delivered to it first.
    /// Returns the growth of memory in bytes, which is negative.
    #[must_use]
    pub fn unsubscribe(&mut self, kind: ChannelKind, name: &[u8]) -> i64 {
        if !self.subscribers.of(self.client.id).is_some_and(|own| own.contains(kind, name)) {
            return 0;
        }
        let server = self.server.clone();
        let mut held = server.channels.hold(kind, name);
        self.collect_before_change();
        held.remove(name, self.worker() as u16);
        self.subscribers.remove(kind, name, self.client.id);
        drop(held);
        if self.subscribers.of(self.client.id).is_none() {
            server.channels.count_client(false);
            self.client.set(Flag::PubSub, false);
        }
        self.show_subscriptions()
    }

    /// Whether the connection being served is subscribed to anything.
    pub fn is_subscriber(&self) -> bool {
        self.client.has(Flag::PubSub)
    }

    /// Names of a kind that the connection being served is subscribed to.
    pub fn subscriptions(&self, kind: ChannelKind) -> Vec<Name> {
        self.subscribers.of(self.client.id).map_or_else(Vec::new, |own| own.names(kind))
    }

    /// Number of the current connection's subscriptions of a kind.
    pub fn count_subscriptions(&self, kind: ChannelKind) -> usize {
        self.subscribers.of(self.client.id).map_or(0, |own| own.len(kind))
    }

    /// Ends all subscriptions of a connection that is gone. Returns by how many bytes memory has
    /// grown: fewer than none.
    #[must_use]
    pub fn forget_subscriber(&mut self, client: &Client) -> i64 {
        if !client.has(Flag::PubSub) {
            return 0;
        }
        client.set(Flag::PubSub, false);
        let server = self.server.clone();
        server.channels.count_client(false);
        for kind in ChannelKind::ALL {
            let names = self.subscribers.of(client.id).map_or_else(Vec::new, |own| own.names(kind));
            for name in names {
                let mut held = server.channels.hold(kind, &name);
                held.remove(&name, self.worker() as u16);
                self.subscribers.remove(kind, &name, client.id);
            }
        }
        self.show_subscriptions_of(client)
    }

    /// Publishes the current connection's subscriptions to other threads.
    fn show_subscriptions(&mut self) -> i64 {
        let client = self.client.clone();
        self.show_subscriptions_of(&client)
    }

    fn show_subscriptions_of(&mut self, client: &Client) -> i64 {
        let own = self.subscribers.of(client.id);
        let shown = own.map_or_else(Subscribed::default, |own| Subscribed {
            counts: ChannelKind::ALL.map(|kind| own.len(kind) as u32),
            bytes: own.bytes(),
        });
        let grown = shown.bytes as i64 - client.subscribed().bytes as i64;
        self.server.workers[self.worker()].traffic.buffered.fetch_add(grown, Relaxed);
        client.show_subscriptions(shown);
        grown
    }
}
