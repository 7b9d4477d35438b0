//! [`ClusterNearCache`]: a near cache of a cluster, with a connection for invalidations to each
//! primary.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use petrel_resp::Value;

use super::Source;
use super::clock;
use super::fill::Filling;
use super::shared::{NearCacheOptions, SOLE_OWNER, Shared};
use super::store::NO_OWNER;
use super::tracking::Tracking;
use crate::cluster::{Cluster, MAP_AGE_MAX, Place, Redirection, may_try_again, slot_of};
use crate::dedicated::OwnedLane;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::{Exchange, Outcome};
use crate::request::Command;

/// Reads from a cluster through a cache in the process. Cheap to clone; clones share everything.
/// Made by [`Cluster::near_cache`].
///
/// Like a [`NearCache`](super::NearCache), but each primary invalidates the keys that it serves. A
/// lost connection to a node empties the entries from that node; a moved slot, the entries of its
/// keys.
#[derive(Clone)]
pub struct ClusterNearCache {
    inner: Arc<Inner>,
}

struct Inner {
    cluster: Cluster,
    shared: Arc<Shared>,
    nodes: Mutex<HashMap<Place, Arc<Tracked>>>,
    /// Each connection is another owner of replies.
    next_owner: AtomicU64,
}

/// A primary, and the connection to it for fills and invalidations, while there is one.
#[derive(Default)]
struct Tracked {
    connection: Mutex<Option<Arc<Connection>>>,
    /// Held while the connection is made.
    connecting: tokio::sync::Mutex<()>,
}

struct Connection {
    owner: u64,
    lane: OwnedLane,
}

near_handle!(ClusterNearCache);

impl Cluster {
    /// A cache in the process, over a connection of its own to each primary. The nodes must speak
    /// RESP3.
    pub async fn near_cache(&self, options: NearCacheOptions) -> Result<ClusterNearCache> {
        let inner = Arc::new(Inner {
            cluster: self.clone(),
            shared: Shared::new(options),
            nodes: Mutex::default(),
            next_owner: AtomicU64::new(SOLE_OWNER),
        });
        // A node that refuses, or does not speak RESP3, should be known now.
        for shard in &self.map().shards {
            inner.connection(&shard.primary).await?;
        }
        inner.shared.observed_by(self.telemetry());
        tokio::spawn(follow(Arc::downgrade(&inner), self.map_changes()));
        Ok(ClusterNearCache { inner })
    }
}

impl ClusterNearCache {
    #[inline]
    fn source(&self) -> Source<'_> {
        Source::Cluster(self)
    }

    /// The cluster that it caches.
    pub fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    #[inline]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Has a node asked by a task of its own: whatever becomes of the readers, the fill ends.
    pub(super) fn start_fill(&self, command: Command, filling: Filling) {
        let inner = self.inner.clone();
        tokio::spawn(async move { inner.fill(command, filling).await });
    }
}

/// Removes cached keys of moved slots, as long as the cache exists.
async fn follow(cache: Weak<Inner>, mut map_changes: tokio::sync::watch::Receiver<()>) {
    loop {
        let changed = tokio::time::timeout(MAP_AGE_MAX, map_changes.changed()).await;
        let Some(inner) = cache.upgrade() else { return };
        match changed {
            Ok(Ok(())) => inner.forget_moved(),
            // Hits do not notice that a slot has moved.
            _ => inner.cluster.renew_map(),
        }
    }
}

impl Inner {
    /// Keeps what came from the node that serves the key's slot now.
    fn forget_moved(&self) {
        let map = self.cluster.map();
        let mut nodes = self.nodes.lock();
        nodes.retain(|place, _| map.shards.iter().any(|shard| shard.primary == *place));
        let owner_of = |node: &Arc<Tracked>| node.connection.lock().as_ref().map(|one| one.owner);
        let owners: HashMap<Place, u64> = nodes
            .iter()
            .filter_map(|(place, node)| Some((place.clone(), owner_of(node)?)))
            .collect();
        drop(nodes);
        self.shared.store.retain(|key, owner| {
            let shard = map.shard(slot_of(key));
            let serving = shard.and_then(|shard| owners.get(&shard.primary));
            owner == NO_OWNER || serving == Some(&owner)
        });
    }

    async fn fill(&self, command: Command, filling: Filling) {
        let began = clock::now();
        match self.ask(&command, &filling).await {
            Ok(Some(outcome)) => filling.answered(Ok(outcome), began),
            Err(error) => filling.finish(Err(error), None),
            // The slot has moved, or the node is gone: the cluster client finds its node. The reply
            // is not cached, since no invalidation would arrive for it.
            Ok(None) => {
                let reply = self.cluster.reply(command).await;
                filling.finish(reply, None);
            }
        }
    }

    /// Asks the primary of the key; `None` if another node is to be asked.
    async fn ask(&self, command: &Command, filling: &Filling) -> Result<Option<Outcome>> {
        let map = self.cluster.map();
        let Some(shard) = map.shard(slot_of(filling.key())) else { return Ok(None) };
        let place = &shard.primary;
        let Ok(connection) = self.connection(place).await else { return Ok(None) };
        filling.adopt(connection.owner);
        let lane = &connection.lane.0;
        let limit = command.timeout.or(lane.timeout());
        let buffers = filling.buffers(command.buffer.clone());
        match Exchange::new(lane, buffers, limit, 0).await {
            Ok(Outcome::Many(replies)) => {
                let is_elsewhere = replies.iter().any(|reply| match reply {
                    Value::Error(text) => Redirection::parse(text, place).is_some(),
                    _ => false,
                });
                Ok((!is_elsewhere).then_some(Outcome::Many(replies)))
            }
            Ok(_) => Err(Error::new(ErrorKind::Closed)),
            Err(error) => {
                let is_closed = matches!(error.kind(), ErrorKind::Closed);
                if error.is_disconnected() || is_closed {
                    self.drop_connection(place, connection.owner);
                }
                if is_closed || may_try_again(&error, true) { Ok(None) } else { Err(error) }
            }
        }
    }

    /// The connection to a node; connects if there is none. It is not replaced when it is lost:
    /// another node may then serve the slots.
    async fn connection(&self, place: &Place) -> Result<Arc<Connection>> {
        let node = self.nodes.lock().entry(place.clone()).or_default().clone();
        if let Some(connection) = &*node.connection.lock() {
            return Ok(connection.clone());
        }
        let _connecting = node.connecting.lock().await;
        if let Some(connection) = &*node.connection.lock() {
            return Ok(connection.clone());
        }
        let owner = self.next_owner.fetch_add(1, Relaxed);
        let tracking = Arc::new(Tracking { shared: self.shared.clone(), owner });
        let lane = self.cluster.open_lane(place, tracking).await?;
        let connection = Arc::new(Connection { owner, lane });
        *node.connection.lock() = Some(connection.clone());
        Ok(connection)
    }

    fn drop_connection(&self, place: &Place, owner: u64) {
        let node = self.nodes.lock().get(place).cloned();
        if let Some(node) = node {
            node.connection.lock().take_if(|connection| connection.owner == owner);
        }
    }
}
