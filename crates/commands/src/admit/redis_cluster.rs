//! Redis Cluster's rules for its clients (`cluster-enabled yes`): all keys of a request are of one
//! hash slot, and the node is its primary. Everything else is `CROSSSLOT`, `MOVED` or
//! `CLUSTERDOWN`.
//!
//! A change of a slot's primary is no error: the command is forwarded, and waits for the new
//! primary, as in the default mode. So no client is sent to and fro while members adopt a view.

use super::Verdict;
use super::placement::sort;
use crate::cluster::{Cluster, HashSlot, Primary};
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::modes::Modes;
use crate::moment::Moment;
use crate::server::state::ServerState;
use crate::session::Session;
use crate::spec::{Command, Request};
use petrel_keyspace::hash_slot::slot_of;
use petrel_table::keys::key_positions;
use petrel_table::{Channels, KeyFlags, Place};
use std::sync::Arc;

const AWAY: Fail = Fail::fixed("ERR Script attempted to access a non local key in a cluster node");

const SEVERAL_SLOTS: Fail =
    Fail::fixed("ERR Script attempted to access keys that do not hash to the same slot");

const NO_OWN_SLOTS: Fail = Fail::fixed(
    "CLUSTERDOWN This node is the primary of no hash slot: send the command to the nodes of CLUSTER SLOTS",
);

/// The hash slots of a request.
struct Routed {
    /// Hash slots of all keys, and of channels of shards; each once, ascending.
    slots: Vec<HashSlot>,
    /// Whether it changes nothing, so that a backup may execute it.
    only_reads: bool,
}

impl Executor {
    /// Applies the rules to an admitted command of such a client: `Refuse`, or `Run`.
    pub(super) fn place_for_cluster_client(
        &mut self,
        command: Command,
        request: &Request<'_>,
        (session, host): (&Session, &dyn Host),
        moment: Moment,
        nested: bool,
    ) -> Verdict {
        let admitted = match moment.contains(Moment::IN_SCRIPT) {
            true => self.admit_script_slots(command, request, session, moment),
            false if nested || !moment.contains(Moment::CLIENT) => Ok(()),
            false => self.admit_slots(command, request, session, host),
        };
        admitted.map_or_else(Verdict::Refuse, |()| Verdict::Run)
    }

    /// Rejects a client's request that names several slots, or a slot of another node. An `EXEC`
    /// counts as all commands of its transaction together.
    pub(super) fn admit_slots(
        &self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        host: &dyn Host,
    ) -> Outcome {
        let Routed { slots, only_reads } = match session.queue_run_by(command) {
            Some(queue) => {
                let args = queue.args();
                routed(queue.requests(&args).filter_map(|one| Some((one.command?, one.args))))
            }
            None => routed([(command, request.args)]),
        };
        let [slot] = slots[..] else {
            return if slots.is_empty() { Ok(()) } else { Err(Fail::CROSS_SLOT) };
        };
        let Some(cluster) = self.clustered() else { return Ok(()) };
        match cluster.primary_of(slot) {
            Primary::Here => Ok(()),
            Primary::At(_) if only_reads && reads_here(slot, session, &**cluster) => Ok(()),
            // It would redirect the client back.
            Primary::At(number) if !cluster.has_adopted(number) => Ok(()),
            Primary::At(number) => Err(self.moved(slot, number, host)),
            Primary::Changing => match self.shared.topology.get() {
                Some(topology) if topology.is_unserved(slot) => Err(Fail::SLOT_UNSERVED),
                _ => Ok(()),
            },
        }
    }

    /// Rejects a command that a script calls on keys of other nodes, or, unless the script allows
    /// that, on keys of several slots.
    pub(super) fn admit_script_slots(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        moment: Moment,
    ) -> Outcome {
        let Routed { slots, only_reads } = routed([(command, request.args)]);
        if let Some(cluster) = self.clustered() {
            let is_here = |slot: &HashSlot| {
                cluster.primary_of(*slot) == Primary::Here
                    || only_reads && reads_here(*slot, session, &**cluster)
            };
            if !slots.iter().all(is_here) {
                return Err(AWAY);
            }
        }
        if moment.contains(Moment::ONE_SLOT) {
            for slot in slots {
                if *self.one_slot.get_or_insert(slot) != slot {
                    return Err(SEVERAL_SLOTS);
                }
            }
        }
        Ok(())
    }

    /// The cluster that the server is a member of.
    fn clustered(&self) -> Option<&Arc<dyn Cluster>> {
        self.shared.cluster.get().filter(|_| self.shared.is_in_state(ServerState::Clustered))
    }

    fn moved(&self, slot: HashSlot, number: u16, host: &dyn Host) -> Fail {
        let node = self.shared.topology.get().and_then(|topology| topology.node(number));
        node.map_or(Fail::PRIMARY_CHANGING, |node| node.moved(slot, &host.viewer()))
    }
}

/// Whether a client may read keys of a slot of which this node is a backup.
fn reads_here(slot: HashSlot, session: &Session, cluster: &dyn Cluster) -> bool {
    session.is(Modes::READS_BACKUPS) && cluster.is_readable(slot)
}

/// Whether keys of a slot are read here at once. Clients of Redis Cluster are redirected to the
/// primary, unless they read from backups.
pub(super) fn reads_at_once(slot: HashSlot, session: &Session, cluster: &dyn Cluster) -> bool {
    cluster.is_readable(slot)
        && (!session.is(Modes::CLUSTER_CLIENT)
            || cluster.primary_of(slot) == Primary::Here
            || reads_here(slot, session, cluster))
}

/// The hash slots of each primary that executes a command without keys: of this node only, for
/// clients of Redis Cluster.
pub(super) fn shares_for(
    session: &Session,
    cluster: &dyn Cluster,
) -> Result<Vec<Vec<HashSlot>>, Fail> {
    let mut primaries = cluster.slots_by_primary().ok_or(Fail::PRIMARY_CHANGING)?;
    if session.is(Modes::CLUSTER_CLIENT) {
        let is_own = |slot: &HashSlot| cluster.primary_of(*slot) == Primary::Here;
        primaries.retain(|slots| slots.first().is_some_and(is_own));
        if primaries.is_empty() {
            return Err(NO_OWN_SLOTS);
        }
    }
    Ok(primaries)
}

/// The hash slots of some commands together.
fn routed<'a>(commands: impl IntoIterator<Item = (Command, &'a [&'a [u8]])>) -> Routed {
    let mut routed = Routed { slots: Vec::new(), only_reads: true };
    let mut keys = Vec::new();
    for (command, args) in commands {
        let meta = command.spec.meta;
        keys.clear();
        // An invalid number of keys is left to the handler, which returns the error.
        if key_positions(meta.keys, args, &mut keys).is_ok() {
            routed.slots.extend(keys.iter().map(|key| slot_of(args[key.index as usize])));
        }
        routed.slots.extend(shard_channels(command, args).iter().map(|channel| slot_of(channel)));
        routed.only_reads &= command.spec.place != Place::Primary;
    }
    sort(&mut routed.slots);
    routed
}

/// The channels of shards that a command joins, or sends a message to. A client may leave a channel
/// at any node, since its slot may have moved.
fn shard_channels<'a>(command: Command, args: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
    let meta = command.spec.meta;
    let are_routed = meta.keys.iter().any(|spec| spec.flags.contains(KeyFlags::NOT_KEY));
    match meta.channels {
        Channels::First if are_routed => args.get(1..2).unwrap_or_default(),
        Channels::All if are_routed && meta.name != "sunsubscribe" => {
            args.get(1..).unwrap_or_default()
        }
        _ => &[],
    }
}
