//! Replies that wait until another owner of the key has the changes that they show.

use crate::cluster::{FOUND, await_service, call, join, scratch, start};
use crate::cluster_failures::await_whole;
use crate::harness::{Client, Server, eventually, show};
use std::time::Duration;

/// A busy machine may not run a member for a while.
const TIMEOUT: &str = "--cluster-node-timeout 20000 --cluster-copies 2 --cluster-acknowledge 2";

/// Time in which a reply would arrive that does not wait.
const MOMENT: Duration = Duration::from_millis(400);

/// Two members that own every slot together.
fn pair(flags: &str) -> (Server, Server) {
    let founder = start(scratch("secret"), &format!("{FOUND} {flags}"));
    await_service(&founder);
    let second = start(scratch("secret"), &format!("{} {flags}", join(&founder)));
    await_service(&second);
    await_whole(&founder);
    (founder, second)
}

/// A client that has sent a command and awaits its reply.
fn sent(server: &Server, command: &str) -> Client {
    let mut client = server.connect();
    client.send(&command.split(' ').collect::<Vec<_>>());
    client
}

fn receive(client: &mut Client) -> String {
    show(&client.receive().expect("a reply"))
}

/// Keys whose primary is this server, which commands of its clients change here.
fn own_keys(server: &Server) -> Vec<String> {
    let mut client = server.connect();
    let mut forwarded = || {
        let info = call(&mut client, "INFO cluster");
        let field = info.lines().find_map(|line| line.strip_prefix("cluster_commands_forwarded:"));
        field.expect("a field").trim().parse::<u64>().unwrap()
    };
    let mut before = forwarded();
    let mut own = Vec::new();
    for at in 0..40 {
        let key = format!("own{at}");
        assert_eq!(call(&mut server.connect(), &format!("SET {key} old")), "OK");
        let now = forwarded();
        if now == before {
            own.push(key);
        }
        before = now;
    }
    assert!(own.len() >= 4, "{own:?}");
    own
}

/// Stops a server, and waits until all its threads have stopped.
fn stop(server: &Server) {
    server.signal(libc::SIGSTOP);
    let tasks = format!("/proc/{}/task", server.pid());
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    eventually("all threads have stopped", || {
        std::fs::read_dir(&tasks).unwrap().all(|task| is_stopped(task.unwrap()))
    });
}

#[test]
fn no_client_sees_a_change_that_the_other_owner_lacks() {
    let (founder, second) = pair(TIMEOUT);
    let own = own_keys(&founder);
    let [set, list, script, untouched] = &own[..4] else { unreachable!() };
    assert_eq!(call(&mut founder.connect(), &format!("DEL {list}")), "1");
    let mut blocked = sent(&founder, &format!("BLPOP {list} 0"));
    assert!(blocked.is_silent(MOMENT));
    assert_eq!(call(&mut founder.connect(), &format!("GET {set}")), "old");

    stop(&second);
    let mut writers = [
        (sent(&founder, &format!("SET {set} new")), "OK"),
        (sent(&founder, &format!("RPUSH {list} a")), "1"),
    ];
    for (writer, reply) in &mut writers {
        assert!(writer.is_silent(MOMENT), "{reply}");
    }
    let mut multi = founder.connect();
    assert_eq!(call(&mut multi, "MULTI"), "OK");
    assert_eq!(call(&mut multi, &format!("GET {set}")), "QUEUED");
    multi.send(&["EXEC"]);
    let mut script_client = founder.connect();
    let text = "return redis.call('SET', KEYS[1], 'by script')";
    script_client.send(&["EVAL", text, "1", script]);
    let mut readers =
        [(sent(&founder, &format!("GET {set}")), "new"), (multi, "[new]"), (script_client, "OK")];
    for (reader, _) in &mut readers {
        assert!(reader.is_silent(MOMENT));
    }
    assert!(blocked.is_silent(MOMENT), "the element is not safe");
    // Replies that show nothing new do not wait.
    assert_eq!(call(&mut founder.connect(), &format!("GET {untouched}")), "old");
    assert_eq!(call(&mut founder.connect(), "PING"), "PONG");

    second.signal(libc::SIGCONT);
    for (client, reply) in writers.iter_mut().chain(&mut readers) {
        assert_eq!(receive(client), *reply);
    }
    assert_eq!(receive(&mut blocked), format!("[{list} a]"));
}

#[test]
fn replies_follow_once_the_other_owner_is_gone() {
    let timeout = TIMEOUT.replace("20000", "3000");
    let founder = start(scratch("secret"), &format!("{FOUND} {timeout}"));
    let mut client = await_service(&founder);
    let mut second = start(scratch("secret"), &format!("{} {timeout}", join(&founder)));
    await_service(&second);
    await_whole(&founder);
    let own = own_keys(&founder);
    second.signal(libc::SIGKILL);
    second.exit_code();
    // It is removed after one to two node timeouts, the time after which a client that waits is
    // disconnected: one of the two happens to each, and later ones are answered.
    let mut waiting: Vec<_> =
        own.iter().map(|key| sent(&founder, &format!("SET {key} new"))).collect();
    for client in &mut waiting {
        assert!(client.receive().is_none_or(|reply| show(&reply) == "OK"));
    }
    for key in &own {
        let reply = sent(&founder, &format!("SET {key} newer")).receive();
        assert!(reply.is_none_or(|reply| show(&reply) == "OK"));
    }
    eventually("writes need no other owner", || {
        call(&mut client, "CLUSTER INFO").contains("cluster_failed_nodes:1")
    });
    assert_eq!(call(&mut founder.connect(), &format!("SET {} newest", own[0])), "OK");
}

#[test]
fn min_replicas_to_write_counts_owners_that_acknowledge() {
    let flags = "--cluster-node-timeout 20000 --cluster-copies 2 --min-replicas-max-lag 1";
    let (founder, second) = pair(flags);
    let own = own_keys(&founder);
    let mut client = founder.connect();
    let write = format!("SET {} new", own[0]);
    assert_eq!(call(&mut client, "CONFIG SET min-replicas-to-write 1"), "OK");
    assert_eq!(call(&mut client, &write), "OK");
    assert!(call(&mut client, "INFO replication").contains("min_slaves_good_slaves:1\r\n"));
    assert_eq!(call(&mut client, "CONFIG SET min-replicas-to-write 2"), "OK");
    assert!(call(&mut client, &write).starts_with("NOREPLICAS "));
    assert_eq!(call(&mut client, &format!("GET {}", own[0])), "new");
    assert_eq!(call(&mut client, "CONFIG SET min-replicas-to-write 1"), "OK");
    assert_eq!(call(&mut client, &write), "OK");

    stop(&second);
    eventually("a write that the other owner does not acknowledge is the last one", || {
        call(&mut client, &write).starts_with("NOREPLICAS ")
    });
    second.signal(libc::SIGCONT);
    eventually("writes are accepted", || call(&mut client, &write) == "OK");
}
