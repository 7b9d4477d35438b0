//! Simulation run: nodes, links, clients, and an adversary that delays, breaks and stalls links,
//! pauses and kills nodes, and moves slots. Afterwards faults stop, and all nodes' data are
//! compared.

mod chains;
mod commands;
mod join;
mod messages;
mod owners;
mod plan;
mod recovery;
mod rest;
mod stop;
mod views;

use crate::connection::{Connection, PIPELINE_MAX, Pending, State};
use crate::fault::Fault;
use crate::link::Links;
use crate::machine::{Machine, START_MS, Waiter};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::witness::Witness;
use crate::workload::{GROUPS, Op, Workload, group_begin, used_slots};
use commands::{has_copies, start, take_replies};
use messages::Written;
use petrel_cluster::mutation::{break_rule, is_endless, limit_turns};
use petrel_cluster::wire::{Tag, WaitEnd};
use petrel_cluster::{
    Acknowledge, ClusterNode, Identity, Limits, Node, NodeSet, Received, Route, SLOTS, SlotMap,
    View,
};
pub use plan::Plan;
use plan::Rates;
use recovery::{Doomed, Recovery};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

struct Member {
    core: ClusterNode,
    /// Last command that has read something.
    last_read: Option<Op>,
    machine: Machine,
    connections: Vec<Connection>,
    is_alive: bool,
    has_data: bool,
    /// Time at which it received its data.
    data_since: u64,
    paused_until: u64,
    skew_ms: i64,
    /// Forwarded commands: connection and tag by token.
    away: BTreeMap<u64, (usize, Tag)>,
    /// Forwarded commands that are blocked.
    parked: BTreeSet<u64>,
    /// Groups of slots that it has imported, as of this epoch and number of arrivals.
    arrived: ((u64, u64), Vec<u16>),
    /// Some of its clients' last changes, to be checked against acknowledgements.
    written: VecDeque<Written>,
    /// Positions of slots of which it was the only owner until then, by slot.
    alone: BTreeMap<u16, u64>,
    log: stop::Log,
}

impl Member {
    /// Notifies the origins of blocked commands that they have to be forwarded again.
    fn send_back(&mut self, dismissed: Vec<Arc<Waiter>>) {
        for waiter in dismissed {
            self.core.end_of_wait(waiter.tag, &waiter.slots, None);
        }
    }

    /// Restarts lost slots: this node becomes their owner although no member has their data.
    fn restart_slots(&mut self, view: &View) {
        let (me, before, arrived) =
            (self.core.identity().node, &self.core.view().slots, self.core.arrived());
        let begins = |slot: &u16| {
            let had_data = before.owners(*slot).contains(&me) || arrived.contains(*slot);
            view.slots.primary(*slot) == Some(me) && !had_data
        };
        for slot in used_slots().filter(begins) {
            self.machine.restart_slot(slot);
        }
    }

    /// Records the positions of slots of which this node was the only owner, and which get others:
    /// changes up to these count as safe, and may not have arrived there yet.
    fn record_alone(&mut self, view: &View) {
        let (me, before) = (self.core.identity().node, &self.core.view().slots);
        for slot in used_slots() {
            if before.owners(slot) == [me] && view.slots.owners(slot).len() > 1 {
                self.alone.insert(slot, self.machine.position(slot));
            }
        }
    }

    fn new(
        core: ClusterNode,
        machine: Machine,
        connections: Vec<Connection>,
        skew_ms: i64,
    ) -> Self {
        let mut machine = machine;
        machine.notify_by(core.lanes().clone());
        let (is_alive, has_data, paused_until) = (true, true, 0);
        let (away, parked) = (BTreeMap::new(), BTreeSet::new());
        Member {
            last_read: None,
            core,
            machine,
            connections,
            is_alive,
            has_data,
            data_since: 0,
            paused_until,
            skew_ms,
            away,
            parked,
            arrived: ((0, 0), Vec::new()),
            written: VecDeque::new(),
            alone: BTreeMap::new(),
            log: stop::Log::default(),
        }
    }
}

struct World {
    random: Random,
    now: u64,
    members: Vec<Member>,
    links: Links,
    /// Times at which broken links are restored.
    broken: BTreeMap<(u16, u16), u64>,
    views: Vec<View>,
    witness: Rc<RefCell<Witness>>,
    workload: Workload,
    /// Dead members that no view has removed yet, and the times at which one will.
    dying: Vec<(Identity, u64)>,
    /// Recovery from the last death, until it is over.
    recovery: Option<Recovery>,
    /// A member that dies soon.
    doomed: Option<Doomed>,
    tokens: u64,
    /// Copies and slot data in transfer, by receiver and sender.
    copies: BTreeMap<(Identity, u16), join::Sent>,
    limits: Limits,
    plan: Plan,
    outcome: Outcome,
    /// Mean number of steps between the adversary's actions.
    rates: Rates,
    /// Decides when logs are looked at, so that a run goes on as without them.
    stops: Random,
}

/// Maximum number of steps for each command of a client. Beyond that the run does not end, and the
/// views and the checker would grow without bound.
const STEPS_MAX: u64 = 3000;

/// Maximum number of turns of the loops in a step.
const TURNS_MAX: u64 = 100_000;

/// Runs a plan to its end, or to the first violations.
pub fn run(plan: Plan) -> Outcome {
    break_rule(match plan.wrong {
        Some(Fault::Rule(mutation)) => Some(mutation),
        _ => None,
    });
    let mut world = World::new(plan);
    let mut left = plan.ops;
    while left > 0 && world.witness.borrow().violations.is_empty() {
        left = left.saturating_sub(world.step(true));
        world.check_end(STEPS_MAX * plan.ops.max(100));
    }
    if world.witness.borrow().violations.is_empty() {
        world.rest();
    }
    break_rule(None);
    limit_turns(u64::MAX);
    world.finish()
}

impl World {
    fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let count = 3 + random.below(5) as u16;
        let is_safe = plan.acknowledge > 1 && plan.deaths < 2;
        let witness = Witness::new(plan.copies.is_some(), is_safe);
        let witness = Rc::new(RefCell::new(witness));
        let identity = |node: u16| Identity { node: Node(node), incarnation: 1 };
        let primaries: Vec<Node> =
            (0..GROUPS).map(|_| Node(random.below(count.into()) as u16)).collect();
        let members: Vec<Identity> = (0..count).map(identity).collect();
        let mut view = View { epoch: 1, slots: map(&members, &primaries), members, incoming: None };
        if let Some(copies) = plan.copies {
            let beside = |primary: &Node| owners::beside(*primary, copies, count);
            view = owners::view(1, view.members, &primaries.iter().map(beside).collect::<Vec<_>>());
        }
        let backlog = if random.one_in(4) { 400 << 10 } else { 64 << 20 };
        let copy_idle = if random.one_in(2) { 1 } else { 60 };
        let (acknowledge, chains) = (plan.acknowledge, plan.chains);
        let limits =
            Limits { backlog, copy_idle, acknowledge, chains, batch: 4 << 10, ..Limits::default() };
        let mut members = Vec::new();
        for &identity in &view.members {
            let mut machine = Machine::new(identity, random.bits(), witness.clone());
            let core = ClusterNode::new(identity, view.clone(), limits);
            let expires_all = plan.wrong == Some(Fault::ExpiresEverywhere);
            machine.join(core.sinks(), core.ownership(), expires_all);
            machine.wrong = plan.wrong;
            machine.may_misfit = plan.deaths > 1;
            let connections = (0..2 + random.index(2)).map(|_| Connection::default()).collect();
            let skew_ms = random.below(60) as i64 - 30;
            witness.borrow_mut().adopts(identity, view.clone());
            World::begin_log(plan.always, &core);
            members.push(Member::new(core, machine, connections, skew_ms));
        }
        let mut workload = Workload::new(plan.copies.is_some());
        let rates = Rates::new(&mut random, &plan, &mut workload);
        let mut world = World {
            random,
            now: 1,
            members,
            links: Links::default(),
            broken: BTreeMap::new(),
            views: vec![view],
            witness,
            workload,
            dying: Vec::new(),
            recovery: None,
            doomed: None,
            tokens: 0,
            copies: BTreeMap::new(),
            limits,
            plan,
            outcome: Outcome::default(),
            rates,
            stops: Random::new(!plan.seed),
        };
        for a in 0..count {
            for b in a + 1..count {
                world.connect(a, b);
            }
        }
        world
    }

    fn connect(&mut self, a: u16, b: u16) {
        for (from, to) in [(a, b), (b, a)] {
            let window = match self.random.one_in(5) {
                true => 600,
                false => 16 << 10,
            };
            self.links.insert((from, to), window);
            self.members[usize::from(from)].core.link(Node(to));
        }
    }

    fn disconnect(&mut self, a: u16, b: u16) {
        for (from, to) in [(a, b), (b, a)] {
            self.links.remove(&(from, to));
            let member = &mut self.members[usize::from(from)];
            member.core.unlink(Node(to));
            let dismissed = member.machine.dismiss(|waiter| waiter.tag.origin.node == Node(to));
            member.send_back(dismissed);
        }
    }

    /// Performs one random action; returns 1 if it was a client's command.
    fn step(&mut self, with_clients: bool) -> u64 {
        if self.random.one_in(4) {
            self.now += self.random.below(3);
        }
        if (self.plan.joins || self.plan.copies.is_some()) && self.random.one_in(10) {
            self.connect_members();
            self.copy_some();
            self.appoint_arrived();
        }
        limit_turns(TURNS_MAX);
        self.outcome.steps += 1;
        let mut ops = 0;
        match self.random.below(100) {
            0..35 if with_clients => ops = self.client(),
            0..35 => {}
            35..60 => self.deliver(),
            60..80 => self.transmit(with_clients),
            80..95 => self.serve_clients(),
            95..97 => self.expire(),
            _ => self.adopt_some(),
        }
        if self.plan.chains && self.random.one_in(40) {
            self.review_chains(with_clients);
        }
        if self.plan.chains && self.random.one_in(200) {
            self.check_questions();
        }
        self.flush_some();
        self.compare_acknowledged();
        self.look_at_logs();
        if with_clients {
            self.publish();
            self.misbehave();
        } else {
            self.repair(true);
            if self.random.one_in(64) && self.may_lose_another() {
                self.cut_laggards_off();
            }
        }
        self.bury();
        ops
    }

    /// Reports a run that does not end, and why.
    fn check_end(&mut self, most: u64) {
        let text = if is_endless() {
            "a step does not end"
        } else if self.outcome.steps > most {
            "the run does not end"
        } else {
            return;
        };
        let text = format!("{text}: {}", self.explain_unrest());
        self.witness.borrow_mut().violation(text);
    }

    fn is_awake(&self, node: u16) -> bool {
        let member = &self.members[usize::from(node)];
        member.is_alive && member.paused_until <= self.now
    }

    fn any_awake(&mut self) -> Option<u16> {
        let node = self.random.index(self.members.len()) as u16;
        self.is_awake(node).then_some(node)
    }

    fn set_member_time(&mut self, node: u16) {
        let member = &mut self.members[usize::from(node)];
        member.machine.set_time(START_MS + self.now as i64 + member.skew_ms);
    }

    /// A client sends a command.
    fn client(&mut self) -> u64 {
        let Some(node) = self.any_awake() else { return 0 };
        self.set_member_time(node);
        let member = &mut self.members[usize::from(node)];
        if !member.has_data {
            return 0;
        }
        let at = self.random.index(member.connections.len());
        if member.connections[at].pending.len() >= PIPELINE_MAX {
            return 0;
        }
        self.workload.primaries = primaries(member.core.view());
        let mut ops = if self.random.one_in(16) {
            self.workload.watched(&mut self.random, self.tokens + 1)
        } else if self.random.one_in(150) {
            vec![self.workload.flush(&mut self.random)]
        } else if self.plan.chains && self.random.one_in(4) {
            vec![self.workload.across(&mut self.random, member.machine.now_ms)]
        } else {
            let op = self.workload.draw(&mut self.random, member.machine.now_ms);
            let read = self.workload.read_after(&mut self.random, &op);
            std::iter::once(op).chain(read).collect()
        };
        if self.plan.copies.is_some() {
            // Keys read before may be present as copies by now.
            ops.extend(member.last_read.clone().filter(|_| self.random.one_in(2)));
            if let Some(read) = ops.iter().rfind(|op| !op.reads.is_empty()) {
                member.last_read = Some(read.clone());
            }
        }
        let count = ops.len() as u64;
        for op in ops {
            self.tokens += 1;
            let pending = Pending { token: self.tokens, op, state: State::Waiting };
            member.connections[at].pending.push_back(pending);
        }
        self.serve_connection(node, at);
        count
    }

    fn serve_clients(&mut self) {
        let Some(node) = self.any_awake() else { return };
        for at in 0..self.members[usize::from(node)].connections.len() {
            self.serve_connection(node, at);
        }
    }

    /// Executes or forwards the commands of a connection that can be, and delivers replies.
    fn serve_connection(&mut self, node: u16, at: usize) {
        self.set_member_time(node);
        let reads_past_writes = self.plan.wrong == Some(Fault::ReadsPastWrites);
        let member = &mut self.members[usize::from(node)];
        let identity = member.core.identity();
        let next = |member: &mut Member| {
            let Member { core, machine, connections, .. } = member;
            let reads_here = |op: &Op| {
                core.route_read(&op.slots) == Route::Here || has_copies(core, machine, op)
            };
            connections[at].next(reads_past_writes, reads_here)
        };
        while let Some(next) = next(member).filter(|_| !is_endless()) {
            let Pending { token, op, .. } = &member.connections[at].pending[next];
            let (token, op) = (*token, op.clone());
            let is_copied = member.core.route_read(&op.slots) != Route::Here
                && has_copies(&member.core, &mut member.machine, &op);
            self.outcome.near += u64::from(is_copied);
            let Some(state) = start(member, (at, token), &op, &self.witness) else { break };
            member.connections[at].pending[next].state = state;
        }
        if self.random.one_in(8) {
            // Timeout of blocked commands.
            for token in member.parked.clone() {
                member.core.cancel(token, WaitEnd::Timeout, &mut member.machine);
            }
        }
        take_replies(member, &self.witness, &mut self.outcome);
        self.write_log(node);
        let member = &mut self.members[usize::from(node)];
        let mut witness = self.witness.borrow_mut();
        let lanes = member.core.lanes().clone();
        member.connections[at].release(|need| lanes.is_safe(need));
        self.outcome.replies += member.connections[at].reply(identity, &mut witness);
    }

    /// Delivers some bytes of a link.
    fn deliver(&mut self) {
        let some = self.random.index(self.links.len().max(1));
        let Some(((from, to), direction)) = self.links.nth(some) else { return };
        let receiver = &self.members[usize::from(to)];
        if !receiver.is_alive || receiver.paused_until > self.now || direction.is_early {
            return;
        }
        let Some(bytes) = direction.pipe.pull(self.now, &mut self.random) else { return };
        self.receive(from, to, &bytes);
    }

    fn receive(&mut self, from: u16, to: u16, bytes: &[u8]) {
        self.set_member_time(to);
        let member = &mut self.members[usize::from(to)];
        if !member.core.is_linked(Node(from)) {
            return;
        }
        let before = chains::progress(&member.core);
        let received = member.core.receive(Node(from), bytes, &mut member.machine);
        member.machine.report();
        let has_advanced = chains::has_advanced(before, chains::progress(&member.core));
        let has_replies = take_replies(member, &self.witness, &mut self.outcome);
        match received {
            Ok(received) => {
                if let Some(direction) = self.links.get_mut(&(from, to)) {
                    direction.is_early = received == Received::Early;
                }
            }
            Err(error) => {
                let text = format!("node {to} cannot read what node {from} has sent: {error}");
                self.witness.borrow_mut().violation(text);
            }
        }
        // Commands that waited for a reply continue immediately.
        if has_replies {
            for at in 0..self.members[usize::from(to)].connections.len() {
                self.serve_connection(to, at);
            }
        }
        if has_advanced {
            self.strike(to);
        }
    }

    /// Lets a node send pending frames.
    fn transmit(&mut self, with_clients: bool) {
        let some = self.random.index(self.links.len().max(1));
        let Some(((from, to), direction)) = self.links.nth(some) else { return };
        let sender = &mut self.members[usize::from(from)];
        let is_awake = sender.is_alive && sender.paused_until <= self.now;
        if !is_awake || direction.pipe.len() >= direction.window {
            return;
        }
        if self.plan.acknowledge > 1 && self.random.one_in(40) {
            let all = !self.random.one_in(4);
            let mut some = || NodeSet(if all { u64::MAX } else { self.random.bits() });
            let (keepers, answering) = (some(), some());
            let keepers = if self.plan.always { NodeSet::default() } else { keepers };
            sender.core.lanes().set_keepers(keepers, answering);
        }
        self.write_log(from);
        let Some(direction) = self.links.get_mut(&(from, to)) else { return };
        let sender = &mut self.members[usize::from(from)];
        let mut bytes = Vec::new();
        // Often only one lane, so that the others lag.
        let budget = if self.random.one_in(2) { 1 } else { 1 + self.random.index(8192) };
        // Acknowledgements may be delayed, but are sent eventually.
        let acknowledge = match self.random.one_in(2) {
            true => Acknowledge::Now,
            false => Acknowledge::WithRecords,
        };
        // As if a WAIT began or ended.
        sender.core.want_acks(with_clients && self.random.one_in(8));
        if sender.core.send(Node(to), budget, acknowledge, &mut bytes).is_any {
            let delay = self.random.below(4);
            direction.pipe.push(self.now + delay, bytes);
        }
    }

    fn expire(&mut self) {
        let Some(node) = self.any_awake() else { return };
        self.set_member_time(node);
        let number = self.random.one_in(20).then(|| self.random.below(9));
        let machine = &mut self.members[usize::from(node)].machine;
        if let Some(number) = number {
            machine.load_library(number);
        }
        machine.compare_survivors();
        machine.expire();
        machine.report();
    }

    /// Lets a node adopt the next view.
    fn adopt_some(&mut self) {
        let Some(node) = self.any_awake() else { return };
        self.set_member_time(node);
        let member = &mut self.members[usize::from(node)];
        let next = member.core.view().epoch as usize;
        let Some(view) = self.views.get(next) else { return };
        self.witness.borrow_mut().adopts(member.core.identity(), view.clone());
        let me = Some(Node(node));
        let dismissed = member.machine.dismiss(|waiter| {
            let origin = waiter.tag.origin;
            view.member(origin.node) != Some(origin)
                || waiter.slots.iter().any(|&slot| view.slots.primary(slot) != me)
        });
        if self.plan.wrong != Some(Fault::KeepsWatches) {
            member.machine.drop_watches(|origin, slot| {
                view.member(origin.node) != Some(origin) || view.slots.primary(slot) != me
            });
        }
        let is_member = |origin: Identity| view.member(origin.node) == Some(origin);
        member.machine.end_flushes(is_member);
        if self.plan.copies.is_some() {
            member.restart_slots(view);
            member.record_alone(view);
        }
        let adopted = member.core.begin_view(view.clone());
        if member.core.has_missed_changes() {
            member.machine.forget_cached();
        }
        member.machine.forget_readers(is_member);
        member.send_back(dismissed);
        member.core.resume_pending(&mut member.machine);
        member.machine.report();
        take_replies(member, &self.witness, &mut self.outcome);
        if !adopted {
            self.witness
                .borrow_mut()
                .violation(format!("node {node} does not adopt the view after {next}"));
        }
        for from in 0..self.members.len() as u16 {
            let direction = self.links.get_mut(&(from, node));
            if direction.is_some_and(|direction| std::mem::take(&mut direction.is_early)) {
                self.receive(from, node, &[]);
            }
        }
    }

    /// Performs random actions of the adversary.
    fn misbehave(&mut self) {
        if self.random.one_in(self.rates.reset) {
            let some = self.random.index(self.links.len().max(1));
            if let Some(((a, b), _)) = self.links.nth(some) {
                self.disconnect(a, b);
                self.broken.insert((a.min(b), a.max(b)), self.now + self.random.below(60));
                self.outcome.resets += 1;
            }
        }
        if self.random.one_in(self.rates.stall) {
            let until = self.now + self.random.below(200);
            let some = self.random.index(self.links.len().max(1));
            if let Some((_, direction)) = self.links.nth(some) {
                direction.pipe.stall(until);
            }
        }
        if self.random.one_in(self.rates.pause) {
            let until = self.now + self.random.below(300);
            let node = self.random.index(self.members.len());
            self.members[node].paused_until = until;
        }
        if self.random.one_in(self.rates.moves) {
            match self.plan.copies {
                Some(copies) => self.move_owners(copies),
                None => self.move_slots(),
            }
        }
        // In most runs views come no faster than members can follow.
        let pace = self.rates.pace * self.links.len() as u64;
        if self.plan.chains && self.random.one_in(1 + self.rates.moves / 16 + pace) {
            self.move_lent();
        }
        if self.plan.joins && self.random.one_in(self.rates.join) {
            self.join();
        }
        self.let_die();
        if self.random.one_in(8) && self.may_lose_another() {
            self.cut_laggards_off();
        }
        self.repair(false);
    }

    /// Restores links that are due.
    fn repair(&mut self, all: bool) {
        let due: Vec<(u16, u16)> = self
            .broken
            .iter()
            .filter(|&(_, &at)| all || at <= self.now)
            .map(|(&link, _)| link)
            .collect();
        for (a, b) in due {
            self.broken.remove(&(a, b));
            for (at, lost) in [(a, b), (b, a)] {
                if self.is_awake(at) && self.random.one_in(3) {
                    self.give_up(at, lost);
                }
            }
            let is_member = |node: u16| self.members[usize::from(node)].is_alive;
            if is_member(a) && is_member(b) {
                self.connect(a, b);
            }
        }
    }

    /// Lets a node give up its commands at an unreachable node.
    fn give_up(&mut self, at: u16, lost: u16) {
        self.set_member_time(at);
        let member = &mut self.members[usize::from(at)];
        let count = member.core.give_up(Node(lost));
        member.machine.report();
        self.outcome.unreachable += count as u64;
        if take_replies(member, &self.witness, &mut self.outcome) {
            for connection in 0..member.connections.len() {
                self.serve_connection(at, connection);
            }
        }
    }

    /// Lets a node commit to several lanes, and sends only one of them, or all to one node.
    fn send_half_of_a_commit(&mut self, node: u16) {
        self.set_member_time(node);
        let member = &mut self.members[usize::from(node)];
        let is_primary = |group: &u16| {
            let begin = crate::workload::group_begin(*group);
            member.core.route(&[begin, begin + 1, begin + 2]) == Route::Here
        };
        let Some(group) = (0..GROUPS).find(is_primary) else { return };
        self.workload.primaries = primaries(member.core.view());
        for op in self.workload.write_slots(&mut self.random, group) {
            self.tokens += 1;
            let _ = start(member, (0, self.tokens), &op, &self.witness);
        }
        self.send_to_one(node);
    }

    /// Lets a node send its records to one other node, perhaps of one lane alone.
    fn send_to_one(&mut self, node: u16) {
        self.set_member_time(node);
        let links = self.links.iter().map(|(link, _)| link).filter(|(from, _)| *from == node);
        let links: Vec<(u16, u16)> = links.collect();
        if links.is_empty() {
            return;
        }
        let (_, to) = *self.random.pick(&links);
        let budget = if self.random.one_in(2) { 1 } else { 64 << 10 };
        self.send_some(node, to, budget);
    }

    fn send_some(&mut self, node: u16, to: u16, budget: usize) {
        self.set_member_time(node);
        self.write_log(node);
        let member = &mut self.members[usize::from(node)];
        let mut bytes = Vec::new();
        if member.core.send(Node(to), budget, Acknowledge::WithRecords, &mut bytes).is_any
            && let Some(direction) = self.links.get_mut(&(node, to))
        {
            direction.pipe.push(self.now, bytes);
        }
    }

    fn kill(&mut self, node: u16) {
        let identity = self.members[usize::from(node)].core.identity();
        self.members[usize::from(node)].is_alive = false;
        self.outcome.deaths += 1;
        self.recovery = Some(Recovery::default());
        // Bytes already sent may still arrive; nothing more is delivered to the node.
        let is_lost = self.random.one_in(2);
        self.links.retain(|(from, to)| to != node && !(is_lost && from == node));
        self.broken.retain(|&(a, b), _| a != node && b != node);
        self.dying.push((identity, self.now + self.random.below(100)));
    }

    /// Proposes a view without the dead members that are due.
    fn bury(&mut self) {
        let Some(at) = self.dying.iter().position(|&(_, at)| at <= self.now) else { return };
        let (identity, _) = self.dying.remove(at);
        let members = self.latest().members.clone();
        let members: Vec<Identity> =
            members.into_iter().filter(|member| *member != identity).collect();
        if members.is_empty() {
            return;
        }
        // Slots that it may have changed: those of all views that some member may not have adopted
        // yet.
        let begins = (0..GROUPS).map(crate::workload::group_begin);
        let may_own = |slot: &u16| {
            self.views.iter().any(|view| view.slots.primary(*slot) == Some(identity.node))
        };
        let groups: Vec<u16> = begins.filter(may_own).collect();
        let of_group = |slot: &u16| groups.contains(&(slot / (SLOTS / GROUPS) * (SLOTS / GROUPS)));
        self.witness.borrow_mut().dies(identity, used_slots().filter(of_group));
        if self.plan.copies.is_some() {
            return self.bury_owner(identity, members);
        }
        let (holders, mut primaries) = (self.holders(&members), self.primaries());
        for primary in primaries.iter_mut().filter(|primary| **primary == identity.node) {
            *primary = *self.random.pick(&holders);
        }
        self.propose(members, &primaries);
    }

    fn finish(self) -> Outcome {
        let mut outcome = self.outcome;
        let witness = self.witness.borrow();
        outcome.violations = witness.violations.clone();
        (outcome.reads, outcome.commits) = (witness.reads, witness.commits);
        outcome.spread = witness.spread;
        outcome.chains = witness.chains.counts;
        (outcome.forwarded, outcome.messages) = (witness.forwarded, witness.messages);
        outcome.flushes = witness.flushes;
        for member in &self.members {
            let sums = outcome.watching.iter_mut().zip(member.machine.watching);
            sums.for_each(|(sum, of_member)| *sum += of_member);
        }
        outcome
    }
}

/// The primary of each group of slots.
fn primaries(view: &View) -> Vec<u16> {
    let primary = |slot| view.slots.primary(slot).map_or(u16::MAX, |primary| primary.0);
    (0..GROUPS).map(group_begin).map(primary).collect()
}

/// A map in which all members own all slots, and each group of slots has the given primary.
fn map(members: &[Identity], primaries: &[Node]) -> SlotMap {
    let owners: Vec<Vec<Node>> = primaries
        .iter()
        .map(|&primary| {
            let others = members.iter().map(|member| member.node);
            let others = others.filter(|&node| node != primary);
            std::iter::once(primary).chain(others).collect()
        })
        .collect();
    SlotMap::collect(|slot| &owners[usize::from(slot / (SLOTS / GROUPS))])
}
