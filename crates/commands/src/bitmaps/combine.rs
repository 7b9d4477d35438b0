//! BITOP: combines strings bit by bit. It works block by block, so that each source is read once
//! and only the result is allocated.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::Pacer;
use petrel_keyspace::{StrRef, Value};

/// Size of a block in bytes. A block of the result stays in the L1 cache while the sources are
/// combined into it.
const BLOCK: usize = 4096;

/// Units for combining one block with another.
const UNITS_PER_BLOCK: usize = 32;

/// Operation on the bits of all sources at one offset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Operation {
    And,
    Or,
    Xor,
    /// Inverted; for one source only.
    Not,
    /// In the first source, and in no other.
    Diff,
    /// Not in the first source, but in another.
    Diff1,
    /// In the first source, and in another.
    AndOr,
    /// In exactly one source.
    One,
}

impl Operation {
    fn parse(text: &[u8]) -> Option<Self> {
        const NAMES: [(&[u8], Operation); 8] = [
            (b"and", Operation::And),
            (b"or", Operation::Or),
            (b"xor", Operation::Xor),
            (b"not", Operation::Not),
            (b"diff", Operation::Diff),
            (b"diff1", Operation::Diff1),
            (b"andor", Operation::AndOr),
            (b"one", Operation::One),
        ];
        NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, found)| *found)
    }

    /// Checks the number of sources.
    fn check(self, sources: usize) -> Outcome {
        let wrong = match self {
            Operation::Not if sources != 1 => "BITOP NOT must be called with a single source key.",
            Operation::Diff if sources < 2 => {
                "BITOP DIFF must be called with at least two source keys."
            }
            Operation::Diff1 if sources < 2 => {
                "BITOP DIFF1 must be called with at least two source keys."
            }
            Operation::AndOr if sources < 2 => {
                "BITOP ANDOR must be called with at least two source keys."
            }
            _ => return Ok(()),
        };
        Err(Fail::new(format!("ERR {wrong}")))
    }

    /// Computes the block of the result that begins at `at`. `out` is zero.
    fn fill(self, out: &mut [u8], at: usize, sources: &[&[u8]]) {
        let [first, others @ ..] = sources else { return };
        let len = out.len();
        let first = block(first, at, len);
        let others = others.iter().map(|source| block(source, at, len));
        match self {
            Operation::And => {
                merge(out, first, |_, b| b);
                others.for_each(|other| merge(out, other, |a, b| a & b));
            }
            Operation::Or => {
                merge(out, first, |_, b| b);
                others.for_each(|other| merge_overlap(out, other, |a, b| a | b));
            }
            Operation::Xor => {
                merge(out, first, |_, b| b);
                others.for_each(|other| merge_overlap(out, other, |a, b| a ^ b));
            }
            Operation::Not => merge(out, first, |_, b| !b),
            Operation::Diff | Operation::Diff1 | Operation::AndOr => {
                others.for_each(|other| merge_overlap(out, other, |a, b| a | b));
                match self {
                    Operation::Diff => merge(out, first, |any, x| x & !any),
                    Operation::Diff1 => merge(out, first, |any, x| any & !x),
                    _ => merge(out, first, |any, x| any & x),
                }
            }
            Operation::One => {
                let mut many = [0; BLOCK];
                merge(out, first, |_, b| b);
                for other in others {
                    let seen = out.iter_mut().zip(&mut many).zip(other);
                    seen.for_each(|((once, many), byte)| {
                        *many |= *once & byte;
                        *once |= byte;
                    });
                }
                merge_overlap(out, &many, |once, many| once & !many);
            }
        }
    }
}

/// `BITOP AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destkey key [key ...]`
pub(super) fn bitop(ctx: &mut Ctx<'_>) -> Outcome {
    let operation = Operation::parse(ctx.arg(1)).ok_or(Fail::SYNTAX)?;
    operation.check(ctx.args().len() - 3)?;
    let db = ctx.db();
    for i in 3..ctx.args().len() {
        let key = ctx.key(i);
        ctx.exec.ks.read(db, key);
    }
    let mut pacer = ctx.exec.pacer();
    let result = combine(ctx, operation, &mut pacer)?;
    let (len, key) = (result.len(), ctx.key(2));
    if len == 0 {
        ctx.exec.ks.remove(db, key);
    } else {
        ctx.exec.ks.put(db, key, Value::Raw(result.into()), None);
    }
    ctx.number(len as i64)
}

fn combine(ctx: &Ctx<'_>, operation: Operation, pacer: &mut Pacer) -> Result<Vec<u8>, Fail> {
    let keys = 3..ctx.args().len();
    let views = keys.map(|i| ctx.exec.ks.view(ctx.session.db, ctx.key(i)));
    let values: Vec<_> = views
        .map(|view| view.map_or(Ok(StrRef::Bytes(b"")), |view| view.string()))
        .collect::<Result<_, _>>()?;
    let mut digits = vec![itoa::Buffer::new(); values.len()];
    let sources: Vec<_> =
        values.iter().zip(&mut digits).map(|(value, digits)| value.bytes(digits)).collect();
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    // Checked before memory for the result is allocated.
    pacer.pace(len / BLOCK * UNITS_PER_BLOCK)?;
    let _held = ctx.hold_growth(len)?;
    let mut result = vec![0; len];
    for (i, out) in result.chunks_mut(BLOCK).enumerate() {
        pacer.pace(UNITS_PER_BLOCK * sources.len())?;
        operation.fill(out, i * BLOCK, &sources);
    }
    Ok(result)
}

/// The part of a source that is in a block; shorter at the end of the source.
fn block(source: &[u8], at: usize, len: usize) -> &[u8] {
    let begin = at.min(source.len());
    &source[begin..(at + len).min(source.len())]
}

/// Combines each byte with that of a source. A short source counts as followed by zeros.
#[inline(always)]
fn merge(out: &mut [u8], source: &[u8], with: impl Fn(u8, u8) -> u8) {
    let (overlap, rest) = out.split_at_mut(source.len());
    merge_overlap(overlap, source, &with);
    rest.iter_mut().for_each(|byte| *byte = with(*byte, 0));
}

/// Like [`merge`], for operations that a zero of the source leaves unchanged.
#[inline(always)]
fn merge_overlap(out: &mut [u8], source: &[u8], with: impl Fn(u8, u8) -> u8) {
    out.iter_mut().zip(source).for_each(|(byte, other)| *byte = with(*byte, *other));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(operation: Operation, bytes: &[u8]) -> u8 {
        let (x, ys) = (bytes[0], &bytes[1..]);
        let any = ys.iter().fold(0, |any, y| any | y);
        match operation {
            Operation::And => bytes.iter().fold(0xff, |all, byte| all & byte),
            Operation::Or => x | any,
            Operation::Xor => bytes.iter().fold(0, |odd, byte| odd ^ byte),
            Operation::Not => !x,
            Operation::Diff => x & !any,
            Operation::Diff1 => any & !x,
            Operation::AndOr => x & any,
            Operation::One => (0..8)
                .filter(|bit| bytes.iter().filter(|byte| **byte >> bit & 1 == 1).count() == 1)
                .fold(0, |byte, bit| byte | 1 << bit),
        }
    }

    #[test]
    fn each_byte_of_the_result_follows_from_those_of_the_sources() {
        let source = |len: usize, factor: usize| -> Vec<u8> {
            (0..len).map(|i| (i * factor / 3 % 256) as u8).collect()
        };
        let sources =
            [source(BLOCK + 9, 7), source(3 * BLOCK, 11), source(0, 1), source(BLOCK - 1, 13)];
        let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let operations =
            ["and", "OR", "xor", "not", "diff", "diff1", "andor", "one"].map(str::as_bytes);
        for operation in operations.map(|name| Operation::parse(name).unwrap()) {
            let mut result = vec![0; 3 * BLOCK];
            for (i, out) in result.chunks_mut(BLOCK).enumerate() {
                operation.fill(out, i * BLOCK, &sources);
            }
            for (at, byte) in result.iter().enumerate() {
                let bytes: Vec<u8> =
                    sources.iter().map(|s| s.get(at).copied().unwrap_or(0)).collect();
                assert_eq!(*byte, expected(operation, &bytes), "{operation:?} at {at}");
            }
        }
    }
}
