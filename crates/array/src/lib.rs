//! Sparse arrays: strings by 64-bit indexes, with Redis's insert cursor. They know no keys.
//!
//! ```text
//! Array - leaves, by index - entries: number of a slice of 256 indexes, slice
//!                                                                       |- few elements: one block
//!                                                                       '- many: mask, lane
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `element` | an element as it is passed in and out |
//! | `slice` | the elements of 256 indexes in either form |
//! | `few`, `many`, `lane` | the forms, and the lane of a slice with many elements |
//! | `leaves` | slices by number |
//! | `array` | the array: changes, ranges, the cursor, rings |
//! | `snapshot` | the array as it was, handed out in parts while it changes |

mod array;
mod element;
mod few;
mod lane;
mod leaves;
mod many;
mod slice;
mod snapshot;
#[cfg(test)]
mod tests;

pub use array::{Array, INDEX_MAX, SliceFigures};
pub use element::Element;
pub use snapshot::Part;

/// Bytes that the general allocator occupies for a block of `len`: it has four size classes per
/// doubling.
fn allocated(len: usize) -> usize {
    match len {
        ..64 => len.next_multiple_of(16),
        _ => len.next_multiple_of(1 << ((len - 1).ilog2() - 2)),
    }
}

/// Makes room for `more` items: the whole block that the allocator gives for them.
fn reserve<T>(items: &mut Vec<T>, more: usize) {
    let needed = items.len() + more;
    if needed > items.capacity() {
        let room = allocated(needed * size_of::<T>()) / size_of::<T>();
        items.reserve_exact(room - items.len());
    }
}

/// Gives memory back once less than half of it is used.
fn give_back<T>(items: &mut Vec<T>) {
    if items.is_empty() || items.capacity() / 2 > items.len() {
        items.shrink_to(allocated(items.len() * size_of::<T>()) / size_of::<T>());
    }
}

/// Bytes of the block of a vector.
fn block<T>(items: &Vec<T>) -> usize {
    allocated(items.capacity() * size_of::<T>())
}
