//! Counts of SRANDMEMBER, HRANDFIELD and ZRANDMEMBER. A negative count allows repetition.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{Pacer, UNITS_PER_ITEM};

/// Maximum number of draws with repetition if nothing else limits the reply.
const REPEATED_MAX: u64 = 1 << 24;

/// Number of draws between two checks of the reply's length.
const RUN: usize = 4096;

const OUT_OF_RANGE: Fail = Fail::fixed("ERR value is out of range");

/// Number of elements to draw, with or without repetition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Draws {
    /// This number of different elements, or all if there are fewer.
    Distinct(usize),
    /// This number of elements, each drawn from all.
    Repeated(usize),
}

impl Draws {
    /// Checks the count of a reply that has a value for each element: its maximum is half as large.
    pub fn of_pairs(self) -> Result<Self, Fail> {
        if self.count() > i64::MAX as usize / 2 { Err(OUT_OF_RANGE) } else { Ok(self) }
    }

    /// Number of elements returned if there are enough.
    pub fn count(self) -> usize {
        match self {
            Draws::Distinct(count) | Draws::Repeated(count) => count,
        }
    }
}

/// Draws with repetition, one run after another. `draw` returns the length of the reply after a
/// run. At `reply_max` the reply ends in its middle; the client is closed before any of it is sent.
///
/// # Errors
/// Returns an error if the command is to end.
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

/// Argument `i` as a count; a negative one allows repetition.
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
