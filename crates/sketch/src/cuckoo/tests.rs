use super::*;

const MOST: usize = 32;

fn shape(capacity: u64, bucket_size: u8, iterations: u16, expansion: u16) -> Shape {
    Shape::sized(capacity, bucket_size, iterations, expansion).unwrap()
}

fn print(i: usize) -> Print {
    Print::of(i.to_string().as_bytes())
}

fn filled(items: usize, shape: Shape) -> Cuckoo {
    let mut cuckoo = Cuckoo::new(shape).unwrap();
    (0..items).for_each(|i| cuckoo.add(print(i), MOST).unwrap());
    cuckoo
}

fn push(out: &mut Vec<u8>, part: &Part<'_>) {
    match part {
        Part::Table(buckets, bytes) => {
            out.extend_from_slice(format!("{buckets} {bytes}").as_bytes());
        }
        Part::Cells(cells) => out.extend_from_slice(cells),
    }
}

fn bytes_of(cuckoo: &Cuckoo) -> Vec<u8> {
    let mut out = cuckoo.head();
    cuckoo.each_part(&mut |part| push(&mut out, &part));
    out
}

#[test]
fn places_are_those_of_redisbloom() {
    let mut cuckoo = Cuckoo::new(shape(10, 2, 20, 1)).unwrap();
    for item in ["a", "b", "c", "a"] {
        assert_eq!(cuckoo.add(Print::of(item.as_bytes()), MOST), Ok(()));
    }
    // As RedisBloom 8.8 answers to CF.SCANDUMP after CF.INSERT k CAPACITY 10 ITEMS a b c a.
    let cells = b"\0\0\xc4\xc4\0\0\0\0\0\0\xcb\0\0\0\x10\0".to_vec();
    assert_eq!(cuckoo.piece(1), Some((17, cells)));
    assert_eq!(cuckoo.piece(17), None);
    let numbers = [4u64, 8, 0, 1].map(u64::to_le_bytes).concat();
    assert_eq!(cuckoo.head(), [&numbers[..], &[2, 0, 20, 0, 1, 0]].concat());
    assert_eq!((cuckoo.count(Print::of(b"a")), cuckoo.count(Print::of(b"z"))), (2, 0));
}

#[test]
fn items_are_found_and_few_others() {
    for (size, expansion) in [(1, 1), (2, 2), (3, 4), (4, 1)] {
        let cuckoo = filled(20_000, shape(2_000, size, 20, expansion));
        assert!((0..20_000).all(|i| cuckoo.contains(print(i))));
        let wrong = (20_000..120_000).filter(|&i| cuckoo.contains(print(i))).count();
        // Each place that is looked at has the fingerprint of another item once in 255.
        let share = cuckoo.filters() as f64 * 2.0 * f64::from(size) / 255.0;
        assert!((wrong as f64) < 100_000.0 * share, "{wrong} of {share}");
    }
}

#[test]
fn a_filter_that_does_not_grow_is_full_and_stays_as_it_was() {
    let mut cuckoo = Cuckoo::new(shape(64, 2, 20, 0)).unwrap();
    let full = (0..1000).find(|&i| {
        let before = bytes_of(&cuckoo);
        let added = cuckoo.add(print(i), MOST);
        assert!(added.is_ok() || bytes_of(&cuckoo) == before);
        added == Err(AddError::Full)
    });
    assert!(full.is_some_and(|i| i > 40), "{full:?}");
    let mut cuckoo = Cuckoo::new(shape(2, 1, 20, 1)).unwrap();
    let ended = (0..1000).find(|&i| cuckoo.add(print(i), 5) == Err(AddError::NoMore));
    assert!(ended.is_some() && cuckoo.filters() == 5);
}

#[test]
fn deleted_items_are_gone_and_sub_filters_with_them() {
    let mut cuckoo = filled(5_000, shape(500, 2, 20, 1));
    let (filters, most) = (cuckoo.filters(), cuckoo.allocated());
    for i in 0..5_000 {
        let probes = cuckoo.is_compacted_by_deletion();
        assert!(cuckoo.delete(print(i)));
        assert!(!probes || cuckoo.deletes() == 0);
    }
    assert_eq!((cuckoo.items(), cuckoo.delete(print(1))), (0, false));
    cuckoo.compact(true);
    assert!(cuckoo.filters() == 1 && filters > 5, "{} of {filters}", cuckoo.filters());
    assert!(cuckoo.allocated() < most / 5);
    let sum: usize = cuckoo.tables.iter().map(|table| table.cells().allocated()).sum();
    assert_eq!(sum, cuckoo.allocated);
}

#[test]
fn dumps_are_loaded_as_they_were_written() {
    let cuckoo = filled(9_000, shape(100, 3, 20, 2));
    let mut copy = Cuckoo::from_head(&cuckoo.head()).unwrap();
    let mut iterator = 1;
    while let Some((next, piece)) = cuckoo.piece(iterator) {
        let (before, bound) = (copy.allocated(), copy.piece_growth(next, piece.len()));
        assert_eq!(copy.load_piece(next, &piece), Ok(()));
        assert!(copy.allocated() - before <= bound);
        iterator = next;
    }
    assert_eq!(bytes_of(&copy), bytes_of(&cuckoo));
    assert_eq!(copy.allocated(), cuckoo.allocated());
    assert_eq!(bytes_of(&cuckoo.duplicate()), bytes_of(&cuckoo));
    for (iterator, piece) in [(0, "x"), (1, "x"), (-1, "x"), (5, ""), (i64::MAX, "x"), (3, "123")] {
        assert_eq!(copy.load_piece(iterator, piece.as_bytes()), Err(LoadChunkError));
    }
    let end = copy.tables[0].cells().len() as i64;
    assert_eq!(copy.load_piece(end + 2, b"12"), Err(LoadChunkError));
    assert_eq!((cuckoo.piece(-1), cuckoo.piece(i64::MIN)), (None, None));
}

#[test]
fn heads_that_contradict_themselves_are_refused() {
    let head = filled(300, shape(50, 2, 20, 2)).head();
    assert!(Cuckoo::from_head(&head).is_some());
    for at in 0..head.len() {
        assert!(Cuckoo::from_head(&head[..at]).is_none());
        for byte in [0, 1, 2, 7, 0x7f, 0x80, 0xff] {
            let mut broken = head.clone();
            broken[at] = byte;
            if let Some(mut cuckoo) = Cuckoo::from_head(&broken) {
                // Whatever is accepted can be used.
                assert!(cuckoo.filters() <= FILTERS_MAX);
                assert!(cuckoo.allocated() <= Cuckoo::head_growth(&broken));
                let x = Print::of(b"x");
                let _ = (cuckoo.add(x, MOST), cuckoo.growth(5, MOST), cuckoo.size());
                assert!(cuckoo.contains(x) && cuckoo.delete(x));
                let _ = (cuckoo.piece(1).map(|(_, piece)| piece.len()), cuckoo.probes_to_compact());
            }
        }
    }
    for (buckets, size, filters, expansion) in
        [(0, 2, 1, 1), (3, 2, 1, 1), (2, 0, 1, 1), (2, 256, 1, 1), (2, 2, 0, 1), (2, 2, 2, 0)]
    {
        let mut broken = [0u64, buckets, 0, filters].map(u64::to_le_bytes).concat();
        [size, 20u16, expansion].iter().for_each(|n| broken.extend(n.to_le_bytes()));
        assert!(Cuckoo::from_head(&broken).is_none());
    }
}

#[test]
fn shapes_are_bounded() {
    assert_eq!(
        shape(1000, 2, 20, 3),
        Shape { buckets: 512, expansion: 4, ..shape(1000, 2, 20, 4) }
    );
    assert_eq!(shape(1 << 30, 255, 20, 1).buckets, 1 << 23);
    let shape = shape(4, 2, 20, 32_768);
    assert_eq!((shape.buckets_of(1), shape.bytes_of(2)), (Some(65_536), None));
    assert_eq!(
        (shape.buckets_of(4), shape.buckets_of(60), shape.buckets_of(1 << 40)),
        (Some(2 << 60), None, None)
    );
    assert!(Shape::sized(1 << 62, 1, 20, 1).is_none() && Shape::sized(4, 0, 20, 1).is_none());
    assert!(Shape::sized(u64::MAX, 1, 20, 1).is_none() && Shape::sized(4, 1, 0, 1).is_none());
}

#[test]
fn a_snapshot_has_the_filter_of_its_beginning() {
    let mut cuckoo = filled(3_000, shape(1_000, 2, 20, 1));
    let before = bytes_of(&cuckoo);
    let mut taken = cuckoo.head();
    cuckoo.begin_snapshot();
    let mut i = 0;
    // Sub-filters vanish and come again meanwhile.
    while cuckoo.next_part(&mut |part| push(&mut taken, &part)) {
        for _ in 0..700 {
            match i {
                ..3_000 => assert!(cuckoo.delete(print(i))),
                _ => cuckoo.add(print(i), MOST).unwrap(),
            }
            i += 1;
        }
    }
    assert!(taken == before);
    assert!(cuckoo.snapshot.is_none() && i > 3_000);
    let sum: usize = cuckoo.tables.iter().map(|table| table.cells().allocated()).sum();
    assert_eq!(cuckoo.allocated, sum);
}

#[test]
fn growth_bounds_what_items_allocate() {
    let mut cuckoo = Cuckoo::new(shape(20_000, 3, 20, 2)).unwrap();
    for i in 0..60_000 {
        if i == 20_000 {
            cuckoo.begin_snapshot();
        }
        let (before, bound) = (cuckoo.allocated(), cuckoo.growth(1, MOST));
        cuckoo.add(print(i), MOST).unwrap();
        assert!(cuckoo.allocated() - before <= bound + 512, "{i}");
    }
    for count in [1, 500] {
        let mut cuckoo = Cuckoo::new(shape(4, 2, 20, 2)).unwrap();
        let (before, bound) = (cuckoo.allocated(), cuckoo.growth(count, MOST));
        (0..count).for_each(|_| _ = cuckoo.add(print(7), MOST));
        assert!(cuckoo.allocated() - before <= bound + 4096);
    }
}
