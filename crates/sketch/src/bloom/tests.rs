use super::*;

fn filled(items: usize, error: f64, entries: u64, expansion: u32) -> Bloom {
    let mut bloom = Bloom::new(error, entries, expansion, false).unwrap();
    for i in 0..items {
        bloom.add(bloom.hashes(i.to_string().as_bytes())).unwrap();
    }
    bloom
}

fn bytes_of(bloom: &Bloom) -> Vec<u8> {
    let mut out = bloom.head();
    bloom.each_part(&mut |part| match part {
        Part::Link(facts) => out.extend_from_slice(format!("{facts:?}").as_bytes()),
        Part::Bits(bits) => out.extend_from_slice(bits),
        Part::Items(items) => out.extend_from_slice(&items.to_le_bytes()),
    });
    out
}

#[test]
fn bits_are_those_of_redisbloom() {
    let mut bloom = Bloom::new(0.01, 100, 2, false).unwrap();
    for item in ["a", "b", "c"] {
        assert_eq!(bloom.add(bloom.hashes(item.as_bytes())), Ok(true));
    }
    assert_eq!(bloom.add(bloom.hashes(b"a")), Ok(false));
    // As `BF.SCANDUMP` of RedisBloom 8.8 answers after BF.MADD k a b c: the bytes that are not 0.
    let expected = [
        (13, 0x40),
        (21, 0x50),
        (27, 0x04),
        (32, 0x02),
        (56, 0x08),
        (57, 0x40),
        (58, 0x20),
        (61, 0x82),
        (67, 0x08),
        (92, 0x10),
        (94, 0x01),
        (95, 0x01),
        (96, 0x10),
        (102, 0x01),
        (103, 0x20),
        (123, 0x80),
        (126, 0x08),
        (129, 0x04),
        (131, 0x02),
        (136, 0x20),
        (139, 0x80),
    ];
    let (next, piece) = bloom.piece(1).unwrap();
    assert_eq!((next, piece.len(), bloom.piece(145)), (145, 144, None));
    let set: Vec<(usize, u8)> = piece.into_iter().enumerate().filter(|&(_, b)| b != 0).collect();
    assert_eq!(set, expected);
}

#[test]
fn items_are_found_and_few_others() {
    let bloom = filled(20_000, 0.01, 1_000, 2);
    assert!(bloom.links().len() > 3);
    for i in 0..20_000 {
        assert!(bloom.contains(bloom.hashes(i.to_string().as_bytes())));
    }
    let wrong = (20_000..120_000)
        .filter(|i: &usize| bloom.contains(bloom.hashes(i.to_string().as_bytes())));
    let wrong = wrong.count();
    assert!(wrong < 1_000, "{wrong}");
    assert!(bloom.items() <= 20_000 && bloom.items() > 19_700, "{}", bloom.items());
}

#[test]
fn a_filter_of_two_to_the_33_bits_keeps_its_promise() {
    // Nothing is allocated but pages with items.
    let facts = Facts::sized(0.001, 600_000_000).unwrap();
    assert!(facts.bits > 1 << 33);
    let mut bloom = Bloom::new(0.001, 600_000_000, 2, true).unwrap();
    for i in 0..500u32 {
        assert_eq!(bloom.add(bloom.hashes(&i.to_le_bytes())), Ok(true));
    }
    let mut high = false;
    bloom.links()[0].places_of(bloom.hashes(b"x"), &mut |place| high |= place > u32::MAX.into());
    assert!(high, "no bit beyond 2^32");
    assert!((0..500u32).all(|i| bloom.contains(bloom.hashes(&i.to_le_bytes()))));
    let absent = (500..100_000u32).filter(|i| bloom.contains(bloom.hashes(&i.to_le_bytes())));
    assert_eq!(absent.count(), 0);
}

#[test]
fn a_filter_that_does_not_grow_is_full() {
    let mut bloom = Bloom::new(0.01, 2, 0, true).unwrap();
    let added: Vec<_> = ["a", "b", "c"].map(|item| bloom.add(bloom.hashes(item.as_bytes()))).into();
    assert_eq!(added, [Ok(true), Ok(true), Err(AddError::Full)]);
    assert_eq!(bloom.add(bloom.hashes(b"a")), Ok(false));
}

#[test]
fn a_chain_ends_with_its_error_rate() {
    let mut bloom = Bloom::new(1e-300, 1, 1, false).unwrap();
    let failed = (0..1000u32).find_map(|i| bloom.add(bloom.hashes(&i.to_le_bytes())).err());
    assert_eq!(failed, Some(AddError::NoLink));
    assert!(Bloom::new(5e-324, 1, 1, false).is_none());
    assert!(Bloom::new(f64::NAN, 1, 1, true).is_none() && Bloom::new(0.1, 0, 1, true).is_none());
    assert!(
        Bloom::new(1e-300, 1 << 30, 2, false).is_none()
            && Bloom::new(0.1, 1 << 62, 2, false).is_none()
    );
}

#[test]
fn dumps_are_loaded_as_they_were_written() {
    let bloom = filled(9_000, 0.001, 100, 3);
    let mut copy = Bloom::from_head(&bloom.head()).unwrap();
    let mut iterator = 1;
    while let Some((next, piece)) = bloom.piece(iterator) {
        assert_eq!(copy.load_piece(next, &piece), Ok(()));
        iterator = next;
    }
    assert_eq!(bytes_of(&copy), bytes_of(&bloom));
    assert_eq!(copy.allocated(), bloom.allocated());
    assert_eq!(bytes_of(&bloom.duplicate()), bytes_of(&bloom));
    assert_eq!(copy.load_piece(0, b""), Err(ChunkError::Iterator));
    assert_eq!(copy.load_piece(5, b"123456"), Err(ChunkError::Iterator));
    assert_eq!(copy.load_piece(1, b"1"), Err(ChunkError::NoLink));
    assert_eq!(copy.load_piece(i64::MAX, b"1"), Err(ChunkError::NoLink));
    let end = copy.links()[0].bytes() as i64;
    assert_eq!(copy.load_piece(end + 2, b"12"), Err(ChunkError::TooLong));
    assert_eq!((bloom.piece(-1), bloom.piece(i64::MIN)), (None, None));
}

#[test]
fn heads_that_contradict_themselves_are_refused() {
    let head = filled(300, 0.01, 100, 2).head();
    assert!(Bloom::from_head(&head).is_some());
    for at in 0..head.len() {
        assert!(Bloom::from_head(&head[..at]).is_none());
        for byte in [0, 1, 7, 0x7f, 0x80, 0xff] {
            let mut broken = head.clone();
            broken[at] = byte;
            if let Some(mut bloom) = Bloom::from_head(&broken) {
                // Whatever is accepted can be used, and occupies little.
                assert!(bloom.allocated() < 2_000);
                let hashes = bloom.hashes(b"x");
                let _ =
                    (bloom.contains(hashes), bloom.add(hashes), bloom.growth(5), bloom.capacity());
                let _ = (bloom.piece(1).map(|(_, piece)| piece.len()), bloom.size());
            }
        }
    }
}

#[test]
fn a_snapshot_has_the_filter_of_its_beginning() {
    let mut bloom = filled(3_000, 0.001, 1_000, 2);
    let before = bytes_of(&bloom);
    let mut taken = bloom.head();
    bloom.begin_snapshot();
    let mut i = 3_000;
    loop {
        let goes_on = bloom.next_part(&mut |part| match part {
            Part::Link(facts) => taken.extend_from_slice(format!("{facts:?}").as_bytes()),
            Part::Bits(bits) => taken.extend_from_slice(bits),
            Part::Items(items) => taken.extend_from_slice(&items.to_le_bytes()),
        });
        for _ in 0..500 {
            i += 1;
            bloom.add(bloom.hashes(i.to_string().as_bytes())).unwrap();
        }
        if !goes_on {
            break;
        }
    }
    assert!(taken == before);
    let sum: usize = bloom.links().iter().map(Link::allocated).sum();
    assert_eq!(bloom.allocated, sum);
    assert!(bytes_of(&bloom) != before);
}

#[test]
fn growth_bounds_what_items_allocate() {
    let mut bloom = Bloom::new(0.001, 5_000, 4, false).unwrap();
    for i in 0..40_000u32 {
        let (before, bound) = (bloom.allocated(), bloom.growth(1));
        bloom.add(bloom.hashes(&i.to_le_bytes())).unwrap();
        assert!(bloom.allocated() - before <= bound + 512, "{i}");
    }
}

#[test]
fn growth_bounds_many_items_at_once() {
    for expansion in [1, 2, 5] {
        let mut bloom = Bloom::new(0.01, 1, expansion, false).unwrap();
        let (before, bound) = (bloom.allocated(), bloom.growth(500));
        (0..500u32).for_each(|i| _ = bloom.add(bloom.hashes(&i.to_le_bytes())));
        let grown = bloom.allocated() - before;
        assert!(grown <= bound + 4096 && bound < 40 * grown, "{grown} of {bound}");
    }
}
