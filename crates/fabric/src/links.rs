//! Data-plane links: ordered bytes between two members, one link at a time.
//!
//! The member with the lower number connects, through a third one if need be. After the handshake
//! the connection belongs to the host. Each connection is a new link: unsent bytes are dropped with
//! it, so no byte is sent twice or out of order. The data plane itself repeats what must arrive.

use crate::bus::{Bus, ConnectError, Peer, Secure};
use crate::connection::{Connection, Entry, Link};
use crate::events::Level;
use crate::relay;
use crate::state::MemberInfo;
use crate::wire::Kind;
use parking_lot::Mutex;
use petrel_cluster::Identity;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

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

    pub fn is_up(&self, member: Identity) -> bool {
        self.up.lock().contains_key(&member)
    }

    /// Bytes for a member that the kernel has not accepted yet.
    pub fn queued(&self, member: Identity) -> usize {
        self.up.lock().get(&member).map_or(0, |entry| entry.queued.load(Ordering::Relaxed))
    }

    /// Closes links to nodes that are not members any more, and connects to members.
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
        let mut is_relayed = false;
        loop {
            match relay::dial(&self.bus, Kind::Lanes, &member, &member.bus).await {
                Ok(dialed) if dialed.peer.member == Some(member.identity()) => match dialed.via {
                    Some(via) => {
                        let relayed = (dialed.stream, dialed.peer, via);
                        is_relayed = self.run_relayed(relayed, &member).await;
                    }
                    None => {
                        if std::mem::take(&mut is_relayed) {
                            self.log_direct(&member);
                        }
                        self.run(dialed.stream, dialed.peer).await;
                    }
                },
                Ok(_) => {}
                // The member has not adopted the view with this node yet.
                Err(ConnectError::RefusedBy(crate::wire::Refusal::NotAMember)) => {}
                Err(error) => {
                    let line = format!("cluster: no link to {}: {error}", member.bus);
                    self.bus.log_once(Level::Warning, line);
                }
            }
            tokio::time::sleep(self.bus.timing.redial).await;
        }
    }

    fn log_direct(&self, member: &MemberInfo) {
        let line = format!("cluster: the link to member {} is direct again", member.number);
        self.bus.log_once(Level::Notice, line);
    }

    /// Keeps a link through another member until that ends, or a direct one has replaced it and
    /// ends. Returns whether it was not replaced.
    async fn run_relayed(
        &self,
        (stream, peer, via): (Secure, Peer, u16),
        member: &MemberInfo,
    ) -> bool {
        let number = member.number;
        let line = format!("cluster: the link to member {number} goes through member {via}");
        self.bus.log_once(Level::Notice, line);
        let direct = async {
            loop {
                tokio::time::sleep(self.bus.timing.search).await;
                match self.bus.dial(Kind::Lanes, &member.bus).await {
                    Ok((stream, peer)) if peer.member == Some(member.identity()) => {
                        break (stream, peer);
                    }
                    _ => {}
                }
            }
        };
        tokio::select! {
            // The other side closes the relayed link once it has accepted the direct one.
            biased;
            (stream, peer) = direct => {
                self.log_direct(member);
                self.run(stream, peer).await;
                false
            }
            () = self.run(stream, peer) => true,
        }
    }

    /// Keeps a link until its connection ends; replaces an earlier link.
    pub async fn run(&self, stream: Secure, peer: Peer) {
        let Some(member) = peer.member else { return };
        let Some(entry) = self.open(member, peer.uuid, stream) else { return };
        entry.ended.notified().await;
        self.end(&entry);
    }

    /// Opens a link to a member of the last view.
    fn open(&self, member: Identity, uuid: u128, stream: Secure) -> Option<Arc<Entry>> {
        self.bus.reported_member(member)?;
        self.close(member);
        let number = {
            let mut numbers = self.numbers.lock();
            *numbers += 1;
            *numbers
        };
        let entry = Arc::new(Entry {
            link: Link { peer: member, number },
            queued: AtomicUsize::new(0),
            ended: Notify::new(),
            is_down: AtomicBool::new(false),
        });
        let bus = self.bus.clone();
        let count = Box::new(move |sent, received| bus.count(uuid, sent, received));
        let connection = Connection::new(stream, entry.clone(), count).ok()?;
        self.up.lock().insert(member, entry.clone());
        self.bus.events.lock().link_up(connection);
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
