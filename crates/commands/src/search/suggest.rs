//! Suggestions: `FT.SUGADD`, `FT.SUGGET`, `FT.SUGDEL`, `FT.SUGLEN`.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::arguments::Arguments;
use petrel_keyspace::suggestions::{self, Suggestions, TYPE, Wanted, valid_term};
use petrel_search::index::schema::parse_number;

/// Work units of a term that is compared.
const UNITS_PER_TERM: usize = 4;
const UNITS_PER_FUZZY_TERM: usize = 24;

/// Characters and bytes from which on a prefix is refused.
const PREFIX_CHARS: usize = 100;
const PREFIX_BYTES: usize = 200;

/// Largest number of terms of a reply.
const TERMS_MAX: u64 = u32::MAX as u64;

/// `FT.SUGADD key string score [INCR] [PAYLOAD payload]`
pub(super) fn add(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() > 7 {
        return Err(ctx.wrong_arity());
    }
    let score = parse_number(ctx.arg(3)).ok_or(Fail::fixed("ERR invalid score"))? as f32;
    let (mut adds, mut payload) = (false, None);
    let mut arguments = Arguments::new(&ctx.args()[4..]);
    while let Some(word) = arguments.next() {
        match () {
            () if word.eq_ignore_ascii_case(b"INCR") => adds = true,
            () if word.eq_ignore_ascii_case(b"PAYLOAD") => {
                let missing = "Invalid payload: Expected an argument, but none provided";
                payload = Some(arguments.next().ok_or(Fail::fixed(missing))?);
            }
            () => return Err(Fail::new([b"Unknown argument `", word, b"`"].concat())),
        }
    }
    let (db, key) = (ctx.db(), ctx.key(1));
    // As in Redis, a term of score 0 is not added.
    let term = valid_term(ctx.arg(2)).filter(|_| score != 0.0);
    let held = ctx.exec.ks.read(db, key);
    let held = held.map(|view| view.custom::<Suggestions>()).transpose()?;
    let known = term.and_then(|term| held?.get(term));
    let score = known.filter(|_| adds).map_or(0.0, |known| known.score) + score;
    if score.is_nan() {
        return Err(Fail::fixed("ERR invalid score"));
    }
    let len = held.map_or(0, Suggestions::len) + usize::from(term.is_some() && known.is_none());
    let payload = payload.filter(|payload| !payload.is_empty());
    let payload = payload.or(known.and_then(|known| known.payload.as_deref()));
    let payload = payload.map(<[u8]>::to_vec);
    if let Some(term) = term {
        suggestions::put(&mut ctx.exec.ks.slot(db, key, &TYPE)?, term, score, payload.as_deref());
    }
    ctx.number(len as i64)
}

/// Options of `FT.SUGGET`.
struct GetOptions<'a> {
    wanted: Wanted<'a>,
    with_scores: bool,
    with_payloads: bool,
}

impl<'a> GetOptions<'a> {
    fn parse(ctx: &Ctx<'a>) -> Result<Self, Fail> {
        let prefix = ctx.arg(2);
        let wanted = Wanted { prefix, is_fuzzy: false, max: 5 };
        let mut options = GetOptions { wanted, with_scores: false, with_payloads: false };
        let mut arguments = Arguments::new(&ctx.args()[3..]);
        while let Some(word) = arguments.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"FUZZY" => options.wanted.is_fuzzy = true,
                b"WITHSCORES" => options.with_scores = true,
                b"WITHPAYLOADS" => options.with_payloads = true,
                // Accepted without effect.
                b"TRIM" => {}
                b"MAX" => {
                    let max = match arguments.number("MAX") {
                        Ok(max @ 1..=TERMS_MAX) => Ok(max as usize),
                        Ok(_) => Err(Arguments::out_of_bounds("MAX")),
                        Err(fail) => Err(fail),
                    };
                    options.wanted.max = max.map_err(without_prefix)?;
                }
                _ => return Err(Fail::new([b"Unrecognized argument: ", word].concat())),
            }
        }
        if prefix.len() >= PREFIX_BYTES {
            return Err(Fail::fixed("Invalid query length"));
        }
        match String::from_utf8_lossy(prefix).chars().count() >= PREFIX_CHARS {
            true => Err(Fail::fixed("Invalid query")),
            false => Ok(options),
        }
    }
}

/// `FT.SUGGET key prefix [FUZZY] [WITHSCORES] [WITHPAYLOADS] [MAX max]`
pub(super) fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let GetOptions { wanted, with_scores, with_payloads } = GetOptions::parse(ctx)?;
    let (db, key, mut pacer) = (ctx.db(), ctx.key(1), ctx.exec.pacer());
    let Some(view) = ctx.exec.ks.read(db, key) else {
        ctx.reply.null();
        return Ok(());
    };
    let units = if wanted.is_fuzzy { UNITS_PER_FUZZY_TERM } else { UNITS_PER_TERM };
    let mut ended = Ok(());
    let best = view.custom::<Suggestions>()?.best(wanted, &mut || pacer.goes_on(units, &mut ended));
    ended?;
    ctx.reply.array(best.len() * (1 + usize::from(with_scores) + usize::from(with_payloads)));
    for (score, suggestion) in best {
        ctx.reply.bulk(suggestion.term());
        if with_scores {
            ctx.reply.double(f64::from(score));
        }
        match &suggestion.payload {
            _ if !with_payloads => {}
            Some(payload) => ctx.reply.bulk(payload),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// The error of an argument, as this command words it.
fn without_prefix(fail: Fail) -> Fail {
    let text = fail.text();
    Fail::new(text.strip_prefix(b"Bad arguments for ").unwrap_or(text).to_vec())
}

/// `FT.SUGDEL key string`
pub(super) fn delete(ctx: &mut Ctx<'_>) -> Outcome {
    let (db, key) = (ctx.db(), ctx.key(1));
    let term = valid_term(ctx.arg(2)).unwrap_or_default();
    let is_removed = suggestions::remove(&mut ctx.exec.ks.slot(db, key, &TYPE)?, term);
    ctx.number(is_removed.into())
}

/// `FT.SUGLEN key`
pub(super) fn len(ctx: &mut Ctx<'_>) -> Outcome {
    let (db, key) = (ctx.db(), ctx.key(1));
    let view = ctx.exec.ks.read(db, key);
    let held = view.map(|view| view.custom::<Suggestions>()).transpose()?;
    let len = held.map_or(0, Suggestions::len);
    ctx.number(len as i64)
}
