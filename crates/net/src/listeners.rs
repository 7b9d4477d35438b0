//! The listeners of a driver: which of them should accept now, and when to try again.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::event::ListenerId;

/// How long a listener rests after the kernel refused a connection for want of resources.
const BACKOFF: Duration = Duration::from_millis(100);

/// One listener. `armed` says what the kernel was told, the rest what it should be told.
pub(crate) struct Listener {
    pub(crate) id: ListenerId,
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) armed: bool,
    paused: bool,
    retry_at: Option<Instant>,
}

impl Listener {
    pub(crate) fn wanted(&self) -> bool {
        !self.paused && self.retry_at.is_none()
    }
}

/// Listeners by index; an index is never reused, so a late completion cannot name another.
#[derive(Default)]
pub(crate) struct Listeners {
    list: Vec<Option<Listener>>,
    /// Whether any listener has a `retry_at`: the clock is read only then.
    resting: bool,
}

impl Listeners {
    /// Adds a listener and returns its index.
    pub(crate) fn add(&mut self, id: ListenerId, socket: Arc<OwnedFd>) -> u32 {
        self.list.push(Some(Listener { id, socket, armed: false, paused: false, retry_at: None }));
        (self.list.len() - 1) as u32
    }

    /// One more than the highest index.
    pub(crate) fn len(&self) -> u32 {
        self.list.len() as u32
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Listener> {
        self.list.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Listener> {
        self.list.get_mut(index as usize)?.take()
    }

    /// The indexes that carry `id`.
    pub(crate) fn named(&self, id: ListenerId) -> Vec<u32> {
        let named = |l: &Option<Listener>| l.as_ref().is_some_and(|l| l.id == id);
        (0..self.len()).filter(|&i| named(&self.list[i as usize])).collect()
    }

    pub(crate) fn set_paused(&mut self, index: u32, paused: bool) {
        if let Some(listener) = self.get_mut(index) {
            listener.paused = paused;
        }
    }

    pub(crate) fn back_off(&mut self, index: u32) {
        if let Some(listener) = self.get_mut(index) {
            listener.retry_at = Some(Instant::now() + BACKOFF);
            self.resting = true;
        }
    }

    /// Ends the rests that are over; returns the listeners to arm again, and in how long the
    /// next rest ends.
    pub(crate) fn rested(&mut self) -> (Vec<u32>, Option<Duration>) {
        if !self.resting {
            return (Vec::new(), None);
        }
        let now = Instant::now();
        let mut due = Vec::new();
        let mut next = None::<Duration>;
        for (index, listener) in (0..).zip(&mut self.list) {
            let Some(listener) = listener else { continue };
            match listener.retry_at {
                Some(at) if at <= now => {
                    listener.retry_at = None;
                    due.push(index);
                }
                Some(at) => next = Some(next.map_or(at - now, |n| n.min(at - now))),
                None => {}
            }
        }
        self.resting = next.is_some();
        (due, next)
    }
}
