//! End of a run: everything is delivered, then all nodes are compared.

use super::World;
use crate::witness::Held;
use petrel_cluster::{Node, Route, slot_of};

/// Maximum number of steps until nothing happens any more.
const REST_MAX: u64 = 600_000;

/// Maximum length of an explanation.
const TEXT_MAX: usize = 16 << 10;

impl World {
    /// Delivers everything without faults, then compares all nodes.
    pub(super) fn rest(&mut self) {
        for member in &mut self.members {
            member.paused_until = 0;
        }
        for direction in self.links.directions() {
            direction.pipe.stall(0);
        }
        let (mut quiet, most) = (0, self.outcome.steps + REST_MAX);
        for _ in 0..REST_MAX {
            self.step(false);
            self.check_end(most);
            self.now += 1;
            quiet = if self.is_quiet() { quiet + 1 } else { 0 };
            if quiet > 200 || !self.witness.borrow().violations.is_empty() {
                break;
            }
        }
        if !self.witness.borrow().violations.is_empty() {
            return;
        }
        if !self.is_quiet() {
            let text = self.explain_unrest();
            return self.witness.borrow_mut().violation(text);
        }
        let alive = self.alive();
        for &node in &alive {
            self.members[usize::from(node)].machine.compare_survivors();
        }
        // If two die at once, only these two may have had some of the changes.
        if self.plan.deaths < 2 {
            self.witness.borrow_mut().compare_commits();
            self.witness.borrow_mut().compare_chains();
        }
        for &node in &alive {
            let watches = self.members[usize::from(node)].machine.watches();
            if watches > 0 {
                let text = format!("at rest {watches} clients watch keys at node {node}");
                self.witness.borrow_mut().violation(text);
            }
        }
        for &node in &alive {
            let member = &mut self.members[usize::from(node)];
            let keys = member.machine.keys();
            let held = member.machine.held(keys);
            self.outcome.digest = digest(self.outcome.digest, &held);
            let (me, view) = (member.core.identity(), member.core.view());
            let is_primary =
                |slot| view.incoming.is_none() || view.slots.owners(slot).contains(&me.node);
            let may_copy = |slot| member.core.may_read_copies(&[slot]);
            self.witness.borrow_mut().compare(me, &held, is_primary, may_copy);
        }
        self.compare_copy_holders(&alive);
        self.compare_cached(&alive);
        self.witness.borrow_mut().compare_logs(Node(alive[0]));
    }

    /// Checks that the primary of each copy has registered its holder.
    fn compare_copy_holders(&mut self, alive: &[u16]) {
        for &node in alive {
            let keys = self.members[usize::from(node)].machine.keys();
            let core = &self.members[usize::from(node)].core;
            for (db, key) in keys {
                let slots = [slot_of(&key)];
                let Route::At(primary) = core.route_read(&slots) else { continue };
                let of_primary = &self.members[usize::from(primary.0)].core;
                let is_known = of_primary.lanes().copy_holders(db, &key).contains(Node(node));
                if core.may_read_copies(&slots) && !is_known {
                    let text = format!(
                        "at rest node {} does not know that node {node} has a copy of {}",
                        primary.0,
                        key.escape_ascii()
                    );
                    self.witness.borrow_mut().violation(text);
                }
            }
        }
    }

    /// Checks that clients have cached the present values.
    fn compare_cached(&mut self, alive: &[u16]) {
        for &node in alive {
            for (key, cached) in self.members[usize::from(node)].machine.cached() {
                self.outcome.cached += 1;
                let primary = self.latest().slots.primary(slot_of(&key.1));
                let Some(primary) = primary.filter(|primary| alive.contains(&primary.0)) else {
                    continue;
                };
                let machine = &mut self.members[usize::from(primary.0)].machine;
                let (content, expiry) = machine.content(&key);
                // An expired key that its primary has not removed yet.
                let is_late = !cached.is_there() && expiry.is_some();
                if content != cached && !is_late {
                    let text = format!(
                        "at rest a client of node {node} has cached {cached:?} for {}, but it is {content:?}",
                        key.1.escape_ascii()
                    );
                    self.witness.borrow_mut().violation(text);
                }
            }
        }
    }

    fn is_quiet(&self) -> bool {
        let epoch = self.latest().epoch;
        self.dying.is_empty()
            && self.links.iter().all(|((from, _), direction)| {
                direction.pipe.is_empty() || !self.members[usize::from(from)].is_alive
            })
            && self.members.iter().filter(|member| member.is_alive).all(|member| {
                member.core.view().epoch == epoch
                    && member.core.is_reconciled()
                    && member.core.has_no_chains()
                    && member.has_data
                    && member.core.lanes().bytes() == 0
                    && member.connections.iter().all(|connection| connection.pending.is_empty())
            })
            && self.is_allotted()
    }

    pub(super) fn explain_unrest(&self) -> String {
        let mut text = String::from("the cluster is not quiet:");
        for node in self.alive() {
            let member = &self.members[usize::from(node)];
            let pending: usize =
                member.connections.iter().map(|connection| connection.pending.len()).sum();
            text += &format!(
                " [node {node}: epoch {} of {}, data {}, reconciled {}, chains over {}, bytes {}, pending {pending}, cut off {:x}]{}",
                member.core.view().epoch,
                self.latest().epoch,
                member.has_data,
                member.core.is_reconciled(),
                member.core.has_no_chains(),
                member.core.lanes().bytes(),
                member.core.lanes().cut_off().0,
                member.core.describe_dead(),
            );
            text += &member.core.describe_chains();
            for pending in member.connections.iter().flat_map(|connection| &connection.pending) {
                let away = member.away.get(&pending.token);
                let slots = &pending.op.slots;
                text += &format!(" {slots:?} at {:?}, {away:?};", member.core.route(slots));
            }
        }
        text.truncate(TEXT_MAX);
        text
    }
}

/// FNV-1a hash of a node's contents.
fn digest(before: u64, held: &[Held]) -> u64 {
    let texts =
        held.iter().map(|held| format!("{:?}{:?}{:?}", held.key, held.content, held.expiry));
    texts.fold(before ^ 0xcbf2_9ce4_8422_2325, |hash, text| {
        text.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    })
}
