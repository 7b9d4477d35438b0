//! Idempotent producers: IDs that producers give their entries, so that one sent twice is added
//! once.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::streams::parse_id;
use petrel_keyspace::types::stream::Producers;
use twox_hash::XxHash3_128;

/// What XADD says of the producer.
#[derive(Clone, Copy)]
pub(super) enum Production<'a> {
    /// `IDMP`
    Stated {
        /// The producer.
        producer: &'a [u8],
        /// The producer's ID of the entry.
        own_id: &'a [u8],
    },
    /// `IDMPAUTO`: the same fields make the same ID.
    ByContent {
        /// The producer.
        producer: &'a [u8],
    },
}

impl<'a> Production<'a> {
    /// The error of a producer's ID together with an ID of the stream.
    pub const NEEDS_ANY_ID: Fail =
        Fail::fixed("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs");

    /// Reads the option at argument `i`, before argument `end`; returns where the next one is, or
    /// none if it is another.
    pub fn read(
        found: &mut Option<Self>,
        ctx: &Ctx<'a>,
        i: usize,
        end: usize,
    ) -> Result<Option<usize>, Fail> {
        const TWICE: Fail = Fail::fixed("ERR syntax error, IDMP/IDMPAUTO specified multiple times");
        const NO_PRODUCER: Fail =
            Fail::fixed("ERR syntax error, IDMP requires a non-empty producer ID");
        const NO_ID: Fail =
            Fail::fixed("ERR syntax error, IDMP requires a non-empty idempotent ID");
        const NO_PRODUCER_AUTO: Fail =
            Fail::fixed("ERR syntax error, IDMPAUTO requires a non-empty producer ID");
        let more = end - 1 - i;
        let (stated, by_content) = (ctx.is(i, "IDMP"), ctx.is(i, "IDMPAUTO"));
        if !(stated && more >= 2 || by_content && more >= 1) {
            return Ok(None);
        }
        if found.is_some() {
            return Err(TWICE);
        }
        let producer = ctx.arg(i + 1);
        if producer.is_empty() {
            return Err(if stated { NO_PRODUCER } else { NO_PRODUCER_AUTO });
        }
        if by_content {
            *found = Some(Production::ByContent { producer });
            return Ok(Some(i + 2));
        }
        let own_id = ctx.arg(i + 2);
        if own_id.is_empty() {
            return Err(NO_ID);
        }
        *found = Some(Production::Stated { producer, own_id });
        Ok(Some(i + 3))
    }
}

/// An ID that follows from the fields, in whatever order they are.
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
    let (key, db, len) = (ctx.key(1), ctx.db(), ctx.args().len());
    let Some(view) = ctx.exec.ks.look(db, key) else { return Err(Fail::NO_SUCH_KEY) };
    view.stream()?;
    let (mut duration, mut maxsize) = (None, None);
    let mut i = 2;
    while i < len {
        let (value, error, twice, max) = if ctx.is(i, "IDMP-DURATION") {
            (&mut duration, DURATION, DURATION_TWICE, 86_400)
        } else if ctx.is(i, "IDMP-MAXSIZE") {
            (&mut maxsize, MAXSIZE, MAXSIZE_TWICE, 10_000)
        } else {
            return Err(Fail::SYNTAX);
        };
        if i + 1 == len {
            return Err(Fail::SYNTAX);
        }
        if value.is_some() {
            return Err(twice);
        }
        let number = ctx.integer(i + 1)?;
        if !(1..=max).contains(&number) {
            return Err(error);
        }
        *value = Some(number as u32);
        i += 2;
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
