//! All value types, by number, name and form in RDB.

use super::unknown::UNKNOWN;
use super::{RdbForm, TypeNumber, ValueType};
use crate::structures::{
    array, bloom, count_min, cuckoo, json, suggestions, t_digest, top_k, vectors,
};
use std::sync::{PoisonError, RwLock};

/// The types that are built in: a new one is one line.
static BUILT_IN: &[&ValueType] = &[
    &vectors::rdb::TYPE,
    &json::rdb::TYPE,
    &bloom::rdb::TYPE,
    &count_min::rdb::TYPE,
    &cuckoo::rdb::TYPE,
    &top_k::rdb::TYPE,
    &t_digest::rdb::TYPE,
    &array::rdb::TYPE,
    &suggestions::rdb::TYPE,
    &UNKNOWN,
];

/// Types of a host that embeds the keyspace.
static ADDED: RwLock<Vec<&'static ValueType>> = RwLock::new(Vec::new());

/// Adds a type for the whole process, before values of it are loaded or made. A type that was added
/// before stays.
///
/// # Panics
/// If another type has its number, its name, its type byte or one of its modules.
pub fn add_type(of: &'static ValueType) {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    if added.iter().any(|other| std::ptr::eq(*other, of)) {
        return;
    }
    let is_taken = BUILT_IN.iter().chain(&*added).any(|other| {
        other.number == of.number || other.name == of.name || other.form.clashes(&of.form)
    });
    assert!(!is_taken, "a type like {} is there already", of.name);
    added.push(of);
}

/// The first type that `wanted` accepts.
#[inline]
pub(crate) fn find(wanted: impl Fn(&ValueType) -> bool) -> Option<&'static ValueType> {
    let built_in = BUILT_IN.iter().find(|of| wanted(of)).copied();
    built_in.or_else(|| {
        let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
        added.iter().find(|of| wanted(of)).copied()
    })
}

/// The type of a number.
#[inline]
pub fn type_of_number(number: TypeNumber) -> Option<&'static ValueType> {
    find(|of| of.number == number)
}

/// All types.
pub fn all_types() -> Vec<&'static ValueType> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    BUILT_IN.iter().chain(&*added).copied().collect()
}

/// The type that reads values of a module number of RDB.
pub fn type_of_module(module: u64) -> Option<&'static ValueType> {
    find(|of| of.form.is_of_module(module))
}

/// The type that reads values of a type byte of RDB.
pub fn type_of_type_byte(byte: u8) -> Option<&'static ValueType> {
    find(|of| matches!(of.form, RdbForm::TypeByte(own) if own == byte))
}
