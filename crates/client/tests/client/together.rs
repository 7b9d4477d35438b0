//! Dedicated connections, pipelines, transactions, scripts, walks, typed commands, messages.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use bytes::Bytes;
use petrel_client::words::{GeosearchUnit, ZmpopWhere};
use petrel_client::{
    ChannelKind, Client, Commands, DedicatedCommands, ErrorKind, Pipeline, RawCommand, ScanOptions,
    Script,
};

use crate::servers::{Kind, Server, with_each_server};

with_each_server!(
    typed_commands,
    blocking_commands,
    pipelines,
    transactions,
    optimistic_transactions,
    scripts,
    walks,
    messages,
    subscriptions_survive_restarts,
);

async fn typed_commands(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    for protocol in [2, 3] {
        let client =
            Client::connect(&format!("{}?protocol={protocol}", server.url())).await.unwrap();
        client.flushall().await.unwrap();
        client.set("k", "v").ex(100).await.unwrap();
        assert!(!client.set("k", "w").nx().await.unwrap());
        assert_eq!(client.set("k", "w").xx().get().await.unwrap().unwrap(), "v");
        assert!(client.ttl("k").await.unwrap() == -1);
        assert!(client.expire("k", 50).nx().await.unwrap());
        assert_eq!(client.incrbyfloat("f", 1.5).await.unwrap(), 1.5);
        assert_eq!(client.mget(["k", "none"]).await.unwrap(), [Some(Bytes::from("w")), None]);
        client.mset([("a", 1), ("b", 2)]).await.unwrap();

        assert_eq!(client.zadd("z", [(1.0, "one"), (2.5, "two")]).await.unwrap(), 2);
        assert_eq!(client.zadd("z", [(9, "one")]).gt().ch().await.unwrap(), 1);
        assert_eq!(client.zadd("z", [(1, "one")]).incr().await.unwrap(), Some(10.0));
        let range = client.zrange("z", "+inf", "(0").byscore().rev().limit(0, 1).await;
        assert_eq!(range.unwrap(), ["one"]);
        let all = client.zrange("z", 0, -1).withscores().await.unwrap();
        assert_eq!(all, [(Bytes::from("two"), 2.5), (Bytes::from("one"), 10.0)]);
        assert_eq!(client.zrank("z", "one").await.unwrap(), Some(1));
        let popped = client.zmpop(["none", "z"], ZmpopWhere::Min).await;
        let (key, members) = popped.unwrap().unwrap();
        assert_eq!((key, members), (Bytes::from("z"), vec![(Bytes::from("two"), 2.5)]));

        assert_eq!(client.sadd("s", ["a", "b"]).await.unwrap(), 2);
        assert_eq!(client.smembers("s").await.unwrap(), HashSet::from(["a".into(), "b".into()]));
        assert_eq!(client.smismember("s", ["a", "x"]).await.unwrap(), [true, false]);
        assert_eq!(client.hset("h", [("f", "1"), ("g", "2")]).await.unwrap(), 2);
        assert_eq!(client.hgetall("h").await.unwrap().len(), 2);
        let drawn = client.hrandfield("h").count(2).withvalues().await.unwrap();
        assert_eq!(drawn.len(), 2);

        let id = client.xadd("x", "*", [("a", "1")]).await.unwrap();
        let none = client.xadd("y", "*", [("a", "1")]).nomkstream().await.unwrap();
        assert_eq!(none, None);
        let entries = client.xread([("x", "0")]).count(5).await.unwrap();
        assert_eq!(entries, [("x".into(), vec![(id.clone(), vec![("a".into(), "1".into())])])]);
        assert_eq!(client.xrange("x", "-", "+").await.unwrap()[0].0, id);

        assert_eq!(client.geoadd("g", [(13.361, 38.115, "p")]).await.unwrap(), 1);
        let found = client
            .geosearch("g")
            .frommember("p")
            .byradius(1, GeosearchUnit::Km)
            .asc()
            .await
            .unwrap();
        assert_eq!(found, ["p"]);
        assert_eq!(
            client.bitfield("bf").set("u8", 0, 7).get("u8", 0).await.unwrap(),
            [Some(0), Some(7)]
        );
        assert_eq!(client.lpos("none", "x").await.unwrap(), None);
        assert!(client.time().await.unwrap().0 > 1_600_000_000);
        assert_eq!(client.type_("z").await.unwrap(), "zset");
        assert!(client.info().section(["server"]).await.unwrap().contains("redis_version"));
        assert!(client.config_get(["maxmemory"]).await.unwrap().contains_key("maxmemory"));
    }
}

async fn blocking_commands(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let mut connection = client.dedicated().await.unwrap();
    let wait = tokio::spawn(async move { connection.blpop(["list"], 10).await });
    tokio::time::sleep(Duration::from_millis(30)).await;
    client.rpush("list", ["x"]).await.unwrap();
    let popped = wait.await.unwrap().unwrap();
    assert_eq!(popped, Some(("list".into(), "x".into())));
    let mut connection = client.dedicated().await.unwrap();
    assert_eq!(connection.blpop(["list"], 0.02).await.unwrap(), None);
    assert!(connection.xread([("x", "$")]).block(20).await.unwrap().is_empty());
    connection.select(3).await.unwrap();
    connection.set("there", 1).await.unwrap();
    assert_eq!(client.exists(["there"]).await.unwrap(), 0);
    let error = connection.command("SUBSCRIBE").arg("c").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unanswered), "{error}");
}

async fn pipelines(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let mut pipeline = Pipeline::new();
    pipeline.set("a", 1).queue();
    let sum = pipeline.incrby("a", 4).queue();
    let wrong = pipeline.lpush("a", ["x"]).queue();
    let text = pipeline.get("a").reply::<String>().queue();
    let mut replies = client.run(pipeline).await.unwrap();
    assert_eq!(replies.take(sum).unwrap(), 5);
    let error = replies.take(wrong).unwrap_err();
    assert_eq!((error.command(), error.code()), ("LPUSH", Some("WRONGTYPE")));
    assert_eq!(replies.take(text).unwrap(), "5");
    assert_eq!(replies.into_values().len(), 1);
    let mut pipeline = Pipeline::new();
    pipeline.command("BLPOP").args(["a", "0"]).queue();
    let error = client.run(pipeline).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NeedsDedicated), "{error}");
    assert!(client.run(Pipeline::new()).await.unwrap().into_values().is_empty());
}

async fn transactions(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    // No increment of another task comes between the two of a transaction.
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    let mut transaction = Pipeline::transaction();
                    let first = transaction.incr("n").queue();
                    let second = transaction.incr("n").queue();
                    let mut replies = client.run(transaction).await.unwrap();
                    let first = replies.take(first).unwrap();
                    assert_eq!(replies.take(second).unwrap(), first + 1);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut transaction = Pipeline::transaction();
    transaction.command("GET").queue();
    let error = client.run(transaction).await.unwrap_err();
    assert_eq!((error.command(), error.code()), ("GET", Some("ERR")));
    assert_eq!(client.get("n").reply::<i64>().await.unwrap(), 1600);
}

async fn optimistic_transactions(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    let run = client.watch_and_run(&["n"], 1000, async |connection| {
                        let n: Option<i64> = connection.get("n").reply().await?;
                        let mut transaction = Pipeline::transaction();
                        transaction.set("n", n.unwrap_or(0) + 1).queue();
                        Ok(transaction)
                    });
                    run.await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(client.get("n").reply::<i64>().await.unwrap(), 40);
    let never = client.watch_and_run(&["n"], 2, async |_| {
        client.incr("n").await?;
        Ok(Pipeline::transaction())
    });
    // A transaction without commands is not sent, and cannot fail.
    assert!(never.await.is_ok());
}

async fn scripts(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let script = Script::new("redis.call('SET', KEYS[1], ARGV[1]) return {KEYS[1], ARGV[1]}");
    for _ in 0..2 {
        let reply: Vec<String> = script.run(&client, &["k"], &["v"]).await.unwrap();
        assert_eq!(reply, ["k", "v"]);
    }
    assert_eq!(client.script_exists([script.digest()]).await.unwrap(), [true]);
    let error = Script::new("return nonsense(").run::<i64>(&client, &[""; 0], &[0; 0]).await;
    assert_eq!(error.unwrap_err().command(), "EVAL");
}

async fn walks(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    for n in 0..500 {
        client.set(format!("key:{n}"), n).await.unwrap();
    }
    client.zadd("z", (0..300).map(|n| (n, n))).await.unwrap();
    let options = ScanOptions { pattern: Some(b"key:*".to_vec()), count: Some(50), key_type: None };
    let (mut scan, mut keys) = (client.scan_keys(&options), BTreeSet::new());
    while let Some(key) = scan.next().await {
        keys.insert(key.unwrap());
    }
    assert_eq!(keys.len(), 500);
    let mut scan = client.scan_sorted_set("z", &ScanOptions::default());
    let mut sum = 0.0;
    while let Some(member) = scan.next().await {
        sum += member.unwrap().1;
    }
    assert_eq!(sum, (0..300).sum::<i32>() as f64);
    let mut scan = client.scan_hash("z", &ScanOptions::default());
    assert_eq!(scan.next().await.unwrap().unwrap_err().code(), Some("WRONGTYPE"));
    assert!(scan.next().await.is_none());
}

async fn messages(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    for protocol in [2, 3] {
        let client =
            Client::connect(&format!("{}?protocol={protocol}", server.url())).await.unwrap();
        let mut subscriber = client.subscriber().await.unwrap();
        subscriber.subscribe(["a", "b"]).await.unwrap();
        subscriber.psubscribe(["p*"]).await.unwrap();
        assert_eq!(client.publish("a", "1").await.unwrap(), 1);
        assert_eq!(client.publish("pq", "2").await.unwrap(), 1);
        let message = subscriber.next().await.unwrap();
        assert_eq!((message.kind, &message.payload[..]), (ChannelKind::Channel, &b"1"[..]));
        let message = subscriber.next().await.unwrap();
        assert_eq!(message.pattern.as_deref(), Some(&b"p*"[..]));
        assert_eq!(&message.channel[..], b"pq");
        subscriber.unsubscribe(ChannelKind::Channel, ["a"]).await.unwrap();
        assert_eq!(client.publish("a", "3").await.unwrap(), 0);
        assert_eq!(client.publish("b", "4").await.unwrap(), 1);
        assert_eq!(&subscriber.next().await.unwrap().payload[..], b"4");
        // More than is kept in memory waits at the server.
        let big = "x".repeat(1 << 20);
        for _ in 0..40 {
            client.publish("b", &big).await.unwrap();
        }
        for _ in 0..40 {
            assert_eq!(subscriber.next().await.unwrap().payload.len(), 1 << 20);
        }
        // The server notices the closed connection later.
        drop(subscriber);
        while client.publish("b", "5").await.unwrap() + client.publish("pq", "6").await.unwrap() > 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn subscriptions_survive_restarts(kind: Kind) {
    let Some(mut server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let mut subscriber = client.subscriber().await.unwrap();
    subscriber.subscribe(["a"]).await.unwrap();
    server = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    })
    .await
    .unwrap();
    let mut receivers = 0;
    for _ in 0..500 {
        // A lost connection may fail the first of these.
        receivers = client.publish("a", "back").await.unwrap_or(0);
        if receivers > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(receivers, 1);
    assert_eq!(&subscriber.next().await.unwrap().payload[..], b"back");
    assert_eq!(subscriber.interruptions(), 1);
    drop(server);
}
