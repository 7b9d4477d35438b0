//! An element as it is passed in and out.

/// An element: text, or an integer for text that is a canonical one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Element<'a> {
    /// Text that is this number in decimal, without leading zeros or a plus sign.
    Int(i64),
    /// Any text, also that of a number.
    Text(&'a [u8]),
}

impl Element<'_> {
    /// Passes the text on.
    #[inline]
    pub fn with_text<R>(self, take: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Element::Int(number) => take(itoa::Buffer::new().format(number).as_bytes()),
            Element::Text(text) => take(text),
        }
    }

    /// Length of the text.
    pub fn text_len(self) -> usize {
        self.with_text(<[u8]>::len)
    }
}
