//! Commands that move elements between lists, pop from the first of several lists, or block.

use crate::blocking::{Awaited, Block};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::lists::write_element;
use crate::spec::CommandSpec;
use petrel_keyspace::event::class;
use petrel_keyspace::parse_int;
use petrel_keyspace::types::list::End;
use petrel_table::commands as meta;
use petrel_table::options::{LmovemOption, LmpopOption};
use std::ops::Range;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::LMOVE, lmove),
    CommandSpec::new(&meta::LMOVEM, lmovem),
    CommandSpec::new(&meta::RPOPLPUSH, rpoplpush),
    CommandSpec::new(&meta::LMPOP, lmpop),
    CommandSpec::new(&meta::BLPOP, blpop),
    CommandSpec::new(&meta::BRPOP, brpop),
    CommandSpec::new(&meta::BLMOVE, blmove),
    CommandSpec::new(&meta::BLMOVEM, blmovem),
    CommandSpec::new(&meta::BRPOPLPUSH, brpoplpush),
    CommandSpec::new(&meta::BLMPOP, blmpop),
];

/// Argument `i` as an end of a list.
fn end(ctx: &Ctx<'_>, i: usize) -> Result<End, Fail> {
    if ctx.is(i, "LEFT") {
        Ok(End::Front)
    } else if ctx.is(i, "RIGHT") {
        Ok(End::Back)
    } else {
        Err(Fail::SYNTAX)
    }
}

/// Parses a number of at least 1.
fn at_least_one(word: &[u8], otherwise: &'static str) -> Result<usize, Fail> {
    let n = parse_int(word).and_then(|n| usize::try_from(n).ok());
    n.filter(|&n| n > 0).ok_or(Fail::fixed(otherwise))
}

/// Source and destination ends; the keys are arguments 1 and 2.
#[derive(Clone, Copy)]
struct Ends {
    from: End,
    to: End,
}

const POP_PUSH: Ends = Ends { from: End::Back, to: End::Front };

impl Ends {
    /// Parses arguments 3 and 4.
    fn stated(ctx: &Ctx<'_>) -> Result<Self, Fail> {
        Ok(Ends { from: end(ctx, 3)?, to: end(ctx, 4)? })
    }
}

/// Number of elements to move, and the order in which they arrive.
#[derive(Clone, Copy)]
struct HowMany {
    count: usize,
    /// Moves all elements or none.
    exactly: bool,
    /// The order as if elements were moved one by one, which reverses elements if they are pushed
    /// at the end that they are popped from.
    one_by_one: bool,
}

impl HowMany {
    const ONE: HowMany = HowMany { count: 1, exactly: false, one_by_one: true };

    /// `[COUNT count | EXACTLY count OBO | BULK]` from argument `i` on.
    fn stated(ctx: &Ctx<'_>, i: usize) -> Result<Self, Fail> {
        if ctx.args().len() == i {
            return Ok(Self::ONE);
        }
        if ctx.args().len() != i + 3 {
            return Err(Fail::SYNTAX);
        }
        let mut options = ctx.options(i);
        let (count, exactly) = match options.leading() {
            Some(LmovemOption::Count(count)) => (count, false),
            Some(LmovemOption::Exactly(count)) => (count, true),
            _ => return Err(Fail::SYNTAX),
        };
        let count = at_least_one(count, "ERR count should be greater than 0")?;
        let one_by_one = match options.leading() {
            Some(LmovemOption::Obo) => true,
            Some(LmovemOption::Bulk) => false,
            _ => return Err(Fail::SYNTAX),
        };
        Ok(HowMany { count, exactly, one_by_one })
    }
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
fn lmove(ctx: &mut Ctx<'_>) -> Outcome {
    let ends = Ends::stated(ctx)?;
    move_one(ctx, ends, None)
}

/// `RPOPLPUSH source destination`
fn rpoplpush(ctx: &mut Ctx<'_>) -> Outcome {
    move_one(ctx, POP_PUSH, None)
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
fn blmove(ctx: &mut Ctx<'_>) -> Outcome {
    let ends = Ends::stated(ctx)?;
    let block = wait_for_source(ctx, 5)?.or_null();
    move_one(ctx, ends, Some(block))
}

/// `BRPOPLPUSH source destination timeout`
fn brpoplpush(ctx: &mut Ctx<'_>) -> Outcome {
    let block = wait_for_source(ctx, 3)?.or_null();
    move_one(ctx, POP_PUSH, Some(block))
}

/// `LMOVEM source destination LEFT | RIGHT LEFT | RIGHT [COUNT count | EXACTLY count OBO | BULK]`
fn lmovem(ctx: &mut Ctx<'_>) -> Outcome {
    let ends = Ends::stated(ctx)?;
    let how_many = HowMany::stated(ctx, 5)?;
    move_many(ctx, ends, how_many, None)
}

/// `BLMOVEM source destination LEFT | RIGHT LEFT | RIGHT timeout [COUNT count | EXACTLY count OBO |
/// BULK]`
fn blmovem(ctx: &mut Ctx<'_>) -> Outcome {
    let ends = Ends::stated(ctx)?;
    let how_many = HowMany::stated(ctx, 6)?;
    let block = wait_for_source(ctx, 5)?;
    move_many(ctx, ends, how_many, Some(block))
}

/// Blocks on the source until the timeout at argument `i`.
fn wait_for_source(ctx: &Ctx<'_>, i: usize) -> Result<Block, Fail> {
    Ok(Block::on(1..2, Awaited::LIST).until(ctx.timeout_seconds(i)?))
}

fn move_one(ctx: &mut Ctx<'_>, ends: Ends, block: Option<Block>) -> Outcome {
    match (moved(ctx, ends, HowMany::ONE)?, block) {
        (Some(elements), _) => elements.iter().for_each(|element| ctx.reply.bulk(element)),
        (None, None) => ctx.reply.null(),
        (None, Some(block)) => return ctx.block(block),
    }
    Ok(())
}

fn move_many(ctx: &mut Ctx<'_>, ends: Ends, how_many: HowMany, block: Option<Block>) -> Outcome {
    match (moved(ctx, ends, how_many)?, block) {
        (Some(elements), _) => {
            ctx.reply.array(elements.len());
            elements.iter().for_each(|element| ctx.reply.bulk(element));
        }
        (None, None) => ctx.reply.null_array(),
        (None, Some(block)) => return ctx.block(block),
    }
    Ok(())
}

/// Moves elements from the list at argument 1 to that at argument 2, and returns them in their
/// order in the destination; `None` if there are too few.
fn moved(ctx: &mut Ctx<'_>, ends: Ends, how_many: HowMany) -> Result<Option<Vec<Vec<u8>>>, Fail> {
    let (db, source, destination) = (ctx.db(), ctx.key(1), ctx.key(2));
    let ks = &mut ctx.exec.ks;
    let Some(len) = ks.look(db, source).map(|view| view.list()).transpose()?.map(|l| l.len())
    else {
        return Ok(None);
    };
    if how_many.exactly && len < how_many.count {
        return Ok(None);
    }
    ks.peek(db, destination).map(|view| view.list()).transpose()?;

    let count = how_many.count.min(len);
    let Some(mut list) = ks.list_mut(db, source)? else { return Ok(None) };
    let is_rotation = source.bytes == destination.bytes;
    if is_rotation && count == len {
        // The list must not become empty in between, because it would lose its expiry.
        let elements = list.read().iter_from(0).map(|element| element.to_vec()).collect();
        let elements = arranged(elements, ends, how_many.one_by_one, End::Front);
        push(&elements, ends.to, |elements| list.push(ends.to, elements));
        list.pop(ends.to.opposite(), len, |_| ());
        ks.uncount_change();
        tell_moved(ctx, ends);
        return Ok(Some(elements));
    }
    let mut elements = Vec::with_capacity(count);
    list.pop(ends.from, count, |element| elements.push(element.to_vec()));
    let elements = arranged(elements, ends, how_many.one_by_one, ends.from);
    if is_rotation {
        push(&elements, ends.to, |elements| list.push(ends.to, elements));
    } else {
        let pushed =
            push(&elements, ends.to, |elements| ks.list_push(db, destination, ends.to, elements));
        pushed?;
    }
    ks.uncount_change();
    tell_moved(ctx, ends);
    Ok(Some(elements))
}

/// Publishes the events of moved elements, the push first.
fn tell_moved(ctx: &mut Ctx<'_>, ends: Ends) {
    let names = |end, front, back| if end == End::Front { front } else { back };
    ctx.event(class::LIST, names(ends.to, "lpush", "rpush"), ctx.arg(2));
    ctx.event(class::LIST, names(ends.from, "lpop", "rpop"), ctx.arg(1));
}

/// Reorders elements that were popped from one end into their order in the destination.
fn arranged(
    mut elements: Vec<Vec<u8>>,
    ends: Ends,
    one_by_one: bool,
    read_from: End,
) -> Vec<Vec<u8>> {
    let turns_order = one_by_one && ends.from == ends.to;
    if turns_order != (read_from == End::Back) {
        elements.reverse();
    }
    elements
}

/// Calls `push` with the elements in the order in which they have to be pushed at `to`.
fn push<T>(elements: &[Vec<u8>], to: End, push: impl FnOnce(&[&[u8]]) -> T) -> T {
    let mut pushed: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
    if to == End::Front {
        pushed.reverse();
    }
    push(&pushed)
}

/// `LMPOP numkeys key [key ...] LEFT | RIGHT [COUNT count]`
fn lmpop(ctx: &mut Ctx<'_>) -> Outcome {
    let (keys, end, count) = several(ctx, 1)?;
    if !popped_many(ctx, keys, end, count)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]`
fn blmpop(ctx: &mut Ctx<'_>) -> Outcome {
    let (keys, end, count) = several(ctx, 2)?;
    let deadline = ctx.timeout_seconds(1)?;
    if popped_many(ctx, keys.clone(), end, count)? {
        return Ok(());
    }
    ctx.block(Block::on(keys, Awaited::LIST).until(deadline))
}

/// `numkeys key [key ...] LEFT | RIGHT [COUNT count]` from argument `i` on.
fn several(ctx: &Ctx<'_>, i: usize) -> Result<(Range<usize>, End, usize), Fail> {
    let args = ctx.args().len();
    let keys = at_least_one(ctx.arg(i), "ERR numkeys should be greater than 0")?;
    let side = keys.checked_add(i + 1).filter(|&side| side < args).ok_or(Fail::SYNTAX)?;
    let end = end(ctx, side)?;
    let mut options = ctx.options(side + 1);
    let count = match options.next().transpose()? {
        None => 1,
        Some(LmpopOption::Count(_)) if options.left() > 0 => return Err(Fail::SYNTAX),
        Some(LmpopOption::Count(n)) => at_least_one(n, "ERR count should be greater than 0")?,
    };
    Ok((i + 1..side, end, count))
}

/// Pops from the first existing list among the keys at some arguments. False, without a reply, if
/// there is none.
fn popped_many(
    ctx: &mut Ctx<'_>,
    keys: Range<usize>,
    end: End,
    count: usize,
) -> Result<bool, Fail> {
    for i in keys {
        let (key, db) = (ctx.key(i), ctx.db());
        let Some(mut list) = ctx.exec.ks.list_mut(db, key)? else { continue };
        ctx.reply.array(2);
        ctx.reply.bulk(key.bytes);
        ctx.reply.array(count.min(list.len()));
        list.pop(end, count, |element| write_element(ctx.reply, &element));
        return Ok(true);
    }
    Ok(false)
}

/// `BLPOP key [key ...] timeout`
fn blpop(ctx: &mut Ctx<'_>) -> Outcome {
    pop_or_wait(ctx, End::Front)
}

/// `BRPOP key [key ...] timeout`
fn brpop(ctx: &mut Ctx<'_>) -> Outcome {
    pop_or_wait(ctx, End::Back)
}

fn pop_or_wait(ctx: &mut Ctx<'_>, end: End) -> Outcome {
    let last = ctx.args().len() - 1;
    let deadline = ctx.timeout_seconds(last)?;
    for i in 1..last {
        let (key, db) = (ctx.key(i), ctx.db());
        let Some(mut list) = ctx.exec.ks.list_mut(db, key)? else { continue };
        ctx.reply.array(2);
        ctx.reply.bulk(key.bytes);
        list.pop(end, 1, |element| write_element(ctx.reply, &element));
        return Ok(());
    }
    ctx.block(Block::on(1..last, Awaited::LIST).until(deadline))
}
