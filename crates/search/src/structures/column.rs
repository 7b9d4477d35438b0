//! A value for each row, in pages: growing copies nothing.

use std::mem::size_of;

/// Rows of a page.
pub const PAGE: usize = 256;

/// Values by row; rows never set have the default.
#[derive(Debug)]
pub struct Column<T> {
    pages: Vec<Option<Box<[T]>>>,
    made: usize,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Column { pages: Vec::new(), made: 0 }
    }
}

impl<T: Default> Column<T> {
    /// The value of a row; none if nothing of its page was ever set.
    #[inline]
    pub fn get(&self, row: u32) -> Option<&T> {
        let page = self.pages.get(row as usize / PAGE)?.as_ref()?;
        page.get(row as usize % PAGE)
    }

    /// The value of a row, to be changed.
    #[inline]
    pub fn get_mut(&mut self, row: u32) -> &mut T {
        let at = row as usize / PAGE;
        if self.pages.get(at).is_none_or(Option::is_none) {
            self.make_page(at);
        }
        let page = self.pages[at].get_or_insert_default();
        &mut page[row as usize % PAGE]
    }

    #[cold]
    fn make_page(&mut self, at: usize) {
        if self.pages.len() <= at {
            self.pages.resize_with(at + 1, || None);
        }
        self.pages[at] = Some((0..PAGE).map(|_| T::default()).collect());
        self.made += 1;
    }

    /// Frees a page; its rows have the default again.
    pub fn drop_page(&mut self, page: usize) {
        if self.pages.get_mut(page).and_then(Option::take).is_some() {
            self.made -= 1;
        }
    }

    /// Bytes on the heap, without memory that the values own.
    pub fn footprint(&self) -> usize {
        self.pages.capacity() * size_of::<Option<Box<[T]>>>() + self.made * PAGE * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_set_in_any_order() {
        let mut column = Column::<u64>::default();
        *column.get_mut(5000) = 7;
        *column.get_mut(1) = 8;
        assert_eq!(column.get(5000), Some(&7));
        assert_eq!((column.get(1), column.get(0)), (Some(&8), Some(&0)));
        assert_eq!((column.get(2000), column.get(1 << 30)), (None, None));
        assert!(column.footprint() >= 2 * PAGE * 8);
    }
}
