//! Clusters with fewer owners per slot than members. The hosts have no data, and report all imports
//! as complete at once.

mod host;

use host::{Host, Setup, check_views, is_visible, wait_for};
use petrel_cluster::{Node, SLOTS, View};
use petrel_fabric::{Copies, Hold};

/// Number of slots that each of the first members owns.
fn held(view: &View) -> Vec<usize> {
    let mut held = vec![0; 8];
    (0..SLOTS).flat_map(|slot| view.slots.owners(slot)).for_each(|owner| {
        held[usize::from(owner.0)] += 1;
    });
    held
}

fn is_allotted(view: &View, copies: usize) -> bool {
    let has_all = |slot| view.slots.owners(slot).len() == copies && view.incoming(slot).is_empty();
    (0..SLOTS).all(has_all)
}

fn wait_until_allotted(hosts: &[Host], copies: usize) {
    wait_for("all owners", || {
        hosts.iter().for_each(Host::report_arrivals);
        hosts.iter().all(|host| host.view().is_some_and(|view| is_allotted(&view, copies)))
    });
}

fn cluster(count: usize, copies: u16) -> Vec<Host> {
    let mut hosts = vec![Setup::create().copies(Copies::Of(copies)).start()];
    hosts[0].wait_until_member();
    for _ in 1..count {
        let joiner = Setup::join(&[&hosts[0]]).start();
        hosts.push(joiner);
    }
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), count);
    wait_until_allotted(&hosts, copies.into());
    hosts
}

#[test]
fn two_owners_of_each_slot_at_four_nodes_one_of_which_dies() {
    let mut hosts = cluster(4, 2);
    host::wait_for_voters(&hosts[..3]);
    let view = hosts[0].view().expect("a member");
    assert_eq!(held(&view)[..4], [8192; 4]);
    let dead = hosts[3].identity().node;
    let setup = hosts.pop().expect("four").die();
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 3);
    // Before any import is reported, a remaining owner becomes primary.
    let after = hosts[0].view().expect("a member");
    for slot in 0..SLOTS {
        let primary = after.primary(slot).expect("one is left").node;
        assert!(primary != dead && view.slots.owners(slot).contains(&primary));
    }
    wait_until_allotted(&hosts, 2);
    let before = held(&hosts[0].view().expect("a member"));
    assert!(before[..3].iter().all(|held| (10_700..11_100).contains(held)), "{before:?}");
    hosts.push(setup.start());
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 4);
    let view = hosts[0].view().expect("a member");
    let sent: Vec<Node> = (0..SLOTS).flat_map(|slot| view.incoming(slot).to_vec()).collect();
    assert!((8_000..8_400).contains(&sent.len()), "{}", sent.len());
    assert!(sent.iter().all(|node| *node == hosts[3].identity().node));
    wait_until_allotted(&hosts, 2);
    check_views(&hosts.iter().collect::<Vec<&Host>>());
}

#[test]
fn a_member_that_leaves_hands_over_first_and_all_come_back_with_their_data() {
    let mut hosts = cluster(3, 1);
    let leaves = hosts.pop().expect("three");
    let number = leaves.identity().node;
    leaves.fabric().leave();
    wait_for("the end", || {
        hosts.iter().for_each(Host::report_arrivals);
        leaves.fabric().has_ended()
    });
    is_visible(&[&hosts[0], &hosts[1]], 2);
    // No view was without an owner, and the leaving node owned nothing at the end.
    let view = hosts[0].view().expect("a member");
    assert!(is_allotted(&view, 1));
    assert_eq!(held(&view)[usize::from(number.0)], 0);
    let setups: Vec<Setup> = hosts.into_iter().map(Host::die_in_place).collect();
    let hosts: Vec<Host> = setups.into_iter().map(|setup| setup.waits_for_data().start()).collect();
    is_visible(&[&hosts[0], &hosts[1]], 2);
    wait_for("other incarnations", || hosts.iter().all(|host| host.identity().incarnation > 1));
    wait_for("no owner", || hosts[0].view().is_some_and(|view| held(&view)[..2] == [0; 2]));
    for host in &hosts {
        host.fabric().hold_slots(host.identity(), Hold::TakeUnheld);
    }
    let same = held(&view);
    wait_for("the same owners", || hosts[0].view().is_some_and(|now| held(&now) == same));
    wait_for("the same map", || hosts[1].view().is_some_and(|now| now.slots == view.slots));
    check_views(&[&hosts[0], &hosts[1]]);
}
