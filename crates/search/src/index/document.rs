//! Values of a document, for conditions: from the columns of an index, from an earlier version, or
//! as they are stored at the key.

use crate::index::schema::{FieldKind, Schema, fold, parse_number, split_tags};
use std::sync::Arc;

/// Values of a document by the fields of a schema.
pub trait Document {
    /// Passes the numbers of a NUMERIC field to `each` until it returns true; returns whether it
    /// did.
    fn any_number(&self, field: usize, each: &mut dyn FnMut(f64) -> bool) -> bool;

    /// Passes the tags of a TAG field to `each` until it returns true; returns whether it did.
    fn any_tag(&self, field: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> bool;

    /// Whether the document lacks the field.
    fn is_missing(&self, field: usize) -> bool;

    /// Passes the texts of a TEXT field, if they are known, and the name of the document's
    /// language, if it states one.
    fn text(&self, _field: usize, _each: &mut dyn FnMut(&[u8])) {}

    /// Passes the vector of a VECTOR field, in the form in which it is compared.
    fn vector(&self, _field: usize, _each: &mut dyn FnMut(&[u8])) {}
}

/// The value of a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// The document lacks the field.
    #[default]
    Missing,
    /// A number.
    Number(f64),
    /// The number to sort by, and all numbers of a JSON document, ascending.
    Numbers(Option<f64>, Box<[f64]>),
    /// Tags, and the whole value if documents can be sorted by the field.
    Tags(Box<[Arc<[u8]>]>, Option<Box<[u8]>>),
    /// A text: the value to sort by, if documents can be sorted by the field. The words are those
    /// of the document's row.
    Text(Option<Box<[u8]>>),
    /// A vector, in the form in which it is compared.
    Vector(Arc<[u8]>),
    /// A value that does not fit the field's kind.
    Misfit,
}

/// All values of a document.
pub type Values = Box<[Value]>;

impl Document for [Value] {
    fn any_number(&self, field: usize, each: &mut dyn FnMut(f64) -> bool) -> bool {
        match self.get(field) {
            Some(Value::Number(number)) => each(*number),
            Some(Value::Numbers(_, numbers)) => numbers.iter().any(|number| each(*number)),
            _ => false,
        }
    }

    fn any_tag(&self, field: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match self.get(field) {
            Some(Value::Tags(tags, _)) => tags.iter().any(|tag| each(tag)),
            _ => false,
        }
    }

    fn is_missing(&self, field: usize) -> bool {
        matches!(self.get(field), None | Some(Value::Missing))
    }

    fn vector(&self, field: usize, each: &mut dyn FnMut(&[u8])) {
        if let Some(Value::Vector(vector)) = self.get(field) {
            each(vector);
        }
    }
}

/// A hash as it is stored: `get` returns the text of a field of the schema, or of
/// [`crate::index::schema::LANGUAGE`].
pub struct Stored<'s, F> {
    /// The schema.
    pub schema: &'s Schema,
    /// Reads a field.
    pub get: F,
}

impl<F: Fn(usize, &mut dyn FnMut(&[u8])) -> bool> Stored<'_, F> {
    /// Whether every value fits its field's kind.
    pub fn fits(&self) -> bool {
        self.schema.fields.iter().enumerate().all(|(number, field)| {
            let mut fits = true;
            match &field.kind {
                FieldKind::Number => {
                    (self.get)(number, &mut |text| fits = parse_number(text).is_some());
                }
                FieldKind::Vector(spec) => {
                    (self.get)(number, &mut |text| fits = text.len() == spec.bytes());
                }
                _ => {}
            }
            fits
        })
    }
}

impl<F: Fn(usize, &mut dyn FnMut(&[u8])) -> bool> Document for Stored<'_, F> {
    fn any_number(&self, field: usize, each: &mut dyn FnMut(f64) -> bool) -> bool {
        let mut number = None;
        (self.get)(field, &mut |text| number = parse_number(text));
        number.is_some_and(each)
    }

    fn any_tag(&self, field: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let definition = &self.schema.fields[field];
        let FieldKind::Tag { separator, is_case_sensitive, .. } = definition.kind else {
            return false;
        };
        let (mut found, mut folded) = (false, Vec::new());
        (self.get)(field, &mut |text| {
            found = split_tags(text, separator)
                .filter(|tag| definition.indexes_empty || !tag.is_empty())
                .any(|tag| {
                    fold(tag, is_case_sensitive, &mut folded);
                    each(&folded)
                });
        });
        found
    }

    fn is_missing(&self, field: usize) -> bool {
        !(self.get)(field, &mut |_| ())
    }

    fn text(&self, field: usize, each: &mut dyn FnMut(&[u8])) {
        (self.get)(field, each);
    }

    fn vector(&self, field: usize, each: &mut dyn FnMut(&[u8])) {
        if let FieldKind::Vector(spec) = &self.schema.fields[field].kind {
            (self.get)(field, &mut |text| {
                spec.prepare(text, &mut *each);
            });
        }
    }
}
