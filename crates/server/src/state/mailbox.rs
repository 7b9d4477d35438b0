//! Messages between workers: one mailbox each, emptied once per turn.

use crate::lifecycle::listening::Exchange;
use crate::state::review::Review;
use parking_lot::Mutex;
use petrel_commands::Answer;
use petrel_net::{Endpoint, ListenerId, Slot, Waker};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};

/// The reply of another node to a command of a connection.
#[derive(Debug)]
pub struct RemoteReply {
    /// The connection's slot.
    pub slot: Slot,
    /// Number of the connection.
    pub id: u64,
    /// The number of the reply slot.
    pub seq: u64,
    /// The reply, as it is sent.
    pub reply: Vec<u8>,
}

/// An accepted connection on its way to its worker.
#[derive(Debug)]
pub struct Arrival {
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// The connection.
    pub socket: OwnedFd,
    /// Number of the connection.
    pub id: u64,
    /// Address of the client, where the socket leads to another thread of this process.
    pub client: Option<Endpoint>,
}

/// Message between workers.
#[derive(Debug)]
pub enum Message {
    /// Serve this connection, which was accepted elsewhere.
    Adopt(Arrival),
    /// Close this connection.
    Kill {
        /// Slot of the connection.
        slot: Slot,
    },
    /// Reply for a blocked connection.
    Answer {
        /// Slot of the connection.
        slot: Slot,
        /// Number of the connection.
        id: u64,
        /// The reply.
        answer: Answer,
    },
    /// Replies of other nodes to connections of this worker.
    Remote(Vec<RemoteReply>),
    /// Close subscribers that have lost permission for a channel.
    Review(Arc<Review>),
    /// Accept on other listeners.
    Listen(Exchange),
    /// The server has become a replica: blocked connections get an error and are closed.
    Demoted,
    /// Hash slots have other primaries: blocked commands move there.
    Moved,
    /// `CLIENT PAUSE` has ended: resume the paused connections.
    Unpause,
    /// Stop.
    Stop,
}

/// A worker's mailbox.
pub struct Mailbox {
    waker: Waker,
    filled: AtomicBool,
    messages: Mutex<Vec<Message>>,
}

impl Mailbox {
    /// Creates the mailbox of a worker; `waker` wakes its driver.
    pub fn new(waker: Waker) -> Self {
        Mailbox { waker, filled: AtomicBool::new(false), messages: Mutex::default() }
    }

    /// Adds a message and wakes the worker.
    pub fn send(&self, message: Message) {
        self.messages.lock().push(message);
        self.filled.store(true, std::sync::atomic::Ordering::Release);
        self.waker.wake();
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.messages.lock().len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Takes all messages in order.
    pub fn take(&self) -> Vec<Message> {
        if !self.filled.load(Acquire) || !self.filled.swap(false, AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.messages.lock())
    }
}
