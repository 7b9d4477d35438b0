//! Changes of count-min sketches: made at a key, encoded, and as commands. A merge replaces the
//! value.
//!
//! ```text
//! make       width, depth
//! increment  items, each: its length and bytes, how often it came
//! ```

use super::Sketch;
use crate::structures::custom::number::{Bytes, Malformed, put, put_bytes};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, MALFORMED_CHANGE, Slot, Why,
};
use petrel_sketch::count_min::CountMin;
use std::any::Any;

/// Operations as effects number them.
mod op {
    pub const MAKE: u8 = 0;
    pub const INCREMENT: u8 = 1;
}

/// Makes a sketch at a key that holds nothing; false if no such sketch is possible.
pub fn make<S: Slot + ?Sized>(slot: &mut S, width: u64, depth: u64) -> bool {
    let sketch = CountMin::new(width, depth).filter(|_| slot.held().is_none());
    let Some(sketch) = sketch else { return false };
    slot.put_boxed(Box::new(Sketch::new(sketch)));
    slot.record(op::MAKE, &mut |out| {
        put(out, width);
        put(out, depth);
    });
    true
}

/// Counts items in the sketch at a key. Returns the count of each; nothing if there is no sketch.
pub fn increment<S: Slot + ?Sized>(slot: &mut S, items: &[(&[u8], u64)]) -> Vec<u32> {
    let mut counts = Vec::with_capacity(items.len());
    slot.change(&mut |value: &mut dyn CustomValue| {
        if let Some(Sketch(sketch)) = (value as &mut dyn Any).downcast_mut() {
            counts.extend(items.iter().map(|(item, times)| sketch.increment(item, *times)));
        }
    });
    if !counts.is_empty() && items.iter().any(|(_, times)| *times > 0) {
        slot.record(op::INCREMENT, &mut |out| {
            for (item, times) in items {
                put_bytes(out, item);
                put(out, *times);
            }
        });
    }
    counts
}

/// A change as an effect carries it.
enum Decoded<'a> {
    Make(u64, u64),
    Increment(Vec<(&'a [u8], u64)>),
}

fn decode(change: CustomChange<'_>) -> Result<Decoded<'_>, Malformed> {
    let mut bytes = Bytes(change.body);
    let decoded = match change.op {
        op::MAKE => Decoded::Make(bytes.number()?, bytes.number()?),
        op::INCREMENT => {
            let mut items = Vec::new();
            while !bytes.0.is_empty() {
                items.push((bytes.bytes()?, bytes.number()?));
            }
            Decoded::Increment(items)
        }
        _ => return Err(Malformed),
    };
    bytes.end()?;
    Ok(decoded)
}

/// Makes a change that an effect carries.
pub(super) fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    let is_made = match decode(change).map_err(|Malformed| MALFORMED_CHANGE)? {
        Decoded::Make(width, depth) => make(slot, width, depth),
        Decoded::Increment(items) => increment(slot, &items).len() == items.len(),
    };
    if is_made { Ok(()) } else { Err("the change does not fit the count-min sketch") }
}

/// Writes a change as commands.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let decoded = decode(change);
    debug_assert!(decoded.is_ok(), "{change:?}");
    match decoded {
        Ok(Decoded::Make(width, depth)) => {
            let [width, depth] = [width, depth].map(|n| n.to_string());
            out.command("CMS.INITBYDIM", &[key, width.as_bytes(), depth.as_bytes()]);
        }
        Ok(Decoded::Increment(items)) => {
            let times: Vec<String> = items.iter().map(|(_, times)| times.to_string()).collect();
            let mut args = vec![key];
            for ((item, _), times) in items.iter().zip(&times) {
                args.extend([item, times.as_bytes()]);
            }
            out.command("CMS.INCRBY", &args);
        }
        Err(Malformed) => {}
    }
}
