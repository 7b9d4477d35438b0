//! The options of XREAD and XREADGROUP.

use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::streams::budget::Budget;
use std::ops::Range;

const UNBALANCED_READ: Fail = Fail::fixed(
    "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified.",
);
const UNBALANCED_READ_VALKEY: Fail = Fail::fixed(
    "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.",
);
const UNBALANCED_GROUP: Fail = Fail::fixed(
    "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.",
);
const GROUP_IN_READ: Fail =
    Fail::fixed("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const NOACK_IN_READ: Fail =
    Fail::fixed("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
const CLAIM_IN_READ: Fail =
    Fail::fixed("ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.");
const GROUP_MISSING: Fail = Fail::fixed("ERR Missing GROUP option for XREADGROUP");
const NO_IDLE_TIME: Fail = Fail::fixed("ERR min-idle-time is not an integer or out of range");
const MAX_COUNT_NOT_POSITIVE: Fail = Fail::fixed("ERR MAXCOUNT must be a positive integer");
const MAX_SIZE_NOT_POSITIVE: Fail = Fail::fixed("ERR MAXSIZE must be a positive integer");
const MAX_COUNT_BELOW_COUNT: Fail =
    Fail::fixed("ERR MAXCOUNT must be greater than or equal to COUNT");
const NEGATIVE_IDLE_TIME: Fail = Fail::fixed("ERR min-idle-time must be a positive integer");

/// What XREAD or XREADGROUP is called with.
pub(super) struct Reading<'a> {
    /// Entries of each stream; `usize::MAX` for all.
    pub count: usize,
    /// `MAXCOUNT` and `MAXSIZE`: what the reply may hold in all.
    pub budget: Budget,
    /// `BLOCK`: until when, if there is an end.
    pub block: Option<Option<i64>>,
    /// `GROUP`: the group, and the consumer.
    pub group: Option<(&'a [u8], &'a [u8])>,
    /// `NOACK`.
    pub noack: bool,
    /// `CLAIM`: milliseconds that pending entries have been idle for.
    pub claim: Option<i64>,
    /// The arguments that are keys; their IDs follow.
    pub keys: Range<usize>,
}

impl Reading<'_> {
    /// The argument that is the ID of the key at argument `key`.
    pub fn id(&self, key: usize) -> usize {
        key + self.keys.len()
    }
}

/// Reads the options; `grouped`: of XREADGROUP.
pub(super) fn reading<'a>(ctx: &Ctx<'a>, grouped: bool) -> Result<Reading<'a>, Fail> {
    let mut reading = Reading {
        count: usize::MAX,
        budget: Budget::new(usize::MAX, usize::MAX),
        block: None,
        group: None,
        noack: false,
        claim: None,
        keys: 0..0,
    };
    let (mut max_count, mut max_size) = (None, None);
    let end = ctx.args().len();
    let mut i = 1;
    while i < end {
        let more = end - 1 - i;
        if ctx.is(i, "BLOCK") && more > 0 {
            reading.block = Some(ctx.timeout_millis(i + 1)?);
            i += 1;
        } else if ctx.is(i, "COUNT") && more > 0 {
            // None or fewer are as good as all.
            let count = usize::try_from(ctx.integer(i + 1)?).unwrap_or(0);
            reading.count = if count == 0 { usize::MAX } else { count };
            i += 1;
        } else if ctx.is(i, "MAXCOUNT") && more > 0 {
            max_count = Some(positive(ctx, i + 1, MAX_COUNT_NOT_POSITIVE)?);
            i += 1;
        } else if ctx.is(i, "MAXSIZE") && more > 0 {
            max_size = Some(positive(ctx, i + 1, MAX_SIZE_NOT_POSITIVE)?);
            i += 1;
        } else if ctx.is(i, "STREAMS") && more > 0 {
            if !more.is_multiple_of(2) {
                let read = ctx.dialect().choose(UNBALANCED_READ, UNBALANCED_READ_VALKEY);
                return Err(if grouped { UNBALANCED_GROUP } else { read });
            }
            reading.keys = i + 1..i + 1 + more / 2;
            break;
        } else if ctx.is(i, "GROUP") && more >= 2 {
            only(grouped, GROUP_IN_READ)?;
            reading.group = Some((ctx.arg(i + 1), ctx.arg(i + 2)));
            i += 2;
        } else if ctx.is(i, "NOACK") {
            only(grouped, NOACK_IN_READ)?;
            reading.noack = true;
        } else if ctx.is(i, "CLAIM") && more > 0 {
            only(grouped, CLAIM_IN_READ)?;
            let idle = ctx.integer(i + 1).map_err(|_| NO_IDLE_TIME)?;
            only(idle >= 0, NEGATIVE_IDLE_TIME)?;
            reading.claim = Some(idle);
            i += 1;
        } else {
            return Err(Fail::SYNTAX);
        }
        i += 1;
    }
    if reading.keys.is_empty() {
        return Err(Fail::SYNTAX);
    }
    if grouped && reading.group.is_none() {
        return Err(GROUP_MISSING);
    }
    if reading.count != usize::MAX && max_count.is_some_and(|max| max < reading.count) {
        return Err(MAX_COUNT_BELOW_COUNT);
    }
    let budget = [max_count, max_size].map(|max| max.unwrap_or(usize::MAX));
    reading.budget = Budget::new(budget[0], budget[1]);
    Ok(reading)
}

/// The error unless a condition holds.
fn only(holds: bool, fail: Fail) -> Result<(), Fail> {
    if holds { Ok(()) } else { Err(fail) }
}

/// Argument `i` as a number above 0.
fn positive(ctx: &Ctx<'_>, i: usize, fail: Fail) -> Result<usize, Fail> {
    let n = ctx.integer(i).ok().and_then(|n| usize::try_from(n).ok());
    n.filter(|&n| n > 0).ok_or(fail)
}
