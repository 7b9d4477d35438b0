//! redis-rs against a started server: the same cases in RESP2 and in RESP3.
//!
//! Address: PETREL_SOCKET if set, else 127.0.0.1:PETREL_PORT. Prints one line for each case, `ok NAME` or `FAIL NAME: why`.

use redis::{Client, Commands, Connection, Direction, RedisError, RedisResult, Script};
use std::env::var;
use std::thread;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn std::error::Error>>;
type Case = (&'static str, fn(&Client) -> Outcome);

const CASES: &[Case] = &[
    ("handshake", handshake),
    ("pipeline", pipeline),
    ("transaction", transaction),
    ("messages", messages),
    ("script", script),
    ("blocking pop", blocking_pop),
    ("types", types),
    ("errors", errors),
];

/// Fails the case unless two values are equal.
macro_rules! same {
    ($what:expr, $got:expr, $expected:expr) => {
        let (got, expected) = ($got, $expected);
        if got != expected {
            return Err(format!("{}: got {got:?}, expected {expected:?}", $what).into());
        }
    };
}

fn main() {
    for protocol in [2, 3] {
        let client = Client::open(address(protocol)).expect("a valid address");
        let connected = client.get_connection();
        let flushed = connected.and_then(|mut one| redis::cmd("FLUSHALL").exec(&mut one));
        if let Err(error) = flushed {
            println!("FAIL connect RESP{protocol}: {error}");
            continue;
        }
        for (name, run) in CASES {
            match run(&client) {
                Ok(()) => println!("ok {name} RESP{protocol}"),
                Err(error) => println!("FAIL {name} RESP{protocol}: {error}"),
            }
        }
    }
}

fn address(protocol: u8) -> String {
    match var("PETREL_SOCKET") {
        Ok(path) if !path.is_empty() => format!("redis+unix://{path}?protocol=resp{protocol}"),
        _ => {
            let port = var("PETREL_PORT").unwrap_or_default();
            format!("redis://127.0.0.1:{port}/?protocol=resp{protocol}")
        }
    }
}

fn handshake(client: &Client) -> Outcome {
    let mut one = client.get_connection()?;
    same!("PING", redis::cmd("PING").query::<String>(&mut one)?, "PONG");
    let info: String = redis::cmd("CLIENT").arg("INFO").query(&mut one)?;
    same!("lib-name", info.contains(" lib-name=redis-rs"), true);
    Ok(())
}

fn pipeline(client: &Client) -> Outcome {
    let mut one = client.get_connection()?;
    let mut pipe = redis::pipe();
    for i in 0..1000 {
        pipe.set(format!("p:{i}"), i).ignore().get(format!("p:{i}"));
    }
    let got: Vec<i64> = pipe.query(&mut one)?;
    same!("pipeline", got, (0..1000).collect::<Vec<i64>>());
    Ok(())
}

fn transaction(client: &Client) -> Outcome {
    let (mut one, mut other) = (client.get_connection()?, client.get_connection()?);
    let pair: (i64, String) =
        redis::pipe().atomic().set("t", 1).ignore().incr("t", 1).get("t").query(&mut one)?;
    same!("EXEC", pair, (2, "2".to_owned()));
    // The first attempt meets a conflict, and is repeated.
    let mut attempts = 0;
    let (doubled,): (i64,) = redis::transaction(&mut one, &["t"], |one, pipe| {
        attempts += 1;
        let now: i64 = one.get("t")?;
        if attempts == 1 {
            other.set::<_, _, ()>("t", 10)?;
        }
        pipe.set("t", now * 2).ignore().get("t").query(one)
    })?;
    same!("transaction", (attempts, doubled), (2, 20));
    Ok(())
}

fn messages(client: &Client) -> Outcome {
    let (mut one, mut other) = (client.get_connection()?, client.get_connection()?);
    let mut subscriber = one.as_pubsub();
    subscriber.set_read_timeout(Some(Duration::from_secs(10)))?;
    subscriber.subscribe("news")?;
    subscriber.psubscribe("new?")?;
    same!("PUBLISH", other.publish::<_, _, i64>("news", "said")?, 2);
    for expected in [None, Some("new?".to_owned())] {
        let message = subscriber.get_message()?;
        same!("channel", message.get_channel_name(), "news");
        same!("payload", message.get_payload::<String>()?, "said");
        same!("pattern", message.get_pattern::<Option<String>>()?, expected);
    }
    Ok(())
}

fn script(client: &Client) -> Outcome {
    let mut one = client.get_connection()?;
    let add = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    for expected in [7, 14] {
        same!("script", add.key("script").arg(7).invoke::<i64>(&mut one)?, expected);
    }
    Ok(())
}

fn blocking_pop(client: &Client) -> Outcome {
    let (mut one, mut other) = (client.get_connection()?, client.get_connection()?);
    let waiter = thread::spawn(move || -> RedisResult<((String, String), String)> {
        let popped = one.blpop(&["none", "queue"], 10.0)?;
        let moved = redis::cmd("BLMOVE").arg(&["queue", "done", "LEFT", "RIGHT", "10"]).query(&mut one)?;
        Ok((popped, moved))
    });
    for element in ["a", "b"] {
        until_somebody_waits(&mut other)?;
        other.rpush::<_, _, ()>("queue", element)?;
    }
    let (popped, moved) = waiter.join().map_err(|_| "the waiter has panicked")??;
    same!("BLPOP", popped, ("queue".to_owned(), "a".to_owned()));
    same!("BLMOVE", moved, "b");
    let last: Option<String> = other.lmove("done", "done", Direction::Left, Direction::Right)?;
    same!("LMOVE", last, Some("b".to_owned()));
    Ok(())
}

fn until_somebody_waits(one: &mut Connection) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        let info: String = redis::cmd("INFO").arg("clients").query(one)?;
        if !info.contains("blocked_clients:0") {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err("nobody waits".into())
}

fn types(client: &Client) -> Outcome {
    let mut one = client.get_connection()?;
    one.hset_multiple::<_, _, _, ()>("hash", &[("f", "1"), ("g", "2")])?;
    let fields: std::collections::BTreeMap<String, i64> = one.hgetall("hash")?;
    same!("HGETALL", fields.into_iter().collect::<Vec<_>>(), [("f".to_owned(), 1), ("g".to_owned(), 2)]);
    one.zadd_multiple::<_, _, _, ()>("scores", &[(1.5, "a"), (2.5, "b")])?;
    let scores: Vec<(String, f64)> = one.zrange_withscores("scores", 0, -1)?;
    same!("ZRANGE", scores, [("a".to_owned(), 1.5), ("b".to_owned(), 2.5)]);
    one.sadd::<_, _, ()>("set", &["x", "y"])?;
    let members: std::collections::HashSet<String> = one.smembers("set")?;
    same!("SMEMBERS", members.len(), 2);
    let bytes = [0, 255, 13, 10];
    one.set::<_, _, ()>("bytes", &bytes[..])?;
    same!("bytes", one.get::<_, Vec<u8>>("bytes")?, bytes);
    same!("SCAN", one.scan_match::<_, String>("s*")?.collect::<RedisResult<Vec<_>>>()?.len() >= 2, true);
    Ok(())
}

fn errors(client: &Client) -> Outcome {
    let mut one = client.get_connection()?;
    one.set::<_, _, ()>("word", "no number")?;
    let error: RedisError = one.incr::<_, _, i64>("word", 1).err().ok_or("INCR of a word")?;
    same!("INCR", error.detail().unwrap_or_default(), "value is not an integer or out of range");
    let error: RedisError = one.lpush::<_, _, i64>("word", 1).err().ok_or("LPUSH of a word")?;
    same!("LPUSH", error.code(), Some("WRONGTYPE"));
    Ok(())
}
