//! A peer's bytes on a link must be refused or read, and what was read must be read the same from what is written of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_cluster::wire::{
    Frame, FrameReader, Record, positions_again, put_record, take_batch, take_with_gap,
};

fuzz_target!(|input: &[u8]| {
    let mut reader = FrameReader::new(1 << 16);
    reader.push(input);
    while let Ok(Some((len, _, _, frame))) = reader.next() {
        let mut batches: &[u8] = if let Frame::Batches(batches) = frame { batches } else { &[] };
        while let Ok((_, batch)) = take_batch(&mut batches) {
            let (mut records, mut record) = (batch.records, Vec::new());
            while !records.is_empty() && take_with_gap(&mut records, &mut record).is_ok() {
                if let Ok(read) = Record::read(&record) {
                    let mut again = Vec::new();
                    put_record(&mut again, &read);
                    // A number may have come in more bytes than it needs.
                    let mut twice = Vec::new();
                    put_record(&mut twice, &Record::read(&again).expect("it was written"));
                    assert_eq!(twice, again);
                }
            }
        }
        if let Frame::Positions(bytes) = frame
            && let Some(again) = positions_again(bytes)
        {
            assert_eq!(positions_again(&again), Some(again));
        }
        reader.consume(len);
    }
});
