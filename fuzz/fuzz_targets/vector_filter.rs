//! A stranger's filter must be refused or run over a stranger's attributes.
//!
//! The input is an expression, a newline, attributes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_vector::Filter;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (Some(expression), Some(attributes)) = (parts.next(), parts.next()) else { return };
    match Filter::compile(expression) {
        Ok(filter) => drop(filter.passes(attributes)),
        Err(error) => assert!(error.near.len() <= expression.len()),
    }
});
