//! [`ClusterSubscriber`]: messages of a cluster. Channels of shards follow their slots.
//!
//! ```text
//! subscribe ─▶ wanted ─▶ keeper ─ each channel at the node of its slot ─▶ node: confirmed
//!                          ▲
//!                          └─ a node said `sunsubscribe` or MOVED, was lost, or slots have moved:
//!                             the map is read again, and misplaced channels are moved
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use petrel_resp::Value;
use tokio::sync::Notify;

use super::inbox::{Change, Channel, Channels, Inbox};
use super::message::{ChannelKind, Message};
use crate::argument::{ArgWriter, ToArg};
use crate::cluster::{Cluster, MAP_AGE_MAX, Place, Redirection, boxed, join_all, slot_of};
use crate::dedicated::OwnedLane;
use crate::error::{Error, Result};
use crate::lane::PushSink;
use crate::request::Command;

/// After so long without a change the next one is handled at once again.
const CALM: Duration = Duration::from_secs(1);

/// Subscriptions in a cluster, and the messages they bring. Made by [`Cluster::subscriber`].
///
/// Channels of shards are subscribed to at the primary of their slot, over a connection to each
/// that is needed. When a slot moves, or a node is gone, they are subscribed to where the slot is
/// served then; messages published in between are lost, which
/// [`ClusterSubscriber::interruptions`] tells. Other channels and patterns are the same at every
/// node, and subscribed to at one.
#[derive(Debug)]
pub struct ClusterSubscriber {
    keeper: Arc<Keeper>,
}

impl Drop for ClusterSubscriber {
    fn drop(&mut self) {
        self.keeper.inbox.end();
        self.keeper.wake.notify_one();
    }
}

impl Cluster {
    /// Connections that subscribe to channels; made when they are needed.
    pub fn subscriber(&self) -> ClusterSubscriber {
        let keeper = Arc::new(Keeper {
            cluster: self.clone(),
            inbox: Arc::default(),
            nodes: Mutex::default(),
            home: Mutex::new(None),
            wake: Arc::default(),
            has_moved: Arc::default(),
            interruptions: Arc::default(),
        });
        tokio::spawn(Keep(keeper.clone()).run());
        ClusterSubscriber { keeper }
    }
}

impl ClusterSubscriber {
    /// Number of lost connections, and of channels that a node gave up because their slot moved.
    /// Messages published until the channel was subscribed to again are lost.
    pub fn interruptions(&self) -> u64 {
        self.keeper.interruptions.load(SeqCst)
    }

    pub(super) async fn change(&mut self, change: Change) -> Result<()> {
        if change.channels.is_empty() {
            return Ok(());
        }
        let keeper = &*self.keeper;
        keeper.inbox.begin(&change);
        keeper.wake.notify_one();
        let limit = keeper.cluster.node_options().timeout;
        keeper.inbox.finish(change, limit, |channel| keeper.is_confirmed(channel)).await
    }

    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.keeper.inbox.poll_message(cx, || {
            self.keeper.nodes.lock().values().for_each(|node| node.lane.0.wake_driver());
        })
    }
}

/// Keeps each channel subscribed to at the node where it belongs.
#[derive(Debug)]
struct Keeper {
    cluster: Cluster,
    inbox: Arc<Inbox>,
    nodes: Mutex<HashMap<Place, Node>>,
    /// The node for channels that do not belong to a shard.
    home: Mutex<Option<Place>>,
    wake: Arc<Notify>,
    /// Whether the map of slots seems to be wrong.
    has_moved: Arc<AtomicBool>,
    interruptions: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Node {
    lane: OwnedLane,
    sink: Arc<NodeSink>,
}

/// Sink of the connection to a node.
#[derive(Debug)]
struct NodeSink {
    inbox: Arc<Inbox>,
    state: Mutex<NodeState>,
    wake: Arc<Notify>,
    has_moved: Arc<AtomicBool>,
    interruptions: Arc<AtomicU64>,
    place: Place,
}

#[derive(Debug, Default)]
struct NodeState {
    /// Channels assigned to this node.
    assigned: Channels,
    /// Channels that the node has confirmed.
    confirmed: Channels,
    /// Unanswered commands, each for one channel, so that an error can be attributed.
    pending: VecDeque<(bool, Channel)>,
    is_gone: bool,
}

/// The keeper's task. When it ends, be it with the runtime, so do the messages.
struct Keep(Arc<Keeper>);

impl Drop for Keep {
    fn drop(&mut self) {
        self.0.inbox.end();
        self.0.nodes.lock().clear();
    }
}

impl Keep {
    async fn run(self) {
        let keeper = &*self.0;
        let mut map_changes = keeper.cluster.map_changes();
        let mut failures = 0u32;
        loop {
            if keeper.inbox.state.lock().is_over {
                return;
            }
            if keeper.has_moved.swap(false, SeqCst) {
                if failures > 0 {
                    let delay = keeper.cluster.node_options().backoff.delay(failures);
                    tokio::time::sleep(delay).await;
                }
                failures = failures.saturating_add(1);
                // If no node answers, the next attempt finds that out, too.
                let _ = keeper.cluster.read_map().await;
            }
            if !keeper.assign().await {
                keeper.has_moved.store(true, SeqCst);
                continue;
            }
            let quiet = if failures > 0 { CALM } else { MAP_AGE_MAX };
            tokio::select! {
                () = keeper.wake.notified() => {}
                changed = map_changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(quiet) => {
                    failures = 0;
                    keeper.cluster.renew_map();
                }
            }
        }
    }
}

impl Keeper {
    fn is_confirmed(&self, channel: &Channel) -> bool {
        let nodes = self.nodes.lock();
        nodes.values().any(|node| node.sink.state.lock().confirmed.contains(channel))
    }

    /// Channels by node, and whether each channel has a node.
    fn places(&self) -> (BTreeMap<Place, Channels>, bool) {
        let map = self.cluster.map();
        let mut home = self.home.lock();
        home.take_if(|home| !map.shards.iter().any(|shard| shard.primary == *home));
        let mut places: BTreeMap<Place, Channels> = BTreeMap::new();
        let mut is_complete = true;
        for (kind, name) in self.inbox.state.lock().wanted.iter() {
            let place = match kind {
                ChannelKind::Shard => map.shard(slot_of(name)).map(|shard| shard.primary.clone()),
                _ => {
                    if home.is_none() && !map.shards.is_empty() {
                        let any = fastrand::usize(..map.shards.len());
                        *home = Some(map.shards[any].primary.clone());
                    }
                    home.clone()
                }
            };
            match place {
                Some(place) => {
                    places.entry(place).or_default().insert((*kind, name.clone()));
                }
                None => is_complete = false,
            }
        }
        (places, is_complete)
    }

    /// Subscribes at each node to what belongs there, and to nothing else; false if that was not
    /// possible everywhere.
    async fn assign(&self) -> bool {
        let (places, mut is_complete) = self.places();
        let missing: Vec<Place> = {
            let mut nodes = self.nodes.lock();
            nodes.retain(|place, node| {
                places.contains_key(place) && !node.sink.state.lock().is_gone
            });
            places.keys().filter(|place| !nodes.contains_key(place)).cloned().collect()
        };
        let opening = missing.into_iter().map(|place| {
            let (cluster, sink) = (self.cluster.clone(), self.sink(place));
            boxed(async move {
                let lane = cluster.open_lane(&sink.place, sink.clone()).await.ok()?;
                Some(Node { lane, sink })
            })
        });
        let opened = join_all(opening.collect()).await;
        let mut nodes = self.nodes.lock();
        for node in opened {
            match node {
                Some(node) => drop(nodes.insert(node.sink.place.clone(), node)),
                None => {
                    is_complete = false;
                    // Any other node will do for what belongs to no shard.
                    *self.home.lock() = None;
                }
            }
        }
        for (place, channels) in &places {
            if let Some(node) = nodes.get(place) {
                is_complete &= node.assign(channels).is_ok();
            }
        }
        is_complete
    }

    fn sink(&self, place: Place) -> Arc<NodeSink> {
        Arc::new(NodeSink {
            inbox: self.inbox.clone(),
            state: Mutex::default(),
            wake: self.wake.clone(),
            has_moved: self.has_moved.clone(),
            interruptions: self.interruptions.clone(),
            place,
        })
    }
}

impl Node {
    /// Subscribes and unsubscribes until exactly these channels are subscribed to.
    fn assign(&self, channels: &Channels) -> Result<()> {
        let mut state = self.sink.state.lock();
        let surplus = state.assigned.difference(channels).map(|one| (false, one.clone()));
        let lacking = channels.difference(&state.assigned).map(|one| (true, one.clone()));
        let changes: Vec<(bool, Channel)> = surplus.chain(lacking).collect();
        for (is_wanted, channel) in changes {
            let (kind, name) = &channel;
            let word = if is_wanted { kind.subscribe() } else { kind.unsubscribe() };
            let mut command = Command::raw(word);
            name.write_arg(&mut ArgWriter(&mut command.buffer));
            self.lane.0.send(&command)?;
            match is_wanted {
                true => drop(state.assigned.insert(channel.clone())),
                false => drop(state.assigned.remove(&channel)),
            }
            state.pending.push_back((is_wanted, channel));
        }
        Ok(())
    }
}

impl NodeSink {
    /// Something here is not as the keeper left it.
    fn note_move(&self) {
        self.interruptions.fetch_add(1, SeqCst);
        self.has_moved.store(true, SeqCst);
        self.wake.notify_one();
    }

    /// A command about one channel was refused.
    fn note_refusal(&self, text: &[u8]) {
        let mut state = self.state.lock();
        let Some((is_wanted, channel)) = state.pending.pop_front() else { return };
        if !is_wanted {
            return;
        }
        state.assigned.remove(&channel);
        drop(state);
        if Redirection::parse(text, &self.place).is_some() {
            self.has_moved.store(true, SeqCst);
            self.wake.notify_one();
            return;
        }
        self.inbox.state.lock().wanted.remove(&channel);
        self.inbox.refuse(Error::from_reply(text));
    }
}

impl PushSink for NodeSink {
    fn push(&self, items: Vec<Value>) {
        let Some(change) = self.inbox.take(items) else { return };
        let mut state = self.state.lock();
        // Only the end of a subscription comes unasked. Answers keep the order of commands, so that
        // what precedes an answered one is answered, too.
        let is_there = change.0;
        let answered = match state.pending.iter().position(|pending| *pending == change) {
            Some(at) if is_there || at == 0 => Some(at),
            _ => None,
        };
        if let Some(at) = answered {
            state.pending.drain(..=at);
        }
        let channel = change.1;
        let was_lost = match is_there {
            true => {
                state.confirmed.insert(channel);
                false
            }
            false => {
                state.confirmed.remove(&channel);
                // Unasked: the slot has moved.
                answered.is_none() && state.assigned.remove(&channel)
            }
        };
        drop(state);
        if was_lost {
            self.note_move();
        }
        self.inbox.changed.notify_waiters();
    }

    fn reply(&self, reply: Value) {
        match reply {
            Value::Array(items) => self.push(items),
            Value::Error(text) => self.note_refusal(&text),
            _ => {}
        }
    }

    fn takes_replies(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.inbox.is_full()
    }

    fn closed(&self) {
        let mut state = self.state.lock();
        state.is_gone = true;
        state.confirmed.clear();
        let had_any = !std::mem::take(&mut state.assigned).is_empty();
        drop(state);
        if had_any {
            self.note_move();
        }
    }
}
