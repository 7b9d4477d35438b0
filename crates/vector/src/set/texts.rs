//! Names and attributes of the nodes of a chunk, in one buffer.
//!
//! ```text
//! starts | offset of node 0's text | node 1 | ...              NONE: no node
//! bytes  | n, a, name, attributes | n, a, name | ...           lengths of one byte each
//! long   texts of more than INLINE_MAX bytes, allocated singly LONG instead of a length
//! ```
//!
//! Snapshots share the long texts: a change of a chunk that a snapshot shares copies only the
//! others.

use crate::graph::CHUNK_LEN;
use std::sync::Arc;

/// Offset of a node without text.
const NONE: u32 = u32::MAX;

/// Maximum length of a text within the buffer.
const INLINE_MAX: usize = 127;

/// Marker in place of a length: the text is a long one.
const LONG: u8 = 255;

/// Bytes of the two lengths.
const HEAD_BYTES: usize = 2;

/// The texts of at most [`CHUNK_LEN`] nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    starts: Vec<u32>,
    bytes: Vec<u8>,
    /// Unused bytes between the texts.
    unused: usize,
    /// By [`key`], in ascending order.
    long: Vec<(u16, Arc<[u8]>)>,
    /// Bytes allocated for `long`.
    long_bytes: usize,
}

/// Name and attributes of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Element<'a> {
    pub name: &'a [u8],
    /// Not empty.
    pub attributes: Option<&'a [u8]>,
}

/// Selects one of a node's two texts.
#[derive(Clone, Copy)]
enum Text {
    Name,
    Attributes,
}

/// Key of a long text.
fn key(at: usize, text: Text) -> u16 {
    // Nodes of a chunk are numbered below `CHUNK_LEN`.
    (at * 2 + text as usize) as u16
}

/// Length of a text as a byte.
fn length(text: &[u8]) -> u8 {
    if text.len() > INLINE_MAX { LONG } else { text.len() as u8 }
}

/// Number of a text's bytes within the buffer.
fn inline(length: u8) -> usize {
    if length == LONG { 0 } else { usize::from(length) }
}

/// Bytes allocated for a long text, including the two counters of its `Arc`.
fn allocation(text: &[u8]) -> usize {
    (2 * size_of::<usize>() + text.len()).next_multiple_of(8)
}

impl Texts {
    /// Memory in bytes, including the two counters of its `Arc`.
    pub fn footprint(&self) -> usize {
        size_of::<Self>()
            + 2 * size_of::<usize>()
            + self.starts.capacity() * size_of::<u32>()
            + self.bytes.capacity()
            + self.long.capacity() * size_of::<(u16, Arc<[u8]>)>()
            + self.long_bytes
    }

    /// A deep copy.
    pub fn deep_copy(&self) -> Self {
        let mut copy = self.clone();
        copy.long.iter_mut().for_each(|(_, text)| *text = Arc::from(&text[..]));
        copy
    }

    fn start(&self, at: usize) -> Option<usize> {
        self.starts.get(at).filter(|&&start| start != NONE).map(|&start| start as usize)
    }

    /// The text of a node.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Element<'_>> {
        let start = self.start(at)?;
        let (&[name, attributes], rest) = self.bytes.get(start..)?.split_first_chunk()?;
        let (inline_name, rest) = rest.split_at_checked(inline(name))?;
        let text = |length: u8, inline, text| match length {
            LONG => self.long_at(key(at, text)).map_or(&[][..], |at| &self.long[at].1),
            _ => inline,
        };
        let inline_attributes = rest.get(..inline(attributes))?;
        let attributes = text(attributes, inline_attributes, Text::Attributes);
        Some(Element {
            name: text(name, inline_name, Text::Name),
            attributes: Some(attributes).filter(|text| !text.is_empty()),
        })
    }

    fn long_at(&self, key: u16) -> Option<usize> {
        self.long.binary_search_by_key(&key, |(key, _)| *key).ok()
    }

    /// Number of buffer bytes of a node with its text at `start`.
    fn extent(&self, start: usize) -> usize {
        let lengths = self.bytes.get(start..start + HEAD_BYTES).unwrap_or_default();
        HEAD_BYTES + lengths.iter().map(|&length| inline(length)).sum::<usize>()
    }

    /// Sets the text of a node; empty attributes count as none.
    pub fn put(&mut self, at: usize, name: &[u8], attributes: Option<&[u8]>) {
        self.remove(at);
        while self.starts.len() <= at {
            if self.starts.len() == self.starts.capacity() {
                let len = self.starts.len();
                self.starts.reserve_exact((len / 2).max(1).min(CHUNK_LEN - len));
            }
            self.starts.push(NONE);
        }
        let texts = [(Text::Name, name), (Text::Attributes, attributes.unwrap_or_default())];
        let lengths = texts.map(|(_, text)| length(text));
        self.make_room(HEAD_BYTES + lengths.iter().map(|&length| inline(length)).sum::<usize>());
        // A chunk has at most some hundreds of KiB of text.
        self.starts[at] = self.bytes.len() as u32;
        self.bytes.extend(lengths);
        for ((which, text), length) in texts.into_iter().zip(lengths) {
            match length {
                LONG => self.put_long(key(at, which), text),
                _ => self.bytes.extend_from_slice(text),
            }
        }
    }

    fn put_long(&mut self, key: u16, text: &[u8]) {
        if self.long.len() == self.long.capacity() {
            self.long.reserve_exact(self.long.len() / 4 + 1);
        }
        let at = self.long.partition_point(|(other, _)| *other < key);
        self.long.insert(at, (key, text.into()));
        self.long_bytes += allocation(text);
    }

    /// Removes the text of a node; false if it had none.
    pub fn remove(&mut self, at: usize) -> bool {
        let Some(start) = self.start(at) else { return false };
        for text in [Text::Name, Text::Attributes] {
            if let Some(at) = self.long_at(key(at, text)) {
                let (_, text) = self.long.remove(at);
                self.long_bytes -= allocation(&text);
            }
        }
        self.unused += self.extent(start);
        self.starts[at] = NONE;
        if self.unused * 2 > self.bytes.len() {
            self.tidy(0);
        }
        true
    }

    /// Reserves room, growing by an eighth; compacts first if much is unused.
    fn make_room(&mut self, more: usize) {
        if self.bytes.len() + more <= self.bytes.capacity() {
            return;
        }
        if self.unused * 8 > self.bytes.len() {
            self.tidy(more);
        }
        if self.bytes.len() + more > self.bytes.capacity() {
            self.bytes.reserve_exact(more.max(self.bytes.len() / 8));
        }
    }

    /// Compacts the buffer, with room for `more` bytes or an eighth.
    fn tidy(&mut self, more: usize) {
        let used = self.bytes.len() - self.unused;
        let mut bytes = Vec::with_capacity(used + more.max(used / 8));
        for at in 0..self.starts.len() {
            let Some(start) = self.start(at) else { continue };
            let text = start..start + self.extent(start);
            self.starts[at] = bytes.len() as u32;
            bytes.extend_from_slice(&self.bytes[text]);
        }
        (self.bytes, self.unused) = (bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn texts_are_what_a_map_holds(
            steps in prop::collection::vec((0usize..20, 0usize..4, 0usize..300, 0usize..300), 0..200),
        ) {
            let (mut texts, mut model) = (Texts::default(), BTreeMap::new());
            let mut snapshot = None;
            for (at, step, name, attributes) in steps {
                let name = vec![b'n'; if name < 200 { name % 9 } else { name }];
                let attributes = vec![b'a'; if attributes < 200 { attributes % 9 } else { attributes }];
                match step {
                    0 => prop_assert_eq!(texts.remove(at), model.remove(&at).is_some()),
                    1 => snapshot = Some((texts.clone(), model.clone())),
                    _ => {
                        texts.put(at, &name, Some(&attributes));
                        model.insert(at, (name, attributes));
                    }
                }
                let copy = texts.deep_copy();
                let taken = snapshot.iter().map(|(texts, model)| (texts, model));
                for (texts, model) in taken.chain([(&texts, &model), (&copy, &model)]) {
                    for at in 0..21 {
                        let expected = model.get(&at).map(|(name, attributes)| Element {
                            name,
                            attributes: Some(&attributes[..]).filter(|text| !text.is_empty()),
                        });
                        prop_assert_eq!(texts.get(at), expected);
                    }
                }
                let long: usize = texts.long.iter().map(|(_, text)| allocation(text)).sum();
                prop_assert_eq!(long, texts.long_bytes);
                let used: usize = (0..20).filter_map(|at| Some(texts.extent(texts.start(at)?))).sum();
                prop_assert_eq!(used + texts.unused, texts.bytes.len());
                prop_assert!(texts.unused * 2 <= texts.bytes.len());
            }
        }
    }
}
