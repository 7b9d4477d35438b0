//! A worker as seen by other threads: its connections, its metrics and its mailbox.

use crate::client::Clients;
use crate::observation::traffic::Traffic;
use crate::state::blocked::BlockedClients;
use crate::state::mailbox::{Mailbox, Message};
use crate::state::outbox::PushQueue;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Shared part of a worker.
#[derive(Default)]
pub struct WorkerLink {
    /// Connections by number.
    pub clients: Clients,
    /// Number of connections, including those handed to it and not accepted yet: new ones go to the
    /// worker with fewest.
    pub load: AtomicUsize,
    /// Blocked clients.
    pub blocked: BlockedClients,
    /// Traffic counters.
    pub traffic: Traffic,
    /// Queued pushes to its connections.
    pub pushes: PushQueue,
    /// The worker delays output until it is durable, or has a client blocked on that.
    pub(crate) holds: AtomicBool,
    /// The worker delays output until another owner of a hash slot has its changes.
    pub(crate) awaits_owners: AtomicBool,
    mailbox: OnceLock<Mailbox>,
    backend: OnceLock<&'static str>,
}

impl WorkerLink {
    /// Sets the mailbox; called once by the worker, before it serves its first client.
    pub fn open(&self, mailbox: Mailbox, backend: &'static str) {
        let _ = self.mailbox.set(mailbox);
        let _ = self.backend.set(backend);
    }

    /// Wakes the worker to check its queues.
    pub fn wake(&self) {
        if let Some(mailbox) = self.mailbox.get() {
            mailbox.wake();
        }
    }

    /// Number of queued messages.
    pub fn messages_waiting(&self) -> usize {
        self.mailbox.get().map_or(0, Mailbox::len)
    }

    /// Takes the queued messages.
    pub fn messages(&self) -> Vec<Message> {
        self.mailbox.get().map(Mailbox::take).unwrap_or_default()
    }

    /// Sends the worker a message.
    pub fn send(&self, message: Message) {
        if let Some(mailbox) = self.mailbox.get() {
            mailbox.send(message);
        }
    }

    /// Name of the back-end that its loop runs on, once it has begun.
    pub fn backend(&self) -> Option<&'static str> {
        self.backend.get().copied()
    }
}
