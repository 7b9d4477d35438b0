//! Connecting, commands, errors, deadlines.

use std::collections::HashMap;
use std::time::Duration;

use petrel_client::{Client, ErrorKind, Options, RawCommand, Value};

use crate::servers::{Kind, Server, with_each_server};

with_each_server!(
    values_of_every_length,
    unix_sockets,
    passwords,
    resp2_on_request,
    dedicated_commands_are_refused,
    errors_name_the_command,
    deadlines,
    options_of_the_connection,
);

async fn values_of_every_length(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    for len in [0, 1, 63, 64, 127, 128, 1000, 16_384, 100_000, 3_000_000] {
        let value = vec![b'a' + (len % 26) as u8; len];
        client.command("SET").arg("key").arg(&value).await.unwrap();
        let got: Option<Vec<u8>> = client.command("GET").arg("key").reply().await.unwrap();
        assert_eq!(got.as_ref(), Some(&value));
    }
    let none: Option<String> = client.command("GET").arg("none").reply().await.unwrap();
    assert_eq!(none, None);
    let set: () = client
        .command("HSET")
        .arg("h")
        .args(["a", "1", "b", "2"])
        .reply::<i64>()
        .await
        .map(drop)
        .unwrap();
    let () = set;
    let hash: HashMap<String, i64> = client.command("HGETALL").arg("h").reply().await.unwrap();
    assert_eq!(hash, HashMap::from([("a".into(), 1), ("b".into(), 2)]));
}

async fn unix_sockets(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.socket_url()).await.unwrap();
    assert_eq!(client.command("INCR").arg("n").reply::<i64>().await.unwrap(), 1);
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let given = Client::from_stream(client.options().clone(), stream).await.unwrap();
    assert_eq!(given.command("INCR").arg("n").reply::<i64>().await.unwrap(), 2);
}

async fn passwords(kind: Kind) {
    let Some(server) = Server::start(kind, &["--requirepass", "hunter2"]) else { return };
    let port = server.port;
    for protocol in [2, 3] {
        let url = |secret: &str| format!("redis://{secret}127.0.0.1:{port}?protocol={protocol}");
        let client = Client::connect(&url(":hunter2@")).await.unwrap();
        assert_eq!(client.command("PING").reply::<String>().await.unwrap(), "PONG");
        let error = Client::connect(&url("")).await.unwrap_err();
        assert_eq!(error.code(), Some("NOAUTH"), "{error}");
        let error = Client::connect(&url(":hunter3@")).await.unwrap_err();
        assert_eq!(error.code(), Some("WRONGPASS"), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter"));
    }
}

async fn resp2_on_request(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    for (protocol, map) in [(2, false), (3, true)] {
        let client =
            Client::connect(&format!("{}?protocol={protocol}", server.url())).await.unwrap();
        let reply = client.command("CONFIG GET").arg("port").await.unwrap();
        assert_eq!(matches!(reply, Value::Map(_)), map, "{reply:?}");
        let map: HashMap<String, u16> =
            client.command("CONFIG GET").arg("port").reply().await.unwrap();
        assert_eq!(map["port"], server.port);
    }
}

async fn dedicated_commands_are_refused(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    for name in ["BLPOP", "multi", "SUBSCRIBE", "client reply", "SELECT", "Watch", "HELLO", "QUIT"]
    {
        let error = client.command(name).arg("1").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NeedsDedicated), "{error}");
        assert_eq!(error.command(), name.to_ascii_uppercase());
    }
    let read = || client.command("XREAD").args(["COUNT", "1", "STREAMS", "BLOCK", "0"]);
    assert!(read().await.unwrap().is_null());
    let error =
        client.command("XREAD").args(["BLOCK", "0", "STREAMS", "s", "0"]).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NeedsDedicated), "{error}");
}

async fn errors_name_the_command(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    client.command("SET").arg("key").arg("text").await.unwrap();
    let error = client.command("LPUSH").arg("key").arg("secret").await.unwrap_err();
    assert_eq!((error.command(), error.code()), ("LPUSH", Some("WRONGTYPE")));
    let error = client.command("frobnicate").arg("secret").await.unwrap_err();
    assert_eq!(error.command(), "FROBNICATE");
    assert!(!error.to_string().contains("secret"), "{error}");
    let error = client.command("GET").arg("key").reply::<i64>().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UnexpectedReply { .. }), "{error}");
    assert!(!error.to_string().contains("text"), "{error}");
}

async fn deadlines(kind: Kind) {
    let Some(mut server) = Server::start(kind, &[]) else { return };
    let client = Client::connect(&format!("{}?timeout_ms=200", server.url())).await.unwrap();
    // What has a deadline of its own.
    client.command("SET").arg("a").arg("1").within(Duration::from_secs(20)).await.unwrap();
    let slow = client.command("DEBUG SLEEP").arg("1.2").await.unwrap_err();
    // Servers may refuse DEBUG; if they do not, the deadline passes.
    assert!(slow.is_timeout() || slow.code() == Some("ERR"), "{slow}");
    server.stop();
    let error = client.command("GET").arg("a").await.unwrap_err();
    assert!(error.is_timeout() || error.is_disconnected(), "{error}");
    server.resume();
    let mut answer = Err(error);
    for _ in 0..100 {
        answer = client.command("PING").reply::<String>().await;
        if answer.is_ok() {
            break;
        }
    }
    assert_eq!(answer.unwrap(), "PONG");
}

async fn options_of_the_connection(kind: Kind) {
    let Some(server) = Server::start(kind, &[]) else { return };
    for protocol in [2, 3] {
        let url = format!("{}/5?name=tester&protocol={protocol}", server.url());
        let options = Options::from_url(&url).unwrap();
        let client = Client::with_options(options).await.unwrap();
        let info: String = client.command("CLIENT INFO").reply().await.unwrap();
        assert!(info.contains("name=tester") && info.contains("db=5"), "{info}");
    }
    let error = Client::connect(&format!("{}/5000", server.url())).await.unwrap_err();
    assert_eq!(error.command(), "SELECT");
}
