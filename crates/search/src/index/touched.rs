//! Fields that a change of a document concerns.

use crate::index::schema::{LANGUAGE, SCORE};

/// Fields of a document, as bits by their number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Touched(pub u64);

impl Touched {
    /// The expiry of the key.
    pub const EXPIRY: Self = Self(1 << 62);
    /// Every field.
    pub const WHOLE: Self = Self(1 << 63);
    /// Every field, read by a walk over present keys: nothing has changed.
    pub const SCANNED: Self = Self(1 << 63 | 1 << 59);

    /// A single field. Fields of high numbers stand for all.
    pub fn field(number: u16) -> Self {
        Self::bit(number).map_or(Self::WHOLE, |bit| Self(1 << bit))
    }

    fn bit(number: u16) -> Option<u16> {
        match number {
            SCORE => Some(61),
            LANGUAGE => Some(60),
            _ => Some(number).filter(|&number| number < 59),
        }
    }

    /// Whether all of the document has to be read.
    pub fn is_whole(self) -> bool {
        self.0 & Self::WHOLE.0 != 0
    }

    /// Whether a walk over present keys has read the document.
    pub fn is_scanned(self) -> bool {
        self.0 & Self::SCANNED.0 == Self::SCANNED.0
    }

    /// Whether a field has to be read.
    pub fn has_field(self, number: u16) -> bool {
        self.is_whole() || Self::bit(number).is_some_and(|bit| self.0 >> bit & 1 == 1)
    }

    /// Whether any field has to be read.
    pub fn has_fields(self) -> bool {
        self.0 & !Self::EXPIRY.0 != 0
    }
}
