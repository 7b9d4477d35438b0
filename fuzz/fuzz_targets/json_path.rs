//! A stranger's path must be refused or find values by steps that lead to them, within its limit of work.
//!
//! The input is a path, a newline, a document.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_json::{Change, Edit, Op, Parse, Path, Value, parse};

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (Some(path), Some(text)) = (parts.next(), parts.next()) else { return };
    let Ok(path) = std::str::from_utf8(path) else { return };
    let (Ok(path), Ok(document)) = (Path::parse(path), parse(text, Parse::default())) else {
        return;
    };
    let mut found = Vec::new();
    let done = path.find(document.root(), &mut |value, steps| {
        if found.len() < 16 {
            found.push((value.tape().len(), steps.to_vec()));
        }
    });
    if done.is_err() {
        return;
    }
    for (len, place) in found {
        let value = parse(b"[\"anew\"]", Parse::default()).expect("it is JSON");
        let change = Change { place: &place, op: Op::Set(value.tape()) };
        let Ok(edit) = Edit::of(document.tape(), &change) else { continue };
        let mut tape = document.tape().to_vec();
        edit.apply(&mut tape);
        assert!(tape.len() + len >= document.tape().len() + value.tape().len());
        assert_eq!(Value::new(&tape).tape().len(), tape.len());
    }
});
