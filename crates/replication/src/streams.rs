//! Changes of streams as commands.
//!
//! A delivery becomes Redis's commands: `XCLAIM` with its time and count, and `XGROUP SETID` for
//! the group's last ID. Two facts have no command: that a trimmed entry is not the greatest deleted
//! one (`XTRIM ... ACKED`: written as `XDEL`), and the ID that a producer gave an entry (`XADD ...
//! IDMP`: a promoted replica adds an entry that is sent again).

use crate::commands::{Arg, command, gather};
use crate::encode::Encoder;
use petrel_keyspace::types::stream::{StreamChange, StreamId};

/// The versions of RDB that came with what streams count, with producers, and with entries that
/// are given back, and so with the options and commands for them.
const COUNTS_VERSION: u16 = 10;
const PRODUCERS_VERSION: u16 = 13;
const GIVEN_BACK_VERSION: u16 = 14;

/// A group that is there for a moment only, to make a stream.
const NO_GROUP: &[u8] = b"petrel-replication-makes-a-stream";

impl Encoder {
    pub(crate) fn stream(&mut self, key: &[u8], change: StreamChange<'_>) {
        let version_max = self.understood.version_max;
        let has_counts = version_max >= COUNTS_VERSION;
        let commands = &mut self.commands;
        match change {
            StreamChange::Add { id, fields } => {
                let out = commands.begin(3 + fields.len());
                "XADD".put(out);
                key.put(out);
                id.put(out);
                fields.iter().for_each(|text| text.put(out));
            }
            StreamChange::Delete { id } | StreamChange::TrimOne { id } => {
                gather!(commands, "XDEL", key, id);
            }
            StreamChange::TrimUpTo { id } => match next_id(id) {
                Some(next) => command!(commands, "XTRIM", key, "MINID", "=", next),
                None => command!(commands, "XTRIM", key, "MAXLEN", "=", "0"),
            },
            StreamChange::Set { last_id, added, max_deleted } => {
                self.set_stream(key, (last_id, added, max_deleted));
            }
            StreamChange::Group { group, last_delivered: id, read, is_new } => {
                let verb = if is_new { "CREATE" } else { "SETID" };
                match read.filter(|_| has_counts) {
                    None => command!(commands, "XGROUP", verb, key, group, id),
                    Some(read) => {
                        command!(commands, "XGROUP", verb, key, group, id, "ENTRIESREAD", read);
                    }
                }
            }
            StreamChange::GroupRemove { group } => {
                command!(commands, "XGROUP", "DESTROY", key, group);
            }
            // Its claims say that a present consumer was seen, or got entries.
            StreamChange::Consumer { active_ms: Some(_), .. } => {}
            StreamChange::Consumer { group, consumer, .. } => {
                command!(commands, "XGROUP", "CREATECONSUMER", key, group, consumer);
            }
            StreamChange::ConsumerRemove { group, consumer } => {
                command!(commands, "XGROUP", "DELCONSUMER", key, group, consumer);
            }
            StreamChange::Pending { group, id, consumer: Some(consumer), delivered_ms, count } => {
                command! {
                    commands, "XCLAIM", key, group, consumer, "0", id, "TIME", delivered_ms,
                    "RETRYCOUNT", count, "FORCE", "JUSTID"
                }
            }
            StreamChange::Pending { consumer: None, .. } if version_max < GIVEN_BACK_VERSION => {}
            StreamChange::Pending { group, id, consumer: None, count, .. } => {
                command! {
                    commands, "XNACK", key, group, "SILENT", "IDS", "1", id, "RETRYCOUNT", count,
                    "FORCE"
                }
            }
            StreamChange::PendingRemove { group, id } => {
                command!(commands, "XACK", key, group, id);
            }
            StreamChange::Produced { .. } => {}
            StreamChange::Producers { .. } if version_max < PRODUCERS_VERSION => {}
            StreamChange::Producers { duration_s, ids_max } => {
                command! {
                    commands, "XCFGSET", key, "IDMP-DURATION", duration_s, "IDMP-MAXSIZE", ids_max
                }
            }
        }
    }

    /// Sets the last ID, the number of entries ever added and the greatest deleted ID.
    fn set_stream(&mut self, key: &[u8], (last, added, deleted): (StreamId, u64, StreamId)) {
        let commands = &mut self.commands;
        if last == StreamId::MIN && added == 0 {
            // There may be no stream yet.
            command!(commands, "XGROUP", "CREATE", key, NO_GROUP, "0", "MKSTREAM");
            command!(commands, "XGROUP", "DESTROY", key, NO_GROUP);
        }
        if self.understood.version_max < COUNTS_VERSION {
            return command!(commands, "XSETID", key, last);
        }
        let (of_added, of_deleted) = ("ENTRIESADDED", "MAXDELETEDID");
        command!(commands, "XSETID", key, last, of_added, added, of_deleted, deleted);
    }
}

/// The least ID above one.
fn next_id(id: StreamId) -> Option<StreamId> {
    match id.seq.checked_add(1) {
        Some(seq) => Some(StreamId { ms: id.ms, seq }),
        None => Some(StreamId { ms: id.ms.checked_add(1)?, seq: 0 }),
    }
}
