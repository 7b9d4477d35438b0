//! A stranger's text must be parsed or refused; what was parsed must be the same when its text is parsed again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_json::{FloatType, Format, Parse, parse, print};

fuzz_target!(|input: &[u8]| {
    let _ = parse(input, Parse { floats: Some(FloatType::Bf16) });
    let Ok(document) = parse(input, Parse::default()) else { return };
    let mut text = Vec::new();
    print(document.root(), &Format::default(), &mut text);
    let again = parse(&text, Parse::default()).expect("what was printed is JSON");
    assert_eq!(again.tape(), document.tape());
});
