//! Slots with few owners: invariants of successive views, and outcomes.

use super::*;
use crate::placement::expand;
use crate::placement::tests::RESETS_ALONE;

fn sparse(copies: u16, members: u128) -> State {
    let mut state = State::default();
    let founder = applicant(1);
    state.apply(Command::Found { cluster: 9, copies: Copies::Of(copies), founder });
    for uuid in 2..=members {
        join(&mut state, applicant(uuid));
    }
    state
}

fn remove(state: &mut State, number: u16) {
    let incarnation = state.incarnations[usize::from(number)];
    state.apply(Command::Remove { number, incarnation });
}

/// Lets a member report everything that it imports.
fn arrive(state: &mut State, number: u16) {
    let (epoch, incarnation) = (state.epoch, state.incarnations[usize::from(number)]);
    let slots = vec![(0, SLOTS - 1)];
    state.apply(Command::Arrived { number, incarnation, epoch, slots });
}

/// Lets all members report, until nothing is imported.
fn arrive_all(state: &mut State) {
    for _ in 0..4 {
        let numbers: Vec<u16> = state.members().map(|node| node.info.number).collect();
        numbers.into_iter().for_each(|number| arrive(state, number));
    }
    let past = state.history.back().expect("a view");
    assert_eq!(past.incoming, Some(Vec::new()));
}

fn held(state: &State) -> Vec<usize> {
    let mut counts = vec![0; state.incarnations.len()];
    expand(&state.ranges).into_iter().flatten().for_each(|owner| counts[usize::from(*owner)] += 1);
    counts
}

fn led(state: &State) -> Vec<usize> {
    let step = state.step(state.epoch).expect("kept");
    (0..state.incarnations.len()).map(|number| slots_of(&step, number as u16)).collect()
}

/// Checks the invariants of a view and its predecessor.
fn check_pair(before: &Past, now: &Past, has_arrived: impl Fn(u16, u16) -> bool) {
    let [old, new] = [before, now].map(|past| expand(&past.ranges));
    let incoming = [before, now].map(|past| expand(past.incoming.as_deref().unwrap_or_default()));
    let lives = |past: &Past| past.members.iter().map(MemberInfo::identity).collect::<Vec<_>>();
    let (were, are) = (lives(before), lives(now));
    let stays = |owner: &u16| {
        let life = were.iter().find(|life| life.node.0 == *owner);
        life.is_some_and(|life| are.contains(life))
    };
    for slot in 0..SLOTS {
        let at = usize::from(slot);
        let (old, new, incoming_now) = (old[at], new[at], incoming[1][at]);
        let all = new.iter().chain(incoming_now);
        assert!(all.clone().all(|node| are.iter().any(|life| life.node.0 == *node)));
        let distinct: std::collections::BTreeSet<&u16> = all.clone().collect();
        assert_eq!(distinct.len(), all.count(), "slot {slot}");
        assert!(!new.is_empty() || incoming_now.is_empty());
        let survivors = old.iter().filter(|owner| stays(owner)).count();
        if survivors == 0 {
            assert!(new.len() <= 1, "slot {slot} begins with one owner");
            continue;
        }
        assert!(!new.is_empty(), "slot {slot} has lost its owners");
        assert!(old.contains(&new[0]) && stays(&new[0]), "the primary was a owner");
        // A living primary remains an owner while its successor is appointed.
        assert!(!stays(&old[0]) || new.contains(&old[0]), "slot {slot}");
        for owner in new.iter().filter(|owner| !old.contains(owner)) {
            assert!(incoming[0][at].contains(owner) && has_arrived(*owner, slot), "slot {slot}");
        }
    }
}

#[test]
fn owners_import_first_and_slots_are_dealt_evenly() {
    let mut state = sparse(2, 1);
    assert_eq!(held(&state), [16_384]);
    join(&mut state, applicant(2));
    let view = state.step(state.epoch).expect("kept").view;
    assert!((0..SLOTS).all(|slot| view.slots.owners(slot) == [Node(0)]));
    assert!((0..SLOTS).all(|slot| view.incoming(slot) == [Node(1)]));
    arrive(&mut state, 1);
    assert_eq!((held(&state), led(&state)), (vec![16_384, 16_384], vec![8192, 8192]));
    join(&mut state, applicant(3));
    join(&mut state, applicant(4));
    assert_eq!(held(&state), [16_384, 16_384, 0, 0]);
    arrive_all(&mut state);
    assert_eq!((held(&state), led(&state)), (vec![8192; 4], vec![4096; 4]));
}

#[test]
fn a_joiner_is_sent_its_share_and_nothing_else_moves() {
    let mut state = sparse(2, 4);
    arrive_all(&mut state);
    let before = state.ranges.clone();
    join(&mut state, applicant(5));
    assert_eq!(state.ranges, before);
    let incoming = expand(state.history.back().expect("a view").incoming.as_deref().expect("few"));
    let sent: Vec<u16> = incoming.into_iter().flatten().copied().collect();
    assert!(sent.iter().all(|node| *node == 4), "others are sent something");
    assert!((6_500..6_600).contains(&sent.len()), "{}", sent.len());
    arrive_all(&mut state);
    assert!(held(&state).iter().all(|held| (6_500..6_620).contains(held)), "{:?}", held(&state));
}

#[test]
fn a_backup_replaces_a_dead_primary_at_once() {
    let mut state = sparse(2, 4);
    arrive_all(&mut state);
    let before = state.ranges.clone();
    remove(&mut state, 0);
    let (old, new) = (expand(&before), expand(&state.ranges));
    for (old, new) in old.iter().zip(&new) {
        let alive: Vec<u16> = old.iter().copied().filter(|owner| *owner != 0).collect();
        assert!(alive.contains(&new[0]) && !new.contains(&0));
    }
    arrive_all(&mut state);
    assert!(expand(&state.ranges).iter().all(|owners| owners.len() == 2));
    assert_eq!(held(&state)[0], 0);
}

#[test]
fn reports_count_for_the_same_life_and_the_same_primary_only() {
    let mut state = sparse(1, 2);
    let (epoch, slots) = (state.epoch, vec![(0, SLOTS - 1), (7, u16::MAX)]);
    let says = |number, incarnation, epoch| Command::Arrived {
        number,
        incarnation,
        epoch,
        slots: slots.clone(),
    };
    for wrong in [says(1, 2, epoch), says(0, 1, epoch), says(1, 1, epoch + 1), says(1, 1, 0)] {
        state.apply(wrong);
        assert_eq!(state.epoch, epoch);
    }
    state.apply(says(1, 1, epoch));
    assert_eq!(held(&state), [8192, 8192]);
    let settled = state.epoch;
    state.apply(says(1, 1, epoch));
    state.apply(says(1, 1, settled));
    assert_eq!(state.epoch, settled);
    // The primary dies before data from it are reported.
    let mut state = sparse(2, 4);
    arrive_all(&mut state);
    join(&mut state, applicant(5));
    let seen = state.epoch;
    remove(&mut state, 0);
    let whole = [(0, SLOTS - 1)];
    let own = Identity { node: Node(4), incarnation: 1 };
    let counts = state.appointable(own, seen, &whole);
    let old = state.history.iter().find(|past| past.epoch == seen).expect("kept");
    let (old, new) = (expand(&old.ranges), expand(&state.ranges));
    let of_another =
        (0..SLOTS).filter(|slot| old[usize::from(*slot)][0] != new[usize::from(*slot)][0]);
    assert!(
        of_another.clone().count() > 0 && of_another.clone().all(|slot| !counts.contains(slot))
    );
    assert!(!counts.is_empty());
}

#[test]
fn the_last_owner_claims_its_slots_or_they_start_empty() {
    let mut state = sparse(1, 2);
    arrive_all(&mut state);
    remove(&mut state, 1);
    assert_eq!((held(&state), state.last_loss()), (vec![8192, 0], Some(state.epoch)));
    let back = Applicant { boot: 2, waits_for_data: true, ..applicant(2) };
    join(&mut state, back.clone());
    assert_eq!(held(&state), [8192, 0]);
    let take = |number, incarnation| Command::HoldUnheld { number, incarnation, epoch: 0 };
    state.apply(take(0, 1));
    state.apply(take(1, 1));
    assert_eq!(held(&state), [8192, 0]);
    state.apply(take(1, 2));
    assert_eq!(held(&state), [8192, 8192]);
    assert_eq!(state.last_loss(), None);
    // It returns without data, and reports that.
    join(&mut state, Applicant { boot: 3, ..back.clone() });
    assert_eq!(held(&state), [8192, 0]);
    state.apply(Command::Hold { number: 1, incarnation: 3, holds: true });
    arrive_all(&mut state);
    assert_eq!(held(&state), [8192, 8192]);
    // It never returns.
    remove(&mut state, 1);
    let epoch = state.epoch;
    state.apply(Command::BeginAnew { epoch: epoch - 1 });
    assert_eq!(held(&state), [8192, 0]);
    state.apply(Command::BeginAnew { epoch });
    assert_eq!(held(&state), [16_384, 0]);
}

fn keep_all(state: &mut State, members: u16) {
    for number in 0..members {
        let incarnation = state.incarnations[usize::from(number)];
        state.apply(Command::KeepsData { number, incarnation });
    }
}

fn back(uuid: u128, boot: u64) -> Applicant {
    Applicant { boot, waits_for_data: true, ..applicant(uuid) }
}

/// Lets a member report that it has data of slots without owners.
fn claim(state: &mut State, number: u16) {
    let (epoch, incarnation) = (state.epoch, state.incarnations[usize::from(number)]);
    state.apply(Command::HoldUnheld { number, incarnation, epoch });
}

/// Three members, of which the first two fail: number 1 is the last owner of the slots of both.
fn two_of_three_failed() -> (State, usize) {
    let mut state = sparse(2, 3);
    arrive_all(&mut state);
    keep_all(&mut state, 3);
    let owners = expand(&state.ranges);
    let count = owners.iter().filter(|owners| !owners.contains(&2)).count();
    remove(&mut state, 0);
    remove(&mut state, 1);
    (state, count)
}

#[test]
fn slots_wait_for_the_last_owner_while_it_may_return_with_data() {
    let (mut state, count) = two_of_three_failed();
    let unserved = state.unserved();
    assert_eq!(unserved.len(), 1);
    let unserved = &unserved[0];
    assert!(count > 5000 && unserved.count() == count && unserved.since_ms.is_none());
    assert_eq!(unserved.awaited.as_ref().map(|node| node.number), Some(1));
    let epoch = unserved.epoch;
    state.apply(Command::LostSince { epoch, unix_ms: 7 });
    state.apply(Command::LostSince { epoch, unix_ms: 8 });
    assert_eq!(state.unserved()[0].since_ms, Some(7));
    let read = State::from_bytes(&state.to_bytes().expect("plain data"));
    assert_eq!(read.expect("the same"), state);
    let held_before = held(&state);
    state.apply(Command::BeginAnew { epoch: state.epoch });
    // It is back, and has not said yet that it has the data.
    join(&mut state, back(2, 2));
    assert_eq!((held(&state), state.unserved().len()), (held_before, 1));
    state.apply(Command::HoldUnheld { number: 1, incarnation: 2, epoch: 0 });
    assert_eq!((held(&state)[1], state.unserved().len()), (count, 0));
}

#[test]
fn a_last_owner_that_returned_without_data_claims_nothing_later() {
    let (mut state, count) = two_of_three_failed();
    join(&mut state, back(2, 2));
    state.apply(Command::Hold { number: 1, incarnation: 2, holds: true });
    let unserved = state.unserved();
    assert!(unserved.len() == 1 && unserved[0].count() == count && unserved[0].awaited.is_none());
    arrive_all(&mut state);
    // Its data now are those of other slots.
    join(&mut state, back(2, 3));
    state.apply(Command::HoldUnheld { number: 1, incarnation: 3, epoch: 0 });
    state.apply(Command::Hold { number: 1, incarnation: 3, holds: true });
    state.apply(Command::BeginAnew { epoch: state.epoch });
    assert_eq!(state.lost_until(state.epoch), count);
    let read = State::from_bytes(&state.to_bytes().expect("plain data"));
    assert_eq!(read.expect("the same"), state);
    state.apply(Command::TakeOver { epoch: state.epoch });
    assert_eq!(state.lost_until(state.epoch), 0);
}

#[test]
fn the_operator_lets_slots_continue_with_the_data_of_a_former_owner_or_empty() {
    for returns in [true, false] {
        let (mut state, count) = two_of_three_failed();
        let epoch = state.epoch;
        if returns {
            join(&mut state, back(1, 2));
            assert!(state.may_claim(0), "it has to report that it has data");
            state.apply(Command::HoldUnheld { number: 0, incarnation: 2, epoch: 0 });
            assert!(!state.may_claim(0) && state.lost_until(epoch) == count);
        }
        state.apply(Command::TakeOver { epoch: epoch - 1 });
        assert_eq!(state.lost_until(epoch), count);
        state.apply(Command::TakeOver { epoch });
        assert_eq!(state.lost_until(epoch), 0);
        let owner = if returns { 0 } else { 2 };
        let begun = if returns { count } else { usize::from(SLOTS) };
        assert_eq!(held(&state)[owner], begun);
        // What comes back later has its keys of these slots removed.
        join(&mut state, back(2, 3));
        assert!(!state.may_claim(1));
    }
}

#[test]
fn a_survivor_continues_the_cluster_and_the_others_bring_what_waits_for_them() {
    let mut state = sparse(2, 3);
    arrive_all(&mut state);
    keep_all(&mut state, 3);
    let before = held(&state);
    let bytes = state.to_bytes().expect("plain data");
    let (mut next, founder) = (State::default(), back(3, 2));
    let command = Command::NextGeneration { cluster: 77, state: bytes.clone(), founder };
    assert!(matches!(next.apply(command.clone()), Answer::Joined(own) if own.number == 2));
    assert!(next.continues(9) && !next.continues(77) && next.cluster == Some(77));
    next.apply(Command::HoldUnheld { number: 2, incarnation: 2, epoch: 0 });
    assert_eq!(held(&next)[2], before[2]);
    next.apply(Command::Hold { number: 2, incarnation: 2, holds: true });
    let lost = usize::from(SLOTS) - before[2];
    assert_eq!(next.lost_until(next.epoch), lost);
    let read = State::from_bytes(&next.to_bytes().expect("plain data"));
    assert_eq!(read.expect("the same"), next);
    // Others return with their data: what waits for them continues with it, nothing else.
    for uuid in 1..=2 {
        join(&mut next, back(uuid, 2));
        let (number, incarnation) = (uuid as u16 - 1, 2);
        next.apply(Command::HoldUnheld { number, incarnation, epoch: 0 });
    }
    assert_eq!(next.lost_until(next.epoch), 0);
    assert_eq!(held(&next).iter().sum::<usize>(), usize::from(SLOTS));
    assert!(matches!(next.apply(command), Answer::Joined(own) if own.number == 2), "once");
}

#[test]
fn all_come_back_with_their_data() {
    let mut state = sparse(2, 3);
    arrive_all(&mut state);
    for uuid in 1..=3 {
        join(&mut state, Applicant { boot: 2, waits_for_data: true, ..applicant(uuid) });
    }
    assert_eq!((held(&state), state.last_loss()), (vec![0; 3], None));
    for number in 0..3 {
        state.apply(Command::HoldUnheld { number, incarnation: 2, epoch: 0 });
    }
    assert!(expand(&state.ranges).iter().all(|owners| owners.len() == 1));
    for number in 0..3 {
        state.apply(Command::Hold { number, incarnation: 2, holds: true });
    }
    arrive_all(&mut state);
    assert_eq!(held(&state).iter().sum::<usize>(), 2 * usize::from(SLOTS));
}

#[test]
fn a_member_that_gives_up_is_an_owner_until_others_are() {
    let mut state = sparse(2, 3);
    arrive_all(&mut state);
    let own = Identity { node: Node(1), incarnation: 1 };
    state.apply(Command::Hold { number: 1, incarnation: 1, holds: false });
    assert!(state.has_to_hand_over(own));
    assert!(held(&state)[1] > 10_000);
    arrive_all(&mut state);
    assert!(!state.has_to_hand_over(own));
    assert_eq!(held(&state), [16_384, 0, 16_384]);
}

#[test]
fn a_sparse_state_survives_being_written_down_and_is_small() {
    let mut state = sparse(2, 12);
    arrive_all(&mut state);
    remove(&mut state, 3);
    let bytes = state.to_bytes().expect("it is plain data");
    assert!(bytes.len() < 200_000, "{} bytes", bytes.len());
    assert_eq!(State::from_bytes(&bytes).expect("the same"), state);
    assert!(
        (1..bytes.len())
            .step_by(bytes.len() / 20)
            .all(|len| State::from_bytes(&bytes[..len]).is_err())
    );
    // Without few owners the encoding is the old one.
    let all = founded();
    assert_eq!(all.to_bytes().ok(), postcard::to_stdvec(&all).ok());
    assert_eq!(State::from_bytes(&all.to_bytes().expect("plain")).expect("the same"), all);
}

/// Members join, fail, accept, give up, claim and report, in random order.
#[test]
fn each_view_is_possible_after_the_one_before() {
    let (lost, given_up) = losses_in_random_order();
    assert!(lost == 0 && given_up > 0, "{lost} {given_up}");
}

#[test]
fn a_slot_that_is_reset_while_a_node_keeps_its_data_is_found() {
    RESETS_ALONE.set(true);
    assert!(losses_in_random_order().0 > 0);
    RESETS_ALONE.set(false);
}

/// Data of some slots on the disks of all nodes. After each view every owner writes the
/// change that the primary acknowledges.
#[derive(Default)]
struct Disks {
    of: BTreeMap<u16, Vec<u64>>,
    acknowledged: Vec<u64>,
    /// Slots that continued without something acknowledged, though a node kept its data and the
    /// operator did not give them up.
    lost: usize,
    /// Slots that did so by the operator's decision.
    given_up: usize,
}

/// Distance between two slots with data.
const APART: usize = 128;

impl Disks {
    /// Records a view, and writes. `may_lose` holds for slots that no node kept data of, and those
    /// that were given up.
    fn adopt(&mut self, before: &Past, now: &Past, may_lose: &dyn Fn(u16) -> (bool, bool)) {
        let [old, new] = [before, now].map(|past| expand(&past.ranges));
        let count = usize::from(SLOTS) / APART;
        self.acknowledged.resize(count, 0);
        for at in 0..count {
            let (old, new) = (old[at * APART], new[at * APART]);
            let Some(primary) = new.first() else { continue };
            let value = |disks: &Self, node| disks.of.get(node).map_or(0, |disk| disk[at]);
            let has = value(self, primary);
            if has < self.acknowledged[at] {
                let (is_forsaken, is_given_up) = may_lose((at * APART) as u16);
                self.given_up += usize::from(is_given_up);
                self.lost += usize::from(!is_given_up && !is_forsaken);
            }
            // Importers have been sent the primary's data.
            let may_import = |node| old.contains(node) || old.contains(primary);
            assert!(new.iter().all(|node| node == primary || may_import(node)));
            self.acknowledged[at] = has + 1;
            for node in new {
                let disk = self.of.entry(*node).or_insert_with(|| vec![0; count]);
                disk[at] = has + 1;
            }
        }
    }
}

/// Draws a command, and the slots that it names if it is [`Command::Arrived`].
fn draw(
    state: &State,
    step: u64,
    disks: &Disks,
    below: &mut impl FnMut(u64) -> u64,
) -> (u16, Vec<(u16, u16)>, Command) {
    let before = state.history.back().expect("a view");
    let claimants = (0..6).filter(|&number| state.may_claim(number));
    let claimant = claimants.min().filter(|_| below(3) == 0);
    let incoming = before.incoming.iter().flatten().flat_map(|run| run.2.first()).next();
    let incoming = incoming.copied().filter(|_| below(3) > 0);
    let number = claimant.or(incoming).unwrap_or_else(|| below(6) as u16);
    let incarnation = state.incarnations.get(usize::from(number)).copied().unwrap_or(0);
    let epoch = state.epoch.saturating_sub(below(3));
    let slots: Vec<(u16, u16)> = (0..1 + below(3))
        .map(|_| {
            let first = below(16_000);
            (first as u16, (first + below(16_384 - first)) as u16)
        })
        .collect();
    let command = match below(12) {
        0 | 1 => Command::Join(Applicant {
            boot: 10 + step,
            waits_for_data: below(3) > 0,
            ..applicant(u128::from(number) + 1)
        }),
        2 => Command::Remove { number, incarnation },
        3 => Command::Hold { number, incarnation, holds: below(3) > 0 },
        // Nodes without data claim nothing.
        4 if disks.of.contains_key(&number) => Command::HoldUnheld { number, incarnation, epoch },
        5 => Command::BeginAnew { epoch },
        6 => Command::TakeOver { epoch },
        7 => Command::KeepsData { number, incarnation },
        _ => Command::Arrived { number, incarnation, epoch, slots: slots.clone() },
    };
    (number, slots, command)
}

/// Numbers of slots in [`Disks`] that were lost, and that were given up.
fn losses_in_random_order() -> (usize, usize) {
    let (mut appointed, mut claimed, mut losses) = (0, 0, (0, 0));
    for seed in 1..=16_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let copies = 1 + below(3) as u16;
        let mut state = sparse(copies, 3);
        if seed % 2 == 0 {
            keep_all(&mut state, 3);
        }
        let mut disks = Disks::default();
        let begun = state.history.back().expect("a view");
        disks.adopt(begun, begun, &|_| (false, false));
        for step in 0..60 {
            let first = state.epoch;
            let before = state.history.back().expect("a view").clone();
            let (number, slots, command) = draw(&state, step, &disks, &mut below);
            let is_arrival = matches!(command, Command::Arrived { .. });
            let is_claim = matches!(command, Command::HoldUnheld { .. });
            let was = state.clone();
            state.apply(command.clone());
            // A node that does not wait for its data has none.
            if let Command::Join(Applicant { waits_for_data: false, uuid, .. }) = command {
                disks.of.remove(&state.nodes[&uuid].info.number);
            }
            let may_lose = may_lose(&was, &command);
            appointed += usize::from(is_arrival && state.epoch > first);
            claimed += usize::from(is_claim && state.epoch > first);
            let mut last = &before;
            for past in state.history.iter().filter(|past| past.epoch > first) {
                check_pair(last, past, |owner, slot| {
                    let named = slots.iter().any(|run| (run.0..=run.1).contains(&slot));
                    is_arrival && owner == number && named
                });
                disks.adopt(last, past, &may_lose);
                last = past;
            }
            assert!(state.epoch - first <= 6, "seed {seed} step {step}");
        }
        losses = (losses.0 + disks.lost, losses.1 + disks.given_up);
        // In the end the placement is the wanted one.
        let numbers: Vec<(u16, u32)> =
            state.members().map(|node| (node.info.number, node.info.incarnation)).collect();
        for &(number, incarnation) in &numbers {
            state.apply(Command::Hold { number, incarnation, holds: true });
        }
        state.apply(Command::TakeOver { epoch: state.epoch });
        arrive_all(&mut state);
        let wanted = usize::from(copies).min(numbers.len());
        assert!(expand(&state.ranges).iter().all(|owners| owners.len() == wanted), "seed {seed}");
    }
    assert!(appointed > 20 && claimed > 0, "{appointed} {claimed}");
    losses
}

/// Whether no node kept data of a slot before a command, and whether the operator gives it up.
fn may_lose(before: &State, command: &Command) -> impl Fn(u16) -> (bool, bool) {
    let keepers = before.keepers();
    let owners: Vec<Vec<u16>> = expand(&before.ranges).into_iter().map(Vec::from).collect();
    let sparse = before.sparse.clone().expect("few owners");
    let until = match *command {
        Command::TakeOver { epoch } => epoch,
        _ => 0,
    };
    move |slot| {
        let holds = |(first, last): &(u16, u16)| (*first..=*last).contains(&slot);
        let waiting = sparse.waiting().into_iter().find(|of| of.slots.iter().any(holds));
        let former = expand(&sparse.former)[usize::from(slot)].to_vec();
        let mut nodes = owners[usize::from(slot)].iter().chain(&former);
        let awaits = waiting.as_ref().is_some_and(|of| keepers.contains(&of.owner));
        let is_forsaken = !awaits && !nodes.any(|node| keepers.contains(node));
        (is_forsaken, waiting.is_some_and(|of| of.epoch <= until))
    }
}

/// Extents of a node's data: as far as this position in each lane of the primaries of a view.
fn extents(state: &State, epoch: u64, position: u64) -> petrel_cluster::Extents {
    let view = state.step(epoch).expect("kept").view;
    let of = |slot| view.primary(slot).map(|primary| petrel_cluster::Extent { primary, epoch });
    let lanes = view.members.iter().map(|member| (*member, [position; 16]));
    petrel_cluster::Extents::collect(of, &lanes.collect())
}

fn reports(
    reports: &[(u128, u64, Option<petrel_cluster::Extents>)],
) -> HashMap<u128, restart::Report> {
    let report = |(uuid, boot, extents): &(u128, u64, Option<petrel_cluster::Extents>)| {
        (*uuid, restart::Report { boot: *boot, extents: extents.clone() })
    };
    reports.iter().map(report).collect()
}

use super::restart::Plan;
use std::collections::HashMap;

fn elected(plan: Plan) -> restart::Stop {
    match plan {
        Plan::Elect(stop) => stop,
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_a_stop_of_all_the_primary_s_log_wins_whoever_returns_last() {
    let mut state = sparse(3, 3);
    arrive_all(&mut state);
    let before = expand(&state.ranges).into_iter().map(<[u16]>::to_vec).collect::<Vec<_>>();
    let none = |_| false;
    // The first two wait for the third, which is not removed, and then for its data.
    let long = Some(extents(&state, state.epoch, 9));
    let some = [(1, 2, long.clone()), (2, 2, long.clone())];
    let plan = state.plan_restart(1, (&reports(&some), true), none);
    assert_eq!(plan, Plan::Wait([2].into()));
    let all = reports(&[some[0].clone(), some[1].clone(), (3, 2, None)]);
    assert_eq!(state.plan_restart(3, (&all, true), none), Plan::Wait([2].into()));
    // An owner that is alive has everything.
    assert_eq!(state.plan_restart(1, (&all, true), |life| life.node.0 == 2), Plan::Join);
    let all = reports(&[some[0].clone(), some[1].clone(), (3, 2, long.clone())]);
    let stop = elected(state.plan_restart(3, (&all, true), none));
    assert_eq!(stop.stopped.len(), 3);
    state.apply(Command::Elect(stop));
    assert_eq!((state.members().count(), held(&state)), (0, vec![0; 3]));
    assert_eq!(state.plan_restart(1, (&all, true), none), Plan::Join);
    for (uuid, number) in [(2, 1), (3, 2), (1, 0)] {
        join(&mut state, back(uuid, 2));
        assert!(state.may_claim(number));
        claim(&mut state, number);
    }
    let after = expand(&state.ranges);
    assert!((0..usize::from(SLOTS)).all(|slot| after[slot] == &before[slot][..1]));
}

#[test]
fn an_owner_that_was_removed_counts_beside_one_that_has_stopped() {
    let mut state = sparse(3, 3);
    arrive_all(&mut state);
    let (long, short) = (extents(&state, state.epoch, 9), extents(&state, state.epoch, 8));
    remove(&mut state, 2);
    remove(&mut state, 1);
    let none = |_| false;
    let one = reports(&[(3, 2, Some(long.clone()))]);
    assert_eq!(state.plan_restart(3, (&one, true), none), Plan::Wait([0].into()));
    let loading = reports(&[(3, 2, None)]);
    assert_eq!(state.plan_restart(3, (&loading, true), none), Plan::Wait([0].into()));
    // A new node has nothing that could count.
    let new = reports(&[(3, 2, Some(petrel_cluster::Extents::default()))]);
    assert_eq!(state.plan_restart(3, (&new, true), none), Plan::Join);
    assert_eq!(state.plan_restart(3, (&one, true), |_| true), Plan::Join);
    let both = reports(&[(1, 2, Some(short)), (3, 2, Some(long))]);
    let stop = elected(state.plan_restart(3, (&both, true), none));
    assert_eq!(stop.stopped.len(), 1);
    state.apply(Command::Elect(stop));
    for (uuid, number) in [(3, 2), (1, 0)] {
        join(&mut state, back(uuid, 2));
        claim(&mut state, number);
    }
    // Each continues with the slots of which it was the primary, the longer log with the others.
    let held = held(&state);
    assert_eq!(held.iter().sum::<usize>(), usize::from(SLOTS));
    assert!(held[2] > held[0] && held[1] == 0, "{held:?}");
}

/// A member that was admitted before slots lost their owners has not kept their data: elected
/// later, it does not show them empty.
#[test]
fn a_member_without_the_data_does_not_continue_with_slots() {
    let mut state = sparse(3, 3);
    arrive_all(&mut state);
    remove(&mut state, 2);
    remove(&mut state, 1);
    join(&mut state, back(3, 2));
    remove(&mut state, 0);
    let slots = (0, SLOTS - 1, vec![2, 0]);
    state.apply(Command::Elect(restart::Stop { stopped: Vec::new(), heirs: vec![slots] }));
    assert_eq!(held(&state), vec![0; 3]);
}

#[test]
fn a_missing_primary_is_replaced_by_the_longest_log_once_enough_have_returned() {
    let mut state = sparse(3, 3);
    arrive_all(&mut state);
    let epoch = state.epoch;
    let (long, short) = (extents(&state, epoch, 9), extents(&state, epoch, 8));
    let slot = (0..SLOTS).find(|&slot| expand(&state.ranges)[usize::from(slot)][0] == 0);
    let slot = usize::from(slot.expect("node 0 is a primary"));
    remove(&mut state, 0);
    let one = reports(&[(2, 2, Some(short.clone()))]);
    assert_eq!(state.plan_restart(2, (&one, true), |_| false), Plan::Wait([2].into()));
    remove(&mut state, 2);
    let stop = elected(state.plan_restart(2, (&one, true), |_| false));
    state.apply(Command::Elect(stop));
    // With one of three logs the slots wait for another one.
    assert!(!held(&state).contains(&usize::from(SLOTS)));
    join(&mut state, back(2, 2));
    claim(&mut state, 1);
    let owners = |state: &State| expand(&state.ranges)[slot].to_vec();
    assert_eq!(owners(&state), [0; 0]);
    // The other one has more: it continues as soon as it joins.
    let both = reports(&[(2, 2, Some(short.clone())), (3, 2, Some(long.clone()))]);
    let mut other = state.clone();
    let stop = elected(state.plan_restart(3, (&both, true), |life| life.node.0 == 1));
    state.apply(Command::Elect(stop));
    join(&mut state, back(3, 2));
    claim(&mut state, 2);
    assert_eq!(owners(&state)[0], 2);
    // It has less: the member that has kept its data continues at once.
    let both = reports(&[(2, 2, Some(long)), (3, 2, Some(short))]);
    let stop = elected(other.plan_restart(3, (&both, true), |life| life.node.0 == 1));
    other.apply(Command::Elect(stop));
    assert_eq!(owners(&other), [1]);
}
