//! Merge patches (RFC 7396), as the changes that they consist of.

use crate::path::Step;
use crate::tape::{Document, Writer};
use crate::value::{Kind, Value};
use std::collections::HashMap;

/// Change made by a merge at a place: a new value, or `None` to remove the present one.
type Merged<'a> = (Vec<Step<'a>>, Option<Document>);

/// Computes the changes that merge a patch into the value at a place (`None`: there is no value). A
/// patch of null removes the place.
pub fn merge<'a>(at: &[Step<'a>], target: Option<Value<'_>>, patch: Value<'a>) -> Vec<Merged<'a>> {
    let mut changes = Vec::new();
    let mut place = at.to_vec();
    merge_into(&mut place, target, patch, &mut changes);
    changes
}

fn merge_into<'a>(
    place: &mut Vec<Step<'a>>,
    target: Option<Value<'_>>,
    patch: Value<'a>,
    changes: &mut Vec<Merged<'a>>,
) {
    match (patch.kind(), target) {
        (Kind::Null, None) => {}
        (Kind::Null, Some(_)) => changes.push((place.clone(), None)),
        (Kind::Object, Some(target)) if target.kind() == Kind::Object => {
            for (name, value) in patch.members() {
                place.push(Step::Name(name));
                merge_into(place, target.member(name), value, changes);
                place.pop();
            }
        }
        _ => changes.push((place.clone(), Some(without_nulls(patch)))),
    }
}

/// Returns the result of merging a patch into a value.
pub fn merged(target: Value<'_>, patch: Value<'_>) -> Document {
    let mut writer = Writer::default();
    write_merged(target, patch, &mut writer);
    writer.finish()
}

fn write_merged(target: Value<'_>, patch: Value<'_>, writer: &mut Writer) {
    if patch.kind() != Kind::Object || target.kind() != Kind::Object {
        return write_without_nulls(patch, writer);
    }
    let mut patches: HashMap<&[u8], Value<'_>> = patch.members().collect();
    let begun = writer.begin_object();
    let mut count = 0;
    for (name, value) in target.members() {
        match patches.remove(name) {
            Some(patch) if patch.kind() == Kind::Null => continue,
            Some(patch) => {
                writer.string(name);
                write_merged(value, patch, writer);
            }
            None => {
                writer.string(name);
                writer.value(value);
            }
        }
        count += 1;
    }
    for (name, value) in patch.members() {
        if value.kind() != Kind::Null && patches.contains_key(name) {
            writer.string(name);
            write_without_nulls(value, writer);
            count += 1;
        }
    }
    writer.end(begun, count);
}

/// The value without members that are null, which a patch leaves behind where nothing was.
/// Elements of arrays stay.
fn without_nulls(value: Value<'_>) -> Document {
    let mut writer = Writer::default();
    write_without_nulls(value, &mut writer);
    writer.finish()
}

fn write_without_nulls(value: Value<'_>, writer: &mut Writer) {
    if value.kind() != Kind::Object {
        return writer.value(value);
    }
    let begun = writer.begin_object();
    let mut count = 0;
    for (name, value) in value.members().filter(|(_, value)| value.kind() != Kind::Null) {
        writer.string(name);
        write_without_nulls(value, writer);
        count += 1;
    }
    writer.end(begun, count);
}
