//! Requests however they come, and replies in both protocols.

use crate::harness::*;

with_each_backend!(
    protocol_errors_close,
    http_closes,
    pipelines_may_be_split_anywhere,
    sixty_four_clients_get_their_own_replies,
    values_of_every_size_come_back,
    hello_switches_protocols,
);

fn protocol_errors_close(backend: &str) {
    let server = Server::start(backend, &[]);
    for (request, expected) in [
        ("*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n$-2\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"),
        ("\"PING\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
        (
            "*1\r\n$4\r\nPING\r\n*x\r\n",
            "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n",
        ),
    ] {
        let mut client = server.connect();
        client.send_bytes(request.as_bytes());
        assert_eq!(client.read_to_end(), expected, "{request:?}");
    }
    assert_eq!(server.connect().text(&["PING"]), "PONG");
}

fn http_closes(backend: &str) {
    let server = Server::start(backend, &[]);
    let command = "SET stolen 1\r\n";
    for (request, answer) in [
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), ""),
        ("post\r\n".to_owned(), ""),
        ("hOsT:\r\n".to_owned(), ""),
        ("PING\r\nHost: x\r\n".to_owned(), "+PONG\r\n"),
        ("*1\r\n$4\r\nPOST\r\n".to_owned(), ""),
        // Such a name is nothing special as an argument.
        ("ECHO POST\r\nECHO Host:\r\nQUIT\r\n".to_owned(), "$4\r\nPOST\r\n$5\r\nHost:\r\n+OK\r\n"),
    ] {
        let mut client = server.connect();
        client.send_bytes(&[request.as_bytes(), command.as_bytes()].concat());
        assert_eq!(client.read_to_end(), answer, "{request:?}");
    }
    assert_eq!(server.connect().text(&["EXISTS", "stolen"]), "0");
    let log = server.output();
    assert_eq!(log.matches("possible attack").count(), 1, "one warning for many: {log}");
}

fn pipelines_may_be_split_anywhere(backend: &str) {
    let server = Server::start(backend, &[]);
    let pipeline = [
        encode(&[b"SET", b"k", b"\r\n$3\r\n"]),
        b"PING\r\n".to_vec(),
        encode(&[b"GET", b"k"]),
        b"\r\n".to_vec(),
        encode(&[b"ECHO", b""]),
        b"ECHO \"a \\x41\"\r\n".to_vec(),
    ]
    .concat();
    let expected = "+OK\r\n+PONG\r\n$6\r\n\r\n$3\r\n\r\n$0\r\n\r\n$3\r\na A\r\n+OK\r\n";
    let mut clients: Vec<Client> = (0..pipeline.len()).map(|_| server.connect()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send_bytes(&pipeline[..at]);
    }
    // The first halves have arrived, and were answered as far as they go.
    assert_eq!(server.connect().text(&["PING"]), "PONG");
    for (at, client) in clients.iter_mut().enumerate() {
        client.send_bytes(&pipeline[at..]);
        client.send_bytes(&encode(&[b"QUIT"]));
        assert_eq!(client.read_to_end(), expected, "split at {at}");
    }
    let mut slow = server.connect();
    for byte in &pipeline {
        slow.send_bytes(&[*byte]);
    }
    slow.send_bytes(&encode(&[b"QUIT"]));
    assert_eq!(slow.read_to_end(), expected);
}

fn sixty_four_clients_get_their_own_replies(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut clients: Vec<Client> = (0..64).map(|_| server.connect()).collect();
    for round in 0..10 {
        for (i, client) in clients.iter_mut().enumerate() {
            let (key, value) = (format!("key:{i}"), format!("{i}:{round}").repeat(round * 20 + 1));
            let burst = [
                encode(&[b"SET", key.as_bytes(), value.as_bytes()]),
                encode(&[b"GET", key.as_bytes()]),
                encode(&[b"INCR", b"all"]),
            ];
            client.send_bytes(&burst.concat());
        }
        for (i, client) in clients.iter_mut().enumerate() {
            let value = format!("{i}:{round}").repeat(round * 20 + 1);
            assert_eq!(show(&client.receive().unwrap()), "OK");
            assert_eq!(show(&client.receive().unwrap()), value);
            client.receive().unwrap();
        }
    }
    assert_eq!(server.connect().text(&["GET", "all"]), "640");
    eventually("65 are connected", || server.info("connected_clients") == 65);
    let served: Vec<i64> = (0..2).map(|_| server.info("total_connections_received")).collect();
    assert!(served[0] < served[1]);
}

fn values_of_every_size_come_back(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    let mut sizes =
        vec![0, 1, 44, 45, 1023, 1024, 16_383, 16_384, 65_535, 65_537, 300_000, 5_000_000];
    if std::env::var_os("PETREL_TEST_LARGE").is_some() {
        sizes.push(512 << 20);
    }
    for size in sizes {
        let value: Vec<u8> = (0..size).map(|i: usize| (i * 7 + i / 251) as u8).collect();
        client.send_bytes(&encode(&[b"SET", b"k", &value]));
        assert_eq!(show(&client.receive().unwrap()), "OK", "{size}");
        client.send(&["GET", "k"]);
        let reply = client.receive().unwrap();
        assert!(reply.as_bytes() == Some(&value[..]), "{size} bytes came back otherwise");
    }
}

fn hello_switches_protocols(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    let two = client.text(&["HELLO"]);
    assert!(two.starts_with("[server redis version ") && two.contains(" proto 2 id "), "{two}");
    let three = client.text(&["HELLO", "3", "SETNAME", "me"]);
    assert!(three.contains("proto:3") && three.contains("modules:[]"), "{three}");
    assert_eq!(client.text(&["CLIENT", "SETINFO", "LIB-NAME", "library"]), "OK");
    assert_eq!(
        client.text(&["CLIENT", "SETINFO", "LIB-Ver", "1 2"]),
        "ERR LIB-Ver cannot contain spaces, newlines or special characters."
    );
    assert!(client.text(&["CLIENT", "INFO"]).contains(" name=me "));
    client.send(&["GET", "nosuch"]);
    assert!(client.receive().unwrap().is_null());
    assert_eq!(client.text(&["HELLO", "4"]), "NOPROTO unsupported protocol version");
    assert_eq!(client.text(&["RESET"]), "RESET");
    let reset = client.text(&["CLIENT", "INFO"]);
    assert!(reset.contains(" name= ") && reset.contains(" lib-name=library "), "{reset}");
    client.send_bytes(b"GET nosuch\r\nQUIT\r\n");
    assert_eq!(client.read_to_end(), "$-1\r\n+OK\r\n");
}
