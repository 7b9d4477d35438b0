//! Values of a keyspace, fed to a sink.

use super::stream;
use crate::rdb::{CustomItem, Dialect, Error, Form, Item, Shape, ValueSink};
use petrel_keyspace::custom::{TypeNumber, ValueType, type_of_number};
use petrel_keyspace::packed;
use petrel_keyspace::types::list::ListRef;
use petrel_keyspace::types::sorted_set::SortedSetRef;
use petrel_keyspace::{HashRef, ImageElement, SetRef, StrRef, Type, View};
use std::ops::ControlFlow;

/// The form in which a value is written as it is at a moment in Unix milliseconds.
pub fn form(view: View<'_>, now_ms: i64, dialect: Dialect) -> Form {
    match view.type_of() {
        Type::String => Form::String,
        Type::List => Form::List,
        Type::Set => Form::Set,
        Type::SortedSet => Form::SortedSet,
        Type::Hash => {
            if let (Some(beyond), Dialect::Redis) = (view.compact_hash(), dialect) {
                return Form::HashCompact { beyond };
            }
            let hash = view.hash(now_ms).ok();
            Form::hash(hash.and_then(|hash| hash.earliest_expiry()), dialect)
        }
        Type::Stream => view.stream().map_or(Form::Stream1, stream::form),
        Type::Custom(number) => Form::Custom(number),
    }
}

/// Feeds a value, as it is at a moment in Unix milliseconds, to a sink.
///
/// # Errors
/// Those of the sink.
pub fn feed(view: View<'_>, now_ms: i64, sink: &mut impl ValueSink) -> Result<(), Error> {
    let fed = match view.type_of() {
        Type::String => view.string().map(|string| feed_string(string, sink)),
        Type::List => view.list().map(|list| feed_list(list, sink)),
        Type::Set => view.set().map(|set| feed_set(set, sink)),
        Type::SortedSet => view.sorted_set().map(|set| feed_sorted_set(set, sink)),
        Type::Stream => view.stream().map(|found| stream::feed(found, sink)),
        Type::Custom(number) => return feed_custom(view, number, sink),
        Type::Hash => view.hash(now_ms).map(|hash| feed_hash(hash, sink)),
    };
    // The type is that of the view.
    fed.unwrap_or(Err(Error::Refused("a value of another type than its own")))
}

/// The shape of a collection, as it is at a moment in Unix milliseconds; none of other values.
pub fn shape(view: View<'_>, now_ms: i64) -> Option<Shape> {
    match view.type_of() {
        Type::List => Some(Shape::List { len: Some(view.list().ok()?.len()) }),
        Type::Set => Some(Shape::Set { len: view.set().ok()?.len() }),
        Type::SortedSet => Some(Shape::SortedSet { len: view.sorted_set().ok()?.len() }),
        Type::Hash => Some(Shape::Hash { len: view.hash(now_ms).ok()?.alive() }),
        Type::Stream => Some(Shape::Stream { nodes: view.stream().ok()?.nodes() }),
        Type::Custom(number) => Some(Shape::Custom(number)),
        Type::String => None,
    }
}

/// Feeds an element of a collection, as it is at a moment in Unix milliseconds, to a sink.
///
/// # Errors
/// Those of the sink.
pub fn feed_element(
    element: ImageElement<'_>,
    now_ms: i64,
    sink: &mut impl ValueSink,
) -> Result<(), Error> {
    match element {
        ImageElement::Item(text) | ImageElement::Member(text) => sink.element(Item::Text(text)),
        ImageElement::Scored(member, score) => sink.scored(Item::Text(member), score),
        ImageElement::Field(_, _, Some(at)) if at <= now_ms => Ok(()),
        ImageElement::Field(field, value, expiry) => {
            sink.field(Item::Text(field), Item::Text(value), expiry)
        }
        ImageElement::Node(node) => stream::feed_node(node.entries(), sink),
        ImageElement::StreamState(state, first, groups) => {
            stream::feed_state(state, first, groups, sink)
        }
        ImageElement::Group(group) => stream::feed_group_head(group, sink),
        ImageElement::Pending(pending) => stream::feed_pending(pending, sink),
        ImageElement::GivenBack(id) => stream::feed_given_back(id, sink),
        ImageElement::Custom(chunk) => sink.chunk(chunk),
        ImageElement::StreamRest(rest) => stream::feed_rest(rest, sink),
    }
}

/// Whether a Redis that reads RDB up to a version has a value type, so that as a replica it can be
/// sent values.
pub fn is_of_redis(number: TypeNumber, version_max: u16) -> bool {
    let is_known = |of: &ValueType| of.commands.is_some() && of.rdb_version <= version_max;
    type_of_number(number).is_some_and(is_known)
}

fn feed_custom(view: View<'_>, number: TypeNumber, sink: &mut impl ValueSink) -> Result<(), Error> {
    match (type_of_number(number), view.held()) {
        (Some(of), Some(held)) => sink.custom(of, CustomItem::Held(held)),
        _ => Err(Error::Unsupported("the value is of a type that is not known")),
    }
}

fn feed_string(string: StrRef<'_>, sink: &mut impl ValueSink) -> Result<(), Error> {
    sink.string(match string {
        StrRef::Bytes(text) => Item::Text(text),
        StrRef::Int(n) => Item::Int(n),
        StrRef::Blob(text) => Item::Text(text),
    })
}

fn feed_list(list: ListRef<'_>, sink: &mut impl ValueSink) -> Result<(), Error> {
    sink.begin(Shape::List { len: Some(list.len()) })?;
    let mut text = Vec::new();
    list.iter_from(0).try_for_each(|element| {
        if let Some(whole) = element.item() {
            return sink.element(item(whole));
        }
        text.clear();
        element.append_to(&mut text);
        sink.element(item(packed::Item::from_text(&text)))
    })
}

fn feed_set(set: SetRef<'_>, sink: &mut impl ValueSink) -> Result<(), Error> {
    sink.begin(Shape::Set { len: set.len() })?;
    let mut fed = Ok(());
    let _ = set.try_each(&mut |member| {
        fed = sink.element(item(member));
        if fed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    fed
}

fn feed_hash(hash: HashRef<'_>, sink: &mut impl ValueSink) -> Result<(), Error> {
    sink.begin(Shape::Hash { len: hash.alive() })?;
    let mut fed = Ok(());
    let _ = hash.try_each(&mut |field| {
        fed = sink.field(item(field.name), item(field.value), field.expiry);
        if fed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    fed
}

fn feed_sorted_set(set: SortedSetRef<'_>, sink: &mut impl ValueSink) -> Result<(), Error> {
    let len = set.len();
    sink.begin(Shape::SortedSet { len })?;
    let mut fed = Ok(());
    set.each(0..len, |member, score| {
        if fed.is_ok() {
            fed = sink.scored(item(member), score);
        }
    });
    fed
}

pub(super) fn item(item: packed::Item<'_>) -> Item<'_> {
    match item {
        packed::Item::Text(text) => Item::Text(text),
        packed::Item::Int(n) => Item::Int(n),
    }
}
