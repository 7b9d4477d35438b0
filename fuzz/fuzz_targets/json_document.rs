//! A stranger's text must be parsed or refused; what was parsed must be the same when its text is parsed again. So must
//! any bytes that pass for a document's.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_json::{FloatType, Format, Parse, Value, check, parse, print, text_of_cbor};

fuzz_target!(|input: &[u8]| {
    if let Some(value) = check(input, 0) {
        assert!(reparsed(value).is_some_and(|document| document.root().is_same(value)));
    }
    if let Some(text) = text_of_cbor(input) {
        let _ = parse(&text, Parse::default());
    }
    let _ = parse(input, Parse { floats: Some(FloatType::Bf16) });
    let Ok(document) = parse(input, Parse::default()) else { return };
    assert!(check(document.tape(), 0).is_some());
    let again = reparsed(document.root()).expect("what was printed is JSON");
    assert_eq!(again.tape(), document.tape());
});

fn reparsed(value: Value<'_>) -> Option<petrel_json::Document> {
    let mut text = Vec::new();
    print(value, &Format::default(), &mut text);
    parse(&text, Parse::default()).ok()
}
