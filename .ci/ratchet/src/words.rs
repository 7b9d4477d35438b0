//! Comments: words that stand in for a term of the field, and doc comments that open without one.

/// Words that replace a noun which a stranger could search for.
const PRIVATE_WORDS: [&str; 10] =
    ["amid", "anew", "everybody", "nobody", "somebody", "told", "who", "whoever", "whom", "whose"];

/// Clauses of the same kind.
const PRIVATE_PHRASES: [&str; 25] = [
    "but for",
    "came to",
    "come to",
    "comes to",
    "hear of",
    "heard of",
    "hears of",
    "in hand",
    "let go of",
    "lets go of",
    "so many",
    "that which",
    "those that",
    "what a",
    "what an",
    "what has",
    "what is",
    "what it",
    "what it is",
    "what its",
    "what there is",
    "what they",
    "what the",
    "what was",
    "what were",
];

/// First words of a doc comment that are neither its subject nor a verb. `Whether` is left out: it
/// opens the comments of booleans.
const BAD_OPENINGS: [&str; 21] = [
    "How", "It", "Its", "Of", "One", "So many", "That", "The same", "Their", "There", "They",
    "Those", "What", "When", "Where", "Which", "Who", "Whoever", "Whom", "Whose", "Why",
];

/// Counts of one file, or of many.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Words {
    /// Comment lines.
    pub comments: usize,
    /// Comment lines with a private word or phrase.
    pub private: usize,
    /// Doc comments: runs of `///` or `//!` lines.
    pub docs: usize,
    /// Doc comments with a bad opening.
    pub openings: usize,
}

impl Words {
    /// Counts the comments of the given lines.
    pub fn count<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut words = Words::default();
        let mut in_doc = false;
        for line in lines {
            let line = line.trim_start();
            let is_doc = line.starts_with("///") || line.starts_with("//!");
            if let Some(comment) = line.strip_prefix("//") {
                let comment = comment.trim_start_matches(['/', '!']).trim_start();
                words.comments += 1;
                words.private += usize::from(is_private(comment));
                if is_doc && !in_doc {
                    words.docs += 1;
                    words.openings += usize::from(opens_badly(comment));
                }
            }
            in_doc = is_doc;
        }
        words
    }
}

impl std::ops::AddAssign for Words {
    fn add_assign(&mut self, other: Self) {
        self.comments += other.comments;
        self.private += other.private;
        self.docs += other.docs;
        self.openings += other.openings;
    }
}

fn is_private(comment: &str) -> bool {
    let text = comment.to_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let has_phrase = |phrase: &str| {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        words.windows(phrase.len()).any(|window| window == phrase)
    };
    words.iter().any(|word| PRIVATE_WORDS.contains(word))
        || PRIVATE_PHRASES.into_iter().any(has_phrase)
}

fn opens_badly(comment: &str) -> bool {
    BAD_OPENINGS.iter().any(|opening| {
        comment.strip_prefix(opening).is_some_and(|rest| {
            !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '\'')
        })
    })
}

/// Names of Rust files in comments, such as `handle.rs` or `upkeep/evict.rs`.
pub fn files_named<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names = Vec::new();
    for line in lines {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        for word in comment.split(|c: char| !(c.is_alphanumeric() || "_-./".contains(c))) {
            let word = word.trim_end_matches('.');
            if word.ends_with(".rs") && word.len() > 3 {
                names.push(word.to_owned());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_counted() {
        let text = "/// What a thread is told.\n/// Second line.\nfn f() {}\n//! Whatever\n// plain\n\
                    let x = 1; // who\n    /// Returns the size.";
        let words = Words::count(text.lines());
        assert_eq!(words, Words { comments: 5, private: 1, docs: 3, openings: 1 });
    }

    #[test]
    fn words_are_whole() {
        assert!(is_private("Lets whoever waits in."));
        assert!(is_private("The command in hand."));
        assert!(!is_private("A wholesale retold inhand anewer"));
        assert!(opens_badly("The same, but later"));
        assert!(!opens_badly("Items"));
        assert!(!opens_badly("Whether it is so"));
    }

    #[test]
    fn files_are_found() {
        let text = "// see `upkeep/evict.rs`, and handle.rs.\nlet a = \"x.rs\";";
        assert_eq!(files_named(text.lines()), ["upkeep/evict.rs", "handle.rs"]);
    }
}
