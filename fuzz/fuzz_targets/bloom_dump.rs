//! The head of a dump of a Bloom filter must be refused, or make a filter whose dump is the same and
//! that can be used, whatever pieces are loaded into it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_sketch::bloom::Bloom;

fuzz_target!(|input: (Vec<u8>, Vec<(i64, Vec<u8>)>, Vec<Vec<u8>>)| {
    let (head, pieces, items) = input;
    let Some(mut bloom) = Bloom::from_head(&head) else { return };
    assert_eq!(bloom.head(), head);
    for (iterator, piece) in pieces {
        let (before, bound) = (bloom.allocated(), bloom.piece_growth(iterator, piece.len()));
        let _ = bloom.load_piece(iterator, &piece);
        assert!(bloom.allocated() - before <= bound);
        let _ = bloom.piece(iterator);
    }
    for item in items {
        let hashes = bloom.hashes(&item);
        if bloom.add(hashes).is_ok() {
            assert!(bloom.contains(hashes));
        }
    }
    let _ = (bloom.capacity(), bloom.size(), bloom.growth(3));
    assert!(Bloom::from_head(&bloom.head()).is_some() || bloom.items() > bloom.capacity());
});
