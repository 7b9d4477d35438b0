//! Unions, intersections and differences of sorted sets and sets. All scores of a set are 1.

use super::{Gathered, Listing};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::Pacer;
use crate::numbers::{double, integer};
use crate::spec::CommandSpec;
use petrel_keyspace::packed::Item;
use petrel_keyspace::types::sorted_set::SortedSetRef;
use petrel_keyspace::{SetOperation, SetRef, Type};
use petrel_table::commands as meta;
use petrel_table::options::{Reader, SortedSetAlgebraOption};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// The commands of this file.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::ZUNION, |ctx| list(ctx, SetOperation::Union)),
    CommandSpec::new(&meta::ZUNIONSTORE, |ctx| store(ctx, SetOperation::Union)),
    CommandSpec::new(&meta::ZINTER, |ctx| list(ctx, SetOperation::Intersection)),
    CommandSpec::new(&meta::ZINTERSTORE, |ctx| store(ctx, SetOperation::Intersection)),
    CommandSpec::new(&meta::ZINTERCARD, zintercard),
    CommandSpec::new(&meta::ZDIFF, |ctx| list(ctx, SetOperation::Difference)),
    CommandSpec::new(&meta::ZDIFFSTORE, |ctx| store(ctx, SetOperation::Difference)),
];

/// Score of the members of a set.
const SET_SCORE: f64 = 1.0;

/// Aggregation of a member's scores.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Aggregate {
    #[default]
    Sum,
    Least,
    Greatest,
    /// Sum of the weights of the operands with the member.
    Count,
}

impl Aggregate {
    fn parse(name: &[u8]) -> Result<Self, Fail> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match () {
            _ if is("SUM") => Ok(Aggregate::Sum),
            _ if is("MIN") => Ok(Aggregate::Least),
            _ if is("MAX") => Ok(Aggregate::Greatest),
            _ if is("COUNT") => Ok(Aggregate::Count),
            _ => Err(Fail::SYNTAX),
        }
    }

    /// Contribution of an operand to a member's score. Zero times infinity is 0, in either order.
    fn part(self, score: f64, weight: f64) -> f64 {
        if self == Aggregate::Count { weight } else { or_zero(score * weight) }
    }

    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Count => or_zero(a + b),
            Aggregate::Least => a.min(b),
            Aggregate::Greatest => a.max(b),
        }
    }
}

/// Replaces NaN, the sum of opposite infinities, with 0.
fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Arguments of a command.
struct Asked {
    /// Indices of the key arguments.
    keys: Range<usize>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: bool,
    /// `LIMIT` of `ZINTERCARD`.
    limit: usize,
}

/// Form of a command, which determines its options.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    List,
    Store,
    Count,
}

impl Asked {
    /// Parses `numkeys key [key ...] [options]` from argument `from` on.
    fn parse(
        ctx: &mut Ctx<'_>,
        from: usize,
        operation: SetOperation,
        form: Form,
    ) -> Result<Self, Fail> {
        let numkeys = match ctx.integer(from)? {
            numkeys @ 1.. => usize::try_from(numkeys).unwrap_or(usize::MAX),
            _ => {
                let name = ctx.command.spec.meta.name;
                let text = format!("ERR at least 1 input key is needed for '{name}' command");
                return Err(Fail::new(text));
            }
        };
        let keys = match (from + 1).checked_add(numkeys) {
            Some(end) if end <= ctx.args().len() => from + 1..end,
            _ => return Err(Fail::SYNTAX),
        };
        look_at(ctx, keys.clone())?;
        let mut asked = Asked {
            weights: vec![1.0; numkeys],
            aggregate: Aggregate::Sum,
            scores: false,
            limit: usize::MAX,
            keys,
        };
        let mut options = ctx.options(asked.keys.end);
        while let Some(option) = options.next() {
            asked.option(option?, &mut options, operation, form)?;
        }
        Ok(asked)
    }

    /// Parses an option with its operands.
    fn option<'a>(
        &mut self,
        option: SortedSetAlgebraOption<'a>,
        words: &mut Reader<'a, SortedSetAlgebraOption<'a>>,
        operation: SetOperation,
        form: Form,
    ) -> Outcome {
        let weighs = operation != SetOperation::Difference && form != Form::Count;
        match option {
            SortedSetAlgebraOption::Weights if weighs => {
                let stated = words.words(self.keys.len()).ok_or(Fail::SYNTAX)?;
                for (weight, text) in self.weights.iter_mut().zip(stated) {
                    *weight = double::parse(text)
                        .ok_or(Fail::fixed("ERR weight value is not a float"))?;
                }
            }
            SortedSetAlgebraOption::Aggregate(name) if weighs => {
                self.aggregate = Aggregate::parse(name)?;
            }
            SortedSetAlgebraOption::Withscores if form == Form::List => self.scores = true,
            SortedSetAlgebraOption::Limit(limit) if form == Form::Count => {
                let limit = integer(limit).ok().and_then(|limit| usize::try_from(limit).ok());
                let limit = limit.ok_or(Fail::fixed("ERR LIMIT can't be negative"))?;
                self.limit = if limit == 0 { usize::MAX } else { limit };
            }
            _ => return Err(Fail::SYNTAX),
        }
        Ok(())
    }
}

/// Counts the key reads for statistics, and checks that each key holds a set or a sorted set.
fn look_at(ctx: &mut Ctx<'_>, keys: Range<usize>) -> Outcome {
    for i in keys {
        let (key, db) = (ctx.key(i), ctx.db());
        let kind = ctx.exec.ks.read(db, key).map(|view| view.type_of());
        if !matches!(kind, None | Some(Type::Set | Type::SortedSet)) {
            return Err(Fail::WRONG_TYPE);
        }
    }
    Ok(())
}

/// Members of a set or sorted set.
#[derive(Clone, Copy)]
enum Members<'a> {
    Set(SetRef<'a>),
    Sorted(SortedSetRef<'a>),
}

impl<'a> Members<'a> {
    fn len(&self) -> usize {
        match self {
            Members::Set(set) => set.len(),
            Members::Sorted(set) => set.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Members::Set(set) => set.contains(member).then_some(SET_SCORE),
            Members::Sorted(set) => set.score(member),
        }
    }

    /// Calls `each` with members and scores until it breaks.
    fn try_each(&self, mut each: impl FnMut(Item<'a>, f64) -> ControlFlow<()>) {
        let _ = match self {
            Members::Set(set) => set.try_each(&mut |member| each(member, SET_SCORE)),
            Members::Sorted(set) => {
                set.range(0..usize::MAX).try_for_each(|(member, score)| each(member, score))
            }
        };
    }

    /// Calls `each` with members and scores until `pace` stops. Each member costs its lookups in
    /// other sets.
    fn each(
        &self,
        (pace, looks): (&mut Pace, usize),
        mut each: impl FnMut(Item<'a>, f64) -> ControlFlow<()>,
    ) {
        self.try_each(|member, score| {
            if !pace.pacer.goes_on(UNITS_PER_LOOK * (1 + looks), &mut pace.ended) {
                return ControlFlow::Break(());
            }
            each(member, score)
        });
    }
}

/// Work units for sorting and storing or returning a member.
const UNITS_PER_MEMBER: usize = 40;

/// Work units for looking up a member.
const UNITS_PER_LOOK: usize = 10;

/// Work done, and whether the command was aborted.
struct Pace {
    pacer: Pacer,
    ended: Outcome,
}

impl Pace {
    fn of(ctx: &Ctx<'_>) -> Self {
        Pace { pacer: ctx.exec.pacer(), ended: Ok(()) }
    }
}

/// Operand of a union, intersection or difference.
#[derive(Clone, Copy)]
struct Source<'a> {
    members: Members<'a>,
    weight: f64,
}

/// Operands in the order of the keys; `None` for missing keys.
fn sources<'a>(ctx: &'a Ctx<'_>, asked: &Asked) -> Vec<Option<Source<'a>>> {
    let view = |i: usize| ctx.exec.ks.view(ctx.session.db, ctx.key(i));
    let members = |i: usize| {
        let view = view(i)?;
        match view.sorted_set() {
            Ok(set) => Some(Members::Sorted(set)),
            Err(_) => view.set().ok().map(Members::Set),
        }
    };
    let weighed = asked.keys.clone().zip(&asked.weights);
    weighed.map(|(i, &weight)| members(i).map(|members| Source { members, weight })).collect()
}

/// Maximum bytes of the result's members: in a table, with their scores and in order.
fn bytes_max(ctx: &Ctx<'_>, operation: SetOperation, asked: &Asked) -> usize {
    const MEMBER_BYTES: usize =
        2 * size_of::<(Cow<'_, [u8]>, f64)>() + 2 * size_of::<(f64, &[u8])>();
    let mut keys: Vec<&[u8]> = asked.keys.clone().map(|i| ctx.arg(i)).collect();
    let lens = sources(ctx, asked).into_iter();
    let lens = lens.map(|source| source.map_or(0, |source| source.members.len()));
    let len = match operation {
        SetOperation::Union => {
            let mut lens: Vec<_> = keys.drain(..).zip(lens).collect();
            lens.sort_unstable();
            lens.dedup();
            lens.iter().map(|(_, len)| len).sum()
        }
        SetOperation::Intersection => lens.min().unwrap_or(0),
        SetOperation::Difference => lens.take(1).sum(),
    };
    len * MEMBER_BYTES
}

/// Computes the members of the result, in no order.
fn combine(ctx: &Ctx<'_>, operation: SetOperation, asked: &Asked) -> Result<Gathered, Fail> {
    let (sources, mut pace) = (sources(ctx, asked), Pace::of(ctx));
    let mut gathered = Gathered::default();
    match operation {
        SetOperation::Union => unite(&sources, asked.aggregate, &mut gathered, &mut pace),
        SetOperation::Intersection => {
            intersect(&sources, asked.aggregate, &mut pace, |member, score| {
                gathered.push_text(member, score);
                ControlFlow::Continue(())
            });
        }
        SetOperation::Difference => subtract(&sources, &mut gathered, &mut pace),
    }
    pace.ended?;
    // The remaining work, mainly sorting, is proportional to the result.
    pace.pacer.pace(gathered.len().saturating_mul(UNITS_PER_MEMBER))?;
    Ok(gathered)
}

/// Existing operands, smallest first.
fn by_len<'a>(sources: &[Option<Source<'a>>]) -> Vec<Source<'a>> {
    let mut sources: Vec<Source<'a>> = sources.iter().copied().flatten().collect();
    sources.sort_by_key(|source| source.members.len());
    sources
}

fn unite(
    sources: &[Option<Source<'_>>],
    aggregate: Aggregate,
    gathered: &mut Gathered,
    pace: &mut Pace,
) {
    let mut scores: HashMap<Cow<'_, [u8]>, f64> = HashMap::new();
    for Source { members, weight } in by_len(sources) {
        members.each((pace, 1), |member, score| {
            let part = aggregate.part(score, weight);
            let text = match member {
                Item::Text(text) => Cow::Borrowed(text),
                member => Cow::Owned(member.bytes(&mut itoa::Buffer::new()).to_vec()),
            };
            let total = scores.entry(text);
            total.and_modify(|total| *total = aggregate.of(*total, part)).or_insert(part);
            ControlFlow::Continue(())
        });
    }
    for (member, &score) in &scores {
        if !pace.pacer.goes_on(1, &mut pace.ended) {
            return;
        }
        gathered.push_text(member, score);
    }
}

/// Calls `each` with the members common to all operands until it breaks.
fn intersect(
    sources: &[Option<Source<'_>>],
    aggregate: Aggregate,
    pace: &mut Pace,
    mut each: impl FnMut(&[u8], f64) -> ControlFlow<()>,
) {
    if sources.iter().any(Option::is_none) {
        return;
    }
    let sorted = by_len(sources);
    let Some((smallest, others)) = sorted.split_first() else { return };
    smallest.members.each((pace, others.len()), |member, score| {
        let mut scratch = itoa::Buffer::new();
        let member = member.bytes(&mut scratch);
        let mut total = aggregate.part(score, smallest.weight);
        for other in others {
            let Some(score) = other.members.score(member) else {
                return ControlFlow::Continue(());
            };
            total = aggregate.of(total, aggregate.part(score, other.weight));
        }
        each(member, total)
    });
}

fn subtract(sources: &[Option<Source<'_>>], gathered: &mut Gathered, pace: &mut Pace) {
    let Some((Some(first), others)) = sources.split_first() else { return };
    first.members.each((pace, others.len()), |member, score| {
        let mut scratch = itoa::Buffer::new();
        let member = member.bytes(&mut scratch);
        let mut others = others.iter().flatten();
        if !others.any(|other| other.members.score(member).is_some()) {
            gathered.push_text(member, score);
        }
        ControlFlow::Continue(())
    });
}

/// `ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX |
/// COUNT>] [WITHSCORES]`, `ZINTER` likewise, `ZDIFF` without weights and aggregate
fn list(ctx: &mut Ctx<'_>, operation: SetOperation) -> Outcome {
    let asked = Asked::parse(ctx, 1, operation, Form::List)?;
    let _held = ctx.exec.ks.hold(bytes_max(ctx, operation, &asked))?;
    let members = combine(ctx, operation, &asked)?;
    let listing = Listing::with_scores(asked.scores, ctx.reply);
    let sorted = members.sorted();
    listing.begin(ctx.reply, sorted.len());
    for (score, member) in sorted {
        if ctx.reply.is_dropped() {
            break;
        }
        listing.write(ctx.reply, Item::Text(member), score);
    }
    Ok(())
}

/// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM |
/// MIN | MAX | COUNT>]`, `ZINTERSTORE` likewise, `ZDIFFSTORE` without options
fn store(ctx: &mut Ctx<'_>, operation: SetOperation) -> Outcome {
    let asked = Asked::parse(ctx, 2, operation, Form::Store)?;
    let _held = ctx.exec.ks.hold(bytes_max(ctx, operation, &asked))?;
    let members = combine(ctx, operation, &asked)?;
    let (destination, db) = (ctx.key(1), ctx.db());
    let len = members.store(&mut ctx.exec.ks, db, destination);
    ctx.number(len as i64)
}

/// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`
fn zintercard(ctx: &mut Ctx<'_>) -> Outcome {
    let asked = Asked::parse(ctx, 1, SetOperation::Intersection, Form::Count)?;
    let mut count = 0;
    let mut pace = Pace::of(ctx);
    intersect(&sources(ctx, &asked), Aggregate::Sum, &mut pace, |_, _| {
        count += 1;
        if count == asked.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    pace.ended?;
    ctx.number(count as i64)
}
