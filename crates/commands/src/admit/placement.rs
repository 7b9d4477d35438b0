//! Placement of client commands in a cluster: here, at another node, or at several.
//!
//! A key's *primary* is that of its hash slot: the node that orders the slot's changes.
//!
//! ```text
//!  place    primaries of the keys   verdict
//!  Here     -                       runs here, once all replies of other nodes are there
//!  Read     all keys are held here  runs here
//!           else                     as below
//!  Primary  all this node           runs here
//!           one other node          forwarded; the connection continues (reply_slots.rs)
//!           several                 split if it works on each key by itself, else CROSSSLOT
//!  -        -                       agreed on by all members if marked so: FUNCTION LOAD
//! ```
//!
//! If members hold only some slots, all primaries execute commands that read a whole database
//! ([`whole_database`]).
//!
//! Commands of a connection that share a hash slot take effect in order: a local command waits for
//! forwarded ones, and forwarded ones stay in order on the way.

use super::copies::may_be_copied;
use super::redis_cluster::{reads_at_once, shares_for};
use super::supported::{admit_in_cluster, admit_log};
use super::tracked::{Tracked, forget};
use super::{Moment, Verdict};
use crate::arguments::cursor::parse_cursor;
use crate::cluster::{Call, Cluster, HashSlot, Primary, Rest};
use crate::ctx::Invocation;
use crate::execute::Executor;
use crate::fail::Fail;
use crate::host::Host;
use crate::keys::cluster_cursor::ClusterCursor;
use crate::modes::Modes;
use crate::random::Random;
use crate::reply_slots::{Merge, ReplySlots};
use crate::scripting::cache::{NO_SCRIPT, parse_sum};
use crate::server::state::ServerState;
use crate::session::Session;
use crate::spec::{Command, Flags, GateFlags, KeyShape, Queue, Request};
use petrel_resp::Protocol;
use petrel_table::keys::key_positions;
use petrel_table::{Place, bits};

/// A command for execution by other nodes.
#[derive(Debug)]
pub(crate) struct Forwarding {
    /// The call of each node.
    pub calls: Vec<Call>,
    /// Calls that follow a transaction, with parts of the reply of their own.
    pub rest: Option<Box<Rest>>,
    /// Combination of the replies.
    pub merge: Merge,
    /// Whether it may wait for its keys there. The connection executes nothing meanwhile.
    pub may_wait: bool,
    /// Position of each reply's elements in the combined reply ([`Merge::Places`]).
    pub places: Vec<Vec<u32>>,
    /// What a client that caches the reply needs.
    pub tracked: Tracked,
}

impl Forwarding {
    /// Creates calls that do not wait.
    fn of(calls: Vec<Call>, merge: Merge) -> Self {
        let (places, tracked) = (Vec::new(), Tracked::default());
        Forwarding { calls, rest: None, merge, may_wait: false, places, tracked }
    }
}

const SCRIPT_AWAY: Fail =
    Fail::fixed("ERR Script attempted to write to a key whose primary is another node");

const SCRIPT_READS_AWAY: Fail =
    Fail::fixed("ERR Script attempted to read a key that this node does not hold");

const LIMITED_SCRIPT: Fail = Fail::fixed(
    "ERR Scripts of users with limited permissions are not supported in a cluster at keys whose primary is another node",
);

const LIMITED_PATTERNS: Fail = Fail::fixed(
    "ERR BY and GET of users who may not read all keys are not supported in a cluster at keys whose primary is another node",
);

impl Executor {
    /// Decides where an admitted command is executed, unless it is queued by `MULTI`.
    #[inline]
    pub(super) fn place(
        &mut self,
        command: Command,
        invocation: Invocation<'_>,
        nested: bool,
    ) -> Verdict {
        let Invocation { request, session, host, moment, .. } = invocation;
        if !self.shared.is_in_state(ServerState::Clustered) {
            return match session.is(Modes::CLUSTER_CLIENT) {
                true => {
                    self.place_for_cluster_client(command, request, (session, host), moment, nested)
                }
                false => Verdict::Run,
            };
        }
        let is_part = nested || moment.contains(Moment::IN_SCRIPT);
        if !is_part
            && moment.contains(Moment::CLIENT)
            && let Some(verdict) = self.place_at_once(command, request, session)
        {
            return verdict;
        }
        if session.is(Modes::CLUSTER_CLIENT)
            && let refused @ Verdict::Refuse(_) =
                self.place_for_cluster_client(command, request, (session, host), moment, nested)
        {
            return refused;
        }
        let Some(cluster) = self.shared.cluster.get().cloned() else { return Verdict::Run };
        let placed = match moment.contains(Moment::IN_SCRIPT) {
            true => self.place_in_script(command, (request, session), moment, &*cluster),
            false if nested || !moment.contains(Moment::CLIENT) => Ok(Verdict::Run),
            false if command.spec.gate.contains(GateFlags::RUNS_QUEUE) => {
                self.place_transaction(session, &*cluster, host)
            }
            false => admit_log(command, request.args, host)
                .and_then(|()| self.place_command(command, request, session, &*cluster, true)),
        };
        placed.unwrap_or_else(Verdict::Refuse)
    }

    /// Fast path of [`Executor::place`]: a command with one key that runs here while no call to
    /// another node is pending. `None` if it is not such a command.
    fn place_at_once(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
    ) -> Option<Verdict> {
        let spec = command.spec;
        let is_special = bits!(GateFlags: NOT_IN_CLUSTER, AT_ALL_PRIMARIES, WATCHES, RUNS_QUEUE);
        if spec.keys != KeyShape::First
            || spec.flags.contains(Flags::BLOCKING)
            || spec.gate.intersects(is_special)
            || session.reply_slots().is_some_and(|waiting| !waiting.is_over())
        {
            return None;
        }
        let cluster = &**self.shared.cluster.get()?;
        let slot = cluster.slot_of(request.args.get(1)?);
        match spec.place {
            Place::Primary if cluster.primary_of(slot) == Primary::Here => {
                if !self.has_lease(cluster) {
                    return None;
                }
                if cluster.waits_for_owners() {
                    self.shown.add(slot);
                }
                Some(Verdict::Run)
            }
            Place::Read if reads_at_once(slot, session, cluster) => {
                if cluster.waits_for_owners() {
                    self.shown.add(slot);
                }
                Some(Verdict::Run)
            }
            Place::Read
                if !session.is(Modes::CLUSTER_CLIENT)
                    && may_be_copied(command, &[slot], cluster) =>
            {
                Some(Verdict::TryCopies)
            }
            _ => None,
        }
    }

    /// Places a command that has a key without a copy here.
    pub(super) fn place_elsewhere(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        cluster: &dyn Cluster,
    ) -> Verdict {
        let placed = self.place_command(command, request, session, cluster, false);
        placed.unwrap_or_else(Verdict::Refuse)
    }

    /// Rejects a command that cannot be part of a transaction in a cluster, before it is queued.
    pub(super) fn admit_queued(
        &self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        host: &dyn Host,
    ) -> Result<(), Fail> {
        if session.is(Modes::CLUSTER_CLIENT) {
            self.admit_slots(command, request, session, host)?;
        }
        match self.shared.is_in_state(ServerState::Clustered) {
            // In a transaction it does not wait for other members.
            true if command.spec.gate.contains(GateFlags::RUNS_ANYWHERE) => {
                admit_in_cluster(command)
            }
            // Other primaries execute it for their slots after the transaction.
            true if is_flush(command) => admit_in_cluster(command),
            true if self.is_no_part(command, session) => Err(self.no_part(command)),
            true => admit_in_cluster(command),
            false => Ok(()),
        }
    }

    fn is_at_all_primaries(&self, command: Command, session: &Session) -> bool {
        let gate = command.spec.gate;
        if session.is(Modes::CLUSTER_CLIENT) {
            // `SCAN` and `RANDOMKEY` run where the client is connected.
            return gate.contains(GateFlags::AT_ALL_PRIMARIES) || command.spec.meta.is_summed();
        }
        gate.contains(GateFlags::AT_ALL_PRIMARIES)
            || gate.contains(GateFlags::WHOLE_DATABASE) && self.shared.cluster_of_few().is_some()
    }

    /// Whether several nodes execute a command. It can then not be part of a transaction or script.
    fn is_no_part(&self, command: Command, session: &Session) -> bool {
        self.is_at_all_primaries(command, session) || command.spec.gate.contains(GateFlags::AGREED)
    }

    /// Error of such a command in a transaction or script.
    pub(super) fn no_part(&self, command: Command) -> Fail {
        let name = self.registry().full_name(command.index).to_ascii_uppercase();
        let anywhere = command.spec.gate.contains(GateFlags::RUNS_ANYWHERE);
        let whole = if anywhere || is_flush(command) { "script" } else { "transaction or script" };
        Fail::new(format!(
            "ERR {name} is not supported in a {whole} of a cluster: several members execute it, not all at one \
             moment; send it by itself"
        ))
    }

    fn place_command(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        cluster: &dyn Cluster,
        tries_copies: bool,
    ) -> Result<Verdict, Fail> {
        let spec = command.spec;
        admit_in_cluster(command)?;
        let waiting = session.reply_slots();
        let all = waiting.and_then(ReplySlots::last);
        if self.is_at_all_primaries(command, session) {
            return match all {
                Some(last) => Ok(Verdict::Await(last)),
                None if spec.gate.contains(GateFlags::WHOLE_DATABASE) => {
                    whole_database(command, request.args, session, cluster, &mut self.random)
                }
                None => at_all_primaries(command, request.args, session, cluster),
            };
        }
        if spec.gate.contains(GateFlags::AGREED) && self.draft.is_none() {
            return match all {
                Some(last) => Ok(Verdict::Await(last)),
                None => self.by_agreement(request.args, session, cluster),
            };
        }
        if spec.gate.contains(GateFlags::WATCHES) && session.in_multi() {
            // The handler rejects it.
            return Ok(Verdict::Run);
        }
        if spec.place == Place::Here {
            if spec.gate.contains(GateFlags::WHOLE_DATABASE) && cluster.waits_for_owners() {
                self.shown.add_all();
            }
            return Ok(all.map_or(Verdict::Run, Verdict::Await));
        }
        let mut slots = Vec::new();
        add_slots(command, request.args, cluster, &mut slots);
        self.place_by_keys(command, request, (session, cluster), slots, tries_copies)
    }

    /// Places a command by the hash slots of its keys.
    fn place_by_keys(
        &mut self,
        command: Command,
        request: &Request<'_>,
        (session, cluster): (&Session, &dyn Cluster),
        slots: Vec<HashSlot>,
        tries_copies: bool,
    ) -> Result<Verdict, Fail> {
        let (spec, waiting) = (command.spec, session.reply_slots());
        let all = waiting.and_then(ReplySlots::last);
        let is_held = spec.place == Place::Read && are_readable(&slots, cluster);
        let is_split = slots.len() > 1 && Split::of(command, request.args).is_some();
        let primary = match is_held {
            true => Some(Primary::Here),
            false => primary_of(&slots, cluster)
                .filter(|primary| !is_split || *primary != Primary::Changing),
        };
        // A primary that does not have the data yet cannot serve reads.
        let is_here = primary == Some(Primary::Here) && (is_held || spec.place != Place::Read);
        let waits = is_here
            && spec.place == Place::Primary
            && self.waits_for_lease(cluster, &slots)
            && self.args_to_forward(command, request.args, session).is_ok();
        if is_here && !waits {
            if spec.place == Place::Primary {
                self.admit_lease(cluster)?;
            }
            self.note_shown(&slots, cluster);
            cluster.note_slots(&slots);
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
            None if primary.is_some() => waiting.last_overlapping(&slots),
            None => waiting.last_of(&slots),
        });
        if let Some(until) = until.or_else(|| waiting.and_then(ReplySlots::full_until)) {
            return Ok(Verdict::Await(until));
        }
        // Copies of several slots are not of one moment.
        let may_be_copied =
            may_be_copied(command, &slots, cluster) && (slots.len() == 1 || is_split);
        // If commands of the same slots were forwarded before, it is forwarded, too, to keep their
        // order.
        if tries_copies && may_be_copied && waiting.and_then(|w| w.last_of(&slots)).is_none() {
            return Ok(Verdict::TryCopies);
        }
        let mut forwarding = match primary {
            Some(_) => {
                let args = self.args_to_forward(command, request.args, session)?;
                // A copy that arrives invalidates what clients here have read of the key.
                let wants_copies =
                    may_be_copied && slots.len() == 1 && session.tracking().is_none();
                let call = Call { wants_copies, ..call(session, slots, args) };
                let may_wait = may_wait(command, request.args);
                Forwarding { may_wait, ..Forwarding::of(vec![call], Merge::Only) }
            }
            None => {
                split(command, request.args, session, cluster).ok_or(Fail::SEVERAL_PRIMARIES)?
            }
        };
        forwarding.tracked = self.track_away(command, request.args, session, cluster)?;
        Ok(Verdict::Forward(Box::new(forwarding)))
    }

    /// Forwards a command that all members have to agree on, such as `FUNCTION LOAD`.
    fn by_agreement(
        &self,
        args: &[&[u8]],
        session: &Session,
        cluster: &dyn Cluster,
    ) -> Result<Verdict, Fail> {
        if !self.has_lease(cluster) {
            return Err(Fail::NO_MAJORITY);
        }
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        let calls = vec![call(session, Vec::new(), args)];
        let forwarding = Forwarding { may_wait: true, ..Forwarding::of(calls, Merge::Only) };
        Ok(Verdict::Forward(Box::new(forwarding)))
    }

    /// Whether changes of this node's slots wait until its lease is renewed, if they can be
    /// forwarded: to this node itself.
    fn waits_for_lease(&self, cluster: &dyn Cluster, slots: &[HashSlot]) -> bool {
        !slots.is_empty() && !self.has_lease(cluster) && cluster.awaits_lease()
    }

    /// Rejects changes on this node if its lease has ended, since others may take it for failed.
    fn admit_lease(&self, cluster: &dyn Cluster) -> Result<(), Fail> {
        if self.has_lease(cluster) { Ok(()) } else { Err(Fail::SLOT_UNSERVED) }
    }

    /// The arguments of a forwarded command.
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
                "ERR {name} is not supported in a cluster at keys whose primary is another node"
            )));
        }
        if spec.flags.contains(Flags::SCRIPT_RUNNER)
            && self.restricts(session)
            && !self.user(session).is_some_and(|user| user.may_do_everything())
        {
            return Err(LIMITED_SCRIPT);
        }
        // The other node does not know the user, and would read keys that match the patterns of any
        // option.
        let has_patterns =
            |arg: &&[u8]| arg.eq_ignore_ascii_case(b"BY") || arg.eq_ignore_ascii_case(b"GET");
        if spec.flags.contains(Flags::TOUCHES_ARBITRARY_KEYS)
            && args.iter().skip(2).any(has_patterns)
            && self.restricts(session)
            && !self.permissions(session).is_some_and(|own| own.read_every_key(command, args))
        {
            return Err(LIMITED_PATTERNS);
        }
        let mut args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
        // The script's text is part of the call, because the other node may not know it.
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

    /// Places a transaction. One node executes it: this one if it is the primary of all keys, or if
    /// all commands only read slots that are readable here.
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
            only_reads &= command.spec.place != Place::Primary;
            add_slots(command, request.args, cluster, &mut slots);
        }
        sort(&mut slots);
        let primary = primary_of(&slots, cluster).ok_or(Fail::SEVERAL_PRIMARIES);
        let is_watch_lost = match primary {
            Ok(Primary::Here) => away.is_some(),
            Ok(Primary::At(_) | Primary::Changing) => !transaction.watched.is_empty(),
            Err(_) => false,
        };
        if is_watch_lost {
            // The primary of the watched keys has changed since the watch began.
            return Ok(Verdict::Abandon);
        }
        if only_reads && are_readable(&slots, cluster) {
            self.note_shown(&slots, cluster);
            return Ok(Verdict::Run);
        }
        let primary = primary?;
        let rest = self.rest_of(&transaction.queued, session, cluster, host)?;
        let waits = primary == Primary::Here
            && transaction.watched.is_empty()
            && self.waits_for_lease(cluster, &slots)
            && self.queue_to_forward(&transaction.queued, session, cluster, host).is_ok();
        if primary == Primary::Here && !only_reads && !waits {
            self.admit_lease(cluster)?;
            self.note_shown(&slots, cluster);
            cluster.note_slots(&slots);
            let Some(rest) = rest else { return Ok(Verdict::Run) };
            // Invalidations of the read keys may arrive before the reply.
            let mut after = Vec::new();
            for request in transaction.queued.requests(&args) {
                let Some(command) = request.command else { continue };
                after.extend(forget(command, request.args, session));
            }
            return Ok(Verdict::RunWithRest(Box::new((*rest, after))));
        }
        let (call, tracked) = self.queue_to_forward(&transaction.queued, session, cluster, host)?;
        let client = away.map(|away| away.number());
        let places = rest.iter().map(|rest| rest.places.clone()).collect();
        let (may_wait, merge) = match rest.is_some() {
            true => (true, Merge::Transaction),
            // Commands in a transaction do not wait.
            false => (false, Merge::Only),
        };
        let forwarding = Forwarding::of(vec![Call { slots, client, ..call }], merge);
        Ok(Verdict::Forward(Box::new(Forwarding { rest, may_wait, places, tracked, ..forwarding })))
    }

    /// The call with which another node executes a transaction.
    fn queue_to_forward(
        &mut self,
        queue: &Queue,
        session: &Session,
        cluster: &dyn Cluster,
        host: &mut dyn Host,
    ) -> Result<(Call, Tracked), Fail> {
        let (mut commands, mut tracked) = (Vec::new(), Tracked::default());
        let args = queue.args();
        for request in queue.requests(&args) {
            let Some(command) = request.command else { continue };
            self.admit_user(command, request.args, session, host)?;
            let spec = command.spec;
            if spec.place == Place::Here && !spec.gate.contains(GateFlags::RUNS_ANYWHERE) {
                let name = self.registry().full_name(command.index).to_ascii_uppercase();
                return Err(Fail::new(format!(
                    "ERR {name} is not supported in a transaction whose primary is another node"
                )));
            }
            tracked.add(self.track_away(command, request.args, session, cluster)?);
            commands.push(self.args_to_forward(command, request.args, session)?);
        }
        Ok((
            Call { is_transaction: true, commands, ..call(session, Vec::new(), Vec::new()) },
            tracked,
        ))
    }

    /// Checks a command that a script calls. It may write only keys that this node is the primary
    /// of, and read only keys that are held here, declared or not.
    fn place_in_script(
        &mut self,
        command: Command,
        (request, session): (&Request<'_>, &Session),
        moment: Moment,
        cluster: &dyn Cluster,
    ) -> Result<Verdict, Fail> {
        admit_in_cluster(command)?;
        if self.is_no_part(command, session) {
            return Err(self.no_part(command));
        }
        let holds_all = cluster.holds_all();
        let mut slots = Vec::new();
        if command.spec.place == Place::Primary || !holds_all || cluster.waits_for_owners() {
            add_slots(command, request.args, cluster, &mut slots);
        }
        if command.spec.place == Place::Primary {
            if slots.iter().any(|&slot| cluster.primary_of(slot) != Primary::Here) {
                return Err(SCRIPT_AWAY);
            }
            // The script is one transaction, like that of `EXEC`.
            if !moment.contains(Moment::HAS_WRITTEN) {
                self.admit_lease(cluster)?;
            }
        }
        if !are_readable(&slots, cluster) {
            return Err(SCRIPT_READS_AWAY);
        }
        self.note_shown(&slots, cluster);
        cluster.note_more_slots(&slots);
        Ok(Verdict::Run)
    }

    /// Records the slots of the keys that a command shows to its client.
    fn note_shown(&mut self, slots: &[HashSlot], cluster: &dyn Cluster) {
        if cluster.waits_for_owners() {
            self.shown.add_each(slots);
        }
    }
}

/// Whether a command removes keys of all primaries.
pub(super) fn is_flush(command: Command) -> bool {
    let spec = command.spec;
    spec.gate.contains(GateFlags::AT_ALL_PRIMARIES) && spec.flags.contains(Flags::WRITE)
}

/// Forwards a command to all primaries, for their slots.
fn at_all_primaries(
    command: Command,
    args: &[&[u8]],
    session: &Session,
    cluster: &dyn Cluster,
) -> Result<Verdict, Fail> {
    let merge = match command.spec.meta.tip("response_policy") {
        Some("agg_min") => Merge::Min,
        Some("agg_sum") => Merge::Sum,
        Some(_) => Merge::Same,
        None => Merge::Joined,
    };
    let primaries = shares_for(session, cluster)?;
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
    let calls = primaries.into_iter().map(|mut slots| {
        if merge == Merge::Min {
            // Without changes, any slot of a primary will do to address it.
            slots.truncate(1);
        }
        call(session, slots, args.clone())
    });
    let forwarding = Forwarding { may_wait: true, ..Forwarding::of(calls.collect(), merge) };
    Ok(Verdict::Forward(Box::new(forwarding)))
}

/// Forwards a command that reads a whole database. Either all primaries execute it and the replies
/// are combined, or one of the replies is taken, or only the primary that a cursor belongs to
/// executes it.
fn whole_database(
    command: Command,
    args: &[&[u8]],
    session: &Session,
    cluster: &dyn Cluster,
    random: &mut Random,
) -> Result<Verdict, Fail> {
    let meta = command.spec.meta;
    if meta.is_summed() {
        return at_all_primaries(command, args, session, cluster);
    }
    let primaries = cluster.primaries().ok_or(Fail::PRIMARY_CHANGING)?;
    let primaries = match meta.tip("request_policy") {
        Some("special") => {
            // An invalid cursor is left to the handler, which returns the error.
            let at =
                args.get(1).and_then(|arg| parse_cursor(arg)).map_or(0, ClusterCursor::primary);
            vec![primaries.get(at).or(primaries.first()).copied().ok_or(Fail::PRIMARY_CHANGING)?]
        }
        _ => primaries,
    };
    // Any slot of a primary will do to address it.
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
    let calls: Vec<_> =
        primaries.iter().map(|&slot| call(session, vec![slot], args.clone())).collect();
    let merge = if calls.len() == 1 { Merge::Only } else { Merge::First };
    let places = calls.iter().map(|_| vec![random.next() as u32]).collect();
    let forwarding = Forwarding { may_wait: true, places, ..Forwarding::of(calls, merge) };
    Ok(Verdict::Forward(Box::new(forwarding)))
}

/// Adds the hash slots of the keys of a call, each once, ascending. An invalid number of keys is
/// left to the handler.
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

pub(super) fn sort(slots: &mut Vec<HashSlot>) {
    slots.sort_unstable();
    slots.dedup();
}

/// The primary of all these slots; `None` if there are several. While one changes it may become
/// that of the others.
fn primary_of(slots: &[HashSlot], cluster: &dyn Cluster) -> Option<Primary> {
    let primaries = || slots.iter().map(|&slot| cluster.primary_of(slot));
    let first = primaries().next().unwrap_or(Primary::Here);
    if primaries().all(|primary| primary == first) {
        return Some(first);
    }
    primaries().find(|primary| *primary == Primary::Changing)
}

/// Whether all these slots may be read here.
fn are_readable(slots: &[HashSlot], cluster: &dyn Cluster) -> bool {
    cluster.holds_all() || slots.iter().all(|&slot| cluster.is_readable(slot))
}

pub(super) fn call(session: &Session, slots: Vec<HashSlot>, command: Vec<Vec<u8>>) -> Call {
    let resp3 = session.protocol == Protocol::Resp3;
    Call { slots, db: session.db, resp3, commands: vec![command], ..Call::default() }
}

/// A call that can be split because its command works on each key by itself, as its tips show.
struct Split {
    /// Combination of the replies to its parts.
    merge: Merge,
    /// Number of arguments for each key, including the key, which is the first.
    step: usize,
}

impl Split {
    fn of(command: Command, args: &[&[u8]]) -> Option<Self> {
        let meta = command.spec.meta;
        let merge = match meta.tips {
            ["request_policy:multi_shard", "response_policy:agg_sum"] => Merge::Sum,
            ["request_policy:multi_shard", "response_policy:all_succeeded"] => Merge::Same,
            ["request_policy:multi_shard"] => Merge::Places,
            _ => return None,
        };
        let mut keys = Vec::new();
        key_positions(meta.keys, args, &mut keys).ok()?;
        let step = args.len().checked_sub(1)?.checked_div(keys.len())?;
        (step * keys.len() + 1 == args.len()).then_some(Split { merge, step })
    }
}

/// Splits a command that works on each key by itself into one call for each primary; `None` for
/// other commands.
fn split(
    command: Command,
    args: &[&[u8]],
    session: &Session,
    cluster: &dyn Cluster,
) -> Option<Forwarding> {
    let Split { merge, step } = Split::of(command, args)?;
    let mut parts: Vec<(Primary, Call, Vec<u32>)> = Vec::new();
    for (place, part) in (0..).zip(args[1..].chunks(step)) {
        let slot = cluster.slot_of(part[0]);
        let primary = cluster.primary_of(slot);
        let at = parts.iter().position(|(other, ..)| *other == primary).unwrap_or_else(|| {
            parts.push((primary, call(session, Vec::new(), vec![args[0].to_vec()]), Vec::new()));
            parts.len() - 1
        });
        let (_, call, places) = &mut parts[at];
        call.slots.push(slot);
        call.commands[0].extend(part.iter().map(|arg| arg.to_vec()));
        places.push(place);
    }
    let mut forwarding = Forwarding::of(Vec::new(), merge);
    for (_, mut call, places) in parts {
        sort(&mut call.slots);
        forwarding.calls.push(call);
        if merge == Merge::Places {
            forwarding.places.push(places);
        }
    }
    Some(forwarding)
}
