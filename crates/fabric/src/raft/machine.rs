//! Raft state machine: applies committed entries.
//!
//! The state is in memory; the store has its last snapshot, and the log after it.

use super::Types;
use super::store::{Store, StoreError, malformed, read_failed, write_failed};
use crate::state::{Answer, State, VoterId};
use openraft::storage::RaftStateMachine;
use openraft::{
    BasicNode, Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, Snapshot,
    SnapshotMeta, StorageError, StoredMembership,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::Notify;

/// The last applied state.
#[derive(Default)]
pub(crate) struct AppliedState {
    pub state: Mutex<State>,
    /// Notified when the state has changed.
    pub changed: Notify,
}

/// Contents of a snapshot in the store.
#[derive(Deserialize, Serialize)]
struct StoredSnapshot {
    meta: SnapshotMeta<VoterId, BasicNode>,
    state: Vec<u8>,
}

#[derive(Clone, Default)]
struct Applied {
    last: Option<LogId<VoterId>>,
    membership: StoredMembership<VoterId, BasicNode>,
}

#[derive(Clone)]
pub(super) struct Machine {
    store: Store,
    agreed: Arc<AppliedState>,
    applied: Arc<Mutex<Applied>>,
}

impl Machine {
    /// Starts from the store's last snapshot, if there is one.
    pub fn open(store: Store, agreed: Arc<AppliedState>) -> Result<Self, StoreError> {
        let kept: Option<StoredSnapshot> = store.snapshot()?;
        let machine = Machine { store, agreed, applied: Arc::default() };
        match kept {
            Some(kept) => machine.restore(&kept.meta, &kept.state)?,
            None => *machine.agreed.state.lock() = State::default(),
        }
        Ok(machine)
    }

    fn restore(
        &self,
        meta: &SnapshotMeta<VoterId, BasicNode>,
        state: &[u8],
    ) -> Result<(), StoreError> {
        *self.agreed.state.lock() = State::from_bytes(state).map_err(malformed)?;
        let (last, membership) = (meta.last_log_id, meta.last_membership.clone());
        *self.applied.lock() = Applied { last, membership };
        self.agreed.changed.notify_one();
        Ok(())
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError<VoterId>> {
        let Applied { last, membership } = self.applied.lock().clone();
        let state = self.agreed.state.lock().to_bytes();
        let state = state.map_err(|error| write_failed(malformed(error)))?;
        let snapshot_id = last.map_or_else(String::new, |last| last.to_string());
        let meta = SnapshotMeta { last_log_id: last, last_membership: membership, snapshot_id };
        let kept = StoredSnapshot { meta: meta.clone(), state };
        self.store.set_snapshot(&kept).map_err(write_failed)?;
        Ok(Snapshot { meta, snapshot: Box::new(kept.state) })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<VoterId>>, StoredMembership<VoterId, BasicNode>), StorageError<VoterId>>
    {
        let Applied { last, membership } = self.applied.lock().clone();
        Ok((last, membership))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Answer>, StorageError<VoterId>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        let mut state = self.agreed.state.lock();
        let mut applied = self.applied.lock();
        for entry in entries {
            applied.last = Some(entry.log_id);
            answers.push(match entry.payload {
                EntryPayload::Blank => Answer::Done,
                EntryPayload::Normal(command) => state.apply(command),
                EntryPayload::Membership(membership) => {
                    applied.membership = StoredMembership::new(Some(entry.log_id), membership);
                    Answer::Done
                }
            });
        }
        self.agreed.changed.notify_one();
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Vec<u8>>, StorageError<VoterId>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<VoterId, BasicNode>,
        snapshot: Box<Vec<u8>>,
    ) -> Result<(), StorageError<VoterId>> {
        State::from_bytes(&snapshot).map_err(|error| read_failed(malformed(error)))?;
        let kept = StoredSnapshot { meta: meta.clone(), state: *snapshot };
        self.store.set_snapshot(&kept).map_err(write_failed)?;
        self.restore(meta, &kept.state).map_err(read_failed)
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<Types>>, StorageError<VoterId>> {
        let kept: Option<StoredSnapshot> = self.store.snapshot().map_err(read_failed)?;
        Ok(kept.map(|kept| Snapshot { meta: kept.meta, snapshot: Box::new(kept.state) }))
    }
}
