//! Reports of a cluster about members that fail, leave and return.

use crate::cluster::{FOUND, await_line, await_service, call, join, scratch, start};
use crate::cluster_slots::have_shares;
use crate::cluster_takeover::eventually as eventually_though_busy;
use crate::harness::{Client, Server, eventually, free_port, show};
use crate::http::get;
use std::time::Duration;

const TIMEOUT: &str = "--cluster-node-timeout 4000";

fn field(client: &mut Client, name: &str) -> u64 {
    let info = call(client, "CLUSTER INFO");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {info}"))
}

/// The lines of `CLUSTER NODES` with these words in the place of flags.
fn count(client: &mut Client, flags: &str) -> usize {
    let nodes = call(client, "CLUSTER NODES");
    nodes.lines().filter(|line| line.split(' ').nth(2) == Some(flags)).count()
}

pub fn await_whole(server: &Server) {
    let mut client = server.connect();
    eventually("each slot has its copies", || {
        field(&mut client, "cluster_slots_under_replicated") == 0
    });
}

#[test]
fn members_that_fail_stay_listed_and_the_copies_that_are_missing_are_counted() {
    let port = free_port();
    let flags = format!("{FOUND} {TIMEOUT} --cluster-copies 2 --http-port {port}");
    let founder = start(scratch("secret"), &flags);
    let mut client = await_service(&founder);
    assert_eq!(field(&mut client, "cluster_slots_under_replicated"), 16_384, "there is one member");
    let flags = format!("{} {TIMEOUT}", join(&founder));
    let mut second = start(scratch("secret"), &flags);
    let witness = start(scratch("secret"), &format!("{flags} --cluster-role witness"));
    let cache = start(scratch("secret"), &format!("{flags} --cluster-role cache"));
    await_whole(&founder);
    eventually("all are listed by what they are for", || {
        ["myself,master", "master", "witness", "cache"].map(|one| count(&mut client, one)) == [1; 4]
    });
    let name = call(&mut second.connect(), "CLUSTER MYID");

    second.signal(libc::SIGKILL);
    second.exit_code();
    eventually("the one that died is listed", || count(&mut client, "master,fail") == 1);
    let nodes = call(&mut client, "CLUSTER NODES");
    let line = nodes.lines().find(|line| line.contains("fail")).unwrap();
    assert!(line.starts_with(&name) && line.ends_with(" disconnected"), "{line}");
    assert_eq!(field(&mut client, "cluster_slots_under_replicated"), 16_384);
    assert_eq!(field(&mut client, "cluster_failed_nodes"), 1);
    assert_eq!(field(&mut client, "cluster_known_nodes"), 4);
    let info = call(&mut client, "INFO cluster");
    assert!(info.contains("cluster_slots_under_replicated:16384\r\n"), "{info}");
    let metrics = get(port, "/metrics").1;
    assert!(metrics.contains("petrel_cluster_slots_under_replicated 16384\n"), "{metrics}");
    assert!(metrics.contains("petrel_cluster_failed_nodes 1\n"), "{metrics}");
    await_line(&founder, " was removed; ");
    assert_eq!(get(port, "/ready").0, "HTTP/1.1 200 OK", "it serves all slots");

    // It comes back, and leaves in order: neither is a failure.
    let second = start(second.into_scratch(), &flags);
    await_whole(&founder);
    assert_eq!((count(&mut client, "master,fail"), count(&mut client, "master")), (0, 1));
    second.signal(libc::SIGTERM);
    eventually("it has left", || count(&mut client, "master") == 0);
    assert_eq!(count(&mut client, "master,fail"), 0, "{}", call(&mut client, "CLUSTER NODES"));
    drop((witness, cache));
}

#[test]
fn a_node_that_has_failed_is_forgotten_by_all() {
    let founder = start(scratch("secret"), &format!("{FOUND} {TIMEOUT}"));
    let mut client = await_service(&founder);
    let flags = format!("{} {TIMEOUT}", join(&founder));
    let [second, mut third] = [(); 2].map(|()| start(scratch("secret"), &flags));
    let mut other = await_service(&second);
    let name = call(&mut await_service(&third), "CLUSTER MYID");
    let own = call(&mut client, "CLUSTER MYID");
    assert!(call(&mut client, &format!("CLUSTER FORGET {own}")).contains("can't forget myself"));
    eventually("it is a member", || call(&mut client, "CLUSTER NODES").contains(&name));
    let refused = call(&mut client, &format!("CLUSTER FORGET {name}"));
    assert!(refused.starts_with("ERR The node is a member"), "{refused}");
    let unknown = "0".repeat(40);
    let refused = call(&mut client, &format!("CLUSTER FORGET {unknown}"));
    assert_eq!(refused, format!("ERR Unknown node {unknown}"));

    third.signal(libc::SIGKILL);
    third.exit_code();
    for client in [&mut client, &mut other] {
        eventually("it has failed", || count(client, "master,fail") == 1);
    }
    assert_eq!(call(&mut other, &format!("CLUSTER FORGET {name}")), "OK");
    for client in [&mut client, &mut other] {
        eventually("it is forgotten", || !call(client, "CLUSTER NODES").contains(&name));
        assert_eq!(field(client, "cluster_failed_nodes"), 0);
    }
    let third = start(third.into_scratch(), &flags);
    await_service(&third);
    eventually("it is a member again", || call(&mut client, "CLUSTER NODES").contains(&name));
}

#[test]
fn the_founder_dies_as_soon_as_three_members_vote() {
    let flags = format!("{TIMEOUT} --cluster-copies 2");
    let mut founder = start(scratch("secret"), &format!("{FOUND} {flags}"));
    await_service(&founder);
    let joined = format!("{} {flags}", join(&founder));
    let others = [(); 2].map(|()| start(scratch("secret"), &joined));
    for member in [&founder, &others[0], &others[1]] {
        let mut client = await_service(member);
        eventually("three members vote", || field(&mut client, "cluster_voters") == 3);
        eventually("all know it", || field(&mut client, "cluster_voters_missing") == 0);
        // Slots that only the founder has wait for it.
        await_whole(member);
    }
    founder.signal(libc::SIGKILL);
    founder.exit_code();
    for member in &others {
        let mut client = member.connect();
        eventually("the founder is removed", || field(&mut client, "cluster_failed_nodes") == 1);
        for at in 0..20 {
            eventually("the others serve", || {
                call(&mut client, &format!("SET key{at} new")) == "OK"
            });
        }
    }
}

#[test]
fn a_member_without_the_majority_is_alive_and_not_ready() {
    let founder = start(scratch("secret"), &format!("{FOUND} {TIMEOUT}"));
    await_service(&founder);
    let port = free_port();
    let flags = format!("{} {TIMEOUT} --http-port {port}", join(&founder));
    let second = start(scratch("secret"), &flags);
    await_service(&second);
    eventually("it is ready", || get(port, "/ready").0 == "HTTP/1.1 200 OK");
    // Of two members one votes.
    founder.signal(libc::SIGSTOP);
    eventually("it is not ready", || {
        get(port, "/ready").1.contains("cut off from the majority of the cluster")
    });
    assert_eq!(get(port, "/health").0, "HTTP/1.1 200 OK");
    founder.signal(libc::SIGCONT);
    eventually("it is ready again", || get(port, "/ready").0 == "HTTP/1.1 200 OK");
}

#[test]
fn commands_wait_while_a_member_that_was_stopped_renews_its_lease() {
    let flags = "--cluster-node-timeout 3000 --cluster-copies 2";
    let founder = start(scratch("secret"), &format!("{FOUND} {flags}"));
    await_service(&founder);
    let others = [(); 2].map(|()| start(scratch("secret"), &format!("{} {flags}", join(&founder))));
    let servers = [&founder, &others[0], &others[1]];
    let mut replies = Vec::new();
    // A busy machine may stop it for longer: it is removed then, or the wait is over.
    for _ in 0..20 {
        eventually_though_busy("each member has its share", || have_shares(&servers, 2));
        let mut clients = others.each_ref().map(Server::connect);
        others[0].signal(libc::SIGSTOP);
        // Longer than the lease lasts, which is a tenth shorter than the node timeout.
        std::thread::sleep(Duration::from_millis(2750));
        for client in &mut clients {
            (0..100).for_each(|at| client.send(&["SET", &format!("key{at}"), "value"]));
        }
        // The leader renews nothing meanwhile.
        founder.signal(libc::SIGSTOP);
        others[0].signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(100));
        founder.signal(libc::SIGCONT);
        replies = clients
            .iter_mut()
            .flat_map(|client| (0..100).map(|_| client.receive()).collect::<Vec<_>>())
            .map(|reply| reply.map_or("closed".into(), |reply| show(&reply)))
            .collect();
        if replies.iter().all(|reply| reply == "OK") {
            return;
        }
    }
    panic!("commands were refused each time: {replies:?}");
}

/// Sends pipelines until the server closes the connection; returns all replies.
fn load(mut client: Client, which: usize) -> Vec<String> {
    let mut replies = Vec::new();
    for round in 0.. {
        for at in 0..50 {
            client.send(&["SET", &format!("key{which}:{at}"), &round.to_string()]);
        }
        for _ in 0..50 {
            let Some(reply) = client.receive() else { return replies };
            replies.push(show(&reply));
        }
    }
    replies
}

#[test]
fn a_member_that_is_stopped_in_order_answers_its_clients_first() {
    let flags = "--cluster-node-timeout 20000 --cluster-copies 2 --shutdown-timeout 120";
    let founder = start(scratch("secret"), &format!("{FOUND} {flags}"));
    await_service(&founder);
    let others = [(); 2].map(|()| start(scratch("secret"), &format!("{} {flags}", join(&founder))));
    eventually("each member has its share", || have_shares(&[&founder, &others[0], &others[1]], 2));
    let [mut second, _third] = others;
    let loads: Vec<_> = (0..8)
        .map(|which| {
            let client = second.connect();
            std::thread::spawn(move || load(client, which))
        })
        .collect();
    let mut client = founder.connect();
    eventually("there is load", || field(&mut client, "cluster_commands_served") > 1000);
    second.signal(libc::SIGTERM);
    let replies: Vec<String> = loads.into_iter().flat_map(|load| load.join().unwrap()).collect();
    assert_eq!(second.exit_code(), Some(0), "{}", second.output());
    let unknown = replies.iter().filter(|reply| reply.starts_with("UNKNOWN")).count();
    let output = second.output();
    assert!(unknown == 0 && replies.len() > 1000, "{unknown} of {}: {output}", replies.len());
}
