//! Members that are taken for dead, and let in again.

use crate::bench::{Members, bulk, error, key_at, ok};
use crate::network::{identity, infos, view};
use petrel_cluster::{Identity, View};
use petrel_resp::Value;
use petrel_server::cluster::{Event, MemberInfo};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_micros(500);

#[test]
fn without_its_lease_a_member_only_reads() {
    let members = Members::start(2, DELAY);
    let (here, away) = (key_at(0, 2, "lease"), key_at(1, 2, "lease"));
    let (mut client, mut other) = (members.client(0), members.client(1));
    assert_eq!(client.call(&format!("SET {here} 1 PX 100000")), ok());
    members.membership(0).hold_lease(None);
    let refused = "CLUSTERDOWN Hash slot not served";
    assert_eq!(error(&client.call(&format!("INCR {here}"))), refused);
    let script = format!("EVAL return(redis.call('incr','{here}')) 0");
    assert!(error(&client.call(&script)).starts_with(refused));
    let transaction = ["MULTI".into(), format!("INCR {here}"), "EXEC".into()];
    assert!(error(&client.pipeline(&transaction)[2]).ends_with(refused));
    // Nor does it execute what others forward.
    assert_eq!(error(&other.call(&format!("INCR {here}"))), refused);
    assert_eq!(client.call(&format!("GET {here}")), bulk("1"));
    let transaction = ["MULTI".into(), format!("GET {here}"), "EXEC".into()];
    assert_eq!(client.pipeline(&transaction)[2], Value::Array(vec![bulk("1")]));
    // Another member as primary may still accept.
    assert_eq!(client.call(&format!("INCR {away}")), Value::Integer(1));
    let later = Duration::from_secs(600);
    members.membership(0).hold_lease(Some(Instant::now() + later));
    assert_eq!(client.call(&format!("INCR {here}")), Value::Integer(2));
    // A key that expires without the lease is not visible, and is removed once the lease is back.
    assert_eq!(client.call(&format!("SET {here}x 1 PX 2")), ok());
    members.membership(0).hold_lease(Some(Instant::now() - Duration::from_millis(1)));
    assert_eq!(error(&client.call(&format!("INCR {here}"))), refused);
    while client.call(&format!("GET {here}x")) != Value::Null {
        std::thread::sleep(Duration::from_millis(1));
    }
    members.membership(0).hold_lease(Some(Instant::now() + later));
    while client.call("DBSIZE") != Value::Integer(2) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends commands to a member whose lease has just ended: to itself, and through another. Returns
/// their replies, and the time until the lease was renewed, before the replies or after them.
fn without_a_lease(members: &Members, key: &str, renews: bool) -> (Vec<Value>, Duration) {
    let (mut client, mut other) = (members.client(0), members.client(1));
    let later = Duration::from_secs(600);
    let begin = Instant::now();
    members.membership(0).hold_lease(Some(begin));
    client.send(&[
        format!("INCR {key}"),
        "MULTI".into(),
        format!("INCR {key}"),
        "EXEC".into(),
        format!("EVAL return(redis.call('incr',KEYS[1])) 1 {key}"),
    ]);
    other.send(&[format!("INCR {key}")]);
    let mut ended = None;
    let mut renew = || {
        members.membership(0).hold_lease(Some(Instant::now() + later));
        ended.get_or_insert(begin.elapsed());
    };
    if renews {
        // Most are answered before they are read otherwise.
        std::thread::sleep(Duration::from_millis(30));
        renew();
    }
    let mut replies: Vec<Value> = (0..5).map(|_| client.reply()).collect();
    replies.push(other.reply());
    renew();
    (replies, ended.unwrap_or_default())
}

#[test]
fn commands_wait_a_second_for_the_renewal_of_a_lease_that_has_ended() {
    let members = Members::start_few(3, 2, DELAY);
    let key = key_at(0, 3, "lease");
    let mut count = 0;
    for round in 0..8 {
        let (replies, ended) = without_a_lease(&members, &key, round % 2 == 0);
        let texts = format!("{replies:?}");
        let refused = texts.matches("CLUSTERDOWN Hash slot not served").count();
        let is_early = ended < Duration::from_millis(990);
        assert!(refused == 0 || !is_early, "{ended:?}: {texts}");
        assert!(round % 2 == 0 || refused == 4, "{texts}");
        count += 4 - refused as i64;
        let call = members.client(0).call(&format!("GET {key}"));
        assert!(count == 0 || call == bulk(&count.to_string()), "{count}: {call:?}");
    }
}

/// The first member in another life, alone.
fn again(epoch: u64, incarnation: u32) -> (Identity, Arc<View>, Arc<[MemberInfo]>) {
    let own = Identity { incarnation, ..identity(0) };
    let view = View { epoch, members: vec![own], ..View::clone(&view(epoch, 1)) };
    let info = MemberInfo { identity: own, ..infos(1)[0].clone() };
    (own, Arc::new(view), Arc::from([info]))
}

#[test]
fn a_member_that_was_taken_for_dead_serves_nobody_until_it_is_let_in_again() {
    let members = Members::start(1, DELAY);
    let mut client = members.client(0);
    for life in 2..5 {
        assert_eq!(client.call("INCR key"), Value::Integer(i64::from(life) - 1));
        let mut waiting = members.client(0);
        waiting.send(&["BLPOP list 0".into()]);
        let blocked = "blocked_clients:1";
        members.await_text(0, "INFO clients", blocked);
        members.network.tell(0, Event::Expelled);
        assert!(error(&waiting.reply()).starts_with("UNBLOCKED "));
        let loading = "LOADING Redis is loading the dataset in memory";
        assert_eq!(error(&client.call("GET key")), loading);
        assert_eq!(error(&client.call("INCR key")), loading);
        members.await_text(0, "CLUSTER INFO", "cluster_state:fail");
        let (own, view, infos) = again(u64::from(life) * 2, life);
        members.network.tell(0, Event::Admitted(own, view, infos));
        members.await_text(0, "CLUSTER INFO", "cluster_state:ok");
    }
    assert_eq!(client.call("GET key"), bulk("3"));
    // The end and the next beginning come at once.
    for life in 5..20 {
        let (own, view, infos) = again(u64::from(life) * 2, life);
        members.network.tell(0, Event::Expelled);
        members.network.tell(0, Event::Admitted(own, view, infos));
        members.await_text(0, "CLUSTER INFO", &format!("cluster_current_epoch:{}\r\n", life * 2));
        members.await_text(0, "CLUSTER INFO", "cluster_state:ok");
    }
}

#[test]
fn who_waits_for_another_member_hears_of_the_end() {
    let members = Members::start(2, Duration::from_secs(5));
    members.await_links(0, 1);
    let away = key_at(1, 2, "waits");
    let mut client = members.client(0);
    client.send(&[format!("INCR {away}"), "CLUSTER KEYSLOT a".into()]);
    let forwarded = "cluster_commands_forwarded:1";
    members.await_text(0, "CLUSTER INFO", forwarded);
    members.network.tell(0, Event::Expelled);
    assert!(error(&client.reply()).starts_with("UNKNOWN The primary of the key failed"));
    assert_eq!(client.reply(), Value::Integer(15_495));
}
