//! The manifest: the list of a backup's files.
//!
//! ```text
//! petrel-backup 1
//! name 20261121T200301.123Z
//! made 20261121T200301.123Z
//! server 0.1.0
//! file dump.rdb 1048576 sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//! end sha256:6ae8a75555209fd6c44157c0aed8016e763ff435a19cf186f76863140143ff72
//! ```
//!
//! The backup of a log has several files, in their order, a line `index` for the file that
//! lists them, and a later time in the line `made`: that of its last file. It is
//! replaced as the log grows. The last line is the sum of all bytes before it. An unknown line
//! makes the manifest unreadable, so a version that adds lines changes the number in the first
//! line.

use crate::name::{BackupKind, Name};
use ring::digest;
use std::fmt::{self, Write};
use std::time::SystemTime;

/// Contents of a backup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Manifest {
    /// The backup's name.
    pub name: Name,
    /// Time of the data.
    pub made: SystemTime,
    /// The version of the server that made it.
    pub server: String,
    /// Files, at least one.
    pub files: Vec<FileEntry>,
    /// The file that lists the files of a log.
    pub index: Option<FileEntry>,
}

/// A file of a backup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileEntry {
    /// Name of its object within the backup.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Checksum of its bytes.
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

    /// Checksum of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut context = Self::begin();
        context.update(bytes);
        Self::finish(context)
    }

    /// Enough digits of it to tell it from others.
    pub fn short(&self) -> String {
        self.0[..8].iter().map(|byte| format!("{byte:02x}")).collect()
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

    /// The text form.
    pub fn text(&self) -> String {
        let made = Name::at(self.made, BackupKind::Snapshot);
        let mut text =
            format!("{FIRST}\nname {}\nmade {made}\nserver {}\n", self.name, self.server);
        let files = self.files.iter().map(|file| ("file", file));
        for (word, file) in files.chain(self.index.iter().map(|index| ("index", index))) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{word} {} {} {}", file.name, file.size, file.sum);
        }
        let sum = Sum::of(text.as_bytes());
        text + &format!("end {sum}\n")
    }

    /// Parses a manifest.
    ///
    /// # Errors
    /// The fault, in words that follow "the manifest".
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
        Self::parse_lines(lines).ok_or_else(|| "cannot be understood".into())
    }

    fn parse_lines<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let name = Name::parse(lines.next()?.strip_prefix("name ")?)?;
        let made = Name::parse(lines.next()?.strip_prefix("made ")?)?.time();
        let server = lines.next()?.strip_prefix("server ")?.to_owned();
        let (mut files, mut index) = (Vec::new(), None);
        for line in lines {
            match line.split_once(' ')? {
                ("file", words) if index.is_none() => files.push(file_entry(words)?),
                ("index", words) if index.is_none() => index = Some(file_entry(words)?),
                _ => return None,
            }
        }
        let is_whole = match name.kind {
            BackupKind::Snapshot => files.len() == 1 && index.is_none() && made == name.time(),
            BackupKind::Log => !files.is_empty() && index.is_some() && made >= name.time(),
        };
        is_whole.then_some(Manifest { name, made, server, files, index })
    }
}

fn file_entry(words: &str) -> Option<FileEntry> {
    let mut words = words.split(' ');
    let (name, size, sum) = (words.next()?, words.next()?, words.next()?);
    let entry =
        FileEntry { name: name.to_owned(), size: size.parse().ok()?, sum: Sum::parse(sum)? };
    (is_object_name(name) && words.next().is_none()).then_some(entry)
}

/// Whether an object may be called so: it becomes the name of a file.
pub fn is_object_name(name: &str) -> bool {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"._-".contains(b);
    let is_short = (1..=NAME_BYTES_MAX).contains(&name.len());
    is_short && !name.starts_with('.') && name.as_bytes().iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let file = FileEntry { name: "dump.rdb".into(), size: 3, sum: Sum::of(b"abc") };
        let name = Name::parse("20261121T200301.123Z").unwrap();
        let (made, server) = (name.time(), "0.1.0".into());
        Manifest { name, made, server, files: vec![file], index: None }
    }

    #[test]
    fn what_is_written_is_read() {
        let manifest = example();
        assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest.clone()));
        let mut log = manifest.clone();
        log.name.kind = BackupKind::Log;
        log.made += std::time::Duration::from_millis(17);
        let entry = |name: &str| FileEntry { name: name.into(), ..log.files[0].clone() };
        (log.index, log.files) =
            (Some(entry("index.2")), vec![entry("a.1.base.rdb"), entry("a.2")]);
        assert_eq!(Manifest::parse(log.text().as_bytes()), Ok(log.clone()));
        log.index = None;
        assert_eq!(Manifest::parse(log.text().as_bytes()), Err("cannot be understood".into()));
        assert!(manifest.text().contains(
            "file dump.rdb 3 sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        ));
    }

    #[test]
    fn a_manifest_of_version_1_is_read() {
        let text = concat!(
            "petrel-backup 1\n",
            "name 20270115T080000.000Z-log\n",
            "made 20270115T080100.000Z\n",
            "server 0.1.0\n",
            "file appendonly.aof.1.base.rdb 4 sha256:cae662172fd450bb0cd710a769079c05bfc5d8e35efa6576edc7d0377afdd4a2\n",
            "index index.0123456789abcdef 5 sha256:1bc04b5291c26a46d918139138b992d2de976d6851d0893b0476b85bfbdfc6e6\n",
            "end sha256:1a5dc5bae69691de520b5dce3f3e7b9331d727c57f8536724feec6dd4645dcc8\n",
        );
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        assert_eq!(manifest.files[0].sum, Sum::of(b"base"));
        assert_eq!(manifest.index.as_ref().unwrap().sum, Sum::of(b"index"));
        assert_eq!(manifest.text(), text);
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
