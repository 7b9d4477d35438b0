//! A cluster with links that are slow, lose packets, or are cut in one direction or both. Needs
//! network namespaces (root); without them the tests are skipped, which is printed.

use petrel_netbed::{Host, Network, Path};

use crate::bank::Bank;
use crate::cluster::{
    FOUND, await_line, await_service, call, call_or_reconnect, count_meanwhile, join, scratch,
};
use crate::cluster_transactions::some_keys;
use crate::harness::{Client, Server, eventually, petrel, show};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Members that are cut off are taken for dead after so long.
const TIMEOUT: &str = "--cluster-node-timeout 3000";

/// Keys that every test fills.
const KEYS: usize = 300;

/// Other keys, which are counted up.
const COUNTERS: usize = 40;

struct Cluster {
    members: Vec<Server>,
    network: Network,
    /// Lives as long as the processes in it.
    _hosts: Vec<Host>,
}

impl Cluster {
    /// Three members, each in a host of its own.
    fn start(copies: &str) -> Option<Cluster> {
        Self::start_with(copies, TIMEOUT)
    }

    fn start_with(copies: &str, more: &'static str) -> Option<Cluster> {
        let (mut network, mut hosts, mut members) = (Network::new(1), Vec::new(), Vec::new());
        for number in 0..3 {
            let host = match network.host() {
                Ok(host) => host,
                Err(error) => {
                    println!("skipped: {error}");
                    return None;
                }
            };
            let flags = members.first().map_or(FOUND.to_owned(), join);
            let flags = flags.replace("127.0.0.1", &host.address().to_string());
            let flags = flags.replace("copies all", &format!("copies {copies}"));
            members.push(host.run(move || {
                let scratch = scratch("secret");
                let args = format!("{flags} {more}");
                let args: Vec<&str> = args.split(' ').collect();
                Server::start_by(petrel(&scratch), scratch, "epoll", &args)
            }));
            await_service(&members[number]);
            hosts.push(host);
        }
        let cluster = Cluster { members, network, _hosts: hosts };
        cluster.await_size(&[0, 1, 2], 3);
        if copies == "2" {
            cluster.await_homes();
        }
        let mut client = cluster.client(0);
        eventually("the keys are written", || {
            (0..KEYS).all(|at| call(&mut client, &format!("SET key{at} {at}")) == "OK")
        });
        Some(cluster)
    }

    fn client(&self, member: usize) -> Client {
        self.members[member].connect()
    }

    /// Waits until these members see `size` members with slots.
    fn await_size(&self, members: &[usize], size: usize) {
        let size = format!("cluster_size:{size}\r\n");
        for &member in members {
            let mut client = self.client(member);
            eventually(&format!("member {member} knows of {size}"), || {
                let info = call(&mut client, "CLUSTER INFO");
                info.contains(&size) && info.contains("cluster_state:ok")
            });
        }
    }

    /// Waits until every slot has two homes that have its data.
    fn await_homes(&self) {
        let mut clients: Vec<Client> = (0..3).map(|member| self.client(member)).collect();
        eventually("each slot has two homes", || {
            let mut sums = [0; 2];
            for client in &mut clients {
                let info = call(client, "CLUSTER INFO");
                for (sum, name) in sums.iter_mut().zip(["slots_held:", "slots_coming:"]) {
                    let field = info.lines().find_map(|line| line.split_once(name));
                    *sum += field.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0);
                }
            }
            sums == [2 * 16_384, 0]
        });
    }

    /// All keys and their values, read from a member.
    fn content(&self, member: usize) -> String {
        let mut client = self.client(member);
        let keys = (0..KEYS).map(|at| format!("key{at}"));
        let keys = keys.chain((0..COUNTERS).map(|at| format!("n{at}")));
        let keys = keys.chain(["counter".to_owned(), "list".to_owned()]);
        keys.map(|key| call(&mut client, &format!("DUMP {key}")) + "\n").collect()
    }

    fn await_same_content(&self) {
        eventually("all members hold the same", || {
            let first = self.content(0);
            (1..3).all(|member| self.content(member) == first)
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.members.iter().for_each(|member| println!("{}", member.output()));
        }
    }
}

/// Asserts that no value was returned twice.
fn assert_distinct(mut values: Vec<String>) {
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    assert!(count > 10 && values.len() == count, "{} of {count} values", values.len());
}

/// The third member is cut off from the others and comes back.
fn cut_off(cut: impl FnOnce(&Network)) {
    let Some(cluster) = Cluster::start("2") else { return };
    let [mut first, mut third] = [0, 2].map(|member| cluster.client(member));
    // From then on it knows that another owner has each change: it shows no others.
    for at in 0..KEYS {
        assert_eq!(call(&mut third, &format!("GET key{at}")), at.to_string());
    }
    cut(&cluster.network);
    let majority: Vec<&Server> = cluster.members[..2].iter().collect();
    let (values, ()) = count_meanwhile(&majority, || {
        cluster.await_size(&[0, 1], 2);
        // No command is left without an answer, whether it was under way or came later.
        eventually("the member that is cut off refuses writes", || {
            (0..KEYS).all(|at| {
                let write = format!("SET key{at} lost");
                let reply = call_or_reconnect(&cluster.members[2], &mut third, &write);
                reply.starts_with("CLUSTERDOWN ")
            })
        });
    });
    assert_distinct(values);
    // Keys that it held are still there, and a key it cannot read is an error, not nil.
    let mut held = 0;
    for at in 0..KEYS {
        let reply = call(&mut third, &format!("GET key{at}"));
        let is_held = reply == at.to_string() || reply == "lost";
        assert!(is_held || reply.starts_with("CLUSTERDOWN "), "key{at}: {reply}");
        held += usize::from(is_held);
    }
    assert!(held > KEYS / 3, "{held}");
    for at in 0..KEYS {
        assert_eq!(call(&mut first, &format!("SET key{at} new")), "OK");
    }
    cluster.network.set_all_paths(Path::default());
    cluster.await_size(&[0, 1, 2], 3);
    cluster.await_same_content();
    assert_eq!(call(&mut cluster.client(2), "GET key0"), "new");
}

#[test]
fn a_member_that_is_cut_off_refuses_writes_and_comes_back() {
    cut_off(|network| network.set_paths_between(&[2], Path::CUT));
}

#[test]
fn a_member_that_no_other_hears_refuses_writes_and_comes_back() {
    cut_off(|network| [0, 1].into_iter().for_each(|to| network.set_path(2, to, Path::CUT)));
}

#[test]
fn a_member_that_hears_no_other_refuses_writes_and_comes_back() {
    cut_off(|network| [0, 1].into_iter().for_each(|from| network.set_path(from, 2, Path::CUT)));
}

#[test]
fn transfers_between_primaries_survive_a_cut() {
    let Some(cluster) = Cluster::start("2") else { return };
    let members = &cluster.members;
    let mut keys = Vec::new();
    // Primaries move after the data.
    eventually("each is a primary", || {
        keys = members.iter().flat_map(|member| some_keys(member, 3)).collect();
        keys.len() == 9
    });
    let bank = Bank::open(&mut cluster.client(0), keys);
    let sockets: Vec<_> = members.iter().map(Server::socket).collect();
    std::thread::scope(|scope| {
        for (number, socket) in sockets.iter().enumerate() {
            let bank = &bank;
            scope.spawn(move || bank.work(socket, 100 * number));
        }
        bank.await_more(100);
        cluster.network.set_paths_between(&[2], Path::CUT);
        cluster.await_size(&[0, 1], 2);
        bank.await_more(100);
        cluster.network.set_all_paths(Path::default());
        cluster.await_size(&[0, 1, 2], 3);
        bank.await_more(100);
        bank.close();
    });
    members.iter().for_each(|member| bank.check(member));
}

#[test]
fn a_member_that_is_cut_off_acknowledges_nothing_that_is_lost() {
    let flags = "--cluster-node-timeout 3000 --cluster-acknowledge 2";
    let Some(cluster) = Cluster::start_with("2", flags) else { return };
    // Some of these keys have their primary at the member that is cut off.
    let mut clients: Vec<Client> = (0..COUNTERS).map(|_| cluster.client(2)).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(call(client, &format!("INCR n{at}")), "1");
    }
    cluster.network.set_paths_between(&[2], Path::CUT);
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(&["INCR", &format!("n{at}")]);
    }
    let replies = clients.iter_mut().map(|client| client.receive().map(|reply| show(&reply)));
    let replies: Vec<_> = replies.collect();
    cluster.await_size(&[0, 1], 2);
    cluster.network.set_all_paths(Path::default());
    cluster.await_size(&[0, 1, 2], 3);
    cluster.await_same_content();
    let mut first = cluster.client(0);
    for (at, reply) in replies.into_iter().enumerate() {
        let seen = reply.as_ref().and_then(|reply| reply.parse::<u64>().ok()).unwrap_or(1);
        let value = call(&mut first, &format!("GET n{at}"));
        assert!(value.parse::<u64>().is_ok_and(|value| value >= seen), "n{at}: {value}, {reply:?}");
    }
}

/// Delay in each direction between two owners, in the tests of origins that keep their changes.
const BACKUP_DELAY: Duration = Duration::from_millis(40);

/// Three members, of which the last two are far from each other.
fn far_apart() -> Option<Cluster> {
    far_apart_with("--cluster-node-timeout 3000 --cluster-acknowledge 2")
}

fn far_apart_with(flags: &'static str) -> Option<Cluster> {
    let cluster = Cluster::start_with("2", flags)?;
    let path = Path { delay: BACKUP_DELAY, ..Path::default() };
    [(1, 2), (2, 1)].into_iter().for_each(|(from, to)| cluster.network.set_path(from, to, path));
    Some(cluster)
}

#[test]
fn an_origin_that_keeps_its_changes_waits_for_no_other_owner() {
    let Some(cluster) = far_apart() else { return };
    let mut client = cluster.client(0);
    let mut slow: Vec<usize> = (0..KEYS).collect();
    eventually("each key is written in less than a round trip between its owners", || {
        slow.retain(|at| {
            let begin = Instant::now();
            assert_eq!(call(&mut client, &format!("SET key{at} new")), "OK");
            begin.elapsed() >= 2 * BACKUP_DELAY
        });
        slow.is_empty()
    });
}

#[test]
fn a_change_that_is_to_be_on_disk_is_kept_by_owners_only() {
    let flags = "--cluster-node-timeout 3000 --appendonly yes --appendfsync always";
    let Some(cluster) = far_apart_with(flags) else { return };
    let mut client = cluster.client(0);
    let is_slow = |at: &usize| {
        let begin = Instant::now();
        assert_eq!(call(&mut client, &format!("SET key{at} new")), "OK");
        begin.elapsed() >= 2 * BACKUP_DELAY
    };
    // Those of which the two distant members are the owners.
    assert!((0..100).filter(is_slow).count() >= 12);
}

#[test]
fn what_only_its_origin_has_outlives_the_primary() {
    let Some(mut cluster) = far_apart() else { return };
    let mut clients: Vec<Client> = (0..COUNTERS).map(|_| cluster.client(0)).collect();
    let mut counts = [0; COUNTERS];
    for round in 1..=20 {
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(&["INCR", &format!("n{at}")]);
        }
        for (client, count) in clients.iter_mut().zip(&mut counts) {
            assert_eq!(show(&client.receive().expect("a reply")), round.to_string());
            *count = round;
        }
    }
    cluster.members[1].signal(libc::SIGKILL);
    cluster.members[1].exit_code();
    cluster.await_size(&[0, 2], 2);
    let mut client = cluster.client(2);
    for (at, count) in counts.into_iter().enumerate() {
        eventually(&format!("n{at} is {count}"), || {
            call(&mut client, &format!("GET n{at}")) == count.to_string()
        });
    }
}

/// Two members lose their link, in some directions, and reach each other through the third.
fn cut_between(directions: &[(usize, usize)]) {
    // A busy machine does not remove a member, which is not the point here.
    let Some(cluster) = Cluster::start_with("2", "--cluster-node-timeout 10000") else { return };
    let [mut first, mut second, mut third] = [0, 1, 2].map(|member| cluster.client(member));
    // Some of these lists have their primaries beyond the cut.
    let mut waiters: Vec<Client> = (0..12).map(|_| cluster.client(1)).collect();
    for (at, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(&["BLPOP", &format!("q{at}"), "15"]);
    }
    for &(from, to) in directions {
        cluster.network.set_path(from, to, Path::CUT);
    }
    // Commands are executed once, those included that were under way.
    for at in 0..COUNTERS {
        let count = |client: &mut Client, count: &str| {
            eventually(&format!("n{at} is counted"), || {
                let reply = call(client, &format!("INCR n{at}"));
                assert!(reply == count || reply.starts_with("CLUSTERDOWN "), "n{at}: {reply}");
                reply == count
            });
        };
        count(&mut second, "1");
        count(&mut third, "2");
        count(&mut first, "3");
    }
    let ends = waiters.iter_mut().map(|waiter| show(&waiter.receive().expect("a reply")));
    let ends: Vec<String> = ends.collect();
    assert!(ends.iter().all(|end| end == "nil"), "{ends:?}");
    await_line(&cluster.members[1], "goes through member 0");
    for member in 0..3 {
        let nodes = call(&mut cluster.client(member), "CLUSTER NODES");
        assert!(nodes.lines().count() == 3 && !nodes.contains("fail"), "{nodes}");
    }
    cluster.network.set_all_paths(Path::default());
    await_line(&cluster.members[1], "is direct again");
    for at in 0..COUNTERS {
        assert_eq!(call(&mut third, &format!("GET n{at}")), "3", "n{at}");
    }
    cluster.await_same_content();
}

#[test]
fn two_members_without_a_link_reach_each_other_through_a_third() {
    cut_between(&[(1, 2), (2, 1)]);
}

#[test]
fn a_member_that_another_does_not_hear_reaches_it_through_a_third() {
    cut_between(&[(1, 2)]);
}

#[test]
fn a_member_that_does_not_hear_another_is_reached_through_a_third() {
    cut_between(&[(2, 1)]);
}

#[test]
fn a_network_that_is_slow_and_loses_packets_only_takes_longer() {
    let Some(cluster) = Cluster::start("all") else { return };
    let jitter = Duration::from_millis(3);
    let path = Path { delay: jitter, jitter, loss: 0.02, ..Path::default() };
    cluster.network.set_all_paths(path);
    let all: Vec<&Server> = cluster.members.iter().collect();
    let (values, ()) = count_meanwhile(&all, || {
        for (at, member) in (0..150).zip([0, 1, 2].into_iter().cycle()) {
            let mut client: Client = cluster.client(member);
            assert_eq!(call(&mut client, &format!("RPUSH list {at}")), (at + 1).to_string());
            assert_eq!(call(&mut client, &format!("SET key{at} {at}")), "OK");
            assert_eq!(call(&mut client, &format!("GET key{at}")), at.to_string());
        }
    });
    assert_distinct(values);
    cluster.await_same_content();
    let size = call(&mut cluster.client(0), "CLUSTER INFO");
    assert!(size.contains("cluster_size:3\r\n"), "{size}");
}

/// Duration of random link failures; a longer run finds more.
const SECONDS: &str = "PETREL_TEST_SECONDS";

/// A number below a limit (xorshift, Marsaglia 2003).
fn below(random: &mut u64, limit: u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random % limit
}

/// Cuts some of the links of one member, or the one between two, for a moment.
fn cut_some(network: &Network, random: &mut u64) -> String {
    let (member, kind) = (below(random, 3) as usize, below(random, 4));
    for other in (0..3).filter(|other| *other != member) {
        let is_pair_only = kind == 3 && other == (member + 2) % 3;
        if kind != 1 && !is_pair_only {
            network.set_path(member, other, Path::CUT);
        }
        if kind != 0 && !is_pair_only {
            network.set_path(other, member, Path::CUT);
        }
    }
    let kind = ["sends nothing", "hears nothing", "is cut off", "has lost a link"][kind as usize];
    format!("member {member} {kind}")
}

/// Writes values that grow to keys of its own at a member; what another home had by the time of an
/// answer, by key. Counts itself once there is such a value.
fn write(
    (server, writer): (&Server, usize),
    is_over: &AtomicBool,
    have_kept: &AtomicUsize,
) -> Vec<u64> {
    let (mut client, mut kept, mut value) = (server.connect(), vec![0; 20], 0);
    let mut has_kept = false;
    while !is_over.load(Relaxed) {
        value += 1;
        for (at, kept) in kept.iter_mut().enumerate() {
            let begin = Instant::now();
            let mut ask = |command: &str| call_or_reconnect(server, &mut client, command);
            let reply = ask(&format!("SET w{writer}:{at} {value}"));
            let copies = ask("WAIT 1 500");
            if reply == "OK" && copies.parse::<i64>().is_ok_and(|copies| copies >= 1) {
                *kept = value;
                let first = !std::mem::replace(&mut has_kept, true);
                have_kept.fetch_add(usize::from(first), Relaxed);
            }
            let read = ask(&format!("GET w{writer}:{at}"));
            assert!(*kept == 0 || read != "nil", "w{writer}:{at} is gone");
            assert!(begin.elapsed() < Duration::from_secs(25), "{reply}, {copies}, {read}");
        }
    }
    kept
}

#[test]
fn what_another_home_has_outlives_every_cut() {
    let Some(cluster) = Cluster::start("2") else { return };
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let mut random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {random}");
    let (is_over, have_kept) = (AtomicBool::new(false), AtomicUsize::new(0));
    let kept: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let writers = cluster.members.iter().enumerate().map(|(writer, server)| {
            let (is_over, have_kept) = (&is_over, &have_kept);
            scope.spawn(move || write((server, writer), is_over, have_kept))
        });
        let writers: Vec<_> = writers.collect();
        let cuts = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("each writer has written", || have_kept.load(Relaxed) == 3);
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(seconds) {
                cluster.await_homes();
                let cut = cut_some(&cluster.network, &mut random);
                let time = Duration::from_millis(200 + below(&mut random, 7000));
                println!("{:?}: {cut} for {time:?}", begin.elapsed());
                std::thread::sleep(time);
                cluster.network.set_all_paths(Path::default());
                cluster.await_size(&[0, 1, 2], 3);
            }
        }));
        is_over.store(true, Relaxed);
        let kept = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        cuts.unwrap();
        kept
    });
    cluster.await_homes();
    cluster.await_same_content();
    let mut client = cluster.client(0);
    for (writer, kept) in kept.iter().enumerate() {
        for (at, kept) in kept.iter().enumerate() {
            let value = call(&mut client, &format!("GET w{writer}:{at}"));
            let value = value.parse().unwrap_or(0);
            assert!(value >= *kept, "w{writer}:{at} is {value}, and {kept} was kept");
        }
    }
}
