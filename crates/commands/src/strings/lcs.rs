//! LCS: the longest common subsequence of two strings.
//!
//! The time is proportional to the product of the lengths, so the comparison works on copies
//! without a locked stripe (large values are shared, not copied).

use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::long::expect;
use crate::numbers::integer;
use crate::spec::{CommandSpec, Locks};
use bytes::Bytes;
use petrel_table::commands as meta;
use petrel_table::options::LcsOption;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::new(&meta::LCS, lcs).locking(Locks::Itself)];

/// Table cells per unit of work (about ten nanoseconds).
const CELLS_PER_UNIT: usize = 4;

#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    min_match_len: usize,
}

/// Run of equal bytes, with its start in each string.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Match {
    a: usize,
    b: usize,
    len: usize,
}

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]`
fn lcs(ctx: &mut Ctx<'_>) -> Outcome {
    let [a, b] = strings(ctx)?;
    let options = options(ctx)?;
    let row = b.len() as u128 + 1;
    let bytes = (a.len() as u128 + 1) * row * size_of::<u32>() as u128;
    if a.len().max(b.len()) >= u32::MAX as usize - 1 {
        return Err(Fail::fixed("ERR String too long for LCS"));
    }
    if bytes > ctx.host.string_len_max() as u128 {
        return Err(Fail::fixed(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    expect((a.len() * row as usize) / CELLS_PER_UNIT, ctx.exec.units_here)?;
    let rows = if options.len { 2 } else { a.len() + 1 };
    let _held = ctx.exec.ks.hold(rows * (b.len() + 1) * size_of::<u32>())?;
    if options.len {
        let length = length(ctx, &a, &b)?;
        return ctx.number(i64::from(length));
    }
    let matches = matches(ctx, &a, &b)?;
    if options.idx {
        write_matches(ctx, &matches, &options);
    } else {
        let common: Vec<u8> =
            matches.iter().rev().flat_map(|m| &a[m.a..m.a + m.len]).copied().collect();
        ctx.reply.bulk(&common);
    }
    Ok(())
}

fn options(ctx: &Ctx<'_>) -> Result<Options, Fail> {
    let mut options = Options::default();
    for option in ctx.options(3) {
        match option? {
            LcsOption::Idx => options.idx = true,
            LcsOption::Len => options.len = true,
            LcsOption::Withmatchlen => options.with_match_len = true,
            LcsOption::Minmatchlen(n) => options.min_match_len = integer(n)?.max(0) as usize,
        }
    }
    if options.idx && options.len {
        return Err(Fail::fixed(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    Ok(options)
}

/// Copies of both strings, taken under one lock.
fn strings(ctx: &mut Ctx<'_>) -> Result<[Bytes; 2], Fail> {
    let (keys, db) = ([ctx.key(1), ctx.key(2)], ctx.db());
    let gives_way = ctx.gives_way();
    let Executor { ks, shared, .. } = &mut *ctx.exec;
    let nested = ks.holds_any();
    let is_kept = || {
        shared.scripts.running.is_busy()
            || gives_way && keys.iter().any(|key| shared.long.holds(key.hash))
    };
    if !nested && !ks.lock_many_unless(keys.iter().map(|key| key.hash), is_kept) {
        return Err(ctx.exec.kept_out());
    }
    let copies = keys.map(|key| match ks.read(db, key) {
        Some(view) => view.string().map(|value| value.to_bytes()),
        None => Ok(Bytes::new()),
    });
    if !nested {
        ks.unlock();
    }
    match copies {
        [Ok(a), Ok(b)] => Ok([a, b]),
        _ => Err(Fail::fixed("ERR The specified keys must contain string values")),
    }
}

/// Computes the length only, with two rows of the table.
fn length(ctx: &mut Ctx<'_>, a: &[u8], b: &[u8]) -> Result<u32, Fail> {
    let mut above = vec![0; b.len() + 1];
    let mut row = above.clone();
    for &byte in a {
        ctx.pace(1 + b.len() / CELLS_PER_UNIT)?;
        fill_row(&above, &mut row, byte, b);
        std::mem::swap(&mut above, &mut row);
    }
    Ok(above[b.len()])
}

/// Fills a row of the table: lengths for every prefix of `b`, given the row above.
fn fill_row(above: &[u32], row: &mut [u32], byte: u8, b: &[u8]) {
    let mut left = 0;
    for j in 0..b.len() {
        left = if b[j] == byte { above[j] + 1 } else { above[j + 1].max(left) };
        row[j + 1] = left;
    }
}

/// Computes the runs of the subsequence, last first. Among subsequences of equal length, it prefers
/// steps back in `b`, as Redis does.
fn matches(ctx: &mut Ctx<'_>, a: &[u8], b: &[u8]) -> Result<Vec<Match>, Fail> {
    let row = b.len() + 1;
    let mut table: Vec<u32> = Vec::new();
    table.try_reserve_exact((a.len() + 1) * row).map_err(|_| {
        Fail::fixed("ERR Insufficient memory, failed allocating transient memory for LCS")
    })?;
    table.resize((a.len() + 1) * row, 0);
    for (i, &byte) in a.iter().enumerate() {
        ctx.pace(1 + b.len() / CELLS_PER_UNIT)?;
        let (above, below) = table.split_at_mut((i + 1) * row);
        fill_row(&above[i * row..], &mut below[..row], byte, b);
    }

    let mut matches: Vec<Match> = Vec::new();
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            match matches.last_mut() {
                Some(run) if run.a == i && run.b == j => {
                    *run = Match { a: i - 1, b: j - 1, len: run.len + 1 };
                }
                _ => matches.push(Match { a: i - 1, b: j - 1, len: 1 }),
            }
            i -= 1;
            j -= 1;
        } else if table[(i - 1) * row + j] > table[i * row + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    Ok(matches)
}

fn write_matches(ctx: &mut Ctx<'_>, matches: &[Match], options: &Options) {
    let long: Vec<&Match> = matches.iter().filter(|m| m.len >= options.min_match_len).collect();
    ctx.reply.map(2);
    ctx.reply.bulk(b"matches");
    ctx.reply.array(long.len());
    for run in long {
        ctx.reply.array(if options.with_match_len { 3 } else { 2 });
        for begin in [run.a, run.b] {
            ctx.reply.array(2);
            ctx.reply.integer(begin as i64);
            ctx.reply.integer((begin + run.len - 1) as i64);
        }
        if options.with_match_len {
            ctx.reply.integer(run.len as i64);
        }
    }
    ctx.reply.bulk(b"len");
    ctx.reply.integer(matches.iter().map(|run| run.len as i64).sum());
}
