//! Received bytes: executed in place; only the incomplete end is kept.

use crate::client::Flag;
use crate::event_loop::batch::{Progress, Stop};
use crate::event_loop::connection::READ_INTO_MIN;
use crate::event_loop::connection::{Conn, Input, room_for};
use crate::event_loop::worker::Worker;
use crate::observation::traffic;
use arrayvec::ArrayVec;
use bytes::Bytes;
use petrel_keyspace::KeyHash;
use petrel_net::{Chunk, Driver, Event, Output, Slot, bytes_received};
use petrel_resp::{Resume, argument};
use std::sync::atomic::Ordering::Relaxed;

/// Number of connections with first commands prefetched together.
pub(crate) const AHEAD: usize = 16;

/// Sizes of the steps in which a large command is received. If received bytes can be counted only
/// at the end of a step, steps are as long as the bytes received so far.
const STEP_MIN: usize = 64 * 1024;
const STEP_MAX: usize = 16 * 1024 * 1024;

/// Longer keys are not hashed for a guess.
const KEY_MAX: usize = 256;

impl<D: Driver> Worker<D> {
    /// Executes input in the driver's memory.
    pub(crate) fn received(&mut self, slot: Slot, chunk: Chunk) {
        let Some(mut conn) = self.take_up_to_date(slot) else { return };
        self.count_received(&conn, chunk.len());
        if conn.closing || conn.listed || conn.blocked || self.waits_for_reader(&mut conn) {
            // Commands that were sent before these wait for their turn.
            if !conn.closing {
                conn.keep(self.driver.data(chunk), None);
                self.limit_ahead(&conn);
            }
            return self.put(conn);
        }
        let mut output = self.output_for(slot);
        let progress = match conn.input.take() {
            None => match self.run_script_at_once(&mut conn, chunk, &mut output) {
                Some(progress) => progress,
                None => self.execute_chunk(&mut conn, chunk, 0, &mut output),
            },
            Some(input) => self.execute_joined(&mut conn, *input, chunk, &mut output),
        };
        let progress = self.run_scripts(&mut conn, progress, &mut output);
        self.finish(conn, progress, output);
    }

    #[inline]
    fn count_received(&self, conn: &Conn, bytes: usize) {
        traffic::add(&conn.client.received, bytes as u64);
        traffic::add(&self.traffic().received, bytes as u64);
        traffic::add(&self.traffic().reads, 1);
    }

    /// Takes a connection to execute its commands; pending pushes are sent before their replies.
    /// `None` if the connection is about to be closed.
    #[inline]
    pub(crate) fn take_up_to_date(&mut self, slot: Slot) -> Option<Box<Conn>> {
        let conn = self.take(slot)?;
        if !conn.client.needs_care() {
            return Some(conn);
        }
        self.take_with_care(conn)
    }

    #[cold]
    fn take_with_care(&mut self, conn: Box<Conn>) -> Option<Box<Conn>> {
        let slot = conn.slot;
        if conn.client.has(Flag::Killed) {
            self.put(conn);
            return None;
        }
        if !self.engine.host.has_posted_pushes() {
            return Some(conn);
        }
        self.put(conn);
        self.deliver_before();
        self.take(slot)
    }

    /// Prefetches for the first commands of several connections, as a batch does for those of one.
    /// Only an estimate: the input may continue a command, the connection may use another database,
    /// and the key may be another argument than in the last command.
    pub(crate) fn look_ahead(&self) {
        if self.own.events.len() < 2 || !self.engine.habit.is_shallow() {
            return;
        }
        let (exec, driver) = (&self.engine.exec, &self.driver);
        let place = exec.usual_key();
        let mut hashes: ArrayVec<KeyHash, AHEAD> = ArrayVec::new();
        for event in self.own.events.iter().take(AHEAD) {
            if let Event::Received { chunk, .. } = event
                && let Some(key) = argument(driver.data(*chunk), place)
                && key.len() <= KEY_MAX
            {
                let hash = exec.ks.hash(key);
                exec.ks.prefetch_stripe(hash);
                hashes.push(hash);
            }
        }
        exec.prefetch(0, hashes.iter().copied(), self.engine.habit.lines());
    }

    /// Executes input received into a buffer of the connection's own.
    pub(crate) fn filled(&mut self, slot: Slot, buffer: Vec<u8>) {
        let Some(mut conn) = self.take_up_to_date(slot) else { return };
        let input = conn.input.take().unwrap_or_default();
        self.count_received(&conn, buffer.len().saturating_sub(input.lent));
        let input = Input { bytes: buffer, lent: 0, come: 0, awaited: 0, ..*input };
        conn.input = Some(Box::new(input));
        // Received bytes count before they are executed.
        self.count_buffers(&conn);
        self.enforce_memory_limit();
        if conn.client.has(Flag::Killed) || self.waits_for_reader(&mut conn) {
            return self.put(conn);
        }
        match conn.input.take() {
            Some(input) => self.execute_input(conn, *input),
            None => self.put(conn),
        }
    }

    /// Receives more of a large command straight into the connection's own buffer.
    pub(crate) fn read_on(&mut self, conn: &mut Conn, needed: usize) {
        let have = conn.input_len();
        if have.max(needed) > self.engine.host.config.client_query_buffer_limit as usize {
            self.engine.host.server.figures.input_limit_closed.fetch_add(1, Relaxed);
            tracing::warn!("client {} closed: its query buffer exceeds the limit", conn.client.id);
            conn.doomed = true;
            return;
        }
        if have > 0
            && needed.saturating_sub(have) >= READ_INTO_MIN
            && let Some(input) = &mut conn.input
        {
            let mut buffer = std::mem::take(&mut input.bytes);
            // For a Unix socket, for TLS, and for a descriptor registered with a ring, received
            // bytes cannot be counted before the end of a step.
            let client = &conn.client;
            let is_shown = !client.has(Flag::Unix)
                && client.fd >= 0
                && self.driver.session(conn.slot).is_none();
            let room = room_for(have, needed);
            let step = if is_shown { STEP_MAX } else { have.clamp(STEP_MIN, STEP_MAX) };
            let awaited = room.min(have + step);
            if buffer.capacity() < awaited {
                buffer.reserve_exact(room - have);
            }
            (input.lent, input.come, input.awaited) = (have, have, awaited);
            input.begun = input.resume.argument_begin(&buffer);
            if is_shown && !conn.client.has(Flag::Filling) {
                conn.client.set(Flag::Filling, true);
                self.filling.push(conn.slot);
            }
            self.driver.read_into(conn.slot, buffer, awaited - have);
        }
    }

    /// Updates the received bytes of large arguments, which the kernel writes into the connections'
    /// buffers.
    #[cold]
    pub(crate) fn show_filling(&mut self) {
        let mut filling = std::mem::take(&mut self.filling);
        filling.retain(|&slot| {
            let Some(mut conn) = self.take(slot) else { return false };
            let client = &conn.client;
            let fills = match conn.input.as_mut().filter(|input| input.awaited > 0) {
                None => false,
                Some(input) => {
                    if let Some(total) = bytes_received(client.fd)
                        && self.driver.session(slot).is_none()
                    {
                        let since = total.saturating_sub(client.received.load(Relaxed)) as usize;
                        input.come = (input.lent + since).min(input.awaited);
                    }
                    true
                }
            };
            client.set(Flag::Filling, fills);
            let shown =
                conn.input.as_ref().map_or(0, |input| input.come.saturating_sub(input.begun));
            self.put(conn);
            if fills && let Some(conn) = self.conn(slot) {
                // All of it counts, and only the argument is shown.
                conn.client.input_bytes.store(u32::try_from(shown).unwrap_or(u32::MAX), Relaxed);
            }
            fills
        });
        self.filling = filling;
    }

    /// Executes input that the connection kept.
    pub(crate) fn execute_input(&mut self, mut conn: Box<Conn>, input: Input) {
        let mut output = self.output_for(conn.slot);
        let progress = self.execute_owned(&mut conn, input, &mut output);
        let progress = self.run_scripts(&mut conn, progress, &mut output);
        self.finish(conn, progress, output);
    }

    fn execute_chunk(
        &mut self,
        conn: &mut Conn,
        chunk: Chunk,
        from: usize,
        output: &mut Output,
    ) -> Progress {
        let data = &self.driver.data(chunk)[from..];
        let progress = self.engine.run(conn, data, Resume::default(), None, output);
        hold(conn, &data[progress.consumed..], progress);
        progress
    }

    /// Completes the command that was left unfinished, with no more of the chunk than it needs, and
    /// executes the rest of the chunk where it lies.
    fn execute_joined(
        &mut self,
        conn: &mut Conn,
        mut input: Input,
        chunk: Chunk,
        output: &mut Output,
    ) -> Progress {
        let mut taken = 0;
        loop {
            let data = &self.driver.data(chunk)[taken..];
            let mut missing = input.needed.saturating_sub(input.bytes.len()).max(1);
            if taken == 0 {
                input.bytes.reserve_exact(missing);
            } else {
                // It needs more than could be known before, and may go on to: it gets all there is.
                missing = missing.max(data.len());
            }
            let joined = missing.min(data.len());
            input.bytes.extend_from_slice(&data[..joined]);
            taken += joined;
            if joined < missing {
                let stop = Stop::Incomplete { needed: input.needed, resume: input.resume };
                conn.input = Some(Box::new(input));
                return Progress { consumed: 0, stop, last: 0 };
            }
            let progress = self.execute_owned(conn, input, output);
            let goes_on = matches!(progress.stop, Stop::Incomplete { .. });
            match conn.input.take() {
                // It needs more than could be known before.
                Some(more) if goes_on && taken < chunk.len() => input = *more,
                None if goes_on && taken < chunk.len() => {
                    return self.execute_chunk(conn, chunk, taken, output);
                }
                kept => {
                    conn.input = kept;
                    if taken < chunk.len() {
                        conn.keep(&self.driver.data(chunk)[taken..], None);
                    }
                    return progress;
                }
            }
        }
    }

    /// Executes input that the connection owns, if there is any; a large value keeps the buffer it
    /// was received into.
    pub(crate) fn execute_owned(
        &mut self,
        conn: &mut Conn,
        input: Input,
        output: &mut Output,
    ) -> Progress {
        let Input { bytes, resume, .. } = input;
        // Lend the buffer to a value only if most of it would be used.
        let is_full = bytes.capacity() - bytes.len() <= bytes.len() / 4;
        if bytes.len() < READ_INTO_MIN || !is_full {
            let progress = self.engine.run(conn, &bytes, resume, None, output);
            hold_owned(conn, bytes, progress);
            return progress;
        }
        let bytes = Bytes::from(bytes);
        let progress = self.engine.run(conn, &bytes, resume, Some(&bytes), output);
        match progress.consumed {
            // Nothing refers to a command that was not executed: this takes the allocation back.
            0 => hold_owned(conn, Vec::from(bytes), progress),
            consumed => hold(conn, &bytes[consumed..], progress),
        }
        progress
    }
}

/// Keeps the unexecuted input; without copying if nothing was executed, because a command of many
/// arguments may come in thousands of pieces.
fn hold_owned(conn: &mut Conn, bytes: Vec<u8>, progress: Progress) {
    match progress.stop {
        Stop::Incomplete { needed, resume } if progress.consumed == 0 && conn.input.is_none() => {
            conn.input = Some(Box::new(Input { bytes, resume, needed, ..Input::default() }));
        }
        _ => hold(conn, &bytes[progress.consumed..], progress),
    }
}

/// Keeps the unexecuted input.
pub(crate) fn hold(conn: &mut Conn, rest: &[u8], progress: Progress) {
    match progress.stop {
        Stop::Close => {
            conn.closing = true;
            conn.client.set(Flag::Closing, true);
        }
        Stop::Waits => {
            conn.blocked = true;
            if !rest.is_empty() {
                conn.keep(rest, None);
            }
        }
        _ if rest.is_empty() => {}
        Stop::Incomplete { needed, resume } => conn.keep(rest, Some((needed, resume))),
        Stop::Paused | Stop::Quota | Stop::Script | Stop::Away => conn.keep(rest, None),
    }
}
