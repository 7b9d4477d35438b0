//! CLUSTER COUNTKEYSINSLOT, GETKEYSINSLOT and SLOT-STATS. The keyspace is not ordered by hash
//! slots, so each of them scans all keys.

use crate::cluster::{HashSlot, Primary};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::keys::iterate::scan_keys;
use crate::server::state::ServerState;
use crate::topology::Topology;
use petrel_keyspace::hash_slot::{SLOTS, slot_of};
use petrel_keyspace::parse_int;
use std::cmp::Reverse;
use std::ops::ControlFlow;

const INVALID_SLOT: Fail = Fail::fixed("ERR Invalid slot");
const INVALID_SLOT_OR_COUNT: Fail = Fail::fixed("ERR Invalid slot or number of keys");
const OUT_OF_RANGE: Fail = Fail::fixed("ERR Invalid or out of range slot");
const INVALID_LIMIT: Fail =
    Fail::fixed("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");
const REPEATED: Fail = Fail::fixed("ERR Multiple filters of the same type are disallowed.");
const UNKNOWN_METRIC: Fail = Fail::fixed("ERR Unrecognized sort metric for ORDERBY.");

/// The slot that a number names; `None` if it is out of range.
fn slot(number: i64) -> Option<HashSlot> {
    HashSlot::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

/// Whether this node holds all keys of a slot, rather than copies of some.
fn is_held(ctx: &Ctx<'_>, slot: HashSlot) -> bool {
    let shared = &ctx.exec.shared;
    let cluster = shared.cluster.get().filter(|_| shared.is_in_state(ServerState::Clustered));
    cluster.is_none_or(|cluster| {
        cluster.primary_of(slot) == Primary::Here || cluster.is_readable(slot)
    })
}

/// `CLUSTER COUNTKEYSINSLOT slot`
pub(super) fn count(ctx: &mut Ctx<'_>) -> Outcome {
    let slot = slot(ctx.integer(2)?).ok_or(INVALID_SLOT)?;
    let mut count = 0;
    if is_held(ctx, slot) {
        scan_keys(ctx, &mut |key| {
            count += i64::from(slot_of(key) == slot);
            ControlFlow::Continue(())
        })?;
    }
    ctx.number(count)
}

/// `CLUSTER GETKEYSINSLOT slot count`
pub(super) fn list(ctx: &mut Ctx<'_>) -> Outcome {
    let (number, most) = (ctx.integer(2)?, ctx.integer(3)?);
    let slot = slot(number).ok_or(INVALID_SLOT_OR_COUNT)?;
    let most = usize::try_from(most).map_err(|_| INVALID_SLOT_OR_COUNT)?;
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    if most > 0 && is_held(ctx, slot) {
        scan_keys(ctx, &mut |key| {
            if slot_of(key) == slot {
                keys.push(key.into());
            }
            if keys.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    ctx.reply.array(keys.len());
    keys.iter().for_each(|key| ctx.reply.bulk(key));
    Ok(())
}

/// `CLUSTER SLOT-STATS SLOTSRANGE first last | ORDERBY KEY-COUNT [LIMIT limit] [ASC | DESC]`: the
/// number of keys in each slot of this node.
pub(super) fn statistics(ctx: &mut Ctx<'_>, topology: &dyn Topology) -> Outcome {
    let (range, order) = match ctx.args()[2..] {
        [by, first, last] if by.eq_ignore_ascii_case(b"slotsrange") => (range(first, last)?, None),
        [by, metric, ref options @ ..] if by.eq_ignore_ascii_case(b"orderby") => {
            if !metric.eq_ignore_ascii_case(b"key-count") {
                return Err(UNKNOWN_METRIC);
            }
            ((0, SLOTS - 1), Some(Order::parse(options)?))
        }
        _ => return Err(ctx.wrong_arity()),
    };
    let own = topology.nodes().into_iter().find(|node| node.is_me);
    let ranges = own.map(|own| own.slots).unwrap_or_default();
    let slots = ranges.into_iter().flat_map(|(first, last)| first..=last);
    let slots: Vec<HashSlot> = slots.filter(|slot| (range.0..=range.1).contains(slot)).collect();
    let mut counts = vec![0_i64; SLOTS.into()];
    scan_keys(ctx, &mut |key| {
        counts[usize::from(slot_of(key))] += 1;
        ControlFlow::Continue(())
    })?;
    let count = |slot: HashSlot| counts[usize::from(slot)];
    let mut shown: Vec<(HashSlot, i64)> = slots.iter().map(|&slot| (slot, count(slot))).collect();
    if let Some(Order { limit, ascends }) = order {
        match ascends {
            true => shown.sort_by_key(|&(slot, count)| (count, slot)),
            false => shown.sort_by_key(|&(slot, count)| (Reverse(count), slot)),
        }
        shown.truncate(limit);
    }
    ctx.reply.array(shown.len());
    for (slot, count) in shown {
        ctx.reply.array(2);
        ctx.reply.integer(slot.into());
        ctx.reply.map(1);
        ctx.reply.bulk(b"key-count");
        ctx.reply.integer(count);
    }
    Ok(())
}

/// Parses the first and the last slot of a range.
fn range(first: &[u8], last: &[u8]) -> Result<(HashSlot, HashSlot), Fail> {
    let slot = |arg: &[u8]| parse_int(arg).and_then(slot).ok_or(OUT_OF_RANGE);
    let (first, last) = (slot(first)?, slot(last)?);
    match first <= last {
        true => Ok((first, last)),
        false => Err(Fail::new(format!(
            "ERR Start slot number {first} is greater than end slot number {last}"
        ))),
    }
}

/// Options of `ORDERBY`.
struct Order {
    limit: usize,
    ascends: bool,
}

impl Order {
    fn parse(options: &[&[u8]]) -> Result<Self, Fail> {
        let (mut limit, mut ascends) = (None, None);
        let mut at = 0;
        while let Some(option) = options.get(at) {
            let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
            if is(b"limit") && at + 1 < options.len() {
                let number = parse_int(options[at + 1]).ok_or(INVALID_LIMIT)?;
                let number = usize::try_from(number).unwrap_or_default();
                if !(1..=SLOTS.into()).contains(&number) {
                    return Err(INVALID_LIMIT);
                }
                if limit.replace(number).is_some() {
                    return Err(REPEATED);
                }
                at += 2;
            } else if is(b"asc") || is(b"desc") {
                if ascends.replace(is(b"asc")).is_some() {
                    return Err(REPEATED);
                }
                at += 1;
            } else {
                return Err(Fail::SYNTAX);
            }
        }
        let limit = limit.unwrap_or(SLOTS.into());
        Ok(Order { limit, ascends: ascends.unwrap_or_default() })
    }
}
