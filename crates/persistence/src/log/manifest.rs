//! Which files make up a log: the manifest of Redis's append-only files, with one kind of file
//! more.
//!
//! ```text
//! file appendonly.aof.3.base.rdb seq 3 type b
//! file appendonly.aof.5.effects.log seq 5 type e
//! ```

use std::fmt;

/// What a file of a log is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    /// What everything after it stands on: an RDB file, or commands.
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
    /// Its name, in the directory of the manifest.
    pub name: String,
    /// Its number.
    pub seq: u64,
    /// What it is.
    pub kind: FileKind,
}

/// The files of a log, in the order in which they are to be read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Manifest {
    /// One base at most, which comes first.
    pub entries: Vec<Entry>,
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManifestError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
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
        for (line, text) in (1..).zip(text.lines()) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let entry = parse_line(text).map_err(|what| ManifestError { line, what })?;
            manifest.add(entry).map_err(|what| ManifestError { line, what })?;
        }
        if manifest.entries.is_empty() {
            return Err(ManifestError { line: 1, what: "no file is named" });
        }
        Ok(manifest)
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
    pub fn logs(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| matches!(entry.kind, FileKind::Commands | FileKind::Effects))
    }

    /// The highest number of a file.
    pub fn last_seq(&self) -> u64 {
        self.entries.iter().map(|entry| entry.seq).max().unwrap_or(0)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { name, seq, kind } in &self.entries {
            writeln!(f, "file {} seq {seq} type {}", quoted(name), kind.letter())?;
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
    for pair in words.chunks(2) {
        let [key, value] = pair else { return Err("a word without its value") };
        match &key.to_ascii_lowercase()[..] {
            "file" => name = Some(value.clone()),
            "seq" => seq = value.parse().ok(),
            "type" => kind = FileKind::from_letter(value),
            // Later versions may say more.
            _ => {}
        }
    }
    let name = name.ok_or("no file is named")?;
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return Err("a file has to be named that lies beside the manifest");
    }
    let seq = seq.filter(|&seq| seq > 0).ok_or("the file has no number")?;
    Ok(Entry { name, seq, kind: kind.ok_or("the file's type is not known here")? })
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
        let entry = |name: &str, seq, kind| Entry { name: name.into(), seq, kind };
        let manifest = Manifest {
            entries: vec![
                entry("appendonly.aof.1.base.rdb", 1, FileKind::Base),
                entry("old one.rdb", 1, FileKind::History),
                entry("a \"b\\\n\u{e9}", 1, FileKind::Commands),
                entry("appendonly.aof.2.effects.log", 2, FileKind::Effects),
            ],
        };
        let text = manifest.to_string();
        assert!(text.starts_with("file appendonly.aof.1.base.rdb seq 1 type b\n"), "{text}");
        assert_eq!(Manifest::parse(&text), Ok(manifest.clone()));
        assert_eq!(manifest.last_seq(), 2);
        assert_eq!(manifest.logs().count(), 2);
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
        ] {
            assert_eq!(Manifest::parse(text).map_err(|error| error.line), Err(line), "{text}");
        }
        assert!(Manifest::parse("FILE a seq 1 startoffset 5 type i").is_ok());
    }
}
