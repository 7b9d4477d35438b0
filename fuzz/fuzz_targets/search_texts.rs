//! Texts are added, removed and vacuumed in any order: each term has the postings of the documents
//! that are left, and all memory is returned.
//!
//! The first byte chooses the stored details. Each byte after it is an operation: add a document of
//! words made of the bytes that follow, remove some, go on with a vacuum, compare.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::fuzz_target;
use petrel_search::structures::texts::{FieldText, StoredDetails, Texts};
use petrel_search::text::{Language, Tokens};

/// Row, frequency, fields, positions.
type Row = (u32, u32, u128, Vec<u32>);

struct Model {
    texts: Texts,
    details: StoredDetails,
    documents: BTreeMap<u32, BTreeMap<Vec<u8>, Row>>,
    row: u32,
    vacuum: Option<usize>,
}

const WEIGHTS: [f64; 3] = [1.0, 2.5, 1.0];

impl Model {
    fn add(&mut self, texts: &[Vec<u8>]) {
        let fields: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(field, text)| FieldText {
                field,
                weight: WEIGHTS[field % 3],
                has_stems: field % 2 == 0,
                indexes_empty: false,
                is_further: false,
                text,
            })
            .collect();
        let is_stop_word = |word: &[u8]| word == b"the";
        assert!(self.texts.add(self.row, &fields, Language::default(), &is_stop_word));
        assert!(!self.texts.add(self.row, &fields, Language::default(), &is_stop_word));
        let mut document: BTreeMap<Vec<u8>, Row> = BTreeMap::new();
        let mut position = 0;
        for text in &fields {
            let mut tokens = Tokens::new(text.text);
            while let Some((token, _)) = tokens.token() {
                if is_stop_word(token) {
                    continue;
                }
                position += 1;
                let mut put = |term: Vec<u8>, weight: f64| {
                    let posting = document.entry(term).or_insert((self.row, 0, 0, Vec::new()));
                    posting.1 += (weight as u32).max(1);
                    posting.2 |= 1 << text.field;
                    posting.3.push(position);
                };
                put(token.to_vec(), text.weight);
                if text.has_stems
                    && let Some(stem) = Language::default().stem(token)
                    && stem != token
                {
                    put([b"+", &stem[..]].concat(), text.weight * 0.2);
                }
            }
        }
        for posting in document.values_mut() {
            if !self.details.fields {
                posting.2 = 1;
            }
            if !self.details.frequencies {
                posting.1 = 1;
            }
            if !self.details.positions {
                posting.3.clear();
            }
        }
        self.documents.insert(self.row, document);
        self.row += 1;
    }

    fn vacuum(&mut self, budget: usize) {
        let from = self.vacuum.unwrap_or_else(|| {
            self.texts.begin_vacuum();
            0
        });
        let documents = &self.documents;
        self.vacuum = self.texts.vacuum(from, budget, &|row| documents.contains_key(&row));
    }

    fn check(&self, seek: u32) {
        let terms: BTreeSet<&Vec<u8>> = self.documents.values().flat_map(BTreeMap::keys).collect();
        for term in terms {
            let id = self.texts.terms().find(term).expect("a term of a document");
            assert_eq!(self.texts.terms().text(id), &term[..]);
            let postings = || self.documents.values().filter_map(|document| document.get(term));
            let mut cursor = self.texts.cursor(id).expect("postings");
            let mut positions = Vec::new();
            for expected in postings() {
                while cursor.current().is_some_and(|row| !self.documents.contains_key(&row)) {
                    cursor.advance();
                }
                cursor.positions(&mut positions);
                let found = (cursor.current(), cursor.frequency(), cursor.mask(), &positions);
                assert_eq!(found, (Some(expected.0), expected.1, expected.2, &expected.3));
                cursor.advance();
            }
            let mut cursor = self.texts.cursor(id).expect("postings");
            cursor.seek(seek);
            while cursor.current().is_some_and(|row| !self.documents.contains_key(&row)) {
                cursor.advance();
            }
            let next = postings().find(|posting| posting.0 >= seek);
            assert_eq!(cursor.current(), next.map(|posting| posting.0));
            if let Some(expected) = next {
                cursor.positions(&mut positions);
                assert_eq!((cursor.mask(), &positions), (expected.2, &expected.3));
            }
        }
        assert_eq!(self.texts.documents(), self.documents.len());
    }

    fn end(mut self) {
        while self.vacuum.is_some() {
            self.vacuum(100);
        }
        self.check(self.row / 2);
        self.documents.clear();
        (0..self.row).for_each(|row| self.texts.remove(row));
        self.vacuum(usize::MAX);
        assert_eq!((self.texts.documents(), self.texts.records(), self.texts.terms().len()), (0, 0, 0));
        let lengths = self.row as usize * 8 + 4096;
        assert!(self.texts.footprint() < lengths + 32_768, "{:?}", self.texts.footprints());
    }
}

/// Texts of the bytes up to an operation: a byte is a word of a few letters.
fn texts(input: &mut &[u8], fields: usize) -> Vec<Vec<u8>> {
    let len = usize::from(input.first().copied().unwrap_or(0) % 12);
    let (words, rest) = input.split_at(input.len().min(1 + len));
    *input = rest;
    let mut texts = vec![Vec::new(); fields];
    for (at, &byte) in words.iter().skip(1).enumerate() {
        let text = &mut texts[at * fields / len.max(1)];
        let word: &[u8] = match byte % 8 {
            0 => b"running ",
            1 => b"runs ",
            2 => b"the ",
            3 => b"common ",
            _ => &[b'a' + byte % 23, b'a' + byte / 23, b's', b' '],
        };
        (0..=byte / 64).for_each(|_| text.extend_from_slice(word));
    }
    texts
}

fuzz_target!(|input: &[u8]| {
    let Some((&form, mut input)) = input.split_first() else { return };
    let details =
        StoredDetails { fields: form & 1 == 0, frequencies: form & 2 == 0, positions: form & 4 == 0 };
    let mut model = Model {
        texts: Texts::storing(details, Language::default()),
        details,
        documents: BTreeMap::new(),
        row: 0,
        vacuum: None,
    };
    while let Some((&operation, rest)) = input.split_first() {
        input = rest;
        match operation % 8 {
            0..4 => {
                let texts = texts(&mut input, 1 + usize::from(form >> 6) % 3);
                (0..=operation / 4).for_each(|_| model.add(&texts));
            }
            4 => {
                let removed = u32::from(operation / 8) * 7;
                for row in (removed..model.row).step_by(1 + usize::from(operation / 32)) {
                    model.texts.remove(row);
                    model.documents.remove(&row);
                }
            }
            5 => {
                model.row = model.row.saturating_add(u32::from(operation) * 1000);
            }
            6 => model.vacuum(1 + usize::from(operation)),
            _ => model.check(u32::from(operation) * 3),
        }
    }
    model.end();
});
