//! Small sets of named bits, usable in constants: command flags, categories, key flags.

/// Declares a set type over an integer. Each member has a bit and the name that replies print, in
/// the order in which replies list them; a member named `""` is known to the server only.
#[macro_export]
macro_rules! bitset {
    ($(#[$about:meta])* $set:ident: $bits:ty {
        $($(#[$doc:meta])* $member:ident = $bit:literal $name:literal),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Default, Eq, PartialEq)]
        pub struct $set($bits);

        // Not every set is asked everything.
        #[allow(dead_code)]
        impl $set {
            /// The empty set.
            pub const NONE: Self = Self(0);
            $($(#[$doc])* pub const $member: Self = Self(1 << $bit);)*

            /// The set of all members.
            pub const FULL: Self = Self::NONE$(.with(Self::$member))*;

            const NAMES: &[(Self, &'static str)] = &[$((Self::$member, $name)),*];

            /// The union of two sets.
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The members of `self` that `other` lacks.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether every member of `other` is in `self`.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether the two sets share a member.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Whether the set has no member.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The printed names of the members, in the order of replies.
            pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
                Self::NAMES
                    .iter()
                    .filter(move |(member, name)| self.contains(*member) && !name.is_empty())
                    .map(|(_, name)| *name)
            }

            /// The member with this printed name, in any case.
            pub fn from_name(name: &[u8]) -> Option<Self> {
                Self::NAMES
                    .iter()
                    .find(|(_, known)| {
                        !known.is_empty() && known.as_bytes().eq_ignore_ascii_case(name)
                    })
                    .map(|(member, _)| *member)
            }
        }

        impl std::fmt::Debug for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_set().entries(self.names()).finish()
            }
        }
    };
}

/// A constant set from its members: `bits!(Flags: WRITE, FAST)`.
#[macro_export]
macro_rules! bits {
    ($set:ident: $($member:ident),+ $(,)?) => {
        $crate::$set::NONE$(.with($crate::$set::$member))+
    };
}
