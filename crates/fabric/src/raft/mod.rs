//! Consensus, by openraft, which is named in this folder only.
//!
//! | file | holds |
//! |---|---|
//! | `store` | the log and the votes in `raft.redb` |
//! | `machine` | what is done with what was agreed on, and snapshots of it |
//! | `network` | requests to other nodes, over control links |

mod machine;
mod network;
mod store;

pub(crate) use machine::Agreed;
pub(crate) use network::{Pending, Transport, decode_anything};
pub(crate) use store::{Origin, Store, StoreError};

use crate::settings::Timing;
use crate::state::{Answer, Command, VoterId};
use network::{Network, Rpc, RpcReply};
use openraft::error::{ClientWriteError, RaftError};
use openraft::{BasicNode, ChangeMembers, Raft, ServerState, Snapshot, SnapshotPolicy};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

openraft::declare_raft_types!(
    /// What consensus is about.
    pub(crate) Types:
        D = Command,
        R = Answer,
        NodeId = VoterId,
        Node = BasicNode,
        SnapshotData = Vec<u8>,
);

/// Entries between two snapshots, and entries that are kept behind one.
const SNAPSHOT_EVERY: u64 = 256;

/// Entries that are sent together: each may have all libraries of functions in it.
const SENT_TOGETHER: u64 = 4;

/// A voter is behind by at most so many entries when it is given its vote.
const CATCH_UP: u64 = 16;

/// Why a command was not agreed on.
#[derive(Debug)]
pub(crate) enum ProposeError {
    /// Another node leads, if one is known.
    NotLeader(Option<VoterId>),
    Failed(String),
}

impl From<RaftError<VoterId, ClientWriteError<VoterId, BasicNode>>> for ProposeError {
    fn from(error: RaftError<VoterId, ClientWriteError<VoterId, BasicNode>>) -> Self {
        match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(to)) => {
                ProposeError::NotLeader(to.leader_id)
            }
            error => ProposeError::Failed(error.to_string()),
        }
    }
}

/// A node's part in consensus.
#[derive(Clone)]
pub(crate) struct Consensus {
    raft: Raft<Types>,
    id: VoterId,
}

impl Consensus {
    /// Begins with what the store holds.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn start(
        id: VoterId,
        store: Store,
        agreed: Arc<Agreed>,
        transport: Arc<dyn Transport>,
        timing: &Timing,
    ) -> Result<Self, String> {
        let lease = timing.lease.as_millis() as u64;
        let config = openraft::Config {
            cluster_name: "petrel".into(),
            heartbeat_interval: (lease / 20).max(10),
            election_timeout_min: (lease / 5).max(40),
            election_timeout_max: (lease * 2 / 5).max(80),
            install_snapshot_timeout: 10_000,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_EVERY),
            max_in_snapshot_log_to_keep: SNAPSHOT_EVERY,
            max_payload_entries: SENT_TOGETHER,
            ..openraft::Config::default()
        };
        let config = config.validate().map_err(|error| error.to_string())?;
        let machine = machine::Machine::open(store.clone(), agreed);
        let machine = machine.map_err(|error| error.to_string())?;
        let network = Network(transport);
        let raft = Raft::new(id, Arc::new(config), network, store, machine).await;
        Ok(Consensus { raft: raft.map_err(|error| error.to_string())?, id })
    }

    /// Begins a cluster in which this node alone votes. One that has begun already goes on.
    pub async fn found(&self, address: &str) -> Result<(), String> {
        if self.raft.is_initialized().await.map_err(|error| error.to_string())? {
            return Ok(());
        }
        let members = BTreeMap::from([(self.id, BasicNode::new(address))]);
        self.raft.initialize(members).await.map_err(|error| error.to_string())
    }

    /// Has a command agreed on, and applied here.
    pub async fn propose(&self, command: Command) -> Result<Answer, ProposeError> {
        Ok(self.raft.client_write(command).await?.data)
    }

    /// The node that leads, as far as this one knows.
    pub fn leader(&self) -> Option<VoterId> {
        self.raft.metrics().borrow().current_leader
    }

    /// Whether this node leads, as far as it knows.
    pub fn is_leader(&self) -> bool {
        self.raft.metrics().borrow().state == ServerState::Leader
    }

    /// Whether this node leads, as a quorum has just said.
    pub async fn is_confirmed_leader(&self) -> bool {
        self.raft.ensure_linearizable().await.is_ok()
    }

    /// What has ended this node's part, if anything has: its disk, as a rule.
    pub fn failure(&self) -> Option<String> {
        self.raft.metrics().borrow().running_state.as_ref().err().map(ToString::to_string)
    }

    /// Who votes.
    pub fn voters(&self) -> BTreeSet<VoterId> {
        self.raft.metrics().borrow().membership_config.voter_ids().collect()
    }

    /// Who takes part, with the address at which it is known.
    pub fn participants(&self) -> BTreeMap<VoterId, String> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let nodes = metrics.membership_config.nodes();
        nodes.map(|(id, node)| (*id, node.addr.clone())).collect()
    }

    /// Whether a participant has, as the leader knows, nearly everything.
    pub fn has_caught_up(&self, id: VoterId) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let last = metrics.last_log_index.unwrap_or(0);
        let matched = metrics.replication.as_ref().and_then(|matched| *matched.get(&id)?);
        id == self.id || matched.is_some_and(|log_id| log_id.index + CATCH_UP >= last)
    }

    /// Lets a node take part without a vote.
    pub async fn add(&self, id: VoterId, address: &str) -> Result<(), String> {
        let node = BTreeMap::from([(id, BasicNode::new(address))]);
        self.change(ChangeMembers::AddNodes(node)).await
    }

    /// Lets a node without a vote take part no longer.
    pub async fn remove(&self, ids: BTreeSet<VoterId>) -> Result<(), String> {
        self.change(ChangeMembers::RemoveNodes(ids)).await
    }

    /// Gives these participants, and no others, a vote.
    pub async fn set_voters(&self, ids: BTreeSet<VoterId>) -> Result<(), String> {
        self.change(ChangeMembers::ReplaceAllVoters(ids)).await
    }

    async fn change(&self, change: ChangeMembers<VoterId, BasicNode>) -> Result<(), String> {
        let changed = self.raft.change_membership(change, true).await;
        changed.map(drop).map_err(|error| error.to_string())
    }

    /// Answers what another node's consensus has sent.
    pub async fn serve(&self, request: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let rpc = crate::wire::decode(request).map_err(|error| failed(&error))?;
        let reply = match rpc {
            Rpc::Append(rpc) => {
                let reply = self.raft.append_entries(rpc).await;
                RpcReply::Append(reply.map_err(|error| failed(&error))?)
            }
            Rpc::Vote(rpc) => {
                let reply = self.raft.vote(rpc).await;
                RpcReply::Vote(reply.map_err(|error| failed(&error))?)
            }
            Rpc::Snapshot(vote, meta, data) => {
                let snapshot = Snapshot { meta, snapshot: Box::new(data) };
                let reply = self.raft.install_full_snapshot(vote, snapshot).await;
                RpcReply::Snapshot(reply.map_err(|error| failed(&error))?.vote)
            }
        };
        crate::wire::encode(&reply).map_err(|error| failed(&error))
    }

    /// Ends this node's part, until it begins again.
    pub async fn stop(&self) {
        drop(self.raft.shutdown().await);
    }
}
