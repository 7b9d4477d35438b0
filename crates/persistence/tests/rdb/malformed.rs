//! Broken payloads are refused, whatever is broken: no panic, and no memory that their bytes do not
//! justify.

use crate::model::{Builder, Value};
use petrel_persistence::rdb::{Slice, read_value};
use proptest::collection::vec;
use proptest::prelude::*;

/// Type byte and value of every fixture.
fn values() -> Vec<Vec<u8>> {
    const FRAME: usize = 10;
    include_str!("payloads.txt")
        .lines()
        .map(|line| {
            let hex = line.rsplit(' ').next().unwrap().as_bytes();
            let bytes = hex.chunks(2).map(|pair| str::from_utf8(pair).unwrap());
            let mut value: Vec<u8> =
                bytes.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            value.truncate(value.len() - FRAME);
            value
        })
        .collect()
}

fn read(value: &[u8]) -> Option<Value> {
    let mut sink = Builder::default();
    read_value(&mut Slice::new(&value[1..]), value[0], &mut sink).ok()?;
    sink.value
}

#[test]
fn cut_short() {
    for value in values() {
        assert!(read(&value).is_some());
        for len in 1..value.len() {
            assert_eq!(read(&value[..len]), None, "{} of {value:x?}", len);
        }
    }
}

#[test]
fn one_byte_changed() {
    for value in values() {
        for at in 0..value.len() {
            for change in [1, 0x80, 0xff, value[at], !value[at]] {
                let mut value = value.clone();
                value[at] ^= change;
                read(&value);
            }
        }
    }
}

proptest! {
    #[test]
    fn noise(type_byte in 0u8..30, noise in vec(any::<u8>(), 0..200)) {
        let value = [&[type_byte][..], &noise].concat();
        read(&value);
    }

    #[test]
    fn bytes_changed(
        which in any::<usize>(),
        changes in vec((any::<usize>(), any::<u8>()), 1..5),
    ) {
        let mut values = values();
        let which = which % values.len();
        let mut value = values.swap_remove(which);
        for (at, byte) in changes {
            let at = at % value.len();
            value[at] = byte;
        }
        read(&value);
    }
}
