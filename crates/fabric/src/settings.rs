//! What the host hands in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// What a node does when its directory holds no cluster's data; with them it returns to its
/// cluster.
#[derive(Clone, Debug)]
pub enum Start {
    /// It founds a cluster: the only voter, with all slots.
    Create,
    /// It asks these nodes, `host[:port]`, to let it in; without a port, its own bus port is meant.
    Join(Vec<String>),
}

/// What a member is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub enum Role {
    /// It holds slots, and may vote.
    Data,
    /// It holds copies only, and never votes.
    Cache,
    /// It votes, and holds nothing.
    Witness,
}

/// How many homes each slot has.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub enum Copies {
    /// Every data node.
    All,
    /// So many, or as many as there are data nodes; 0 counts as 1. A member becomes one once its
    /// host has said that the data have arrived ([`crate::Fabric::arrived`]).
    Of(u16),
}

/// What a host says of the slots of its node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hold {
    /// It takes its share: its data are those of the cluster.
    Take,
    /// It takes them if no member holds any when consensus gets to it, as when all were down and
    /// each has come back with data of its own. A view in which another member holds slots ends
    /// the wish, whether that member stays or not: once the host has seen such a view, it is
    /// certain to hold none by this.
    ///
    /// With [`Copies::Of`], it takes the slots that have no home and of which it was the last one,
    /// for it has come back with their data; whatever other members hold. They wait for it for
    /// twelve to twenty-four node timeouts. With [`Hold::Take`], said before or without this, it
    /// has come back without, and they begin anew.
    TakeUnheld,
    /// It gives up what it holds.
    GiveUp,
}

/// The settings of a node of a cluster.
#[derive(Clone)]
pub struct Settings {
    /// The name of the cluster, the same at all nodes.
    pub name: String,
    /// What admits a node, the same at all nodes.
    pub passphrase: Zeroizing<String>,
    /// Nodes that still have this one are let in too.
    pub previous_passphrase: Option<Zeroizing<String>>,
    /// How the node comes to its cluster.
    pub start: Start,
    /// Where the bus listens.
    pub bind: SocketAddr,
    /// Where other nodes find the bus, `host:port`; none to find it out.
    pub announced: Option<String>,
    /// Where clients find the node, `host:port`; shown to the other members.
    pub client_address: String,
    /// What the node is for.
    pub role: Role,
    /// What may fail as a whole; slots have their homes in different zones where that is possible.
    pub zone: String,
    /// How many homes a slot has. The founder's word counts.
    pub copies: Copies,
    /// How long a member may be silent before others take its slots over. Leases are this long;
    /// all other times follow from it.
    pub node_timeout: Duration,
    /// Where `node.key` and `raft.redb` are.
    pub directory: PathBuf,
    /// The node is given no slots before the host has called [`crate::Fabric::hold_slots`], as
    /// when it fetches data first. Who founds a cluster waits for none.
    pub waits_for_data: bool,
}

/// What follows from the node timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// How long a lease is.
    pub lease: Duration,
    /// How often a member renews its lease, a joiner asks again, and the leader looks around.
    pub renewal: Duration,
    /// How often links that are down are tried again.
    pub redial: Duration,
    /// How long a connection may take until both sides know each other.
    pub handshake: Duration,
    /// How long slots that have lost all homes wait for their last one.
    pub grace: Duration,
    /// How long a member that leaves waits until others have what only few homes have.
    pub handover: Duration,
    /// How often names are resolved and lost members are looked for.
    pub search: Duration,
}

impl Timing {
    pub fn of(node_timeout: Duration) -> Self {
        let lease = node_timeout.clamp(Duration::from_millis(200), Duration::from_secs(3600));
        Timing {
            lease,
            renewal: lease / 6,
            redial: lease / 20,
            handshake: lease.clamp(Duration::from_secs(2), Duration::from_secs(10)),
            grace: lease * 12,
            handover: lease * 60,
            search: (lease * 3).min(Duration::from_secs(10)),
        }
    }
}
