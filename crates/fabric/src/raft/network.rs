//! Raft requests to other nodes.

use super::Types;
use crate::state::VoterId;
use crate::wire::{decode, encode};
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, OptionalSend, Snapshot, SnapshotMeta, Vote};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Future of a reply.
pub(crate) type Pending = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>> + Send>>;

/// Transport of requests to other nodes.
pub(crate) trait Transport: Send + Sync + 'static {
    /// Sends a request to a node; `address` is from the Raft configuration.
    fn call(&self, to: VoterId, address: String, request: Vec<u8>, timeout: Duration) -> Pending;
}

#[derive(Deserialize, Serialize)]
#[serde(bound = "")]
pub(super) enum Rpc {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<VoterId>),
    Snapshot(Vote<VoterId>, SnapshotMeta<VoterId, BasicNode>, Vec<u8>),
}

#[derive(Deserialize, Serialize)]
#[serde(bound = "")]
pub(super) enum RpcReply {
    Append(AppendEntriesResponse<VoterId>),
    Vote(VoteResponse<VoterId>),
    Snapshot(Vote<VoterId>),
}

/// Entry point for fuzzing.
pub(crate) fn decode_anything(bytes: &[u8]) {
    drop(decode::<Rpc>(bytes));
    drop(decode::<RpcReply>(bytes));
}

pub(super) struct Network(pub Arc<dyn Transport>);

pub(super) struct Client {
    transport: Arc<dyn Transport>,
    id: VoterId,
    address: String,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Client;

    async fn new_client(&mut self, id: VoterId, node: &BasicNode) -> Client {
        Client { transport: self.0.clone(), id, address: node.addr.clone() }
    }
}

impl Client {
    async fn call(&self, rpc: &Rpc, timeout: Duration) -> io::Result<RpcReply> {
        let request = encode(rpc)?;
        decode(&self.transport.call(self.id, self.address.clone(), request, timeout).await?)
    }
}

fn other_reply() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the reply to another request")
}

type Failed = RPCError<VoterId, BasicNode, RaftError<VoterId>>;

/// Makes Raft wait a little before it retries an unreachable node.
fn failed(error: &io::Error) -> Failed {
    RPCError::Unreachable(Unreachable::new(error))
}

impl RaftNetwork<Types> for Client {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<VoterId>, Failed> {
        match self.call(&Rpc::Append(rpc), option.hard_ttl()).await {
            Ok(RpcReply::Append(reply)) => Ok(reply),
            Ok(_) => Err(failed(&other_reply())),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<VoterId>,
        option: RPCOption,
    ) -> Result<VoteResponse<VoterId>, Failed> {
        match self.call(&Rpc::Vote(rpc), option.hard_ttl()).await {
            Ok(RpcReply::Vote(reply)) => Ok(reply),
            Ok(_) => Err(failed(&other_reply())),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<VoterId>,
        snapshot: Snapshot<Types>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<VoterId>, StreamingError<Types, Fatal<VoterId>>> {
        let rpc = Rpc::Snapshot(vote, snapshot.meta, *snapshot.snapshot);
        let failed = |error: &io::Error| StreamingError::Network(NetworkError::new(error));
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            reply = self.call(&rpc, option.hard_ttl()) => match reply {
                Ok(RpcReply::Snapshot(vote)) => Ok(SnapshotResponse::new(vote)),
                Ok(_) => Err(failed(&other_reply())),
                Err(error) => Err(failed(&error)),
            },
        }
    }

    fn backoff(&self) -> openraft::network::Backoff {
        openraft::network::Backoff::new(std::iter::repeat(Duration::from_millis(200)))
    }
}
