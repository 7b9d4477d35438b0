//! Messages that reach the subscribers at all members.

use crate::bench::{Members, bulk, key_at};
use petrel_resp::Value;
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

fn array(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| bulk(word)).collect())
}

fn is_subscribed(reply: &Value) {
    assert!(matches!(reply, Value::Array(items) if items.len() == 3), "{reply:?}");
}

#[test]
fn a_message_reaches_subscribers_of_every_kind_at_every_member() {
    let members = Members::start(3, DELAY);
    let mut subscribers: Vec<_> = (0..3).map(|node| members.client(node)).collect();
    for subscriber in &mut subscribers {
        is_subscribed(&subscriber.call("SUBSCRIBE c"));
        is_subscribed(&subscriber.call("PSUBSCRIBE d*"));
        is_subscribed(&subscriber.call("SSUBSCRIBE s"));
    }
    let mut publisher = members.client(1);
    // As many as receive it at that member.
    assert_eq!(publisher.call("PUBLISH c one"), Value::Integer(1));
    assert_eq!(publisher.call("PUBLISH nothing one"), Value::Integer(0));
    assert_eq!(publisher.call("SPUBLISH s two"), Value::Integer(1));
    assert_eq!(publisher.call("PUBLISH do three"), Value::Integer(1));
    for subscriber in &mut subscribers {
        // Channels have orders of their own.
        let mut messages: Vec<_> = (0..3).map(|_| subscriber.reply()).collect();
        messages.sort_by_key(|message| format!("{message:?}"));
        let mut expected = [
            array(&["message", "c", "one"]),
            array(&["pmessage", "d*", "do", "three"]),
            array(&["smessage", "s", "two"]),
        ];
        expected.sort_by_key(|message| format!("{message:?}"));
        assert_eq!(messages, expected);
        assert!(subscriber.is_silent(Duration::from_millis(20)), "a message came twice");
    }
}

#[test]
fn messages_of_a_channel_keep_their_order() {
    let members = Members::start(2, DELAY);
    let (mut subscriber, mut publisher) = (members.client(0), members.client(1));
    is_subscribed(&subscriber.call("SUBSCRIBE c"));
    let commands: Vec<String> = (0..1000).map(|at| format!("PUBLISH c {at}")).collect();
    assert!(publisher.pipeline(&commands).iter().all(|reply| *reply == Value::Integer(0)));
    for at in 0..1000 {
        assert_eq!(subscriber.reply(), array(&["message", "c", &at.to_string()]));
    }
}

#[test]
fn a_script_s_message_goes_out_from_the_home_that_executes_it() {
    let members = Members::start(2, DELAY);
    let (mut here, mut there) = (members.client(0), members.client(1));
    is_subscribed(&here.call("SUBSCRIBE c"));
    is_subscribed(&there.call("SUBSCRIBE c"));
    let (mut caller, away) = (members.client(0), key_at(1, 2, "k"));
    let script = "redis.call('incr',KEYS[1])return(redis.call('publish','c','x'))";
    assert_eq!(caller.call(&format!("EVAL {script} 1 {away}")), Value::Integer(1));
    for subscriber in [&mut here, &mut there] {
        assert_eq!(subscriber.reply(), array(&["message", "c", "x"]));
        assert!(subscriber.is_silent(Duration::from_millis(20)), "the message came twice");
    }
    let transaction = ["MULTI".into(), "PUBLISH c y".into(), "EXEC".into()];
    let replies = caller.pipeline(&transaction);
    assert_eq!(replies[2], Value::Array(vec![Value::Integer(1)]));
    for subscriber in [&mut here, &mut there] {
        assert_eq!(subscriber.reply(), array(&["message", "c", "y"]));
    }
    // Of a transaction too that another member executes.
    let increment = format!("INCR {away}");
    let transaction = ["MULTI".into(), increment, "PUBLISH c z".into(), "EXEC".into()];
    let both = vec![Value::Integer(2), Value::Integer(1)];
    assert_eq!(caller.pipeline(&transaction)[3], Value::Array(both));
    for subscriber in [&mut here, &mut there] {
        assert_eq!(subscriber.reply(), array(&["message", "c", "z"]));
    }
}
