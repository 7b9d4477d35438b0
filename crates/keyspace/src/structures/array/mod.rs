//! Arrays: the structure at a key, and its part of a snapshot. The array itself is that of the
//! crate `array`.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the structure |
//! | `change` | changes: made, encoded and decoded, and as commands |
//! | `rdb` | the table row of the type, and the form in RDB files |

pub mod change;
pub(crate) mod rdb;

use super::custom::{Chunk, CustomValue, ModuleWriter, TakeChunk};
use super::value::parse_int;
use petrel_array::{Array, Element, Part};

/// An array at a key.
#[derive(Debug, Default)]
pub struct ArrayValue(Array);

impl ArrayValue {
    /// The array.
    #[inline]
    pub fn array(&self) -> &Array {
        &self.0
    }
}

/// The element that is stored for a text.
#[inline]
fn element(text: &[u8]) -> Element<'_> {
    parse_int(text).map_or(Element::Text(text), Element::Int)
}

impl CustomValue for ArrayValue {
    fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.0.allocated()
    }

    fn free_effort(&self) -> usize {
        self.0.blocks()
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(ArrayValue(self.0.duplicate()))
    }

    /// Keeps slices of elements before they change.
    fn begin_snapshot(&mut self) {
        self.0.begin_snapshot();
    }

    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        self.0.next_part(&mut |part| {
            let _ = take(&Piece(part));
        })
    }
}

/// A part of an array in a snapshot.
#[derive(Debug)]
struct Piece<'a>(Part<'a>);

impl Chunk for Piece<'_> {
    fn write(&self, out: &mut dyn ModuleWriter) {
        self.0.each(&mut |index, element| rdb::write_element(index, element, out));
    }
}
