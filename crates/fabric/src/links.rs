//! Links of the data plane: whole frames between two members, in order, one link at a time.
//!
//! The member with the lower number connects. Each connection is a link of its own: what was not
//! sent on one is dropped with it, so nothing is ever sent twice or out of order; what has to
//! arrive, the data plane sends again.

use crate::bus::{Bus, ConnectError, Peer, Secure};
use crate::events::{Flow, Level, Link};
use crate::state::MemberInfo;
use crate::wire::{FRAME_MAX, Kind, read_frame, write_frame};
use parking_lot::Mutex;
use petrel_cluster::Identity;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Bytes that wait for one member.
pub const QUEUE_MAX: usize = 8 << 20;

/// Why a frame was not taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SendError {
    /// The link is down.
    Down,
    /// [`QUEUE_MAX`] bytes wait already: the frame is given back. [`crate::Fabric::has_room`] says
    /// when to try again.
    Backlogged(Vec<u8>),
    /// The frame has more than [`FRAME_MAX`] bytes.
    TooLong,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Down => "the link is down",
            SendError::Backlogged(_) => "too much waits for the node already",
            SendError::TooLong => "the frame is too long",
        })
    }
}

impl std::error::Error for SendError {}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

struct Entry {
    link: Link,
    queue: Mutex<Queue>,
    /// Notified when there is something to send.
    filled: Notify,
    is_paused: AtomicBool,
    resumed: Notify,
    /// `link_down` was reported to the host.
    is_down: AtomicBool,
    ended: Notify,
}

/// All links of a node.
pub(crate) struct Links {
    bus: Arc<Bus>,
    up: Mutex<BTreeMap<Identity, Arc<Entry>>>,
    dialers: Mutex<BTreeMap<Identity, AbortHandle>>,
    numbers: Mutex<u64>,
}

impl Links {
    pub fn new(bus: Arc<Bus>) -> Arc<Self> {
        let (up, dialers, numbers) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Links { bus, up, dialers, numbers })
    }

    /// Puts a frame behind those that wait for a member.
    pub fn send(&self, link: Link, frame: Vec<u8>) -> Result<(), SendError> {
        let entry = self.entry(link).ok_or(SendError::Down)?;
        if frame.len() > FRAME_MAX {
            return Err(SendError::TooLong);
        }
        let mut queue = entry.queue.lock();
        if queue.bytes > 0 && queue.bytes + frame.len() > QUEUE_MAX {
            return Err(SendError::Backlogged(frame));
        }
        queue.bytes += frame.len();
        queue.frames.push_back(frame);
        drop(queue);
        entry.filled.notify_one();
        Ok(())
    }

    /// Whether less than half of what may wait does.
    pub fn has_room(&self, link: Link) -> bool {
        self.entry(link).is_some_and(|entry| entry.queue.lock().bytes < QUEUE_MAX / 2)
    }

    /// Reads a link on.
    pub fn resume(&self, link: Link) {
        if let Some(entry) = self.entry(link) {
            entry.is_paused.store(false, Ordering::Release);
            entry.resumed.notify_one();
        }
    }

    /// Ends a link; its connection's task reports so, and the dialer makes another.
    pub fn break_off(&self, link: Link) {
        if let Some(entry) = self.entry(link) {
            entry.ended.notify_one();
        }
    }

    pub fn is_up(&self, member: Identity) -> bool {
        self.up.lock().contains_key(&member)
    }

    /// Bytes that wait for a member.
    pub fn queued(&self, member: Identity) -> usize {
        self.up.lock().get(&member).map_or(0, |entry| entry.queue.lock().bytes)
    }

    fn entry(&self, link: Link) -> Option<Arc<Entry>> {
        self.up.lock().get(&link.peer).filter(|entry| entry.link == link).cloned()
    }

    /// Ends the links to nodes that are members no longer; those that are, are connected to.
    pub fn set_members(self: &Arc<Self>, own: Identity, members: &[MemberInfo]) {
        let is_member = |peer: &Identity| members.iter().any(|member| member.identity() == *peer);
        let lost: Vec<Identity> =
            self.up.lock().keys().filter(|peer| !is_member(peer)).copied().collect();
        lost.into_iter().for_each(|peer| self.close(peer));
        let mut dialers = self.dialers.lock();
        dialers.retain(|peer, dialer| {
            let is_member = is_member(peer);
            if !is_member {
                dialer.abort();
            }
            is_member
        });
        for member in members.iter().filter(|member| member.number > own.node.0) {
            dialers.entry(member.identity()).or_insert_with(|| {
                tokio::spawn(self.clone().keep_connected(member.clone())).abort_handle()
            });
        }
    }

    /// Ends all links.
    pub fn close_all(&self) {
        let dialers = std::mem::take(&mut *self.dialers.lock());
        dialers.into_values().for_each(|dialer| dialer.abort());
        let peers: Vec<Identity> = self.up.lock().keys().copied().collect();
        peers.into_iter().for_each(|peer| self.close(peer));
    }

    async fn keep_connected(self: Arc<Self>, member: MemberInfo) {
        loop {
            match self.bus.dial(Kind::Lanes, &member.bus).await {
                Ok((stream, peer)) if peer.member == Some(member.identity()) => {
                    self.run(stream, peer).await;
                }
                Ok(_) => {}
                // It has not heard of this node yet.
                Err(ConnectError::RefusedBy(crate::wire::Refusal::NotAMember)) => {}
                Err(error) => {
                    let line = format!("cluster: no link to {}: {error}", member.bus);
                    self.bus.log_once(Level::Warning, line);
                }
            }
            tokio::time::sleep(self.bus.timing.redial).await;
        }
    }

    /// A link for as long as the connection lives, in place of any before.
    pub async fn run(&self, stream: Secure, peer: Peer) {
        let Some(member) = peer.member else { return };
        let Some(entry) = self.open(member) else { return };
        let (mut reader, mut writer) = tokio::io::split(stream);
        let read = async {
            while !entry.is_down.load(Ordering::Acquire) {
                while entry.is_paused.load(Ordering::Acquire) {
                    entry.resumed.notified().await;
                }
                let Ok(frame) = read_frame(&mut reader, FRAME_MAX).await else { return };
                if entry.is_down.load(Ordering::Acquire) {
                    return;
                }
                self.bus.count(peer.uuid, 0, frame.len());
                // Set before the call, so that the host may resume at once.
                entry.is_paused.store(true, Ordering::Release);
                if self.bus.events.lock().frame(entry.link, frame) == Flow::More {
                    entry.is_paused.store(false, Ordering::Release);
                }
            }
        };
        let write = async {
            loop {
                let next = entry.queue.lock().frames.pop_front();
                let Some(frame) = next else {
                    if writer.flush().await.is_err() {
                        return;
                    }
                    if entry.queue.lock().frames.is_empty() {
                        entry.filled.notified().await;
                    }
                    continue;
                };
                if write_frame(&mut writer, &frame).await.is_err() {
                    return;
                }
                entry.queue.lock().bytes -= frame.len();
                self.bus.count(peer.uuid, frame.len(), 0);
            }
        };
        tokio::select! {
            () = read => {}
            () = write => {}
            () = entry.ended.notified() => {}
        }
        self.end(&entry);
    }

    /// A new link to a member of the last view.
    fn open(&self, member: Identity) -> Option<Arc<Entry>> {
        self.bus.told_member(member)?;
        self.close(member);
        let number = {
            let mut numbers = self.numbers.lock();
            *numbers += 1;
            *numbers
        };
        let entry = Arc::new(Entry {
            link: Link { peer: member, number },
            queue: Mutex::default(),
            filled: Notify::new(),
            is_paused: AtomicBool::new(false),
            resumed: Notify::new(),
            is_down: AtomicBool::new(false),
            ended: Notify::new(),
        });
        self.up.lock().insert(member, entry.clone());
        self.bus.events.lock().link_up(entry.link);
        Some(entry)
    }

    fn close(&self, member: Identity) {
        let entry = self.up.lock().get(&member).cloned();
        if let Some(entry) = entry {
            self.end(&entry);
        }
    }

    fn end(&self, entry: &Entry) {
        if entry.is_down.swap(true, Ordering::AcqRel) {
            return;
        }
        self.up.lock().remove(&entry.link.peer);
        entry.ended.notify_one();
        self.bus.events.lock().link_down(entry.link);
    }
}
