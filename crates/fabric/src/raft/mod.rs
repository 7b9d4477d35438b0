//! Consensus: Raft by openraft, which only this folder uses.
//!
//! | file | holds |
//! |---|---|
//! | `store` | log and votes in `raft.redb` |
//! | `machine` | the state machine and its snapshots |
//! | `network` | requests to other nodes, over control connections |

mod machine;
mod network;
mod store;

pub(crate) use machine::AppliedState;
pub(crate) use network::{Pending, Transport, decode_anything};
pub(crate) use store::{Origin, Store, StoreError};

use crate::settings::Timing;
use crate::state::{Answer, Command, VoterId};
use network::{Network, Rpc, RpcReply};
use openraft::error::{ClientWriteError, RaftError};
use openraft::{
    BasicNode, ChangeMembers, Raft, RaftMetrics, ServerState, Snapshot, SnapshotPolicy,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;

openraft::declare_raft_types!(
    /// Types of the Raft instance.
    pub(crate) Types:
        D = Command,
        R = Answer,
        NodeId = VoterId,
        Node = BasicNode,
        SnapshotData = Vec<u8>,
);

/// Log entries between two snapshots, and entries kept before one.
const SNAPSHOT_EVERY: u64 = 256;

/// Maximum number of entries in one message: each may contain all function libraries.
const SENT_TOGETHER: u64 = 4;

/// Maximum lag of a node, in entries, to become a voter.
const CATCH_UP: u64 = 16;

/// Reason that a proposal failed.
#[derive(Debug)]
pub(crate) enum ProposeError {
    /// Another node leads, perhaps this one.
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

/// Notifications of changes in a Raft instance: of leader, voters, log and replication.
pub(crate) struct Changes(watch::Receiver<RaftMetrics<VoterId, BasicNode>>);

impl Changes {
    /// Waits for the next change; for ever once the instance has ended.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A node's Raft instance.
#[derive(Clone)]
pub(crate) struct Consensus {
    raft: Raft<Types>,
    id: VoterId,
}

impl Consensus {
    /// Starts Raft from the contents of the store.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn start(
        id: VoterId,
        store: Store,
        agreed: Arc<AppliedState>,
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

    /// Initialises a cluster with this node as the only voter, unless that was done before.
    pub async fn found(&self, address: &str) -> Result<(), String> {
        if self.raft.is_initialized().await.map_err(|error| error.to_string())? {
            return Ok(());
        }
        let members = BTreeMap::from([(self.id, BasicNode::new(address))]);
        self.raft.initialize(members).await.map_err(|error| error.to_string())
    }

    /// Proposes a command, and waits until it is committed and applied here.
    pub async fn propose(&self, command: Command) -> Result<Answer, ProposeError> {
        Ok(self.raft.client_write(command).await?.data)
    }

    /// Notifications of changes from now on.
    pub fn changes(&self) -> Changes {
        Changes(self.raft.metrics())
    }

    /// The leader, as far as this node knows.
    pub fn leader(&self) -> Option<VoterId> {
        self.raft.metrics().borrow().current_leader
    }

    /// Whether this node leads, as far as it knows.
    pub fn is_leader(&self) -> bool {
        self.raft.metrics().borrow().state == ServerState::Leader
    }

    /// Whether a quorum has just confirmed that this node leads.
    pub async fn is_confirmed_leader(&self) -> bool {
        self.raft.ensure_linearizable().await.is_ok()
    }

    /// Error that stopped Raft, if any: usually of the disk.
    pub fn failure(&self) -> Option<String> {
        self.raft.metrics().borrow().running_state.as_ref().err().map(ToString::to_string)
    }

    /// The voters; during a change of voters, the former ones too.
    pub fn voters(&self) -> BTreeSet<VoterId> {
        self.raft.metrics().borrow().membership_config.voter_ids().collect()
    }

    /// Whether the voters are being changed: majorities of the former and of the next ones are
    /// needed. A leader that fails meanwhile leaves that to its successor.
    pub fn is_changing_voters(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        metrics.membership_config.membership().get_joint_config().len() > 1
    }

    /// Number of voters; none while a change of voters is not committed, as far as this node knows.
    pub fn committed_voters(&self) -> Option<usize> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let config = &metrics.membership_config;
        let is_committed = *config.log_id() <= metrics.last_applied;
        let [voters] = config.membership().get_joint_config().as_slice() else { return None };
        is_committed.then_some(voters.len())
    }

    /// Voters and learners, with their addresses in the Raft configuration.
    pub fn participants(&self) -> BTreeMap<VoterId, String> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let nodes = metrics.membership_config.nodes();
        nodes.map(|(id, node)| (*id, node.addr.clone())).collect()
    }

    /// Whether a node has almost the whole log, as known to the leader.
    pub fn has_caught_up(&self, id: VoterId) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let last = metrics.last_log_index.unwrap_or(0);
        let matched = metrics.replication.as_ref().and_then(|matched| *matched.get(&id)?);
        id == self.id || matched.is_some_and(|log_id| log_id.index + CATCH_UP >= last)
    }

    /// Adds a node as a learner.
    pub async fn add(&self, id: VoterId, address: &str) -> Result<(), String> {
        let node = BTreeMap::from([(id, BasicNode::new(address))]);
        self.change(ChangeMembers::AddNodes(node)).await
    }

    /// Removes learners.
    pub async fn remove(&self, ids: BTreeSet<VoterId>) -> Result<(), String> {
        self.change(ChangeMembers::RemoveNodes(ids)).await
    }

    /// Makes exactly these nodes voters.
    pub async fn set_voters(&self, ids: BTreeSet<VoterId>) -> Result<(), String> {
        self.change(ChangeMembers::ReplaceAllVoters(ids)).await
    }

    async fn change(&self, change: ChangeMembers<VoterId, BasicNode>) -> Result<(), String> {
        let changed = self.raft.change_membership(change, true).await;
        changed.map(drop).map_err(|error| error.to_string())
    }

    /// Serves a Raft request of another node.
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

    /// Stops Raft until the next start.
    pub async fn stop(&self) {
        drop(self.raft.shutdown().await);
    }
}
