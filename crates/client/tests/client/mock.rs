//! The mock server, and what is easier to provoke with it than with a real one.

use std::time::{Duration, Instant};

use petrel_client::{
    Address, Commands, ErrorKind, MockServer, NearCacheOptions, Options, Pipeline, RawCommand,
    Value,
};

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn text(text: &'static str) -> Value {
    Value::Bulk(text.into())
}

/// Waits until something holds.
async fn eventually(mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_script_is_followed() {
    let server = MockServer::new();
    server.expect(["SET", "k", "v", "EX", "60"]).reply(ok());
    server.expect(["get", "k"]).reply(text("v"));
    server.expect_any().reply(Value::Error("WRONGTYPE no".into()));
    server.expect(["GET", "raw"]).reply_bytes(*b"$3\r\nabc\r\n");
    let client = server.client().await.unwrap();
    client.set("k", "v").ex(60).await.unwrap();
    assert_eq!(client.get("k").await.unwrap().unwrap(), "v");
    let error = client.lpush("k", ["x"]).await.unwrap_err();
    assert_eq!((error.command(), error.code()), ("LPUSH", Some("WRONGTYPE")));
    assert_eq!(client.get("raw").await.unwrap().unwrap(), "abc");
    server.finish();
    // Steps can be added later, and large values go through.
    let large = "x".repeat(1 << 20);
    server.expect(["GET", "large"]).reply(Value::Bulk(large.clone().into()));
    assert_eq!(client.get("large").await.unwrap().unwrap(), large);
    server.finish();
}

#[tokio::test]
async fn surprises_are_told() {
    let server = MockServer::new();
    server.expect(["GET", "a"]).reply(Value::Null);
    let client = server.client().await.unwrap();
    let error = client.get("b").await.unwrap_err();
    assert!(error.to_string().contains("did not expect"), "{error}");
    let surprises = server.surprises();
    assert_eq!(surprises, ["came: GET b; expected: GET a", "missing: GET a"]);
    let finished = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.finish()));
    assert!(finished.is_err());
}

#[tokio::test]
async fn reads_are_sent_again_and_writes_are_not() {
    let server = MockServer::new();
    server.expect(["GET", "k"]).no_reply();
    server.disconnect();
    server.expect(["GET", "k"]).reply(text("v"));
    server.expect(["INCR", "n"]).no_reply();
    server.disconnect();
    server.expect(["INCR", "n"]).no_reply();
    server.disconnect();
    server.expect(["INCR", "n"]).reply(Value::Integer(2));
    let client = server.client().await.unwrap();
    assert_eq!(client.get("k").await.unwrap().unwrap(), "v");
    let error = client.incr("n").await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Disconnected { maybe_executed: true, .. }),
        "{error}"
    );
    assert_eq!(client.incr("n").retry().await.unwrap(), 2);
    assert_eq!(server.connections(), 4);
    server.finish();
}

#[tokio::test]
async fn deadlines_hold_while_a_server_is_slow() {
    let server = MockServer::new();
    server.expect(["GET", "slow"]).no_reply();
    server.delay(Duration::from_millis(300));
    server.push(vec![text("nothing")]);
    server.expect(["GET", "k"]).reply(text("v"));
    let mut options = Options::new(Address::Tcp { host: "mock".into(), port: 0 });
    options.timeout = Some(Duration::from_millis(80));
    let client = server.client_with(options).await.unwrap();
    assert!(client.get("slow").await.unwrap_err().is_timeout());
    // The server owes a reply: what it sends next is that one, and not the second command's.
    let second = client.get("k").within(Duration::from_secs(1)).await;
    assert!(second.unwrap_err().is_timeout(), "a reply was given to another command");
    server.finish();
}

#[tokio::test]
async fn resp2_is_fallen_back_to() {
    let server = MockServer::resp2();
    server.expect(["HGETALL", "h"]).reply(Value::Array(vec![text("a"), text("1")]));
    let client = server.client().await.unwrap();
    let fields: Vec<(String, i64)> = client.hgetall("h").reply().await.unwrap();
    assert_eq!(fields, [("a".to_owned(), 1)]);
    server.finish();
}

#[tokio::test]
async fn an_invalidation_empties_the_near_cache() {
    let server = MockServer::new();
    server.expect(["CLIENT", "TRACKING", "ON", "OPTIN"]).reply(ok());
    for value in ["1", "2"] {
        server.expect(["CLIENT", "CACHING", "YES"]).reply(ok());
        server.expect(["GET", "k"]).reply(text(value));
        server.expect(["PTTL", "k"]).reply(Value::Integer(-1));
        if value == "1" {
            server.push(vec![text("invalidate"), Value::Array(vec![text("k")])]);
        }
    }
    let client = server.client().await.unwrap();
    let near = client.near_cache(NearCacheOptions::default()).await.unwrap();
    assert_eq!(near.get("k").await.unwrap().unwrap(), "1");
    eventually(|| near.statistics().invalidations == 1).await;
    for _ in 0..10 {
        assert_eq!(near.get("k").await.unwrap().unwrap(), "2");
    }
    let statistics = near.statistics();
    assert_eq!((statistics.misses, statistics.hits), (2, 9));
    server.finish();
}

#[tokio::test]
async fn a_transaction_is_one_piece() {
    let server = MockServer::new();
    server.expect(["MULTI"]).reply(ok());
    server.expect(["INCR", "a"]).reply(Value::Simple("QUEUED".into()));
    server.expect(["EXEC"]).reply(Value::Array(vec![Value::Integer(7)]));
    let client = server.client().await.unwrap();
    let mut transaction = Pipeline::transaction();
    let incr = transaction.incr("a").queue();
    assert_eq!(client.run(transaction).await.unwrap().take(incr).unwrap(), 7);
    assert!(client.command("MULTI").await.is_err());
    server.finish();
}
