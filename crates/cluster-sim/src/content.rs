//! Contents of keys in a canonical form, so that two nodes can be compared.

use petrel_resp::Value;

/// Family of a key: the first letter of its name selects the type and the commands used on it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Family {
    /// Strings of any kind.
    Text,
    /// Strings that are numbers.
    Number,
    /// Counters that only `INCR` changes: every reply is different.
    Counter,
    /// Pairs of strings that are always written together.
    Twin,
    /// Lists.
    List,
    /// Lists of unique elements, each popped once.
    Queue,
    /// Lists of unique elements that persist.
    Log,
    /// Sets.
    Set,
    /// Sets of unique members, each popped once.
    Bag,
    /// Hashes.
    Hash,
    /// Sorted sets.
    Scores,
    /// Streams.
    Stream,
}

/// All families.
pub const FAMILIES: [Family; 12] = [
    Family::Text,
    Family::Number,
    Family::Counter,
    Family::Twin,
    Family::List,
    Family::Queue,
    Family::Log,
    Family::Set,
    Family::Bag,
    Family::Hash,
    Family::Scores,
    Family::Stream,
];

impl Family {
    /// First letter of its keys' names.
    pub fn letter(self) -> char {
        b"tncwlqgsbhzx"[FAMILIES.iter().position(|family| *family == self).unwrap_or(0)] as char
    }

    /// The family of a key.
    pub fn of(key: &[u8]) -> Option<Self> {
        let letter = *key.first()? as char;
        FAMILIES.into_iter().find(|family| family.letter() == letter)
    }

    /// Whether a flush may remove its keys: no check relies on their persistence.
    pub fn may_be_removed(self) -> bool {
        !matches!(self, Family::Counter | Family::Log | Family::Twin)
    }

    /// The command that reads all of a key.
    pub fn read(self, key: &[u8]) -> Vec<Vec<u8>> {
        let args: &[&[u8]] = match self {
            Family::Text | Family::Number | Family::Counter | Family::Twin => &[b"GET", key],
            Family::List | Family::Queue | Family::Log => &[b"LRANGE", key, b"0", b"-1"],
            Family::Set | Family::Bag => &[b"SMEMBERS", key],
            Family::Hash => &[b"HGETALL", key],
            Family::Scores => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
            Family::Stream => &[b"XRANGE", key, b"-", b"+"],
        };
        args.iter().map(|arg| arg.to_vec()).collect()
    }
}

/// Contents of a key as texts in an order independent of its history. Empty for a missing key.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Content(pub Vec<Vec<u8>>);

impl Content {
    /// Contents from the reply to [`Family::read`].
    pub fn of_reply(family: Family, reply: &Value) -> Self {
        let mut texts = Vec::new();
        flatten(reply, &mut texts);
        match family {
            Family::Set | Family::Bag => texts.sort(),
            Family::Hash => {
                let mut pairs: Vec<_> = texts.chunks(2).map(<[_]>::to_vec).collect();
                pairs.sort();
                texts = pairs.concat();
            }
            _ => {}
        }
        Content(texts)
    }

    /// Whether the key exists.
    pub fn is_there(&self) -> bool {
        !self.0.is_empty()
    }
}

fn flatten(value: &Value, texts: &mut Vec<Vec<u8>>) {
    match value {
        Value::Null | Value::NullArray => {}
        Value::Array(values) | Value::Set(values) | Value::Push(values) => {
            values.iter().for_each(|value| flatten(value, texts));
        }
        Value::Integer(n) => texts.push(n.to_string().into_bytes()),
        Value::Error(text) => texts.push([b"-", &text[..]].concat()),
        other => texts.push(other.as_bytes().unwrap_or_default().to_vec()),
    }
}
