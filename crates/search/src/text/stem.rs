//! Languages and stems of words.

use waken_snowball::{Algorithm, stem};

/// Words with fewer bytes have no stem.
pub const STEMMED_LEN_MIN: usize = 4;

/// Languages of documents.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Language(u8);

/// Names as in `LANGUAGE`; the first is the default.
const LANGUAGES: [(&str, Option<Algorithm>); 28] = [
    ("english", Some(Algorithm::English)),
    ("arabic", Some(Algorithm::Arabic)),
    ("armenian", Some(Algorithm::Armenian)),
    ("basque", Some(Algorithm::Basque)),
    ("catalan", Some(Algorithm::Catalan)),
    ("danish", Some(Algorithm::Danish)),
    ("dutch", Some(Algorithm::Dutch)),
    ("finnish", Some(Algorithm::Finnish)),
    ("french", Some(Algorithm::French)),
    ("german", Some(Algorithm::German)),
    ("greek", Some(Algorithm::Greek)),
    ("hindi", Some(Algorithm::Hindi)),
    ("hungarian", Some(Algorithm::Hungarian)),
    ("indonesian", Some(Algorithm::Indonesian)),
    ("irish", Some(Algorithm::Irish)),
    ("italian", Some(Algorithm::Italian)),
    ("lithuanian", Some(Algorithm::Lithuanian)),
    ("nepali", Some(Algorithm::Nepali)),
    ("norwegian", Some(Algorithm::Norwegian)),
    ("portuguese", Some(Algorithm::Portuguese)),
    ("romanian", Some(Algorithm::Romanian)),
    ("russian", Some(Algorithm::Russian)),
    ("serbian", Some(Algorithm::Serbian)),
    ("spanish", Some(Algorithm::Spanish)),
    ("swedish", Some(Algorithm::Swedish)),
    ("tamil", Some(Algorithm::Tamil)),
    ("turkish", Some(Algorithm::Turkish)),
    ("yiddish", Some(Algorithm::Yiddish)),
];

impl Language {
    /// The language of a name, in any case.
    pub fn of(name: &[u8]) -> Option<Self> {
        let found =
            LANGUAGES.iter().position(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))?;
        u8::try_from(found).ok().map(Self)
    }

    /// The name of the language.
    pub fn name(self) -> &'static str {
        LANGUAGES.get(usize::from(self.0)).map_or("english", |(name, _)| name)
    }

    /// The stem of a word of a query, however short; the word itself if it has none.
    pub fn stem_of_query(self, word: &[u8]) -> Vec<u8> {
        let algorithm = LANGUAGES.get(usize::from(self.0)).and_then(|(_, algorithm)| *algorithm);
        match (algorithm, std::str::from_utf8(word)) {
            (Some(algorithm), Ok(word)) => stem(algorithm, word).into_owned().into_bytes(),
            _ => word.to_vec(),
        }
    }

    /// The stem of a folded word. `None` if the word is short or no UTF-8.
    pub fn stem(self, word: &[u8]) -> Option<Vec<u8>> {
        let (_, algorithm) = LANGUAGES.get(usize::from(self.0))?;
        if word.len() < STEMMED_LEN_MIN {
            return None;
        }
        let word = std::str::from_utf8(word).ok()?;
        Some(stem((*algorithm)?, word).into_owned().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_reduced_to_stems() {
        let english = Language::default();
        for (word, expected) in
            [("running", "run"), ("hello", "hello"), ("generously", "generous"), ("flies", "fli")]
        {
            assert_eq!(english.stem(word.as_bytes()).as_deref(), Some(expected.as_bytes()));
        }
        assert_eq!(english.stem(b"run"), None);
        assert_eq!(english.stem(b"\xff\xff\xff\xff"), None);
        let german = Language::of(b"GERMAN").unwrap();
        assert_eq!((german.name(), german.stem(b"laufend")), ("german", Some(b"laufend".to_vec())));
        assert_eq!(Language::of(b"klingon"), None);
    }

    #[test]
    fn no_word_stops_a_stemmer() {
        let parts = ["ing", "ä", "中", "ъ", "ι", "s", "'", "y", "\u{301}", "ة", "e", "ness", "🙂"];
        let mut state = 7u32;
        for round in 0..4000 {
            let mut word = String::new();
            for _ in 0..1 + round % 7 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                word.push_str(parts[(state >> 16) as usize % parts.len()]);
            }
            for number in 0..LANGUAGES.len() as u8 {
                Language(number).stem(word.as_bytes());
            }
        }
    }
}
