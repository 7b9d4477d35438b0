//! Changes of streams as commands.
//!
//! A delivery becomes Redis's commands: `XCLAIM` with its time and count, and `XGROUP SETID` for
//! the group's last ID. Two facts have no command: that a trimmed entry is not the greatest deleted
//! one (`XTRIM ... ACKED`: written as `XDEL`), and the ID that a producer gave an entry (`XADD ...
//! IDMP`: a promoted replica adds an entry that is sent again).

use crate::commands::put_arg;
use crate::encode::Encoder;
use petrel_keyspace::types::stream::{StreamChange, StreamId};

/// The versions of RDB that came with what streams count, with producers, and with entries that
/// are given back, and so with the options and commands for them.
const COUNTS_VERSION: u16 = 10;
const PRODUCERS_VERSION: u16 = 13;
const GIVEN_BACK_VERSION: u16 = 14;

/// A group that is there for a moment only, to make a stream.
const NO_GROUP: &[u8] = b"petrel-replication-makes-a-stream";

fn id_text(id: StreamId) -> String {
    format!("{}-{}", id.ms, id.seq)
}

impl Encoder {
    pub(crate) fn stream(&mut self, key: &[u8], change: StreamChange<'_>) {
        let (mut digits, mut more) = (itoa::Buffer::new(), itoa::Buffer::new());
        let version_max = self.understood.version_max;
        let has_counts = version_max >= COUNTS_VERSION;
        let commands = &mut self.commands;
        match change {
            StreamChange::Add { id, fields } => {
                let out = commands.begin(&["XADD"], 3 + fields.len());
                put_arg(out, key);
                put_arg(out, id_text(id).as_bytes());
                fields.iter().for_each(|text| put_arg(out, text));
            }
            StreamChange::Delete { id } | StreamChange::TrimOne { id } => {
                commands.gather("XDEL", key, &[id_text(id).as_bytes()]);
            }
            StreamChange::TrimUpTo { id } => match next_id(id) {
                Some(next) => {
                    let next = id_text(next);
                    commands.command(&["XTRIM"], &[key, b"MINID", b"=", next.as_bytes()]);
                }
                None => commands.command(&["XTRIM"], &[key, b"MAXLEN", b"=", b"0"]),
            },
            StreamChange::Set { last_id, added, max_deleted } => {
                if last_id == StreamId::MIN && added == 0 {
                    // There may be no stream yet.
                    let create = [key, NO_GROUP, b"0", b"MKSTREAM"];
                    commands.command(&["XGROUP", "CREATE"], &create);
                    commands.command(&["XGROUP", "DESTROY"], &[key, NO_GROUP]);
                }
                let (last_id, max_deleted) = (id_text(last_id), id_text(max_deleted));
                let added = digits.format(added).as_bytes();
                let (added, deleted) =
                    ([b"ENTRIESADDED", added], [b"MAXDELETEDID", max_deleted.as_bytes()]);
                let args = [key, last_id.as_bytes(), added[0], added[1], deleted[0], deleted[1]];
                commands.command(&["XSETID"], if has_counts { &args } else { &args[..2] });
            }
            StreamChange::Group { group, last_delivered, read, is_new } => {
                let verb = if is_new { "CREATE" } else { "SETID" };
                let id = id_text(last_delivered);
                let read = read.filter(|_| has_counts).map(|read| digits.format(read).as_bytes());
                let mut args = vec![key, group, id.as_bytes()];
                args.extend(read.into_iter().flat_map(|read| [&b"ENTRIESREAD"[..], read]));
                commands.command(&["XGROUP", verb], &args);
            }
            StreamChange::GroupRemove { group } => {
                commands.command(&["XGROUP", "DESTROY"], &[key, group]);
            }
            // That one which is there was seen, or got entries, its claims say.
            StreamChange::Consumer { active_ms: Some(_), .. } => {}
            StreamChange::Consumer { group, consumer, .. } => {
                commands.command(&["XGROUP", "CREATECONSUMER"], &[key, group, consumer]);
            }
            StreamChange::ConsumerRemove { group, consumer } => {
                commands.command(&["XGROUP", "DELCONSUMER"], &[key, group, consumer]);
            }
            StreamChange::Pending { group, id, consumer: Some(consumer), delivered_ms, count } => {
                let id = id_text(id);
                let (time, count) = (digits.format(delivered_ms), more.format(count));
                let args = [
                    key,
                    group,
                    consumer,
                    b"0",
                    id.as_bytes(),
                    b"TIME",
                    time.as_bytes(),
                    b"RETRYCOUNT",
                    count.as_bytes(),
                    b"FORCE",
                    b"JUSTID",
                ];
                commands.command(&["XCLAIM"], &args);
            }
            StreamChange::Pending { consumer: None, .. } if version_max < GIVEN_BACK_VERSION => {}
            StreamChange::Pending { group, id, consumer: None, count, .. } => {
                let (id, count) = (id_text(id), digits.format(count));
                let ids = [&b"IDS"[..], b"1", id.as_bytes()];
                let retries = [&b"RETRYCOUNT"[..], count.as_bytes(), b"FORCE"];
                let args = [
                    key, group, b"SILENT", ids[0], ids[1], ids[2], retries[0], retries[1],
                    retries[2],
                ];
                commands.command(&["XNACK"], &args);
            }
            StreamChange::PendingRemove { group, id } => {
                commands.command(&["XACK"], &[key, group, id_text(id).as_bytes()]);
            }
            StreamChange::Produced { .. } => {}
            StreamChange::Producers { .. } if version_max < PRODUCERS_VERSION => {}
            StreamChange::Producers { duration_s, ids_max } => {
                let (duration, ids) = (digits.format(duration_s), more.format(ids_max));
                let args =
                    [key, b"IDMP-DURATION", duration.as_bytes(), b"IDMP-MAXSIZE", ids.as_bytes()];
                commands.command(&["XCFGSET"], &args);
            }
        }
    }
}

/// The least ID above one.
fn next_id(id: StreamId) -> Option<StreamId> {
    match id.seq.checked_add(1) {
        Some(seq) => Some(StreamId { ms: id.ms, seq }),
        None => Some(StreamId { ms: id.ms.checked_add(1)?, seq: 0 }),
    }
}
