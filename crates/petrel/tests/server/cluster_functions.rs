//! Libraries of functions in a cluster: all members have the same.

use crate::cluster::{FOUND, await_service, call, join, scratch, start};
use crate::harness::{Client, Server, encode, eventually, free_port, show};
use petrel_resp::Value;

/// A busy machine may not run a member for a while.
const TIMEOUT: &str = "--cluster-node-timeout 8000";

/// A library with a function that sets a key to the library's number and reads it.
fn library(name: &str, number: usize) -> String {
    format!(
        "#!lua name={name}\n\
         redis.register_function('{name}_put', function(keys, args)\n\
           redis.call('SET', keys[1], {number})\n\
           return redis.call('GET', keys[1])\n\
         end)\n\
         redis.register_function{{function_name='{name}_number',\n\
           callback=function() return {number} end, flags={{'no-writes'}}}}"
    )
}

fn load(client: &mut Client, code: &str) -> String {
    client.text(&["FUNCTION", "LOAD", code])
}

fn names(client: &mut Client) -> Vec<String> {
    let list = call(client, "FUNCTION LIST");
    let names = list.split("library_name ").skip(1);
    names.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned()).collect()
}

fn await_libraries(servers: &[&Server], wanted: &[&str]) {
    for server in servers {
        let mut client = server.connect();
        eventually("the libraries are there", || names(&mut client) == wanted);
    }
}

/// The function of a library does the same at each server for keys of all homes.
fn check_calls(servers: &[&Server], name: &str, number: usize) {
    for server in servers {
        let mut client = server.connect();
        for at in 0..40 {
            let put = call(&mut client, &format!("FCALL {name}_put 1 {name}{at}"));
            assert_eq!(put, number.to_string());
            let read = call(&mut client, &format!("FCALL_RO {name}_number 1 {name}{at}"));
            assert_eq!(read, number.to_string());
        }
        assert_eq!(call(&mut client, &format!("FCALL {name}_number 0")), number.to_string());
    }
}

#[test]
fn all_members_have_the_same_libraries() {
    // All that vote find each other where they were when all have stopped.
    let [found, at_second, at_third] =
        [(); 3].map(|()| format!("{TIMEOUT} --appendonly yes --cluster-port {}", free_port()));
    let found = format!("{FOUND} {found}");
    // Libraries loaded before the founding become the cluster's.
    let server = start(scratch("secret"), "--appendonly yes");
    assert_eq!(load(&mut server.connect(), &library("first", 1)), "first");
    let founder = {
        let mut server = server;
        server.signal(libc::SIGTERM);
        assert_eq!(server.exit_code(), Some(0));
        start(server.into_scratch(), &found)
    };
    let mut client = await_service(&founder);
    assert_eq!(names(&mut client), ["first"]);
    let join = join(&founder);
    let [as_second, as_third] = [at_second, at_third].map(|flags| format!("{join} {flags}"));
    let second = start(scratch("secret"), &as_second);
    let third = start(scratch("secret"), &as_third);
    for server in [&second, &third] {
        // A serving member has them.
        let mut client = await_service(server);
        assert_eq!(names(&mut client), ["first"]);
    }
    check_calls(&[&founder, &second, &third], "first", 1);

    let mut at_second = second.connect();
    assert_eq!(load(&mut at_second, &library("second", 2)), "second");
    // The client that has asked can call it at once, wherever the home of its keys is.
    check_calls(&[&second, &founder, &third], "second", 2);
    let all = [&founder, &second, &third];
    await_libraries(&all, &["first", "second"]);
    let lists = all.map(|server| call(&mut server.connect(), "FUNCTION LIST WITHCODE"));
    assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");

    refuses_what_redis_refuses(&third);
    let mut at_third = third.connect();
    let replaced = library("second", 22);
    assert_eq!(at_third.text(&["FUNCTION", "LOAD", "REPLACE", &replaced]), "second");
    check_calls(&[&third, &founder, &second], "second", 22);

    // A member that was away gets the changes made meanwhile.
    let mut third = third;
    third.signal(libc::SIGKILL);
    third.exit_code();
    eventually("the others go on", || {
        let reply = load(&mut at_second, &library("third", 3));
        // If they could not agree in time, they have later.
        reply == "third" || reply == "ERR Library 'third' already exists"
    });
    assert_eq!(call(&mut at_second, "FUNCTION DELETE first"), "OK");
    let third = start(third.into_scratch(), &as_third);
    let mut at_third = await_service(&third);
    assert_eq!(names(&mut at_third), ["second", "third"]);
    await_libraries(&[&founder, &second], &["second", "third"]);
    check_calls(&[&third, &founder], "third", 3);

    let Value::Bulk(dump) = at_third.call(&["FUNCTION", "DUMP"]) else { panic!("no bulk") };
    assert_eq!(call(&mut at_third, "FUNCTION FLUSH"), "OK");
    let all = [&founder, &second, &third];
    await_libraries(&all, &[]);
    assert_eq!(call(&mut at_second, "FCALL third_put 1 a"), "ERR Function not found");
    assert_eq!(load(&mut at_second, &library("fourth", 4)), "fourth");
    let mut restore = |how: &[u8]| {
        at_third.send_bytes(&encode(&[b"FUNCTION", b"RESTORE", &dump, how]));
        show(&at_third.receive().unwrap())
    };
    assert_eq!(restore(b"APPEND"), "OK");
    await_libraries(&all, &["fourth", "second", "third"]);
    assert_eq!(restore(b"APPEND"), "ERR Library second already exists");
    assert_eq!(restore(b"FLUSH"), "OK");
    await_libraries(&all, &["second", "third"]);

    // All stop and come back.
    let mut stopped = Vec::new();
    for mut server in [third, second, founder] {
        server.signal(libc::SIGKILL);
        server.exit_code();
        stopped.push(server.into_scratch());
    }
    let founder = start(stopped.pop().unwrap(), &found);
    let second = start(stopped.pop().unwrap(), &as_second);
    let third = start(stopped.pop().unwrap(), &as_third);
    for server in [&founder, &second, &third] {
        let mut client = await_service(server);
        assert_eq!(names(&mut client), ["second", "third"]);
    }
    check_calls(&[&founder, &second, &third], "second", 22);
}

#[test]
fn members_that_hold_some_slots_agree_on_all_changes_at_once() {
    let founder = start(scratch("secret"), &format!("{FOUND} {TIMEOUT} --cluster-copies 1"));
    let mut client = await_service(&founder);
    assert_eq!(load(&mut client, &library("before", 1)), "before");
    let flags = format!("{} {TIMEOUT}", join(&founder));
    let [second, third] = [(); 2].map(|()| start(scratch("secret"), &flags));
    for server in [&second, &third] {
        let mut client = await_service(server);
        assert_eq!(names(&mut client), ["before"]);
        await_some_slots(&mut client);
    }
    let all = [&founder, &second, &third];
    check_calls(&all, "before", 1);
    // Changes that get into each other's way are all made.
    std::thread::scope(|scope| {
        for (number, server) in all.into_iter().enumerate() {
            scope.spawn(move || {
                let mut client = server.connect();
                for at in 0..8 {
                    let name = format!("by{number}_{at}");
                    assert_eq!(load(&mut client, &library(&name, at)), name);
                    assert!(names(&mut client).contains(&name));
                }
            });
        }
    });
    let mut wanted = vec!["before".to_owned()];
    wanted.extend((0..3).flat_map(|number| (0..8).map(move |at| format!("by{number}_{at}"))));
    await_libraries(&all, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
    check_calls(&all, "by2_7", 7);

    // A member that holds slots is their home some views later.
    eventually("each member is the home of some slots", || {
        call(&mut client, "CLUSTER INFO").contains("cluster_size:3")
    });
    // Users unknown to the primary call functions with keys of this member.
    assert_eq!(call(&mut client, "ACL SETUSER limited on nopass ~* +fcall"), "OK");
    let mut limited = founder.connect();
    assert_eq!(call(&mut limited, "AUTH limited x"), "OK");
    let replies: Vec<String> =
        (0..40).map(|at| call(&mut limited, &format!("FCALL before_number 1 a{at}"))).collect();
    assert!(replies.iter().any(|reply| reply == "1"), "{replies:?}");
    let is_refused = |reply: &String| reply.starts_with("ERR Scripts of users with limited");
    assert!(replies.iter().any(is_refused), "{replies:?}");
    assert!(replies.iter().all(|reply| reply == "1" || is_refused(reply)), "{replies:?}");
    let reply = load(&mut limited, &library("denied", 1));
    assert!(reply.starts_with("NOPERM "), "{reply}");
}

fn await_some_slots(client: &mut Client) {
    eventually("it holds slots", || {
        let info = call(client, "CLUSTER INFO");
        let held = info.lines().find_map(|line| line.strip_prefix("cluster_slots_held:"));
        held.is_some_and(|held| held != "0") && info.contains("cluster_slots_coming:0")
    });
}

#[test]
fn libraries_do_not_change_in_a_minority() {
    let founder = start(scratch("secret"), &format!("{FOUND} --appendonly yes"));
    let mut client = await_service(&founder);
    assert_eq!(load(&mut client, &library("first", 1)), "first");
    let second = start(scratch("secret"), &join(&founder));
    let mut client = await_service(&second);
    // Of two members one votes.
    let mut founder = founder;
    founder.signal(libc::SIGKILL);
    founder.exit_code();
    let reply = load(&mut client, &library("second", 2));
    assert!(reply.starts_with("UNKNOWN ") || reply.starts_with("CLUSTERDOWN "), "{reply}");
    eventually("nothing is sent any more", || {
        let reply = call(&mut client, "FUNCTION DELETE first");
        reply == "CLUSTERDOWN The majority of the members cannot be reached"
    });
    assert_eq!(names(&mut client), ["first"]);
    assert_eq!(call(&mut client, "FCALL first_number 0"), "CLUSTERDOWN Hash slot not served");
    // As scripts of EVAL_RO, functions of FCALL_RO are executed at the home of their keys.
    let script = client.text(&["EVAL_RO", "return 1", "1", "a"]);
    assert_eq!(call(&mut client, "FCALL_RO first_number 1 a"), script);
}

fn refuses_what_redis_refuses(server: &Server) {
    let mut client = server.connect();
    let reply = load(&mut client, &library("second", 5));
    assert_eq!(reply, "ERR Library 'second' already exists");
    let reply = load(&mut client, "redis.register_function('x', function() end)");
    assert_eq!(reply, "ERR Missing library metadata");
    let reply = load(&mut client, "#!lua name=broken\nthis is no Lua");
    assert!(reply.starts_with("ERR Error compiling function: "), "{reply}");
    let other = library("second", 5).replacen("name=second", "name=other", 1);
    let reply = load(&mut client, &other);
    assert_eq!(reply, "ERR Function second_put already exists");
    assert_eq!(call(&mut client, "FUNCTION DELETE none"), "ERR Library not found");
    let reply = call(&mut client, "FUNCTION FLUSH NOW");
    assert_eq!(reply, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
    let reply = load(&mut client, &format!("{}--{}", library("large", 6), "x".repeat(1 << 20)));
    assert!(reply.contains("at most 1048576 are allowed in a cluster"), "{reply}");
    assert_eq!(call(&mut client, "MULTI"), "OK");
    let reply = call(&mut client, "FUNCTION DELETE second");
    let refused = "ERR FUNCTION|DELETE is not supported in a transaction or script of a cluster: ";
    assert!(reply.starts_with(refused), "{reply}");
    assert_eq!(call(&mut client, "DISCARD"), "OK");
    assert_eq!(call(&mut client, "FCALL none 1 a"), "ERR Function not found");
    assert_eq!(names(&mut client), ["first", "second"]);
}
