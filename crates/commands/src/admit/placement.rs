//! Where a client's command is executed in a cluster.
//!
//! ```text
//!  place    keys' homes             verdict
//!  Here     -                       runs here, once all replies of other nodes are there
//!  Read     any                     runs here: the keys are held here
//!  Home     all this node           runs here
//!           one other node          forwarded, and the connection goes on (reply_slots.rs)
//!           several                 split if each key is worked on by itself, else CROSSSLOT
//! ```
//!
//! Commands of a connection that share a hash slot take effect in their order: one that runs here
//! waits for those that were forwarded, and those that were forwarded keep their order on the way.

use super::{Moment, Verdict};
use crate::cluster::{Cluster, HashSlot, Home, RemoteCall};
use crate::execute::Executor;
use crate::fail::Fail;
use crate::host::Host;
use crate::registry::Command;
use crate::reply_slots::{Merge, ReplySlots};
use crate::request::Request;
use crate::scripting::cache::{NO_SCRIPT, parse_sum};
use crate::server::state::ServerState;
use crate::session::Session;
use crate::spec::{Flags, GateFlags, KeyShape};
use petrel_resp::Protocol;
use petrel_table::Place;
use petrel_table::keys::key_positions;

/// A command that is executed by other nodes.
#[derive(Debug)]
pub(crate) struct Forwarding {
    /// What each is to execute.
    pub calls: Vec<RemoteCall>,
    /// How their replies come to one.
    pub merge: Merge,
    /// Whether it may wait for its keys there: the connection executes nothing meanwhile.
    pub may_wait: bool,
}

const SCRIPT_AWAY: Fail =
    Fail::fixed("ERR Script attempted to write to a key whose home is another node");

const LIMITED_SCRIPT: Fail = Fail::fixed(
    "ERR Scripts of users with limited permissions are not supported in a cluster at keys whose home is another node",
);

impl Executor {
    /// What becomes of a command that is let in, and is not only queued.
    #[inline]
    pub(super) fn place(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        (moment, nested): (Moment, bool),
        host: &mut dyn Host,
    ) -> Verdict {
        if !self.shared.is_in_state(ServerState::Clustered) {
            return Verdict::Run;
        }
        let Some(cluster) = self.shared.cluster.get().cloned() else { return Verdict::Run };
        let placed = match moment.contains(Moment::IN_SCRIPT) {
            true => self.place_in_script(command, request, &*cluster),
            false if nested || !moment.contains(Moment::CLIENT) => Ok(Verdict::Run),
            false if command.spec.gate.contains(GateFlags::RUNS_QUEUE) => {
                self.place_transaction(session, &*cluster, host)
            }
            false => self.place_command(command, request, session, &*cluster),
        };
        placed.unwrap_or_else(Verdict::Refuse)
    }

    /// Refuses what cannot be part of a transaction in a cluster, before it is queued.
    pub(super) fn admit_queued(&self, command: Command) -> Result<(), Fail> {
        match self.shared.is_in_state(ServerState::Clustered) {
            true if command.spec.gate.contains(GateFlags::AT_ALL_HOMES) => Err(no_part(command)),
            true => admit_in_cluster(command),
            false => Ok(()),
        }
    }

    fn place_command(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        cluster: &dyn Cluster,
    ) -> Result<Verdict, Fail> {
        let spec = command.spec;
        admit_in_cluster(command)?;
        let waiting = session.reply_slots();
        let all = waiting.and_then(ReplySlots::last);
        if spec.gate.contains(GateFlags::AT_ALL_HOMES) {
            return match all {
                Some(last) => Ok(Verdict::Await(last)),
                None => at_all_homes(command, request.args, session, cluster),
            };
        }
        if spec.gate.contains(GateFlags::WATCHES) && session.in_multi() {
            // It is refused there.
            return Ok(Verdict::Run);
        }
        if spec.place == Place::Here {
            return Ok(all.map_or(Verdict::Run, Verdict::Await));
        }
        let mut slots = Vec::new();
        add_slots(command, request.args, cluster, &mut slots);
        let home = match spec.place {
            Place::Read => Some(Home::Here),
            _ => home_of(&slots, cluster),
        };
        if home == Some(Home::Here) {
            if spec.place == Place::Home {
                self.admit_lease(cluster)?;
            }
            let is_simple = !slots.is_empty()
                && !spec.flags.contains(Flags::BLOCKING)
                && session.tracking().is_none();
            let until = match is_simple {
                true => waiting
                    .and_then(|waiting| waiting.last_of(&slots).or_else(|| waiting.full_until())),
                false => all,
            };
            return Ok(until.map_or(Verdict::Run, Verdict::Await));
        }
        let until = waiting.and_then(|waiting| match session.tracking() {
            Some(_) => all,
            None if home.is_some() => waiting.last_overlapping(&slots),
            None => waiting.last_of(&slots),
        });
        if let Some(until) = until.or_else(|| waiting.and_then(ReplySlots::full_until)) {
            return Ok(Verdict::Await(until));
        }
        let forwarding = match home {
            Some(_) => {
                let args = self.args_to_forward(command, request.args, session)?;
                let may_wait = may_wait(command, request.args);
                let calls = vec![call(session, slots, args)];
                Forwarding { calls, merge: Merge::Only, may_wait }
            }
            None => split(command, request.args, session, cluster).ok_or(Fail::CROSS_SLOT)?,
        };
        Ok(Verdict::Forward(Box::new(forwarding)))
    }

    /// Refuses what would change something here after others may have taken this node for dead.
    fn admit_lease(&self, cluster: &dyn Cluster) -> Result<(), Fail> {
        if self.has_lease(cluster) { Ok(()) } else { Err(Fail::SLOT_UNSERVED) }
    }

    /// The arguments with which another node executes a command.
    fn args_to_forward(
        &mut self,
        command: Command,
        args: &[&[u8]],
        session: &Session,
    ) -> Result<Vec<Vec<u8>>, Fail> {
        let spec = command.spec;
        if spec.gate.contains(GateFlags::NOT_FORWARDED) {
            let name = self.registry().full_name(command.index).to_ascii_uppercase();
            return Err(Fail::new(format!(
                "ERR {name} is not supported in a cluster at keys whose home is another node"
            )));
        }
        if spec.flags.contains(Flags::SCRIPT_RUNNER)
            && self.restricts(session)
            && !self.user(session).is_some_and(|user| user.may_do_everything())
        {
            return Err(LIMITED_SCRIPT);
        }
        let mut args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
        // The other node need not know the script: it travels with the call.
        if !spec.gate.contains(GateFlags::SCRIPT_BY_SUM) {
            return Ok(args);
        }
        let by_text = if spec.flags.contains(Flags::READONLY) { "EVAL_RO" } else { "EVAL" };
        let sum = parse_sum(&args[1]).ok_or(NO_SCRIPT)?;
        let script = self.shared.scripts.find(&sum).ok_or(NO_SCRIPT)?;
        args[0] = by_text.into();
        args[1] = script.text.to_vec();
        Ok(args)
    }

    /// A transaction is executed by one node: this one if it orders the changes of all keys, or all
    /// of it only reads.
    fn place_transaction(
        &mut self,
        session: &Session,
        cluster: &dyn Cluster,
        host: &mut dyn Host,
    ) -> Result<Verdict, Fail> {
        if let Some(last) = session.reply_slots().and_then(ReplySlots::last) {
            return Ok(Verdict::Await(last));
        }
        let open = session.transaction().filter(|transaction| transaction.open);
        let Some(transaction) = open.filter(|transaction| !transaction.spoiled) else {
            return Ok(Verdict::Run);
        };
        let args = transaction.queued.args();
        let away = transaction.watched_away.as_deref();
        let (mut slots, mut only_reads) =
            (Vec::new(), transaction.watched.is_empty() && away.is_none());
        slots.extend(transaction.watched.iter().map(|key| cluster.slot_of(key.key())));
        slots.extend(away.iter().flat_map(|away| &away.slots));
        for request in transaction.queued.requests(&args) {
            let Some(command) = request.command else { continue };
            only_reads &= command.spec.place != Place::Home;
            add_slots(command, request.args, cluster, &mut slots);
        }
        sort(&mut slots);
        let home = home_of(&slots, cluster).ok_or(Fail::CROSS_SLOT);
        let is_watch_lost = match home {
            Ok(Home::Here) => away.is_some(),
            Ok(Home::At(_) | Home::Changing) => !transaction.watched.is_empty(),
            Err(_) => false,
        };
        if is_watch_lost {
            // The home of the watched keys is another one than when the watch began.
            return Ok(Verdict::Abandon);
        }
        if only_reads || home == Ok(Home::Here) {
            if !only_reads {
                self.admit_lease(cluster)?;
            }
            return Ok(Verdict::Run);
        }
        home?;
        let mut commands = Vec::new();
        for request in transaction.queued.requests(&args) {
            let Some(command) = request.command else { continue };
            self.admit_user(command, request.args, session, host)?;
            let spec = command.spec;
            if spec.place == Place::Here && !spec.gate.contains(GateFlags::RUNS_ANYWHERE) {
                let name = self.registry().full_name(command.index).to_ascii_uppercase();
                return Err(Fail::new(format!(
                    "ERR {name} is not supported in a transaction whose home is another node"
                )));
            }
            commands.push(self.args_to_forward(command, request.args, session)?);
        }
        let client = away.map(|away| away.number());
        let call = call(session, slots, Vec::new());
        let call = RemoteCall { is_transaction: true, client, commands, ..call };
        // In a transaction nothing waits.
        let forwarding = Forwarding { calls: vec![call], merge: Merge::Only, may_wait: false };
        Ok(Verdict::Forward(Box::new(forwarding)))
    }

    /// A script writes only to keys whose changes this node orders, declared or not.
    fn place_in_script(
        &mut self,
        command: Command,
        request: &Request<'_>,
        cluster: &dyn Cluster,
    ) -> Result<Verdict, Fail> {
        admit_in_cluster(command)?;
        if command.spec.gate.contains(GateFlags::AT_ALL_HOMES) {
            return Err(no_part(command));
        }
        if command.spec.place == Place::Home {
            let mut slots = Vec::new();
            add_slots(command, request.args, cluster, &mut slots);
            if slots.iter().any(|&slot| cluster.home_of(slot) != Home::Here) {
                return Err(SCRIPT_AWAY);
            }
            self.admit_lease(cluster)?;
        }
        Ok(Verdict::Run)
    }
}

/// Refuses what there is none of in a cluster: what says so, and writes that name no key.
fn admit_in_cluster(command: Command) -> Result<(), Fail> {
    let spec = command.spec;
    let name = || spec.meta.name.to_ascii_uppercase();
    if spec.gate.contains(GateFlags::NOT_IN_CLUSTER) {
        return Err(Fail::new(format!("ERR {} is not supported in a cluster", name())));
    }
    let is_whole = spec.place == Place::Home && spec.meta.keys.is_empty();
    match is_whole && !spec.gate.contains(GateFlags::AT_ALL_HOMES) {
        true => Err(Fail::new(format!("ERR {} is not allowed in cluster mode", name()))),
        false => Ok(()),
    }
}

/// The error of a command that all homes execute where one node executes all.
fn no_part(command: Command) -> Fail {
    let name = command.spec.meta.name.to_ascii_uppercase();
    Fail::new(format!("ERR {name} is not supported in a transaction or script of a cluster"))
}

/// Has each home execute a command for its share.
fn at_all_homes(
    command: Command,
    args: &[&[u8]],
    session: &Session,
    cluster: &dyn Cluster,
) -> Result<Verdict, Fail> {
    let merge = match command.spec.meta.tips {
        [_, "response_policy:agg_min"] => Merge::Min,
        _ => Merge::Same,
    };
    let homes = cluster.slots_of_homes().ok_or(Fail::HOME_CHANGING)?;
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
    let calls = homes.into_iter().map(|mut slots| {
        if merge == Merge::Min {
            // It changes nothing: any slot leads there.
            slots.truncate(1);
        }
        call(session, slots, args.clone())
    });
    let forwarding = Forwarding { calls: calls.collect(), merge, may_wait: true };
    Ok(Verdict::Forward(Box::new(forwarding)))
}

/// Adds the hash slots of the keys of a call, each once, ascending. A count of keys that makes no
/// sense is the handler's to refuse.
pub(crate) fn add_slots(
    command: Command,
    args: &[&[u8]],
    cluster: &dyn Cluster,
    slots: &mut Vec<HashSlot>,
) {
    match command.spec.keys {
        _ if command.spec.place == Place::Here => {}
        KeyShape::None => {}
        KeyShape::First => slots.push(cluster.slot_of(args[1])),
        KeyShape::Specs => {
            let mut keys = Vec::new();
            if key_positions(command.spec.meta.keys, args, &mut keys).is_ok() {
                slots.extend(keys.iter().map(|key| cluster.slot_of(args[key.index as usize])));
                sort(slots);
            }
        }
    }
}

/// Whether a command may wait for its keys.
fn may_wait(command: Command, args: &[&[u8]]) -> bool {
    let spec = command.spec;
    let says_so = || args.iter().any(|arg| arg.eq_ignore_ascii_case(b"block"));
    spec.flags.contains(Flags::BLOCKING)
        && (!spec.gate.contains(GateFlags::BLOCKS_BY_OPTION) || says_so())
}

fn sort(slots: &mut Vec<HashSlot>) {
    slots.sort_unstable();
    slots.dedup();
}

/// The home of all these slots; none if they have several.
fn home_of(slots: &[HashSlot], cluster: &dyn Cluster) -> Option<Home> {
    let mut homes = slots.iter().map(|&slot| cluster.home_of(slot));
    let first = homes.next().unwrap_or(Home::Here);
    homes.all(|home| home == first).then_some(first)
}

fn call(session: &Session, slots: Vec<HashSlot>, command: Vec<Vec<u8>>) -> RemoteCall {
    let resp3 = session.protocol == Protocol::Resp3;
    RemoteCall { slots, db: session.db, resp3, commands: vec![command], ..RemoteCall::default() }
}

/// Splits a command that works on each key by itself into one for each home, as its tips say how;
/// none if it is no such command.
fn split(
    command: Command,
    args: &[&[u8]],
    session: &Session,
    cluster: &dyn Cluster,
) -> Option<Forwarding> {
    let meta = command.spec.meta;
    let merge = match meta.tips {
        ["request_policy:multi_shard", "response_policy:agg_sum"] => Merge::Sum,
        ["request_policy:multi_shard", "response_policy:all_succeeded"] => Merge::Same,
        _ => return None,
    };
    let mut keys = Vec::new();
    key_positions(meta.keys, args, &mut keys).ok()?;
    let step = args.len().checked_sub(1)?.checked_div(keys.len())?;
    if step * keys.len() + 1 != args.len() {
        return None;
    }
    let mut parts: Vec<(Home, RemoteCall)> = Vec::new();
    for part in args[1..].chunks(step) {
        let slot = cluster.slot_of(part[0]);
        let home = cluster.home_of(slot);
        let at = parts.iter().position(|(other, _)| *other == home).unwrap_or_else(|| {
            parts.push((home, call(session, Vec::new(), vec![args[0].to_vec()])));
            parts.len() - 1
        });
        let call = &mut parts[at].1;
        call.slots.push(slot);
        call.commands[0].extend(part.iter().map(|arg| arg.to_vec()));
    }
    let calls = parts.into_iter().map(|(_, mut call)| {
        sort(&mut call.slots);
        call
    });
    Some(Forwarding { calls: calls.collect(), merge, may_wait: false })
}
