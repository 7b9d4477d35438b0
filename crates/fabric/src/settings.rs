//! Settings of a node, given by its host.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// Action of a node without cluster data in its directory. With data it returns to its cluster.
#[derive(Clone, Debug)]
pub enum Start {
    /// Found a cluster, as the only voter and with all slots.
    Create,
    /// Ask these nodes, `host[:port]`, for admission. The default port is the node's own bus port.
    Join(Vec<String>),
}

/// Role of a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub enum Role {
    /// Owns slots, and may vote.
    Data,
    /// Has copies of keys only, and never votes.
    Cache,
    /// Votes, and owns nothing.
    Witness,
}

/// Number of owners of each slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub enum Copies {
    /// Every data node.
    All,
    /// This many, or as many as there are data nodes; 0 counts as 1. An importer becomes an owner
    /// once its host has reported the data ([`crate::Fabric::arrived`]).
    Of(u16),
}

/// Request of a host about the slots of its node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hold {
    /// Accept slots: its data are those of the cluster.
    Take,
    /// Accept slots if no member holds any when the command is applied, as when all members were
    /// down and each has returned with data of its own. A view in which another member holds slots
    /// cancels the request, even if that member leaves again.
    ///
    /// With [`Copies::Of`]: take the slots without owners of which it was the last owner, because
    /// it has returned with their data, whatever other members hold. They wait for it, or for 12 to
    /// 24 node timeouts if no former owner [keeps data](crate::Fabric::keeps_data). After
    /// [`Hold::Take`] instead of this, it counts as returned without data. Also reports that it has
    /// data of slots that wait for another node, for [`crate::Fabric::take_over`].
    TakeUnheld,
    /// Give up its slots.
    GiveUp,
}

/// Settings of a node of a cluster.
#[derive(Clone)]
pub struct Settings {
    /// Name of the cluster, equal at all nodes.
    pub name: String,
    /// Passphrase that admits nodes, equal at all nodes.
    pub passphrase: Zeroizing<String>,
    /// Previous passphrase, still accepted.
    pub previous_passphrase: Option<Zeroizing<String>>,
    /// Found a cluster or join one.
    pub start: Start,
    /// Listen address of the bus.
    pub bind: SocketAddr,
    /// Address of the bus for other nodes, `host:port`; none to determine it.
    pub announced: Option<String>,
    /// Address for clients, `host:port`; shown to the other members.
    pub client_address: String,
    /// Role of the node.
    pub role: Role,
    /// Failure domain; the owners of a slot are in different zones if possible.
    pub zone: String,
    /// Number of owners of a slot. Only the founder's setting counts.
    pub copies: Copies,
    /// Time without renewal after which a member may be removed as failed. Equal to the lease; all
    /// other times are derived from it.
    pub node_timeout: Duration,
    /// Directory of `node.key` and `raft.redb`.
    pub directory: PathBuf,
    /// Assign no slots to the node before the host has called [`crate::Fabric::hold_slots`], as
    /// when it fetches data first. Ignored for the founder.
    pub waits_for_data: bool,
    /// Whether the host reports how far its data go ([`crate::Fabric::set_extents`]), once they are
    /// loaded. Slots of which all owners have stopped wait for that.
    pub reports_extents: bool,
    /// Number of owners that have a change before it is acknowledged.
    pub acknowledge: usize,
}

/// Lower bound of [`Timing::silence`]: a busy member may not read for this long, however short
/// leases are.
const SILENCE_MIN: Duration = Duration::from_secs(2);

/// Lower bound of [`Timing::patience`]: a handshake of a busy member takes this long.
const PATIENCE_MIN: Duration = Duration::from_millis(200);

/// Times derived from the node timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Duration of a lease.
    pub lease: Duration,
    /// Interval of lease renewals, of join attempts, and of the leader's checks.
    pub renewal: Duration,
    /// Interval of attempts to restore a link.
    pub redial: Duration,
    /// Maximum duration of a handshake.
    pub handshake: Duration,
    /// Time for which slots without owners wait for their last owner if no node keeps their data.
    pub grace: Duration,
    /// Maximum time for which a leaving member waits until others have imported its slots.
    pub handover: Duration,
    /// Time for which sent data may stay unacknowledged before a connection is closed.
    pub silence: Duration,
    /// Time after which a member that does not answer is dialed through another one.
    pub patience: Duration,
    /// Interval of name resolution and of the search for lost members.
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
            silence: (lease / 3).max(SILENCE_MIN),
            patience: (lease / 12).max(PATIENCE_MIN),
            search: (lease * 3).min(Duration::from_secs(10)),
        }
    }
}
