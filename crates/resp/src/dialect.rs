//! The dialect of a server: Redis's or Valkey's.

/// Dialect of error texts, and the name in INFO, where Redis and Valkey differ. Behaviour is the
/// same in both.
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
