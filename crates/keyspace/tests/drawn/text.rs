//! Strings that exercise the representations of list elements.

/// A string described by its construction, so that failures print short.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    Int(i64),
    Repeated(u8, usize),
    /// Distinct strings of equal length.
    Alike(u16),
}

impl Text {
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Text::Int(n) => n.to_string().into_bytes(),
            Text::Repeated(byte, len) => vec![byte; len],
            Text::Alike(n) => format!("item:{n:05}").into_bytes(),
        }
    }

    /// Another text of the same length, or nearly so.
    pub fn alike(self, n: u16) -> Self {
        match self {
            Text::Int(m) => Text::Int(m.wrapping_add(n.into())),
            Text::Repeated(byte, len) => Text::Repeated(byte + n as u8 % 8, len.min(100)),
            Text::Alike(m) => Text::Alike(m.wrapping_add(n)),
        }
    }
}
