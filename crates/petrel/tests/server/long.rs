//! Cost of commands: each command of the table either is among the worst inputs, which run here
//! beside other connections, or is listed in `bounded.txt`, with the reason that its cost is
//! bounded by its arguments or one value.
//!
//! The inputs are such that each takes many seconds, in the build for tests and in others; none is
//! waited for. A command that kept its worker, or a FLUSHALL that kept all of them, would be seen.

use crate::harness::*;
use petrel_resp::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

with_each_backend!(
    others_are_answered_beside_the_worst_of_each_command,
    a_command_that_holds_all_keys_is_a_slow_script_to_others,
    what_waits_behind_a_long_command_is_executed,
    the_worst_within_transactions_and_scripts_is_a_slow_script,
    what_has_written_is_not_killed_and_ends_with_the_server,
    a_long_command_within_another_ends_with_its_client,
    a_transaction_of_many_commands_is_a_slow_script,
);

/// Maximum time to a reply on other connections: one second, and as much longer as the processors
/// have other work.
fn answer_max() -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    let load: f64 = load.split(' ').next().unwrap().parse().unwrap();
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    Duration::from_secs(1).mul_f64((2.0 * load / cores).max(1.0))
}

/// Commands with a common implementation, the data to create, and a call that takes long.
struct Worst {
    commands: &'static str,
    data: fn(&mut Client),
    call: fn() -> Vec<String>,
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

/// A call on a key that is named often.
fn often(before: &str, key: &str, times: usize) -> Vec<String> {
    let mut call = words(before);
    call.extend(std::iter::repeat_n(key.to_string(), times));
    call
}

/// Calls a command with `count` arguments made by `each`, a thousand at a time.
fn fill(client: &mut Client, begin: &[&str], count: usize, each: impl Fn(usize) -> Vec<String>) {
    for from in (0..count).step_by(1000) {
        let args = (from..count.min(from + 1000)).flat_map(&each);
        let call: Vec<String> = begin.iter().map(|word| word.to_string()).chain(args).collect();
        let call: Vec<&str> = call.iter().map(String::as_str).collect();
        client.call(&call);
    }
}

fn sets(client: &mut Client) {
    fill(client, &["SADD", "s"], 100_000, |n| vec![format!("member {n}")]);
    fill(client, &["SADD", "others"], 2, |n| vec![format!("other {n}")]);
}

fn sorted_sets(client: &mut Client) {
    fill(client, &["ZADD", "z"], 100_000, |n| vec![n.to_string(), format!("member {n}")]);
    client.call(&["ZADD", "others", "1", "other"]);
}

/// Names that nearly match [`PATTERN`] everywhere.
fn long_name(n: usize) -> String {
    "a".repeat(3000) + &n.to_string()
}

fn pattern() -> String {
    "*".to_string() + &"?a".repeat(400) + "c*"
}

fn matching(before: &str) -> Vec<String> {
    [words(before), words("COUNT 1000000000 MATCH"), vec![pattern()]].concat()
}

fn vectors(client: &mut Client) {
    // A batch at a time: on a busy machine the insertions of many would outlast the patience of a
    // client that only sends.
    for batch in 0..200 {
        for n in batch * 100..(batch + 1) * 100 {
            let n = n.to_string();
            let options = ["EF", "4", "SETATTR", "{\"a\":1}"];
            client.send(&[&["VADD", "v", "VALUES", "2", &n, "7", &n], &options[..]].concat());
        }
        (0..100).for_each(|_| assert_eq!(show(&client.receive().unwrap()), "1"));
    }
}

fn filtered(options: &str) -> Vec<String> {
    let filter = vec![".a+1>0"; 60_000 / 9].join(" &&");
    [words("VSIM v VALUES 2 1 1 COUNT 100000"), words(options), vec!["FILTER".into(), filter]]
        .concat()
}

const WORST: &[Worst] = &[
    Worst {
        commands: "keys",
        data: |client| {
            fill(client, &["MSET"], 4000, |n| vec![long_name(n), "v".into()]);
        },
        call: || vec!["KEYS".into(), pattern()],
    },
    Worst {
        commands: "scan clusterscan",
        data: |client| {
            fill(client, &["MSET"], 4000, |n| vec![long_name(n), "v".into()]);
        },
        call: || matching("SCAN 0"),
    },
    Worst {
        commands: "sscan",
        data: |client| fill(client, &["SADD", "s"], 4000, |n| vec![long_name(n)]),
        call: || matching("SSCAN s 0"),
    },
    Worst {
        commands: "hscan",
        data: |client| fill(client, &["HSET", "h"], 4000, |n| vec![long_name(n), "v".into()]),
        call: || matching("HSCAN h 0"),
    },
    Worst {
        commands: "zscan",
        data: |client| fill(client, &["ZADD", "z"], 4000, |n| vec!["1".into(), long_name(n)]),
        call: || matching("ZSCAN z 0"),
    },
    Worst { commands: "vsim", data: vectors, call: || filtered("TRUTH") },
    Worst { commands: "vsim", data: vectors, call: || filtered("EF 100000") },
    Worst {
        commands: "sinter sintercard sinterstore",
        data: sets,
        call: || often("SINTERSTORE d", "s", 3000),
    },
    Worst {
        commands: "sunion sunioncard sunionstore",
        data: sets,
        call: || often("SUNION", "s", 3000),
    },
    Worst {
        commands: "sdiff sdiffcard sdiffstore",
        data: sets,
        call: || [often("SDIFFSTORE d s", "others", 1000), often("s", "s", 2000)].concat(),
    },
    Worst {
        commands: "zunion zunionstore",
        data: sorted_sets,
        call: || often("ZUNIONSTORE d 3000", "z", 3000),
    },
    Worst {
        commands: "zinter zinterstore zintercard",
        data: sorted_sets,
        call: || often("ZINTERCARD 3000", "z", 3000),
    },
    Worst {
        commands: "zdiff zdiffstore",
        data: sorted_sets,
        call: || often("ZDIFF 3001 z", "others", 3000),
    },
    Worst {
        commands: "sort sort_ro",
        data: sets,
        call: || [words("SORT s ALPHA"), words("GET # ".repeat(5000).trim_end())].concat(),
    },
    Worst {
        commands: "command|docs command|info",
        data: |_| (),
        call: || often("COMMAND DOCS", "georadius", 500_000),
    },
    Worst {
        commands: "bitop",
        data: |client| drop(client.call(&["SETRANGE", "b", "300000", "x"])),
        call: || often("BITOP XOR d", "b", 3000),
    },
    Worst {
        commands: "lcs",
        data: |client| {
            client.call(&["MSET", "a", &"a".repeat(11_000), "b", &"b".repeat(11_000)]);
        },
        call: || words("LCS a b LEN"),
    },
    Worst {
        commands: "srandmember hrandfield zrandmember vrandmember",
        data: sets,
        call: || words("SRANDMEMBER s -16000000"),
    },
    Worst {
        commands: "pfcount pfmerge",
        data: |client| fill(client, &["PFADD", "p"], 20_000, |n| vec![n.to_string()]),
        call: || often("PFCOUNT", "p", 30_000),
    },
    Worst {
        commands: "geosearch geosearchstore georadius georadius_ro georadiusbymember georadiusbymember_ro",
        data: |client| {
            fill(client, &["GEOADD", "g"], 30_000, |n| {
                let place = |step: usize| format!("{}", (n * step % 9000) as f64 / 1000.0);
                vec![place(7), place(11), n.to_string()]
            });
        },
        call: || {
            let vertices = (0..20_000).flat_map(|n| {
                let at = f64::from(n) / 1000.0;
                [format!("{at}"), format!("{}", if n % 2 == 0 { -5.0 } else { 20.0 })]
            });
            words("GEOSEARCH g BYPOLYGON 20000").into_iter().chain(vertices).collect()
        },
    },
    Worst {
        commands: "cms.merge",
        data: |client| {
            client.call(&["CMS.INITBYDIM", "k", "1000000", "5"]);
        },
        call: || often("CMS.MERGE k 9000", "k", 9000),
    },
    Worst {
        commands: "cms.incrby cms.query",
        data: |client| {
            client.call(&["CMS.INITBYDIM", "k", "1", "4096"]);
        },
        call: || [words("CMS.INCRBY k"), words("x 1 ".repeat(300_000).trim_end())].concat(),
    },
    // The counters of each row become the next item's, one draw after another.
    Worst {
        commands: "topk.incrby topk.add",
        data: |client| {
            client.call(&["TOPK.RESERVE", "k", "10", "1", "4096", "1"]);
        },
        call: || {
            let items = (0..1000).flat_map(|n| [n.to_string(), "100000".into()]);
            words("TOPK.INCRBY k").into_iter().chain(items).collect()
        },
    },
    Worst {
        commands: "topk.query topk.count",
        data: |client| {
            client.call(&["TOPK.RESERVE", "k", "1000000"]);
        },
        call: || often("TOPK.QUERY k", "x", 200_000),
    },
    Worst {
        commands: "bf.madd bf.insert bf.add",
        data: links,
        call: || often("BF.MADD k", "1999", 900_000),
    },
    Worst { commands: "bf.mexists", data: links, call: || often("BF.MEXISTS k", "x", 900_000) },
    Worst {
        commands: "cf.insert cf.insertnx cf.add cf.addnx",
        data: |client| {
            let size = ["BUCKETSIZE", "255", "MAXITERATIONS", "65535"];
            client.call(&[&["CF.RESERVE", "k", "510"][..], &size].concat());
            fill(client, &["CF.INSERT", "k", "ITEMS"], 1000, |_| vec!["x".into()]);
        },
        call: || often("CF.INSERT k ITEMS", "x", 100_000),
    },
    Worst {
        commands: "tdigest.merge",
        data: digest,
        call: || often("TDIGEST.MERGE d 100000", "k", 100_000),
    },
    Worst {
        commands: "tdigest.byrank tdigest.byrevrank tdigest.cdf tdigest.quantile tdigest.rank tdigest.revrank",
        data: digest,
        call: || often("TDIGEST.QUANTILE k", "0.999", 900_000),
    },
];

/// A filter of as many links as items.
fn links(client: &mut Client) {
    client.call(&["BF.RESERVE", "k", "0.0001", "1", "EXPANSION", "1"]);
    fill(client, &["BF.MADD", "k"], 2000, |n| vec![n.to_string()]);
}

fn digest(client: &mut Client) {
    client.call(&["TDIGEST.CREATE", "k", "COMPRESSION", "10000"]);
    fill(client, &["TDIGEST.ADD", "k"], 60_000, |n| vec![n.to_string()]);
}

/// The commands of which there is a reason why they are bounded.
fn reviewed() -> BTreeSet<&'static str> {
    let lines = include_str!("bounded.txt").lines();
    lines.filter(|line| line.starts_with("  ")).flat_map(str::split_whitespace).collect()
}

#[test]
fn every_command_is_known_to_be_bounded() {
    let server = Server::start("epoll", &[]);
    let known = server.connect().text(&["COMMAND", "LIST"]);
    let known: BTreeSet<&str> = known.trim_matches(['[', ']']).split(' ').collect();
    let reviewed = reviewed();
    let run: BTreeSet<&str> = WORST.iter().flat_map(|worst| worst.commands.split(' ')).collect();
    let unknown: Vec<_> =
        known.iter().filter(|name| !reviewed.contains(*name) && !run.contains(*name)).collect();
    assert!(unknown.is_empty(), "what are the worst inputs of {unknown:?}? See bounded.txt");
    let twice: Vec<_> = reviewed.intersection(&run).collect();
    assert!(twice.is_empty(), "both run and in bounded.txt: {twice:?}");
    let gone: Vec<_> = reviewed.iter().filter(|name| !known.contains(*name)).collect();
    assert!(gone.is_empty(), "in bounded.txt, and no commands: {gone:?}");
}

/// Asks and demands an answer in time.
fn in_time(what: &str, call: &str, client: &mut Client, args: &[&str]) -> String {
    let begin = Instant::now();
    let answer = client.text(args);
    let elapsed = begin.elapsed();
    assert!(elapsed < answer_max(), "{what} was answered after {elapsed:?} beside {call}");
    answer
}

fn send(client: &mut Client, call: &[String]) {
    client.send(&call.iter().map(String::as_str).collect::<Vec<_>>());
}

fn others_are_answered_beside_the_worst_of_each_command(backend: &str) {
    let args = ["--dialect", "auto", "--client-output-buffer-limit", "normal 0 0 0"];
    let server = Server::start(backend, &args);
    // Connections of both workers.
    let mut others: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let mut first = server.connect();
    for worst in WORST {
        let call = (worst.call)();
        let what = format!(
            "{}: {}",
            worst.commands,
            &call[..3.min(call.len())].join(" ").chars().take(60).collect::<String>()
        );
        println!("{what}");
        first.call(&["FLUSHALL"]);
        (worst.data)(&mut first);
        let moved = server.info("helper_commands");
        let mut runner = server.connect();
        let id = runner.text(&["CLIENT", "ID"]);
        send(&mut runner, &call);
        eventually(&what, || server.info("helper_commands") > moved);
        for _ in 0..3 {
            for other in &mut others {
                assert_eq!(in_time("PING", &what, other, &["PING"]), "PONG");
                assert_eq!(in_time("GET", &what, other, &["GET", "none"]), "nil");
            }
            let begin = Instant::now();
            assert_eq!(
                in_time("a new connection", &what, &mut server.connect(), &["PING"]),
                "PONG"
            );
            assert!(begin.elapsed() < answer_max(), "connecting took {:?}", begin.elapsed());
        }
        assert_eq!(server.info("helper_commands_running"), 1, "{what} has ended by itself");
        // It is ended, by others or by its end.
        match worst.commands.len() % 2 {
            0 => assert_eq!(
                in_time("CLIENT KILL", &what, &mut first, &["CLIENT", "KILL", "ID", &id]),
                "1"
            ),
            _ => drop(runner),
        }
        eventually("it ends", || server.info("helper_commands_running") == 0);
        assert_eq!(server.info("blocked_clients"), 0);
        // Once more, until the keys are gone.
        let mut runner = server.connect();
        send(&mut runner, &call);
        eventually(&what, || server.info("helper_commands_running") == 1);
        assert_eq!(in_time("FLUSHALL", &what, &mut first, &["FLUSHALL"]), "OK");
        drop(runner);
        eventually("it ends too", || server.info("helper_commands_running") == 0);
    }
}

/// SORT by keys that follow from the elements holds all keys.
fn a_command_that_holds_all_keys_is_a_slow_script_to_others(backend: &str) {
    let server = Server::start(backend, &["--busy-reply-threshold", "100"]);
    let mut others: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let mut first = server.connect();
    sets(&mut first);
    let mut runner = server.connect();
    let call = [words("SORT s ALPHA BY w*"), words("GET w* ".repeat(3000).trim_end())].concat();
    send(&mut runner, &call);
    for other in &mut others {
        eventually("it is busy", || other.text(&["PING"]).starts_with("BUSY"));
        assert!(in_time("GET", "SORT", other, &["GET", "k"]).starts_with("BUSY"));
        assert!(in_time("FLUSHALL", "SORT", other, &["FLUSHALL"]).starts_with("BUSY"));
    }
    assert_eq!(first.text(&["SCRIPT", "KILL"]), "OK");
    let answer = show(&runner.receive().unwrap());
    assert_eq!(answer, "ERR the command was ended before it was done");
    eventually("nothing is busy", || others[0].text(&["PING"]) == "PONG");
    assert_eq!(others[1].text(&["SCARD", "s"]), "100000");
}

/// Commands on its keys wait for it; other commands do not.
fn what_waits_behind_a_long_command_is_executed(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut others: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    let mut first = server.connect();
    sorted_sets(&mut first);
    let mut runner = server.connect();
    let id = runner.text(&["CLIENT", "ID"]);
    send(&mut runner, &often("ZUNIONSTORE d 3000", "z", 3000));
    eventually("it runs", || server.info("helper_commands_running") == 1);
    others[0].send(&["ZADD", "z", "5", "new"]);
    others[1].send(&["ZSCORE", "z", "member 1"]);
    others[2].send(&["EVAL", "return redis.call('ZCARD', KEYS[1])", "1", "z"]);
    others[3].call(&["MULTI"]);
    others[3].call(&["ZCARD", "z"]);
    others[3].send(&["EXEC"]);
    others[4].send(&["WATCH", "z"]);
    // Those of the same workers are served meanwhile.
    for _ in 0..20 {
        assert_eq!(in_time("GET", "those that wait", &mut first, &["GET", "none"]), "nil");
        assert_eq!(in_time("PING", "those that wait", &mut others[5], &["PING"]), "PONG");
    }
    assert_eq!(first.text(&["CLIENT", "KILL", "ID", &id]), "1");
    let answers: Vec<String> =
        others[..5].iter_mut().map(|other| show(&other.receive().unwrap())).collect();
    assert_eq!((&*answers[0], &*answers[1], &*answers[4]), ("1", "1", "OK"));
    assert!(["100000", "100001"].contains(&&*answers[2]), "{answers:?}");
    assert!(["[100000]", "[100001]"].contains(&&*answers[3]), "{answers:?}");
    assert_eq!(first.text(&["ZCARD", "z"]), "100001");
    assert_eq!(server.info("blocked_clients"), 0);
}

/// What executes a long command as a part of itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Within {
    Transaction,
    Script,
}

const WITHIN: [Within; 2] = [Within::Transaction, Within::Script];

/// Arguments that a script can pass on.
const UNPACKED_MAX: usize = 7000;

impl Within {
    /// Sends calls that are executed as one.
    fn send(self, client: &mut Client, calls: &[Vec<String>]) {
        match self {
            Within::Transaction => {
                assert_eq!(client.text(&["MULTI"]), "OK");
                for call in calls {
                    let call: Vec<&str> = call.iter().map(String::as_str).collect();
                    assert_eq!(client.text(&call), "QUEUED");
                }
                client.send(&["EXEC"]);
            }
            Within::Script => {
                let mut script = String::from("local last ");
                let mut args = Vec::new();
                for call in calls {
                    let (from, to) = (args.len() + 1, args.len() + call.len());
                    script += &format!("last = redis.call(unpack(ARGV, {from}, {to})) ");
                    args.extend_from_slice(call);
                }
                script += "return last";
                send(client, &[vec!["EVAL".into(), script, "0".into()], args].concat());
            }
        }
    }

    /// Demands the replies of killed calls.
    fn expect_killed(self, what: &str, client: &mut Client, calls: usize) {
        let reply = show(&client.receive().expect(what));
        match self {
            Within::Transaction => {
                let each = ["ERR the command was ended before it was done"].repeat(calls);
                assert_eq!(reply, format!("[{}]", each.join(" ")), "{what}");
            }
            Within::Script => {
                assert!(
                    reply.contains("script killed by user with SCRIPT KILL"),
                    "{what}: {reply}"
                );
            }
        }
    }
}

fn until_busy(what: &str, client: &mut Client) {
    eventually(what, || client.text(&["PING"]).starts_with("BUSY"));
}

fn the_worst_within_transactions_and_scripts_is_a_slow_script(backend: &str) {
    const CHOSEN: [&str; 8] =
        ["keys", "sinter", "zunion", "sort", "bitop", "pfcount", "geosearch", "vsim"];
    let args = ["--dialect", "auto", "--busy-reply-threshold", "100"];
    let server = Server::start(backend, &args);
    let mut others: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let (mut first, mut runner) = (server.connect(), server.connect());
    for chosen in CHOSEN {
        let is_chosen = |worst: &&Worst| worst.commands.split(' ').next() == Some(chosen);
        let worst = WORST.iter().find(is_chosen).expect("it is one of the worst");
        first.call(&["FLUSHALL"]);
        (worst.data)(&mut first);
        let size = first.text(&["DBSIZE"]);
        for within in WITHIN {
            let call = (worst.call)();
            if within == Within::Script && call.len() > UNPACKED_MAX {
                continue;
            }
            let what = format!("{chosen} in a {within:?}");
            println!("{what}");
            within.send(&mut runner, &[call, words("SET written 1")]);
            for other in &mut others {
                until_busy(&what, other);
                for asked in ["GET none", "SET none 1", "FLUSHALL", "EXISTS d"] {
                    let asked: Vec<&str> = asked.split(' ').collect();
                    let answer = in_time(asked[0], &what, other, &asked);
                    assert!(answer.starts_with("BUSY"), "{what}: {answer}");
                }
            }
            let answer = in_time("a new connection", &what, &mut server.connect(), &["PING"]);
            assert!(answer.starts_with("BUSY"), "{what}: {answer}");
            assert_eq!(in_time("SCRIPT KILL", &what, &mut others[0], &["SCRIPT", "KILL"]), "OK");
            within.expect_killed(&what, &mut runner, 2);
            for other in &mut others {
                eventually(&what, || other.text(&["PING"]) == "PONG");
                assert_eq!(other.text(&["DBSIZE"]), size, "{what}");
                assert_eq!(other.text(&["EXISTS", "d", "written"]), "0", "{what}");
            }
            assert_eq!(runner.text(&["ECHO", "it goes on"]), "it goes on");
        }
    }
}

fn what_has_written_is_not_killed_and_ends_with_the_server(backend: &str) {
    for within in WITHIN {
        for writes in [true, false] {
            let what = format!("{within:?}, {writes}");
            let log = ["--appendonly", "yes", "--shutdown-timeout", "1"];
            let slow = [&log[..], &["--busy-reply-threshold", "100"]].concat();
            let mut server = Server::start(backend, &slow);
            let (mut other, mut runner) = (server.connect(), server.connect());
            sets(&mut other);
            let first = if writes { words("SET written 1") } else { words("GET written") };
            within.send(&mut runner, &[first, often("SINTERSTORE d", "s", 3000)]);
            until_busy(&what, &mut other);
            if writes {
                let refusal = in_time("SCRIPT KILL", &what, &mut other, &["SCRIPT", "KILL"]);
                assert!(refusal.starts_with("UNKILLABLE"), "{what}: {refusal}");
            }
            match writes {
                true => other.send(&["SHUTDOWN", "NOSAVE"]),
                false => server.signal(libc::SIGTERM),
            }
            assert_eq!(server.exit_code(), Some(0), "{what}");
            let again = Server::start_in(server.into_scratch(), backend, &log);
            let mut client = again.connect();
            assert_eq!(client.text(&["EXISTS", "d", "written"]), "0", "{what}");
            assert_eq!(client.text(&["SCARD", "s"]), "100000", "{what}");
        }
    }
}

/// Unless it has written.
fn a_long_command_within_another_ends_with_its_client(backend: &str) {
    let server = Server::start(backend, &["--busy-reply-threshold", "100"]);
    let mut others: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    sets(&mut others[0]);
    for within in WITHIN {
        let mut runner = server.connect();
        within.send(&mut runner, &[often("SINTERSTORE d", "s", 3000)]);
        until_busy("it is busy", &mut others[0]);
        drop(runner);
        for other in &mut others {
            eventually("nothing is busy", || other.text(&["PING"]) == "PONG");
            assert_eq!(other.text(&["EXISTS", "d"]), "0", "{within:?}");
        }
    }
}

/// None of them takes long by itself.
fn a_transaction_of_many_commands_is_a_slow_script(backend: &str) {
    const COMMANDS: usize = 5000;
    let server = Server::start(backend, &["--busy-reply-threshold", "100"]);
    let mut others: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    others[0].call(&["SETRANGE", "b", "4000000", "x"]);
    let mut runner = server.connect();
    Within::Transaction.send(&mut runner, &vec![words("BITCOUNT b"); COMMANDS]);
    for other in &mut others {
        until_busy("it is busy", other);
    }
    assert_eq!(others[0].text(&["SCRIPT", "KILL"]), "OK");
    let Some(Value::Array(replies)) = runner.receive() else { panic!("no array") };
    assert_eq!(replies.len(), COMMANDS);
    assert_eq!(show(&replies[0]), "4");
    assert_eq!(show(&replies[COMMANDS - 1]), "ERR the command was ended before it was done");
    eventually("nothing is busy", || others[1].text(&["PING"]) == "PONG");
}
