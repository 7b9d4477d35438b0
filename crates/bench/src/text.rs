//! Text files of entries, in which experiments and published benchmarks are described.
//!
//! ```text
//! # A comment.
//! keyword rest of the line
//!   keyword rest of the line     an attribute of the entry
//!   | a line of its text; `|` alone ends a paragraph
//! ```

/// Entry of a file, with its attributes.
#[derive(Debug)]
pub struct Entry {
    /// First word.
    pub keyword: &'static str,
    /// Rest of the first line.
    pub rest: &'static str,
    /// Paragraphs, separated by empty lines.
    pub text: String,
    attributes: Vec<(&'static str, &'static str)>,
}

impl Entry {
    /// Values of all attributes with a keyword.
    pub fn all(&self, keyword: &str) -> impl Iterator<Item = &'static str> {
        self.attributes.iter().filter(move |(known, _)| *known == keyword).map(|(_, rest)| *rest)
    }

    /// Value of the first attribute with a keyword.
    pub fn get(&self, keyword: &str) -> Option<&'static str> {
        self.all(keyword).next()
    }

    /// Words of an attribute.
    pub fn words(&self, keyword: &str) -> Vec<&'static str> {
        self.get(keyword).unwrap_or_default().split_whitespace().collect()
    }

    /// Value of an attribute that must be there, or a number that must be one.
    ///
    /// # Panics
    ///
    /// If the number is malformed. The file is part of the program, and tests read all of it.
    pub fn number<T: std::str::FromStr>(&self, keyword: &str) -> Option<T> {
        let text = self.get(keyword)?;
        let number = text.parse().ok();
        Some(number.unwrap_or_else(|| panic!("'{keyword} {text}' of '{}'", self.rest)))
    }
}

/// Splits a line behind its first word.
fn split(line: &'static str) -> (&'static str, &'static str) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    (word, rest.trim())
}

/// Reads the entries of a file.
///
/// # Panics
///
/// If an attribute precedes the first entry.
pub fn entries(file: &'static str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some(attribute) = line.strip_prefix("  ") else {
            let (keyword, rest) = split(line);
            entries.push(Entry { keyword, rest, text: String::new(), attributes: Vec::new() });
            continue;
        };
        let entry = entries.last_mut().expect("an attribute follows an entry");
        match attribute.strip_prefix('|').map(str::trim) {
            None => entry.attributes.push(split(attribute)),
            Some("") => entry.text.push_str("\n\n"),
            Some(text) => {
                let is_first = entry.text.is_empty() || entry.text.ends_with('\n');
                entry.text.push_str(if is_first { "" } else { " " });
                entry.text.push_str(text);
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_attributes_and_text() {
        let file = "# comment\none rest of it\n  | a\n  | b\n  |\n  | c\n  size 7\n  part x\n\ntwo\n  part y z\n";
        let entries = entries(file);
        assert_eq!((entries[0].keyword, entries[0].rest), ("one", "rest of it"));
        assert_eq!(entries[0].text, "a b\n\nc");
        assert_eq!((entries[0].number("size"), entries[0].get("part")), (Some(7), Some("x")));
        assert_eq!((entries[1].keyword, entries[1].words("part")), ("two", vec!["y", "z"]));
        assert_eq!(entries[1].number::<u64>("size"), None);
    }
}
