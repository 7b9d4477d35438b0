//! Events for the agent. The thread of the fabric leaves them here and must not wait, and nothing
//! may be lost: views and links are few.

use crate::cluster::transport::Event;
use parking_lot::Mutex;
use petrel_net::Waker;
use std::collections::VecDeque;

/// Events in their order.
pub(in crate::cluster) struct EventQueue {
    waiting: Mutex<VecDeque<Event>>,
    /// Wakes the agent.
    waker: Waker,
}

impl EventQueue {
    pub fn new(waker: Waker) -> Self {
        EventQueue { waiting: Mutex::default(), waker }
    }

    /// Leaves an event.
    pub fn leave(&self, event: Event) {
        self.waiting.lock().push_back(event);
        self.waker.wake();
    }

    /// The next event.
    pub fn take(&self) -> Option<Event> {
        self.waiting.lock().pop_front()
    }
}
