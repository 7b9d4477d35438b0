//! A slice with few, short elements: one block.
//!
//! ```text
//! elements in order: offset, tag, payload
//! tag < 0x80   length of the text that is the payload
//! tag >= 0x80  0x80 + bytes of a signed integer, little-endian
//! ```

use crate::element::Element;

/// Elements that a slice of this form has at most; more are of the other form.
pub const ELEMENTS_MAX: usize = 12;

/// Longest text of an element of this form.
pub const TEXT_MAX: usize = 64;

const INT: u8 = 0x80;

/// Elements of a slice in one block.
#[derive(Clone, Debug, Default)]
pub struct Few(Box<[u8]>);

/// Iterates over elements and the positions at which they end.
struct Items<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = (u8, Element<'a>, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let &[offset, tag, ..] = self.bytes.get(self.at..)? else { return None };
        let from = self.at + 2;
        let len = usize::from(tag & !INT);
        let payload = &self.bytes[from..from + len];
        self.at = from + len;
        let element = if tag & INT == 0 { Element::Text(payload) } else { int(payload) };
        Some((offset, element, self.at))
    }
}

fn int(payload: &[u8]) -> Element<'static> {
    let is_negative = payload.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut bytes = [if is_negative { 0xff } else { 0 }; 8];
    bytes[..payload.len()].copy_from_slice(payload);
    Element::Int(i64::from_le_bytes(bytes))
}

/// Bytes that a signed number needs.
fn int_len(number: i64) -> usize {
    let bits = 64 - (number ^ (number >> 63)).leading_zeros() as usize;
    if number == 0 { 0 } else { bits / 8 + 1 }
}

fn put(out: &mut Vec<u8>, offset: u8, element: Element<'_>) {
    out.push(offset);
    match element {
        Element::Int(number) => {
            let len = int_len(number);
            out.push(INT | len as u8);
            out.extend_from_slice(&number.to_le_bytes()[..len]);
        }
        Element::Text(text) => {
            out.push(text.len() as u8);
            out.extend_from_slice(text);
        }
    }
}

impl Few {
    /// Whether an element fits this form.
    pub fn admits(element: Element<'_>) -> bool {
        !matches!(element, Element::Text(text) if text.len() > TEXT_MAX)
    }

    /// Elements with their offsets, in order.
    pub fn items(&self) -> impl Iterator<Item = (u8, Element<'_>)> {
        Items { bytes: &self.0, at: 0 }.map(|(offset, element, _)| (offset, element))
    }

    pub fn len(&self) -> usize {
        Items { bytes: &self.0, at: 0 }.count()
    }

    pub fn get(&self, offset: u8) -> Option<Element<'_>> {
        self.items().find(|&(at, _)| at == offset).map(|(_, element)| element)
    }

    /// Replaces the element at an offset, or removes it; returns whether there was one.
    pub fn replace(&mut self, offset: u8, element: Option<Element<'_>>) -> bool {
        let (mut from, mut until, mut was_there) = (0, 0, false);
        for (at, _, end) in (Items { bytes: &self.0, at: 0 }) {
            until = end;
            if at >= offset {
                was_there = at == offset;
                break;
            }
            from = end;
        }
        if !was_there {
            until = from;
        }
        let grown = element.map_or(0, |element| 2 + element.text_len());
        let mut bytes = Vec::with_capacity(self.0.len() + grown);
        bytes.extend_from_slice(&self.0[..from]);
        if let Some(element) = element {
            put(&mut bytes, offset, element);
        }
        bytes.extend_from_slice(&self.0[until..]);
        self.0 = bytes.into_boxed_slice();
        was_there
    }

    /// Creates a slice of elements in order.
    pub fn of<'a>(elements: impl Iterator<Item = (u8, Element<'a>)>) -> Self {
        let mut bytes = Vec::new();
        elements.for_each(|(offset, element)| put(&mut bytes, offset, element));
        Few(bytes.into_boxed_slice())
    }

    /// Bytes of its block.
    pub fn allocated(&self) -> usize {
        crate::allocated(self.0.len())
    }
}
