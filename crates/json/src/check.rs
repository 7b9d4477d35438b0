//! Whether bytes are tapes: those of a log are read by another process than wrote them.

use crate::parse::DEPTH_MAX;
use crate::tape::{self, BYTES_MAX, Header, is_container, is_object, span, string};
use crate::value::{Kind, Value};

/// Objects of more members have their names sorted to find doubled ones.
const FEW_MEMBERS: usize = 16;

/// Returns the value if the bytes are exactly one valid tape. `outer` is the number of containers
/// around it, which count for the depth limit.
pub fn check(bytes: &[u8], outer: usize) -> Option<Value<'_>> {
    (check_one(bytes, outer)? == bytes.len()).then(|| Value::new(bytes))
}

/// Whether the bytes are exactly `count` valid tapes. `outer` is the number of containers around
/// them.
pub fn check_many(bytes: &[u8], count: usize, outer: usize) -> bool {
    let (mut at, mut left) = (0, count);
    while at < bytes.len() && left > 0 {
        let Some(len) = check_one(&bytes[at..], outer) else { return false };
        at += len;
        left -= 1;
    }
    at == bytes.len() && left == 0
}

/// Bytes of the value that a tape begins with, if it is one.
fn check_one(bytes: &[u8], outer: usize) -> Option<usize> {
    let tag = *bytes.first()?;
    let len = within(bytes, head_len(tag)?).then(|| span(bytes)).filter(|&len| len <= BYTES_MAX)?;
    let bytes = bytes.get(..len)?;
    if is_container(tag) {
        check_body(bytes, outer + 1)?;
        return Some(len);
    }
    let is_value = match tag {
        tape::F64 => f64::from_le_bytes(bytes[1..9].try_into().ok()?).is_finite(),
        tape::DECIMAL8 | tape::DECIMAL16 | tape::DECIMAL32 => bytes[1] <= 22,
        // Smaller ones are signed.
        tape::U64 => i64::from_le_bytes(bytes[1..9].try_into().ok()?) < 0,
        _ if Value::new(bytes).kind() == Kind::String => str::from_utf8(string(bytes)).is_ok(),
        _ => true,
    };
    is_value.then_some(len)
}

fn within(bytes: &[u8], len: usize) -> bool {
    bytes.len() >= len
}

/// Bytes that say how long a value with this tag is, the tag included; none if there is no such
/// tag.
fn head_len(tag: u8) -> Option<usize> {
    Some(match tag {
        tape::SMALL_INT.. | tape::NULL..=tape::DECIMAL32 => 1,
        tape::STRING8 => 2,
        tape::STRING16 => 3,
        tape::STRING32 => 5,
        _ if is_container(tag) => 1 + (2 << (tag & 3)),
        _ => return None,
    })
}

/// Checks the contents of a container against its header.
fn check_body(bytes: &[u8], depth: usize) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    let header = Header::read(bytes);
    let (mut at, mut count) = (header.len(), 0);
    let is_object = is_object(bytes[0]);
    while at < bytes.len() {
        if is_object {
            let name = check_one(&bytes[at..], depth)?;
            if Value::new(&bytes[at..]).kind() != Kind::String {
                return None;
            }
            at += name;
        }
        at += check_one(&bytes[at..], depth)?;
        count += 1;
    }
    let is_whole = count == header.count && (!is_object || are_distinct(Value::new(bytes)));
    is_whole.then_some(())
}

fn are_distinct(object: Value<'_>) -> bool {
    let mut names: Vec<&[u8]> = object.members().map(|(name, _)| name).collect();
    if names.len() <= FEW_MEMBERS {
        return (1..names.len()).all(|i| !names[..i].contains(&names[i]));
    }
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parse, parse};

    #[test]
    fn what_the_parser_writes_is_a_tape() {
        let text = br#"{"a": [1, -2, 300, 70000, 5000000000, 18446744073709551615, 1.5, 1e300, "x",
            null, true, {}, []], "b": {"c": "d"}}"#;
        let document = parse(text, Parse::default()).unwrap();
        let tape = document.tape();
        assert!(check(tape, 0).is_some());
        assert!(check(tape, DEPTH_MAX).is_none());
        for len in 0..tape.len() {
            assert!(check(&tape[..len], 0).is_none(), "{len}");
        }
        assert!(check(&[tape, &[0]].concat(), 0).is_none());
        assert!(check_many(&[tape, tape].concat(), 2, 0));
        assert!(!check_many(&[tape, tape].concat(), 1, 0) && !check_many(tape, 2, 0));
    }

    #[test]
    fn no_changed_byte_ends_in_a_panic() {
        let text = br#"{"a": [1, 2.5, "text", {"b": null}], "c": "d"}"#;
        let document = parse(text, Parse::default()).unwrap();
        for at in 0..document.tape().len() {
            for byte in 0..=255 {
                let mut tape = document.tape().to_vec();
                tape[at] = byte;
                if let Some(value) = check(&tape, 0) {
                    let mut text = Vec::new();
                    crate::print(value, &Default::default(), &mut text);
                    assert!(parse(&text, Parse::default()).unwrap().root().is_same(value));
                }
            }
        }
    }

    #[test]
    fn lies_are_told_apart() {
        // An object with a name twice, and with a name that is a number.
        assert!(check(&[0x18, 6, 2, 0x81, b'a', 0, 0x81, b'a', 0], 0).is_none());
        assert!(check(&[0x18, 2, 1, 0x41, 0], 0).is_none());
        // A count that is wrong, text that is no UTF-8, an infinite number.
        assert!(check(&[0x14, 1, 2, 0x40], 0).is_none());
        assert!(check(&[0x81, 0xff], 0).is_none());
        assert!(check(&[0x08, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f], 0).is_none());
    }
}
