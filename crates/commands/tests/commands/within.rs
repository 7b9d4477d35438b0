//! Commands whose work is in proportion to one value, in transactions and scripts: others are served
//! while they run, `SCRIPT KILL` ends those that read, and those that change end complete.

use crate::client::{Client, show};
use petrel_commands::{Attendant, Shared};
use petrel_resp::{Dialect, Value};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const LEN: usize = 60_000;

/// Length of `row`, a list whose elements are only compared. They have one length and no common
/// prefix: chunks that cannot hold the searched element are passed over.
const ROW_LEN: u32 = 300_000;

/// An odd factor: products modulo 2^32 differ, and their first digits vary.
const SPREAD: u32 = 0x9e37_79b1;

/// Counts how often others are served, and kills the script the first time if it is to.
struct Counting {
    shared: Arc<Shared>,
    served: Cell<usize>,
    kills: Cell<bool>,
    /// The answers to SCRIPT KILL.
    killed: RefCell<Vec<String>>,
}

impl Attendant for Counting {
    fn attend(&self) -> bool {
        self.served.set(self.served.get() + 1);
        assert!(self.shared.scripts.running.is_busy(), "others are answered BUSY");
        if self.kills.get() {
            let running = &self.shared.scripts.running;
            let script = running.first().expect("it is shown");
            let killed = running.kill(script.kind, Dialect::Redis);
            let word = |text: &[u8]| text.split(|&byte| byte == b' ').next().map(<[u8]>::to_vec);
            let answer = killed.map_or_else(|fail| word(fail.text()).unwrap(), |()| b"OK".into());
            self.killed.borrow_mut().push(answer.escape_ascii().to_string());
        }
        false
    }

    fn abandon(&self, _: &str) {
        panic!("the server does not stop");
    }

    fn has_lost_client(&self) -> bool {
        false
    }
}

/// A client of large values, and what serves others beside it.
struct Served {
    client: Client,
    counting: Rc<Counting>,
}

impl Served {
    fn new() -> Self {
        let mut client = Client::new();
        for from in (0..LEN).step_by(1000) {
            let mut calls =
                ["SADD set0", "HSET hash", "ZADD zset0", "RPUSH list"].map(String::from);
            for n in from..from + 1000 {
                let name = format!("a_member_with_a_long_name_{n}");
                let [set, hash, zset, list] = &mut calls;
                set.push_str(&format!(" {name}"));
                hash.push_str(&format!(" {name} {n}"));
                zset.push_str(&format!(" {n} {name}"));
                list.push_str(&format!(" {name}"));
                client.run(&format!("XADD stream0 {}-1 f {n}", n + 1));
            }
            calls.iter().for_each(|call| drop(client.run(call)));
        }
        for from in (0..ROW_LEN).step_by(1000) {
            let elements = (from..from + 1000).map(|n| format!(" {:08x}", n.wrapping_mul(SPREAD)));
            client.run(&format!("RPUSH row{}", elements.collect::<String>()));
        }
        client.run("XGROUP CREATE stream0 group 0");
        client.run("XGROUP CREATE stream0 busy 0");
        client.run("XREADGROUP GROUP busy worker STREAMS stream0 >");
        let Value::Bulk(dumped) = client.call(&[b"DUMP", b"zset0"]) else { panic!("no payload") };
        client.call(&[b"SET", b"dumped", &dumped]);
        client.exec.give_way();
        let shared = client.exec.shared.clone();
        let (served, kills, killed) = Default::default();
        let counting = Rc::new(Counting { shared, served, kills, killed });
        client.host.attendant = Some(counting.clone());
        Served { client, counting }
    }

    /// Makes the values that `call` names, and lets transactions and scripts be slow at once.
    fn begin(&mut self, kills: bool, call: &str) {
        self.client.exec.move_after(usize::MAX);
        self.counting.shared.scripts.slow_ms.store(0, Relaxed);
        for name in ["set", "zset", "stream"] {
            if !call.contains(&format!(" {name}")) {
                continue;
            }
            assert_eq!(self.client.run(&format!("COPY {name}0 {name} REPLACE")), "1");
        }
        self.client.run("DEL d");
        self.client.exec.move_after(1000);
        self.counting.shared.scripts.slow_ms.store(1, Relaxed);
        self.counting.kills.set(kills);
        self.counting.served.set(0);
        self.counting.killed.borrow_mut().clear();
    }
}

/// Executes a call in a transaction or a script; returns the reply.
fn within(client: &mut Client, in_script: bool, call: &str) -> String {
    if in_script {
        let words: Vec<String> = call.split(' ').map(|word| format!("'{word}'")).collect();
        let script = format!("return redis.call({})", words.join(","));
        return show(&client.call(&[b"EVAL", script.as_bytes(), b"0"]));
    }
    client.run("MULTI");
    client.run(call);
    show(&client.call(&[b"EXEC"]))
}

/// Whether the reply is as long as the value.
const SHORT: bool = false;
const LONG: bool = true;

const READS: [(&str, bool); 17] = [
    ("SMEMBERS set", LONG),
    ("HGETALL hash", LONG),
    ("HKEYS hash", LONG),
    ("ZRANGE zset 0 -1 WITHSCORES", LONG),
    ("ZREVRANGE zset 0 -1", LONG),
    ("LRANGE list 0 -1", LONG),
    ("XRANGE stream - +", LONG),
    ("XREAD STREAMS stream 0", LONG),
    ("XINFO STREAM stream FULL COUNT 0", LONG),
    ("ZUNION 2 zset none", LONG),
    ("LPOS row nonesuch", SHORT),
    ("LPOS row nonesuch RANK -1 COUNT 0", SHORT),
    ("LINSERT row BEFORE nonesuch other", SHORT),
    ("DUMP list", LONG),
    ("DUMP set", LONG),
    ("XPENDING stream busy - + 100000", LONG),
    ("XPENDING stream busy IDLE 3600000 - + 10 worker", SHORT),
];

#[test]
fn long_reads_serve_others_and_can_be_killed() {
    let mut served = Served::new();
    for in_script in [false, true] {
        for (call, is_long) in READS {
            served.begin(false, call);
            let reply = within(&mut served.client, in_script, call);
            assert_eq!(reply.len() > LEN, is_long, "{call}: {reply:.200}");
            assert!(served.counting.served.get() > 1, "{call}: {}", served.counting.served.get());
            served.begin(true, call);
            let reply = within(&mut served.client, in_script, call);
            let expected = match in_script {
                true => "script killed by user with SCRIPT KILL",
                false => "[ERR the command was ended before it was done]",
            };
            assert!(reply.contains(expected), "{call}: {reply:.200}");
            assert_eq!(*served.counting.killed.borrow(), ["OK"], "{call}");
            assert_eq!(served.client.run("EXISTS d"), "0");
        }
    }
}

/// Each with a call that shows that it is complete.
const CHANGES: [(&str, &str); 12] = [
    ("SUNIONSTORE d set", "SCARD d"),
    ("COPY set d", "SCARD d"),
    ("COPY hash d", "HLEN d"),
    ("ZRANGESTORE d zset 0 -1", "ZCARD d"),
    ("ZUNIONSTORE d 1 zset", "ZCARD d"),
    ("ZREMRANGEBYRANK zset 1 -1", "ZCARD zset"),
    ("SPOP set 59999", "SCARD set"),
    ("SORT list ALPHA STORE d", "LLEN d"),
    ("XREADGROUP GROUP group c STREAMS stream >", "XLEN stream"),
    ("XREADGROUP GROUP busy worker STREAMS stream 0", "XLEN stream"),
    ("XAUTOCLAIM stream busy other 0 - COUNT 60000", "XLEN stream"),
    ("LREM row 0 nonesuch", "LLEN row"),
];

#[test]
fn long_changes_serve_others_and_end_complete() {
    let mut served = Served::new();
    for in_script in [false, true] {
        for (call, check) in CHANGES {
            for kills in [false, true] {
                served.begin(kills, call);
                let reply = within(&mut served.client, in_script, call);
                // The result of a script may be given up after its changes.
                let is_killed = reply.contains("ended before")
                    || reply.contains("killed by user") && !reply.contains("its effects stay");
                let expected = match (is_killed, check) {
                    (true, "ZCARD zset" | "SCARD set" | "XLEN stream") => LEN,
                    (_, "LLEN row") => ROW_LEN as usize,
                    (true, _) => 0,
                    (false, "ZCARD zset" | "SCARD set") => 1,
                    (false, _) => LEN,
                };
                assert!(kills || !is_killed, "{call}: {reply:.200}");
                assert!(served.counting.served.get() > 0, "{call}");
                let found = served.client.run(check);
                assert_eq!(found, expected.to_string(), "{call}: {reply:.200}");
            }
        }
    }
}

#[test]
fn a_value_that_is_restored_serves_others() {
    let mut served = Served::new();
    served.begin(false, "");
    let script = "return redis.call('RESTORE', 'd', 0, redis.call('GET', 'dumped'))";
    assert_eq!(show(&served.client.call(&[b"EVAL", script.as_bytes(), b"0"])), "OK");
    assert!(served.counting.served.get() > 1);
    assert_eq!(served.client.run("ZCARD d"), LEN.to_string());
}
