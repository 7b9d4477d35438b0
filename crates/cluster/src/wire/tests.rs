//! Encoding round trips, and rejection of malformed bytes.

use super::frame::put_batch;
use super::record::REPLIES;
use super::*;
use crate::slot_map::Node;
use crate::view::Identity;
use petrel_keyspace::Call;
use petrel_persistence::log::Malformed;
use petrel_persistence::record::{page_with, table};
use proptest::prelude::*;

fn identity() -> impl Strategy<Value = Identity> {
    (any::<u16>(), any::<u32>())
        .prop_map(|(node, incarnation)| Identity { node: Node(node), incarnation })
}

fn tag() -> impl Strategy<Value = Tag> {
    (identity(), 0u16..16_384, any::<u64>()).prop_map(|(origin, slot, oseq)| Tag {
        origin,
        slot,
        oseq,
    })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn places() -> impl Strategy<Value = Vec<(usize, u64)>> {
    prop::collection::btree_map(0..LANES, any::<u64>(), 0..5)
        .prop_map(|places| places.into_iter().collect())
}

/// Encodes a record, decodes it, and encodes it again.
fn round_trip(record: &Record<'_>) -> Result<(), TestCaseError> {
    let (mut written, mut again) = (Vec::new(), Vec::new());
    put_record(&mut written, record);
    let read = Record::read(&written);
    prop_assert_eq!(read.as_ref(), Ok(record));
    put_record(&mut again, &read.unwrap());
    prop_assert_eq!(&again, &written);
    for gap in [1, 2, 127, 128, 1 << 40] {
        let mut batch = Vec::new();
        put_with_gap(&mut batch, gap, &written);
        let (mut records, mut taken) = (&batch[..], Vec::new());
        prop_assert_eq!(take_with_gap(&mut records, &mut taken), Ok(gap));
        prop_assert!(records.is_empty() && taken == written);
    }
    Ok(())
}

proptest! {
    #[test]
    fn records_of_effects(
        tag in prop::option::of(tag()),
        at in places(),
        served in prop::collection::vec(tag(), 0..4),
        group in bytes(),
    ) {
        let mut room = Vec::new();
        let parts = Parts::of(&mut room, at.iter().copied());
        prop_assert!(parts.iter().eq(at.iter().copied()));
        let mut names = Vec::new();
        let tags = Tags::of(&mut names, served.iter().copied());
        prop_assert!(tags.iter().eq(served.iter().copied()));
        round_trip(&Record::Effects { tag, parts, served: tags, group: &group })?;
        round_trip(&Record::Part { parts })?;
        let slots = served.iter().map(|tag| tag.slot);
        let changes: Vec<Change<'_>> =
            served.iter().map(|tag| Change { slot: tag.slot, back: tag.oseq, group: &group }).collect();
        let (mut room, mut others) = (Vec::new(), Vec::new());
        let changed = Changes::of(&mut room, changes.iter().copied());
        prop_assert!(changed.iter().eq(changes.iter().copied()));
        let of_slots = Slots::of(&mut others, slots.clone());
        prop_assert!(of_slots.iter().eq(slots));
        let mut decision = Vec::new();
        let executor = Identity { node: Node(3), incarnation: 1 };
        if let Some(tag) = tag {
            let (number, epoch, attempt, reply) = (group.len() as u64, 5, 1, Some(&group[..]));
            let decided =
                Record::Decision { executor, number, epoch, tag, attempt, changes: changed, reply };
            round_trip(&decided)?;
            put_record(&mut decision, &decided);
            round_trip(&Record::Decided { decision: &decision })?;
            round_trip(&Record::Refused { tag, attempt, reason: Refusal::Busy })?;
            round_trip(&Record::Recall { tag, attempt })?;
            round_trip(&Record::Lent { tag, attempt, executor, slots: of_slots })?;
            round_trip(&Record::Numbered { executor, number, is_asked: true, slots: of_slots })?;
        }
        let decision = &decision[..];
        round_trip(&Record::Commit { tag, served: tags, decision, parts, changes: changed })?;
        round_trip(&Record::CommitPart { parts, slots: of_slots })?;
    }

    #[test]
    fn forwarded_commands(
        (oseq, before, tenure, db, resp3) in
            (1u64.., 0u64..9, any::<u64>(), any::<u16>(), any::<bool>()),
        slots in prop::collection::vec(0u16..16_384, 1..4),
        commands in prop::collection::vec(prop::collection::vec(bytes(), 1..4), 1..4),
        waits in places(),
        reply in prop::option::of(bytes()),
    ) {
        let slot = slots[0];
        let is_transaction = commands.len() > 1;
        let first = oseq.saturating_sub(before).max(1);
        let args = |command: &'_ Vec<Vec<u8>>| command.iter().map(Vec::len).sum::<usize>();
        prop_assume!(commands.iter().map(args).sum::<usize>() < 1000);
        let mut borrowed: Vec<Vec<&[u8]>> = Vec::new();
        for command in &commands {
            borrowed.push(command.iter().map(Vec::as_slice).collect());
        }
        let (wait_ms, client) = (resp3.then_some(tenure), (db % 2 == 0).then_some(before));
        let call = Call {
            slots,
            db,
            resp3,
            is_transaction,
            wait_ms,
            client,
            wants_copies: oseq % 3 == 0,
            tracks: oseq % 2 == 0,
            writer: (oseq % 5 == 0).then_some(before),
            commands: borrowed,
        };
        let exec = Exec { oseq, first, tenure, call };
        round_trip(&Record::Exec(exec))?;
        let mut room = Vec::new();
        let waits = Parts::of(&mut room, waits.iter().copied());
        round_trip(&Record::Answer { slot, oseq, waits, reply: reply.as_deref() })?;
        round_trip(&Record::Woken { slot, oseq, waits, reply: reply.as_deref() })?;
        round_trip(&Record::Unwatch { client: oseq })?;
        let text = reply.as_deref().unwrap_or_default();
        round_trip(&Record::Copy { group: text })?;
        round_trip(&Record::Invalidate { db, key: text })?;
        round_trip(&Record::NoCopy { db, key: text })?;
        let named = REPLIES[usize::from(slot) % REPLIES.len()];
        round_trip(&Record::Answer { slot, oseq, waits, reply: Some(named) })?;
        let (mut room, at) = (Vec::new(), [(oseq, u64::from(db)), (u64::from(slot), tenure)]);
        let pieces = Pieces::of(&mut room, at.iter().copied());
        prop_assert!(pieces.iter().eq(at));
        round_trip(&Record::Elided { pieces, rest: text })?;
        round_trip(&Record::DurableAsked { number: oseq })?;
        round_trip(&Record::Durable { number: tenure })?;
        round_trip(&Record::Parked { slot, oseq, left_ms: wait_ms })?;
        for end in [WaitEnd::Timeout, WaitEnd::Error, WaitEnd::Gone] {
            round_trip(&Record::Cancel { slot, oseq, end })?;
        }
    }

    #[test]
    fn views_and_deaths(of in identity(), (epoch, seq) in any::<(u64, u64)>(), group in bytes()) {
        round_trip(&Record::End { epoch })?;
        let mut record = Vec::new();
        put_record(&mut record, &Record::Effects { tag: None, parts: Parts::default(), served: Tags::default(), group: &group });
        round_trip(&Record::Tail { of, seq, record: &record })?;
        for is_reconciled in [false, true] {
            round_trip(&Record::TailEnd { of, epoch, upto: seq, stable: epoch, is_reconciled })?;
        }
        round_trip(&Record::Reconciled { of })?;
    }

    #[test]
    fn messages(is_sharded in any::<bool>(), channel in bytes(), payload in bytes()) {
        round_trip(&Record::Message { is_sharded, channel: &channel, payload: &payload })?;
    }

    #[test]
    fn frames_in_pieces(
        sent in prop::collection::vec((any::<u32>(), 1u64..1000, any::<u32>(), bytes()), 1..5),
        one in bytes(),
        piece in 1usize..30,
    ) {
        let mut records_of_one = Vec::new();
        put_with_gap(&mut records_of_one, 1, &[&[5], &one[..]].concat());
        let mut batches = Vec::new();
        let mut put: Vec<Vec<u8>> = Vec::new();
        for (at, (from, count, applied, records)) in sent.iter().enumerate() {
            let batch = Batch {
                from: (from % 2 == 0).then_some(u64::from(*from)),
                count: *count,
                applied: (applied % 2 == 0).then_some(u64::from(*applied)),
                unstable: (applied % 3 == 0).then_some(count / 2),
                records,
            };
            batches.push((at as u8, batch));
            let single = Batch { count: 1, records: &records_of_one, ..batch };
            batches.push((at as u8, single));
            batches.push((at as u8, Batch { count: 0, records: &[], ..batch }));
            // Three more in each.
            let mut bytes = Vec::new();
            batches.iter().for_each(|(lane, batch)| put_batch(&mut bytes, *lane, batch));
            let (mut rest, mut taken) = (&bytes[..], Vec::new());
            while !rest.is_empty() {
                taken.push(take_batch(&mut rest).unwrap());
            }
            prop_assert_eq!(&taken, &batches);
            put.push(bytes);
        }
        let frames: Vec<Frame<'_>> = put.iter().map(|bytes| Frame::Batches(bytes)).collect();
        let mut out = Vec::new();
        for (i, frame) in frames.iter().enumerate() {
            put_frame(&mut out, i as u8, 0x1_0007, frame);
        }
        let (mut reader, mut read) = (FrameReader::new(1 << 20), 0);
        for piece in out.chunks(piece) {
            reader.push(piece);
            while let Some((len, lane, epoch, frame)) = reader.next().unwrap() {
                prop_assert_eq!((lane, epoch, &frame), (read as u8, 7, &frames[read]));
                read += 1;
                reader.consume(len);
            }
        }
        prop_assert_eq!(read, frames.len());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in bytes()) {
        if let Ok(record) = Record::read(&bytes) {
            // Numbers may have redundant leading digits, so the decoded values are compared.
            let mut again = Vec::new();
            put_record(&mut again, &record);
            prop_assert_eq!(Record::read(&again), Ok(record));
        }
        let mut reader = FrameReader::new(64);
        reader.push(&bytes);
        while let Ok(Some((len, ..))) = reader.next() {
            reader.consume(len);
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let read = |bytes: &[u8]| Record::read(bytes).map(|_| ());
    // An end of an epoch with excess bytes, with a flag that it does not have, and a gap.
    assert_eq!(read(&[5, 9]), Ok(()));
    for bytes in
        [&[5, 9, 0][..], &[5 | 0x20, 9], &[5 | 0x10, 9], &[5 | 0x80, 9], &[5], &[], &[0], &[15]]
    {
        assert_eq!(read(bytes), Err(Malformed), "{bytes:?}");
    }
    // An invalid lane, and lanes out of order.
    assert_eq!(read(&[2, 1, 16, 1]), Err(Malformed));
    assert_eq!(read(&[2, 2, 3, 1, 2, 1]), Err(Malformed));
    // More commands than bytes.
    assert_eq!(read(&[3 | 0x20, 1, 0, 0, 0, 0, 200, 1]), Err(Malformed));
    // A reply with an invalid index, and with two.
    assert_eq!(read(&[4 | 0x80, 1, 1, 0]), Ok(()));
    for bytes in [&[4 | 0x80, 1, 1, 6][..], &[4 | 0x80, 1, 1], &[4 | 0x80, 1, 1, 0, 0]] {
        assert_eq!(read(bytes), Err(Malformed), "{bytes:?}");
    }
    // Batches that end too early.
    for mut bytes in [&[0x80][..], &[0x80, 1], &[0x15], &[0x85, 1, 2, 0], &[0x85, 0, 2, 0]] {
        assert_eq!(take_batch(&mut bytes), Err(Malformed));
    }
    // A frame longer than the maximum.
    let mut reader = FrameReader::new(64);
    reader.push(&[65, 0, 0, 0]);
    assert_eq!(reader.next(), Err(Malformed));
}

/// Bytes of records and frames of every kind, as this version of the protocol has them.
const GOLDEN: &str = include_str!("golden.txt");

fn golden_records<'a>(
    parts: Parts<'a>,
    tags: Tags<'a>,
    pieces: Pieces<'a>,
    (changes, slots, texts): (Changes<'a>, Slots<'a>, Texts<'a>),
    effects: &'a [u8],
) -> Vec<Record<'a>> {
    let of = Identity { node: Node(300), incarnation: 1 << 20 };
    let tag = Tag { origin: of, slot: 16_383, oseq: 200 };
    let (slot, oseq, group, key) = (300, 128, &b"group"[..], &b"key"[..]);
    let (none, served) = (Parts::default(), Tags::default());
    let exec = |slots: &[u16], more: bool, count: usize| {
        Record::Exec(Exec {
            oseq: 9,
            first: 7,
            tenure: 300,
            call: Call {
                slots: slots.to_vec(),
                db: 3,
                resp3: more,
                is_transaction: count != 1,
                wait_ms: more.then_some(1000),
                client: more.then_some(5),
                wants_copies: more,
                tracks: more,
                writer: more.then_some(300),
                commands: vec![vec![b"SET", key, b""]; count],
            },
        })
    };
    vec![
        Record::Effects { tag: None, parts: none, served, group },
        Record::Effects { tag: Some(tag), parts, served: tags, group },
        Record::Part { parts },
        exec(&[1], false, 1),
        exec(&[1, 16_383], true, 2),
        Record::Answer { slot, oseq, waits: none, reply: Some(b"+OK\r\n") },
        Record::Answer { slot, oseq, waits: parts, reply: Some(b"+other\r\n") },
        Record::Answer { slot, oseq, waits: none, reply: None },
        Record::End { epoch: 300 },
        Record::Tail { of, seq: 5, record: effects },
        Record::TailEnd { of, epoch: 5, upto: 300, stable: 7, is_reconciled: false },
        Record::TailEnd { of, epoch: 5, upto: 300, stable: 300, is_reconciled: true },
        Record::Reconciled { of },
        Record::Parked { slot, oseq, left_ms: None },
        Record::Parked { slot, oseq, left_ms: Some(300) },
        Record::Woken { slot, oseq, waits: parts, reply: Some(b"$-1\r\n") },
        Record::Woken { slot, oseq, waits: none, reply: None },
        Record::Cancel { slot, oseq, end: WaitEnd::Timeout },
        Record::Cancel { slot, oseq, end: WaitEnd::Gone },
        Record::Unwatch { client: 300 },
        Record::SlotsBegin { number: 1 },
        Record::SlotsKnown { number: 2 },
        Record::Copy { group },
        Record::Invalidate { db: 300, key },
        Record::NoCopy { db: 0, key },
        Record::Elided { pieces, rest: group },
        Record::DurableAsked { number: 3 },
        Record::Durable { number: 300 },
        Record::Message { is_sharded: false, channel: key, payload: b"text" },
        Record::Message { is_sharded: true, channel: b"", payload: b"" },
        Record::Kept { back: 300, record: effects },
        Record::Kept { back: 0, record: effects },
        Record::Commit { tag: None, served, decision: b"", parts, changes },
        Record::Commit { tag: Some(tag), served: tags, decision: b"", parts, changes },
        Record::CommitPart { parts, slots },
        Record::Commit { tag: None, served, decision: group, parts, changes },
        Record::Chain { origin: of, attempt: 1, lent: changes, exec: &[3, 1] },
        Record::Decided { decision: &[0, 15, 1] },
        Record::Refused { tag, attempt: 300, reason: Refusal::Busy },
        Record::Recall { tag, attempt: 1 },
        Record::Lent { tag, attempt: 1, executor: of, slots },
        Record::Numbered { executor: of, number: 300, is_asked: true, slots },
        Record::Numbered { executor: of, number: 1, is_asked: false, slots },
        Record::Decision {
            executor: of,
            number: 300,
            epoch: 5,
            tag,
            attempt: 1,
            changes,
            reply: Some(b"+OK\r\n"),
        },
        Record::Interests { events: 3, prefixes: texts },
        Record::Changed { is_broadcast: true, writer: Some(300), db: 3, key },
        Record::Changed { is_broadcast: false, writer: None, db: 0, key },
        Record::Event { db: 3, name: b"hset", key, fields: texts },
    ]
}

fn golden_frames() -> Vec<Frame<'static>> {
    vec![
        Frame::Hello(Hello { identity: Identity { node: Node(300), incarnation: 5 } }),
        Frame::Resume { received: 300 },
        Frame::Batches(b"batches"),
        Frame::Fetch,
        Frame::Positions(b"positions"),
        Frame::Copy { part: b"part", is_last: false },
        Frame::Copy { part: b"part", is_last: true },
        Frame::CutOff,
        Frame::FetchSlots { number: 300, slots: b"slots" },
        Frame::SlotsFollow { number: 1, executed: b"executed" },
    ]
}

#[test]
fn the_bytes_of_this_version_stay_as_they_are() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (mut at, mut names, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let parts = Parts::of(&mut at, [(1, 5), (15, 1 << 30)].into_iter());
    let origin = Identity { node: Node(1), incarnation: 2 };
    let tags = Tags::of(&mut names, [Tag { origin, slot: 3, oseq: 4 }].into_iter());
    let pieces = Pieces::of(&mut places, [(0, 1), (300, 2)].into_iter());
    let mut effects = Vec::new();
    put_record(
        &mut effects,
        &Record::Effects {
            tag: None,
            parts: Parts::default(),
            served: Tags::default(),
            group: b"tail",
        },
    );
    let change = |slot, back, group| Change { slot, back, group };
    let changes = [change(1, 300, &b"group"[..]), change(16_383, 0, b"")];
    let (mut changed, mut slots) = (Vec::new(), Vec::new());
    let changes = Changes::of(&mut changed, changes.into_iter());
    let slots = Slots::of(&mut slots, [1, 16_383].into_iter());
    let mut texts = Vec::new();
    let texts = Texts::of(&mut texts, [&b"a"[..], b""].into_iter());
    let mut lines = String::new();
    for record in golden_records(parts, tags, pieces, (changes, slots, texts), &effects) {
        let mut bytes = Vec::new();
        put_record(&mut bytes, &record);
        assert_eq!(Record::read(&bytes).as_ref(), Ok(&record));
        lines += &format!("{} {record:?}\n", hex(&bytes));
    }
    for (lane, frame) in golden_frames().into_iter().enumerate() {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, lane as u8, 0x1_0007, &frame);
        let mut reader = FrameReader::new(1 << 10);
        reader.push(&bytes);
        assert_eq!(reader.next(), Ok(Some((bytes.len(), lane as u8, 7, frame))));
        lines += &format!("{} {frame:?}\n", hex(&bytes));
    }
    if std::env::var_os("PETREL_REGENERATE").is_some() {
        std::fs::write("src/wire/golden.txt", &lines).unwrap();
    }
    for (now, then) in lines.lines().zip(GOLDEN.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(lines.lines().count(), GOLDEN.lines().count());
}

/// A sample of each record, and of each frame, as one frame of a link.
fn samples() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (row, round) in Record::ROWS.iter().flat_map(|row| (0..9).map(move |round| (row, round))) {
        let (mut body, mut bytes) = (Vec::new(), Vec::new());
        if row.number == 22 {
            let record: &[u8] = &[1, round as u8];
            put_record(&mut bytes, &Record::Kept { back: round as u64, record });
        } else if row.number == 25 {
            let (origin, lent) = (Identity { node: Node(1), incarnation: 2 }, Changes::default());
            let exec: &[u8] = &[3, round as u8];
            put_record(&mut bytes, &Record::Chain { origin, attempt: 1, lent, exec });
        } else if row.number == 26 {
            let mut decision = Vec::new();
            let head = (Record::ROWS.iter().find(|row| row.number == 31).unwrap().sample)(
                &mut decision,
                round,
            );
            let decision = [&[head & !31, 31 - 16][..], &decision].concat();
            put_record(&mut bytes, &Record::Decided { decision: &decision });
        } else if row.number == 6 {
            // The tail of a lane holds a record.
            let of = Identity { node: Node(1), incarnation: 2 };
            let end: &[u8] = &[5, round as u8];
            put_record(&mut bytes, &Record::Tail { of, seq: round as u64, record: end });
        } else {
            let head = (row.sample)(&mut body, round);
            match row.number {
                rare @ 16.. => bytes.extend([head & !rare, rare - 16]),
                _ => bytes.push(head),
            }
            bytes.extend(&body);
        }
        let read = Record::read(&bytes);
        let mut again = Vec::new();
        put_record(&mut again, read.as_ref().unwrap_or_else(|_| panic!("{} {round}", row.name)));
        assert_eq!(again, bytes, "{} {round}", row.name);
        for len in 0..bytes.len() {
            // A cut one may be another record, but is none that takes more than there is.
            let _ = Record::read(&bytes[..len]);
        }
        let mut records = Vec::new();
        put_with_gap(&mut records, 1 + round as u64 % 2, &bytes);
        let batch = Batch {
            from: None,
            count: 1 + round as u64 % 2,
            applied: None,
            unstable: None,
            records: &records,
        };
        let (mut batches, mut frame) = (Vec::new(), Vec::new());
        put_batch(&mut batches, 3, &batch);
        put_frame(&mut frame, 0, 1, &Frame::Batches(&batches));
        all.push(frame);
    }
    for frame in golden_frames() {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, 0, 1, &frame);
        all.push(bytes);
    }
    all
}

#[test]
fn samples_are_read_and_are_a_corpus_for_the_fuzzer() {
    let samples = samples();
    for sample in &samples {
        let mut reader = FrameReader::new(1 << 16);
        reader.push(sample);
        let (len, ..) = reader.next().unwrap().unwrap();
        assert_eq!(len, sample.len());
    }
    if let Some(path) = std::env::var_os("PETREL_WRITE_CORPUS") {
        let path = std::path::Path::new(&path).join("cluster_lane");
        std::fs::create_dir_all(&path).unwrap();
        for (at, sample) in samples.iter().enumerate() {
            std::fs::write(path.join(format!("sample-{at}")), sample).unwrap();
        }
    }
}

#[test]
fn the_page_has_every_record_and_frame() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/cluster-wire.md");
    let there = std::fs::read_to_string(path).unwrap();
    let frames = table(["number", "frame", "fields"], Frame::ROWS);
    let records = table(["number", "record", "fields"], Record::ROWS);
    let page = page_with(&page_with(&there, "frames", &frames), "records", &records);
    if std::env::var_os("PETREL_WRITE_PAGES").is_some() {
        std::fs::write(path, &page).unwrap();
    } else {
        assert_eq!(there, page, "run this test with PETREL_WRITE_PAGES=1");
    }
}
