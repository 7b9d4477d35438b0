//! A vector in pages, which grows without being copied.

use std::mem::size_of;

/// Elements of a page; the first page grows up to it.
const PAGE_LEN: usize = 1024;

/// A vector of elements that stay where they are.
#[derive(Debug)]
pub struct Paged<T> {
    /// All but the last are full.
    pages: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

impl<T> Paged<T> {
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap, without memory of the elements.
    pub fn footprint(&self) -> usize {
        let first = self.pages.first().map_or(0, Vec::capacity);
        let others = self.pages.len().saturating_sub(1) * PAGE_LEN;
        self.pages.capacity() * size_of::<Vec<T>>() + (first + others) * size_of::<T>()
    }

    /// An element.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.pages.get(at / PAGE_LEN)?.get(at % PAGE_LEN)
    }

    /// An element, to be changed.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.pages.get_mut(at / PAGE_LEN)?.get_mut(at % PAGE_LEN)
    }

    /// Adds an element.
    pub fn push(&mut self, element: T) {
        if self.len.is_multiple_of(PAGE_LEN) {
            let is_first = self.pages.is_empty();
            self.pages.push(Vec::with_capacity(if is_first { 4 } else { PAGE_LEN }));
        }
        if let Some(page) = self.pages.last_mut() {
            page.push(element);
            self.len += 1;
        }
    }

    /// Removes the last element.
    pub fn pop(&mut self) -> Option<T> {
        let page = self.pages.last_mut()?;
        let element = page.pop();
        if page.is_empty() {
            self.pages.pop();
        }
        self.len -= usize::from(element.is_some());
        element
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_kept_in_pages() {
        let mut numbers = Paged::default();
        for number in 0..5000u32 {
            numbers.push(number);
        }
        assert_eq!(
            (numbers.len(), numbers.get(4999), numbers.get(5000)),
            (5000, Some(&4999), None)
        );
        assert!(numbers.footprint() >= 20_000 && numbers.footprint() < 22_000);
        *numbers.get_mut(1024).unwrap() = 7;
        assert_eq!(numbers.get(1024), Some(&7));
        for number in (1025..5000).rev() {
            assert_eq!(numbers.pop(), Some(number));
        }
        assert_eq!((numbers.pop(), numbers.pop(), numbers.len()), (Some(7), Some(1023), 1023));
        while numbers.pop().is_some() {}
        assert!(numbers.is_empty() && numbers.get(0).is_none());
    }
}
