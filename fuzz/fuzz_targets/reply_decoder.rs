//! Replies must come out the same however the stream is split, and survive being written again.
//!
//! The first byte of the input says how many bytes arrive at a time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_resp::{DecodeError, DecodeLimits, Decoder, Protocol, RespWriter, Value};

const LIMITS: DecodeLimits =
    DecodeLimits { depth_max: 16, bulk_len_max: 1 << 16, values_max: 1 << 16 };

fuzz_target!(|input: &[u8]| {
    let Some((&step, stream)) = input.split_first() else {
        return;
    };
    let (values, error) = decode_all(stream, stream.len().max(1));
    let (values_split, error_split) = decode_all(stream, usize::from(step) + 1);
    assert_eq!(format!("{values:?}"), format!("{values_split:?}"));
    assert_eq!(error, error_split);

    let first = written(&values);
    let (again, error) = decode_all(&first, first.len().max(1));
    assert_eq!((again.len(), error), (values.len(), None));
    assert_eq!(first, written(&again));
});

fn decode_all(stream: &[u8], step: usize) -> (Vec<Value>, Option<DecodeError>) {
    let mut decoder = Decoder::new(LIMITS);
    let (mut start, mut end, mut values) = (0, 0, Vec::new());
    while end < stream.len() {
        end = stream.len().min(end + step);
        loop {
            match decoder.decode(&stream[start..end]) {
                Ok((consumed, value)) => {
                    start += consumed;
                    match value {
                        Some(value) => values.push(value),
                        None => break,
                    }
                }
                Err(error) => return (values, Some(error)),
            }
        }
    }
    (values, None)
}

/// The values as RESP3; those of at least 16 KiB are spliced in.
fn written(values: &[Value]) -> Vec<u8> {
    let (mut bytes, mut shared) = (Vec::new(), Vec::new());
    let mut writer = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3);
    values.iter().for_each(|value| value.write_to(&mut writer));
    let (mut stream, mut from) = (Vec::new(), 0);
    for (offset, value) in shared {
        stream.extend_from_slice(&bytes[from..offset]);
        stream.extend_from_slice(&value);
        from = offset;
    }
    stream.extend_from_slice(&bytes[from..]);
    stream
}
