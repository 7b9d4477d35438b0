//! Changes of top-k lists: made at a key, encoded, and as commands.
//!
//! ```text
//! make  k, width, depth, decay (8 bytes)
//! add   seed (8 bytes); items, each: its length and bytes, how often it came
//! ```
//!
//! The seed decides all random choices of a change, so that it has the same result everywhere.

use super::TopKList;
use crate::structures::custom::number::{Bytes, Malformed, put, put_bytes};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, MALFORMED_CHANGE, Slot, Why,
};
use petrel_sketch::top_k::{INCREMENT_MAX, Shape, TopK};
use std::any::Any;

/// Operations as effects number them.
mod op {
    pub const MAKE: u8 = 0;
    pub const ADD: u8 = 1;
}

/// Makes a list at a key that holds nothing; false if no such list is possible.
pub fn make<S: Slot + ?Sized>(slot: &mut S, shape: Shape) -> bool {
    let list = TopK::new(shape).filter(|_| slot.held().is_none());
    let Some(list) = list else { return false };
    slot.put_boxed(Box::new(TopKList::new(list)));
    slot.record(op::MAKE, &mut |out| {
        [shape.k, shape.width, shape.depth].iter().for_each(|&n| put(out, n.into()));
        out.extend_from_slice(&shape.decay.to_bits().to_le_bytes());
    });
    true
}

/// Counts items in the list at a key. Returns for each the item that it expels; nothing if there is
/// no list.
pub fn add<S: Slot + ?Sized>(
    slot: &mut S,
    items: &[(&[u8], u32)],
    seed: u64,
) -> Vec<Option<Box<[u8]>>> {
    let mut expelled = Vec::with_capacity(items.len());
    slot.change(&mut |value: &mut dyn CustomValue| {
        if let Some(TopKList(list)) = (value as &mut dyn Any).downcast_mut() {
            expelled.extend(
                items
                    .iter()
                    .enumerate()
                    .map(|(i, (item, times))| list.add(item, *times, seed.wrapping_add(i as u64))),
            );
        }
    });
    if !expelled.is_empty() {
        slot.record(op::ADD, &mut |out| {
            out.extend_from_slice(&seed.to_le_bytes());
            for (item, times) in items {
                put_bytes(out, item);
                put(out, (*times).into());
            }
        });
    }
    expelled
}

/// A change as an effect carries it.
enum Decoded<'a> {
    Make(Shape),
    Add(u64, Vec<(&'a [u8], u32)>),
}

fn decode(change: CustomChange<'_>) -> Result<Decoded<'_>, Malformed> {
    let mut bytes = Bytes(change.body);
    let number = |bytes: &mut Bytes<'_>| u32::try_from(bytes.number()?).map_err(|_| Malformed);
    let decoded = match change.op {
        op::MAKE => {
            let (k, width) = (number(&mut bytes)?, number(&mut bytes)?);
            let (depth, decay) = (number(&mut bytes)?, f64::from_bits(bytes.fixed()?));
            Decoded::Make(Shape { k, width, depth, decay })
        }
        op::ADD => {
            let (seed, mut items) = (bytes.fixed()?, Vec::new());
            while !bytes.0.is_empty() {
                let (item, times) = (bytes.bytes()?, number(&mut bytes)?);
                if times > INCREMENT_MAX {
                    return Err(Malformed);
                }
                items.push((item, times));
            }
            Decoded::Add(seed, items)
        }
        _ => return Err(Malformed),
    };
    bytes.end()?;
    Ok(decoded)
}

/// Makes a change that an effect carries.
pub(super) fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    let is_made = match decode(change).map_err(|Malformed| MALFORMED_CHANGE)? {
        Decoded::Make(shape) => make(slot, shape),
        Decoded::Add(seed, items) => add(slot, &items, seed).len() == items.len(),
    };
    if is_made { Ok(()) } else { Err("the change does not fit the top-k list") }
}

/// Writes a change as commands. A Redis replica draws random numbers of its own.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let decoded = decode(change);
    debug_assert!(decoded.is_ok(), "{change:?}");
    match decoded {
        Ok(Decoded::Make(Shape { k, width, depth, decay })) => {
            let [k, width, depth] = [k, width, depth].map(|n| n.to_string());
            let decay = format!("{decay:?}");
            let args = [&k, &width, &depth, &decay].map(|text| text.as_bytes());
            out.command("TOPK.RESERVE", &[&[key][..], &args].concat());
        }
        Ok(Decoded::Add(_, items)) => {
            let times: Vec<String> = items.iter().map(|(_, times)| times.to_string()).collect();
            let mut args = vec![key];
            for ((item, _), times) in items.iter().zip(&times) {
                args.extend([item, times.as_bytes()]);
            }
            out.command("TOPK.INCRBY", &args);
        }
        Err(Malformed) => {}
    }
}
