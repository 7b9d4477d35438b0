//! What every driver must do.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use petrel_net::{Close, Driver, Event, ListenerId, Slot, Why};

use crate::harness::{Harness, PATIENCE, echo, pattern, reset, say};

const MOMENT: Duration = Duration::from_millis(60);
/// More than the socket buffers of a connection take together.
const LARGER_THAN_BUFFERS: usize = 16 << 20;

pub fn echoes_many_connections<D: Driver>(driver: D) {
    const CLIENTS: usize = 300;
    let mut harness = Harness::new(driver);
    let path = harness.path.clone();
    let clients = thread::spawn(move || {
        let mut all: Vec<_> = (0..CLIENTS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        for round in 0..5 {
            for (i, client) in all.iter_mut().enumerate() {
                client.write_all(format!("{i}:{round}\n").as_bytes()).unwrap();
            }
            for (i, client) in all.iter_mut().enumerate() {
                let want = format!("{i}:{round}\n");
                let mut got = vec![0; want.len()];
                client.read_exact(&mut got).unwrap();
                assert_eq!(got, want.as_bytes());
            }
        }
    });
    let (mut closed, mut most) = (0, 0);
    harness.until(|driver, event| {
        echo(driver, &event);
        most = most.max(driver.connections());
        closed += usize::from(matches!(event, Event::Closed { why: Why::Eof, .. }));
        closed == CLIENTS
    });
    clients.join().unwrap();
    assert_eq!(most, CLIENTS);
    assert_eq!(harness.driver.connections(), 0);
}

/// Bursts of many connections at once, and long calm between them, after which fewer buffers may be
/// ready.
pub fn takes_more_at_once_than_its_buffers_hold<D: Driver>(driver: D) {
    const CLIENTS: usize = 40;
    const LEN: usize = 100_000;
    const CALM: usize = 40_000;
    let mut harness = Harness::new(driver);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| harness.connect()).collect();
    for _ in 0..2 {
        let mut got = vec![Vec::new(); CLIENTS];
        thread::scope(|scope| {
            for (client, _) in &mut clients {
                scope.spawn(|| client.write_all(&pattern(LEN)).unwrap());
            }
            let mut arrived = 0;
            harness.until(|driver, event| {
                if let Event::Received { slot, chunk } = event {
                    got[slot.index()].extend_from_slice(driver.data(chunk));
                    arrived += chunk.len();
                }
                arrived == CLIENTS * LEN
            });
        });
        assert!(got.iter().all(|got| *got == pattern(LEN)));
        for _ in 0..CALM {
            assert!(harness.turn(Duration::ZERO).is_empty());
        }
    }
}

pub fn a_long_pipeline_arrives_whole<D: Driver>(driver: D) {
    const LEN: usize = 5_000_000;
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    let sender = thread::spawn(move || {
        client.write_all(&pattern(LEN)).unwrap();
        client
    });
    let mut got = Vec::new();
    harness.until(|driver, event| {
        if let Event::Received { slot: from, chunk } = event {
            assert_eq!(from, slot);
            assert_eq!(driver.data(chunk).len(), chunk.len());
            got.extend_from_slice(driver.data(chunk));
        }
        got.len() == LEN
    });
    assert!(got == pattern(LEN));
    sender.join().unwrap();
}

pub fn a_slow_reader_is_parked_not_spun_on<D: Driver>(driver: D) {
    const LEN: usize = 3_000_000;
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    let (mut other, _) = harness.connect();
    say(&mut harness.driver, slot, &pattern(LEN));
    harness.turn(MOMENT);
    assert!(harness.driver.unsent(slot) > 0);
    harness.polls = 0;
    let began = Instant::now();
    for _ in 0..5 {
        other.write_all(b"ping").unwrap();
        harness.until(|driver, event| {
            echo(driver, &event);
            matches!(event, Event::Received { .. })
        });
        harness.turn(MOMENT);
        let mut pong = [0; 4];
        other.read_exact(&mut pong).unwrap();
    }
    // A loop that spun would have been polled thousands of times.
    assert!(harness.polls < 40, "{} polls in {:?}", harness.polls, began.elapsed());

    let reader = thread::spawn(move || {
        let mut got = vec![0; LEN];
        let (first, rest) = got.split_at_mut(1000);
        client.read_exact(first).unwrap();
        thread::sleep(MOMENT);
        client.read_exact(rest).unwrap();
        assert!(got == pattern(LEN));
        client
    });
    harness.until(|_, event| matches!(event, Event::Drained { slot: who } if who == slot));
    assert_eq!(harness.driver.unsent(slot), 0);
    let mut client = reader.join().unwrap();

    client.write_all(b"still here").unwrap();
    harness.until(|driver, event| {
        echo(driver, &event);
        matches!(event, Event::Received { .. })
    });
    harness.turn(Duration::ZERO);
    let mut got = [0; 10];
    client.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
}

pub fn a_megabyte_through_read_into_and_splice<D: Driver>(driver: D) {
    const LEN: usize = 1 << 20;
    const ROUNDS: usize = 5;
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    let peer = thread::spawn(move || {
        for round in 0..ROUNDS {
            client.write_all(b"L").unwrap();
            client.write_all(&pattern(LEN + round)[round..]).unwrap();
            let mut got = vec![0; LEN + 2];
            client.read_exact(&mut got).unwrap();
            assert!(got[0] == b'<' && got[LEN + 1] == b'>');
            assert!(got[1..=LEN] == pattern(LEN + round)[round..]);
        }
    });
    let (mut filled, mut straight) = (0, 0);
    harness.until(|driver, event| match event {
        Event::Received { slot, chunk } => {
            let data = driver.data(chunk);
            assert_eq!(data[0], b'L');
            let buffer = data[1..].to_vec();
            let missing = LEN - buffer.len();
            straight += missing;
            driver.read_into(slot, buffer, missing);
            false
        }
        Event::Filled { slot: who, buffer } => {
            assert!(who == slot && buffer.len() == LEN);
            let mut output = driver.output();
            output.bytes.push(b'<');
            output.splice(Bytes::from(buffer));
            output.bytes.push(b'>');
            driver.send(who, output);
            filled += 1;
            false
        }
        Event::Closed { .. } => true,
        _ => false,
    });
    peer.join().unwrap();
    assert_eq!(filled, ROUNDS);
    assert!(straight > ROUNDS * LEN / 2);
}

pub fn what_is_expected_comes_in_an_allocation_of_its_own<D: Driver>(driver: D) {
    const LEN: usize = 40_000;
    // As expected, less, more than fits and more than a socket holds; then the peer ends.
    const SENT: [usize; 8] = [LEN, LEN, 10, LEN, LEN + 1, 3 * LEN, 1 << 20, LEN];
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    let peer = thread::spawn(move || {
        for len in SENT {
            client.write_all(&pattern(len)).unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
    });
    let (mut all, mut done, mut filled) = (Vec::new(), 0, 0);
    harness.until(|driver, event| {
        match event {
            Event::Received { chunk, .. } => all.extend_from_slice(driver.data(chunk)),
            Event::Filled { buffer, .. } => {
                assert!(!buffer.is_empty() && buffer.len() <= LEN);
                filled += 1;
                all.extend_from_slice(&buffer);
            }
            Event::Closed { .. } => return true,
            _ => return false,
        }
        if all.len() < SENT[done] {
            if SENT[done] - all.len() >= LEN {
                driver.read_into(slot, Vec::new(), LEN);
            }
            return false;
        }
        assert!(all == pattern(SENT[done]), "{} bytes", SENT[done]);
        all.clear();
        done += 1;
        let mut output = driver.output();
        output.bytes.push(b'+');
        driver.send(slot, output);
        driver.expect_input(slot, LEN);
        false
    });
    peer.join().unwrap();
    assert_eq!(done, SENT.len());
    assert!(filled >= 3, "{filled}");
}

pub fn read_into_takes_exactly_what_was_asked<D: Driver>(driver: D) {
    const LEN: usize = 100_000;
    let mut harness = Harness::new(driver);
    let (mut client, _) = harness.connect();
    let sender = thread::spawn(move || {
        for _ in 0..20 {
            client.write_all(&pattern(LEN)).unwrap();
        }
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    // Takes turns: one chunk as received, then a piece of odd length through `read_into`.
    let mut all = Vec::new();
    let mut odd = 1;
    harness.until(|driver, event| match event {
        Event::Received { slot, chunk } => {
            all.extend_from_slice(driver.data(chunk));
            odd = odd * 7 % 60_013;
            driver.read_into(slot, b"head".to_vec(), odd.min(20 * LEN - all.len()));
            false
        }
        Event::Filled { buffer, .. } => {
            assert!(buffer.starts_with(b"head"));
            all.extend_from_slice(&buffer[4..]);
            false
        }
        Event::Closed { .. } => true,
        _ => false,
    });
    assert_eq!(all.len(), 20 * LEN);
    assert!(all.chunks(LEN).all(|part| part == pattern(LEN)));
    sender.join().unwrap();
}

pub fn output_is_flushed_before_closing<D: Driver>(driver: D) {
    const LEN: usize = 2_000_000;
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    say(&mut harness.driver, slot, &pattern(LEN));
    harness.driver.close(slot, Close::AfterFlush);
    client.write_all(b"ignored").unwrap();
    harness.silence(MOMENT);
    assert!(harness.driver.unsent(slot) > 0);
    let reader = thread::spawn(move || {
        let mut got = Vec::new();
        // The unread input makes a Unix socket report a reset after the last byte.
        let _ = client.read_to_end(&mut got);
        assert!(got == pattern(LEN));
    });
    harness.until(|_, event| match event {
        Event::Closed { slot: who, why: Why::Flushed } => who == slot,
        other => panic!("{other:?}"),
    });
    reader.join().unwrap();

    let (mut client, slot) = harness.connect();
    harness.driver.close(slot, Close::AfterFlush);
    harness.until(|_, event| matches!(event, Event::Closed { why: Why::Flushed, .. }));
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(harness.driver.connections(), 0);
}

pub fn close_now_is_silent_and_frees_the_slot<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    say(&mut harness.driver, slot, &pattern(3_000_000));
    harness.turn(Duration::ZERO);
    harness.driver.read_into(slot, Vec::new(), 50_000);
    harness.turn(Duration::ZERO);
    harness.driver.close(slot, Close::Now);
    assert_eq!(harness.driver.unsent(slot), 0);
    harness.silence(MOMENT);
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert!(got.len() < 3_000_000 && got == pattern(3_000_000)[..got.len()]);
    assert_eq!(harness.driver.connections(), 0);

    let (_client, again) = harness.connect();
    assert_eq!(again.index(), slot.index());
    assert_ne!(again, slot);
}

pub fn input_before_eof_is_answered<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    for _ in 0..20 {
        let mut client = UnixStream::connect(&harness.path).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"PING").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        harness.until(|driver, event| {
            echo(driver, &event);
            matches!(event, Event::Closed { why: Why::Eof, .. })
        });
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"PING");
    }
}

/// A peer that has ended its side gets output that comes later, if the driver was told that it
/// comes.
pub fn output_that_is_expected_is_waited_for<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    harness.driver.expect_output(slot, true);
    client.shutdown(Shutdown::Write).unwrap();
    harness.silence(MOMENT);
    let large = pattern(3_000_000);
    say(&mut harness.driver, slot, b"first");
    harness.silence(MOMENT);
    say(&mut harness.driver, slot, &large);
    let reader = thread::spawn(move || {
        thread::sleep(MOMENT);
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        got
    });
    harness.until(|_, event| matches!(event, Event::Drained { .. }));
    say(&mut harness.driver, slot, b"last");
    harness.driver.expect_output(slot, false);
    harness.until(|_, event| matches!(event, Event::Closed { why: Why::Eof, .. }));
    let got = reader.join().unwrap();
    assert!(got == [&b"first"[..], &large, b"last"].concat());
    assert_eq!(harness.driver.connections(), 0);
}

pub fn a_reset_peer_closes<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let (client, slot) = harness.connect_tcp();
    harness.turn(Duration::ZERO);
    reset(client);
    harness.until(|_, event| match event {
        Event::Closed { slot: who, why: Why::Error(e) } => {
            assert_eq!(e.raw_os_error(), Some(libc::ECONNRESET));
            who == slot
        }
        other => panic!("{other:?}"),
    });

    // Output for a peer that has gone is an error, not a signal.
    let (client, slot) = harness.connect();
    drop(client);
    say(&mut harness.driver, slot, b"anybody?");
    harness.until(|_, event| matches!(event, Event::Closed { slot: who, .. } if who == slot));
    assert_eq!(harness.driver.connections(), 0);
}

pub fn a_reset_peer_closes_with_output_pending<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let (client, slot) = harness.connect_tcp();
    // With the receive under way before the send, the send reports the reset, and the receive of
    // an ordinary end.
    harness.silence(MOMENT);
    say(&mut harness.driver, slot, &pattern(LARGER_THAN_BUFFERS));
    harness.silence(MOMENT);
    assert!(harness.driver.unsent(slot) > 0);
    reset(client);
    harness.until(|_, event| matches!(event, Event::Closed { slot: who, .. } if who == slot));
    assert_eq!(harness.driver.connections(), 0);
}

pub fn a_stale_slot_is_ignored<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let (client, old) = harness.connect();
    drop(client);
    harness.until(|_, event| matches!(event, Event::Closed { .. }));
    let (mut client, new) = harness.connect();
    assert_eq!(new.index(), old.index());
    say(&mut harness.driver, old, b"for the dead");
    harness.driver.pause_reading(old);
    harness.driver.resume_reading(old);
    harness.driver.read_into(old, Vec::new(), 10);
    harness.driver.close(old, Close::Now);
    harness.driver.close(old, Close::AfterFlush);
    assert_eq!(harness.driver.unsent(old), 0);
    harness.silence(MOMENT);
    client.write_all(b"alive").unwrap();
    harness.until(|driver, event| {
        echo(driver, &event);
        matches!(event, Event::Received { slot, .. } if slot == new)
    });
    harness.turn(Duration::ZERO);
    let mut got = [0; 5];
    client.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"alive");
}

pub fn the_waker_interrupts_and_coalesces<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    harness.turn(Duration::ZERO);
    for _ in 0..50 {
        let waker = harness.driver.waker();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            (0..100).for_each(|_| waker.wake());
        });
        let began = Instant::now();
        let events = harness.turn(PATIENCE);
        assert!(matches!(events[..], [Event::Woken]), "{events:?}");
        assert!(began.elapsed() < PATIENCE / 2);
        other.join().unwrap();
        // The wakes that came after the first report are one more report at most.
        assert!(harness.turn(Duration::ZERO).len() <= 1);
        assert!(harness.turn(Duration::ZERO).is_empty());
    }
    harness.driver.waker().wake();
    assert!(matches!(harness.turn(PATIENCE)[..], [Event::Woken]));
}

pub fn waits_end_in_time_and_not_much_before<D: Driver>(driver: D) {
    const SHORT: Duration = Duration::from_millis(30);
    let mut harness = Harness::new(driver);
    for round in 0..4 {
        // A long wait that is interrupted must not keep a shorter one from ending.
        let waker = harness.driver.waker();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            waker.wake();
        });
        while harness.turn(PATIENCE * (4 - round)).is_empty() {}
        other.join().unwrap();
        let (began, polls) = (Instant::now(), harness.polls);
        let end = began + SHORT;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|it| !it.is_zero())
        {
            assert!(harness.turn(left).is_empty());
        }
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        assert!(harness.polls - polls < 10, "{} polls", harness.polls - polls);
    }
}

pub fn accepts_many_and_pauses<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let connect = |_| UnixStream::connect(&harness.path).unwrap();
    let open: Vec<_> = (0..200).map(connect).collect();
    let end = Instant::now() + PATIENCE;
    while harness.driver.connections() < 200 && Instant::now() < end {
        harness.turn(MOMENT);
    }
    assert_eq!(harness.driver.connections(), 200);

    harness.driver.pause_accept(ListenerId(7));
    harness.turn(Duration::ZERO);
    harness.turn(Duration::ZERO);
    let _late = UnixStream::connect(&harness.path).unwrap();
    harness.silence(MOMENT);
    assert_eq!(harness.driver.connections(), 200);
    harness.driver.resume_accept(ListenerId(7));
    while harness.driver.connections() < 201 && Instant::now() < end {
        harness.turn(MOMENT);
    }
    assert_eq!(harness.driver.connections(), 201);
    harness.driver.unlisten(ListenerId(7));
    harness.turn(Duration::ZERO);
    harness.turn(Duration::ZERO);
    let _refused = UnixStream::connect(&harness.path);
    harness.silence(MOMENT);
    assert_eq!(harness.driver.connections(), 201);
    drop(open);
}

pub fn pausing_holds_input_back<D: Driver>(driver: D) {
    const LEN: usize = 1_000_000;
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    let sender = thread::spawn(move || {
        client.write_all(&pattern(LEN)).unwrap();
        client
    });
    let mut got = Vec::new();
    while got.len() < LEN {
        let mut paused = false;
        harness.until(|driver, event| {
            let Event::Received { slot: who, chunk } = event else { panic!("{event:?}") };
            assert!(!paused, "received while paused");
            got.extend_from_slice(driver.data(chunk));
            driver.pause_reading(who);
            paused = true;
            true
        });
        harness.silence(Duration::from_millis(3));
        harness.driver.resume_reading(slot);
    }
    assert!(got == pattern(LEN));
    // Pausing and resuming within a turn loses nothing either.
    let mut client = sender.join().unwrap();
    for _ in 0..50 {
        harness.driver.pause_reading(slot);
        harness.driver.resume_reading(slot);
        client.write_all(b"x").unwrap();
        harness.until(|_, event| matches!(event, Event::Received { .. }));
    }
}

pub fn a_peer_that_leaves_while_paused_is_reported<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    harness.turn(Duration::ZERO);
    harness.driver.pause_reading(slot);
    harness.turn(Duration::ZERO);
    client.write_all(b"last words").unwrap();
    harness.silence(MOMENT);
    drop(client);
    harness.until(|_, event| match event {
        Event::HungUp { slot: who } => who == slot,
        other => panic!("{other:?}"),
    });
    harness.polls = 0;
    harness.silence(MOMENT);
    assert!(harness.polls < 20, "{} polls", harness.polls);
    harness.driver.resume_reading(slot);
    let mut got = Vec::new();
    harness.until(|driver, event| match event {
        Event::Received { chunk, .. } => {
            got.extend_from_slice(driver.data(chunk));
            false
        }
        Event::Closed { slot: who, .. } => who == slot,
        other => panic!("{other:?}"),
    });
    assert_eq!(got, b"last words");

    // Words and end in one go, paused only then.
    let (mut client, slot) = harness.connect();
    client.write_all(b"BLPOP").unwrap();
    drop(client);
    harness.until(|driver, event| {
        let Event::Received { slot: who, .. } = event else { panic!("{event:?}") };
        driver.pause_reading(who);
        who == slot
    });
    harness.until(|_, event| matches!(event, Event::HungUp { slot: who } if who == slot));
    harness.silence(MOMENT);
}

pub fn outputs_keep_their_order<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    let message = |i: usize| -> Vec<u8> { format!("[{i} {}]", "x".repeat(i * 37 % 3000)).into() };
    let reader = thread::spawn(move || {
        let want: Vec<u8> = (0..2000).flat_map(message).collect();
        let mut got = vec![0; want.len()];
        client.read_exact(&mut got).unwrap();
        assert!(got == want);
    });
    let send = |driver: &mut D, slot: Slot, i: usize| {
        let mut output = driver.output();
        if i.is_multiple_of(3) {
            output.splice(Bytes::from(message(i)));
        } else {
            output.bytes.extend_from_slice(&message(i));
        }
        driver.send(slot, output);
    };
    for i in 0..2000 {
        send(&mut harness.driver, slot, i);
        if i.is_multiple_of(7) {
            harness.turn(Duration::ZERO);
        }
    }
    let end = Instant::now() + PATIENCE;
    while harness.driver.unsent(slot) > 0 && Instant::now() < end {
        harness.turn(MOMENT);
    }
    reader.join().unwrap();
}

/// More pieces than one send takes: a caller that saw some of them left learns when none is.
pub fn the_rest_of_many_pieces_is_reported<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    let (mut client, slot) = harness.connect();
    let mut output = harness.driver.output();
    (0..1000).for_each(|_| output.splice(Bytes::from(pattern(64))));
    harness.driver.send(slot, output);
    let reader = thread::spawn(move || client.read_exact(&mut [0; 64_000]).unwrap());
    let drained = |event: &Event| matches!(event, Event::Drained { slot: who } if *who == slot);
    // No turn waits for something else to happen while there is more to send, or to tell.
    let began = Instant::now();
    while !harness.turn(PATIENCE).iter().any(drained) {}
    assert!(began.elapsed() < PATIENCE, "a turn waited");
    assert_eq!(harness.driver.unsent(slot), 0);
    reader.join().unwrap();
}

pub fn accept_failures_back_off<D: Driver>(driver: D) {
    let mut harness = Harness::new(driver);
    // A socket of datagrams is no listener: accepting on it fails like a lack of descriptors does.
    let (broken, peer) = UnixDatagram::pair().unwrap();
    let id = ListenerId(9);
    peer.send(b"readable").unwrap();
    harness.driver.listen(Arc::new(OwnedFd::from(broken)), id).unwrap();
    let began = Instant::now();
    let mut failures = 0;
    harness.polls = 0;
    harness.until(|_, event| {
        let Event::AcceptFailed { listener, .. } = event else { panic!("{event:?}") };
        assert_eq!(listener, id);
        failures += 1;
        failures == 3
    });
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert!(harness.polls < 30, "{} polls", harness.polls);
    harness.driver.unlisten(id);
    harness.turn(Duration::ZERO);
    harness.silence(Duration::from_millis(120));
}

pub fn a_greedy_peer_does_not_starve_others<D: Driver>(driver: D) {
    const FLOOD: usize = 60_000_000;
    const PINGS: usize = 100;
    let mut harness = Harness::new(driver);
    let greedy: Vec<_> = (0..4).map(|_| harness.connect().0).collect();
    let (mut client, polite) = harness.connect();
    let floods: Vec<_> = greedy
        .into_iter()
        .map(|mut peer| {
            thread::spawn(move || {
                let part = pattern(FLOOD / 60);
                (0..60).for_each(|_| peer.write_all(&part).unwrap());
            })
        })
        .collect();
    let pinger = thread::spawn(move || {
        for _ in 0..PINGS {
            client.write_all(b"ping").unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
        }
    });
    // Bytes of the flood between two answers to the polite client, which is ready most of the
    // time: a starved one would see all of the flood pass.
    let (mut flood, mut passed, mut pings, mut closed) = (0, 0, 0, 0);
    let mut waits = Vec::new();
    harness.until(|driver, event| {
        match &event {
            Event::Received { slot, .. } if *slot == polite => {
                echo(driver, &event);
                waits.push(passed);
                passed = 0;
                pings += 1;
            }
            Event::Received { chunk, .. } => {
                flood += chunk.len();
                passed += chunk.len();
                assert!(chunk.len() <= 64 * 1024);
            }
            Event::Closed { .. } => closed += 1,
            other => panic!("{other:?}"),
        }
        closed == 5
    });
    floods.into_iter().for_each(|thread| thread.join().unwrap());
    pinger.join().unwrap();
    assert_eq!((flood, pings), (4 * FLOOD, PINGS));
    waits.sort_unstable();
    let median = waits[PINGS / 2];
    assert!(median < FLOOD / 4, "half of the answers came after {median} bytes of others");
}
