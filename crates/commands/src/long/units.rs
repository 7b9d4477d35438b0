//! Work in units of about ten nanoseconds: constants, and estimates of a command's work.

use crate::fail::{Fail, Outcome};
use petrel_keyspace::custom::{TypeNumber, type_of_number};
use petrel_keyspace::{Type, View};

/// Units for returning an item of a collection.
pub(crate) const UNITS_PER_ITEM: usize = 6;

/// Units for removing or copying an item of a collection.
pub(crate) const UNITS_PER_CHANGE: usize = 30;

/// Bytes that are read or copied in one unit.
const BYTES_PER_UNIT: usize = 64;

/// Factor by which a unit of work takes longer in a build without optimisation.
const SLOWER: usize = if cfg!(debug_assertions) { 16 } else { 1 };

/// Units between two looks at the clock.
pub(super) const UNITS_PER_LOOK: usize = 32_768 / SLOWER;

/// Units after which a command moves from its worker to a helper, where they are known beforehand;
/// corresponds to `MOVE_NANOS`.
pub(crate) const MOVE_UNITS: usize = 2_000_000 / SLOWER;

/// Units for an argument, in a command of at least [`MANY_ARGUMENTS`].
pub(super) const UNITS_PER_ARGUMENT: usize = 64;

/// Number of arguments from which on they alone make a command move to a helper.
pub(crate) const MANY_ARGUMENTS: usize = MOVE_UNITS / UNITS_PER_ARGUMENT;

/// Fails if `units`, the work that a command is about to do, exceed `here`
/// (`Executor::units_here`).
///
/// # Errors
/// If the command has to move to a helper.
#[inline]
pub(crate) fn expect(units: usize, here: usize) -> Outcome {
    if units < here { Ok(()) } else { Err(Fail::PUT_OFF_EXPECTED) }
}

fn custom_units(view: View<'_>, number: TypeNumber) -> usize {
    type_of_number(number).zip(view.held()).map_or(0, |(of, held)| (of.copy_effort)(held))
}

/// Estimates the units for reading and copying a value.
pub(crate) fn size_units(view: View<'_>) -> usize {
    let items = match view.type_of() {
        Type::String => view.string().map(|string| string.len() / BYTES_PER_UNIT),
        Type::List => view.list().map(|list| list.len() * UNITS_PER_ITEM),
        Type::Set => view.set().map(|set| set.len() * UNITS_PER_CHANGE),
        Type::SortedSet => view.sorted_set().map(|set| set.len() * UNITS_PER_CHANGE),
        Type::Hash => view.hash(0).map(|hash| hash.len() * UNITS_PER_CHANGE),
        Type::Stream => view.stream().map(|stream| stream.len() as usize * UNITS_PER_ITEM),
        Type::Custom(number) => Ok(custom_units(view, number)),
    };
    items.unwrap_or(0)
}
