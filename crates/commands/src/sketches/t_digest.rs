//! t-digests: quantiles of a stream of numbers.
//!
//! A command that reads does so from merged nodes, but does not change the digest.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::expect;
use crate::numbers::double;
use crate::spec::CommandSpec;
use petrel_keyspace::custom::Held;
use petrel_keyspace::t_digest::{self, COMPRESSION_MAX, DigestRef, Overflow, TDigest, TYPE};
use petrel_keyspace::{Type, View, WrongType, parse_int};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::TDIGEST_CREATE, create),
    CommandSpec::new(&meta::TDIGEST_ADD, add),
    CommandSpec::new(&meta::TDIGEST_RESET, reset),
    CommandSpec::new(&meta::TDIGEST_MERGE, merge),
    CommandSpec::new(&meta::TDIGEST_MIN, |ctx| end(ctx, TDigest::min)),
    CommandSpec::new(&meta::TDIGEST_MAX, |ctx| end(ctx, TDigest::max)),
    CommandSpec::new(&meta::TDIGEST_QUANTILE, quantile),
    CommandSpec::new(&meta::TDIGEST_CDF, cdf),
    CommandSpec::new(&meta::TDIGEST_RANK, |ctx| rank(ctx, false)),
    CommandSpec::new(&meta::TDIGEST_REVRANK, |ctx| rank(ctx, true)),
    CommandSpec::new(&meta::TDIGEST_BYRANK, |ctx| by_rank(ctx, false)),
    CommandSpec::new(&meta::TDIGEST_BYREVRANK, |ctx| by_rank(ctx, true)),
    CommandSpec::new(&meta::TDIGEST_TRIMMED_MEAN, trimmed_mean),
    CommandSpec::new(&meta::TDIGEST_INFO, info),
];

/// Compression of a digest that is made without stating it.
const COMPRESSION: u64 = 100;

/// Units of work for sorting and merging a node.
const UNITS_PER_NODE: usize = 8;

/// Nodes that are looked at in a unit of work.
const NODES_PER_UNIT: usize = 4;

const NO_KEY: Fail = Fail::fixed("ERR T-Digest: key does not exist");
const EXISTS: Fail = Fail::fixed("ERR T-Digest: key already exists");
const TOO_LARGE: Fail = Fail::fixed("ERR T-Digest: allocation failed");

impl From<Overflow> for Fail {
    fn from(Overflow: Overflow) -> Self {
        Fail::fixed("ERR T-Digest: overflow detected")
    }
}

fn digest_of(view: View<'_>) -> Result<DigestRef<'_>, WrongType> {
    match view.held() {
        // Packed values do not tell their type.
        Some(Held::Packed(_)) if view.type_of() != Type::Custom(TYPE.number) => Err(WrongType),
        held => held.and_then(DigestRef::of).ok_or(WrongType),
    }
}

/// The digest of key `i`.
fn digest<'a>(ctx: &'a mut Ctx<'_>, i: usize) -> Result<DigestRef<'a>, Fail> {
    let (key, db) = (ctx.key(i), ctx.db());
    let view = ctx.exec.ks.read(db, key).ok_or(NO_KEY)?;
    Ok(digest_of(view)?)
}

/// The digest of the first key, which is to be changed.
fn digest_to_change<'a>(ctx: &'a mut Ctx<'_>) -> Result<Option<DigestRef<'a>>, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    Ok(ctx.exec.ks.look(db, key).map(digest_of).transpose()?)
}

/// A compression that is asked for.
fn compression(text: &[u8]) -> Result<u64, Fail> {
    let number =
        parse_int(text).ok_or(Fail::fixed("ERR T-Digest: error parsing compression parameter"))?;
    match u64::try_from(number) {
        Err(_) | Ok(0) => {
            let text = "ERR T-Digest: compression parameter needs to be a positive integer";
            Err(Fail::fixed(text))
        }
        Ok(number) if number > COMPRESSION_MAX => Err(TOO_LARGE),
        Ok(number) => Ok(number),
    }
}

/// `TDIGEST.CREATE key [COMPRESSION compression]`
fn create(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    if !matches!(ctx.args().len(), 2 | 4) {
        return Err(ctx.wrong_arity());
    }
    if digest_to_change(ctx)?.is_some() {
        return Err(EXISTS);
    }
    let compression = match ctx.args().get(3) {
        None => COMPRESSION,
        Some(_) if !ctx.is(2, "COMPRESSION") => {
            return Err(Fail::fixed("ERR T-Digest: wrong keyword"));
        }
        Some(text) => compression(text)?,
    };
    if !t_digest::make(&mut ctx.exec.ks.slot(db, key, &TYPE)?, compression) {
        return Err(TOO_LARGE);
    }
    ctx.ok()
}

/// `TDIGEST.ADD key value...`
fn add(ctx: &mut Ctx<'_>) -> Outcome {
    const BAD: Fail = Fail::fixed("ERR T-Digest: error parsing val parameter");
    const INFINITE: Fail = Fail::fixed("ERR T-Digest: val parameter needs to be a finite number");
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    let texts = &ctx.args()[2..];
    let digest = digest_to_change(ctx)?.ok_or(NO_KEY)?;
    let is_merged = digest.nodes().len() + texts.len() >= digest.capacity();
    let nodes = if is_merged { digest.capacity() } else { 0 };
    expect((nodes + texts.len()).saturating_mul(UNITS_PER_NODE), here)?;
    let growth = digest.growth(texts.len());
    drop(digest);
    let number = |text: &&[u8]| match double::parse(text).ok_or(BAD)? {
        number if number.is_finite() => Ok(number),
        _ => Err(INFINITE),
    };
    let numbers = texts.iter().map(number).collect::<Result<Vec<f64>, Fail>>()?;
    let _held = ctx.hold_growth(growth)?;
    t_digest::add(&mut ctx.exec.ks.slot(db, key, &TYPE)?, &numbers)?;
    ctx.ok()
}

/// `TDIGEST.RESET key`
fn reset(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    digest_to_change(ctx)?.ok_or(NO_KEY)?;
    t_digest::reset(&mut ctx.exec.ks.slot(db, key, &TYPE)?);
    ctx.ok()
}

/// The arguments of `TDIGEST.MERGE`.
struct Merge {
    sources: usize,
    compression: Option<u64>,
    overrides: bool,
}

/// Reads the arguments of `TDIGEST.MERGE`. Redis looks for the words anywhere, and for none
/// beside one that it found.
fn merge_arguments(ctx: &Ctx<'_>) -> Result<Merge, Fail> {
    let count = parse_int(ctx.arg(2)).ok_or(Fail::fixed("ERR T-Digest: error parsing numkeys"))?;
    if count < 1 {
        return Err(Fail::fixed("ERR T-Digest: numkeys needs to be a positive integer"));
    }
    let sources = usize::try_from(count).unwrap_or(usize::MAX);
    let Some(words) = sources.checked_add(3).and_then(|from| ctx.args().get(from..)) else {
        return Err(ctx.wrong_arity());
    };
    let find = |word: &str| words.iter().position(|w| w.eq_ignore_ascii_case(word.as_bytes()));
    let (overrides, at) = (find("OVERRIDE").is_some(), find("COMPRESSION"));
    let compression = match at.map(|at| words.get(at + 1)) {
        Some(None) => return Err(ctx.wrong_arity()),
        Some(Some(text)) => Some(compression(text)?),
        None if overrides || words.is_empty() => None,
        None => return Err(Fail::fixed("ERR T-Digest: wrong keyword")),
    };
    Ok(Merge { sources, compression, overrides })
}

/// `TDIGEST.MERGE destination numkeys source... [COMPRESSION compression] [OVERRIDE]`
fn merge(ctx: &mut Ctx<'_>) -> Outcome {
    let (db, here) = (ctx.db(), ctx.exec.units_here);
    // The keys are locked only if there are as many as are announced.
    let asked = merge_arguments(ctx)?;
    let before = digest_to_change(ctx)?.is_some();
    let from = if before && !asked.overrides { vec![1] } else { Vec::new() };
    // A destination that stays keeps its compression.
    let compression = match (asked.compression, from.first()) {
        (Some(compression), _) => Some(compression),
        (None, Some(&destination)) => Some(digest(ctx, destination)?.compression()),
        (None, None) => None,
    };
    let from = [from, (3..3 + asked.sources).collect()].concat();
    let (mut nodes, mut highest) = (0, 0);
    for &i in &from {
        let source = digest(ctx, i)?;
        nodes += source.nodes().len();
        highest = highest.max(source.compression());
    }
    let compression = compression.unwrap_or(highest);
    expect(nodes.saturating_mul(2 * UNITS_PER_NODE), here)?;
    let mut merged = TDigest::new(compression).ok_or(TOO_LARGE)?;
    let held = ctx.hold_growth(merged.growth(nodes))?;
    let mut pacer = ctx.exec.pacer();
    for &i in &from {
        let source = digest(ctx, i)?;
        pacer.pace(source.nodes().len() * 2 * UNITS_PER_NODE)?;
        merged.merge(&source)?;
    }
    let (key, value) = (ctx.key(1), t_digest::loaded(merged));
    ctx.exec.ks.store_loaded(db, key, &TYPE, value);
    drop(held);
    ctx.ok()
}

/// `TDIGEST.MIN key`, `TDIGEST.MAX key`
fn end(ctx: &mut Ctx<'_>, end: fn(&TDigest) -> f64) -> Outcome {
    let digest = digest(ctx, 1)?;
    let number = if digest.nodes().is_empty() { f64::NAN } else { end(&digest) };
    drop(digest);
    ctx.reply.double(number);
    Ok(())
}

/// Returns `look` of the merged digest for each argument, which `parse` has read.
fn look<A, R>(
    ctx: &mut Ctx<'_>,
    parse: impl Fn(&[u8]) -> Result<A, Fail>,
    look: impl Fn(&TDigest, A) -> R,
) -> Result<Vec<R>, Fail> {
    let (texts, here, mut pacer) = (&ctx.args()[2..], ctx.exec.units_here, ctx.exec.pacer());
    let digest = digest(ctx, 1)?;
    let nodes = digest.nodes().len();
    let sorted = if digest.unmerged() > 0 { nodes * UNITS_PER_NODE } else { 0 };
    let each = nodes / NODES_PER_UNIT + 1;
    expect(sorted.saturating_add(texts.len().saturating_mul(each)), here)?;
    let asked = texts.iter().map(|text| parse(text)).collect::<Result<Vec<A>, Fail>>()?;
    digest.with_merged(|merged| {
        let found = asked.into_iter().map(|asked| {
            pacer.pace(each)?;
            Ok(look(merged, asked))
        });
        found.collect()
    })
}

fn write_doubles(ctx: &mut Ctx<'_>, numbers: &[f64]) {
    ctx.reply.array(numbers.len());
    numbers.iter().for_each(|&number| ctx.reply.double(number));
}

/// `TDIGEST.QUANTILE key quantile...`
fn quantile(ctx: &mut Ctx<'_>) -> Outcome {
    let parse = |text: &[u8]| {
        let share =
            double::parse(text).ok_or(Fail::fixed("ERR T-Digest: error parsing quantile"))?;
        let is_share = (0.0..=1.0).contains(&share);
        if is_share {
            Ok(share)
        } else {
            Err(Fail::fixed("ERR T-Digest: quantile should be in [0,1]"))
        }
    };
    let numbers = look(ctx, parse, TDigest::quantile)?;
    write_doubles(ctx, &numbers);
    Ok(())
}

/// `TDIGEST.CDF key value...`
fn cdf(ctx: &mut Ctx<'_>) -> Outcome {
    let parse =
        |text: &[u8]| double::parse(text).ok_or(Fail::fixed("ERR T-Digest: error parsing cdf"));
    let shares = look(ctx, parse, TDigest::cdf)?;
    write_doubles(ctx, &shares);
    Ok(())
}

/// Count of all numbers below this one, or above it, half of its own included.
fn rank_of(digest: &TDigest, number: f64, is_reverse: bool) -> i64 {
    let count = digest.weight();
    if count == 0.0 {
        return -2;
    }
    let (below, above) = (number < digest.min(), number > digest.max());
    match (below, above, is_reverse) {
        (true, _, false) | (_, true, true) => -1,
        (true, _, true) | (_, true, false) => count as i64,
        _ => {
            let share = digest.cdf(number) * count;
            let rank = if is_reverse { count - share } else { share };
            // Halves are rounded down.
            (rank - 0.5).ceil() as i64
        }
    }
}

/// `TDIGEST.RANK key value...`, `TDIGEST.REVRANK key value...`
fn rank(ctx: &mut Ctx<'_>, is_reverse: bool) -> Outcome {
    let parse =
        |text: &[u8]| double::parse(text).ok_or(Fail::fixed("ERR T-Digest: error parsing value"));
    let ranks = look(ctx, parse, |digest, number| rank_of(digest, number, is_reverse))?;
    ctx.reply.array(ranks.len());
    ranks.into_iter().for_each(|rank| ctx.reply.integer(rank));
    Ok(())
}

/// The number of a rank; infinite beyond the last.
fn at_rank(digest: &TDigest, rank: f64, is_reverse: bool) -> f64 {
    let count = digest.weight();
    match (count == 0.0, rank >= count, is_reverse) {
        (true, ..) => f64::NAN,
        (_, true, false) => f64::INFINITY,
        (_, true, true) => f64::NEG_INFINITY,
        (.., false) => digest.quantile(rank / count),
        (.., true) => digest.quantile((count - rank - 1.0) / count),
    }
}

/// `TDIGEST.BYRANK key rank...`, `TDIGEST.BYREVRANK key reverse_rank...`
fn by_rank(ctx: &mut Ctx<'_>, is_reverse: bool) -> Outcome {
    let parse = |text: &[u8]| match parse_int(text) {
        None => Err(Fail::fixed("ERR T-Digest: error parsing rank")),
        Some(..0) => Err(Fail::fixed("ERR T-Digest: rank needs to be non negative")),
        Some(rank) => Ok(rank as f64),
    };
    let numbers = look(ctx, parse, |digest, rank| at_rank(digest, rank, is_reverse))?;
    write_doubles(ctx, &numbers);
    Ok(())
}

/// `TDIGEST.TRIMMED_MEAN key low_cut_quantile high_cut_quantile`
fn trimmed_mean(ctx: &mut Ctx<'_>) -> Outcome {
    const LOW: &str = "ERR T-Digest: error parsing low_cut_percentile";
    const HIGH: &str = "ERR T-Digest: error parsing high_cut_percentile";
    const RANGE: &str =
        "ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]";
    const ORDER: &str = "ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile";
    let here = ctx.exec.units_here;
    let (low, high) = (double::parse(ctx.arg(2)), double::parse(ctx.arg(3)));
    let digest = digest(ctx, 1)?;
    let (low, high) = (low.ok_or(Fail::fixed(LOW))?, high.ok_or(Fail::fixed(HIGH))?);
    if [low, high].iter().any(|share| !(0.0..=1.0).contains(share)) {
        return Err(Fail::fixed(RANGE));
    }
    if low >= high {
        return Err(Fail::fixed(ORDER));
    }
    expect(digest.nodes().len() * UNITS_PER_NODE, here)?;
    let mean = digest.with_merged(|digest| digest.trimmed_mean(low, high));
    drop(digest);
    ctx.reply.double(mean);
    Ok(())
}

/// `TDIGEST.INFO key`
fn info(ctx: &mut Ctx<'_>) -> Outcome {
    let digest = digest(ctx, 1)?;
    let figures = [
        ("Compression", digest.compression()),
        ("Capacity", digest.capacity() as u64),
        ("Merged nodes", digest.merged() as u64),
        ("Unmerged nodes", digest.unmerged() as u64),
        ("Merged weight", digest.merged_weight() as u64),
        ("Unmerged weight", digest.unmerged_weight() as u64),
        ("Observations", digest.weight() as u64),
        ("Total compressions", digest.compressions()),
        ("Memory usage", digest.memory_usage() as u64),
    ];
    drop(digest);
    ctx.reply.map(figures.len());
    for (name, figure) in figures {
        ctx.reply.simple(name);
        ctx.reply.integer(figure.cast_signed());
    }
    Ok(())
}
