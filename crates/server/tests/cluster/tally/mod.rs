//! A value type that is nowhere but in this folder: counts by name. It is added by a line in the
//! list of types and one in the list of families, both in [`start`].

mod commands;

use crate::labels;
use petrel_commands::aux_state::add_aux_state;
use petrel_keyspace::custom::number::{Bytes, Malformed, put_bytes, put_signed};
use petrel_keyspace::custom::{
    Chunk, CustomChange, CustomValue, Held, LoadError, Loaded, MALFORMED_CHANGE, ModuleReader,
    ModuleWriter, RdbForm, Shown, Slot, TakeChunk, TypeNumber, ValueDigest, ValueType, Why,
    add_type,
};
use petrel_server::Running;
use petrel_server::config::SharedConfig;
use petrel_server::lifecycle::process::Indifferent;
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Starts a server that has the type, and the labels of [`crate::labels`].
pub fn start(config: Arc<SharedConfig>) -> Running {
    add_type(&TALLY);
    add_aux_state(&labels::LABELS);
    let families = [commands::COMMANDS, labels::COMMANDS];
    petrel_server::start_with(config, Box::new(Indifferent), &families).unwrap()
}

/// Nine letters of 6 bits, and version 1.
const MODULE: u64 = 0x1234_5678_9abc_d401;

/// The module number of [`LATER`].
pub const LATER_MODULE: u64 = 0x1234_5678_9abc_d801;

/// A count changed by an amount.
pub const ADD: u8 = 0;
/// A count is gone.
const DROP: u8 = 1;

pub static TALLY: ValueType = ROW;

const ROW: ValueType = ValueType {
    number: TypeNumber(200),
    name: "tally",
    shown: Shown::MODULE,
    form: RdbForm::Module { numbers: &[MODULE], of: |_| MODULE },
    rdb_version: 9,
    head: |held, out| out.unsigned(held.get::<Tally>().map_or(0, Tally::len) as u64),
    body: |held, out| {
        let Some(tally) = held.get::<Tally>() else { return };
        tally.0.iter().for_each(|(name, count)| Count(name, *count).write(out));
    },
    load,
    apply,
    event: |op| Some(if op == ADD { "tally.add" } else { "tally.drop" }),
    commands: None,
    digest,
    copy_effort: |held| held.get::<Tally>().map_or(0, Tally::len),
    sizes: Some(("tallies_names", |held| held.get::<Tally>().map_or(0, Tally::len))),
};

/// Tally under another number, added by a test after values of it were kept.
pub static LATER: ValueType = ValueType {
    number: TypeNumber(210),
    name: "later",
    shown: Shown::MODULE,
    form: RdbForm::Module { numbers: &[LATER_MODULE], of: |_| LATER_MODULE },
    sizes: None,
    ..ROW
};

/// Counts by name, and the counts of a snapshot, with the last name that was handed out.
pub struct Tally(Arc<BTreeMap<Vec<u8>, i64>>, Option<Taking>);

type Taking = (Arc<BTreeMap<Vec<u8>, i64>>, Option<Vec<u8>>);

impl Tally {
    fn len(&self) -> usize {
        self.0.len()
    }

    pub fn count(&self, name: &[u8]) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

impl CustomValue for Tally {
    fn memory_usage(&self) -> usize {
        size_of::<Self>() + 100 * self.0.len()
    }

    fn free_effort(&self) -> usize {
        self.0.len()
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(Tally(Arc::new(BTreeMap::clone(&self.0)), None))
    }

    fn begin_snapshot(&mut self) {
        self.1 = Some((self.0.clone(), None));
    }

    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        let Some((counts, last)) = &mut self.1 else { return false };
        let from = last.take().map_or(Bound::Unbounded, Bound::Excluded);
        for (name, count) in counts.range((from, Bound::Unbounded)).take(50) {
            *last = Some(name.clone());
            if take(&Count(name, *count)).is_break() {
                break;
            }
        }
        if last.is_none() {
            self.1 = None;
        }
        self.1.is_some()
    }
}

#[derive(Debug)]
struct Count<'a>(&'a [u8], i64);

impl Chunk for Count<'_> {
    fn write(&self, out: &mut dyn ModuleWriter) {
        out.text(self.0);
        out.signed(self.1);
        // For the other sort of number.
        out.double(self.1 as f64);
    }
}

fn load(reader: &mut dyn ModuleReader, _: u64) -> Result<Loaded, LoadError> {
    let (len, mut counts) = (reader.unsigned()?, BTreeMap::new());
    for _ in 0..len {
        let name = reader.text()?.to_vec();
        let count = reader.signed()?;
        if reader.double()? != count as f64 || counts.insert(name, count).is_some() {
            return Err(LoadError::Malformed("a tally is broken"));
        }
    }
    Ok(Loaded::Boxed(Box::new(Tally(Arc::new(counts), None))))
}

/// Adds to a count, and returns it.
pub fn add(slot: &mut (impl Slot + ?Sized), name: &[u8], amount: i64) -> i64 {
    if slot.held().is_none() {
        slot.put_boxed(Box::new(Tally(Arc::default(), None)));
    }
    let mut sum = 0;
    change(slot, |tally| {
        let count = Arc::make_mut(&mut tally.0).entry(name.into()).or_default();
        *count = count.wrapping_add(amount);
        sum = *count;
    });
    slot.record(ADD, &mut |out| {
        put_bytes(out, name);
        put_signed(out, amount);
    });
    sum
}

/// Removes a count, and the key with the last one. Whether it was there.
pub fn drop_count(slot: &mut (impl Slot + ?Sized), name: &[u8]) -> bool {
    let (mut was_there, mut is_empty) = (false, false);
    change(slot, |tally| {
        was_there = Arc::make_mut(&mut tally.0).remove(name).is_some();
        is_empty = tally.0.is_empty();
    });
    if was_there {
        slot.record(DROP, &mut |out| put_bytes(out, name));
    }
    if is_empty {
        slot.remove_emptied();
    }
    was_there
}

fn change(slot: &mut (impl Slot + ?Sized), mut change: impl FnMut(&mut Tally)) {
    slot.change(&mut |value: &mut dyn CustomValue| {
        change((value as &mut dyn Any).downcast_mut().expect("a tally"));
    });
}

/// Name and amount of a change.
fn decode(change: CustomChange<'_>) -> Result<(&[u8], i64), Malformed> {
    let mut bytes = Bytes(change.body);
    let name = bytes.bytes()?;
    let amount = if change.op == ADD { bytes.signed()? } else { 0 };
    bytes.end()?;
    Ok((name, amount))
}

fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    let (name, amount) = decode(change).map_err(|Malformed| MALFORMED_CHANGE)?;
    if change.op == ADD {
        add(slot, name, amount);
    } else {
        drop_count(slot, name);
    }
    Ok(())
}

fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(tally) = held.get::<Tally>() else { return };
    tally.0.iter().for_each(|(name, count)| {
        digest.unordered(&[name, &count.to_le_bytes()]);
    });
}
