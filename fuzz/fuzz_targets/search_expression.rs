//! A stranger's expression must be refused or evaluated, on any row.
//!
//! The input is a text that the properties `@p` and `@q` hold, ended by a newline, and the
//! expression; `@n` is a number, `@missing` has no value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_search::aggregate::expression::{evaluate, parse};
use petrel_search::aggregate::value::Value;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (Some(text), Some(expression)) = (parts.next(), parts.next()) else { return };
    let slot = |name: &[u8]| match name {
        b"p" => Some(0),
        b"q" => Some(1),
        b"n" => Some(2),
        b"missing" => Some(3),
        _ => None,
    };
    let array = Value::Array([Value::text(text), Value::Null].into());
    let row = [Some(Value::text(text)), Some(array), Some(Value::Number(-1.5)), None];
    match parse(expression, &mut |name| slot(name)) {
        Err(error) => assert!(!error.is_empty()),
        Ok(expression) => match evaluate(&expression, &row) {
            Err(error) => assert!(!error.0.is_empty()),
            Ok(value) => {
                let (mut shown, mut encoded) = (Vec::new(), Vec::new());
                value.print(&mut shown);
                value.encode(&mut encoded);
                assert!(value.order(&value).is_eq() && !encoded.is_empty());
            }
        },
    }
});
