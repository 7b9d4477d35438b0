//! Costs of texts: adding documents, bytes, searches. The argument is a file with a document per
//! line, as `bench/python/documents.py` makes it; a number after it limits the documents.
//!
//! `cargo run --release -p petrel-search --example texts -- documents.txt`

use petrel_search::query::ast::Node;
use petrel_search::query::{
    Dialect, Fields, Memory, Parameters, Scorer, Scoring, Settings, TextSearch, parse,
};
use petrel_search::structures::texts::{FieldText, Texts};
use petrel_search::text::{Language, StopWords, Tokens};
use std::hint::black_box;
use std::time::Instant;

struct OneField;

impl Fields for OneField {
    fn text_field(&self, _: &[u8]) -> Option<usize> {
        Some(0)
    }

    fn text_name(&self, _: usize) -> Option<&[u8]> {
        None
    }
}

/// Terms around a rank of frequency are paired to queries.
const RANKS: [usize; 4] = [10, 50, 200, 1000];
const QUERIES: usize = 50;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("the first argument is a file");
    let limit = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
    let file = std::fs::read(path).expect("the file can be read");
    let lines: Vec<&[u8]> = file.split(|byte| *byte == b'\n').take(limit).collect();
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    println!("{} documents of {} bytes", lines.len(), bytes / lines.len());
    let stop_words = StopWords::default();
    let is_stop_word = |word: &[u8]| stop_words.contains(word);

    let start = Instant::now();
    let mut tokens = 0;
    for line in &lines {
        let mut words = Tokens::new(line);
        while let Some((word, _)) = words.token() {
            tokens += black_box(word).len().min(1);
        }
    }
    print(start, lines.len(), &format!("split into {} tokens", tokens / lines.len()));

    for has_stems in [false, true] {
        let mut texts = Texts::new(1, Language::default());
        let start = Instant::now();
        for (row, text) in lines.iter().enumerate() {
            let field = FieldText {
                field: 0,
                weight: 1.0,
                has_stems,
                indexes_empty: false,
                is_further: false,
                text,
            };
            let row = u32::try_from(row).expect("fewer documents");
            assert!(texts.add(row, &[field], Language::default(), &is_stop_word));
        }
        print(start, lines.len(), &format!("added, stems {has_stems}"));
        let footprint = texts.footprint();
        println!(
            "{:8} bytes a document, {:.2} of the text, {} terms",
            footprint / lines.len(),
            footprint as f64 / bytes as f64,
            texts.terms().len()
        );
        for (structure, bytes) in texts.footprints() {
            println!("{:8.1} {structure}", bytes as f64 / lines.len() as f64);
        }
        search(&texts, lines.len());
    }
}

fn print(start: Instant, count: usize, what: &str) {
    println!("{:8.2} us {what}", start.elapsed().as_secs_f64() * 1e6 / count as f64);
}

fn search(texts: &Texts, documents: usize) {
    let mut terms: Vec<(usize, &[u8])> = texts
        .terms()
        .iter()
        .filter(|(_, term)| !term.starts_with(b"+") && term.iter().all(u8::is_ascii_lowercase))
        .map(|(id, term)| (texts.frequency(id), term))
        .collect();
    terms.sort_unstable_by(|one, other| other.cmp(one));
    for rank in RANKS.into_iter().filter(|rank| rank + 2 * QUERIES < terms.len()) {
        for operator in [" ", "|"] {
            let queries: Vec<Node> = (0..QUERIES)
                .map(|at| {
                    let word = |at: usize| String::from_utf8_lossy(terms[rank + at].1).into_owned();
                    tree(&format!("{}{operator}{}", word(2 * at), word(2 * at + 1)))
                })
                .collect();
            let mut total = 0;
            let start = Instant::now();
            for query in &queries {
                let memory = Memory::default();
                let search = TextSearch {
                    texts,
                    limit: u32::MAX,
                    others: &|_, _| None,
                    scoring: Scoring::new(Scorer::Bm25Std, texts, documents),
                    memory: &memory,
                };
                total += black_box(search.best(query, 10, &|_| true, &|_| 1.0)).0;
            }
            let name = if operator == " " { "AND" } else { "OR" };
            let of = terms[rank].0;
            print(
                start,
                QUERIES,
                &format!(
                    "{name} of ranks from {rank} ({of} documents), top 10, {} found",
                    total / QUERIES
                ),
            );
        }
    }
}

fn tree(query: &str) -> Node {
    let settings = Settings {
        dialect: Dialect::Two,
        fields: &OneField,
        parameters: &Parameters::default(),
        is_stop_word: &|_| false,
    };
    parse(query.as_bytes(), &settings).expect("words and an operator")
}
