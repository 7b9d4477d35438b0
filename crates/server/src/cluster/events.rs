//! Events for the agent. The thread of the fabric leaves them here and must not wait, and nothing
//! may be lost: views and links are few, and frames make their link pause once too much waits.

use super::agent::Task;
use super::{Event, Link};
use parking_lot::Mutex;
use petrel_fabric::Flow;
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;

/// Bytes of frames that wait at most, and one more frame for each link.
const BYTES_MAX: usize = 16 << 20;

/// What a frame counts for besides its bytes.
const FRAME_BYTES: usize = 64;

/// Events in their order.
pub(super) struct EventQueue {
    waiting: Mutex<Waiting>,
    /// Wakes the agent.
    tasks: SyncSender<Task>,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    bytes: usize,
    /// Links that are not read before there is room.
    paused: Vec<Link>,
}

impl EventQueue {
    pub fn new(tasks: SyncSender<Task>) -> Self {
        EventQueue { waiting: Mutex::default(), tasks }
    }

    /// Leaves an event that is no frame.
    pub fn leave(&self, event: Event) {
        self.waiting.lock().events.push_back(event);
        self.wake();
    }

    /// Leaves a frame; says whether the next one of its link may come.
    pub fn leave_frame(&self, link: Link, bytes: Vec<u8>) -> Flow {
        let mut waiting = self.waiting.lock();
        waiting.bytes += bytes.len() + FRAME_BYTES;
        waiting.events.push_back(Event::Frame(link, bytes));
        let is_full = waiting.bytes > BYTES_MAX;
        if is_full {
            waiting.paused.push(link);
        }
        drop(waiting);
        self.wake();
        if is_full { Flow::Pause } else { Flow::More }
    }

    /// The next event.
    pub fn take(&self) -> Option<Event> {
        let mut waiting = self.waiting.lock();
        let event = waiting.events.pop_front();
        if let Some(Event::Frame(_, bytes)) = &event {
            waiting.bytes -= bytes.len() + FRAME_BYTES;
        }
        event
    }

    /// Links that may be read on, each once for each pause.
    pub fn resumable(&self) -> Vec<Link> {
        let mut waiting = self.waiting.lock();
        if waiting.bytes > BYTES_MAX / 2 { Vec::new() } else { std::mem::take(&mut waiting.paused) }
    }

    fn wake(&self) {
        // If it is full the agent is awake.
        let _ = self.tasks.try_send(Task::Wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_cluster::{Identity, Node};
    use std::sync::mpsc;

    #[test]
    fn links_pause_while_much_waits_and_nothing_is_lost_or_overtaken() {
        let (tasks, woken) = mpsc::sync_channel(1);
        let queue = EventQueue::new(tasks);
        let link = |node| Link { peer: Identity { node: Node(node), incarnation: 1 }, number: 1 };
        let frame = || vec![7; BYTES_MAX / 2 - FRAME_BYTES];
        queue.leave(Event::LinkUp(link(0)));
        assert_eq!(queue.leave_frame(link(0), frame()), Flow::More);
        assert_eq!(queue.leave_frame(link(0), frame()), Flow::More);
        assert_eq!(queue.leave_frame(link(0), Vec::new()), Flow::Pause);
        assert_eq!(queue.leave_frame(link(1), Vec::new()), Flow::Pause);
        queue.leave(Event::LinkDown(link(0)));
        assert!(queue.resumable().is_empty());
        assert!(matches!(queue.take(), Some(Event::LinkUp(_))));
        assert!(matches!(queue.take(), Some(Event::Frame(..))));
        assert!(queue.resumable().is_empty());
        assert!(matches!(queue.take(), Some(Event::Frame(..))));
        assert_eq!(queue.resumable(), [link(0), link(1)]);
        assert!(queue.resumable().is_empty());
        assert!(matches!(queue.take(), Some(Event::Frame(of, _)) if of == link(0)));
        assert!(matches!(queue.take(), Some(Event::Frame(of, _)) if of == link(1)));
        assert!(matches!(queue.take(), Some(Event::LinkDown(_))));
        assert!(queue.take().is_none());
        assert!(matches!(woken.try_recv(), Ok(Task::Wake)));
    }
}
