//! A value where it lies on a tape.

use crate::number::{Number, decimal};
use crate::tape::{self, Header, is_container, is_object, span, string};
use crate::work::{SearchError, Work};

/// Members of two objects in different orders that are looked for one by one; more are sorted.
const FEW_MEMBERS: usize = 8;

/// A value of a document: the bytes of the tape that are its own.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    tape: &'a [u8],
}

/// Type of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number without a fraction.
    Integer,
    /// A number with one.
    Double,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// The name that `JSON.TYPE` answers.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Double => "number",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

impl<'a> Value<'a> {
    /// The value that a tape begins with.
    ///
    /// The bytes are those of a [`crate::Document`] or of an [`crate::Edit`] of one; others make
    /// no sense and may end in a panic.
    #[inline]
    pub fn new(tape: &'a [u8]) -> Self {
        Value { tape: &tape[..span(tape)] }
    }

    /// Returns the encoded bytes.
    pub fn tape(self) -> &'a [u8] {
        self.tape
    }

    /// Type of the value.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.tape[0] {
            tape::SHORT_STRING.. | tape::STRING8..=tape::STRING32 => Kind::String,
            tape::SMALL_INT..tape::SHORT_STRING | tape::I8..=tape::U64 => Kind::Integer,
            tape::NULL => Kind::Null,
            tape::FALSE | tape::TRUE => Kind::Boolean,
            tape::F64..=tape::DECIMAL32 => Kind::Double,
            tag if is_object(tag) => Kind::Object,
            _ => Kind::Array,
        }
    }

    /// The boolean.
    pub fn boolean(self) -> Option<bool> {
        (self.kind() == Kind::Boolean).then(|| self.tape[0] == tape::TRUE)
    }

    /// The string, which is UTF-8.
    pub fn string(self) -> Option<&'a [u8]> {
        (self.kind() == Kind::String).then(|| string(self.tape))
    }

    /// The number.
    pub fn number(self) -> Option<Number> {
        let t = self.tape;
        let word = || u64::from_le_bytes([t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]]);
        Some(match t[0] {
            tag @ tape::SMALL_INT..tape::SHORT_STRING => {
                Number::Integer(i64::from(tag - tape::SMALL_INT))
            }
            tape::I8 => Number::Integer(i64::from(t[1] as i8)),
            tape::I16 => Number::Integer(i64::from(tape::u16_at(t, 1) as i16)),
            tape::I32 => Number::Integer(i64::from(tape::u32_at(t, 1) as i32)),
            tape::I64 => Number::Integer(word() as i64),
            tape::U64 => Number::Unsigned(word()),
            tape::F64 => Number::Double(f64::from_bits(word())),
            tape::DECIMAL8 => Number::Double(decimal(t[1], i32::from(t[2] as i8))),
            tape::DECIMAL16 => Number::Double(decimal(t[1], i32::from(tape::u16_at(t, 2) as i16))),
            tape::DECIMAL32 => Number::Double(decimal(t[1], tape::u32_at(t, 2) as i32)),
            _ => return None,
        })
    }

    /// Number of elements or members; 0 of other values.
    pub fn len(self) -> usize {
        if is_container(self.tape[0]) { Header::read(self.tape).count } else { 0 }
    }

    /// Whether it has no elements or members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements of an array; none of other values.
    #[inline]
    pub fn items(self) -> Items<'a> {
        match self.kind() {
            Kind::Array => Items { rest: self.body() },
            _ => Items { rest: &[] },
        }
    }

    /// The members of an object; none of other values.
    #[inline]
    pub fn members(self) -> Members<'a> {
        match self.kind() {
            Kind::Object => Members { rest: self.body() },
            _ => Members { rest: &[] },
        }
    }

    #[inline]
    fn body(self) -> &'a [u8] {
        let header = Header::read(self.tape);
        &self.tape[header.len()..header.len() + header.body]
    }

    /// The element at an index of an array.
    pub fn item(self, index: usize) -> Option<Value<'a>> {
        if index >= self.len() {
            return None;
        }
        self.items().nth(index)
    }

    /// The member of this name of an object.
    #[inline]
    pub fn member(self, name: &[u8]) -> Option<Value<'a>> {
        self.members().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Depth of nesting: 0 for a scalar, 1 for a container of scalars.
    pub fn depth(self) -> usize {
        let deepest = match self.kind() {
            Kind::Array => self.items().map(Value::depth).max(),
            Kind::Object => self.members().map(|(_, value)| value.depth()).max(),
            _ => return 0,
        };
        1 + deepest.unwrap_or(0)
    }

    /// Whether both are the same: an integer is not a double, the order of members means nothing.
    pub fn is_same(self, other: Value<'_>) -> bool {
        self.is_same_within(other, &mut Work::unlimited()) == Ok(true)
    }

    /// Like [`Value::is_same`], within a budget: it takes steps in proportion to the members, and
    /// to their logarithm where their order differs.
    ///
    /// # Errors
    /// If there are too few.
    pub fn is_same_within(self, other: Value<'_>, work: &mut Work) -> Result<bool, SearchError> {
        work.spend(1)?;
        if self.tape.len() == other.tape.len() {
            work.spend_bytes(self.tape.len())?;
            if self.tape == other.tape {
                return Ok(true);
            }
        }
        if self.kind() != other.kind() || self.len() != other.len() {
            return Ok(false);
        }
        match self.kind() {
            Kind::Array => {
                for (a, b) in self.items().zip(other.items()) {
                    if !a.is_same_within(b, work)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Kind::Object => self.members().are_same(other.members(), self.len(), work),
            Kind::String => Ok(self.string() == other.string()),
            Kind::Integer | Kind::Double => Ok(self.number() == other.number()),
            Kind::Null | Kind::Boolean => Ok(false),
        }
    }
}

/// Elements of an array.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (value, rest) = self.rest.split_at(span(self.rest));
        self.rest = rest;
        Some(Value { tape: value })
    }
}

/// Members of an object: names and values.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], Value<'a>)> {
        if self.rest.is_empty() {
            return None;
        }
        let (name, rest) = self.rest.split_at(span(self.rest));
        let (value, rest) = rest.split_at(span(rest));
        self.rest = rest;
        Some((string(name), Value { tape: value }))
    }
}

impl<'a> Members<'a> {
    /// The members that lie in a part of a tape one after the other.
    pub(crate) fn of_body(body: &'a [u8]) -> Self {
        Members { rest: body }
    }

    /// The part of the tape that is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether both have the same members, of which each has `count` with names that are distinct.
    fn are_same(
        mut self,
        mut others: Members<'_>,
        mut count: usize,
        work: &mut Work,
    ) -> Result<bool, SearchError> {
        // As a rule they have one order, or a long part of them has.
        while count > 0 {
            let before = (self.clone(), others.clone());
            let Some(((name, value), (other_name, other))) = self.next().zip(others.next()) else {
                break;
            };
            work.spend_bytes(name.len())?;
            if name != other_name {
                (self, others) = before;
                break;
            }
            if !value.is_same_within(other, work)? {
                return Ok(false);
            }
            count -= 1;
        }
        if count <= FEW_MEMBERS {
            return self.all(work, |name, _| Ok(others.clone().find(|(other, _)| *other == name)));
        }
        let sorted = others.sorted(count, work)?;
        let depth = u64::from(count.ilog2()) + 1;
        self.all(work, |name, work| {
            work.spend(depth * (1 + name.len() as u64 / 64))?;
            let place =
                sorted.binary_search_by(|&at| string(&others.rest[at as usize..]).cmp(name));
            Ok(place.ok().and_then(|place| {
                let at = sorted[place] as usize;
                Members { rest: &others.rest[at..] }.next()
            }))
        })
    }

    /// Whether every member is the same as the one that `find` finds by its name.
    fn all<'o>(
        self,
        work: &mut Work,
        find: impl Fn(&[u8], &mut Work) -> Result<Option<(&'o [u8], Value<'o>)>, SearchError>,
    ) -> Result<bool, SearchError> {
        for (name, value) in self {
            let Some((_, other)) = find(name, work)? else { return Ok(false) };
            if !value.is_same_within(other, work)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Places of `count` members, ordered by their names.
    fn sorted(&self, count: usize, work: &mut Work) -> Result<Vec<u32>, SearchError> {
        let depth = u64::from(count.ilog2()) + 1;
        work.spend(depth * (count as u64 + self.rest.len() as u64 / 64))?;
        let (mut places, mut members) = (Vec::with_capacity(count), self.clone());
        while !members.rest.is_empty() {
            // No tape is longer.
            places.push((self.rest.len() - members.rest.len()) as u32);
            members.next();
        }
        places.sort_unstable_by_key(|&at| string(&self.rest[at as usize..]));
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Parse, parse};

    fn object(names: impl Iterator<Item = usize>) -> Document {
        let members: Vec<String> =
            names.map(|n| format!("\"name {n}\":{{\"n\":[{n}],\"x\":1}}")).collect();
        parse(format!("{{{}}}", members.join(",")).as_bytes(), Parse::default()).unwrap()
    }

    #[test]
    fn the_order_of_members_means_nothing() {
        for count in [0, 1, 2, FEW_MEMBERS, FEW_MEMBERS + 1, 100, 1000] {
            let ascending = object(0..count);
            let others = [
                object((0..count).rev()),
                object((0..count).map(|n| (n + count / 2) % count.max(1))),
                object(0..count),
            ];
            for other in &others {
                assert!(ascending.root().is_same(other.root()), "{count}");
            }
            let different = object((1..=count).rev());
            assert_eq!(ascending.root().is_same(different.root()), count == 0, "{count}");
        }
        let [a, b] = [br#"{"a":1,"b":2}"#, br#"{"b":2,"a":3}"#];
        let [a, b] = [a, b].map(|text| parse(text, Parse::default()).unwrap());
        assert!(!a.root().is_same(b.root()));
    }

    #[test]
    fn comparing_takes_steps_by_what_is_compared() {
        let (a, b) = (object(0..60_000), object((0..60_000).rev()));
        let mut work = Work::default();
        assert_eq!(a.root().is_same_within(b.root(), &mut work), Ok(true));
        let taken = Work::default().left() - work.left();
        assert!((60_000..10_000_000).contains(&taken), "{taken} steps");
        let mut few = Work::default();
        few.spend(few.left() - taken / 2).unwrap();
        let ended = a.root().is_same_within(b.root(), &mut few);
        assert_eq!(ended, Err(SearchError::TooMuchWork));
    }
}
