//! Full synchronisation: receives a copy of the primary's data into a file, checks it, and loads it
//! in place of the present data.
//!
//! The file has no name, so none is left behind. The present data stay until the copy is complete
//! and valid: losing the primary meanwhile has no effect. With `repl-diskless-load`, the copy may
//! be loaded as it arrives, without a file.

use super::apply::Applier;
use super::attempt::Link;
use super::copy_stream::CopyStream;
use super::handshake::shown;
use super::rdb_aux::SavedHistory;
use super::wire::Wire;
use crate::config::Config;
use crate::durability::replace::{check, leniency, unnamed_file};
use crate::server::{Server, unix_ms};
use crate::state::replication::{Ids, LinkState};
use petrel_persistence::{LoadOptions, Loaded, UNKNOWN_LEN, load};
use petrel_replication::primary::Extent;
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Between two signs of life to the primary while the copy is loaded.
pub(super) const SIGN_EVERY: Duration = Duration::from_secs(1);

/// Receives a copy and puts it in the place of the data; the history is that of the primary from
/// then on.
///
/// # Errors
/// The failure of the primary or the disk, as one line. Nothing has changed, unless the copy was
/// loaded as it arrived, or its load failed: then there is no data.
pub(super) fn take_over(
    wire: &mut Wire,
    link: &Link,
    applier: &mut Applier,
    history: (String, i64),
) -> Result<(), String> {
    let figures = &link.server.replication.link;
    figures.copy_bytes.iter().for_each(|bytes| bytes.store(0, Relaxed));
    figures.enter(LinkState::Sync);
    let line = wire.line().map_err(|error| format!("no copy arrives: {error}"))?;
    let extent = Extent::read(&line)
        .ok_or_else(|| format!("it announces its copy with '{}'", shown(&line)))?;
    let total = if let Extent::Length(len) = extent { len } else { 0 };
    figures.copy_bytes[0].store(total, Relaxed);
    let config = link.server.config.snapshot();
    if goes_without_file(&link.server, &config) {
        return install_stream(wire, link, applier, extent, history);
    }
    let copied = receive(wire, link, &extent)?;
    let installed = install(wire, link, applier, copied, history);
    installed.inspect_err(|_| applier.faults += 1)
}

/// Whether a copy is loaded as it comes.
fn goes_without_file(server: &Server, config: &Config) -> bool {
    match config.replication.repl_diskless_load.word() {
        "flushdb" | "flush-before-load" => true,
        "on-empty-db" => {
            let keyspace = &server.keyspace;
            (0..keyspace.databases()).all(|db| keyspace.db_stats(db).keys == 0)
        }
        _ => false,
    }
}

/// Receives a copy; the file that it is in, and its length.
fn receive(wire: &mut Wire, link: &Link, extent: &Extent) -> Result<(File, u64), String> {
    let figures = &link.server.replication.link;
    let mut file =
        unnamed_file("sync").map_err(|error| format!("no file for the copy: {error}"))?;
    let mut len = 0;
    loop {
        let (taken, is_whole) = extent.take(wire.received(), len);
        file.write_all(&wire.received()[..taken])
            .map_err(|error| format!("the copy cannot be written: {error}"))?;
        len += taken as u64;
        let behind = if is_whole { extent.mark_len() } else { 0 };
        wire.received().drain(..taken + behind);
        figures.copy_bytes[1].store(len, Relaxed);
        if is_whole {
            break;
        }
        while !wire
            .receive_within(SIGN_EVERY)
            .map_err(|error| format!("the copy ends after {len} bytes: {error}"))?
        {
            link.check_request()?;
        }
        link.check_request()?;
        figures.copied_at.store(unix_ms() / 1000, Relaxed);
    }
    file.rewind().map_err(|error| format!("the copy cannot be read: {error}"))?;
    Ok((file, len))
}

/// Puts a copy in the place of the data. The primary is given signs of life meanwhile.
fn install(
    wire: &mut Wire,
    link: &Link,
    applier: &mut Applier,
    (mut file, len): (File, u64),
    (id, offset): (String, i64),
) -> Result<(), String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let name = std::thread::Builder::new().name("petrel-signs".into());
        let signs = name.spawn_scoped(scope, || {
            while !is_over.load(Relaxed) {
                std::thread::park_timeout(SIGN_EVERY);
                // A connection that is gone is found out when it is read from.
                let _ = wire.send(b"\n");
            }
        });
        let signs =
            signs.map_err(|error| format!("cannot start a thread for keep-alives: {error}"))?;
        let _ends = EndOfSigns { is_over: &is_over, signs: signs.thread() };
        let config = link.server.config.snapshot();
        check(&file, len, leniency(&config))
            .map_err(|error| format!("the copy of {len} bytes is invalid: {error}"))
            .and_then(|()| file.rewind().map_err(|error| error.to_string()))
            .and_then(|()| {
                let progress = &link.server.snapshot.progress;
                let load = |options| {
                    let loaded = load(file, len, &link.server.keyspace, options, progress);
                    loaded.map_err(|error| error.to_string())
                };
                replace(link, applier, len, (id, offset), load)
            })
    })
}

/// Ends the thread that gives signs of life, however the work ends.
struct EndOfSigns<'s> {
    is_over: &'s AtomicBool,
    signs: &'s Thread,
}

impl Drop for EndOfSigns<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.signs.unpark();
    }
}

/// Puts a copy in the place of the data as it comes; it gives the primary its signs of life.
fn install_stream(
    wire: &mut Wire,
    link: &Link,
    applier: &mut Applier,
    extent: Extent,
    history: (String, i64),
) -> Result<(), String> {
    let len = if let Extent::Length(len) = extent { len } else { UNKNOWN_LEN };
    let mut stream = CopyStream::new(wire, link, extent);
    let load = |options| {
        let progress = &link.server.snapshot.progress;
        let loaded = load(&mut stream, len, &link.server.keyspace, options, progress);
        let loaded = loaded.map_err(|error| error.to_string())?;
        stream.end().map(|()| loaded)
    };
    let replaced = replace(link, applier, len, history, load);
    replaced.inspect_err(|_| applier.faults += u32::from(!stream.is_lost()))
}

/// Ends the loading. A log that was asked for meanwhile is written from now on: before commands
/// are executed again, and for one that was asked for just then, behind that.
fn finish_loading(server: &Arc<Server>, applier: &mut Applier) {
    let mut follow = || {
        let ks = &mut applier.exec.ks;
        ks.enter();
        server.settle_log(ks);
        ks.exit();
    };
    follow();
    server.finish_loading();
    follow();
}

/// Lets `load_copy` load a copy in the place of the data.
fn replace(
    link: &Link,
    applier: &mut Applier,
    len: u64,
    (id, offset): (String, i64),
    load_copy: impl FnOnce(LoadOptions) -> Result<Loaded, String>,
) -> Result<(), String> {
    let server = &link.server;
    let replication = &server.replication;
    let start = Instant::now();
    let _applying = replication.applying.lock();
    link.check_request()?;
    // Nothing that was there before can be gone on with.
    replication.renew_ids();
    server.report_replaced("the primary's");
    let apart = server.part_log(&mut applier.exec.ks);
    let mut clear = |in_background| {
        applier.clear(in_background);
        replication.replica_expires.forget();
    };
    let loaded = server.replace_data(len, &mut clear, |options| {
        let loaded = load_copy(options)?;
        link.check_request().map(|()| loaded)
    });
    server.join_log(loaded.is_ok());
    drop(apart);
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(why) => {
            finish_loading(server, applier);
            return Err(why);
        }
    };
    applier.begin_history(SavedHistory::of(&loaded.aux).map_or(0, |saved| saved.db()));
    *replication.ids.lock() = Ids::named(id);
    replication.offset.store(offset, Relaxed);
    finish_loading(server, applier);
    replication.tell_downstream(|downstream| downstream.replaced());
    server.report_copy("the primary's", &loaded, start);
    Ok(())
}
