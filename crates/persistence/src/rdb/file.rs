//! An RDB file: a snapshot of a whole keyspace.
//!
//! ```text
//! +-----------------+---------+--------+--- ... ---+-----+------------------+
//! | REDIS or VALKEY | version | record |  records  | EOF | CRC-64 (8 bytes) |
//! |                 | decimal |        |           |     | of all before it |
//! +-----------------+---------+--------+--- ... ---+-----+------------------+
//! 9 bytes: REDIS0011, VALKEY080
//!
//! record      AUX       0xfa  name text  value text
//!             FUNCTION  0xf5  source text
//!             SELECT    0xfe  number of the database
//!             SIZES     0xfb  number of keys  number of those with an expiry
//!             TEMPLATE  0xf2  number  count  name text ...
//!             key       [expiry] [use]  type byte  key text  value
//! expiry      0xfc  Unix milliseconds, 8 bytes  or  0xfd  Unix seconds, 4 bytes
//! use         0xf8  idle seconds, a number      or  0xf9  LFU counter, 1 byte
//! ```
//!
//! Numbers and texts are those of `length` and `text`. The checksum came with version 5; 0 says
//! that there is none.

use super::kind::{REDIS_VERSION_MAX, VALKEY_VERSIONS};

/// First bytes of records other than keys.
pub(super) mod opcode {
    /// Field names of compact hashes.
    pub const TEMPLATE: u8 = 0xf2;
    pub const SLOT_IMPORT: u8 = 0xf3;
    pub const SLOT_INFO: u8 = 0xf4;
    pub const FUNCTION: u8 = 0xf5;
    pub const FUNCTION_BEFORE_RELEASE: u8 = 0xf6;
    pub const MODULE_AUX: u8 = 0xf7;
    pub const IDLE: u8 = 0xf8;
    pub const FREQUENCY: u8 = 0xf9;
    pub const AUX: u8 = 0xfa;
    pub const SIZES: u8 = 0xfb;
    pub const EXPIRY_MS: u8 = 0xfc;
    pub const EXPIRY_S: u8 = 0xfd;
    pub const SELECT: u8 = 0xfe;
    pub const END: u8 = 0xff;

    /// The lowest of them; type bytes are lower.
    pub const MIN: u8 = TEMPLATE;
}

/// Bytes of the first line: the magic word and the version.
pub(super) const HEAD_LEN: usize = 9;

/// First version with a checksum at the end.
pub(super) const SUMMED_MIN: u16 = 5;

/// The head of a file of this version.
pub(super) fn head(version: u16) -> [u8; HEAD_LEN] {
    let text = if VALKEY_VERSIONS.contains(&version) {
        format!("VALKEY{version:03}")
    } else {
        format!("REDIS{version:04}")
    };
    let mut head = *b"REDIS0000";
    head.copy_from_slice(&text.as_bytes()[..HEAD_LEN]);
    head
}

/// The version that a head names; none if it is no head of an RDB file.
pub(super) fn version_of(head: &[u8; HEAD_LEN]) -> Option<u16> {
    let digits = head.strip_prefix(b"REDIS").or_else(|| head.strip_prefix(b"VALKEY"))?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok().filter(|&version| version > 0)
}

/// Whether files of this version are read.
pub(super) fn is_known(version: u16) -> bool {
    version <= REDIS_VERSION_MAX || VALKEY_VERSIONS.contains(&version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        for (version, text) in [(9, b"REDIS0009"), (11, b"REDIS0011"), (80, b"VALKEY080")] {
            assert_eq!(&head(version), text);
            assert_eq!(version_of(text), Some(version));
            assert!(is_known(version));
        }
        for text in [b"REDIS00 9", b"REDIS0000", b"redis0009", b"VALKEY+80", b"RADIS0009"] {
            assert_eq!(version_of(text), None, "{text:?}");
        }
        assert!(!is_known(16) && !is_known(79) && !is_known(81));
    }
}
