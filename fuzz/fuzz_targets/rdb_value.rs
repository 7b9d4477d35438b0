//! A value of a stranger's bytes must be refused or read, and what was read must be written and read again the same.
//!
//! The first byte of the input is the type byte.

#![no_main]

#[path = "../../crates/persistence/tests/rdb/model.rs"]
#[allow(dead_code)]
mod model;

use libfuzzer_sys::fuzz_target;
use model::{Builder, Value};
use petrel_persistence::rdb::{Dialect, Slice, read_value};

fuzz_target!(|input: &[u8]| {
    let Some((&type_byte, bytes)) = input.split_first() else {
        return;
    };
    let mut sink = Builder::default();
    if read_value(&mut Slice::new(bytes), type_byte, &mut sink).is_err() {
        return;
    }
    let value = sink.value.expect("what was read was fed");
    for dialect in [Dialect::Redis, Dialect::Valkey] {
        assert_eq!(Value::restore(&value.dump(dialect, true)).as_ref(), Ok(&value));
    }
});
