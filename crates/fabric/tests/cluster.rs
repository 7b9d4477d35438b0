//! Clusters of several nodes in one process. Assertions are about order and content; the tests only
//! wait for conditions.

mod host;

use host::{Host, Seen, Setup, check_views, is_visible, wait_for};
use petrel_cluster::{Node, SLOTS};
use petrel_fabric::{Copies, Hold, Role};
use std::io::Write;
use std::net::{TcpListener, TcpStream};

fn primaries(host: &Host) -> Vec<usize> {
    let view = host.view().expect("it is a member");
    let mut counts = vec![0; 8];
    for slot in 0..SLOTS {
        if let Some(Node(number)) = view.slots.primary(slot) {
            counts[usize::from(number)] += 1;
        }
    }
    counts
}

#[test]
fn nodes_found_a_cluster_and_join_it_by_name() {
    let first = Setup::create().start();
    first.wait_until_member();
    assert_eq!(primaries(&first)[0], usize::from(SLOTS));
    let second = Setup::join_by_name(&[&first]).start();
    let third = Setup::join_by_name(&[&second, &first]).start();
    let hosts = [&first, &second, &third];
    is_visible(&hosts, 3);
    let counts = primaries(&third);
    assert!(counts[..3].iter().all(|&count| (5_000..6_000).contains(&count)), "{counts:?}");
    let view = third.view().expect("it is a member");
    assert!((0..SLOTS).all(|slot| view.slots.owners(slot).len() == 3));
    wait_for("links and leases", || {
        hosts.iter().all(|host| {
            let info = host.fabric().info();
            let linked = info.members.iter().filter(|member| member.is_linked).count();
            info.has_lease && linked == 2
        })
    });
    check_views(&hosts);
}

#[test]
fn a_member_that_dies_is_missed_and_comes_back_as_another() {
    let mut hosts = host::cluster(3);
    let before = hosts[2].identity();
    let setup = hosts.pop().expect("three").die();
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 2);
    assert_eq!(primaries(&hosts[0])[usize::from(before.node.0)], 0);
    hosts.push(setup.start());
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 3);
    let after = hosts[2].identity();
    assert_eq!(after.node, before.node);
    assert!(after.incarnation > before.incarnation);
    check_views(&hosts.iter().collect::<Vec<&Host>>());
}

#[test]
fn the_leader_dies_and_the_others_go_on() {
    let mut hosts = host::cluster(3);
    // It gets a vote once it has caught up.
    host::wait_for_voters(&hosts);
    let setup = hosts.remove(0).die();
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 2);
    hosts.push(setup.start());
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 3);
    let joiner = Setup::join(&[&hosts[2]]).start();
    hosts.push(joiner);
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 4);
    check_views(&hosts.iter().collect::<Vec<&Host>>());
}

/// Periodic work is a sixth of a node timeout apart: ten minutes here.
#[test]
fn members_vote_as_soon_as_they_have_joined() {
    let an_hour = std::time::Duration::from_secs(3600);
    let mut hosts = vec![Setup::create().node_timeout(an_hour).start()];
    hosts[0].wait_until_member();
    for count in 2..=5 {
        hosts.push(Setup::join(&[&hosts[0]]).node_timeout(an_hour).start());
        let voters = if count % 2 == 0 { count - 1 } else { count };
        for host in &hosts {
            host.wait_until_member();
            wait_for("votes", || host.fabric().voters() == voters);
            wait_for("no votes are missing", || host.fabric().missing_voters() == 0);
        }
    }
    check_views(&hosts.iter().collect::<Vec<&Host>>());
}

#[test]
fn the_only_voter_comes_back_and_a_whole_cluster_too() {
    let mut hosts = host::cluster(2);
    let founder = hosts.remove(0).die();
    hosts.insert(0, founder.start());
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 2);
    assert!(hosts[0].identity().incarnation > 1);
    let setups: Vec<Setup> = hosts.into_iter().map(Host::die_in_place).collect();
    let hosts: Vec<Host> = setups.into_iter().map(Setup::start).collect();
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 2);
    assert_eq!(primaries(&hosts[0]).iter().sum::<usize>(), usize::from(SLOTS));
    check_views(&hosts.iter().collect::<Vec<&Host>>());
}

#[test]
fn members_leave_even_the_leader() {
    let mut hosts = host::cluster(3);
    hosts.remove(0).leave();
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 2);
    hosts.remove(0).leave();
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 1);
    assert_eq!(primaries(&hosts[0]).iter().sum::<usize>(), usize::from(SLOTS));
    // No unreachable voter is left in the group.
    let joiner = Setup::join(&[&hosts[0]]).start();
    is_visible(&[&hosts[0], &joiner], 2);
    check_views(&[&hosts[0], &joiner]);
}

#[test]
fn slots_are_held_when_the_host_says_so() {
    let first = Setup::create().copies(Copies::Of(1)).start();
    first.wait_until_member();
    let second = Setup::join(&[&first]).waits_for_data().start();
    let cache = Setup::join(&[&first]).role(Role::Cache).start();
    is_visible(&[&first, &second, &cache], 3);
    let number = usize::from(second.identity().node.0);
    assert_eq!(primaries(&first)[number], 0);
    second.fabric().hold_slots(second.identity(), Hold::Take);
    cache.fabric().hold_slots(cache.identity(), Hold::Take);
    wait_for("slots", || {
        second.report_arrivals();
        primaries(&first)[number] == usize::from(SLOTS) / 2
    });
    second.fabric().hold_slots(second.identity(), Hold::GiveUp);
    wait_for("no slots", || {
        first.report_arrivals();
        primaries(&first)[number] == 0
    });
    assert_eq!(primaries(&first)[0], usize::from(SLOTS));
    check_views(&[&first, &second, &cache]);
}

#[test]
fn of_a_whole_cluster_that_comes_back_one_member_takes_the_slots() {
    let first = Setup::create().waits_for_data().start();
    first.wait_until_member();
    assert_eq!(primaries(&first)[0], usize::from(SLOTS));
    let second = Setup::join(&[&first]).waits_for_data().start();
    second.wait_until_member();
    second.fabric().hold_slots(second.identity(), Hold::Take);
    wait_for("slots", || primaries(&first)[1] == usize::from(SLOTS) / 2);
    let setups = [first.die_in_place(), second.die_in_place()];
    let hosts = setups.map(Setup::start);
    is_visible(&[&hosts[0], &hosts[1]], 2);
    let holders = || (primaries(&hosts[0]).iter().filter(|slots| **slots > 0)).count();
    wait_for("no holder", || holders() == 0);
    for host in &hosts {
        // Requests of another incarnation have no effect.
        let former = petrel_cluster::Identity { incarnation: 1, ..host.identity() };
        host.fabric().hold_slots(former, Hold::Take);
        host.fabric().hold_slots(host.identity(), Hold::TakeUnheld);
    }
    wait_for("a holder", || holders() == 1);
    let holder = usize::from(primaries(&hosts[0])[0] == 0);
    let other = &hosts[1 - holder];
    other.fabric().hold_slots(other.identity(), Hold::TakeUnheld);
    // A node that fetches its data from the holder gets its share then.
    other.fabric().hold_slots(other.identity(), Hold::Take);
    wait_for("two holders", || holders() == 2);
    check_views(&[&hosts[0], &hosts[1]]);
}

#[test]
fn a_host_ends_a_link_and_its_own_life() {
    let hosts = host::cluster(2);
    let link = || {
        hosts[0].notes.seen.lock().iter().rev().find_map(|seen| match seen {
            Seen::Up(link) => Some(Some(*link)),
            Seen::Down(_) | Seen::Expelled => Some(None),
            _ => None,
        })?
    };
    wait_for("a link", || link().is_some());
    let before = link().expect("it is up");
    hosts[0].notes.end(before);
    wait_for("another link", || link().is_some_and(|link| link != before));
    let steady = hosts[0].identity();
    hosts[0].notes.end(before);
    let own = hosts[1].identity();
    // A request of another incarnation ends nothing.
    hosts[1].fabric().rejoin(petrel_cluster::Identity { incarnation: 99, ..own });
    hosts[1].fabric().rejoin(own);
    wait_for("another life", || {
        hosts[1].fabric().info().own.is_some_and(|now| now.incarnation > own.incarnation)
    });
    is_visible(&[&hosts[0], &hosts[1]], 2);
    assert_eq!(hosts[0].identity(), steady);
    wait_for("a link to it", || link().is_some_and(|link| link.peer == hosts[1].identity()));
    check_views(&[&hosts[0], &hosts[1]]);
}

#[test]
fn passphrases_keep_strangers_out_and_are_changed_one_node_after_another() {
    let mut hosts = host::cluster(2);
    let stranger = Setup::join(&[&hosts[0]]).passphrase("another one").start();
    stranger.wait_for_line("passphrase");
    hosts[0].wait_for_line("was rejected");
    assert!(stranger.view().is_none());
    drop(stranger);
    // Restart each with the new and the previous passphrase.
    for at in 0..2 {
        let setup = hosts.remove(0).die();
        let hold = [hosts[0].identity()];
        hosts.push(setup.passphrase("fresh").previous_passphrase("secret").start());
        is_visible(&hosts.iter().collect::<Vec<&Host>>(), 2);
        assert!(at > 0 || hosts[0].identity() == hold[0]);
    }
    // Restart each without the previous one.
    for _ in 0..2 {
        let setup = hosts.remove(0).die();
        hosts.push(setup.passphrase("fresh").start());
        is_visible(&hosts.iter().collect::<Vec<&Host>>(), 2);
    }
    let late = Setup::join(&[&hosts[0]]).start();
    late.wait_for_line("passphrase");
    assert_eq!(hosts[0].view().expect("it is a member").members.len(), 2);
    check_views(&hosts.iter().collect::<Vec<&Host>>());
}

#[test]
fn the_same_directory_twice_and_another_clusters_data_are_refused() {
    let mut hosts = host::cluster(2);
    let setup = hosts.pop().expect("two").die();
    let copy = setup.copy_of_directory();
    hosts.push(setup.start());
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), 2);
    let incarnation = hosts[1].identity();
    let twin = copy.start();
    twin.wait_for_line("the same node is alive");
    assert!(twin.view().is_none());
    assert_eq!(hosts[1].identity(), incarnation);
    drop(twin);

    let foreign = Setup::create().start();
    foreign.wait_until_member();
    let foreign = foreign.die().now_join(&[&hosts[0]]).start();
    // It does not found a cluster again: it is its own cluster's only member, and asks no other
    // node.
    foreign.wait_until_member();
    assert_eq!(foreign.view().expect("it is a member").members.len(), 1);
    let second = Setup::join(&[&foreign]).start();
    is_visible(&[&foreign, &second], 2);
    let second = second.die();
    drop(foreign);
    let second = second.now_join(&[&hosts[0]]).start();
    second.wait_for_line("another cluster");
    assert_eq!(hosts[0].view().expect("it is a member").members.len(), 2);
    check_views(&hosts.iter().collect::<Vec<&Host>>());
}

#[test]
fn a_directory_in_use_a_foreign_name_and_a_name_that_does_not_resolve() {
    let first = Setup::create().start();
    first.wait_until_member();
    let twin = first.setup().try_start();
    assert!(twin.is_err_and(|error| error.to_string().contains("raft.redb")));
    let renamed = first.die().cluster_name("another").try_start();
    assert!(renamed.is_err_and(|error| error.to_string().contains("belongs to the cluster")));
    let lost = Setup::join_names(&["no-such-host.invalid:7000"]).start();
    lost.wait_for_line("does not resolve");
    assert!(lost.view().is_none());
}

#[test]
fn garbage_on_the_port_does_no_harm() {
    let first = Setup::create().start();
    first.wait_until_member();
    let address = first.fabric().info().announced;
    let mut kept = Vec::new();
    let packets: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"C",
        b"L\x16\x03\x01\xff\xff",
        b"C\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &[0; 4096],
        b"",
    ];
    for round in 0..120 {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        drop(stream.write_all(packets[round % packets.len()]));
        kept.push(stream);
    }
    first.wait_for_line("was rejected");
    // Silent connections time out, then there is room again.
    let second = Setup::join(&[&first]).start();
    is_visible(&[&first, &second], 2);
    drop(kept);
    check_views(&[&first, &second]);
}

#[test]
fn members_that_all_come_back_elsewhere_find_each_other_by_one_address() {
    let hosts = host::cluster(3);
    host::wait_for_voters(&hosts);
    let former: Vec<String> = hosts.iter().map(|host| host.fabric().info().announced).collect();
    let mut setups: Vec<Setup> = hosts.into_iter().map(Host::die).collect();
    // The old ports are kept occupied.
    let _taken: Vec<TcpListener> =
        former.iter().filter_map(|address| TcpListener::bind(address).ok()).collect();
    let alone = setups.remove(0).now_join_names(&[]).start();
    alone.wait_for_line("no other member answers at its last address");
    assert!(alone.view().is_none());
    // They name the first, which knows neither; they do not know each other.
    let others: Vec<Host> =
        setups.into_iter().map(|setup| setup.now_join(&[&alone]).start()).collect();
    let hosts = [&alone, &others[0], &others[1]];
    for host in &hosts {
        assert!(!former.contains(&host.fabric().info().announced), "it is elsewhere");
    }
    is_visible(&hosts, 3);
    host::wait_for_voters(&hosts);
    check_views(&hosts);
}
