//! Whose words a server speaks.

/// Whose words a server speaks where Redis and Valkey part: texts of errors, and what it calls
/// itself. What it does is the same.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Dialect {
    /// Redis's.
    #[default]
    Redis,
    /// Valkey's.
    Valkey,
}

impl Dialect {
    /// Whichever of the two it says.
    #[inline]
    pub fn choose<T>(self, redis: T, valkey: T) -> T {
        match self {
            Dialect::Redis => redis,
            Dialect::Valkey => valkey,
        }
    }

    /// Whether it is Valkey's.
    #[inline]
    pub fn is_valkey(self) -> bool {
        self == Dialect::Valkey
    }
}
