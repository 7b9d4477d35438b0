//! PSYNC, SYNC and REPLCONF.

use crate::client::Flag;
use crate::host::ServerHost;
use crate::server::unix_ms;
use crate::state::outgoing::replica::{Replica, Stage};
use petrel_commands::spec::Locks;
use petrel_commands::{CommandSpec, Ctx, Fail, Modes, Outcome};
use petrel_persistence::rdb::Dialect;
use petrel_replication::frame::{IS_PETREL, READS_FRAMES, WANTS_COMMANDS};
use petrel_table::commands as meta;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// `PSYNC`.
pub(crate) const PSYNC: CommandSpec =
    CommandSpec::new(&meta::PSYNC, |ctx| ctx.without_data(psync)).locking(Locks::Itself);
/// `SYNC`.
pub(crate) const SYNC: CommandSpec = CommandSpec::new(&meta::SYNC, |ctx| ctx.without_data(sync));
/// `REPLCONF`.
pub(crate) const REPLCONF: CommandSpec = CommandSpec::new(&meta::REPLCONF, replconf);

/// `PSYNC replicationid offset [FAILOVER]`: with `FAILOVER`, the primary asks this replica to take
/// its place, and to serve it as a replica then.
fn psync(ctx: &mut Ctx<'_>) -> Outcome {
    let first = ctx.integer(2)?;
    if ctx.args().len() > 3 && ctx.is(3, "FAILOVER") {
        let server = ServerHost::of(ctx).server.clone();
        let replication = &server.replication;
        if !replication.is_replica() {
            return Err(Fail::fixed("ERR PSYNC FAILOVER can't be sent to a master."));
        }
        if replication.ids().id.as_bytes() != ctx.arg(1) {
            return Err(Fail::fixed("ERR PSYNC FAILOVER replid must match my replid."));
        }
        tracing::info!("the primary hands its role over to this replica");
        // REPLICAOF NO ONE starts no thread.
        let _ = server.follow(None, &mut ctx.exec.ks);
    }
    let id = ctx.arg(1);
    attach(ctx, Some((id, first)))
}

/// `SYNC`: a copy, and then the stream, without a word about where in the history that is.
fn sync(ctx: &mut Ctx<'_>) -> Outcome {
    attach(ctx, None)
}

/// Makes the connection a replica.
fn attach(ctx: &mut Ctx<'_>, asked: Option<(&[u8], i64)>) -> Outcome {
    let host = ServerHost::of(ctx);
    let (server, client) = (host.server.clone(), host.client.clone());
    if client.has(Flag::Replica) {
        return Ok(());
    }
    if server.replication.is_replica() && !server.replication.follows() {
        return Err(Fail::fixed("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    if server.replication.failover.is_active() {
        return Err(Fail::fixed("NOMASTERLINK Can't SYNC while failing over"));
    }
    let outgoing = &server.outgoing;
    let mut options = outgoing.handshakes.lock().get(&client.id).cloned().unwrap_or_default();
    let knows_ids = options.knows_ids;
    // Petrel reads both.
    options.dialect = options.dialect.filter(|_| !options.is_petrel);
    let replica = Replica::new(client.clone(), options, asked.is_some(), unix_ms());
    let replica = Arc::new(replica);
    let reader = asked.and_then(|(id, first)| {
        let from = u64::try_from(first.checked_sub(1)?).ok()?;
        let is_continued = server.replication.is_continued_by(id, first);
        let stream = outgoing.stream().filter(|_| is_continued)?;
        match replica.needs_commands() {
            true => server.resume_in_commands(&mut ctx.exec.ks, &stream, &replica, from),
            false => stream.backlog.reader(from).ok(),
        }
    });
    client.set(Flag::Replica, true);
    let config = server.config.snapshot();
    let gathers = config.replication.repl_disable_tcp_nodelay;
    if gathers && let Err(error) = petrel_net::set_nodelay(client.fd, false) {
        tracing::info!("repl-disable-tcp-nodelay does not reach {}: {error}", replica.name());
    }
    // Its commands touch no key.
    ctx.session.set(Modes::MONITOR, true);
    if let Some(reader) = reader {
        let from = reader.offset();
        replica.acked.store(from, SeqCst);
        // One command, however long, is no reason to close it again; a chain of connections that
        // take nothing is.
        let owed = reader.behind().min(config.client_query_buffer_limit);
        replica.owed.store(owed, Relaxed);
        replica.set_reader(reader);
        replica.set_stage(Stage::Online);
        outgoing.resumed.fetch_add(1, Relaxed);
        tracing::info!("replica {} continues at offset {from}", replica.name());
        let id = server.replication.ids().id;
        let words = outgoing.stream().map(|stream| server.stream_words(&replica, &stream, from));
        let words = words.unwrap_or_default();
        let whole = || format!("CONTINUE {id}{words}");
        ctx.reply.simple(&if knows_ids { whole() } else { "CONTINUE".into() });
    } else {
        if asked.is_some_and(|(id, _)| id != b"?") {
            outgoing.not_resumed.fetch_add(1, Relaxed);
        }
        tracing::info!("replica {} waits for a copy", replica.name());
    }
    outgoing.add(replica);
    Ok(())
}

/// `REPLCONF <option value> [<option value> ...]`
fn replconf(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len().is_multiple_of(2) {
        return Err(Fail::SYNTAX);
    }
    for at in (1..ctx.args().len()).step_by(2) {
        if ctx.is(at, "ACK") {
            return acknowledge(ctx, at);
        }
        if ctx.is(at, "GETACK") {
            // It is the primary's to ask.
            return Ok(());
        }
        note(ctx, at)?;
    }
    ctx.ok()
}

fn note(ctx: &mut Ctx<'_>, at: usize) -> Outcome {
    let value = ctx.arg(at + 1);
    let host = ServerHost::of(ctx);
    let (server, id) = (host.server.clone(), host.client.id);
    let mut handshakes = server.outgoing.handshakes.lock();
    let mut known = handshakes.get(&id).cloned().unwrap_or_default();
    let option = ctx.arg(at).to_ascii_lowercase();
    match &option[..] {
        b"listening-port" => {
            known.port = ctx.integer(at + 1)?.clamp(0, u16::MAX.into()) as u16;
        }
        b"ip-address" => {
            const ADDRESS_LEN_MAX: usize = 255;
            if value.len() > ADDRESS_LEN_MAX {
                return Err(Fail::new(format!(
                    "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                    value.len()
                )));
            }
            let is_shown = |byte: &u8| byte.is_ascii_graphic() && *byte != b',';
            if !value.iter().all(is_shown) {
                return Err(Fail::fixed(
                    "ERR REPLCONF ip-address provided by replica instance contains an invalid character",
                ));
            }
            let text = String::from_utf8_lossy(value).into_owned();
            known.address = Some(text).filter(|text| !text.is_empty());
        }
        b"capa" => {
            known.knows_end_mark |= value.eq_ignore_ascii_case(b"eof");
            known.knows_ids |= value.eq_ignore_ascii_case(b"psync2");
            known.is_petrel |= value.eq_ignore_ascii_case(IS_PETREL.as_bytes());
            known.frames.0 |= value.eq_ignore_ascii_case(READS_FRAMES.as_bytes());
            known.frames.1 |= value.eq_ignore_ascii_case(WANTS_COMMANDS.as_bytes());
        }
        // Only Valkey says it.
        b"version" => known.dialect = Some(Dialect::Valkey),
        b"rdb-only" => known.takes_copy_only = ctx.integer(at + 1)? != 0,
        b"rdb-filter-only" => known.wants = filter(value)?,
        _ => {
            let text = [b"ERR Unrecognized REPLCONF option: ", ctx.arg(at)].concat();
            return Err(Fail::new(text));
        }
    }
    handshakes.insert(id, known);
    drop(handshakes);
    ServerHost::of(ctx).client.set(Flag::Handshake, true);
    Ok(())
}

/// Parses the filter of a partial copy: whether it includes keys and functions.
fn filter(value: &[u8]) -> Result<(bool, bool), Fail> {
    let words = value.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let mut wants = (false, false);
    for word in words {
        match word.eq_ignore_ascii_case(b"functions") {
            true => wants.1 = true,
            false => {
                let text = [b"ERR Unsupported rdb-filter-only option: ", word].concat();
                return Err(Fail::new(text));
            }
        }
    }
    Ok(wants)
}

/// `REPLCONF ACK offset [FACK offset]`: it is not answered.
fn acknowledge(ctx: &mut Ctx<'_>, at: usize) -> Outcome {
    let host = ServerHost::of(ctx);
    let server = host.server.clone();
    let Some(replica) = server.outgoing.find(host.client.id) else { return Ok(()) };
    let Ok(offset) = ctx.integer(at + 1) else { return Ok(()) };
    let offset = offset.max(0) as u64;
    let before = replica.acked.fetch_max(offset, SeqCst);
    replica.has_answered.store(true, SeqCst);
    if at + 3 < ctx.args().len() && ctx.is(at + 2, "FACK") {
        let synced = ctx.integer(at + 3).unwrap_or(0).max(0) as u64;
        replica.synced.fetch_max(synced, SeqCst);
    }
    replica.heard_at.store(unix_ms(), Relaxed);
    if replica.stage() == Stage::Loads && !replica.options.takes_copy_only {
        replica.set_stage(Stage::Online);
        tracing::info!("replica {} is online", replica.name());
    }
    if before < server.outgoing.awaited.load(SeqCst) {
        server.retry_waiting();
    }
    Ok(())
}
