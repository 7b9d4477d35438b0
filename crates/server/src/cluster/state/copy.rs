//! Copies that a member gets and sends: how far they are.

use crate::durability::replace::unnamed_file;
use petrel_cluster::Identity;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Received part of a copy.
#[derive(Default)]
pub(in crate::cluster) struct Incoming {
    file: Option<File>,
    len: u64,
    failed: Option<io::Error>,
}

impl Incoming {
    /// Takes a part. What goes wrong is said once the copy is whole.
    pub fn take(&mut self, part: &[u8]) {
        let taken = (|| {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(unnamed_file("join")?),
            };
            file.write_all(part)
        })();
        self.len += part.len() as u64;
        if let Err(error) = taken {
            self.failed.get_or_insert(error);
        }
    }

    /// The whole, from its beginning on, and its length.
    pub fn finish(self) -> io::Result<(File, u64)> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut file = self.file.ok_or_else(|| io::Error::other("it is empty"))?;
        file.rewind()?;
        Ok((file, self.len))
    }
}

/// A thread that loads a copy; the receiver hears how that has ended.
pub(in crate::cluster) type Loading = Receiver<Result<(), String>>;

/// Copies that this member gets and sends.
#[derive(Default)]
pub(in crate::cluster) struct Copies {
    pub(in crate::cluster) loading: Option<Loading>,
    /// Time of the last failed load.
    pub(in crate::cluster) failed: Option<Instant>,
    pub(in crate::cluster) sent: Option<Sent>,
    /// Time when a copy could not begin because another snapshot was running.
    pub(in crate::cluster) tried: Option<Instant>,
    pub(in crate::cluster) has_to_rejoin: bool,
}

/// Contents of a copy for a member.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::cluster) enum Share {
    /// All data.
    All,
    /// Slots that the member has requested.
    Slots,
}

/// A copy that is being sent.
pub(in crate::cluster) struct Sent {
    pub(in crate::cluster) to: Identity,
    pub(in crate::cluster) share: Share,
    pub(in crate::cluster) parts: Receiver<Part>,
    pub(in crate::cluster) start: Instant,
    pub(in crate::cluster) bytes: u64,
}

/// Message to the agent about a copy that is being written.
pub(in crate::cluster) enum Part {
    Bytes(Vec<u8>),
    End,
}
