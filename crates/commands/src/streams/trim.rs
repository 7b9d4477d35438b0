//! XTRIM, and the options that XADD has in common with it.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::streams::parse_id;
use petrel_keyspace::types::stream::{References, Trim, TrimTo};

const NEGATIVE_MAXLEN: Fail = Fail::fixed("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: Fail = Fail::fixed("ERR The LIMIT argument must be >= 0.");
const TWO_STRATEGIES: Fail =
    Fail::fixed("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const LIMIT_WITHOUT_STRATEGY: Fail =
    Fail::fixed("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const LIMIT_WHEN_EXACT: Fail =
    Fail::fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");
const NO_STRATEGY: Fail =
    Fail::fixed("ERR syntax error, XTRIM must be called with MAXLEN or MINID");

/// Nodes that an approximate trim looks at where nothing else is said.
const NODES_LIMIT: i64 = 100;
/// Entries of a node for that purpose, where nodes have no limit of their own.
const NODE_ENTRIES: i64 = 100;
/// Entries that it looks at at most.
const ENTRIES_LIMIT: i64 = 1_000_000;

/// The options of a trim as they are read.
#[derive(Default)]
pub(super) struct TrimOptions {
    to: Option<TrimTo>,
    approximate: bool,
    limit: Option<i64>,
    references: Option<References>,
}

impl TrimOptions {
    /// Reads the option at argument `i`, before argument `end`; returns where the next one is, or
    /// none if it is not one of these.
    pub fn read(&mut self, ctx: &Ctx<'_>, i: usize, end: usize) -> Result<Option<usize>, Fail> {
        let more = end - 1 - i;
        if let Some(references) = references(ctx.arg(i)) {
            if self.references.is_some() {
                return Ok(None);
            }
            self.references = Some(references);
            return Ok(Some(i + 1));
        }
        let (maxlen, minid) = (ctx.is(i, "MAXLEN"), ctx.is(i, "MINID"));
        if more > 0 && (maxlen || minid) {
            return self.read_strategy(ctx, i, maxlen, more).map(Some);
        }
        if more > 0 && ctx.is(i, "LIMIT") {
            let limit = ctx.integer(i + 1)?;
            if limit < 0 {
                return Err(NEGATIVE_LIMIT);
            }
            self.limit = Some(limit);
            return Ok(Some(i + 2));
        }
        Ok(None)
    }

    fn read_strategy(
        &mut self,
        ctx: &Ctx<'_>,
        i: usize,
        maxlen: bool,
        more: usize,
    ) -> Result<usize, Fail> {
        if self.to.is_some() {
            return Err(TWO_STRATEGIES);
        }
        let mut at = i + 1;
        if more >= 2 && matches!(ctx.arg(at), b"~" | b"=") {
            self.approximate = ctx.arg(at) == b"~";
            at += 1;
        }
        self.to = Some(if maxlen {
            TrimTo::Len(u64::try_from(ctx.integer(at)?).map_err(|_| NEGATIVE_MAXLEN)?)
        } else {
            TrimTo::Id(parse_id(ctx.arg(at), 0)?)
        });
        Ok(at + 1)
    }

    /// The trim that the options come to; none if they name none.
    pub fn trim(&self, ctx: &Ctx<'_>) -> Result<Option<Trim>, Fail> {
        let Some(to) = self.to else {
            return if self.limit.is_some() { Err(LIMIT_WITHOUT_STRATEGY) } else { Ok(None) };
        };
        let limit = match self.limit {
            Some(_) if !self.approximate => return Err(LIMIT_WHEN_EXACT),
            Some(limit) => limit,
            None if self.approximate => {
                let entries = ctx.exec.ks.keyspace().limits().stream_node_max_entries();
                let entries = if entries > 0 { entries } else { NODE_ENTRIES };
                entries.saturating_mul(NODES_LIMIT).min(ENTRIES_LIMIT)
            }
            None => 0,
        };
        let references = self.references.unwrap_or_default();
        let (approximate, limit) = (self.approximate, limit as u64);
        Ok(Some(Trim { to, approximate, limit, references }))
    }
}

/// The word that says what becomes of references.
pub(super) fn references(word: &[u8]) -> Option<References> {
    if word.eq_ignore_ascii_case(b"KEEPREF") {
        Some(References::Keep)
    } else if word.eq_ignore_ascii_case(b"DELREF") {
        Some(References::Delete)
    } else if word.eq_ignore_ascii_case(b"ACKED") {
        Some(References::Acked)
    } else {
        None
    }
}

/// `XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]`
pub(super) fn xtrim(ctx: &mut Ctx<'_>) -> Outcome {
    let end = ctx.args().len();
    let mut options = TrimOptions::default();
    let mut i = 2;
    while i < end {
        i = options.read(ctx, i, end)?.ok_or(Fail::SYNTAX)?;
    }
    let trim = options.trim(ctx)?.ok_or(NO_STRATEGY)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let stream = ctx.exec.ks.stream_mut(db, key)?;
    let count = stream.map_or(0, |mut stream| stream.trim(&trim));
    ctx.number(count as i64)
}
