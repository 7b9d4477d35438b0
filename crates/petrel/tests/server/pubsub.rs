//! Publish/subscribe: receivers of messages, their order, and the cost of a subscriber that does
//! not read.

use crate::harness::*;

with_each_backend!(
    messages_arrive_in_both_protocols,
    resp2_subscribers_may_send_little,
    a_publisher_that_listens_gets_its_reply_first,
    what_was_published_before_is_delivered_before_leaving,
    messages_of_a_channel_have_one_order,
    many_subscribers_get_all_in_order_and_before_later_replies,
    what_was_published_before_is_delivered_before_a_reply_of_the_same_turn,
    many_subscribers_get_what_was_published_before_the_server_stops,
    those_who_leave_are_not_counted,
    a_subscriber_that_does_not_read_is_closed,
    subscriptions_are_seen_by_others,
    large_messages_arrive_whole,
    the_memory_limit_bounds_subscriptions,
);

/// Connections so that both workers have some.
fn subscribers(server: &Server, count: usize, args: &[&str]) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        if i % 3 == 0 {
            client.call(&["HELLO", "3"]);
        }
        client.call(args);
    }
    clients
}

fn next(client: &mut Client) -> String {
    show(&client.receive().expect("a message"))
}

fn messages_arrive_in_both_protocols(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut publisher = server.connect();
    assert_eq!(publisher.text(&["PUBLISH", "news", "nobody"]), "0");
    let mut two = server.connect();
    two.send(&["SUBSCRIBE", "news", "news", "more"]);
    assert_eq!(
        [next(&mut two), next(&mut two), next(&mut two)].join(","),
        "[subscribe news 1],[subscribe news 1],[subscribe more 2]"
    );
    assert_eq!(two.text(&["PSUBSCRIBE", "n*"]), "[psubscribe n* 3]");
    let mut three = server.connect();
    three.call(&["HELLO", "3"]);
    assert!(matches!(three.call(&["SSUBSCRIBE", "news"]), petrel_resp::Value::Push(_)));
    assert_eq!(three.text(&["PING"]), "PONG");
    assert_eq!(publisher.text(&["PUBLISH", "news", "hello"]), "2");
    assert_eq!(publisher.text(&["SPUBLISH", "news", "shard"]), "1");
    assert_eq!(next(&mut two), "[message news hello]");
    assert_eq!(next(&mut two), "[pmessage n* news hello]");
    let push = three.receive().unwrap();
    assert!(matches!(push, petrel_resp::Value::Push(_)), "{push:?}");
    assert_eq!(show(&push), "[smessage news shard]");
}

fn resp2_subscribers_may_send_little(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    client.call(&["SUBSCRIBE", "a"]);
    let refusal = "ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                   this context";
    assert_eq!(client.text(&["GET", "x"]), refusal);
    assert!(client.text(&["CONFIG", "GET", "x"]).starts_with("ERR Can't execute 'config|get'"));
    assert_eq!(client.text(&["PING"]), "[pong ]");
    assert_eq!(client.text(&["PING", "x"]), "[pong x]");
    assert_eq!(client.text(&["UNSUBSCRIBE"]), "[unsubscribe a 0]");
    assert_eq!(client.text(&["UNSUBSCRIBE"]), "[unsubscribe nil 0]");
    assert_eq!(client.text(&["GET", "x"]), "nil");
    client.call(&["PSUBSCRIBE", "*"]);
    assert_eq!(client.text(&["RESET"]), "RESET");
    assert_eq!(client.text(&["GET", "x"]), "nil");
    assert_eq!(client.text(&["PUBLISH", "a", "b"]), "0");
    assert_eq!(server.info("pubsub_clients"), 0);
}

fn a_publisher_that_listens_gets_its_reply_first(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    client.call(&["HELLO", "3"]);
    client.call(&["SUBSCRIBE", "a"]);
    for args in [
        &["PUBLISH", "a", "1"][..],
        &["PING"],
        &["MULTI"],
        &["PUBLISH", "a", "2"],
        &["PUBLISH", "a", "3"],
        &["EXEC"],
        &["PING"],
    ] {
        client.send(args);
    }
    let got: Vec<String> = (0..10).map(|_| next(&mut client)).collect();
    let expected = [
        "1",
        "[message a 1]",
        "PONG",
        "OK",
        "QUEUED",
        "QUEUED",
        "[1 1]",
        "[message a 2]",
        "[message a 3]",
        "PONG",
    ];
    assert_eq!(got, expected);
}

fn what_was_published_before_is_delivered_before_leaving(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut publisher = server.connect();
    let mut clients = subscribers(&server, 4, &["SUBSCRIBE", "a"]);
    for round in 0..50 {
        assert_eq!(publisher.text(&["PUBLISH", "a", &round.to_string()]), "4");
        for client in &mut clients {
            client.send(&["UNSUBSCRIBE", "a"]);
            client.send(&["SUBSCRIBE", "a"]);
        }
        for client in &mut clients {
            assert_eq!(next(client), format!("[message a {round}]"));
            assert_eq!(next(client), "[unsubscribe a 0]");
            assert_eq!(next(client), "[subscribe a 1]");
        }
    }
}

/// Several publishers on all workers; every subscriber sees the same order, and that of each
/// publisher.
fn messages_of_a_channel_have_one_order(backend: &str) {
    const PUBLISHERS: usize = 4;
    const MESSAGES: usize = 300;
    let server = Server::start(backend, &[]);
    let mut clients = subscribers(&server, 5, &["SUBSCRIBE", "a"]);
    clients.extend(subscribers(&server, 3, &["PSUBSCRIBE", "a*"]));
    std::thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let mut client = server.connect();
            scope.spawn(move || {
                for n in 0..MESSAGES {
                    client.send(&["PUBLISH", "a", &format!("{publisher}:{n:04}")]);
                }
                (0..MESSAGES).for_each(|_| assert_eq!(next(&mut client), "8"));
            });
        }
    });
    let mut seen: Vec<Vec<String>> = Vec::new();
    for client in &mut clients {
        let message =
            |text: String| text.trim_end_matches(']').rsplit(' ').next().unwrap().to_owned();
        seen.push((0..PUBLISHERS * MESSAGES).map(|_| message(next(client))).collect());
    }
    for other in &seen[1..] {
        assert!(other == &seen[0], "two subscribers saw different orders");
    }
    for publisher in 0..PUBLISHERS {
        let prefix = format!("{publisher}:");
        assert!(seen[0].iter().filter(|text| text.starts_with(&prefix)).is_sorted());
    }
}

/// With so large a number of subscribers that a message takes several turns of both workers, while
/// others are published.
fn many_subscribers_get_all_in_order_and_before_later_replies(backend: &str) {
    const SUBSCRIBERS: usize = 300;
    const PUBLISHERS: usize = 5;
    const MESSAGES: usize = 20;
    let server = Server::start(backend, &[]);
    let mut clients = subscribers(&server, SUBSCRIBERS, &["SUBSCRIBE", "a"]);
    let mut publishers: Vec<Client> = (0..PUBLISHERS).map(|_| server.connect()).collect();
    let mut seen = vec![Vec::new(); SUBSCRIBERS];
    for n in 0..MESSAGES {
        for (i, publisher) in publishers.iter_mut().enumerate() {
            // Now and then one that is too large to be put beside others.
            let long = if (n + i) % 7 == 0 { "x".repeat(20_000) } else { String::new() };
            publisher.send(&["PUBLISH", "a", &format!("{i}:{n}:{long}")]);
        }
        for publisher in &mut publishers {
            assert_eq!(next(publisher), SUBSCRIBERS.to_string());
        }
        // A client that has seen all replies finds all messages before its next reply.
        for (client, seen) in clients.iter_mut().zip(&mut seen) {
            client.send(&["PING"]);
            loop {
                match next(client) {
                    pong if pong == "PONG" || pong == "[pong ]" => break,
                    message => seen.push(message),
                }
            }
            assert_eq!(seen.len(), (n + 1) * PUBLISHERS);
        }
    }
    assert!(seen.iter().all(|its| *its == seen[0]), "two subscribers saw different orders");
    for i in 0..PUBLISHERS {
        let own = seen[0].iter().filter_map(|text| text.strip_prefix(&format!("[message a {i}:")));
        let numbers = own.map(|text| text.split(':').next().unwrap().parse::<usize>().unwrap());
        assert!(numbers.eq(0..MESSAGES));
    }
}

fn what_was_published_before_is_delivered_before_a_reply_of_the_same_turn(backend: &str) {
    let server = Server::start(backend, &["--enable-debug-command", "yes", "--threads", "1"]);
    let mut sleeper = server.connect();
    let mut publisher = server.connect();
    let mut clients = subscribers(&server, 2, &["SUBSCRIBE", "a"]);
    sleeper.send(&["DEBUG", "SLEEP", "0.2"]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    publisher.send(&["PUBLISH", "a", "x"]);
    for client in &mut clients {
        client.send(&["PING"]);
    }
    let got: Vec<String> = clients.iter_mut().flat_map(|it| [next(it), next(it)]).collect();
    assert_eq!(got, ["[message a x]", "PONG", "[message a x]", "[pong ]"]);
    assert_eq!([next(&mut sleeper), next(&mut publisher)], ["OK", "2"]);
}

fn many_subscribers_get_what_was_published_before_the_server_stops(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut clients = subscribers(&server, 400, &["SUBSCRIBE", "a"]);
    let mut publisher = server.connect();
    publisher.send(&["PUBLISH", "a", "last"]);
    publisher.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(next(&mut publisher), "400");
    for client in &mut clients {
        assert_eq!(next(client), "[message a last]");
    }
}

fn those_who_leave_are_not_counted(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut publisher = server.connect();
    let mut clients = subscribers(&server, 8, &["SUBSCRIBE", "a"]);
    for round in 0..40 {
        // One goes and one comes in the middle of messages.
        publisher.send(&["PUBLISH", "a", "x"]);
        drop(clients.remove(round % 8));
        publisher.send(&["PUBLISH", "a", "y"]);
        clients.extend(subscribers(&server, 1, &["SUBSCRIBE", "a"]));
        for count in [next(&mut publisher), next(&mut publisher)] {
            // A closed connection counts until its worker notices.
            assert!((7..=9 + round as u32).contains(&count.parse().unwrap()), "{count}");
        }
    }
    eventually("eight are left", || publisher.text(&["PUBLISH", "a", "end"]) == "8");
    for client in &mut clients {
        while next(client) != "[message a end]" {}
    }
    drop(clients);
    eventually("nobody is left", || publisher.text(&["PUBLISH", "a", "end"]) == "0");
    assert_eq!(publisher.text(&["PUBSUB", "CHANNELS"]), "[]");
    assert_eq!((server.info("pubsub_channels"), server.info("pubsub_clients")), (0, 0));
}

fn a_subscriber_that_does_not_read_is_closed(backend: &str) {
    let server = Server::start(backend, &["--client-output-buffer-limit", "pubsub 1mb 0 0"]);
    let mut deaf = subscribers(&server, 4, &["SUBSCRIBE", "a"]);
    let mut publisher = server.connect();
    let message = "x".repeat(50_000);
    let mut sent = 0;
    while publisher.text(&["PUBLISH", "a", &message]) != "0" {
        sent += 1;
        assert!(sent < 2000, "they are never closed");
    }
    assert_eq!(server.info("client_output_buffer_limit_disconnections"), 4);
    for client in &mut deaf {
        assert!(client.read_to_end().len() < 8_000_000);
    }
    eventually("they are forgotten", || server.info("mem_clients_normal") < 100_000);
    // The limit of other clients is another.
    let value = "x".repeat(3_000_000);
    publisher.call(&["SET", "k", &value]);
    assert_eq!(publisher.text(&["GET", "k"]).len(), value.len());
}

fn subscriptions_are_seen_by_others(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    let id = client.text(&["CLIENT", "ID"]);
    client.send(&["SUBSCRIBE", "a", "b"]);
    client.send(&["PSUBSCRIBE", "p*"]);
    client.send(&["SSUBSCRIBE", "s"]);
    (0..4).for_each(|_| drop(next(&mut client)));
    let mut other = server.connect();
    let line = other.text(&["CLIENT", "LIST", "ID", &id]);
    assert!(line.contains(" flags=PU ") && line.contains(" sub=2 psub=1 ssub=1 "), "{line}");
    assert_eq!(other.text(&["PUBSUB", "NUMSUB", "a", "zz"]), "[a 1 zz 0]");
    assert_eq!(other.text(&["PUBSUB", "CHANNELS", "?"]).len(), 5);
    assert_eq!(other.text(&["PUBSUB", "NUMPAT"]), "1");
    assert_eq!(other.text(&["PUBSUB", "SHARDCHANNELS"]), "[s]");
    assert_eq!(other.text(&["PUBSUB", "SHARDNUMSUB", "s"]), "[s 1]");
    assert_eq!(server.info("pubsub_patterns"), 1);
    assert_eq!(other.text(&["CLIENT", "KILL", "TYPE", "pubsub"]), "1");
    assert_eq!(client.read_to_end(), "");
    eventually("its subscriptions end", || other.text(&["PUBSUB", "NUMPAT"]) == "0");
}

fn the_memory_limit_bounds_subscriptions(backend: &str) {
    let server = Server::start(backend, &["--maxmemory", "3mb"]);
    let mut client = server.connect();
    let long = "x".repeat(3 << 20);
    assert!(client.text(&["SUBSCRIBE", &long]).starts_with("OOM command not allowed"));
    let name = "x".repeat(2048);
    let mut subscribed = 0;
    while client.text(&["SUBSCRIBE", &format!("{name}{subscribed}")]).starts_with("[subscribe") {
        subscribed += 1;
        assert!(subscribed < 2000, "they are not bounded");
    }
    assert!(subscribed > 10);
    drop(client);
    let mut other = server.connect();
    eventually("there is room again", || !other.text(&["SET", "k", "v"]).starts_with("OOM"));
}

fn large_messages_arrive_whole(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut clients = subscribers(&server, 3, &["SUBSCRIBE", "a"]);
    let mut publisher = server.connect();
    let message = "0123456789".repeat(20_000);
    for n in 0..5 {
        publisher.send(&["PUBLISH", "a", &format!("{n}{message}")]);
    }
    for client in &mut clients {
        for n in 0..5 {
            assert!(next(client) == format!("[message a {n}{message}]"));
        }
    }
}
