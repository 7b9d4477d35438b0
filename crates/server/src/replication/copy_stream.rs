//! The bytes of a copy as they come from the primary, for what loads them without a file.

use super::attempt::Link;
use super::copy::SIGN_EVERY;
use super::wire::Wire;
use crate::server::unix_ms;
use petrel_replication::primary::Extent;
use std::io::{self, Read};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Reads a copy up to its end, and nothing of what stands behind it. The primary is given signs of
/// life meanwhile.
pub(super) struct CopyStream<'w> {
    wire: &'w mut Wire,
    link: &'w Link,
    extent: Extent,
    /// Bytes that were read.
    len: u64,
    /// Received bytes that were read, and that are known to be the copy's: each is looked at, and
    /// moved, a bounded number of times.
    taken: usize,
    known: usize,
    has_ended: bool,
    /// The connection has failed, or the primary is no longer to be followed.
    is_lost: bool,
    signed_at: Instant,
}

impl<'w> CopyStream<'w> {
    pub fn new(wire: &'w mut Wire, link: &'w Link, extent: Extent) -> Self {
        let signed_at = Instant::now();
        let (has_ended, is_lost) = (false, false);
        CopyStream { wire, link, extent, len: 0, taken: 0, known: 0, has_ended, is_lost, signed_at }
    }

    /// Checks that nothing follows the end of the copy.
    ///
    /// # Errors
    /// The primary's fault, as one line.
    pub fn end(&mut self) -> Result<(), String> {
        match self.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(format!("it continues after its end, from byte {} on", self.len - 1)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether it was not the copy that failed.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Waits for more of the copy.
    fn receive(&mut self) -> io::Result<()> {
        self.give_sign()?;
        self.link.check_request().map_err(io::Error::other)?;
        self.wire.receive_within(SIGN_EVERY)?;
        Ok(())
    }

    fn give_sign(&mut self) -> io::Result<()> {
        if self.signed_at.elapsed() >= SIGN_EVERY {
            self.signed_at = Instant::now();
            self.wire.send(b"\n")?;
        }
        Ok(())
    }
}

impl Read for CopyStream<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let figures = &self.link.server.replication.link;
        while !self.has_ended && !to.is_empty() {
            let count = (self.known - self.taken).min(to.len());
            if count > 0 {
                let from = self.taken;
                to[..count].copy_from_slice(&self.wire.received()[from..from + count]);
                self.taken += count;
                self.len += count as u64;
                figures.copy_bytes[1].store(self.len, Relaxed);
                return Ok(count);
            }
            self.wire.received().drain(..self.taken);
            let (known, is_whole) = self.extent.take(self.wire.received(), self.len);
            (self.taken, self.known) = (0, known);
            if known > 0 {
                continue;
            }
            if is_whole {
                self.wire.received().drain(..self.extent.mark_len());
                self.has_ended = true;
                break;
            }
            let received = self.receive();
            self.is_lost = received.is_err();
            received?;
            figures.copied_at.store(unix_ms() / 1000, Relaxed);
        }
        Ok(0)
    }
}
