//! The manifest: what belongs to a backup.
//!
//! ```text
//! petrel-backup 1
//! made 20261121T200301.123Z
//! server 0.1.0
//! file dump.rdb 1048576 sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//! end sha256:6ae8a75555209fd6c44157c0aed8016e763ff435a19cf186f76863140143ff72
//! ```
//!
//! The last line is the sum of all bytes before it. A line that is not known makes the manifest unreadable, so what a later
//! version adds gets another number in the first line.

use crate::name::Name;
use ring::digest;
use std::fmt::{self, Write};

/// What belongs to a backup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Manifest {
    /// The time of what is in it.
    pub made: Name,
    /// The version of the server that made it.
    pub server: String,
    /// Its files; at least one.
    pub files: Vec<FileEntry>,
}

/// One file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileEntry {
    /// Its object's name within the backup.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Of its bytes.
    pub sum: Sum,
}

/// A SHA-256.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sum([u8; 32]);

/// Most bytes that a manifest has.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 20;
const FIRST: &str = "petrel-backup 1";
const NAME_BYTES_MAX: usize = 128;

impl Sum {
    /// The result of a computation.
    pub fn finish(context: digest::Context) -> Self {
        let mut sum = [0; 32];
        sum.copy_from_slice(context.finish().as_ref());
        Sum(sum)
    }

    /// A computation to feed.
    pub fn begin() -> digest::Context {
        digest::Context::new(&digest::SHA256)
    }

    /// That of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut context = Self::begin();
        context.update(bytes);
        Self::finish(context)
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?.as_bytes();
        let mut sum = [0; 32];
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in sum.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).ok().filter(|p| !p.starts_with('+'))?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Sum(sum))
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Manifest {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// Its text.
    pub fn text(&self) -> String {
        let mut text = format!("{FIRST}\nmade {}\nserver {}\n", self.made, self.server);
        for file in &self.files {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "file {} {} {}", file.name, file.size, file.sum);
        }
        let sum = Sum::of(text.as_bytes());
        text + &format!("end {sum}\n")
    }

    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow "the manifest".
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is no text")?;
        if !text.starts_with("petrel-backup ") {
            return Err("is not one of Petrel's".into());
        }
        let (body, end) = text.rsplit_once("end ").ok_or("has no end")?;
        if Sum::parse(end.trim_end()) != Some(Sum::of(body.as_bytes())) {
            return Err("does not match its checksum".into());
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST) {
            return Err("was written by a later version of Petrel".into());
        }
        let made = lines.next().and_then(|line| Name::parse(line.strip_prefix("made ")?));
        let server = lines.next().and_then(|line| line.strip_prefix("server "));
        let files: Option<Vec<_>> = lines.map(file_entry).collect();
        match (made, server, files) {
            (Some(made), Some(server), Some(files)) if !files.is_empty() => {
                Ok(Manifest { made, server: server.to_owned(), files })
            }
            _ => Err("cannot be understood".into()),
        }
    }
}

fn file_entry(line: &str) -> Option<FileEntry> {
    let mut words = line.strip_prefix("file ")?.split(' ');
    let (name, size, sum) = (words.next()?, words.next()?, words.next()?);
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"._-".contains(b);
    // It becomes the name of a file.
    let is_name = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && name.as_bytes().iter().all(is_plain);
    let entry =
        FileEntry { name: name.to_owned(), size: size.parse().ok()?, sum: Sum::parse(sum)? };
    (is_name && words.next().is_none()).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let file = FileEntry { name: "dump.rdb".into(), size: 3, sum: Sum::of(b"abc") };
        let made = Name::parse("20261121T200301.123Z").unwrap();
        Manifest { made, server: "0.1.0".into(), files: vec![file] }
    }

    #[test]
    fn what_is_written_is_read() {
        let manifest = example();
        assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest.clone()));
        assert!(manifest.text().contains(
            "file dump.rdb 3 sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        ));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed() {
        let text = example().text().into_bytes();
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            // The last byte is the end of the line, which does not matter.
            assert!(Manifest::parse(&other).is_err() || at == text.len() - 1, "byte {at}");
            assert!(Manifest::parse(&text[..at]).is_err() || at == text.len() - 1, "cut at {at}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["../x", "a/b", ".hidden", ""] {
            let mut manifest = example();
            manifest.files[0].name = name.into();
            assert_eq!(
                Manifest::parse(manifest.text().as_bytes()),
                Err("cannot be understood".into()),
                "{name}"
            );
        }
    }
}
