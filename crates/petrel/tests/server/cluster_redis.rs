//! Redis Cluster's protocol: `cluster-enabled yes`, at a server alone and at members of a cluster.

use crate::cluster::{FOUND, await_service, call, join, scratch, start};
use crate::cluster_slots::have_shares;
use crate::harness::{Client, PATIENCE, Server, eventually, free_port, show};
use petrel_resp::Value;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Members that hold some slots each. A busy machine may not run one for a while.
const FLAGS: &str = "--cluster-enabled yes --cluster-copies 2 --cluster-node-timeout 20000";

const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// Keys of each writer.
const KEYS: usize = 24;

/// A server and its port for clients.
struct Member {
    server: Server,
    port: u16,
}

impl Member {
    fn start(flags: &str, more: &str) -> Self {
        let port = free_port();
        let server = start(scratch("secret"), &format!("{flags} {FLAGS} --port {port}{more}"));
        await_service(&server);
        Member { server, port }
    }

    fn join(&self, more: &str) -> Self {
        Member::start(&join(&self.server), more)
    }

    fn client(&self) -> Client {
        Client::tcp(self.port)
    }
}

/// Waits until slots have moved, which takes several views.
fn await_moves(what: &str, mut are_over: impl FnMut() -> bool) {
    let deadline = Instant::now() + 4 * PATIENCE;
    while !are_over() {
        assert!(Instant::now() < deadline, "not so after a while: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends the writers, also if the test fails meanwhile.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Three members, once each slot is where it stays.
fn three(more: &str) -> [Member; 3] {
    let first = Member::start(FOUND, more);
    let (second, third) = (first.join(more), first.join(more));
    let members = [first, second, third];
    let servers = members.each_ref().map(|member| &member.server);
    await_moves("each member has its share", || {
        have_shares(&servers, 2) && have_primaries(&members)
    });
    members
}

/// Whether the members agree on the primaries, and each is that of its share.
fn have_primaries(members: &[Member]) -> bool {
    let maps: Vec<_> = members.iter().map(|member| slots(&mut member.client())).collect();
    let mut shares: BTreeMap<i64, i64> = BTreeMap::new();
    for (first, last, port) in &maps[0] {
        *shares.entry(*port).or_default() += last - first + 1;
    }
    let share = 16_384 / members.len() as i64;
    let is_even = shares.values().all(|slots| slots.abs_diff(share) < 256);
    shares.len() == members.len() && is_even && maps.iter().all(|map| *map == maps[0])
}

/// Ranges of slots and the ports of their nodes, as CLUSTER SLOTS says.
fn slots(client: &mut Client) -> Vec<(i64, i64, i64)> {
    let Value::Array(ranges) = client.call(&["CLUSTER", "SLOTS"]) else { panic!("no array") };
    let range = |range: &Value| {
        let Value::Array(parts) = range else { panic!("no array: {range:?}") };
        let [Value::Integer(first), Value::Integer(last), Value::Array(node)] = &parts[..] else {
            panic!("a range with one node: {range:?}")
        };
        let Value::Integer(port) = node[1] else { panic!("no port: {range:?}") };
        (*first, *last, port)
    };
    ranges.iter().map(range).collect()
}

/// A client that follows redirections, and connects again.
#[derive(Default)]
struct Follower {
    clients: HashMap<u16, Client>,
    /// The port of each slot's primary.
    ports: HashMap<String, u16>,
    seeds: Vec<u16>,
    /// Redirections of keys whose slot was elsewhere before.
    moved: usize,
}

impl Follower {
    fn new(seeds: Vec<u16>) -> Self {
        Follower { seeds, ..Follower::default() }
    }

    fn send(&mut self, port: u16, args: &[&str]) -> Option<String> {
        let client = match self.clients.entry(port) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Client::try_tcp(port).ok()?),
        };
        client.send(args);
        let reply = client.receive();
        if reply.is_none() {
            self.clients.remove(&port);
        }
        reply.map(|reply| show(&reply))
    }

    /// The reply to a command on a key, from the node that it belongs to.
    fn call(&mut self, key: &str, args: &[&str]) -> Result<String, String> {
        let mut port = self.ports.get(key).copied().unwrap_or(self.seeds[0]);
        for attempt in 0..20 {
            let Some(reply) = self.send(port, args) else {
                port = self.seeds[attempt % self.seeds.len()];
                if args[0] != "GET" && attempt > 0 {
                    return Err("closed".into());
                }
                continue;
            };
            match reply.strip_prefix("MOVED ") {
                Some(rest) => {
                    self.moved += usize::from(self.ports.contains_key(key));
                    port = rest.rsplit(':').next().unwrap().parse().unwrap();
                }
                None => {
                    self.ports.insert(key.into(), port);
                    return Ok(reply);
                }
            }
        }
        Err("too many redirections".into())
    }
}

#[test]
fn a_server_alone_owns_all_slots() {
    let port = free_port();
    let server =
        start(scratch("x"), &format!("--cluster-enabled yes --port {port} --bind 127.0.0.1"));
    let mut client = Client::tcp(port);
    assert_eq!(slots(&mut client), [(0, 16_383, i64::from(port))]);
    let id = call(&mut client, "CLUSTER MYID");
    let nodes = call(&mut client, "CLUSTER NODES");
    let bus = port.saturating_add(10_000);
    assert_eq!(
        nodes,
        format!("{id} 127.0.0.1:{port}@{bus} myself,master - 0 0 1 connected 0-16383\n")
    );
    let info = call(&mut client, "CLUSTER INFO");
    assert!(info.starts_with("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"), "{info}");
    assert!(info.contains("cluster_known_nodes:1\r\ncluster_size:1\r\n"), "{info}");
    assert!(call(&mut client, "INFO").contains("cluster_enabled:1\r\n"));
    assert!(call(&mut client, "HELLO 3").contains("mode:cluster"));
    for (command, reply) in [
        ("MGET a b", CROSSSLOT),
        ("MSET {t}a 1 {t}b 2", "OK"),
        ("MGET {t}a {t}b", "[1 2]"),
        ("EVAL return{1} 2 a b", CROSSSLOT),
        ("SSUBSCRIBE a b", CROSSSLOT),
        ("SELECT 1", "ERR SELECT is not allowed in cluster mode"),
        ("SELECT 0", "OK"),
        ("MOVE a 1", "ERR MOVE is not allowed in cluster mode"),
        ("SWAPDB 0 1", "ERR SWAPDB is not allowed in cluster mode"),
        ("COPY {t}a {t}b DB 1", "ERR DB index is out of range"),
        ("REPLICAOF NO ONE", "ERR REPLICAOF not allowed in cluster mode."),
        ("ASKING", "OK"),
        ("READONLY", "OK"),
        ("READWRITE", "OK"),
        ("CLUSTER KEYSLOT foo", "12182"),
        ("CLUSTER LINKS", "[]"),
        ("CLUSTER COUNTKEYSINSLOT 16384", "ERR Invalid slot"),
        ("CLUSTER GETKEYSINSLOT 1 -1", "ERR Invalid slot or number of keys"),
        (
            "CLUSTER SLOT-STATS SLOTSRANGE 3 2",
            "ERR Start slot number 3 is greater than end slot number 2",
        ),
        ("CLUSTER REPLICAS x", "ERR Unknown node x"),
        ("CLUSTER MEET 127.0.0.1 x", "ERR Invalid base port specified: x"),
        ("CLUSTER SAVECONFIG", "OK"),
        ("CLUSTER BUMPEPOCH", "STILL 1"),
        ("CLUSTER RESET", "ERR CLUSTER RESET can't be called with master nodes containing keys"),
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("SET b 1", "QUEUED"),
        ("EXEC", CROSSSLOT),
        ("MULTI", "OK"),
        ("MGET a b", CROSSSLOT),
        ("EXEC", "EXECABORT Transaction discarded because of previous errors."),
        ("EXISTS a", "0"),
    ] {
        assert_eq!(call(&mut client, command), reply, "{command}");
    }
    let slot = call(&mut client, "CLUSTER KEYSLOT {t}");
    assert_eq!(call(&mut client, &format!("CLUSTER COUNTKEYSINSLOT {slot}")), "2");
    assert_eq!(call(&mut client, &format!("CLUSTER GETKEYSINSLOT {slot} 1")).len(), "[{t}a]".len());
    let stats = call(&mut client, &format!("CLUSTER SLOT-STATS SLOTSRANGE {slot} {slot}"));
    assert_eq!(stats, format!("[[{slot} {{key-count:2}}]]"));
    let stats = call(&mut client, "CLUSTER SLOT-STATS ORDERBY KEY-COUNT LIMIT 1 DESC");
    assert_eq!(stats, format!("[[{slot} {{key-count:2}}]]"));
    // Only scripts that declare it may use keys of several slots.
    for (line, reply) in [("", "2"), ("#!lua\n", "ERR Script attempted to access keys that do not")]
    {
        let text = format!("{line}redis.call('SET', 'a', 1) redis.call('SET', 'b', 1) return 2");
        let got = client.text(&["EVAL", &text, "0"]);
        assert!(got.starts_with(reply), "{got}");
    }
    // Clients by the Unix socket are those of a single server.
    let mut unix = server.connect();
    assert_eq!(call(&mut unix, "MGET a b"), "[1 1]");
    assert_eq!(call(&mut unix, "SELECT 1"), "OK");
    assert!(call(&mut unix, "HELLO").contains("standalone"));
}

#[test]
fn members_redirect_to_primaries() {
    let members = three("");
    let map = slots(&mut members[0].client());
    let shown: BTreeSet<i64> = map.iter().flat_map(|(first, last, _)| *first..=*last).collect();
    assert!(shown.iter().copied().eq(0..16_384), "{map:?}");
    assert!(map.len() <= 4, "few ranges: {map:?}");
    for member in &members {
        assert_eq!(slots(&mut member.client()), map);
        let nodes = call(&mut member.client(), "CLUSTER NODES");
        assert_eq!(nodes.matches(" master - ").count(), 2, "{nodes}");
        assert_eq!(nodes.matches(" myself,master - ").count(), 1, "{nodes}");
        let shards = call(&mut member.client(), "CLUSTER SHARDS");
        assert_eq!(shards.matches("health online").count(), 3, "{shards}");
        let id = call(&mut member.client(), "CLUSTER MYID");
        assert_eq!(call(&mut member.client(), &format!("CLUSTER REPLICAS {id}")), "[]");
        let port = members[0].port;
        assert_eq!(call(&mut member.client(), &format!("CLUSTER MEET 127.0.0.1 {port}")), "OK");
    }
    let port_of = |slot: i64| {
        let range = map.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        range.unwrap().2
    };
    let mut own: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for at in 0..60 {
        let key = format!("key{at}");
        let slot: i64 =
            call(&mut members[0].client(), &format!("CLUSTER KEYSLOT {key}")).parse().unwrap();
        let port = port_of(slot);
        own.entry(port).or_default().push(key.clone());
        let moved = format!("MOVED {slot} 127.0.0.1:{port}");
        for member in &members {
            let is_primary = i64::from(member.port) == port;
            let mut client = member.client();
            for (command, reply) in [
                (format!("SET {key} {at}"), "OK".to_owned()),
                (format!("GET {key}"), at.to_string()),
                (format!("EVAL return{{KEYS[1]}} 1 {key}"), format!("[{key}]")),
                (format!("SPUBLISH {key} x"), "0".into()),
                (format!("MSET {key} {at} {{{key}}}2 {at}"), "OK".into()),
                (format!("DEL {{{key}}}2"), "1".into()),
            ] {
                let wanted = if is_primary { &reply } else { &moved };
                assert_eq!(call(&mut client, &command), *wanted, "{command}");
            }
            assert_eq!(call(&mut client, "MULTI"), "OK");
            let wanted = if is_primary { "QUEUED" } else { &*moved };
            assert_eq!(call(&mut client, &format!("GET {key}")), wanted);
            let exec = call(&mut client, "EXEC");
            assert_eq!(exec.starts_with('['), is_primary, "{exec}");
        }
        // By the Unix socket any member executes any command.
        for member in &members {
            assert_eq!(call(&mut member.server.connect(), &format!("GET {key}")), at.to_string());
        }
    }
    check_whole_node_commands(&members, &own);
    check_reads_from_backups(&members, &own);
    check_functions(&members);
}

/// Commands without keys concern the slots of the node that they are sent to.
fn check_whole_node_commands(members: &[Member; 3], own: &BTreeMap<i64, Vec<String>>) {
    assert_eq!(own.len(), 3, "each member has keys");
    for member in members {
        let keys: BTreeSet<&str> =
            own[&i64::from(member.port)].iter().map(String::as_str).collect();
        let mut client = member.client();
        assert_eq!(call(&mut client, "DBSIZE"), keys.len().to_string());
        let listed = call(&mut client, "KEYS *");
        let listed: BTreeSet<&str> = listed.trim_matches(['[', ']']).split(' ').collect();
        assert_eq!(listed, keys);
        let (mut cursor, mut scanned) = ("0".to_owned(), BTreeSet::new());
        loop {
            let Value::Array(page) = client.call(&["SCAN", &cursor, "COUNT", "7"]) else {
                panic!()
            };
            cursor = show(&page[0]);
            let Value::Array(found) = &page[1] else { panic!() };
            scanned.extend(found.iter().map(show));
            if cursor == "0" {
                break;
            }
        }
        assert!(scanned.iter().map(String::as_str).eq(keys.iter().copied()), "{scanned:?}");
        assert!(keys.contains(&*call(&mut client, "RANDOMKEY")));
        assert_eq!(call(&mut client, "WAIT 1 0"), "1");
    }
    let flushed = &members[1];
    assert_eq!(call(&mut flushed.client(), "FLUSHALL"), "OK");
    for member in members {
        let left = if member.port == flushed.port { 0 } else { own[&i64::from(member.port)].len() };
        assert_eq!(call(&mut member.client(), "DBSIZE"), left.to_string());
    }
}

fn check_reads_from_backups(members: &[Member; 3], own: &BTreeMap<i64, Vec<String>>) {
    let [primary, others @ ..] = members;
    let key = &own[&i64::from(primary.port)][0];
    assert_eq!(call(&mut primary.client(), &format!("SET {key} new")), "OK");
    let reads = |member: &Member| {
        let mut client = member.client();
        assert_eq!(call(&mut client, "READONLY"), "OK");
        assert!(call(&mut client, &format!("SET {key} x")).starts_with("MOVED "));
        let before = call(&mut client, &format!("GET {key}"));
        assert_eq!(call(&mut client, "READWRITE"), "OK");
        assert!(call(&mut client, &format!("GET {key}")).starts_with("MOVED "));
        before == "new"
    };
    // A slot has one backup. It has acknowledged the write.
    assert_eq!(others.iter().filter(|other| reads(other)).count(), 1);
}

/// A client of Redis Cluster sends changes of functions to every node.
fn check_functions(members: &[Member; 3]) {
    let code =
        "#!lua name=lib\nredis.register_function('f', function(keys, args) return args[1] end)";
    let each = |args: &[&str], reply: &str| {
        for member in members {
            let got = member.client().text(args);
            assert!(got.starts_with(reply), "{args:?}: {got}");
        }
    };
    each(&["FUNCTION", "LOAD", code], "lib");
    each(&["FUNCTION", "LOAD", code], "ERR Library 'lib' already exists");
    each(&["FCALL", "f", "0", "x"], "x");
    each(&["FUNCTION", "DELETE", "lib"], "OK");
    each(&["FUNCTION", "DELETE", "lib"], "ERR Library not found");
}

#[test]
fn caches_are_hidden_and_redirect_nobody() {
    let founder = Member::start(FOUND, "");
    let cache = founder.join(" --cluster-role cache");
    let slots_there = slots(&mut founder.client());
    assert_eq!(slots_there, [(0, 16_383, i64::from(founder.port))]);
    let mut client = cache.client();
    assert_eq!(call(&mut client, "SET a 1"), "OK");
    assert_eq!(call(&mut client, "GET a"), "1");
    assert!(call(&mut client, "INFO cluster").contains("cluster_enabled:0\r\n"));
    assert!(call(&mut client, "HELLO").contains("standalone"));
    assert_eq!(call(&mut founder.client(), "GET a"), "1");
}

#[test]
fn announced_names_are_shown() {
    let founder = Member::start(FOUND, " --cluster-announce-hostname one.example");
    let second = founder
        .join(" --cluster-announce-hostname two.example --cluster-announce-human-nodename b");
    eventually("both have slots", || slots(&mut founder.client()).len() >= 2);
    let mut client = founder.client();
    let nodes = call(&mut client, "CLUSTER NODES");
    assert!(nodes.contains(",one.example myself,master") && nodes.contains(",two.example master"));
    assert!(call(&mut client, "CLUSTER SLOTS").contains("[hostname two.example]"));
    let key = (0..)
        .map(|at| format!("key{at}"))
        .find(|key| call(&mut client, &format!("GET {key}")).starts_with("MOVED "));
    let key = key.unwrap();
    let port = second.port;
    for (kind, end) in [
        ("ip", format!(" 127.0.0.1:{port}")),
        ("hostname", format!(" two.example:{port}")),
        ("unknown-endpoint", format!(" :{port}")),
    ] {
        let set = format!("CONFIG SET cluster-preferred-endpoint-type {kind}");
        assert_eq!(call(&mut client, &set), "OK");
        let moved = call(&mut client, &format!("GET {key}"));
        assert!(moved.ends_with(&end), "{moved}");
    }
    assert!(call(&mut client, "CLUSTER SLOTS").contains("[ip 127.0.0.1 hostname two.example]"));
}

/// Slots move to a member that joins, and from one that leaves, while clients write.
#[test]
fn slots_move_without_a_lost_write() {
    let [first, second, third] = three("");
    let seeds = vec![first.port, second.port];
    let is_over = AtomicBool::new(false);
    let write = |writer: usize| {
        let mut client = Follower::new(seeds.clone());
        let mut counts = vec![0; KEYS];
        while !is_over.load(Relaxed) {
            for (at, count) in counts.iter_mut().enumerate() {
                let key = format!("writer{writer}:{at}");
                match client.call(&key, &["INCR", &key]) {
                    // A command whose reply was lost may have been executed.
                    Ok(reply) if reply.parse::<i64>().is_err() => assert!(
                        ["UNKNOWN", "TRYAGAIN", "CLUSTERDOWN", "LOADING"]
                            .contains(&first_word(&reply)),
                        "{reply}"
                    ),
                    Ok(reply) => {
                        let now: i64 = reply.parse().unwrap();
                        assert!(now > *count, "{key} was {count} and is {now}");
                        *count = now;
                    }
                    Err(why) => assert_eq!(why, "closed"),
                }
            }
            // Leaves the processor to the members.
            std::thread::sleep(Duration::from_millis(1));
        }
        (counts, client.moved)
    };
    std::thread::scope(|scope| {
        let (write, end) = (&write, EndOnDrop(&is_over));
        let writers: Vec<_> = (0..2).map(|writer| scope.spawn(move || write(writer))).collect();
        let fourth = first.join("");
        let servers = [&first.server, &second.server, &third.server, &fourth.server];
        await_moves("the new member has its share", || have_shares(&servers, 2));
        let mut third = third;
        third.server.signal(libc::SIGTERM);
        assert_eq!(third.server.exit_code(), Some(0));
        let servers = [&first.server, &second.server, &fourth.server];
        await_moves("the others own the slots", || have_shares(&servers, 2));
        drop(end);
        let mut reader = Follower::new(vec![first.port]);
        for (writer, thread) in writers.into_iter().enumerate() {
            let (counts, moved) = thread.join().unwrap();
            assert!(moved > 0, "no key has moved");
            for (at, count) in counts.into_iter().enumerate() {
                let key = format!("writer{writer}:{at}");
                let now: i64 = reader.call(&key, &["GET", &key]).unwrap().parse().unwrap();
                assert!(now >= count && count > 0, "{key} is {now}, {count} was acknowledged");
            }
        }
    });
}

fn first_word(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}
