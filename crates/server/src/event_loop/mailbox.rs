//! Messages between workers: one mailbox each, emptied once per turn.

use crate::fanout::review::Review;
use crate::lifecycle::listening::Exchange;
use parking_lot::Mutex;
use petrel_commands::Answer;
use petrel_net::{ListenerId, Slot, Waker};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};

/// The reply of another node to a command of a connection.
#[derive(Debug)]
pub struct RemoteReply {
    /// The connection's slot.
    pub slot: Slot,
    /// Its number.
    pub id: u64,
    /// The number of the reply slot.
    pub seq: u64,
    /// The reply, as it is sent.
    pub reply: Vec<u8>,
}

/// What one worker tells another.
#[derive(Debug)]
pub enum Message {
    /// Serve this connection, which was accepted elsewhere.
    Adopt {
        /// The listener that accepted it.
        listener: ListenerId,
        /// The connection.
        socket: OwnedFd,
        /// Its number.
        id: u64,
    },
    /// Close this connection.
    Kill {
        /// Its slot.
        slot: Slot,
    },
    /// Answer this connection, which waits for a key.
    Answer {
        /// Its slot.
        slot: Slot,
        /// Its number.
        id: u64,
        /// The reply.
        answer: Answer,
    },
    /// Replies of other nodes to connections of this worker.
    Remote(Vec<RemoteReply>),
    /// Close subscribers whose users have lost a channel.
    Review(Arc<Review>),
    /// Accept on other listeners.
    Listen(Exchange),
    /// The server has become a replica: connections whose commands wait are told, and closed.
    Demoted,
    /// Hash slots have got other homes: commands that wait for keys go on there.
    Moved,
    /// `CLIENT PAUSE` has ended: go on with the connections that it held back.
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
    /// The mailbox of the worker whose driver `waker` wakes.
    pub fn new(waker: Waker) -> Self {
        Mailbox { waker, filled: AtomicBool::new(false), messages: Mutex::default() }
    }

    /// Leaves a message and wakes the worker.
    pub fn send(&self, message: Message) {
        self.messages.lock().push(message);
        self.filled.store(true, std::sync::atomic::Ordering::Release);
        self.waker.wake();
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.messages.lock().len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Takes every message, in the order in which they were left.
    pub fn take(&self) -> Vec<Message> {
        if !self.filled.load(Acquire) || !self.filled.swap(false, AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.messages.lock())
    }
}
