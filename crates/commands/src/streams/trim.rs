//! XTRIM, and its options in XADD.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_ITEM, expect};
use crate::numbers::integer;
use crate::streams::parse_id;
use petrel_keyspace::types::stream::{References, Trim, TrimTo};
use petrel_table::options::{Reader, StreamAddOption};

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

/// Default number of nodes that an approximate trim visits.
const NODES_LIMIT: i64 = 100;
/// Entries per node for that limit, if nodes have no limit of their own.
const NODE_ENTRIES: i64 = 100;
/// Maximum number of entries for that limit.
const ENTRIES_LIMIT: i64 = 1_000_000;

/// Options of a trim.
#[derive(Default)]
pub(super) struct TrimOptions {
    to: Option<TrimTo>,
    approximate: bool,
    limit: Option<i64>,
    references: Option<References>,
}

impl TrimOptions {
    /// Parses an option with its operands; false for another option, a repeated one, or a missing
    /// threshold.
    pub fn take<'a>(
        &mut self,
        option: StreamAddOption<'a>,
        words: &mut Reader<'a, StreamAddOption<'a>>,
    ) -> Result<bool, Fail> {
        let references = match option {
            StreamAddOption::Keepref => References::Keep,
            StreamAddOption::Delref => References::Delete,
            StreamAddOption::Acked => References::Acked,
            StreamAddOption::Maxlen => return self.take_strategy(true, words),
            StreamAddOption::Minid => return self.take_strategy(false, words),
            StreamAddOption::Limit(limit) => {
                self.limit = Some(integer(limit)?);
                let is_negative = self.limit.is_some_and(|limit| limit < 0);
                return if is_negative { Err(NEGATIVE_LIMIT) } else { Ok(true) };
            }
            _ => return Ok(false),
        };
        let is_first = self.references.is_none();
        self.references = Some(references);
        Ok(is_first)
    }

    /// Parses the threshold of `MAXLEN` or `MINID`; false if it is missing.
    fn take_strategy<'a>(
        &mut self,
        maxlen: bool,
        words: &mut Reader<'a, StreamAddOption<'a>>,
    ) -> Result<bool, Fail> {
        let Some(mut threshold) = words.word() else { return Ok(false) };
        if self.to.is_some() {
            return Err(TWO_STRATEGIES);
        }
        if let (b"~" | b"=", Some(next)) = (threshold, words.rest().first()) {
            self.approximate = threshold == b"~";
            threshold = next;
            words.word();
        }
        self.to = Some(if maxlen {
            TrimTo::Len(u64::try_from(integer(threshold)?).map_err(|_| NEGATIVE_MAXLEN)?)
        } else {
            TrimTo::Id(parse_id(threshold, 0)?)
        });
        Ok(true)
    }

    /// Builds the trim from the options; `None` if they name none.
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

/// `XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]`
pub(super) fn xtrim(ctx: &mut Ctx<'_>) -> Outcome {
    let mut options = TrimOptions::default();
    let mut words = ctx.options(2);
    while let Some(option) = words.next() {
        if !options.take(option?, &mut words)? {
            return Err(Fail::SYNTAX);
        }
    }
    let trim = options.trim(ctx)?.ok_or(NO_STRATEGY)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let len = match ctx.exec.ks.look(db, key) {
        Some(view) => view.stream()?.len(),
        None => 0,
    };
    let removed = match trim.to {
        TrimTo::Len(left) => len.saturating_sub(left),
        TrimTo::Id(_) => len,
    };
    expect(removed as usize * UNITS_PER_ITEM, ctx.exec.units_here)?;
    let stream = ctx.exec.ks.stream_mut(db, key)?;
    let count = stream.map_or(0, |mut stream| stream.trim(&trim));
    ctx.number(count as i64)
}
