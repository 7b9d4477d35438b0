//! Options of XREAD and XREADGROUP.

use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::numbers::integer;
use crate::streams::budget::Budget;
use petrel_table::options::StreamReadOption;
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

/// Arguments of XREAD or XREADGROUP.
pub(super) struct Reading<'a> {
    /// Entries of each stream; `usize::MAX` for all.
    pub count: usize,
    /// `MAXCOUNT` and `MAXSIZE`: limits on the whole reply.
    pub budget: Budget,
    /// `BLOCK`: the deadline; the inner `None` blocks forever.
    pub block: Option<Option<i64>>,
    /// `GROUP`: the group, and the consumer.
    pub group: Option<(&'a [u8], &'a [u8])>,
    /// `NOACK`.
    pub noack: bool,
    /// `CLAIM`: minimum idle time of pending entries, in milliseconds.
    pub claim: Option<i64>,
    /// Indices of the key arguments; their IDs follow.
    pub keys: Range<usize>,
}

impl Reading<'_> {
    /// Index of the ID for the key at argument `key`.
    pub fn id(&self, key: usize) -> usize {
        key + self.keys.len()
    }
}

/// Parses the options; `grouped`: of XREADGROUP.
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
    let mut options = ctx.options(1);
    while let Some(option) = options.next() {
        match option? {
            StreamReadOption::Block(millis) => reading.block = Some(ctx.timeout_millis(millis)?),
            StreamReadOption::Count(count) => {
                // 0 and negative counts mean all entries.
                let count = usize::try_from(integer(count)?).unwrap_or(0);
                reading.count = if count == 0 { usize::MAX } else { count };
            }
            StreamReadOption::Maxcount(max) => {
                max_count = Some(positive(max, MAX_COUNT_NOT_POSITIVE)?);
            }
            StreamReadOption::Maxsize(max) => {
                max_size = Some(positive(max, MAX_SIZE_NOT_POSITIVE)?);
            }
            StreamReadOption::Streams if !options.left().is_multiple_of(2) => {
                let read = ctx.dialect().choose(UNBALANCED_READ, UNBALANCED_READ_VALKEY);
                return Err(if grouped { UNBALANCED_GROUP } else { read });
            }
            StreamReadOption::Streams => {
                let first = ctx.position(&options);
                reading.keys = first..first + options.left() / 2;
                break;
            }
            StreamReadOption::Group(group, consumer) => {
                only(grouped, GROUP_IN_READ)?;
                reading.group = Some((group, consumer));
            }
            StreamReadOption::Noack => {
                only(grouped, NOACK_IN_READ)?;
                reading.noack = true;
            }
            StreamReadOption::Claim(idle) => {
                only(grouped, CLAIM_IN_READ)?;
                let idle = integer(idle).map_err(|_| NO_IDLE_TIME)?;
                only(idle >= 0, NEGATIVE_IDLE_TIME)?;
                reading.claim = Some(idle);
            }
        }
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

/// Returns the error unless a condition holds.
fn only(holds: bool, fail: Fail) -> Result<(), Fail> {
    if holds { Ok(()) } else { Err(fail) }
}

/// Parses a positive number.
fn positive(word: &[u8], fail: Fail) -> Result<usize, Fail> {
    let n = integer(word).ok().and_then(|n| usize::try_from(n).ok());
    n.filter(|&n| n > 0).ok_or(fail)
}
