//! Passwords, stored only as SHA-256 hashes.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The SHA-256 of a password.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of a password.
    pub fn of(password: &[u8]) -> Self {
        Hash(Sha256::digest(password).into())
    }

    /// Parses a hash of exactly 64 lower-case hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digit = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        let (pairs, rest) = text.as_chunks::<2>();
        if pairs.len() != hash.len() || !rest.is_empty() {
            return None;
        }
        for (byte, &[high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(high)? << 4 | digit(low)?;
        }
        Some(Hash(hash))
    }

    /// 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Whether the hashes are equal, in constant time.
    pub fn matches(&self, other: &Hash) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::Hash;

    #[test]
    fn a_hash_is_read_as_it_is_written_and_nothing_else_is() {
        let hash = Hash::of(b"");
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash.hex(), hex);
        assert_eq!(Hash::parse(hex.as_bytes()), Some(hash));
        assert!(hash.matches(&Hash::of(b"")) && !hash.matches(&Hash::of(b"a")));
        for wrong in
            ["", &hex[1..], &hex.to_uppercase(), &hex.replace('e', "g"), &format!("{hex}0")]
        {
            assert_eq!(Hash::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(format!("{hash:?}"), "Hash(..)");
    }
}
