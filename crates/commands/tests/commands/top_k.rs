//! Top-k lists: replies like RedisBloom's, effects that make the same list elsewhere, and hostile
//! input.

use crate::allocations::peak_of;
use crate::client::{Client, show};
use crate::follower::assert_reproduced;
use crate::random::Random;
use petrel_keyspace::Policy;
use petrel_resp::Value;
use std::time::Instant;

#[test]
fn items_are_listed() {
    let mut client = Client::new();
    client.follow(
        r#"
        TOPK.RESERVE a 3 => OK
        TOPK.RESERVE a 3 => TopK: key already exists
        TOPK.INFO a => [k 3 width 8 depth 7 decay "0.9"]
        TOPK.ADD a x y z w x x w w w => [nil nil nil "x" "z" nil nil nil nil]
        TOPK.LIST a => ["w" "x" "y"]
        TOPK.LIST a WITHCOUNT => ["w" 4 "x" 3 "y" 1]
        TOPK.LIST a FOO => WITHCOUNT keyword expected
        TOPK.LIST none FOO => WITHCOUNT keyword expected
        TOPK.LIST a WITHCOUNT x => ERR wrong number of arguments for 'topk.list' command
        TOPK.QUERY a x w q => [1 1 0]
        TOPK.COUNT a x w q z => [3 4 0 1]
        TOPK.INCRBY a q 10 x 5 => ["y" nil]
        TOPK.INCRBY a q 5 r => ERR wrong number of arguments for 'topk.incrby' command
        TOPK.INCRBY none q x => TopK: key does not exist
        TOPK.ADD none a => TopK: key does not exist
        TOPK.QUERY none a => TopK: key does not exist
        TOPK.COUNT none a => TopK: key does not exist
        TOPK.LIST none => TopK: key does not exist
        TOPK.INFO none => TopK: key does not exist
        TOPK.RESERVE b 0 => TopK: invalid k
        TOPK.RESERVE b 4294967296 => TopK: invalid k
        TOPK.RESERVE b 3 1 => ERR wrong number of arguments for 'topk.reserve' command
        TOPK.RESERVE b 3 0 1 0.9 => TopK: invalid width
        TOPK.RESERVE b 3 1 4294967296 0.9 => TopK: invalid depth
        TOPK.RESERVE b 3 1 1 0 => TopK: invalid decay value. must be '<= 1' & '> 0'
        TOPK.RESERVE b 3 1 1 nan => TopK: invalid decay value. must be '<= 1' & '> 0'
        TOPK.RESERVE b 3 4294967295 4294967295 1 => ERR Insufficient memory to create topk data structure
        TOPK.RESERVE b 3 1 1 1 => OK
        SET s x => OK
        TOPK.RESERVE s x => TopK: key already exists
        TOPK.ADD s x => WRONGTYPE Operation against a key holding the wrong kind of value
        TYPE a => TopK-TYPE
        OBJECT ENCODING a => "raw"
        COPY a copied => 1
        TOPK.LIST copied => ["q" "x" "w"]
        "#,
    );
    let wrong = "TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000";
    assert_eq!(client.run("TOPK.INCRBY a w x w 1 w -1"), format!("[{wrong} nil {wrong}]"));
    assert_eq!(client.run("TOPK.INCRBY a w 100001 w 0"), format!("[{wrong} nil]"));
    client.resp3().follow(
        r#"
        TOPK.RESERVE l 2 => OK
        TOPK.ADD l a => [nil]
        TOPK.QUERY l a b => [Boolean(true) Boolean(false)]
        TOPK.INFO l => {k: 2, width: 8, depth: 7, decay: Double(0.9)}
        "#,
    );
}

/// Items with a zero byte stay whole, and an empty item is an item.
#[test]
fn any_bytes_are_an_item() {
    let mut client = Client::new();
    client.run("TOPK.RESERVE k 3 100 3 0.9");
    client.call(&[b"TOPK.ADD", b"k", b"x\0y", b"", b"x\0y", b"x\0y", b""]);
    let Value::Bulk(payload) = client.call(&[b"DUMP", b"k"]) else { panic!("no payload") };
    assert_eq!(show(&client.call(&[b"RESTORE", b"l", b"0", &payload])), "OK");
    for key in [b"k", b"l"] {
        assert_eq!(show(&client.call(&[b"TOPK.LIST", key])), r#"["x\x00y" ""]"#);
        assert_eq!(show(&client.call(&[b"TOPK.QUERY", key, b"x\0y", b"x", b""])), "[1 0 1]");
    }
    assert!(client.call(&[b"DUMP", b"l"]) == Value::Bulk(payload));
}

fn draw_call(random: &mut Random) -> Vec<String> {
    let key = ["k", "k", "l"][random.below(3)];
    let mut line = match random.below(12) {
        0 => format!("TOPK.RESERVE {key} {}", 1 + random.below(20)),
        // Narrow, so that items share counters and random numbers decide.
        1 | 2 => format!("TOPK.RESERVE {key} 5 3 2 0.{}", 1 + random.below(9)),
        3 if random.below(20) == 0 => format!("DEL {key}"),
        3..7 => format!("TOPK.INCRBY {key}"),
        _ => format!("TOPK.ADD {key}"),
    };
    for _ in 0..=random.below(20) {
        if line.starts_with("TOPK.INCRBY") {
            line += &format!(" item{} {}", random.below(40), random.below(9));
        } else if line.starts_with("TOPK.ADD") {
            line += &format!(" item{}", random.below(40));
        }
    }
    line.split(' ').map(str::to_owned).collect()
}

/// The effects have the same outcome. Those of a Redis replica, which draws its own numbers, are
/// compared where none is drawn.
#[test]
fn effects_make_the_same_list() {
    let wide = |random: &mut Random| {
        let words = draw_call(random);
        match &words[..] {
            [reserve, key, k, ..] if reserve == "TOPK.RESERVE" => {
                let line = format!("TOPK.RESERVE {key} {k} 100000 3 0.9");
                line.split(' ').map(str::to_owned).collect()
            }
            _ => words,
        }
    };
    assert_reproduced(wide, &[b"k", b"l"], |own, replica, key| {
        replica.call(&[b"DUMP", key]) == own.call(&[b"DUMP", key])
    });
}

#[test]
fn random_outcomes_are_those_of_the_effect() {
    use crate::follower::Follower;
    let (mut client, mut replica) = (Client::new(), Client::new());
    let _follower = Follower::of(&mut client, &replica);
    let mut random = Random::seeded();
    for _ in 0..2_000 {
        let words = draw_call(&mut random);
        let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        client.call(&args);
    }
    for key in [b"k", b"l"] {
        assert!(client.call(&[b"DUMP", key]) == replica.call(&[b"DUMP", key]));
    }
    assert_ne!(client.run("DBSIZE"), "0");
}

#[test]
fn memory_is_counted_and_limited() {
    let mut client = Client::new();
    let usage = |client: &mut Client, key: &str| -> usize {
        client.run(&format!("MEMORY USAGE {key}")).parse().unwrap()
    };
    client.run("TOPK.RESERVE k 3");
    let empty = usage(&mut client, "k");
    assert!(empty < 700, "{empty}");
    client.run("TOPK.RESERVE wide 10 1000000 5 0.9");
    assert!(usage(&mut client, "wide") < 1000);
    client.call(&[b"TOPK.ADD", b"k", &[b'x'; 5000]]);
    let full = usage(&mut client, "k");
    assert!((5_000 + empty..7_000 + empty).contains(&full), "{full}");
    client.run("COPY k l");
    assert_eq!(usage(&mut client, "l"), full);
    let keyspace = client.exec.ks.keyspace().clone();
    let used = keyspace.stats().used;
    keyspace.set_memory_limit(used + 500_000, Policy::NoEviction);
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(client.run("TOPK.RESERVE m 1000000"), oom);
    let items: Vec<String> = (0..500).map(|i| i.to_string()).collect();
    let line = format!("TOPK.ADD wide {}", items.join(" "));
    assert_eq!(client.run(&line), oom);
    keyspace.set_memory_limit(0, Policy::NoEviction);
    assert!(client.run(&line).starts_with("[nil nil "));
}

#[test]
fn a_stranger_is_bounded() {
    let mut client = Client::new();
    let mut call = |line: &str| {
        let start = Instant::now();
        let (reply, peak) = peak_of(|| client.run(line));
        assert!(peak < 128 << 20 && start.elapsed().as_secs() < 20, "{peak} for {line}");
        reply
    };
    let failed = "ERR Insufficient memory to create topk data structure";
    assert_eq!(call("TOPK.RESERVE k 4294967295"), failed);
    assert_eq!(call("TOPK.RESERVE k 3 4294967295 1 0.9"), failed);
    assert_eq!(call("TOPK.RESERVE k 3 1 5000 0.9"), failed);
    assert_eq!(call("TOPK.RESERVE k 1048576"), "OK");
    assert_eq!(call("TOPK.ADD k a b"), "[nil nil]");
    assert_eq!(call("TOPK.RESERVE deep 3 1 4096 1"), "OK");
    assert_eq!(call("TOPK.INCRBY deep a 1000 b 100 c 100"), r#"[nil nil nil]"#);
    let mut random = Random::seeded();
    client.run("TOPK.RESERVE s 3 4 2 0.9");
    client.run("TOPK.ADD s a b c a d");
    let Value::Bulk(payload) = client.call(&[b"DUMP", b"s"]) else { panic!("no payload") };
    for _ in 0..3000 {
        let mut broken = payload.to_vec();
        let len = broken.len();
        // Without a checksum.
        broken[len - 8..].fill(0);
        broken[random.below(len - 10)] = random.below(256) as u8;
        let args: [&[u8]; 5] = [b"RESTORE", b"b", b"0", &broken, b"REPLACE"];
        let (_, peak) = peak_of(|| client.call(&args));
        assert!(peak < 1 << 20, "{peak} bytes for {}", broken.escape_ascii());
        for call in ["TOPK.ADD b x a", "TOPK.LIST b", "TOPK.COUNT b a"] {
            client.run(call);
        }
    }
}
