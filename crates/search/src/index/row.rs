//! Present values of a document of an index.

use crate::index::contents::Contents;
use crate::index::document::Document;
use crate::index::field::FieldStore;

/// A document of an index.
#[derive(Clone, Copy)]
pub struct Row<'c> {
    contents: &'c Contents,
    row: u32,
}

impl<'c> Row<'c> {
    /// The document of a row.
    pub(super) fn new(contents: &'c Contents, row: u32) -> Self {
        Row { contents, row }
    }
}

impl Document for Row<'_> {
    fn vector(&self, field: usize, each: &mut dyn FnMut(&[u8])) {
        if let Some(FieldStore::Vectors(store)) = self.contents.field(field)
            && let Some(vector) = store.get(self.row)
        {
            each(vector);
        }
    }

    fn any_number(&self, field: usize, each: &mut dyn FnMut(f64) -> bool) -> bool {
        match self.contents.field(field) {
            Some(FieldStore::Numbers(store)) => store.any_number(self.row, each),
            _ => false,
        }
    }

    fn any_tag(&self, field: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match self.contents.field(field) {
            Some(FieldStore::Tags(store)) => store.tags_of(self.row).any(each),
            _ => false,
        }
    }

    fn is_missing(&self, field: usize) -> bool {
        self.contents.field(field).is_none_or(|field| field.is_missing(self.row))
    }
}
