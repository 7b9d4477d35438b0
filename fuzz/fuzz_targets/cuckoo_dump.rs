//! The head of a dump of a cuckoo filter must be refused, or make a filter whose dump is the same and
//! that can be used, whatever pieces are loaded into it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_sketch::cuckoo::{Cuckoo, Print};

/// Sub-filters that an input may have, so that it does not take long.
const FILTERS_MAX: usize = 64;

fuzz_target!(|input: (Vec<u8>, Vec<(i64, Vec<u8>)>, Vec<Vec<u8>>)| {
    let (head, pieces, items) = input;
    let Some(mut cuckoo) = Cuckoo::from_head(&head) else { return };
    assert_eq!(cuckoo.head(), head);
    if cuckoo.filters() > FILTERS_MAX {
        return;
    }
    for (iterator, piece) in pieces {
        let (before, bound) = (cuckoo.allocated(), cuckoo.piece_growth(iterator, piece.len()));
        let _ = cuckoo.load_piece(iterator, &piece);
        assert!(cuckoo.allocated() - before <= bound);
        let _ = cuckoo.piece(iterator);
    }
    for item in items {
        let print = Print::of(&item);
        let count = cuckoo.count(print);
        if cuckoo.add(print, FILTERS_MAX).is_ok() {
            assert!(cuckoo.contains(print) && cuckoo.count(print) > count);
            assert!(cuckoo.delete(print));
        }
    }
    cuckoo.compact(true);
    let _ = (cuckoo.size(), cuckoo.growth(3, FILTERS_MAX), cuckoo.probes_to_compact());
    assert!(Cuckoo::from_head(&cuckoo.head()).is_some());
});
