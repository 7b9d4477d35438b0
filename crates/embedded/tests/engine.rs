//! The typed commands on an engine in the process.

use petrel_client::{Commands, Error, ErrorKind, Pipeline, RawCommand, Value, words};
use petrel_embedded::{Embedded, Engine, EngineOptions, Policy};

fn client() -> Embedded {
    Engine::default().client()
}

fn code(error: &Error) -> &str {
    error.code().unwrap_or_default()
}

#[test]
fn replies_have_the_types_of_their_commands() {
    let client = client();
    client.set("s", "text").run().unwrap();
    assert_eq!(client.get("s").run().unwrap().unwrap(), "text");
    assert_eq!(client.get("none").run().unwrap(), None);
    assert!(!client.set("s", "other").nx().run().unwrap());
    assert_eq!(client.incrby("n", 41).run().unwrap(), 41);
    assert_eq!(client.incr("n").run().unwrap(), 42);
    client.hset("h", [("a", "1"), ("b", "2")]).run().unwrap();
    let fields: std::collections::BTreeMap<String, i64> =
        client.hgetall("h").reply().run().unwrap();
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), [("a".into(), 1), ("b".into(), 2)]);
    client.zadd("z", [(1.5, "x"), (f64::INFINITY, "y")]).run().unwrap();
    let top = client.zrange("z", 0, -1).withscores().run().unwrap();
    assert_eq!(top, [("x".into(), 1.5), ("y".into(), f64::INFINITY)]);
    client.xadd("log", "*", [("k", "v")]).run().unwrap();
    let streams = client.command("XREAD").args(["STREAMS", "log", "0"]).run().unwrap();
    let Value::Map(streams) = streams else { panic!("{streams:?}") };
    assert_eq!(streams.len(), 1);
    assert_eq!(client.sadd("set", ["a", "b"]).run().unwrap(), 2);
    let popped = client.zmpop(["none", "z"], words::ZmpopWhere::Min).run().unwrap();
    assert_eq!(popped.unwrap().1, [("x".into(), 1.5)]);
    // Long values, and more arguments than a call has room for on its stack.
    let long = "x".repeat(1 << 20);
    client.set("long", &long).run().unwrap();
    assert_eq!(client.get("long").run().unwrap().unwrap(), long);
    for count in 1..40 {
        let items: Vec<String> = (0..count).map(|item| item.to_string()).collect();
        client.del(["list"]).run().unwrap();
        assert_eq!(client.rpush("list", &items).run().unwrap(), count);
        let back: Vec<String> = client.lrange("list", 0, -1).reply().run().unwrap();
        assert_eq!(back, items);
    }
}

#[test]
fn errors_name_their_command() {
    let client = client();
    client.set("s", "text").run().unwrap();
    let error = client.lpush("s", ["x"]).run().unwrap_err();
    assert_eq!((error.command(), code(&error)), ("LPUSH", "WRONGTYPE"));
    let error = client.command("NO-SUCH").arg("secret").run().unwrap_err();
    assert!(error.to_string().contains("unknown command"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    let error = client.get("s").reply::<i64>().run().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UnexpectedReply { .. }), "{error}");
    // What waits or belongs to a connection is refused before it is executed.
    for command in ["MULTI", "WATCH k", "SELECT 1", "BLPOP k 0"] {
        let mut words = command.split(' ');
        let request = client.command(words.next().unwrap());
        let error = request.args(words.collect::<Vec<_>>()).run().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NeedsDedicated), "{command}: {error}");
    }
}

#[tokio::test]
async fn commands_can_be_awaited_in_tasks() {
    let client = client();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    client.incr("n").await?;
                }
                petrel_client::Result::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(client.get("n").reply::<i64>().await.unwrap(), 1600);
}

#[test]
fn threads_share_an_engine() {
    let engine = Engine::default();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let client = engine.client();
            scope.spawn(move || {
                for n in 0..2000 {
                    client.incr("n").run().unwrap();
                    client.lpush(format!("list:{}", n % 7), ["x"]).run().unwrap();
                }
            });
        }
    });
    let client = engine.client();
    assert_eq!(client.get("n").reply::<i64>().run().unwrap(), 16_000);
    let lists: i64 = (0..7).map(|n| client.llen(format!("list:{n}")).run().unwrap()).sum();
    assert_eq!(lists, 16_000);
    // The calls of all threads are counted.
    assert_eq!(engine.command_statistics("incr").unwrap().calls, 16_000);
    assert!(engine.command_statistics("incr").unwrap().nanoseconds > 0);
    assert!(engine.command_statistics("nothing").is_none());
}

#[test]
fn engines_and_databases_are_apart() {
    let (one, two) = (Engine::default(), Engine::default());
    let client = one.client();
    client.set("k", "1").run().unwrap();
    assert_eq!(two.client().get("k").run().unwrap(), None);
    let other = client.in_database(3).unwrap();
    assert_eq!(other.get("k").run().unwrap(), None);
    other.set("k", "3").run().unwrap();
    assert_eq!(client.get("k").reply::<String>().run().unwrap(), "1");
    assert_eq!(other.dbsize().run().unwrap(), 1);
    assert!(client.in_database(16).is_err());
    // An engine that is gone makes room for others on the same thread.
    drop((one, client, other));
    assert_eq!(Engine::default().client().get("k").run().unwrap(), None);
}

#[test]
fn users_are_kept_to_their_permissions() {
    let engine = Engine::default();
    let admin = engine.client();
    admin.set("cache:a", "1").run().unwrap();
    admin.set("other", "1").run().unwrap();
    engine.set_user("reader", &["on", ">secret", "~cache:*", "+get"]).unwrap();
    let reader = engine.client_as("reader", "secret").unwrap();
    assert_eq!(reader.get("cache:a").reply::<i64>().run().unwrap(), 1);
    assert_eq!(code(&reader.get("other").run().unwrap_err()), "NOPERM");
    assert_eq!(code(&reader.set("cache:a", "2").run().unwrap_err()), "NOPERM");
    let rejected = engine.command_statistics("set").unwrap().rejected;
    assert_eq!(rejected, 1);
    // A transaction asks for each command, too.
    let mut transaction = Pipeline::transaction();
    transaction.get("other").queue();
    assert_eq!(code(&reader.run(transaction).unwrap_err()), "NOPERM");
    for (user, password) in [("reader", "wrong"), ("nobody", "secret")] {
        let error = engine.client_as(user, password).unwrap_err();
        assert_eq!(code(&error), "WRONGPASS");
        assert!(!error.to_string().contains(password), "{error}");
    }
    // A change holds for clients that there are.
    engine.set_user("reader", &["+set"]).unwrap();
    reader.set("cache:a", "2").run().unwrap();
    engine.set_user("reader", &["off"]).unwrap();
    assert!(engine.client_as("reader", "secret").is_err());
    assert!(engine.set_user("reader", &["+no-such-command"]).is_err());
    // With a password, the default user has to log in.
    engine.set_user("default", &[">pw"]).unwrap();
    assert_eq!(code(&engine.client().get("other").run().unwrap_err()), "NOAUTH");
    let client = engine.client_as("default", "pw").unwrap();
    assert_eq!(client.get("other").reply::<i64>().run().unwrap(), 1);
}

#[test]
fn transactions_are_executed_as_one() {
    let engine = Engine::default();
    let client = engine.client();
    let mut transaction = Pipeline::transaction();
    let set = transaction.set("a", "1").queue();
    let incr = transaction.incr("a").queue();
    let mut replies = client.run(transaction).unwrap();
    replies.take(set).unwrap();
    assert_eq!(replies.take(incr).unwrap(), 2);
    // An error of one command does not undo the others.
    let mut transaction = Pipeline::transaction();
    let wrong = transaction.lpush("a", ["x"]).queue();
    let right = transaction.incr("a").queue();
    let mut replies = client.run(transaction).unwrap();
    assert_eq!(code(&replies.take(wrong).unwrap_err()), "WRONGTYPE");
    assert_eq!(replies.take(right).unwrap(), 3);
    // A command that cannot be queued spoils all.
    let mut transaction = Pipeline::transaction();
    transaction.incr("a").queue();
    transaction.command("GET").queue();
    assert_eq!(client.run(transaction).unwrap_err().command(), "GET");
    assert_eq!(client.get("a").reply::<i64>().run().unwrap(), 3);
    // Threads see all of a transaction or nothing.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let client = engine.client();
                for _ in 0..500 {
                    let mut transaction = Pipeline::transaction();
                    transaction.incr("x").queue();
                    transaction.incr("y").queue();
                    client.run(transaction).unwrap();
                    let mut read = Pipeline::transaction();
                    let both = read.mget(["x", "y"]).reply::<Vec<i64>>().queue();
                    let both = client.run(read).unwrap().take(both).unwrap();
                    assert_eq!(both[0], both[1]);
                }
            });
        }
    });
    // Without a transaction, one after the other.
    let mut pipeline = Pipeline::new();
    let first = pipeline.get("x").reply::<i64>().queue();
    assert_eq!(client.run(pipeline).unwrap().take(first).unwrap(), 2000);
}

#[test]
fn scripts_run() {
    let client = client();
    let script =
        "redis.call('SET', KEYS[1], ARGV[1]); return {KEYS[1], redis.call('GET', KEYS[1])}";
    let request = client.command("EVAL").arg(script).arg(1).arg("k").arg("v");
    assert_eq!(request.reply::<Vec<String>>().run().unwrap(), ["k", "v"]);
}

#[test]
fn what_expires_is_removed_in_the_background() {
    let client = client();
    for n in 0..200 {
        client.set(format!("k:{n}"), "v").px(20).run().unwrap();
    }
    let begin = std::time::Instant::now();
    // The number of keys counts those that have expired until they are removed.
    while client.dbsize().run().unwrap() > 0 {
        assert!(begin.elapsed().as_secs() < 60, "{:?}", client.dbsize().run());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn memory_is_limited() {
    let options = EngineOptions { memory_max: 1 << 20, ..EngineOptions::default() };
    let engine = Engine::new(options);
    let client = engine.client();
    let value = "x".repeat(1000);
    let fill = |count: usize| {
        (0..count).map(|n| client.set(format!("k:{n}"), &value).run()).find_map(Result::err)
    };
    assert_eq!(code(&fill(5000).expect("no room for all")), "OOM");
    engine.limit_memory(1 << 20, Policy::AllKeysLru);
    assert!(fill(5000).is_none());
    assert!(engine.memory_used() < 3 << 20, "{}", engine.memory_used());
    client.command("FLUSHALL").arg("ASYNC").run().unwrap();
    assert_eq!(client.dbsize().run().unwrap(), 0);
}

/// A string becomes what the same string in a list, or from a pipeline, becomes.
#[test]
fn strings_become_the_type_that_is_asked_for() {
    let engine = Engine::default();
    let client = engine.client();
    let long = "x".repeat(100_000);
    for text in ["", "7", "-7", "x", &long[..128], &long[..129], &long] {
        client.set("k", text).run().unwrap();
        assert_eq!(client.get("k").run().unwrap().unwrap(), text);
        assert_eq!(client.get("k").reply::<String>().run().unwrap(), text);
        let number = client.get("k").reply::<i64>().run();
        assert_eq!(number.ok(), text.parse::<i64>().ok());
        let value = client.get("k").reply::<petrel_client::Value>().run().unwrap();
        assert_eq!(value.as_bytes(), Some(text.as_bytes()));
        let of_list = client.mget(["k", "none"]).reply::<Vec<Option<String>>>().run().unwrap();
        assert_eq!(of_list, [Some(text.to_owned()), None]);
        let named = client.command("GET").arg("k").reply::<String>().run().unwrap();
        assert_eq!(named, text);
    }
    let error = client.get("k").reply::<Vec<i64>>().run().unwrap_err();
    assert_eq!(error.command(), "GET");
    assert_eq!(client.get("none").reply::<Option<String>>().run().unwrap(), None);
    client.rpush("list", ["a"]).run().unwrap();
    assert_eq!(client.get("list").run().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(client.lpop("list").reply::<String>().run().unwrap(), "a");
}
