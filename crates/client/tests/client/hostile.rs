//! Servers that answer nonsense: no panic, no endless wait, no memory by announcement.

use std::time::Duration;

use petrel_client::{Client, Options, RawCommand};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A client over a stream whose other end is in the hands of the test.
async fn client() -> (Client, DuplexStream) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let mut options = Options::from_url("redis://test?timeout_ms=1000").unwrap();
    options.reply_string_max = 1 << 20;
    let serve = async {
        let mut room = [0; 4096];
        let _ = theirs.read(&mut room).await.unwrap();
        theirs.write_all(b"%1\r\n$5\r\nproto\r\n:3\r\n").await.unwrap();
        let _ = theirs.read(&mut room).await.unwrap();
        theirs.write_all(b"+OK\r\n+OK\r\n").await.unwrap();
    };
    let (client, ()) = tokio::join!(Client::from_stream(options, ours), serve);
    (client.unwrap(), theirs)
}

/// Answers the next command with these bytes, in two parts, and then hangs up.
async fn answer(bytes: &[u8], cut: usize) -> petrel_client::Result<petrel_client::Value> {
    let (client, mut theirs) = client().await;
    let serve = async {
        let mut room = [0; 4096];
        let _ = theirs.read(&mut room).await;
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        let _ = theirs.write_all(first).await;
        tokio::task::yield_now().await;
        let _ = theirs.write_all(second).await;
        drop(theirs);
    };
    let call = client.command("GET").arg("key").into_future();
    let (reply, ()) = tokio::join!(call, serve);
    reply
}

#[tokio::test]
async fn torn_replies_and_pushes_in_between() {
    let bytes = b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n$5\r\nhello\r\n";
    for cut in 0..bytes.len() {
        let reply = answer(bytes, cut).await.unwrap();
        assert_eq!(reply.as_bytes(), Some(&b"hello"[..]));
    }
    // Only a part of the reply comes.
    let error = answer(&bytes[..bytes.len() - 1], 3).await.unwrap_err();
    assert!(error.is_disconnected(), "{error}");
}

#[tokio::test]
async fn giant_lengths_are_refused() {
    for header in ["$999999999999\r\n", "*999999999999\r\n", "$1048577\r\n", "%99999999\r\n"] {
        let error = answer(header.as_bytes(), 2).await.unwrap_err();
        assert!(error.to_string().contains("longer"), "{error}");
    }
    let nested = "*1\r\n".repeat(1000);
    assert!(answer(nested.as_bytes(), 7).await.unwrap_err().to_string().contains("nested"));
}

#[tokio::test]
async fn a_reply_to_no_request_ends_the_connection() {
    let (client, mut theirs) = client().await;
    theirs.write_all(b"+OK\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let error = client.command("GET").arg("key").await.unwrap_err();
    assert!(error.is_disconnected(), "{error}");
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let (client, _theirs) = client().await;
    let error = client.command("SET").arg("key").arg("value").await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nonsense_is_a_reply_or_an_error(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..12),
                "[$*%~>!=:(,#_|+-][0-9]{0,3}\r\n".prop_map(String::into_bytes),
                Just(b"$2\r\nab\r\n".to_vec()),
            ],
            0..12,
        ),
        cut in 0usize..40,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(20), answer(&pieces.concat(), cut)).await
        });
        // Whatever it is, it comes: the server hangs up in the end.
        prop_assert!(reply.is_ok());
    }
}
