//! Position of a snapshot in the history: the fields `repl-id`, `repl-offset` and `repl-stream-db`
//! of RDB files, as Redis writes them.
//!
//! A replica that starts from such a file requests the stream from there on. A primary that starts
//! from one gives its history a new id and keeps the old one up to that offset, so that replicas
//! which had everything continue with it.

use crate::server::Server;
use crate::state::replication::{Ids, NO_ID};
use petrel_persistence::rdb::{FileReader, FileWriter, Leniency, Section};
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const ID: &str = "repl-id";
const OFFSET: &str = "repl-offset";
const DATABASE: &str = "repl-stream-db";

/// A place in a history.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SavedHistory {
    id: String,
    offset: i64,
    /// The database that the stream has selected there.
    db: u16,
}

impl SavedHistory {
    /// Reads the fields of a file.
    pub fn of(aux: &[(Vec<u8>, Vec<u8>)]) -> Option<Self> {
        let text = |name: &str| {
            let found = aux.iter().find(|(key, _)| key == name.as_bytes());
            found.and_then(|(_, text)| std::str::from_utf8(text).ok())
        };
        let id = text(ID).filter(|id| id.len() == NO_ID.len())?;
        let offset = text(OFFSET)?.parse().ok().filter(|&offset: &i64| offset >= 0)?;
        let db = text(DATABASE).and_then(|db| db.parse().ok()).unwrap_or(0);
        Some(SavedHistory { id: id.into(), offset, db })
    }

    /// Reads the fields of a file, which is rewound afterwards.
    pub fn peek(file: &mut File, len: u64, leniency: Leniency) -> Option<Self> {
        let mut aux = Vec::new();
        if let Ok(mut reader) = FileReader::new(&*file, len, leniency) {
            while let Ok(section) = reader.next_section() {
                match section {
                    Section::Aux { name, text } => aux.push((name, text)),
                    Section::Function(_) => {}
                    _ => break,
                }
            }
        }
        file.rewind().ok()?;
        Self::of(&aux)
    }

    /// Writes it into a file.
    pub fn describe<W: Write>(&self, file: &mut FileWriter<W>) {
        file.aux(DATABASE, self.db.to_string().as_bytes());
        file.aux(ID, self.id.as_bytes());
        file.aux(OFFSET, self.offset.to_string().as_bytes());
    }

    /// The database that the stream has selected there.
    pub fn db(&self) -> u16 {
        self.db
    }
}

impl Server {
    /// Position of the data in the history. The whole keyspace is locked. `None` if the data are in
    /// no history known to another server, or the primary's stream is partially executed.
    pub(crate) fn history_to_save(&self) -> Option<SavedHistory> {
        let (replication, stream) = (&self.replication, self.outgoing.stream()?);
        if replication.is_amid() {
            return None;
        }
        let id = replication.ids().id;
        Some(match replication.is_replica() {
            true => SavedHistory {
                id,
                offset: replication.offset(),
                db: replication.stream_db.load(Relaxed),
            },
            // The next command says for which database it is.
            false => SavedHistory { id, offset: stream.backlog.forget_database() as i64, db: 0 },
        })
    }

    /// Continues the history of a loaded file. No client is served yet.
    pub(crate) fn resume_history(self: &Arc<Self>, saved: SavedHistory, is_replica: bool) {
        let replication = &self.replication;
        let SavedHistory { id, offset, db } = saved;
        replication.offset.store(offset, Relaxed);
        replication.stream_db.store(db, Relaxed);
        if is_replica {
            tracing::info!("the data are of the history {id}, up to byte {offset}");
            *replication.ids.lock() = Ids::named(id);
            return;
        }
        let ids = Ids { second_id: id, second_offset: offset + 1, ..Ids::new() };
        tracing::info!("the data continue at byte {offset} of the history {}", ids.second_id);
        *replication.ids.lock() = ids;
        let mut ks = self.keyspace.attach();
        ks.enter();
        ks.lock_all();
        self.begin_known_stream(&mut ks, &self.config.snapshot());
        ks.unlock();
        ks.exit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_if_it_is_whole() {
        let of = |texts: &[(&str, &str)]| {
            let bytes = |&(name, text): &(&str, &str)| (name.into(), text.into());
            SavedHistory::of(&texts.iter().map(bytes).collect::<Vec<_>>())
        };
        let id = "0123456789abcdef0123456789abcdef01234567";
        let whole = [(ID, id), ("redis-ver", "8"), (OFFSET, "17"), (DATABASE, "3")];
        let expected = SavedHistory { id: id.into(), offset: 17, db: 3 };
        assert_eq!(of(&whole), Some(expected.clone()));
        assert_eq!(of(&whole[..3]), Some(SavedHistory { db: 0, ..expected }));
        assert_eq!(of(&whole[..2]), None);
        assert_eq!(of(&whole[1..]), None);
        assert_eq!(of(&[(ID, "short"), (OFFSET, "17")]), None);
        assert_eq!(of(&[(ID, id), (OFFSET, "-1")]), None);
    }
}
