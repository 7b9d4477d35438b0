//! [`FromReply`]: conversion of replies to types.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::str::FromStr;

use bytes::Bytes;
use petrel_resp::Value;

use crate::error::{Error, Result};

/// A type that replies can be turned into. Numbers are never narrowed silently, and a missing value
/// is only taken by `Option` and by collections, which it leaves empty.
pub trait FromReply: Sized {
    /// Turns a reply into the type. An error reply becomes an error.
    fn from_reply(reply: Value) -> Result<Self>;

    /// Turns a string that lies elsewhere into the type, as [`FromReply::from_reply`] does with a
    /// copy of it.
    fn from_string(text: &[u8]) -> Result<Self> {
        Self::from_reply(Value::Bulk(Bytes::copy_from_slice(text)))
    }

    /// Turns the items of an array into a list; pairs may stand flat beside one another, as RESP2
    /// has maps.
    fn from_items(items: Vec<Value>) -> Result<Vec<Self>> {
        items.into_iter().map(Self::from_reply).collect()
    }

    /// Turns the pairs of a map into a list.
    fn from_pairs(pairs: Vec<(Value, Value)>) -> Result<Vec<Self>> {
        let items = pairs.into_iter().flat_map(|(key, value)| [key, value]);
        Self::from_items(items.collect())
    }
}

/// The error for a reply of the wrong type, or the error that it is.
fn mismatch<T>(expected: &'static str, reply: &Value) -> Result<T> {
    match reply {
        Value::Error(text) => Err(Error::from_reply(text)),
        other => Err(Error::unexpected(expected, other)),
    }
}

impl FromReply for Value {
    fn from_reply(reply: Value) -> Result<Self> {
        match reply {
            Value::Error(text) => Err(Error::from_reply(&text)),
            reply => Ok(reply),
        }
    }

    fn from_pairs(pairs: Vec<(Value, Value)>) -> Result<Vec<Self>> {
        Ok(pairs.into_iter().map(|(key, value)| Value::Array(vec![key, value])).collect())
    }
}

/// A reply that says that all went well, whatever its words.
impl FromReply for () {
    fn from_reply(reply: Value) -> Result<Self> {
        match reply {
            Value::Simple(_) => Ok(()),
            Value::Bulk(text) if &text[..] == b"OK" => Ok(()),
            other => mismatch("a status", &other),
        }
    }
}

impl FromReply for Bytes {
    #[inline]
    fn from_string(text: &[u8]) -> Result<Self> {
        Ok(Bytes::copy_from_slice(text))
    }

    fn from_reply(reply: Value) -> Result<Self> {
        match reply {
            Value::Bulk(text) | Value::Simple(text) | Value::BigNumber(text) => Ok(text),
            Value::Verbatim { text, .. } => Ok(text),
            Value::Integer(number) => Ok(Bytes::from(number.to_string())),
            Value::Double(number) => Ok(Bytes::from(number.to_string())),
            other => mismatch("a string", &other),
        }
    }
}

impl FromReply for Vec<u8> {
    #[inline]
    fn from_string(text: &[u8]) -> Result<Self> {
        Ok(text.to_vec())
    }

    fn from_reply(reply: Value) -> Result<Self> {
        Bytes::from_reply(reply).map(Vec::from)
    }
}

impl FromReply for String {
    #[inline]
    fn from_string(text: &[u8]) -> Result<Self> {
        match std::str::from_utf8(text) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => not_utf8(Bytes::copy_from_slice(text)),
        }
    }

    fn from_reply(reply: Value) -> Result<Self> {
        let bytes = Bytes::from_reply(reply)?;
        match String::from_utf8(bytes.into()) {
            Ok(text) => Ok(text),
            Err(error) => not_utf8(error.into_bytes().into()),
        }
    }
}

#[cold]
fn not_utf8<T>(text: Bytes) -> Result<T> {
    Err(Error::unexpected("UTF-8 text", &Value::Bulk(text)))
}

/// `1` and `0`, `OK` and null, or what RESP3 has for it.
impl FromReply for bool {
    fn from_reply(reply: Value) -> Result<Self> {
        match reply {
            Value::Boolean(is) => Ok(is),
            Value::Integer(0) | Value::Null | Value::NullArray => Ok(false),
            Value::Integer(1) => Ok(true),
            Value::Simple(text) | Value::Bulk(text) if &text[..] == b"OK" => Ok(true),
            other => mismatch("a yes or no", &other),
        }
    }
}

fn integer(reply: &Value) -> Option<i64> {
    match reply {
        Value::Integer(number) => Some(*number),
        Value::Bulk(text) | Value::Simple(text) => parsed(text),
        _ => None,
    }
}

/// A number in decimal.
#[inline]
fn parsed<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The error for a string that is not of the type.
#[cold]
fn mismatched_string<T>(expected: &'static str, text: &[u8]) -> Result<T> {
    mismatch(expected, &Value::Bulk(Bytes::copy_from_slice(text)))
}

macro_rules! integers {
    ($($kind:ty),*) => { $(
        impl FromReply for $kind {
            #[inline]
            fn from_string(text: &[u8]) -> Result<Self> {
                match parsed::<i64>(text).and_then(|number| number.try_into().ok()) {
                    Some(number) => Ok(number),
                    None => mismatched_string(
                        concat!("an integer of the type ", stringify!($kind)),
                        text,
                    ),
                }
            }

            fn from_reply(reply: Value) -> Result<Self> {
                match integer(&reply).and_then(|number| number.try_into().ok()) {
                    Some(number) => Ok(number),
                    None => mismatch(concat!("an integer of the type ", stringify!($kind)), &reply),
                }
            }
        }
    )* };
}
integers!(i8, i16, i32, i64, isize, u8, u16, u32, usize);

impl FromReply for u64 {
    #[inline]
    fn from_string(text: &[u8]) -> Result<Self> {
        parsed(text).map_or_else(|| mismatched_string("an integer of the type u64", text), Ok)
    }

    fn from_reply(reply: Value) -> Result<Self> {
        let number = match &reply {
            Value::Integer(number) => u64::try_from(*number).ok(),
            // Cursors go beyond what RESP has for integers.
            other => other.as_bytes().and_then(parsed),
        };
        number.map_or_else(|| mismatch("an integer of the type u64", &reply), Ok)
    }
}

impl FromReply for f64 {
    #[inline]
    fn from_string(text: &[u8]) -> Result<Self> {
        parsed(text).map_or_else(|| mismatched_string("a number", text), Ok)
    }

    fn from_reply(reply: Value) -> Result<Self> {
        let number = match &reply {
            Value::Double(number) => Some(*number),
            // Exact up to 2^53 and nearest beyond, as the server has scores.
            Value::Integer(number) => Some(*number as f64),
            Value::Bulk(text) | Value::Simple(text) => parsed(text),
            _ => None,
        };
        number.map_or_else(|| mismatch("a number", &reply), Ok)
    }
}

impl<T: FromReply> FromReply for Option<T> {
    #[inline]
    fn from_string(text: &[u8]) -> Result<Self> {
        T::from_string(text).map(Some)
    }

    fn from_reply(reply: Value) -> Result<Self> {
        match reply {
            Value::Null | Value::NullArray => Ok(None),
            reply => T::from_reply(reply).map(Some),
        }
    }
}

macro_rules! lists {
    ($($list:ty, [$($parameter:tt)*];)*) => { $(
        impl<$($parameter)*> FromReply for $list {
            fn from_reply(reply: Value) -> Result<Self> {
                Ok(list_of(reply)?.into_iter().collect())
            }
        }
    )* };
}
lists! {
    HashSet<T, S>, [T: FromReply + Eq + Hash, S: BuildHasher + Default];
    BTreeSet<T>, [T: FromReply + Ord];
    HashMap<K, V, S>, [K: FromReply + Eq + Hash, V: FromReply, S: BuildHasher + Default];
    BTreeMap<K, V>, [K: FromReply + Ord, V: FromReply];
}

/// Lists of types other than bytes.
macro_rules! vectors {
    ($($item:ty),*; $($generic:ty, [$($parameter:tt)*]);* $(;)?) => {
        $(impl FromReply for Vec<$item> {
            fn from_reply(reply: Value) -> Result<Self> {
                list_of(reply)
            }
        })*
        $(impl<$($parameter)*> FromReply for Vec<$generic> {
            fn from_reply(reply: Value) -> Result<Self> {
                list_of(reply)
            }
        })*
    };
}
vectors!(
    Value, Bytes, String, bool, i64, u64, f64, usize, i32, u32,
    // Named one by one: a list of any list would send the compiler round in circles.
    Vec<Value>, Vec<Bytes>, Vec<String>, Vec<i64>, Vec<f64>;
    Option<T>, [T: FromReply];
    (A, B), [A: FromReply, B: FromReply];
    (A, B, C), [A: FromReply, B: FromReply, C: FromReply];
    (A, B, C, D), [A: FromReply, B: FromReply, C: FromReply, D: FromReply];
);

fn list_of<T: FromReply>(reply: Value) -> Result<Vec<T>> {
    match reply {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => T::from_items(items),
        Value::Map(pairs) => T::from_pairs(pairs),
        Value::Null | Value::NullArray => Ok(Vec::new()),
        other => mismatch("an array", &other),
    }
}

impl<A: FromReply, B: FromReply> FromReply for (A, B) {
    fn from_reply(reply: Value) -> Result<Self> {
        match reply {
            Value::Array(items) if items.len() == 2 => {
                let mut items = items.into_iter();
                match (items.next(), items.next()) {
                    (Some(a), Some(b)) => Ok((A::from_reply(a)?, B::from_reply(b)?)),
                    _ => mismatch("a pair", &Value::Null),
                }
            }
            Value::Map(mut pairs) if pairs.len() == 1 => match pairs.pop() {
                Some((a, b)) => Ok((A::from_reply(a)?, B::from_reply(b)?)),
                None => mismatch("a pair", &Value::Null),
            },
            other => mismatch("a pair", &other),
        }
    }

    fn from_items(items: Vec<Value>) -> Result<Vec<Self>> {
        // A flat list begins with a scalar; of nested pairs the first item is a pair itself.
        if matches!(items.first(), Some(Value::Array(_))) {
            return items.into_iter().map(Self::from_reply).collect();
        }
        if !items.len().is_multiple_of(2) {
            return mismatch("pairs", &Value::Array(items));
        }
        let mut pairs = Vec::with_capacity(items.len() / 2);
        let mut items = items.into_iter();
        while let (Some(a), Some(b)) = (items.next(), items.next()) {
            pairs.push((A::from_reply(a)?, B::from_reply(b)?));
        }
        Ok(pairs)
    }

    fn from_pairs(pairs: Vec<(Value, Value)>) -> Result<Vec<Self>> {
        pairs.into_iter().map(|(a, b)| Ok((A::from_reply(a)?, B::from_reply(b)?))).collect()
    }
}

macro_rules! tuples {
    ($($len:literal: $($part:ident),*;)*) => { $(
        impl<$($part: FromReply),*> FromReply for ($($part,)*) {
            fn from_reply(reply: Value) -> Result<Self> {
                let items = match reply {
                    Value::Array(items) if items.len() == $len => items,
                    other => {
                        return mismatch(concat!("an array of ", stringify!($len), " items"), &other);
                    }
                };
                let mut items = items.into_iter();
                Ok(($($part::from_reply(items.next().unwrap_or(Value::Null))?,)*))
            }
        }
    )* };
}
tuples! {
    3: A, B, C;
    4: A, B, C, D;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn maps_of_both_protocols() {
        let resp2 = Value::Array(vec![bulk("a"), bulk("1"), bulk("b"), bulk("2")]);
        let resp3 = Value::Map(vec![(bulk("a"), bulk("1")), (bulk("b"), bulk("2"))]);
        let nested = Value::Array(vec![
            Value::Array(vec![bulk("a"), Value::Integer(1)]),
            Value::Array(vec![bulk("b"), Value::Integer(2)]),
        ]);
        for reply in [resp2, resp3, nested] {
            let pairs: Vec<(String, i64)> = FromReply::from_reply(reply.clone()).unwrap();
            assert_eq!(pairs, [("a".into(), 1), ("b".into(), 2)]);
            let map: BTreeMap<String, i64> = FromReply::from_reply(reply).unwrap();
            assert_eq!(map.into_iter().collect::<Vec<_>>(), pairs);
        }
        let odd = Value::Array(vec![bulk("a"), bulk("1"), bulk("b")]);
        assert!(Vec::<(String, i64)>::from_reply(odd).is_err());
    }

    #[test]
    fn numbers_are_not_narrowed() {
        assert!(u8::from_reply(Value::Integer(256)).is_err());
        assert!(u64::from_reply(Value::Integer(-1)).is_err());
        assert_eq!(u64::from_reply(bulk("18446744073709551615")).unwrap(), u64::MAX);
        assert!(i64::from_reply(bulk("1.5")).is_err());
        assert!(i64::from_reply(Value::Null).is_err());
        assert_eq!(Option::<i64>::from_reply(Value::Null).unwrap(), None);
    }

    #[test]
    fn a_string_becomes_what_its_copy_becomes() {
        fn check<T: FromReply + PartialEq + std::fmt::Debug>(text: &[u8]) {
            let copy = T::from_reply(Value::Bulk(Bytes::copy_from_slice(text)));
            let text = T::from_string(text);
            match (text, copy) {
                (Ok(text), Ok(copy)) => assert_eq!(text, copy),
                (text, copy) => {
                    assert_eq!(text.unwrap_err().to_string(), copy.unwrap_err().to_string())
                }
            }
        }
        let max = u64::MAX.to_string();
        for text in [&b""[..], b"7", b"-7", b"256", b"1.5", b"x", b"\xff", max.as_bytes(), b"OK"] {
            check::<String>(text);
            check::<Vec<u8>>(text);
            check::<Bytes>(text);
            check::<Option<String>>(text);
            check::<u8>(text);
            check::<i64>(text);
            check::<u64>(text);
            check::<usize>(text);
            check::<f64>(text);
            check::<bool>(text);
            check::<Value>(text);
            check::<Vec<i64>>(text);
        }
    }

    #[test]
    fn errors_stay_errors() {
        let error = || Value::Error(Bytes::from_static(b"WRONGTYPE no"));
        assert_eq!(i64::from_reply(error()).unwrap_err().code(), Some("WRONGTYPE"));
        assert_eq!(Value::from_reply(error()).unwrap_err().code(), Some("WRONGTYPE"));
        assert_eq!(Vec::<Bytes>::from_reply(error()).unwrap_err().code(), Some("WRONGTYPE"));
        assert!(bool::from_reply(error()).is_err() && <()>::from_reply(error()).is_err());
    }
}
