//! The members' side of the process: its events are left for the agent, its links are the agent's.

use super::client_address::{self, ClientAddress};
use super::settings::clients_end;
use super::settings::{DIRECTORY, settings};
use super::state::membership::{Ends, Membership};
use super::topology::Alone;
use super::transport::{Event, Link, MemberInfo, Pipe, Transport};
use crate::config::Config;
use crate::durability::present::data_here;
use crate::lifecycle::listening::once_free;
use crate::lifecycle::process::Process;
use crate::server::Server;
use petrel_cluster::{Identity, SlotSet, View};
use petrel_commands::UnservedFigures;
use petrel_fabric::{
    Connection, Events, Fabric, GivenUp, Hold, Level, Role, Settings, Start, Unserved,
};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A server that is one of a cluster and is not let in yet.
pub(crate) struct Enlisted {
    membership: Arc<Membership>,
    ends: Ends,
    settings: Settings,
}

/// Makes a server one of the cluster that its configuration names, if it does; before anybody is
/// served and before data are loaded.
///
/// # Errors
/// If the configuration says what cannot be: what to change.
pub(crate) fn enlist(server: &Server, config: &Config) -> io::Result<Option<Enlisted>> {
    let settings = settings(config).map_err(io::Error::other)?;
    if settings.is_none() && config.cluster.enabled {
        be_alone(server, config)?;
    }
    let Some(settings) = settings else { return Ok(None) };
    let directory = config.dir.join(DIRECTORY);
    if matches!(settings.start, Start::Join(_)) && !is_known(&directory) {
        refuse_data(config)?;
    }
    let is_witness = settings.role == Role::Witness;
    let acknowledge = usize::from(config.cluster.acknowledge);
    let acknowledge = (acknowledge, config.cluster.node_timeout);
    let (membership, ends) = Membership::new(is_witness, acknowledge, Some(directory))?;
    membership.enter(server)?;
    // The clients of a cache are never redirected.
    if config.cluster.enabled && settings.role != Role::Cache {
        let _ = server.commands.topology.set(membership.clone());
    }
    Ok(Some(Enlisted { membership, ends, settings }))
}

/// Makes a server that is part of no cluster speak Redis Cluster's protocol, as the only node.
fn be_alone(server: &Server, config: &Config) -> io::Result<()> {
    clients_end(config, "").map_err(io::Error::other)?;
    if config.replication.replicaof.get().is_some() {
        return Err(io::Error::other(
            "cluster-enabled and replicaof contradict each other: remove one of them",
        ));
    }
    let alone = Alone::new(server.run_id.to_string(), server.config.clone());
    let _ = server.commands.topology.set(Arc::new(alone));
    Ok(())
}

/// Whether a directory belongs to a member, which goes back to its cluster.
fn is_known(directory: &Path) -> bool {
    directory.join("raft.redb").exists()
}

/// Refuses to join with data: a member begins with those of the cluster, and its own would be lost.
fn refuse_data(config: &Config) -> io::Result<()> {
    match data_here(config) {
        None => Ok(()),
        Some(path) => Err(io::Error::other(format!(
            "cluster-join: {} holds data, which would be lost: a server that joins begins with those of the cluster. Move \
             it out of {}, or found the cluster with these data: cluster-create in place of cluster-join",
            path.display(),
            config.dir.display()
        ))),
    }
}

impl Enlisted {
    /// Has the server ask to be let in. It is a member once its data are loaded too.
    ///
    /// # Errors
    /// If the directory, the bus's port or the keys cannot be used, or the system allows no thread.
    pub fn join(self, server: &Arc<Server>) -> io::Result<()> {
        let Enlisted { membership, ends, settings } = self;
        let directory = settings.directory.clone();
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cluster: {}: {error}", directory.display()))
        };
        std::fs::create_dir_all(&directory).map_err(failed)?;
        if !is_known(&directory) {
            // A founder's data become the cluster's data; a joining member has none of them.
            let founds = matches!(settings.start, Start::Create);
            membership.note_data(founds).map_err(failed)?;
        }
        let bind = settings.bind;
        once_free(&*server.process, || {
            let listens = TcpListener::bind(bind).map(drop);
            listens.map_err(|error| {
                io::Error::new(error.kind(), format!("cluster: the bus at {bind}: {error}"))
            })
        })?;
        let events = FromFabric(membership.clone(), server.process.clone());
        let fabric = Fabric::start(settings, Box::new(events));
        let fabric = Arc::new(fabric.map_err(io::Error::other)?);
        let info = fabric.info();
        let _ = membership.name.set(name(info.uuid));
        tracing::info!("cluster: the bus is at {}", info.announced);
        *membership.fabric.lock() = Some(fabric.clone());
        membership.begin_functions(server)?;
        membership.live(server, ends, Box::new(ToFabric(fabric)))
    }
}

/// A member's name: its uuid, with as many digits as Redis's names have.
fn name(uuid: u128) -> String {
    format!("{uuid:040x}")
}

fn shown(member: &petrel_fabric::MemberInfo) -> MemberInfo {
    MemberInfo {
        identity: member.identity(),
        id: name(member.uuid),
        client: ClientAddress::parse(&member.client),
        bus_port: client_address::split(&member.bus).1,
        role: member.role,
        holds_slots: member.holds_slots,
    }
}

/// Nodes that were taken for dead and have not come back.
pub(super) fn failed(fabric: &Fabric) -> Vec<MemberInfo> {
    fabric.failed().iter().map(shown).collect()
}

/// Slots without owners, by the node that they wait for.
pub(super) fn unserved(fabric: &Fabric) -> Vec<UnservedFigures> {
    let figures = |of: &Unserved| {
        let awaited = of.awaited.as_ref();
        UnservedFigures {
            slots: of.count(),
            ranges: of.ranges(),
            since: of.since_ms.unwrap_or(0) / 1000,
            awaited: awaited.map(|node| name(node.uuid)).unwrap_or_default(),
            address: awaited
                .map(|node| ClientAddress::parse(&node.client).main())
                .unwrap_or_default(),
        }
    };
    fabric.unserved().iter().map(figures).collect()
}

/// Logs the nodes and slots that the operator has given up.
pub(super) fn log_given_up(given_up: &GivenUp) {
    let shown = |node: &petrel_fabric::MemberInfo| {
        format!("node {} ({} at {})", node.number, name(node.uuid), node.client)
    };
    match given_up {
        GivenUp::Slots(unserved) => {
            for of in unserved {
                let node = of.awaited.as_ref().map_or_else(|| "a node".into(), shown);
                tracing::warn!(
                    "cluster: CLUSTER FAILOVER TAKEOVER gives up {node} as the last owner of {} hash slots ({}): they \
                     continue with the data of a former owner that has returned, or empty; what only the last \
                     owner has is lost to the cluster",
                    of.count(),
                    of.ranges()
                );
            }
        }
        GivenUp::Members(members) => {
            let members: Vec<String> = members.iter().map(shown).collect();
            tracing::warn!(
                "cluster: CLUSTER FAILOVER TAKEOVER: this node continues the cluster without {}: changes that only they \
                 have are lost to the cluster; hash slots of which this node has no copy wait for them",
                members.join(", ")
            );
        }
    }
}

/// The agent's ears.
struct FromFabric(Arc<Membership>, Arc<dyn Process>);

fn shown_all(members: &[petrel_fabric::MemberInfo]) -> Arc<[MemberInfo]> {
    members.iter().map(shown).collect()
}

fn known(link: petrel_fabric::Link) -> Link {
    Link { peer: link.peer, number: link.number }
}

impl Events for FromFabric {
    fn admitted(
        &mut self,
        own: Identity,
        view: Arc<View>,
        members: Arc<[petrel_fabric::MemberInfo]>,
    ) {
        self.0.events.leave(Event::Admitted(own, view, shown_all(&members)));
    }

    fn view(&mut self, view: Arc<View>, members: Arc<[petrel_fabric::MemberInfo]>) {
        self.0.events.leave(Event::View(view, shown_all(&members)));
    }

    fn expelled(&mut self) {
        self.0.events.leave(Event::Expelled);
    }

    fn lease(&mut self, until: Option<Instant>) {
        self.0.hold_lease(until);
    }

    fn aux_states(&mut self) {
        self.0.functions.wake();
    }

    fn keys_derived(&mut self) {
        // Before other threads reuse parts of that memory: their pages would keep it resident.
        self.1.purge_allocator();
    }

    fn upkeep(&mut self) {
        self.1.collect_thread();
    }

    fn link_up(&mut self, connection: Connection) {
        self.0.events.leave(Event::LinkUp(known(connection.link()), Box::new(connection)));
    }

    fn link_down(&mut self, link: petrel_fabric::Link) {
        self.0.events.leave(Event::LinkDown(known(link)));
    }

    fn log(&mut self, level: Level, line: String) {
        match level {
            Level::Notice => tracing::info!("{line}"),
            Level::Warning => tracing::warn!("{line}"),
        }
    }
}

/// The agent's hands.
struct ToFabric(Arc<Fabric>);

impl Transport for ToFabric {
    fn hold(&self, own: Identity, hold: Hold) {
        self.0.hold_slots(own, hold);
    }

    fn may_claim(&self, own: Identity) -> (bool, u64) {
        self.0.may_claim(own)
    }

    fn keeps_data(&self) {
        self.0.keeps_data();
    }

    fn set_extents(&self, extents: Vec<u8>) {
        self.0.set_extents(extents);
    }

    fn arrived(&self, own: Identity, epoch: u64, slots: &SlotSet) {
        self.0.arrived(own, epoch, slots);
    }

    fn rejoin(&self, own: Identity) {
        self.0.rejoin(own);
    }
}

impl Pipe for Connection {
    fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        Connection::receive(self, into, most)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        Connection::send(self, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Connection::flush(self)
    }

    fn is_blocked(&self) -> bool {
        Connection::is_blocked(self)
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}
