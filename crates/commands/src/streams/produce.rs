//! Idempotent producers: IDs that producers assign to entries, so that an entry sent twice is added
//! once.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::integer;
use crate::streams::parse_id;
use petrel_keyspace::types::stream::Producers;
use petrel_table::options::XcfgsetOption;
use twox_hash::XxHash3_128;

/// Producer options of XADD.
#[derive(Clone, Copy)]
pub(super) enum Production<'a> {
    /// `IDMP`
    Stated {
        /// Name of the producer.
        producer: &'a [u8],
        /// The producer's ID of the entry.
        own_id: &'a [u8],
    },
    /// `IDMPAUTO`: equal fields have equal IDs.
    ByContent {
        /// Name of the producer.
        producer: &'a [u8],
    },
}

impl Production<'_> {
    /// Error of a producer's ID together with an explicit stream ID.
    pub const NEEDS_ANY_ID: Fail =
        Fail::fixed("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs");

    /// Stores a parsed option; an error if there was one before, or if a part is empty.
    pub fn take(self, found: &mut Option<Self>) -> Outcome {
        const TWICE: Fail = Fail::fixed("ERR syntax error, IDMP/IDMPAUTO specified multiple times");
        const NO_PRODUCER: Fail =
            Fail::fixed("ERR syntax error, IDMP requires a non-empty producer ID");
        const NO_ID: Fail =
            Fail::fixed("ERR syntax error, IDMP requires a non-empty idempotent ID");
        const NO_PRODUCER_AUTO: Fail =
            Fail::fixed("ERR syntax error, IDMPAUTO requires a non-empty producer ID");
        if found.is_some() {
            return Err(TWICE);
        }
        match self {
            Production::Stated { producer: [], .. } => return Err(NO_PRODUCER),
            Production::ByContent { producer: [] } => return Err(NO_PRODUCER_AUTO),
            Production::Stated { own_id: [], .. } => return Err(NO_ID),
            _ => *found = Some(self),
        }
        Ok(())
    }
}

/// Computes an ID from the fields, independent of their order.
pub(super) fn content_id(fields: &[&[u8]]) -> Vec<u8> {
    let mut pair = Vec::new();
    let sum = fields.chunks_exact(2).fold(0u128, |sum, field| {
        pair.clear();
        pair.extend_from_slice(&field[0].len().to_le_bytes());
        pair.extend_from_slice(field[0]);
        pair.extend_from_slice(field[1]);
        sum.wrapping_add(XxHash3_128::oneshot(&pair))
    });
    sum.to_le_bytes().to_vec()
}

/// `XCFGSET key [IDMP-DURATION idmp-duration] [IDMP-MAXSIZE idmp-maxsize]`
pub(super) fn xcfgset(ctx: &mut Ctx<'_>) -> Outcome {
    const NOTHING: Fail = Fail::fixed("ERR At least one parameter must be specified");
    const DURATION: Fail = Fail::fixed("ERR IDMP-DURATION must be between 1 and 86400 seconds");
    const MAXSIZE: Fail = Fail::fixed("ERR IDMP-MAXSIZE must be between 1 and 10000 entries");
    const DURATION_TWICE: Fail = Fail::fixed("ERR IDMP-DURATION specified multiple times");
    const MAXSIZE_TWICE: Fail = Fail::fixed("ERR IDMP-MAXSIZE specified multiple times");
    let (key, db) = (ctx.key(1), ctx.db());
    let Some(view) = ctx.exec.ks.look(db, key) else { return Err(Fail::NO_SUCH_KEY) };
    view.stream()?;
    let (mut duration, mut maxsize) = (None, None);
    for option in ctx.options(2) {
        let (number, value, error, twice, max) = match option? {
            XcfgsetOption::IdmpDuration(n) => (n, &mut duration, DURATION, DURATION_TWICE, 86_400),
            XcfgsetOption::IdmpMaxsize(n) => (n, &mut maxsize, MAXSIZE, MAXSIZE_TWICE, 10_000),
        };
        if value.is_some() {
            return Err(twice);
        }
        let number = integer(number)?;
        if !(1..=max).contains(&number) {
            return Err(error);
        }
        *value = Some(number as u32);
    }
    if duration.is_none() && maxsize.is_none() {
        return Err(NOTHING);
    }
    let mut stream = ctx.exec.ks.stream_mut(db, key)?.ok_or(Fail::NO_SUCH_KEY)?;
    let default = Producers::default();
    let now = stream.producers().unwrap_or(&default);
    let (now_duration, now_maxsize) = (now.duration_s(), now.ids_max());
    stream.configure_producers(duration.unwrap_or(now_duration), maxsize.unwrap_or(now_maxsize));
    ctx.reply.simple("OK");
    Ok(())
}

/// `XIDMPRECORD key pid iid stream-id`
pub(super) fn xidmprecord(ctx: &mut Ctx<'_>) -> Outcome {
    const NO_PRODUCER: Fail = Fail::fixed("ERR producer ID must be non-empty");
    const NO_ID: Fail = Fail::fixed("ERR idempotent ID must be non-empty");
    const NO_ENTRY: Fail = Fail::fixed("ERR No such message in stream");
    const OTHER_ENTRY: Fail =
        Fail::fixed("ERR IID already exists for this producer with a different stream ID");
    let id = parse_id(ctx.arg(4), 0)?;
    let (producer, own_id) = (ctx.arg(2), ctx.arg(3));
    if producer.is_empty() {
        return Err(NO_PRODUCER);
    }
    if own_id.is_empty() {
        return Err(NO_ID);
    }
    let (key, db) = (ctx.key(1), ctx.db());
    let mut stream = ctx.exec.ks.stream_mut(db, key)?.ok_or(Fail::NO_SUCH_KEY)?;
    if !stream.contains(id) {
        return Err(NO_ENTRY);
    }
    let known = stream.producers().and_then(|producers| producers.entry(producer, own_id));
    match known {
        Some(known) if known != id => return Err(OTHER_ENTRY),
        Some(_) => {}
        None => stream.remember_producer(producer, own_id, id),
    }
    ctx.reply.simple("OK");
    Ok(())
}
