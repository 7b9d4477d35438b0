//! Commands that a member of a cluster refuses.

use crate::fail::Fail;
use crate::host::Host;
use crate::server::replication::{NO_LOG, logs_wanted};
use crate::spec::{Command, GateFlags};
use petrel_table::{Place, bits};

/// Rejects commands that a cluster does not support: those marked so, and writes that name no key.
pub(super) fn admit_in_cluster(command: Command) -> Result<(), Fail> {
    let spec = command.spec;
    let name = || spec.meta.name.to_ascii_uppercase();
    if spec.gate.contains(GateFlags::NOT_IN_CLUSTER) {
        return Err(Fail::new(format!("ERR {} is not supported in a cluster", name())));
    }
    let is_whole = spec.place == Place::Primary && spec.meta.keys.is_empty();
    match is_whole && !spec.gate.intersects(bits!(GateFlags: AT_ALL_PRIMARIES, AGREED)) {
        true => Err(Fail::new(format!("ERR {} is not allowed in cluster mode", name()))),
        false => Ok(()),
    }
}

/// Rejects a command that waits for the log of this member if there is none.
pub(super) fn admit_log(command: Command, args: &[&[u8]], host: &dyn Host) -> Result<(), Fail> {
    if !command.spec.gate.contains(GateFlags::ASKS_LOGS) {
        return Ok(());
    }
    let (local, _) = logs_wanted(args)?;
    if local && host.durable_epoch().is_none() { Err(NO_LOG) } else { Ok(()) }
}
