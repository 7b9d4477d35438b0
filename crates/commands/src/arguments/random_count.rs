//! The counts of SRANDMEMBER, HRANDFIELD and ZRANDMEMBER: how many are drawn, and whether one may
//! be drawn twice.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{Pacer, UNITS_PER_ITEM};

/// Draws with repetition at most where nothing bounds their reply.
const REPEATED_MAX: u64 = 1 << 24;

/// Draws between two looks at how long the reply has become.
const RUN: usize = 4096;

const OUT_OF_RANGE: Fail = Fail::fixed("ERR value is out of range");

/// How many a command draws.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Draws {
    /// So many different ones, or all if there are not more.
    Distinct(usize),
    /// So many, each drawn from all.
    Repeated(usize),
}

impl Draws {
    /// The same if each comes with a value: half as many can be asked for.
    pub fn of_pairs(self) -> Result<Self, Fail> {
        if self.count() > i64::MAX as usize / 2 { Err(OUT_OF_RANGE) } else { Ok(self) }
    }

    /// How many are returned if there are enough.
    pub fn count(self) -> usize {
        match self {
            Draws::Distinct(count) | Draws::Repeated(count) => count,
        }
    }
}

/// Draws with repetition, a run at a time: `draw` says how long the reply is then. Once it is
/// `reply_max` long it ends, in its middle: its client is closed before any of it is sent.
///
/// # Errors
/// If the command is to end.
pub(crate) fn draw_repeated(
    count: usize,
    reply_max: Option<usize>,
    pacer: &mut Pacer,
    mut draw: impl FnMut(usize) -> usize,
) -> Outcome {
    let mut left = count;
    while left > 0 {
        let run = left.min(RUN);
        pacer.pace_reply(run * UNITS_PER_ITEM)?;
        let written = draw(run);
        left -= run;
        if reply_max.is_some_and(|max| written >= max) {
            return Ok(());
        }
    }
    Ok(())
}

/// Argument `i` as a count: a negative one asks for repetition.
pub(crate) fn draws(ctx: &mut Ctx<'_>, i: usize) -> Result<Draws, Fail> {
    let count = ctx.integer(i)?;
    if count == i64::MIN {
        return Err(Fail::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let magnitude = count.unsigned_abs();
    if count >= 0 {
        Ok(Draws::Distinct(usize::try_from(magnitude).unwrap_or(usize::MAX)))
    } else if magnitude <= REPEATED_MAX || ctx.reply_max().is_some() {
        Ok(Draws::Repeated(magnitude as usize))
    } else {
        Err(OUT_OF_RANGE)
    }
}
