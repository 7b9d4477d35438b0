//! Slots whose owners have failed, and clusters that have lost their majority.

use crate::cluster::{
    FOUND, await_line, await_service, call, call_or_reconnect, join, scratch, start,
};
use crate::cluster_slots::have_shares;
use crate::harness::{Client, Scratch, Server, free_port, show};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// Time without renewal after which a member is removed.
const TIMEOUT_MS: u64 = 3000;

/// Maximum time for a cluster to get to a state: on a busy machine members are removed and rejoin.
const PATIENCE: Duration = Duration::from_secs(180);

/// Waits for a state of the cluster.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not so after a while: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const KEYS: usize = 300;

/// Arguments of every member.
fn flags(copies: usize) -> String {
    format!(
        "--cluster-node-timeout {TIMEOUT_MS} --cluster-copies {copies} --appendonly yes \
         --appendfsync always --cluster-port {}",
        free_port()
    )
}

/// Members with the arguments that each was started with.
fn cluster(members: usize, copies: usize) -> Vec<(Server, String)> {
    let found = format!("{FOUND} {}", flags(copies));
    let founder = start(scratch("secret"), &found);
    await_service(&founder);
    let mut servers = vec![(founder, found)];
    for _ in 1..members {
        let args = format!("{} {}", join(&servers[0].0), flags(copies));
        servers.push((start(scratch("secret"), &args), args));
    }
    eventually("each member has its share", || {
        let servers: Vec<&Server> = servers.iter().map(|(server, _)| server).collect();
        have_shares(&servers, copies)
    });
    servers
}

fn kill((mut server, args): (Server, String)) -> (Scratch, String) {
    server.signal(libc::SIGKILL);
    server.exit_code();
    (server.into_scratch(), args)
}

fn again((scratch, args): (Scratch, String)) -> (Server, String) {
    (start(scratch, &args), args)
}

/// Sends a command until the cluster takes it: members may be taken for dead on a busy machine.
fn set(server: &Server, client: &mut Client, key: &str, value: &str) {
    let write = format!("SET {key} {value}");
    eventually("the key is set", || call_or_reconnect(server, client, &write) == "OK");
}

/// Writes keys, each on the disks of two members.
fn fill(server: &Server) {
    let mut client = server.connect();
    for at in 0..KEYS {
        set(server, &mut client, &format!("key{at}"), &at.to_string());
    }
    let mut client = server.connect();
    eventually("two members have it on disk", || {
        call(&mut client, "WAITAOF 1 1 1000").starts_with("[1 1]")
    });
}

fn field(client: &mut Client, name: &str) -> usize {
    let info = call(client, "CLUSTER INFO");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(usize::MAX)
}

/// A part of the first line of `INFO cluster` about slots without owners.
fn unserved(client: &mut Client, name: &str) -> Option<String> {
    let info = call(client, "INFO cluster");
    let line = info.lines().find_map(|line| line.strip_prefix("cluster_unserved0:"))?;
    let value = line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    value.map(|value| value.trim().to_owned())
}

/// Replies to a command for each key, in one pipeline: some wait a second for an owner.
fn each(client: &mut Client, command: impl Fn(usize) -> String) -> Vec<String> {
    client.set_patience(PATIENCE);
    for at in 0..KEYS {
        client.send(&command(at).split(' ').collect::<Vec<_>>());
    }
    let replies = (0..KEYS).map(|_| client.receive().map_or("closed".into(), |it| show(&it)));
    replies.collect()
}

/// The values of all keys; errors as they are. None is ever missing.
fn values(client: &mut Client) -> Vec<String> {
    let values = each(client, |at| format!("GET key{at}"));
    assert!(!values.contains(&"nil".to_owned()), "a key is gone: {values:?}");
    values
}

/// Keys with their value.
fn present(values: &[String]) -> Vec<usize> {
    (0..values.len()).filter(|&at| values[at] == at.to_string()).collect()
}

/// Whether every key has its value at every server.
fn are_complete(servers: &[(Server, String)]) -> bool {
    servers.iter().all(|(server, _)| present(&values(&mut server.connect())).len() == KEYS)
}

/// Directories and files that a server has kept of a former incarnation.
fn kept(server: &Server) -> Vec<PathBuf> {
    let directory = server.socket().parent().expect("a directory").to_owned();
    let files = std::fs::read_dir(directory).expect("it is readable").flatten();
    files
        .map(|file| file.path())
        .filter(|path| path.to_string_lossy().contains(".rejoin."))
        .collect()
}

#[test]
fn slots_wait_for_owners_that_are_away_for_long_and_nothing_is_lost() {
    let mut servers = cluster(5, 2);
    fill(&servers[0].0);
    let away = [servers.pop(), servers.pop()].map(|server| kill(server.expect("five")));
    let mut client = servers[0].0.connect();
    eventually("slots are without owners, since a known time", || {
        field(&mut client, "cluster_slots_unserved") > 0
            && unserved(&mut client, "since").is_some_and(|since| since != "0")
    });
    await_line(&servers[0].0, "hash slots have no owner since view");
    // They would have begun empty after twelve node timeouts.
    eventually("they have waited for long", || {
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        let since = unserved(&mut client, "since").and_then(|since| since.parse::<u64>().ok());
        assert!(field(&mut client, "cluster_slots_unserved") > 0, "the slots were given up");
        since.is_some_and(|since| since > 0 && now >= since + 14 * TIMEOUT_MS / 1000)
    });
    eventually("commands on them are refused", || {
        let values = values(&mut servers[0].0.connect());
        values.iter().any(|value| value.starts_with("CLUSTERDOWN"))
    });
    let awaited = unserved(&mut client, "awaited").expect("a node");
    assert_eq!(awaited.len(), 40, "{awaited}");
    servers.extend(away.map(again));
    eventually("every key has its value", || are_complete(&servers));
    eventually("all slots have owners", || field(&mut client, "cluster_slots_unserved") == 0);
}

#[test]
fn a_survivor_without_the_majority_serves_reads_and_continues_by_a_take_over() {
    let mut servers = cluster(3, 2);
    fill(&servers[0].0);
    let survivor = servers.pop().expect("three");
    // The founder and another one are lost, with their disks.
    for server in servers {
        drop(kill(server));
    }
    let survivor = again(kill(survivor));
    let mut client = survivor.0.connect();
    let mut held = Vec::new();
    eventually("it serves reads of what it has", || {
        held = present(&values(&mut client));
        held.len() > KEYS / 3
    });
    assert!(held.len() < KEYS, "it owned two of three slots");
    let own = format!("key{}", held[0]);
    let refused = call(&mut client, &format!("SET {own} x"));
    assert!(refused.starts_with("CLUSTERDOWN"), "{refused}");

    // The decision has a permission of its own.
    assert_eq!(call(&mut client, "ACL SETUSER op on nopass ~* +@all -cluster|failover"), "OK");
    let mut other = survivor.0.connect();
    assert_eq!(call(&mut other, "AUTH op x"), "OK");
    assert!(call(&mut other, "CLUSTER FAILOVER TAKEOVER").starts_with("NOPERM"));
    assert!(
        call(&mut client, "CLUSTER FAILOVER").starts_with("ERR CLUSTER FAILOVER needs TAKEOVER")
    );
    assert_eq!(call(&mut client, "CLUSTER FAILOVER NOW"), "ERR syntax error");

    eventually("it takes over", || call(&mut client, "CLUSTER FAILOVER TAKEOVER") == "OK");
    await_line(&survivor.0, "this node continues the cluster without");
    eventually("it takes writes", || {
        call(&mut survivor.0.connect(), &format!("SET {own} written")) == "OK"
    });
    let mut client = survivor.0.connect();
    assert!(field(&mut client, "cluster_slots_unserved") > 0, "others wait for their owners");
    eventually("the other slots are given up", || {
        call(&mut client, "CLUSTER FAILOVER TAKEOVER") == "OK"
            || field(&mut client, "cluster_slots_unserved") == 0
    });
    let mut client = await_service(&survivor.0);
    assert_eq!(call(&mut client, &format!("GET {own}")), "written");
    let replies = each(&mut client, |at| format!("GET key{at}"));
    let gone = (0..KEYS).filter(|&at| replies[at] == "nil").collect::<Vec<usize>>();
    assert!(gone.len() == KEYS - held.len() && !gone.iter().any(|at| held.contains(at)));
    eventually("there is nothing to give up", || {
        call(&mut client, "CLUSTER FAILOVER TAKEOVER").starts_with("ERR There is nothing")
    });
    // A restart finds the new cluster.
    let survivor = again(kill(survivor));
    assert_eq!(call(&mut await_service(&survivor.0), &format!("GET {own}")), "written");
}

#[test]
fn members_that_a_take_over_left_behind_join_the_new_cluster_and_keep_their_files() {
    let mut servers = cluster(3, 2);
    fill(&servers[0].0);
    let survivor = servers.pop().expect("three");
    let away: Vec<(Scratch, String)> = servers.into_iter().map(kill).collect();
    let survivor = again(kill(survivor));
    let mut client = survivor.0.connect();
    eventually("it takes over", || call(&mut client, "CLUSTER FAILOVER TAKEOVER") == "OK");
    let mut own: Vec<usize> = Vec::new();
    eventually("it takes writes", || {
        let replies = each(&mut survivor.0.connect(), |at| format!("SET key{at} written{at}"));
        own.extend((0..KEYS).filter(|&at| replies[at] == "OK"));
        own.len() > KEYS / 3
    });
    // Both return, the founder too, and could elect a leader of the former cluster.
    let mut servers = vec![survivor];
    servers.extend(away.into_iter().map(again));
    eventually("all keys are there, at all", || {
        servers.iter().all(|(server, _)| {
            let values = values(&mut server.connect());
            let is_right = |(at, value): (usize, &String)| match own.contains(&at) {
                true => *value == format!("written{at}"),
                false => *value == at.to_string(),
            };
            values.iter().enumerate().all(is_right)
        })
    });
    eventually("all are members", || {
        let nodes = |(server, _): &(Server, String)| {
            field(&mut server.connect(), "cluster_known_nodes") == 3
                && field(&mut server.connect(), "cluster_slots_under_replicated") == 0
        };
        servers.iter().all(nodes)
    });
    for (server, _) in &servers[1..] {
        let kept = kept(server);
        let manifest = |path: &PathBuf| path.join("appendonly.aof.manifest").exists();
        assert!(kept.iter().any(manifest), "{kept:?}");
    }
}
