//! The files of a log: the manifest of Redis's append-only files, with one more kind of file.
//!
//! ```text
//! # Petrel, files: 2
//! file appendonly.aof.3.base.rdb seq 3 epoch 17 type b
//! file appendonly.aof.5.effects.log seq 5 type e
//! ```
//!
//! The number in the first line, and the type as the last word of each line, tell a manifest that
//! was cut from a whole one.

use std::fmt;

/// Kind of a log file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    /// Base that later files extend: an RDB file, or commands.
    Base,
    /// Replaced, and to be deleted.
    History,
    /// Commands, as Redis and Valkey write them.
    Commands,
    /// Effects: [`super::format`].
    Effects,
}

impl FileKind {
    fn letter(self) -> char {
        match self {
            FileKind::Base => 'b',
            FileKind::History => 'h',
            FileKind::Commands => 'i',
            FileKind::Effects => 'e',
        }
    }

    fn from_letter(letter: &str) -> Option<Self> {
        match letter {
            "b" => Some(FileKind::Base),
            "h" => Some(FileKind::History),
            "i" => Some(FileKind::Commands),
            "e" => Some(FileKind::Effects),
            _ => None,
        }
    }
}

/// A file of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Name in the manifest's directory.
    pub name: String,
    /// Sequence number.
    pub seq: u64,
    /// Kind of the file.
    pub kind: FileKind,
    /// Bytes of a file of another server behind which Petrel went on.
    pub len: Option<u64>,
    /// Epoch at which the base ends: the files behind it hold everything later.
    pub epoch: Option<u64>,
}

impl Entry {
    /// A file of which no more is known.
    pub fn new(name: String, seq: u64, kind: FileKind) -> Self {
        Entry { name, seq, kind, len: None, epoch: None }
    }
}

/// The files of a log, in the order in which they are to be read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Manifest {
    /// At most one base, which comes first.
    pub entries: Vec<Entry>,
    /// Petrel wrote it, and its first line counts the files.
    pub is_own: bool,
}

/// Prefix of the first line of a manifest of Petrel; the number of files follows.
const COUNT: &str = "# Petrel, files: ";

/// Syntax error of a manifest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManifestError {
    /// The line, from 1.
    pub line: usize,
    /// Description of the fault.
    pub what: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// The first line that is not what belongs there.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let mut manifest = Manifest::default();
        let mut count: Option<usize> = None;
        for (line, text) in (1..).zip(text.lines()) {
            if line == 1
                && let Some(number) = text.strip_prefix(COUNT)
            {
                let what = "the number of files is none";
                count = Some(number.parse().map_err(|_| ManifestError { line, what })?);
                manifest.is_own = true;
                continue;
            }
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let entry = parse_line(text).map_err(|what| ManifestError { line, what })?;
            manifest.add(entry).map_err(|what| ManifestError { line, what })?;
        }
        match count {
            None if manifest.entries.is_empty() => {
                Err(ManifestError { line: 1, what: "no file is named" })
            }
            Some(count) if manifest.entries.len() != count => {
                let what = "it gives another number of files than are named: the manifest was cut, \
                            or changed by hand, and then the number is to be changed too";
                Err(ManifestError { line: 1, what })
            }
            _ => Ok(manifest),
        }
    }

    /// A manifest that Petrel writes.
    pub fn own(entries: Vec<Entry>) -> Self {
        Manifest { entries, is_own: true }
    }

    /// Whether Redis or Valkey wrote it, and nothing was logged behind their files since.
    pub fn is_foreign(&self) -> bool {
        !self.is_own
            && !self.entries.is_empty()
            && self.entries.iter().all(|entry| entry.kind != FileKind::Effects)
    }

    fn add(&mut self, entry: Entry) -> Result<(), &'static str> {
        let last = |kind: FileKind| self.entries.iter().rfind(|entry| entry.kind == kind);
        match entry.kind {
            FileKind::Base if last(FileKind::Base).is_some() => {
                return Err("there is a base already");
            }
            FileKind::Base => self.entries.insert(0, entry),
            FileKind::Commands | FileKind::Effects
                if last(entry.kind).is_some_and(|last| last.seq >= entry.seq) =>
            {
                return Err("its number is not higher than that of the file before");
            }
            _ => self.entries.push(entry),
        }
        Ok(())
    }

    /// The base.
    pub fn base(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == FileKind::Base)
    }

    /// The files that follow on the base, in their order.
    pub fn logs(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.entries
            .iter()
            .filter(|entry| matches!(entry.kind, FileKind::Commands | FileKind::Effects))
    }

    /// Whether it names this file.
    pub fn names(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// The highest number of a file.
    pub fn last_seq(&self) -> u64 {
        self.entries.iter().map(|entry| entry.seq).max().unwrap_or(0)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{COUNT}{}", self.entries.len())?;
        for Entry { name, seq, kind, len, epoch } in &self.entries {
            write!(f, "file {} seq {seq}", quoted(name))?;
            for (word, number) in [("len", len), ("epoch", epoch)] {
                number.iter().try_for_each(|number| write!(f, " {word} {number}"))?;
            }
            // Last, for a line that was cut to be known.
            writeln!(f, " type {}", kind.letter())?;
        }
        Ok(())
    }
}

/// A name as it stands in a line: in quotes if it has to be.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\');
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.into();
    }
    let mut text = String::from("\"");
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text + "\""
}

fn parse_line(line: &str) -> Result<Entry, &'static str> {
    let words = split(line)?;
    let (mut name, mut seq, mut kind) = (None, None, None);
    let (mut len, mut epoch) = (None, None);
    let number = |value: &String| value.parse().map(Some).map_err(|_| "a number is none");
    for pair in words.chunks(2) {
        let [key, value] = pair else { return Err("a word without its value") };
        match &key.to_ascii_lowercase()[..] {
            "file" => name = Some(value.clone()),
            "seq" => seq = value.parse().ok(),
            "type" => kind = FileKind::from_letter(value),
            "len" => len = number(value)?,
            "epoch" => epoch = number(value)?,
            // Later versions may say more.
            _ => {}
        }
    }
    let name = name.ok_or("no file is named")?;
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return Err("a file has to be named that lies beside the manifest");
    }
    let seq = seq.filter(|&seq| seq > 0).ok_or("the file has no number")?;
    let kind = kind.ok_or("the file's type is not known here")?;
    Ok(Entry { name, seq, kind, len, epoch })
}

/// The words of a line; one in quotes may have spaces and escapes.
fn split(line: &str) -> Result<Vec<String>, &'static str> {
    const OPEN: &str = "a quote is not closed";
    let mut words = Vec::new();
    let mut rest = line.trim_start().as_bytes();
    while !rest.is_empty() {
        let mut word = Vec::new();
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            rest = quoted;
            loop {
                let (&byte, behind) = rest.split_first().ok_or(OPEN)?;
                rest = behind;
                match byte {
                    b'"' => break,
                    b'\\' => {
                        let (&escaped, behind) = rest.split_first().ok_or(OPEN)?;
                        rest = behind;
                        match (escaped, hex(rest)) {
                            (b'x', Some(byte)) => {
                                word.push(byte);
                                rest = &rest[2..];
                            }
                            (b'n', _) => word.push(b'\n'),
                            (b'r', _) => word.push(b'\r'),
                            (b't', _) => word.push(b'\t'),
                            _ => word.push(escaped),
                        }
                    }
                    _ => word.push(byte),
                }
            }
        } else {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            word.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(String::from_utf8(word).map_err(|_| "a name is not UTF-8")?);
        rest = rest.trim_ascii_start();
    }
    Ok(words)
}

fn hex(bytes: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(bytes.get(..2)?).ok()?;
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_as_written() {
        let entry = |name: &str, seq, kind| Entry::new(name.into(), seq, kind);
        let base = entry("appendonly.aof.1.base.rdb", 1, FileKind::Base);
        let manifest = Manifest::own(vec![
            Entry { epoch: Some(17), ..base },
            entry("old one.rdb", 1, FileKind::History),
            Entry { len: Some(9), ..entry("a \"b\\\n\u{e9}", 1, FileKind::Commands) },
            entry("appendonly.aof.2.effects.log", 2, FileKind::Effects),
        ]);
        let text = manifest.to_string();
        let begin = "# Petrel, files: 4\nfile appendonly.aof.1.base.rdb seq 1 epoch 17 type b\n";
        assert!(text.starts_with(begin), "{text}");
        assert_eq!(Manifest::parse(&text), Ok(manifest.clone()));
        assert_eq!(manifest.last_seq(), 2);
        assert_eq!(manifest.logs().count(), 2);
    }

    #[test]
    fn a_manifest_that_was_cut_is_none() {
        let entry = |seq, kind| Entry::new(format!("a.{seq}"), seq, kind);
        let base = Entry { epoch: Some(123), ..entry(10, FileKind::Base) };
        let commands = Entry { len: Some(456), ..entry(11, FileKind::Commands) };
        let text = Manifest::own(vec![base, commands, entry(12, FileKind::Effects)]).to_string();
        for len in 0..text.len() - 1 {
            assert!(Manifest::parse(&text[..len]).is_err(), "{len}");
        }
        let empty = Manifest::own(Vec::new());
        assert_eq!(Manifest::parse(&empty.to_string()), Ok(empty));
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for (text, line) in [
            ("", 1),
            ("# nothing\n", 1),
            ("file a seq 1", 1),
            ("\nfile a seq 0 type i", 2),
            ("file ../a seq 1 type i", 1),
            ("file a seq 1 type z", 1),
            ("file a seq 1 type", 1),
            ("file \"a seq 1 type i", 1),
            ("file a seq 1 type b\nfile b seq 2 type b", 2),
            ("file a seq 2 type i\nfile b seq 2 type i", 2),
            ("file a seq 2 len x type i", 1),
            ("# Petrel, files: x", 1),
            ("# Petrel, files: 1", 1),
            ("# Petrel, files: 1\nfile a seq 1 type e\nfile b seq 2 type e", 1),
        ] {
            assert_eq!(Manifest::parse(text).map_err(|error| error.line), Err(line), "{text}");
        }
        assert!(Manifest::parse("FILE a seq 1 startoffset 5 type i").is_ok());
    }
}
