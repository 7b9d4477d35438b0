//! The client against Redis in cluster mode.

use std::time::{Duration, Instant};

use petrel_client::{
    Client, Cluster, ClusterOptions, Commands, DedicatedCommands, ErrorKind, Options, Pipeline,
    RawCommand, ReadFrom, Value,
};

use crate::group::{PATIENCE, SLOTS, start, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_go_to_the_nodes_of_their_keys() {
    let Some(nodes) = start(0).await else { return };
    let cluster = Cluster::connect(&nodes[2].url()).await.unwrap();
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                for call in 0..50 {
                    let key = format!("key:{task}:{call}");
                    cluster.set(&key, &key).await.unwrap();
                    assert_eq!(cluster.get(&key).await.unwrap().unwrap(), key);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut sizes = Vec::new();
    for client in cluster.primaries().await.unwrap() {
        sizes.push(client.dbsize().await.unwrap());
    }
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().sum::<i64>() == 1600 && sizes.iter().all(|size| *size > 300), "{sizes:?}");

    // Keys of several slots.
    let keys: Vec<String> = (0..50).map(|call| format!("key:1:{call}")).collect();
    let values = cluster.mget(keys.iter().chain([&"none".to_owned()])).await.unwrap();
    assert!(values[..50].iter().zip(&keys).all(|(value, key)| value.as_ref().unwrap() == key));
    assert_eq!(values[50], None);
    assert_eq!(cluster.del(&keys).await.unwrap(), 50);
    assert_eq!(cluster.exists(&keys).await.unwrap(), 0);
    let error = cluster.mset([("a", 1), ("b", 2)]).await.unwrap_err();
    assert_eq!((error.command(), error.code()), ("MSET", Some("CROSSSLOT")));
    cluster.mset([("{t}a", 1), ("{t}b", 2)]).await.unwrap();

    // Keys behind counts and keywords, and none at all.
    let script = "return {KEYS[1], ARGV[1]}";
    let reply: Vec<String> =
        cluster.command("EVAL").arg(script).arg(1).arg("some key").arg("v").reply().await.unwrap();
    assert_eq!(reply, ["some key", "v"]);
    cluster.xadd("stream", "*", [("f", "v")]).await.unwrap();
    assert_eq!(cluster.xread([("stream", "0")]).await.unwrap().len(), 1);
    for _ in 0..6 {
        assert_eq!(cluster.command("PING").reply::<String>().await.unwrap(), "PONG");
    }
    let error = cluster.command("BLPOP").arg("list").arg(1).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NeedsDedicated), "{error}");
    let error = cluster.command("GET").await.unwrap_err();
    assert_eq!(error.code(), Some("ERR"));

    let mut connection = cluster.dedicated("list").await.unwrap();
    let wait = tokio::spawn(async move { connection.blpop(["list"], 10).await });
    cluster.rpush("list", ["x"]).await.unwrap();
    assert_eq!(wait.await.unwrap().unwrap(), Some(("list".into(), "x".into())));

    let mut pipeline = Pipeline::new();
    let queued: Vec<_> = (0..100).map(|n| pipeline.incrby(format!("n:{n}"), n).queue()).collect();
    let mut replies = cluster.run(pipeline).await.unwrap();
    for (n, queued) in queued.into_iter().enumerate() {
        assert_eq!(replies.take(queued).unwrap(), n as i64);
    }
    let mut transaction = Pipeline::transaction();
    transaction.incr("{n}a").queue();
    let last = transaction.incr("{n}a").queue();
    assert_eq!(cluster.run(transaction).await.unwrap().take(last).unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirections_are_followed_while_a_slot_moves() {
    let Some(nodes) = start(0).await else { return };
    let cluster = Cluster::connect(&nodes[0].url()).await.unwrap();
    // "foo" is in slot 12182, which the third node serves; it goes to the first one.
    const SLOT: usize = 12182;
    let (source, target) = (nodes[2].client().await, nodes[0].client().await);
    for key in ["{foo}1", "{foo}2"] {
        cluster.set(key, "v").await.unwrap();
    }
    let id =
        async |client: &Client| -> String { client.command("CLUSTER MYID").reply().await.unwrap() };
    let (source_id, target_id) = (id(&source).await, id(&target).await);
    let set = async |client: &Client, state: &str, node: &str| {
        let command = client.command("CLUSTER SETSLOT").arg(SLOT).arg(state).arg(node);
        command.reply::<()>().await.unwrap();
    };
    set(&target, "IMPORTING", &source_id).await;
    set(&source, "MIGRATING", &target_id).await;
    // A key that is not there any more: ASK.
    let migrate = source.command("MIGRATE").arg("127.0.0.1").arg(nodes[0].port);
    migrate.args(["{foo}1", "0", "5000"]).reply::<()>().await.unwrap();
    assert_eq!(cluster.get("{foo}1").await.unwrap().unwrap(), "v");
    assert_eq!(cluster.get("{foo}2").await.unwrap().unwrap(), "v");
    cluster.set("{foo}new", "n").await.unwrap();
    assert_eq!(target.dbsize().await.unwrap(), 2);
    // Keys on both sides: TRYAGAIN until the other has come.
    let both = {
        let cluster = cluster.clone();
        tokio::spawn(async move { cluster.mget(["{foo}1", "{foo}2"]).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    let migrate = source.command("MIGRATE").arg("127.0.0.1").arg(nodes[0].port);
    migrate.args(["{foo}2", "0", "5000"]).reply::<()>().await.unwrap();
    let both = both.await.unwrap().unwrap();
    assert!(both.iter().all(|value| value.as_ref().is_some_and(|value| value == "v")), "{both:?}");
    for client in [&target, &source] {
        set(client, "NODE", &target_id).await;
    }
    // MOVED, and then straight there.
    for _ in 0..3 {
        assert_eq!(cluster.get("{foo}2").await.unwrap().unwrap(), "v");
    }
    until("the map is read again", async || {
        let client = cluster.primary_of("{foo}").await.unwrap();
        client.dbsize().await.unwrap() >= 3 && client.get("{foo}1").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_read_and_take_over() {
    let Some(mut nodes) = start(1).await else { return };
    let (asked, port) = (nodes[1].client().await, i64::from(nodes[3].port));
    until("a node names the replica, which it does after some bytes of replication", async || {
        let reply: Value = asked.command("CLUSTER SLOTS").await.unwrap();
        format!("{reply:?}").contains(&format!("Integer({port})"))
    })
    .await;
    let mut options = ClusterOptions::new(Options::from_url(&nodes[1].url()).unwrap());
    options.read_from = ReadFrom::Replicas;
    options.node.timeout = Some(Duration::from_secs(30));
    options.node.connect_timeout = Duration::from_secs(2);
    let cluster = Cluster::with_options(options).await.unwrap();
    // A key of the first node.
    let mut number = 0;
    let key = loop {
        let key = format!("k{number}");
        let first = nodes[0].client().await;
        let slot: usize = first.command("CLUSTER KEYSLOT").arg(&key).reply().await.unwrap();
        if slot < SLOTS / 3 {
            break key;
        }
        number += 1;
    };
    cluster.set(&key, "v").await.unwrap();
    until("the replica has it", async || cluster.get(&key).await.unwrap().is_some()).await;
    let replica = nodes[3].client().await;
    let reads = async |client: &Client| -> u64 {
        let info: String = client.command("INFO commandstats").reply().await.unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    let before = reads(&replica).await;
    for _ in 0..20 {
        assert_eq!(cluster.get(&key).await.unwrap().unwrap(), "v");
    }
    assert_eq!(reads(&replica).await, before + 20);

    // The primary dies: writes go on as soon as the replica has taken over.
    nodes[0].kill();
    let begin = Instant::now();
    loop {
        match cluster.set(&key, "w").await {
            Ok(()) => break,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
    }
    assert_eq!(cluster.get(&key).await.unwrap().unwrap(), "w");
    assert_eq!(replica.get(&key).await.unwrap().unwrap(), "w");
}
