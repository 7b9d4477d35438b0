//! A value of a value type at a key, with its type and its part in a snapshot.

use super::{CustomValue, Held, TypeNumber, ValueType};
use crate::structures::image::{ImageElement, ImageId, TakeElement};
use std::any::Any;

/// A value that has an allocation of its own.
pub(crate) struct Custom {
    of: &'static ValueType,
    /// The snapshot that is being taken of it.
    snapshot: Option<ImageId>,
    value: Box<dyn CustomValue>,
}

impl Custom {
    pub fn new(of: &'static ValueType, value: Box<dyn CustomValue>) -> Self {
        Custom { of, snapshot: None, value }
    }

    #[inline]
    pub fn number(&self) -> TypeNumber {
        self.of.number
    }

    pub fn encoding(&self) -> &'static str {
        self.of.shown.encoding
    }

    #[inline]
    pub fn held(&self) -> Held<'_> {
        Held::Boxed(&*self.value)
    }

    #[inline]
    pub fn value_mut(&mut self) -> &mut dyn CustomValue {
        &mut *self.value
    }

    #[inline]
    pub fn get<T: CustomValue>(&self) -> Option<&T> {
        (&*self.value as &dyn Any).downcast_ref()
    }

    pub fn footprint(&self) -> usize {
        self.value.memory_usage()
    }

    pub fn free_effort(&self) -> usize {
        self.value.free_effort()
    }

    pub fn duplicate(&self) -> Self {
        Custom::new(self.of, self.value.duplicate())
    }

    pub fn begin_image(&mut self, id: ImageId) {
        self.snapshot = Some(id);
        self.value.begin_snapshot();
    }

    pub fn image_id(&self) -> Option<ImageId> {
        self.snapshot
    }

    pub fn continue_image(&mut self, take: &mut TakeElement<'_>) -> bool {
        let goes_on = self.value.next_chunk(&mut |chunk| take(ImageElement::Custom(chunk)));
        if !goes_on {
            self.snapshot = None;
        }
        goes_on
    }

    pub fn take_rest(&mut self) -> Option<Self> {
        self.value.take_tail().map(|value| Custom::new(self.of, value))
    }
}
