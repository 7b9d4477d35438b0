//! Commands with keys of several primaries in a cluster: which of them may be executed apart from
//! the keyspace, on keys that their primaries lend.

use super::placement::{Forwarding, call, sort, split};
use crate::apart_keys::ApartKeys;
use crate::cluster::{Cluster, HashSlot, Primary};
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::reply_slots::Merge;
use crate::session::{Session, Transaction};
use crate::spec::{Command, Flags, GateFlags};
use petrel_keyspace::parse_int;
use petrel_table::keys::key_positions;
use petrel_table::{Place, bits};

/// Rejects a command that cannot be executed on its named keys alone, whether by itself or in a
/// transaction.
///
/// # Errors
/// With the reason.
pub fn admit_apart(command: Command, args: &[&[u8]], is_in_transaction: bool) -> Outcome {
    let spec = command.spec;
    let is_watch = spec.gate.contains(GateFlags::WATCHES);
    if is_watch || may_wait(command, args) && !is_in_transaction {
        return Err(Fail::SEVERAL_PRIMARIES);
    }
    let is_of_database = bits!(GateFlags: WHOLE_DATABASE, AT_ALL_PRIMARIES, AGREED);
    let is_elsewhere = bits!(GateFlags: NOT_FORWARDED, NOT_IN_CLUSTER);
    // A command without keys has the same result everywhere, unless it publishes a message.
    let is_harmless = spec.gate.contains(GateFlags::RUNS_ANYWHERE)
        && !spec.flags.contains(Flags::MAY_REPLICATE)
        && !spec.gate.contains(GateFlags::ASKS_LOGS);
    let is_waiting =
        spec.gate.contains(GateFlags::AT_ALL_PRIMARIES) && !spec.flags.contains(Flags::WRITE);
    let is_refused = spec.gate.intersects(is_elsewhere)
        || spec.gate.intersects(is_of_database) && !(is_waiting && is_in_transaction)
        || spec.meta.keys.is_empty() && !is_harmless
        || spec.place == Place::Here && !is_harmless
        || spec.flags.contains(Flags::TOUCHES_ARBITRARY_KEYS) && has_patterns(args);
    if !is_refused {
        return Ok(());
    }
    let name = spec.meta.name.to_ascii_uppercase();
    Err(Fail::new(format!(
        "CROSSSLOT {name} is not supported together with keys of several members of the cluster"
    )))
}

/// Rejects a transaction with keys of several primaries that cannot be executed apart.
pub(super) fn admit_transaction_apart(
    primary: Option<Primary>,
    transaction: &Transaction,
    args: &[&[u8]],
) -> Outcome {
    if primary.is_some() {
        return Ok(());
    }
    if !transaction.watched.is_empty() || transaction.watched_away.is_some() {
        return Err(Fail::SEVERAL_PRIMARIES);
    }
    let mut requests = transaction.queued.requests(args);
    requests.try_for_each(|request| match request.command {
        Some(command) => admit_apart(command, request.args, true),
        None => Ok(()),
    })
}

/// Whether all these slots have the same primary, or none now.
pub(super) fn have_one_primary(slots: &[HashSlot], cluster: &dyn Cluster) -> bool {
    let mut primaries = slots.iter().map(|&slot| cluster.primary_of(slot));
    let first = primaries.next();
    primaries.all(|primary| Some(primary) == first)
}

/// Whether a command may wait for its keys.
pub(super) fn may_wait(command: Command, args: &[&[u8]]) -> bool {
    let spec = command.spec;
    let says_so = || args.iter().any(|arg| arg.eq_ignore_ascii_case(b"block"));
    spec.flags.contains(Flags::BLOCKING)
        && (!spec.gate.contains(GateFlags::BLOCKS_BY_OPTION) || says_so())
}

impl Executor {
    /// Forwards a command with keys of several primaries, in parts if it works on each key by
    /// itself.
    pub(super) fn place_several(
        &mut self,
        command: Command,
        args: &[&[u8]],
        (session, cluster): (&Session, &dyn Cluster),
        mut slots: Vec<HashSlot>,
    ) -> Result<Forwarding, Fail> {
        if let Some(parts) = split(command, args, session, cluster) {
            return Ok(parts);
        }
        admit_apart(command, args, false)?;
        let args = self.args_to_forward(command, args, session)?;
        sort(&mut slots);
        Ok(Forwarding::of(vec![call(session, slots, args)], Merge::Only))
    }

    /// Begins to execute a transaction in a keyspace that has these keys alone, with their
    /// databases.
    pub fn begin_apart(&mut self, keys: impl Iterator<Item = (u16, Vec<u8>)>) {
        self.apart = Some(ApartKeys { keys: keys.collect(), has_strayed: false });
    }

    /// Ends the transaction. False if a script of it has tried to use something else: nothing of
    /// the transaction may be kept.
    pub fn end_apart(&mut self) -> bool {
        self.apart.take().is_none_or(|apart| !apart.has_strayed)
    }

    /// Checks a command that a script calls in such a transaction.
    pub(super) fn place_apart(&mut self, command: Command, args: &[&[u8]], db: u16) -> Outcome {
        let databases = self.ks.keyspace().databases();
        let Some(apart) = &mut self.apart else { return Ok(()) };
        let mut keys = Vec::new();
        let admitted = admit_apart(command, args, true)
            .and_then(|()| add_keys_apart(command, args, (db, databases), &mut keys));
        if admitted.is_ok() && keys.iter().all(|key| apart.keys.contains(key)) {
            return Ok(());
        }
        apart.has_strayed = true;
        Err(STRAYED)
    }
}

const STRAYED: Fail = Fail::fixed(
    "ERR A script with keys of several members of a cluster may use its declared keys only",
);

/// Whether `SORT` reads keys that its elements name.
fn has_patterns(args: &[&[u8]]) -> bool {
    let is = |arg: &[u8], word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
    args.windows(2).skip(1).any(|pair| {
        let (option, pattern) = (pair[0], pair[1]);
        (is(option, "BY") || is(option, "GET")) && pattern != b"#" && pattern.contains(&b'*')
    })
}

/// Adds the keys of an admitted command, with their databases.
///
/// # Errors
/// If the arguments are wrong, so that its keys are not known.
pub fn add_keys_apart(
    command: Command,
    args: &[&[u8]],
    (db, databases): (u16, u16),
    keys: &mut Vec<(u16, Vec<u8>)>,
) -> Outcome {
    let mut found = Vec::new();
    key_positions(command.spec.meta.keys, args, &mut found).map_err(|_| Fail::SYNTAX)?;
    keys.extend(found.iter().map(|key| (db, args[key.index as usize].to_vec())));
    let number = match command.spec.meta.name {
        "move" => args.get(2),
        "copy" => {
            let at = args.iter().skip(3).position(|arg| arg.eq_ignore_ascii_case(b"DB"));
            at.and_then(|at| args.get(at + 4))
        }
        _ => None,
    };
    let other = number.and_then(|number| parse_int(number));
    let other = other.and_then(|other| u16::try_from(other).ok()).filter(|db| *db < databases);
    if let (Some(other), Some(key)) = (other, found.last()) {
        keys.push((other, args[key.index as usize].to_vec()));
    }
    Ok(())
}
