use super::*;
use crate::settings::{Copies, Role};
use crate::state::{Admission, Answer, Applicant, Command, State, Step};
use petrel_cluster::{Identity, View};
use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;

fn applicant(uuid: u128, boot: u64) -> Applicant {
    Applicant {
        uuid,
        key: [uuid as u8; 32],
        boot,
        bus: format!("10.0.0.{uuid}:17000"),
        client: format!("10.0.0.{uuid}:7000"),
        role: Role::Data,
        zone: String::new(),
        waits_for_data: true,
    }
}

/// What a member has of a slot, as `petrel_cluster` keeps it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Holding {
    Away,
    Awaited,
    Held,
}

/// Members that adopt each view and are sent data, beside what they agree on.
struct Cluster {
    state: State,
    /// The last view that all have adopted.
    seen: Option<Arc<View>>,
    holdings: HashMap<Identity, Vec<Holding>>,
    boots: u64,
}

impl Cluster {
    fn new(copies: u16) -> Self {
        let mut cluster =
            Cluster { state: State::default(), seen: None, holdings: HashMap::new(), boots: 1 };
        let (copies, founder) = (Copies::Of(copies), applicant(1, 1));
        cluster.apply(Command::Found { cluster: 9, copies, founder });
        cluster
    }

    fn apply(&mut self, command: Command) -> Answer {
        let answer = self.state.apply(command);
        let first = self.seen.as_ref().map_or(1, |view| view.epoch + 1);
        for epoch in first..=self.state.epoch {
            let Step { view, .. } = self.state.step(epoch).expect("kept");
            self.adopt(view);
        }
        answer
    }

    /// What each member does with the next view, and whether it can be.
    fn adopt(&mut self, view: Arc<View>) {
        let before = self.seen.replace(view.clone());
        self.holdings.retain(|identity, _| view.members.contains(identity));
        for slot in 0..SLOTS {
            let homes = view.slots.homes(slot);
            let old: &[Node] = before.as_ref().map_or(&[], |before| before.slots.homes(slot));
            let identity = |view: &View, node| view.member(node);
            let is_lost = old
                .iter()
                .all(|&node| identity(before.as_ref().unwrap(), node) != identity(&view, node));
            for (place, &node) in homes.iter().enumerate() {
                let member = view.member(node).expect("homes are members");
                let begins_anew = is_lost && homes.len() == 1;
                let was_home =
                    old.contains(&node) && before.as_ref().unwrap().member(node) == Some(member);
                assert!(was_home || begins_anew || place > 0, "slot {slot}: {view:?}");
                let holdings = self.holdings.entry(member).or_insert_with(all_away);
                let own = &mut holdings[usize::from(slot)];
                assert!(*own == Holding::Held || begins_anew, "slot {slot}, {member:?}");
                *own = Holding::Held;
                assert!(!view.incoming(slot).contains(&node));
            }
            let has_changed = before.as_ref().and_then(|b| b.primary(slot)) != view.primary(slot);
            for &member in &view.members {
                let holdings = self.holdings.entry(member).or_insert_with(all_away);
                let own = &mut holdings[usize::from(slot)];
                match (homes.contains(&member.node), view.incoming(slot).contains(&member.node)) {
                    (true, _) => {}
                    (false, true) if *own == Holding::Held && !has_changed => {}
                    (false, true) => *own = Holding::Awaited,
                    (false, false) => *own = Holding::Away,
                }
            }
        }
    }

    fn view(&self) -> Arc<View> {
        self.seen.clone().expect("founded")
    }

    fn join(&mut self, uuid: u128) -> Admission {
        self.boots += 1;
        let Answer::Joined(admission) = self.apply(Command::Join(applicant(uuid, self.boots)))
        else {
            panic!("not let in");
        };
        admission
    }

    fn hold(&mut self, member: Identity, holds: bool) {
        let (number, incarnation) = (member.node.0, member.incarnation);
        self.apply(Command::Hold { number, incarnation, holds });
    }

    fn remove(&mut self, member: Identity) {
        self.apply(Command::Remove { number: member.node.0, incarnation: member.incarnation });
    }

    /// The data of some slots come to a member, which says so of a view that may be an older one.
    fn send(&mut self, member: Identity, epoch: u64, some: impl Fn(Slot) -> bool) {
        let view = self.view();
        let holdings = self.holdings.get_mut(&member).expect("a member");
        let mut slots = Vec::new();
        for slot in (0..SLOTS).filter(|&slot| view.incoming(slot).contains(&member.node)) {
            let own = &mut holdings[usize::from(slot)];
            if *own == Holding::Awaited && some(slot) {
                *own = Holding::Held;
            }
            if *own == Holding::Held {
                slots.push((slot, slot));
            }
        }
        let (number, incarnation) = (member.node.0, member.incarnation);
        self.apply(Command::Arrived { number, incarnation, epoch, slots });
    }

    /// Data come until no member waits for any.
    fn settle(&mut self) {
        for _ in 0..100 {
            let before = self.state.epoch;
            for member in self.view().members.clone() {
                self.send(member, self.state.epoch, |_| true);
            }
            if self.state.epoch == before {
                return;
            }
        }
        panic!("it does not settle");
    }

    /// How many slots each member is a home of, and is primary of.
    fn shares(&self) -> Vec<(usize, usize)> {
        let view = self.view();
        let homes = |node| (0..SLOTS).filter(|&s| view.slots.homes(s).contains(&node)).count();
        let primaries = |node| (0..SLOTS).filter(|&s| view.slots.primary(s) == Some(node)).count();
        view.members.iter().map(|member| (homes(member.node), primaries(member.node))).collect()
    }
}

fn all_away() -> Vec<Holding> {
    vec![Holding::Away; usize::from(SLOTS)]
}

/// So many members, each with its share.
fn cluster(members: u16, copies: u16) -> Cluster {
    let mut cluster = Cluster::new(copies);
    let founder = cluster.view().members[0];
    cluster.hold(founder, true);
    for uuid in 2..=u128::from(members) {
        let admission = cluster.join(uuid);
        cluster.hold(admission.identity(), true);
        cluster.settle();
    }
    cluster
}

fn is_even(cluster: &Cluster, copies: usize) {
    let shares = cluster.shares();
    let (each, of_primaries) =
        (usize::from(SLOTS) * copies / shares.len(), usize::from(SLOTS) / shares.len());
    for (homes, primaries) in shares {
        assert!(homes.abs_diff(each) <= each / 10, "{homes}, not {each}");
        assert!(primaries.abs_diff(of_primaries) <= of_primaries / 10);
    }
    let view = cluster.view();
    assert!((0..SLOTS).all(|slot| view.slots.homes(slot).len() == copies));
    assert!((0..SLOTS).all(|slot| view.incoming(slot).is_empty()));
}

#[test]
fn slots_have_two_homes_of_four_members_and_a_join_moves_a_fifth() {
    let mut cluster = cluster(4, 2);
    is_even(&cluster, 2);
    let before = cluster.view();
    let fifth = cluster.join(5);
    assert_eq!(cluster.view().slots, before.slots);
    cluster.hold(fifth.identity(), true);
    // Nothing is a home of it before its data are there.
    assert_eq!(cluster.shares()[4], (0, 0));
    let coming = (0..SLOTS).filter(|&s| cluster.view().incoming(s).contains(&Node(4))).count();
    assert!(coming.abs_diff(usize::from(SLOTS) * 2 / 5) < 600, "{coming}");
    cluster.settle();
    is_even(&cluster, 2);
    let after = cluster.view();
    let has_lost = |slot: &Slot| {
        let mut lost = before.slots.homes(*slot).iter();
        lost.any(|node| !after.slots.homes(*slot).contains(node))
    };
    let moved = (0..SLOTS).filter(has_lost).count();
    assert!(moved <= coming + 600, "{moved}");
}

#[test]
fn a_dead_members_slots_have_a_primary_at_once_and_two_homes_later() {
    let mut cluster = cluster(4, 2);
    let dead = cluster.view().members[1];
    cluster.remove(dead);
    let view = cluster.view();
    assert!((0..SLOTS).all(|slot| view.primary(slot).is_some()));
    assert!((0..SLOTS).any(|slot| view.slots.homes(slot).len() == 1));
    cluster.settle();
    is_even(&cluster, 2);
}

#[test]
fn a_member_that_gives_up_keeps_its_slots_until_others_have_them() {
    let mut cluster = cluster(4, 2);
    let leaves = cluster.view().members[2];
    let before = cluster.shares()[2];
    cluster.hold(leaves, false);
    assert_eq!(cluster.shares()[2], before);
    cluster.settle();
    assert_eq!(cluster.shares()[2], (0, 0));
    cluster.remove(leaves);
    is_even(&cluster, 2);
}

#[test]
fn data_of_a_primary_that_has_changed_since_are_not_enough() {
    let mut cluster = cluster(3, 2);
    let fourth = cluster.join(4).identity();
    cluster.hold(fourth, true);
    let view = cluster.view();
    let coming: Vec<(u16, u16)> = (0..SLOTS)
        .filter(|&slot| view.incoming(slot).contains(&fourth.node))
        .map(|slot| (slot, slot))
        .collect();
    let gone = view.members[0];
    cluster.remove(gone);
    let (number, incarnation) = (fourth.node.0, fourth.incarnation);
    let has_another = |slot: Slot| view.primary(slot) == Some(gone);
    cluster.holdings.get_mut(&fourth).unwrap().iter_mut().zip(0..).for_each(|(own, slot)| {
        if *own == Holding::Awaited && !has_another(slot) {
            *own = Holding::Held;
        }
    });
    let still = cluster.view();
    let slots = coming.clone();
    cluster.apply(Command::Arrived { number, incarnation, epoch: view.epoch, slots });
    let now = cluster.view();
    let mut became_homes = 0;
    for (slot, _) in coming {
        let counts = !has_another(slot) && still.incoming(slot).contains(&fourth.node);
        assert_eq!(now.slots.homes(slot).contains(&fourth.node), counts, "{slot}");
        became_homes += usize::from(counts);
    }
    assert!(became_homes > 1000, "{became_homes}");
    cluster.settle();
    is_even(&cluster, 2);
}

#[test]
fn slots_wait_for_their_last_home_which_claims_them_or_begin_anew() {
    for comes_back in [true, false] {
        let mut cluster = cluster(4, 2);
        let (first, second) = (cluster.view().members[1], cluster.view().members[2]);
        cluster.remove(first);
        cluster.remove(second);
        let orphans = |cluster: &Cluster| {
            (0..SLOTS).filter(|&slot| cluster.view().primary(slot).is_none()).count()
        };
        let lost = orphans(&cluster);
        assert!(lost > 1000, "{lost}");
        assert!(cluster.state.waits_for_homes());
        cluster.settle();
        assert_eq!(orphans(&cluster), lost);
        match comes_back {
            true => {
                // The one that died first has not seen the last changes.
                for (uuid, left) in [(2, lost), (3, 0)] {
                    let admission = cluster.join(uuid);
                    let Admission { number, incarnation, .. } = admission;
                    let epoch = cluster.state.epoch;
                    cluster.apply(Command::HoldUnheld { number, incarnation, epoch });
                    assert_eq!(orphans(&cluster), left);
                }
            }
            false => {
                let epoch = cluster.state.epoch;
                cluster.apply(Command::GiveUp { epoch: epoch - 1 });
                assert_eq!(orphans(&cluster), lost);
                cluster.apply(Command::GiveUp { epoch });
                assert_eq!(orphans(&cluster), 0);
            }
        }
        assert!(!cluster.state.waits_for_homes());
        cluster.settle();
        is_even(&cluster, 2);
    }
}

#[test]
fn at_random_homes_have_the_data_and_primaries_were_homes() {
    let seed = std::env::var("PETREL_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| std::hash::BuildHasher::hash_one(&RandomState::new(), 0));
    eprintln!("PETREL_TEST_SEED={seed}");
    let mut random = seed;
    let mut below = |end: usize| {
        // Marsaglia's xorshift.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as usize % end
    };
    for copies in [1, 2, 3] {
        let mut cluster = cluster(3, copies);
        for _ in 0..40 {
            let members = cluster.view().members.clone();
            let member = members.get(below(members.len().max(1))).copied();
            match (below(10), member) {
                (0, Some(member)) => cluster.remove(member),
                (1 | 2, _) => {
                    let admission = cluster.join(1 + below(7) as u128);
                    let Admission { number, incarnation, .. } = admission;
                    let epoch = cluster.state.epoch;
                    cluster.apply(Command::HoldUnheld { number, incarnation, epoch });
                }
                (3, Some(member)) => {
                    let holds = below(3) > 0;
                    cluster.hold(member, holds);
                }
                (4, _) => {
                    let epoch = cluster.state.epoch;
                    cluster.apply(Command::GiveUp { epoch });
                }
                (_, Some(member)) => {
                    let epoch = cluster.state.epoch.saturating_sub(below(3) as u64);
                    let part = below(4) as u16;
                    // What it says of an older view may be in vain.
                    let epoch = if part == 0 { epoch } else { cluster.state.epoch };
                    cluster.send(member, epoch, |slot| slot % 4 >= part);
                }
                _ => {}
            }
        }
        while cluster.view().members.len() < 3 {
            cluster.join(cluster.boots as u128 % 7 + 1);
        }
        for member in cluster.view().members.clone() {
            cluster.hold(member, true);
        }
        // Those who have joined may have been members, and the last that had data.
        let epoch = cluster.state.epoch;
        cluster.apply(Command::GiveUp { epoch });
        cluster.settle();
        is_even(&cluster, usize::from(copies));
    }
}
