//! Commands on members by name: adding, removing, scores and ranks.

use super::read;
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::double;
use crate::spec::CommandSpec;
use petrel_keyspace::Naming;
use petrel_keyspace::types::sorted_set::ScoreChange;
use petrel_table::commands as meta;
use petrel_table::options::ZaddOption;

/// The commands of this file.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::ZADD, zadd),
    CommandSpec::new(&meta::ZINCRBY, zincrby),
    CommandSpec::new(&meta::ZREM, zrem),
    CommandSpec::new(&meta::ZCARD, zcard),
    CommandSpec::new(&meta::ZSCORE, zscore),
    CommandSpec::new(&meta::ZMSCORE, zmscore),
    CommandSpec::new(&meta::ZRANK, |ctx| rank(ctx, false)),
    CommandSpec::new(&meta::ZREVRANK, |ctx| rank(ctx, true)),
];

const NOT_A_NUMBER: Fail = Fail::fixed("ERR resulting score is not a number (NaN)");

/// Options of `ZADD`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddOptions {
    /// `NX`: existing members are not changed.
    pub only_new: bool,
    /// `XX`: no member is added.
    pub only_present: bool,
    /// `GT`: scores only grow.
    pub greater: bool,
    /// `LT`: scores only shrink.
    pub less: bool,
    /// `CH`: counts members with a changed score too.
    pub changed: bool,
    /// `INCR`: adds to the existing score.
    pub increment: bool,
}

impl AddOptions {
    fn check(&self, members: usize) -> Outcome {
        if self.only_new && self.only_present {
            return Err(Fail::fixed("ERR XX and NX options at the same time are not compatible"));
        }
        if usize::from(self.only_new) + usize::from(self.greater) + usize::from(self.less) > 1 {
            return Err(Fail::fixed(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increment && members > 1 {
            return Err(Fail::fixed("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// The new score of a member; `None` if it does not change.
    #[inline]
    fn decide(&self, old: Option<f64>, score: f64) -> Option<f64> {
        let Some(old) = old else { return (!self.only_present).then_some(score) };
        let new = if self.increment { old + score } else { score };
        let barred =
            self.only_new || self.greater && new <= old || self.less && new >= old || new.is_nan();
        (!barred).then_some(new)
    }
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`
fn zadd(ctx: &mut Ctx<'_>) -> Outcome {
    let mut options = AddOptions::default();
    let mut words = ctx.options(2);
    while let Some(option) = words.leading() {
        match option {
            ZaddOption::Nx => options.only_new = true,
            ZaddOption::Xx => options.only_present = true,
            ZaddOption::Ch => options.changed = true,
            ZaddOption::Gt => options.greater = true,
            ZaddOption::Lt => options.less = true,
            ZaddOption::Incr => options.increment = true,
        }
    }
    let from = ctx.position(&words);
    let pairs = ctx.args().len() - from;
    if pairs == 0 || !pairs.is_multiple_of(2) {
        return Err(Fail::SYNTAX);
    }
    options.check(pairs / 2)?;
    if options.increment {
        return increment(ctx, options, from);
    }
    if pairs == 2 {
        let score = parse_score(ctx, from)?;
        return add(ctx, options, &[score], from + 1..);
    }
    let scores: Result<Vec<f64>, Fail> =
        (from..ctx.args().len()).step_by(2).map(|i| parse_score(ctx, i)).collect();
    add(ctx, options, &scores?, (from + 1..).step_by(2))
}

#[inline]
fn parse_score(ctx: &Ctx<'_>, i: usize) -> Result<f64, Fail> {
    double::parse(ctx.arg(i)).ok_or(Fail::NOT_A_FLOAT)
}

/// Adds the members at some arguments, one per score, and returns the number added.
#[inline]
pub(crate) fn add(
    ctx: &mut Ctx<'_>,
    options: AddOptions,
    scores: &[f64],
    members: impl Iterator<Item = usize> + Clone,
) -> Outcome {
    if scores.len() > 1 && !options.only_present && create(ctx, scores, members.clone()) {
        return ctx.number(scores.len() as i64);
    }
    let (mut added, mut changed) = (0, 0);
    for (&score, member) in scores.iter().zip(members) {
        let ScoreChange { old, new } = change(ctx, options, member, score)?;
        added += i64::from(old.is_none() && new.is_some());
        changed += i64::from(old != new);
    }
    let (key, db) = (ctx.key(1), ctx.db());
    ctx.exec.ks.sorted_set_expect(db, key, scores.len());
    ctx.number(if options.changed { changed } else { added })
}

/// Creates a sorted set of all members at once, if the key does not exist and no member occurs
/// twice.
fn create(ctx: &mut Ctx<'_>, scores: &[f64], members: impl Iterator<Item = usize>) -> bool {
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.exec.ks.look(db, key).is_some() {
        return false;
    }
    let members = members.map(|member| ctx.arg(member));
    let mut members: Vec<(f64, &[u8])> = scores.iter().copied().zip(members).collect();
    ctx.exec.ks.sorted_set_create(db, key, &mut members)
}

#[inline]
fn change(
    ctx: &mut Ctx<'_>,
    options: AddOptions,
    member: usize,
    score: f64,
) -> Result<ScoreChange, Fail> {
    let (key, db, member) = (ctx.key(1), ctx.db(), ctx.arg(member));
    let decide = |old| options.decide(old, score);
    Ok(ctx.exec.ks.sorted_set_change(db, key, member, score, decide)?)
}

/// `ZINCRBY key increment member`
fn zincrby(ctx: &mut Ctx<'_>) -> Outcome {
    increment(ctx, AddOptions { increment: true, ..AddOptions::default() }, 2)
}

/// Adds argument `at` to the score of the next argument's member, and replies with the sum.
fn increment(ctx: &mut Ctx<'_>, options: AddOptions, at: usize) -> Outcome {
    let delta = parse_score(ctx, at)?;
    ctx.exec.ks.name_events(Naming::As("zincr"));
    let (key, db, member) = (ctx.key(1), ctx.db(), ctx.arg(at + 1));
    let (mut acts, mut sum) = (false, 0.0);
    ctx.exec.ks.sorted_set_change(db, key, member, delta, |old| {
        sum = old.map_or(delta, |old| old + delta);
        let new = options.decide(old, delta);
        acts = new.is_some();
        new
    })?;
    if sum.is_nan() && !options.only_new {
        return Err(NOT_A_NUMBER);
    }
    if acts {
        ctx.reply.double(sum)
    } else {
        ctx.reply.null()
    }
    Ok(())
}

/// `ZREM key member [member ...]`
fn zrem(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let mut removed = 0;
    for member in &ctx.args()[2..] {
        removed += i64::from(ctx.exec.ks.sorted_set_remove(db, key, member)?.is_some());
    }
    ctx.number(removed)
}

/// `ZCARD key`
fn zcard(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let len = read(&mut ctx.exec.ks, db, key)?.map_or(0, |set| set.len());
    ctx.number(len as i64)
}

/// `ZSCORE key member`
fn zscore(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, member) = (ctx.key(1), ctx.db(), ctx.arg(2));
    match read(&mut ctx.exec.ks, db, key)?.and_then(|set| set.score(member)) {
        Some(score) => ctx.reply.double(score),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `ZMSCORE key member [member ...]`
fn zmscore(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, members) = (ctx.key(1), ctx.db(), &ctx.args()[2..]);
    let set = read(&mut ctx.exec.ks, db, key)?;
    ctx.reply.array(members.len());
    for member in members {
        match set.and_then(|set| set.score(member)) {
            Some(score) => ctx.reply.double(score),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// `ZRANK key member [WITHSCORE]`, and `ZREVRANK`, which counts from the other end
fn rank(ctx: &mut Ctx<'_>, from_end: bool) -> Outcome {
    let with_score = match ctx.args().len() {
        3 => false,
        4 if ctx.is(3, "WITHSCORE") => true,
        4 => return Err(Fail::SYNTAX),
        _ => return Err(ctx.wrong_arity()),
    };
    let (key, db, member) = (ctx.key(1), ctx.db(), ctx.arg(2));
    let set = read(&mut ctx.exec.ks, db, key)?;
    let found = set.and_then(|set| {
        let (rank, score) = set.rank(member)?;
        Some((if from_end { set.len() - 1 - rank } else { rank }, score))
    });
    let Some((rank, score)) = found else {
        if with_score {
            ctx.reply.null_array()
        } else {
            ctx.reply.null()
        }
        return Ok(());
    };
    if with_score {
        ctx.reply.array(2);
    }
    ctx.reply.integer(rank as i64);
    if with_score {
        ctx.reply.double(score);
    }
    Ok(())
}
