//! Messages of a cluster, whose sharded channels follow their slots, against Redis in cluster mode
//! and a scripted node.

use std::time::Duration;

use petrel_client::{
    ChannelKind, Cluster, ClusterOptions, ClusterSubscriber, Commands, MockServer, Options, Value,
};

use crate::cluster_caches::all_slots;
use crate::group::{move_empty_slot, start, until};

/// Publishes until someone listens, and returns the payload that came.
async fn arrives(cluster: &Cluster, subscriber: &mut ClusterSubscriber, channel: &str) -> String {
    let mut number = 0;
    until("a subscriber is there", async || {
        number += 1;
        cluster.spublish(channel, number).await.is_ok_and(|receivers| receivers == 1)
    })
    .await;
    let message = subscriber.next().await.unwrap();
    assert_eq!((message.kind, &message.channel[..]), (ChannelKind::Shard, channel.as_bytes()));
    assert_eq!(message.payload, number.to_string());
    number.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharded_channels_follow_their_slots() {
    let Some(nodes) = start(0).await else { return };
    for protocol in [2, 3] {
        let url = format!("{}?protocol={protocol}", nodes[1].url());
        let cluster = Cluster::connect(&url).await.unwrap();
        let mut subscriber = cluster.subscriber();
        // Of all three nodes, in one call.
        subscriber.ssubscribe(["foo", "bar", "a", "b", "c"]).await.unwrap();
        for channel in ["foo", "bar", "a", "b", "c"] {
            assert_eq!(cluster.spublish(channel, "1").await.unwrap(), 1);
            assert_eq!(subscriber.next().await.unwrap().channel, channel);
        }
        assert_eq!(subscriber.interruptions(), 0);
        // "foo" is in slot 12182, of the third node.
        move_empty_slot(&nodes, 12182, 2, 0).await;
        arrives(&cluster, &mut subscriber, "foo").await;
        assert_eq!(subscriber.interruptions(), 1);
        assert_eq!(cluster.spublish("bar", "2").await.unwrap(), 1);
        assert_eq!(subscriber.next().await.unwrap().payload, "2");
        move_empty_slot(&nodes, 12182, 0, 2).await;
        arrives(&cluster, &mut subscriber, "foo").await;
        subscriber.unsubscribe(ChannelKind::Shard, ["foo"]).await.unwrap();
        assert_eq!(cluster.spublish("foo", "3").await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_channels_are_subscribed_to_at_one_node() {
    let Some(nodes) = start(0).await else { return };
    let cluster = Cluster::connect(&nodes[0].url()).await.unwrap();
    let mut subscriber = cluster.subscriber();
    subscriber.subscribe(["news"]).await.unwrap();
    subscriber.psubscribe(["p*"]).await.unwrap();
    for client in cluster.primaries().await.unwrap() {
        client.publish("news", "n").await.unwrap();
        client.publish("pq", "p").await.unwrap();
        for (kind, payload) in [(ChannelKind::Channel, "n"), (ChannelKind::Pattern, "p")] {
            let message = subscriber.next().await.unwrap();
            assert_eq!((message.kind, &message.payload[..]), (kind, payload.as_bytes()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharded_channels_follow_a_failover() {
    let Some(mut nodes) = start(1).await else { return };
    let mut options = ClusterOptions::new(Options::from_url(&nodes[1].url()).unwrap());
    options.node.connect_timeout = Duration::from_secs(2);
    let cluster = Cluster::with_options(options).await.unwrap();
    let mut subscriber = cluster.subscriber();
    // "bar" is in slot 5061, which the first node serves.
    subscriber.ssubscribe(["bar"]).await.unwrap();
    assert_eq!(cluster.spublish("bar", "1").await.unwrap(), 1);
    assert_eq!(subscriber.next().await.unwrap().payload, "1");
    nodes[0].kill();
    let mut number = 0;
    until("the replica has taken over, and the channel with it", async || {
        number += 1;
        let published = cluster.spublish("bar", format!("again {number}")).await;
        published.is_ok_and(|receivers| receivers == 1)
    })
    .await;
    assert_eq!(subscriber.next().await.unwrap().payload, format!("again {number}"));
    assert!(subscriber.interruptions() > 0);
}

fn text(text: &'static str) -> Value {
    Value::Bulk(text.into())
}

#[tokio::test]
async fn a_channel_that_a_node_gives_up_is_subscribed_to_again() {
    let server = MockServer::new();
    let confirm = |word| server.push(vec![text(word), text("c"), Value::Integer(1)]);
    server.expect(["CLUSTER", "SLOTS"]).reply(all_slots("a"));
    server.expect(["SSUBSCRIBE", "c"]).no_reply();
    confirm("ssubscribe");
    let cluster = server.cluster().await.unwrap();
    let mut subscriber = cluster.subscriber();
    subscriber.ssubscribe(["c"]).await.unwrap();
    server.finish();
    // The slot moves. The node that is asked where it is does not know yet.
    server.push(vec![text("sunsubscribe"), text("c"), Value::Integer(0)]);
    server.expect(["CLUSTER", "SLOTS"]).reply(all_slots("a"));
    server.expect(["SSUBSCRIBE", "c"]).reply(Value::Error("MOVED 7365 b:1".into()));
    server.expect(["CLUSTER", "SLOTS"]).reply(all_slots("b"));
    server.expect(["SSUBSCRIBE", "c"]).no_reply();
    confirm("ssubscribe");
    server.push(vec![text("smessage"), text("c"), text("hello")]);
    let message = subscriber.next().await.unwrap();
    assert_eq!((&message.channel[..], &message.payload[..]), (&b"c"[..], &b"hello"[..]));
    assert_eq!(subscriber.interruptions(), 1);
    server.finish();
}

#[tokio::test]
async fn a_refused_channel_is_told() {
    let server = MockServer::new();
    server.expect(["CLUSTER", "SLOTS"]).reply(all_slots("a"));
    server.expect(["SSUBSCRIBE", "c"]).reply(Value::Error("NOPERM no".into()));
    let cluster = server.cluster().await.unwrap();
    let mut subscriber = cluster.subscriber();
    let error = subscriber.ssubscribe(["c"]).await.unwrap_err();
    assert_eq!((error.command(), error.code()), ("SSUBSCRIBE", Some("NOPERM")));
    // It is not tried again.
    tokio::time::sleep(Duration::from_millis(30)).await;
    server.finish();
}
