//! A stranger's query must be refused or parsed in every dialect, and its tree printed.
//!
//! The input is a dialect, the values of two parameters, each ended by a newline, and the query.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_search::query::{Dialect, Fields, Parameters, Settings, explain, parse};

struct Names;

impl Fields for Names {
    fn text_field(&self, name: &[u8]) -> Option<usize> {
        name.first().filter(|_| name.len() == 1).map(|&byte| usize::from(byte))
    }

    fn text_name(&self, number: usize) -> Option<&[u8]> {
        (number % 2 == 0).then_some(b"even")
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&dialect, rest)) = input.split_first() else { return };
    let mut parts = rest.splitn(3, |byte| *byte == b'\n');
    let (Some(p), Some(q), Some(query)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let mut parameters = Parameters::default();
    for (name, value) in [(b"p", p), (b"q", q)] {
        parameters.add(name, value).expect("two names");
    }
    let settings = Settings {
        dialect: Dialect::of(u32::from(dialect % 4) + 1).expect("1 to 4"),
        fields: &Names,
        parameters: &parameters,
        is_stop_word: &|word| word == b"the",
    };
    match parse(query, &settings) {
        Ok(tree) => drop(explain(&tree, &Names)),
        Err(error) => assert!(!error.text.is_empty()),
    }
});
