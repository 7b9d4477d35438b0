//! The agent's links: it reads and writes their bytes itself, and waits for them and for the other
//! threads of the server.

use super::agent::{Agent, COMPLAINT_PAUSE, EARLY_MAX, RETRY_PAUSE};
use super::state::membership::count;
use super::transport::{Link, Pipe};
use crate::server::unix_ms;
use petrel_cluster::{Acknowledge, Identity, Node, Received, SendOutcome};
use petrel_net::Awaited;
use std::time::{Duration, Instant};

/// Bytes that are sent to a member at a time.
const SEND_BYTES: usize = 256 * 1024;

/// Bytes that are taken from a member at a time.
const RECEIVE_BYTES: usize = 256 * 1024;

/// Buffer capacity kept for the next sending and receiving.
const ROOM_MAX: usize = 1 << 20;

/// Maximum delay of an acknowledgement: most often something else is sent meanwhile, and carries
/// it.
const ACKNOWLEDGE_PAUSE: Duration = Duration::from_millis(2);

/// Time for which commands wait for a member without a link, while this one has no majority either.
const LOST_MAX: Duration = Duration::from_secs(1);

/// Time after which a link is closed on which nothing is acknowledged, or a third of a node timeout
/// (`petrel_fabric`).
const NOTICED_AFTER: Duration = Duration::from_secs(2);

/// A link that is up.
pub(super) struct Linked {
    pub link: Link,
    pub pipe: Box<dyn Pipe>,
    /// Bytes may be available to read.
    may_read: bool,
    /// Time since when the link is ahead of the view: it is not read before the view has caught up.
    early: Option<Instant>,
    /// Time at which to acknowledge the applied part of the member's lanes if nothing else is sent.
    acknowledge_at: Option<Instant>,
}

impl Linked {
    /// Whether the link waits for a view.
    pub fn is_early(&self) -> bool {
        self.early.is_some()
    }
}

impl Agent {
    pub(super) fn link_up(&mut self, link: Link, pipe: Box<dyn Pipe>) {
        self.forget_link(link.peer.node.0);
        self.node.link(link.peer.node);
        if self.node.is_linked(link.peer.node) {
            let linked = Linked { link, pipe, may_read: true, early: None, acknowledge_at: None };
            self.linked.insert(link.peer.node.0, linked);
            self.show_links();
        }
    }

    pub(super) fn link_down(&mut self, link: Link) {
        if self.is_current(link) {
            self.node.unlink(link.peer.node);
            self.forget_link(link.peer.node.0);
            self.show_links();
        }
    }

    /// Fails commands that were sent to a member without a link, once no view can be expected that
    /// decides about them: by now another primary would have been appointed, or the majority is
    /// unreachable too.
    pub(super) fn give_up_lost(&mut self) {
        let members = &self.node.view().members;
        if self.lost.is_empty() && self.linked.len() + 1 >= members.len() {
            return;
        }
        let (now, me) = (Instant::now(), self.identity());
        let is_lost =
            |member: &&Identity| **member != me && !self.linked.contains_key(&member.node.0);
        let lost = members.iter().filter(is_lost).map(|member| {
            let since = self.lost.get(&member.node.0).copied();
            (member.node.0, since.unwrap_or(now))
        });
        self.lost = lost.collect();
        let timeout = self.machine.host.config.cluster.node_timeout;
        let timeout = Duration::from_millis(timeout.into());
        let limit = match self.membership.has_lease() {
            true => (2 * timeout).saturating_sub(NOTICED_AFTER.max(timeout / 3)).max(timeout),
            false => LOST_MAX,
        };
        let mut is_cut = false;
        for (&number, since) in &mut self.lost {
            if now.duration_since(*since) < limit {
                continue;
            }
            *since = now;
            is_cut = true;
            let over = self.waiting.iter().filter(|(_, waiting)| waiting.is_over(now));
            let over: Vec<u64> = over.map(|(token, _)| *token).collect();
            let over =
                over.into_iter().filter(|token| self.node.give_up_wait(*token, Node(number)));
            let count = over.count() + self.node.give_up(Node(number));
            if count > 0 {
                tracing::warn!(
                    "cluster: member {number} is unreachable: {count} commands sent to it are answered with UNKNOWN"
                );
            }
        }
        if is_cut && !self.machine.host.server.trackers.is_empty() {
            // Nobody tells of changes at such a member.
            self.machine.host.invalidate_everything();
        }
    }

    fn is_current(&self, link: Link) -> bool {
        self.linked.get(&link.peer.node.0).is_some_and(|linked| linked.link == link)
    }

    fn forget_link(&mut self, number: u16) {
        let before = self.linked.remove(&number);
        before.into_iter().for_each(|before| self.part_from_waiters_of(before.link.peer));
    }

    fn show_links(&self) {
        let linked = &mut self.membership.state.lock().linked;
        let before = std::mem::take(linked);
        let shown = |peer: Identity| {
            let known = before.iter().find(|(known, _)| *known == peer);
            known.copied().unwrap_or_else(|| (peer, unix_ms()))
        };
        *linked = self.linked.values().map(|linked| shown(linked.link.peer)).collect();
    }

    /// The links that are up.
    pub(super) fn links(&self) -> Vec<Link> {
        self.linked.values().map(|linked| linked.link).collect()
    }

    /// Closes the link to a member that has sent what does not belong there, or is none: another
    /// begins if it is to.
    pub(super) fn close(&mut self, link: Link) {
        self.link_down(link);
        self.transport.close(link);
    }

    /// Handles received messages of all links; returns whether there are more at once.
    pub(super) fn receive_all(&mut self) -> bool {
        let is_due = |linked: &Linked| linked.may_read && linked.early.is_none();
        let due = self.linked.iter().filter(|(_, linked)| is_due(linked));
        let due: Vec<u16> = due.map(|(number, _)| *number).collect();
        let mut has_more = false;
        for number in due {
            let Some(linked) = self.linked.get_mut(&number) else { continue };
            let (link, mut bytes) = (linked.link, std::mem::take(&mut self.received));
            bytes.clear();
            let received = linked.pipe.receive(&mut bytes, RECEIVE_BYTES);
            linked.may_read = *received.as_ref().unwrap_or(&false);
            has_more |= linked.may_read;
            if !bytes.is_empty() {
                count(&self.membership.figures.received, bytes.len());
                count(&self.membership.figures.peer(number).received, bytes.len());
                self.receive(link, &bytes);
            }
            bytes.shrink_to(ROOM_MAX);
            self.received = bytes;
            if received.is_err() {
                self.link_down(link);
            }
        }
        has_more
    }

    /// Takes bytes of a link, or after a new view none.
    pub(super) fn receive(&mut self, link: Link, bytes: &[u8]) {
        let node = link.peer.node;
        self.has_news = true;
        let received = self.node.receive(node, bytes, &mut self.machine);
        let early = self.linked.get_mut(&node.0).map(|linked| &mut linked.early);
        match (received, early) {
            (Ok(Received::All), Some(early)) => *early = None,
            (Ok(Received::Early), Some(early)) => drop(early.get_or_insert_with(Instant::now)),
            (Ok(_), None) => {}
            (Err(error), _) => {
                self.complain(link, &error.to_string());
                self.close(link);
            }
        }
    }

    /// Closes links that have waited too long for a view: the other side keeps the bytes that it
    /// has to send.
    pub(super) fn close_early(&mut self) {
        let is_late =
            |linked: &&Linked| linked.early.is_some_and(|since| since.elapsed() >= EARLY_MAX);
        if let Some(link) = self.linked.values().find(is_late).map(|linked| linked.link) {
            self.complain(link, "its view is newer than this member's");
            self.close(link);
        }
    }

    /// Says why a link is closed, unless that was said of the member a moment ago: links come back.
    fn complain(&mut self, link: Link, why: &str) {
        let (number, now) = (link.peer.node.0, Instant::now());
        let last = self.complained.get(&number);
        if last.is_none_or(|last| now.duration_since(*last) >= COMPLAINT_PAUSE) {
            tracing::warn!("cluster: the link to member {number} is closed: {why}");
            self.complained.insert(number, now);
        }
    }

    /// Whether bytes for a member wait for the kernel to take them.
    pub(super) fn is_blocked(&self, number: u16) -> bool {
        self.linked.get(&number).is_some_and(|linked| linked.pipe.is_blocked())
    }

    /// Sends members all pending bytes; returns whether there were any.
    pub(super) fn send(&mut self) -> bool {
        let (mut has_sent, mut lost, now) = (false, Vec::new(), Instant::now());
        let linked = self.linked.len();
        self.node.want_acks(self.machine.jobs.iter().any(|job| job.wants_acks(linked)));
        let mut bytes = std::mem::take(&mut self.sent);
        for (&number, linked) in &mut self.linked {
            let pipe = &mut linked.pipe;
            let flushed = if pipe.is_blocked() { pipe.flush() } else { Ok(()) };
            if flushed.is_err() {
                lost.push(linked.link);
                continue;
            }
            bytes.clear();
            if pipe.is_blocked() {
                continue;
            }
            let acknowledge = match linked.acknowledge_at {
                Some(at) if now >= at => Acknowledge::Now,
                _ => Acknowledge::WithRecords,
            };
            let peer = linked.link.peer.node;
            let SendOutcome { is_any, owes_acks } =
                self.node.send(peer, SEND_BYTES, acknowledge, &mut bytes);
            let since = linked.acknowledge_at.filter(|at| now < *at);
            linked.acknowledge_at = owes_acks.then(|| since.unwrap_or(now + ACKNOWLEDGE_PAUSE));
            if !is_any {
                continue;
            }
            has_sent = true;
            count(&self.membership.figures.sent, bytes.len());
            count(&self.membership.figures.peer(number).sent, bytes.len());
            if pipe.send(&bytes).is_err() {
                lost.push(linked.link);
            }
        }
        bytes.clear();
        bytes.shrink_to(ROOM_MAX);
        self.sent = bytes;
        lost.into_iter().for_each(|link| self.link_down(link));
        has_sent
    }

    /// Time until the agent must acknowledge something.
    pub(super) fn rest_of_acks(&self, rest: Duration) -> Duration {
        let open = self.linked.values().filter(|linked| !linked.pipe.is_blocked());
        let due = open.filter_map(|linked| linked.acknowledge_at).min();
        due.map_or(rest, |due| rest.min(due.saturating_duration_since(Instant::now())))
    }

    /// Waits for something to do, for so long at most: for bytes, for room for more, or for another
    /// thread that wakes this one.
    pub(super) fn wait(&mut self, pause: Duration) {
        let (mut awaited, mut numbers) = (Vec::new(), Vec::new());
        let is_read = !self.membership.is_renewing();
        let read = self.linked.iter().filter(|(_, linked)| is_read && !linked.is_early());
        for (&number, linked) in read {
            let Some(socket) = linked.pipe.socket() else { continue };
            awaited.push(Awaited { socket, to_write: linked.pipe.is_blocked() });
            numbers.push(number);
        }
        if let Err(error) = self.poll.wait(&awaited, pause, &mut self.ready) {
            tracing::error!("cluster: polling the links failed: {error}");
            std::thread::sleep(RETRY_PAUSE);
        }
        for (number, &is_ready) in numbers.iter().zip(&self.ready) {
            if let Some(linked) = self.linked.get_mut(number) {
                linked.may_read |= is_ready;
            }
        }
        // Those without a socket have woken the thread.
        let without = self.linked.values_mut().filter(|linked| linked.pipe.socket().is_none());
        without.for_each(|linked| linked.may_read = true);
    }
}
