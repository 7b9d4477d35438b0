//! A worker as the rest of the server knows it: its connections, its figures, how it is reached.

use crate::client::Clients;
use crate::event_loop::blocked::BlockedClients;
use crate::event_loop::mailbox::{Mailbox, Message};
use crate::fanout::outbox::PushQueue;
use crate::observation::traffic::Traffic;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// What others know of a worker.
#[derive(Default)]
pub struct WorkerLink {
    /// Its connections by number.
    pub clients: Clients,
    /// How many connections it has, those on their way to it included: new ones go to the worker
    /// that has fewest.
    pub load: AtomicUsize,
    /// Those that wait for a key.
    pub blocked: BlockedClients,
    /// Its traffic.
    pub traffic: Traffic,
    /// What is on its way to its connections without their having asked.
    pub pushes: PushQueue,
    /// It keeps something back until it is durable, or has a client that waits for that.
    pub(crate) holds: AtomicBool,
    mailbox: OnceLock<Mailbox>,
    backend: OnceLock<&'static str>,
}

impl WorkerLink {
    /// Says how to reach the worker; called once, by the worker, before it serves its first client.
    pub fn open(&self, mailbox: Mailbox, backend: &'static str) {
        let _ = self.mailbox.set(mailbox);
        let _ = self.backend.set(backend);
    }

    /// Makes it look at what was left for it.
    pub fn wake(&self) {
        if let Some(mailbox) = self.mailbox.get() {
            mailbox.wake();
        }
    }

    /// How many messages have arrived and are not taken.
    pub fn messages_waiting(&self) -> usize {
        self.mailbox.get().map_or(0, Mailbox::len)
    }

    /// The messages that have arrived.
    pub fn messages(&self) -> Vec<Message> {
        self.mailbox.get().map(Mailbox::take).unwrap_or_default()
    }

    /// Leaves a message for it.
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
