//! XADD and XSETID.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::integer;
use crate::streams::produce::{Production, content_id};
use crate::streams::trim::TrimOptions;
use crate::streams::{INVALID_ID, parse_id, write_id};
use petrel_keyspace::types::stream::{Stream, StreamId, StreamMut};
use petrel_table::options::{StreamAddOption, XsetidOption};

const ZERO_ID: Fail = Fail::fixed("ERR The ID specified in XADD must be greater than 0-0");
const NOT_GREATER: Fail =
    Fail::fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: Fail =
    Fail::fixed("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: Fail = Fail::fixed("ERR Elements are too large to be stored");

/// Maximum bytes of all fields and values of an entry.
const ENTRY_LEN_MAX: usize = 1 << 30;

/// Requested ID of an entry.
#[derive(Clone, Copy)]
enum Wanted {
    /// `*`
    Any,
    /// `ms-*`
    In(u64),
    Exactly(StreamId),
}

struct Options<'a> {
    trim: TrimOptions,
    nomkstream: bool,
    production: Option<Production<'a>>,
    id: Wanted,
    /// Index of the first field.
    fields: usize,
}

/// `XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO pid | IDMP pid iid]
/// [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]`
pub(super) fn xadd(ctx: &mut Ctx<'_>) -> Outcome {
    let options = options(ctx)?;
    let trim = options.trim.trim(ctx)?;
    if options.production.is_some() && !matches!(options.id, Wanted::Any) {
        return Err(Production::NEEDS_ANY_ID);
    }
    let fields = ctx.args().get(options.fields..).unwrap_or_default();
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err(Fail::new(ctx.exec.registry().arity_error(ctx.command.index)));
    }
    if matches!(options.id, Wanted::Exactly(StreamId::MIN)) {
        return Err(ZERO_ID);
    }
    if fields.iter().map(|text| text.len()).sum::<usize>() > ENTRY_LEN_MAX {
        return Err(TOO_LARGE);
    }
    let (key, db) = (ctx.key(1), ctx.db());
    // An empty stream accepts every ID that was parsed, so no stream is created in vain.
    let opened = ctx.exec.ks.open_stream(db, key, !options.nomkstream)?;
    let Some(mut stream) = opened else {
        ctx.reply.null();
        return Ok(());
    };
    let own_id = options.production.map(|production| match production {
        Production::Stated { producer, own_id } => (producer, own_id.to_vec()),
        Production::ByContent { producer } => (producer, content_id(fields)),
    });
    if let Some((producer, own_id)) = &own_id
        && let Some(id) = stream.duplicate_of(producer, own_id)
    {
        write_id(ctx.reply, id);
        return Ok(());
    }
    let id = add(&mut stream, options.id, fields)?;
    if let Some((producer, own_id)) = &own_id {
        stream.remember_producer(producer, own_id, id);
    }
    if let Some(trim) = trim {
        stream.trim(&trim);
    }
    write_id(ctx.reply, id);
    Ok(())
}

fn add(stream: &mut StreamMut<'_>, wanted: Wanted, fields: &[&[u8]]) -> Result<StreamId, Fail> {
    let id = new_id(stream, wanted, stream.now_ms())?;
    if stream.add(id, fields) { Ok(id) } else { Err(NOT_GREATER) }
}

/// Determines the ID of a new entry.
fn new_id(stream: &Stream, wanted: Wanted, now_ms: i64) -> Result<StreamId, Fail> {
    let last = stream.last_id();
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    match wanted {
        Wanted::Any => stream.next_id(now_ms.max(0) as u64).ok_or(EXHAUSTED),
        Wanted::In(ms) if ms == last.ms => {
            last.seq.checked_add(1).map(|seq| StreamId::new(ms, seq)).ok_or(NOT_GREATER)
        }
        Wanted::In(ms) if ms > last.ms => Ok(StreamId::new(ms, 0)),
        Wanted::Exactly(id) if id > last => Ok(id),
        _ => Err(NOT_GREATER),
    }
}

fn options<'a>(ctx: &Ctx<'a>) -> Result<Options<'a>, Fail> {
    let mut options = Options {
        trim: TrimOptions::default(),
        nomkstream: false,
        production: None,
        id: Wanted::Any,
        fields: ctx.args().len(),
    };
    let mut words = ctx.options(2);
    while let Some((word, option)) = words.spelled() {
        let is_taken = match option {
            Ok(StreamAddOption::Nomkstream) => {
                options.nomkstream = true;
                true
            }
            Ok(StreamAddOption::Idmp(producer, own_id)) => {
                Production::Stated { producer, own_id }.take(&mut options.production)?;
                true
            }
            Ok(StreamAddOption::Idmpauto(producer)) => {
                Production::ByContent { producer }.take(&mut options.production)?;
                true
            }
            Ok(option) => options.trim.take(option, &mut words)?,
            Err(_) => false,
        };
        if !is_taken {
            options.id = wanted(word)?;
            options.fields = ctx.position(&words);
            break;
        }
    }
    Ok(options)
}

fn wanted(text: &[u8]) -> Result<Wanted, Fail> {
    match text {
        b"*" => Ok(Wanted::Any),
        [ms @ .., b'-', b'*'] if !ms.contains(&b'-') => {
            parse_id(ms, 0).map(|id| Wanted::In(id.ms)).map_err(|_| INVALID_ID)
        }
        text => parse_id(text, 0).map(Wanted::Exactly),
    }
}

/// `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`
pub(super) fn xsetid(ctx: &mut Ctx<'_>) -> Outcome {
    const BELOW_GIVEN_DELETED: Fail = Fail::fixed(
        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
    );
    const BELOW_DELETED: Fail =
        Fail::fixed("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
    const BELOW_TOP: Fail =
        Fail::fixed("ERR The ID specified in XSETID is smaller than the target stream top item");
    const TOO_FEW_ADDED: Fail = Fail::fixed(
        "ERR The entries_added specified in XSETID is smaller than the target stream length",
    );
    let id = parse_id(ctx.arg(2), 0)?;
    let (mut added, mut deleted) = (None, StreamId::MIN);
    for option in ctx.options(3) {
        match option? {
            XsetidOption::Entriesadded(count) => {
                const NEGATIVE: Fail = Fail::fixed("ERR entries_added must be positive");
                added = Some(u64::try_from(integer(count)?).map_err(|_| NEGATIVE)?);
            }
            XsetidOption::Maxdeletedid(stated) => {
                deleted = parse_id(stated, 0)?;
                if id < deleted {
                    return Err(BELOW_GIVEN_DELETED);
                }
            }
        }
    }
    let (key, db) = (ctx.key(1), ctx.db());
    let mut stream = ctx.exec.ks.stream_mut(db, key)?.ok_or(Fail::NO_SUCH_KEY)?;
    if id < stream.max_deleted() {
        return Err(BELOW_DELETED);
    }
    if !stream.is_empty() {
        if id < stream.last_entry_id() {
            return Err(BELOW_TOP);
        }
        if added.is_some_and(|added| added < stream.len()) {
            return Err(TOO_FEW_ADDED);
        }
    }
    let added = added.unwrap_or(stream.added());
    let deleted = if deleted == StreamId::MIN { stream.max_deleted() } else { deleted };
    stream.set(id, added, deleted);
    ctx.reply.simple("OK");
    Ok(())
}
