//! Control connections: requests to other nodes, one connection for each target.

use crate::bus::{Bus, ConnectError, Peer, Secure};
use crate::events::Level;
use crate::raft::{Pending, Transport};
use crate::relay;
use crate::state::{MemberInfo, VoterId};
use crate::wire::{
    CONTROL_MAX, Kind, Reply, Request, decode, decode_request, encode, encode_request, read_frame,
    write_frame,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Maximum number of queued requests of a connection, and of unanswered ones.
const WAITING_MAX: usize = 256;

/// Maximum number of requests of a connection served concurrently.
const SERVED_MAX: usize = 64;

/// Time after which an unused connection is closed.
const IDLE: Duration = Duration::from_secs(60);

/// Target of a request.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Target {
    /// `host:port` of its bus.
    pub address: String,
    /// The node that must answer there; none for any.
    pub uuid: Option<u128>,
}

impl Target {
    /// A node, at its discovered or agreed address.
    pub fn of(bus: &Bus, node: &MemberInfo) -> Self {
        Target { address: bus.discovery.address_of(node), uuid: Some(node.uuid) }
    }
}

struct Call {
    request: Request,
    reply: Option<oneshot::Sender<io::Result<Reply>>>,
}

/// Requests to other nodes.
pub(crate) struct Control {
    bus: Arc<Bus>,
    lines: Mutex<HashMap<Target, mpsc::Sender<Call>>>,
}

impl Control {
    pub fn new(bus: Arc<Bus>) -> Arc<Self> {
        Arc::new(Control { bus, lines: Mutex::default() })
    }

    /// Sends a request and waits for its reply.
    pub async fn call(
        &self,
        target: Target,
        request: Request,
        timeout: Duration,
    ) -> io::Result<Reply> {
        let (reply, replied) = oneshot::channel();
        self.submit(target, Call { request, reply: Some(reply) })?;
        match tokio::time::timeout(timeout, replied).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(io::Error::other("the connection has ended")),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Sends a request without a reply; it may be lost.
    pub fn cast(&self, target: Target, request: Request) {
        drop(self.submit(target, Call { request, reply: None }));
    }

    fn submit(&self, target: Target, call: Call) -> io::Result<()> {
        let mut lines = self.lines.lock();
        lines.retain(|_, line| !line.is_closed());
        let line = lines.entry(target.clone()).or_insert_with(|| {
            let (line, calls) = mpsc::channel(WAITING_MAX);
            tokio::spawn(run_connection(self.bus.clone(), target, calls));
            line
        });
        line.try_send(call).map_err(|_| io::Error::other("too many requests are queued"))
    }
}

impl Transport for Control {
    fn call(&self, to: VoterId, address: String, request: Vec<u8>, timeout: Duration) -> Pending {
        let known =
            self.bus.agreed.state.lock().by_id(to).map(|node| Target::of(&self.bus, &node.info));
        let target = known.unwrap_or(Target { address, uuid: None });
        let (reply, replied) = oneshot::channel();
        let call = Call { request: Request::Raft(request), reply: Some(reply) };
        let submitted = self.submit(target, call);
        Box::pin(async move {
            submitted?;
            let lost = |_| io::Error::other("the connection has ended");
            let reply = tokio::time::timeout(timeout, replied).await?;
            match reply.map_err(lost)?? {
                Reply::Raft(reply) => Ok(reply),
                other => Err(io::Error::other(format!("{other:?}"))),
            }
        })
    }
}

/// Connects to a target and sends it the queued requests.
async fn run_connection(bus: Arc<Bus>, target: Target, mut calls: mpsc::Receiver<Call>) {
    let dialed = match target.uuid.and_then(|uuid| bus.reported_by_uuid(uuid)) {
        Some(member) => {
            let dialed = relay::dial(&bus, Kind::Control, &member, &target.address).await;
            dialed.map(|dialed| (dialed.stream, dialed.peer))
        }
        None => bus.dial(Kind::Control, &target.address).await,
    };
    let dialed = dialed.and_then(|(stream, peer)| match target.uuid {
        Some(uuid) if uuid == peer.uuid => Ok((stream, peer)),
        meant => {
            // The members may not have agreed on this address.
            let address = stream.get_ref().0.peer_addr();
            address.iter().for_each(|address| bus.record_address(peer.uuid, &address.to_string()));
            if meant.is_some() { Err(ConnectError::Another) } else { Ok((stream, peer)) }
        }
    });
    match dialed {
        Ok((stream, peer)) => converse(&bus, stream, &peer, &mut calls).await,
        Err(error) => {
            target.uuid.iter().for_each(|&uuid| bus.discovery.miss(uuid, &target.address));
            if !matches!(error, ConnectError::OwnAddress) {
                let line = format!("cluster: no connection to {}: {error}", target.address);
                bus.log_once(Level::Warning, line);
            }
            calls.close();
            while let Ok(call) = calls.try_recv() {
                let reply = match &error {
                    ConnectError::RefusedBy(refusal) => Ok(Reply::Refused(refusal.clone())),
                    error => Err(io::Error::other(error.to_string())),
                };
                call.reply.into_iter().for_each(|waiting| drop(waiting.send(clone_of(&reply))));
            }
        }
    }
}

fn clone_of(reply: &io::Result<Reply>) -> io::Result<Reply> {
    match reply {
        Ok(reply) => Ok(reply.clone()),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

type Waiting = Mutex<HashMap<u64, oneshot::Sender<io::Result<Reply>>>>;

async fn converse(bus: &Bus, stream: Secure, peer: &Peer, calls: &mut mpsc::Receiver<Call>) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let waiting = Waiting::default();
    let read = async {
        loop {
            let frame = read_frame(&mut reader, CONTROL_MAX).await?;
            bus.count(peer.uuid, 0, frame.len());
            let (number, reply): (u64, Reply) = decode(&frame)?;
            let call = waiting.lock().remove(&number);
            call.into_iter().for_each(|call| drop(call.send(Ok(reply.clone()))));
        }
    };
    let write = async {
        let mut number = 0;
        while let Ok(Some(call)) = tokio::time::timeout(IDLE, calls.recv()).await {
            number += 1;
            if let Some(reply) = call.reply {
                let mut waiting = waiting.lock();
                if waiting.len() >= WAITING_MAX {
                    waiting.retain(|_, call| !call.is_closed());
                }
                if waiting.len() >= WAITING_MAX {
                    return Err(io::Error::other("too many replies are pending"));
                }
                waiting.insert(number, reply);
            }
            let frame = encode_request(number, &call.request)?;
            write_frame(&mut writer, &frame).await?;
            writer.flush().await?;
            bus.count(peer.uuid, frame.len(), 0);
        }
        Ok(())
    };
    let ended: io::Result<()> = tokio::select! {
        ended = read => ended,
        ended = write => ended,
    };
    drop(ended);
    calls.close();
}

/// A request of another node.
pub(crate) struct Inbound {
    pub peer: Peer,
    pub request: Request,
    /// None if the request has no reply.
    pub reply: Option<oneshot::Sender<Reply>>,
}

/// Serves the requests of a node that has connected.
pub(crate) async fn serve(bus: &Bus, stream: Secure, peer: Peer, inbound: mpsc::Sender<Inbound>) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (answers, mut answered) = mpsc::channel::<(u64, Reply)>(SERVED_MAX);
    let served = Arc::new(Semaphore::new(SERVED_MAX));
    let read = async {
        loop {
            let frame = read_frame(&mut reader, CONTROL_MAX).await?;
            bus.count(peer.uuid, 0, frame.len());
            let (number, request) = decode_request(&frame)?;
            if matches!(request, Request::Gossip(_)) {
                // Gossip may be lost, and must not block other requests.
                drop(inbound.try_send(Inbound { peer: peer.clone(), request, reply: None }));
                continue;
            }
            let permit = served.clone().acquire_owned().await.map_err(io::Error::other)?;
            let (reply, replied) = oneshot::channel();
            let request = Inbound { peer: peer.clone(), request, reply: Some(reply) };
            inbound.send(request).await.map_err(|_| io::Error::other("the node is stopping"))?;
            let answers = answers.clone();
            tokio::spawn(async move {
                if let Ok(reply) = replied.await {
                    drop(answers.send((number, reply)).await);
                }
                drop(permit);
            });
        }
    };
    let write = async {
        while let Some(answer) = answered.recv().await {
            let frame = encode(&answer)?;
            write_frame(&mut writer, &frame).await?;
            writer.flush().await?;
            bus.count(peer.uuid, frame.len(), 0);
        }
        Ok(())
    };
    let ended: io::Result<()> = tokio::select! {
        ended = read => ended,
        ended = write => ended,
    };
    drop(ended);
}
