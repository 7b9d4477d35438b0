//! Accepted connections: each is given to the worker with fewest, or refused.

use crate::client::{CONNECTION_BYTES, Client, Flag};
use crate::event_loop::connection::Conn;
use crate::event_loop::worker::Worker;
use crate::lifecycle::listening::is_tls;
use crate::state::mailbox::{Arrival, Message};
use petrel_commands::{Modes, Session};
use petrel_net::{
    Driver, Endpoint, ListenerId, Slot, local_endpoint, peer_endpoint, set_keepalive,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Protected mode's error, with Redis's content: the reason, and the parameters to change.
const PROTECTED: &[u8] = b"-DENIED Petrel is running in protected mode because protected mode is enabled and no password \
is set for the default user. In this mode connections are only accepted from the loopback interface. To connect from \
other computers, set a password (requirepass) or turn protected-mode off.\r\n";

impl<D: Driver> Worker<D> {
    /// Closes connections that ended in this turn, and accepts the new ones.
    #[cold]
    pub(crate) fn close_and_accept(&mut self) {
        for conn in std::mem::take(&mut self.own.closed) {
            self.dismiss(conn);
        }
        for arrival in std::mem::take(&mut self.own.arrivals) {
            self.adopt(arrival);
        }
    }

    pub(crate) fn accepted(&mut self, listener: ListenerId, socket: OwnedFd) {
        let server = &self.engine.host.server;
        let Some((worker, id)) = server.place_connection() else {
            return refuse(&socket, listener, b"-ERR max number of clients reached\r\n");
        };
        let arrival = Arrival { listener, socket, id, client: None };
        if worker == self.index {
            self.own.arrivals.push(arrival);
        } else {
            server.tell(worker, Message::Adopt(arrival));
        }
    }

    /// Takes a connection over; it is counted in this worker's load already.
    pub(crate) fn adopt(&mut self, arrival: Arrival) {
        let Arrival { listener, socket, id, client } = arrival;
        let is_direct = client.is_none();
        let peer = client.or_else(|| peer_endpoint(socket.as_fd()).ok()).unwrap_or(Endpoint::Unix);
        let local = local_endpoint(socket.as_fd()).unwrap_or(Endpoint::Unix);
        let server = self.engine.host.server.clone();
        if self.is_unprotected(&peer) {
            refuse(&socket, listener, PROTECTED);
            server.workers[self.index].load.fetch_sub(1, Relaxed);
            return;
        }
        if is_direct && peer != Endpoint::Unix {
            // A failure leaves the connection without probes, which is no reason to refuse it.
            let _ = set_keepalive(socket.as_fd(), self.engine.host.config.tcp_keepalive);
        }
        let direct = self.engine.host.server.direct_descriptors.load(Relaxed);
        let fd = if direct { -1 } else { socket.as_raw_fd() };
        let adopted = match is_tls(listener) {
            true => self.adopt_tls(socket),
            false => self.driver.adopt(socket),
        };
        let slot = match adopted {
            Ok(slot) => slot,
            Err(error) => {
                tracing::warn!("cannot take a connection over: {error}");
                server.workers[self.index].load.fetch_sub(1, Relaxed);
                return;
            }
        };
        let authenticated = server.commands.users.are_open();
        let is_tcp = peer != Endpoint::Unix;
        let client =
            Arc::new(Client::new(id, self.index as u16, slot, self.seconds(), fd, peer, local));
        client.set(Flag::Authenticated, authenticated);
        let is_cluster_client = is_direct && is_tcp && server.commands.topology.get().is_some();
        let mut session = Session::new(authenticated);
        session.set(Modes::CLUSTER_CLIENT, is_cluster_client);
        server.workers[self.index].clients.add(&client);
        self.engine.exec.ks.count_foreign(CONNECTION_BYTES as i64);
        self.put(Box::new(Conn::new(slot, client, session)));
        self.watch_idleness_of(slot);
    }

    fn adopt_tls(&mut self, socket: OwnedFd) -> io::Result<Slot> {
        let settings = self.engine.host.server.tls.lock().clone();
        let settings = settings.ok_or_else(|| io::Error::other("TLS was turned off"))?;
        self.driver.adopt_tls(socket, settings.handshake.clone())
    }

    /// Protected mode: without a password only this machine may connect.
    fn is_unprotected(&self, peer: &Endpoint) -> bool {
        let config = &self.engine.host.config;
        config.protected_mode
            && self.engine.host.server.commands.users.are_open()
            && peer.ip().is_some_and(|ip| !ip.is_loopback())
    }
}

/// Sends the reason and closes. The few bytes fit the empty send buffer of a new connection. A peer
/// that waits for a TLS handshake gets no reply.
fn refuse(socket: &OwnedFd, listener: ListenerId, text: &[u8]) {
    use std::io::Write;
    if !is_tls(listener)
        && let Ok(copy) = socket.try_clone()
    {
        let _ = std::fs::File::from(copy).write_all(text);
    }
}
