//! Lists beside the added postings.

use super::*;

type Row = (u32, u32, u128, Vec<u32>);

fn sample(number: u32, kind: u32) -> Row {
    let row = number * 3 + number % 2;
    let mask = if kind & 1 != 0 { 1 << (number % 128) } else { 1 };
    let mut count = if kind & 2 != 0 { number % 5 + 1 } else { 1 };
    if kind & 4 != 0 && number % 40 == 7 {
        count = 3000;
    }
    let frequency = if kind & 8 != 0 { number % 7 + 1 } else { count };
    (row, frequency, mask, (0..count).map(|at| at * 100 + number).collect())
}

fn build(postings: &mut Postings, count: u32, kind: u32) -> List {
    let mut list = List::default();
    for number in 0..count {
        let (row, frequency, mask, positions) = sample(number, kind);
        let posting = Posting { row, frequency, mask, positions: &positions };
        assert!(postings.push(&mut list, &posting));
        assert!(!postings.push(&mut list, &posting), "a row that is not above all others");
    }
    assert_eq!(postings.len(&list), count as usize);
    list
}

fn read(postings: &Postings, list: &List) -> Vec<Row> {
    let mut cursor = postings.cursor(list);
    let mut rows = Vec::new();
    while let Some(row) = cursor.current() {
        let mut positions = Vec::new();
        cursor.positions(&mut positions);
        rows.push((row, cursor.frequency(), cursor.mask(), positions));
        cursor.advance();
    }
    cursor.advance();
    assert_eq!(cursor.current(), None);
    rows
}

#[test]
fn postings_are_read_as_written() {
    for count in [0, 1, 2, 3, 10, 127, 128, 129, 1000] {
        for kind in 0..16 {
            let mut postings = Postings::default();
            let list = build(&mut postings, count, kind);
            let expected: Vec<_> = (0..count).map(|number| sample(number, kind)).collect();
            assert_eq!(read(&postings, &list), expected, "{count} {kind}");
        }
    }
}

#[test]
fn lists_without_positions_have_none() {
    let mut postings = Postings::storing(false);
    let mut list = build(&mut postings, 1000, 3);
    let without = |number| {
        let (row, frequency, mask, _) = sample(number, 3);
        (row, frequency, mask, Vec::new())
    };
    assert_eq!(read(&postings, &list), (0..1000).map(without).collect::<Vec<_>>());
    vacuum(&mut postings, &mut list, &|row| row % 9 < 4);
    let kept = (0..1000).map(without).filter(|(row, ..)| row % 9 < 4);
    assert_eq!(read(&postings, &list), kept.collect::<Vec<_>>());
}

#[test]
fn seeks_find_the_next_row() {
    for count in [0, 5, 128, 1000, 20_000] {
        let mut postings = Postings::default();
        let list = build(&mut postings, count, 3);
        for step in [1, 2, 3, 10, 127, 400, 1200, 40_000] {
            let mut cursor = postings.cursor(&list);
            for target in (0..count * 3 + 10).step_by(step) {
                cursor.seek(target);
                let from = (target / 3).min(count);
                let mut next = (from..count).map(|number| sample(number, 3).0);
                assert_eq!(cursor.current(), next.find(|&row| row >= target));
                if let Some(row) = cursor.current() {
                    let mut positions = Vec::new();
                    cursor.positions(&mut positions);
                    assert_eq!(positions, sample(row / 3, 3).3);
                }
            }
        }
    }
}

fn vacuum(postings: &mut Postings, list: &mut List, kept: &dyn Fn(u32) -> bool) {
    let mut group = 0;
    while let Some(next) = postings.vacuum(list, group, &mut |row| kept(row)) {
        group = next;
    }
}

#[test]
fn removed_rows_leave_no_bytes() {
    for count in [1, 3, 100, 200, 1000, 30_000] {
        for kind in [0, 3, 15] {
            for divisor in [2, 9, 1000] {
                let mut postings = Postings::default();
                let mut list = build(&mut postings, count, kind);
                let bytes = |postings: &Postings| {
                    let [blocks, directories, _] = postings.footprints();
                    blocks + directories
                };
                let before = bytes(&postings);
                let is_kept = |row: u32| row.is_multiple_of(divisor);
                vacuum(&mut postings, &mut list, &is_kept);
                let kept = (0..count).map(|number| sample(number, kind));
                let kept: Vec<_> = kept.filter(|(row, ..)| is_kept(*row)).collect();
                assert_eq!(read(&postings, &list), kept, "{count} {kind} {divisor}");
                assert_eq!(postings.len(&list), kept.len());
                if count > 1000 && divisor > 2 && kind < 15 {
                    let after = bytes(&postings);
                    assert!(after < before / 2, "{count} {kind} {divisor}: {before} {after}");
                }
                // It can grow again.
                let row = count * 3 + 5;
                let posting = Posting { row, frequency: 2, mask: 4, positions: &[1, 9] };
                assert!(postings.push(&mut list, &posting));
                assert_eq!(read(&postings, &list).last(), Some(&(row, 2, 4, vec![1, 9])));
                vacuum(&mut postings, &mut list, &|_| false);
                assert_eq!((postings.len(&list), list.kind), (0, 0));
                assert_eq!(bytes(&postings), 0, "{count} {kind} {divisor}");
            }
        }
    }
}

#[test]
fn memory_is_that_of_the_directories() {
    let mut postings = Postings::default();
    let mut lists: Vec<_> = (0..20).map(|at| build(&mut postings, 700 * at, at % 16)).collect();
    for round in 2..6 {
        for list in &mut lists {
            vacuum(&mut postings, list, &|row| row % round != 1);
        }
        let mut bytes = postings.longs.footprint() + postings.free_longs.footprint();
        for at in 0..postings.longs.len() {
            let groups = &postings.longs.get(at).unwrap().groups;
            bytes += groups.capacity() * size_of::<Group>();
            let blocks = groups.iter().map(|group| group.blocks.capacity());
            bytes += blocks.sum::<usize>() * size_of::<Block>();
        }
        assert_eq!(postings.footprints()[1], bytes);
    }
}

#[test]
fn a_list_is_16_bytes() {
    assert_eq!((size_of::<List>(), size_of::<Block>()), (16, 16));
}
