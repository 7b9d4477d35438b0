//! Auxiliary state in a file of its own ([`crate::labels`]) is logged, saved, replicated and shared
//! by members like function libraries.

use crate::bench::{Client, bulk, connect, error, ok};
use crate::labels::{LATER, Later};
use crate::tally;
use crate::value_type::{Alone, Dir, one_that_saves};
use crate::value_type_spread::{Redis, await_mark, await_rewrite, await_that, figure, free_port};
use petrel_commands::aux_state::add_aux_state;
use petrel_resp::Value;
use petrel_server::Running;
use petrel_server::config::{ClusterConfig, Config, SavePoints, SharedConfig};
use std::path::Path;
use std::sync::Arc;

/// Sets labels, and checks replies of commands that fail.
fn fill(client: &mut Client) {
    assert_eq!(client.call("LABEL.SET a one"), ok());
    assert_eq!(client.call("LABEL.SET b two"), ok());
    assert_eq!(client.call("LABEL.SET a three"), ok());
    assert_eq!(client.call("LABEL.SET gone four"), ok());
    assert_eq!(client.call("LABEL.DROP gone"), ok());
    assert!(error(&client.call("LABEL.DROP gone")).starts_with("ERR there is no such"));
}

fn check(client: &mut Client) {
    assert_eq!(client.call("LABEL.GET a"), bulk("three"));
    assert_eq!(client.call("LABEL.GET b"), bulk("two"));
    assert_eq!(client.call("LABEL.GET gone"), Value::Null);
}

#[test]
fn states_are_logged_saved_and_loaded() {
    let _guard = one_that_saves();
    let dir = Dir::new();
    {
        let server = Alone::start(&dir.0, true);
        fill(&mut server.client());
    }
    {
        // From effects of the log, and through a rewrite of it.
        let server = Alone::start(&dir.0, true);
        let mut client = server.client();
        check(&mut client);
        assert_eq!(client.call("FLUSHALL"), ok());
        client.call("BGREWRITEAOF");
        await_rewrite(&mut client);
        check(&mut client);
        assert_eq!(client.call("LABEL.DROP b"), ok());
        assert_eq!(client.call("LABEL.SET b two"), ok());
    }
    {
        let server = Alone::start(&dir.0, true);
        let mut client = server.client();
        check(&mut client);
        assert_eq!(client.call("DEBUG LOADAOF"), ok());
        check(&mut client);
        assert_eq!(client.call("SAVE"), ok());
    }
    // From the file: in the place of the present state, and merged with it.
    let server = Alone::start(&dir.0, false);
    let mut client = server.client();
    check(&mut client);
    assert_eq!(client.call("LABEL.SET c five"), ok());
    assert_eq!(client.call("DEBUG RELOAD NOSAVE"), ok());
    assert_eq!(client.call("LABEL.GET c"), Value::Null);
    assert_eq!(client.call("LABEL.SET c five"), ok());
    assert_eq!(client.call("LABEL.SET a six"), ok());
    assert!(error(&client.call("DEBUG RELOAD NOSAVE NOFLUSH")).starts_with("ERR"));
    assert_eq!(client.call("DEBUG RELOAD NOSAVE NOFLUSH MERGE"), ok());
    assert_eq!(client.call("LABEL.GET c"), bulk("five"));
    check(&mut client);
    // A form that is none stops the start.
    let file = std::fs::read(dir.0.join("dump.rdb")).unwrap();
    let at = file.windows(5).position(|part| part == b"three").unwrap();
    let mut broken = file.clone();
    broken[at - 1] = 200;
    let sum = broken.len() - 8;
    broken[sum..].fill(0);
    std::fs::write(dir.0.join("dump.rdb"), broken).unwrap();
    drop(server);
    let refused = std::panic::catch_unwind(|| Alone::start(&dir.0, false));
    let why = *refused.err().unwrap().downcast::<String>().unwrap();
    assert!(why.contains("cannot load the labels of") && why.contains("malformed"), "{why}");
}

#[test]
fn replicas_of_petrel_have_states_and_those_of_redis_follow_without() {
    let _guard = one_that_saves();
    let (dir, own) = (Dir::new(), Dir::new());
    let port = free_port();
    let primary = Alone::start_at(&dir.0, false, port);
    let replica = Alone::start(&own.0, true);
    let (mut client, mut follower) = (primary.client(), replica.client());
    let follow = format!("REPLICAOF 127.0.0.1 {port}");
    // In the copy, and in a stream of effects.
    fill(&mut client);
    assert_eq!(client.call("LABEL.SET own gone"), ok());
    assert_eq!(follower.call("LABEL.SET own kept"), ok());
    assert_eq!(follower.call(&follow), ok());
    await_mark(&mut client, &mut follower, 1);
    check(&mut follower);
    assert_eq!(follower.call("LABEL.GET own"), bulk("gone"));
    assert!(error(&follower.call("LABEL.SET own x")).starts_with("READONLY"));
    assert_eq!(client.call("LABEL.DROP own"), ok());
    await_mark(&mut client, &mut follower, 2);
    assert_eq!(follower.call("LABEL.GET own"), Value::Null);
    // In a stream of commands, which Redis reads, too.
    if let Some(redis) = Redis::start(&dir) {
        let mut other = connect(&dir.0.join("redis.sock"));
        assert_eq!(other.call(&follow), ok());
        await_that("Redis has no copy", || other.call("GET mark") == bulk("2"));
        assert_eq!(client.call("FUNCTION FLUSH"), ok());
        assert_eq!(client.call("LABEL.SET later text"), ok());
        client.call("MULTI");
        client.call("SET k v");
        client.call("LABEL.SET inside text");
        client.call("EXEC");
        await_mark(&mut client, &mut other, 3);
        await_mark(&mut client, &mut follower, 4);
        assert_eq!(follower.call("LABEL.GET later"), bulk("text"));
        assert_eq!(follower.call("LABEL.GET inside"), bulk("text"));
        assert_eq!(other.call("GET k"), bulk("v"));
        // One copy was enough, and no command of the stream has failed at Redis.
        assert_eq!(figure(&mut client, "stats", "sync_full"), 2);
        let log = redis.log();
        assert!(!log.contains("CRITICAL") && !log.contains("sending an error"), "{log}");
    }
    assert_eq!(client.call("LABEL.SET last text"), ok());
    await_mark(&mut client, &mut follower, 5);
    drop((follower, replica));
    // The replica has logged all of it.
    let replica = Alone::start(&own.0, true);
    let mut follower = replica.client();
    check(&mut follower);
    assert_eq!(follower.call("LABEL.GET last"), bulk("text"));
    assert_eq!(follower.call("LABEL.GET own"), Value::Null);
}

/// Sets unknown state, as it comes from another server.
fn set_unknown(server: &Alone, form: &[u8]) {
    let server = &server.0.as_ref().unwrap().server;
    server.commands.load_aux(b"later", form).unwrap();
    let mut handle = server.keyspace.attach();
    handle.enter();
    server.commands.record_aux(&mut handle, b"later");
    handle.exit();
}

fn unknown(server: &Alone) -> Option<Vec<u8>> {
    let forms = server.0.as_ref().unwrap().server.commands.aux_forms();
    forms.into_iter().find(|(name, _)| name == b"later").map(|(_, form)| form)
}

#[test]
fn unknown_states_are_kept_until_they_are_known() {
    let _guard = one_that_saves();
    let (dir, own) = (Dir::new(), Dir::new());
    let (first, last) = (b"\x01a\x03old".to_vec(), b"\x01a\x03new".to_vec());
    {
        let server = Alone::start(&dir.0, true);
        set_unknown(&server, &first);
        set_unknown(&server, b"");
        assert_eq!(unknown(&server), None);
        set_unknown(&server, &last);
    }
    {
        let server = Alone::start(&dir.0, true);
        let mut client = server.client();
        assert_eq!(unknown(&server).as_ref(), Some(&last));
        client.call("BGREWRITEAOF");
        await_rewrite(&mut client);
    }
    let port = free_port();
    let server = Alone::start_at(&dir.0, true, port);
    let mut client = server.client();
    assert_eq!(unknown(&server).as_ref(), Some(&last));
    // In a copy for a replica, and in the stream behind it.
    let replica = Alone::start(&own.0, false);
    let mut follower = replica.client();
    assert_eq!(follower.call(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
    await_mark(&mut client, &mut follower, 1);
    assert_eq!(unknown(&replica).as_ref(), Some(&last));
    set_unknown(&server, &first);
    await_mark(&mut client, &mut follower, 2);
    assert_eq!(unknown(&replica).as_ref(), Some(&first));
    set_unknown(&server, &last);
    assert_eq!(client.call("SAVE"), ok());
    drop((client, server, follower, replica));
    // A build that knows the state has it: from the log, and from the file.
    add_aux_state(&LATER);
    for appendonly in [true, false] {
        let server = Alone::start(&dir.0, appendonly);
        let value = server.0.as_ref().unwrap().server.commands.aux.value::<Later>();
        let text = value.0.0.get(&b"a"[..]).map(|text| &text[..]);
        assert_eq!(text, Some(&b"new"[..]), "appendonly {appendonly}");
    }
}

/// A member with files in a folder of the directory; the first founds the cluster.
fn start_member(dir: &Path, node: usize, buses: &[u16]) -> Running {
    let home = dir.join(node.to_string());
    let _ = std::fs::create_dir(&home);
    std::fs::write(home.join("passphrase"), "secret").unwrap();
    let join = format!("127.0.0.1:{}", buses[0]);
    let config = Config {
        port: 0,
        unixsocket: Some(home.join("s")),
        threads: 1,
        save: SavePoints::default(),
        appenddirname: home.join("log").to_str().unwrap().into(),
        appendonly: true,
        cluster: ClusterConfig {
            create: node == 0,
            join: if node == 0 { "" } else { &*join }.into(),
            passphrase_file: Some(home.join("passphrase")),
            bus_port: buses[node],
            // A busy machine may not run a member for a while.
            node_timeout: 8000,
            ..ClusterConfig::default()
        },
        dir: home,
        ..Config::default()
    };
    tally::start(Arc::new(SharedConfig::new(config, None)))
}

fn member(dir: &Path, node: usize) -> Client {
    let mut client = connect(&dir.join(format!("{node}/s")));
    await_that("a member does not serve", || client.call("SET served yes") == ok());
    client
}

#[test]
fn members_agree_on_states() {
    let _guard = one_that_saves();
    let dir = Dir::new();
    let buses: [u16; 3] = [(); 3].map(|()| free_port());
    let founder = start_member(&dir.0, 0, &buses);
    // State of the founder, and of no other.
    fill(&mut member(&dir.0, 0));
    let mut running = vec![founder];
    for node in 1..3 {
        running.push(start_member(&dir.0, node, &buses));
        member(&dir.0, node);
    }
    for node in 0..3 {
        let mut client = member(&dir.0, node);
        await_that("a member has no labels", || client.call("LABEL.GET a") == bulk("three"));
        check(&mut client);
        // Another member has it as soon as the reply has come.
        assert_eq!(client.call(&format!("LABEL.SET from {node}")), ok());
        for other in 0..3 {
            let from = member(&dir.0, other).call("LABEL.GET from");
            assert_eq!(from, bulk(&node.to_string()), "{other}");
        }
        assert!(error(&client.call("LABEL.DROP gone")).starts_with("ERR there is no such"));
    }
    // Beside function libraries, which change by the same version.
    let mut client = member(&dir.0, 1);
    assert_eq!(client.call("FUNCTION FLUSH"), ok());
    assert_eq!(client.call("LABEL.DROP from"), ok());
    let stop = |running: Vec<Running>| {
        running.iter().for_each(|running| running.server.stop());
        running.into_iter().for_each(|running| running.wait().unwrap());
    };
    stop(running);
    // All of it is there after a restart of all.
    let running = (0..3).map(|node| start_member(&dir.0, node, &buses)).collect();
    for node in 0..3 {
        let mut client = member(&dir.0, node);
        check(&mut client);
        assert_eq!(client.call("LABEL.GET from"), Value::Null);
    }
    stop(running);
}
