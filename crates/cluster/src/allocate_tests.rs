use super::*;
use crate::Slot;
use proptest::prelude::*;

fn member(node: u16) -> Member {
    Member { node: Node(node), weight: 1, zone: u32::from(node) }
}

fn members(count: u16) -> Vec<Member> {
    (0..count).map(member).collect()
}

/// Number of slots of which a node is primary, and number of slots that it owns.
fn counts(map: &SlotMap, node: Node) -> (usize, usize) {
    let len = |range: &&crate::SlotRange| usize::from(range.last - range.first) + 1;
    let primary = map.ranges().iter().filter(|range| range.owners[0] == node);
    let held = map.ranges().iter().filter(|range| range.owners.contains(&node));
    (primary.map(|range| len(&range)).sum(), held.map(|range| len(&range)).sum())
}

/// Slots with owners that they did not have before.
fn copied(before: &SlotMap, after: &SlotMap) -> Vec<(Slot, Node)> {
    let new = |slot: Slot| {
        let old = before.owners(slot);
        after
            .owners(slot)
            .iter()
            .filter(|owner| !old.contains(owner))
            .map(move |&owner| (slot, owner))
    };
    (0..SLOTS).flat_map(new).collect()
}

fn check(map: &SlotMap, members: &[Member], copies: usize) {
    let copies = copies.min(members.len());
    let mut next = 0;
    for range in map.ranges() {
        assert_eq!(range.first, next, "a slot without a owner");
        next = range.last + 1;
        let mut owners = range.owners.to_vec();
        owners.sort_unstable();
        owners.dedup();
        assert_eq!(owners.len(), copies, "{range:?}");
        assert!(owners.iter().all(|owner| members.iter().any(|member| member.node == *owner)));
    }
    assert_eq!(next, SLOTS);
}

#[test]
fn a_new_cluster_has_a_range_for_each_node() {
    for count in [1, 2, 3, 6, 16] {
        let map = allocate(&SlotMap::default(), &members(count), 2);
        check(&map, &members(count), 2);
        assert_eq!(map.primaries().len(), usize::from(count));
    }
}

#[test]
fn nodes_that_join_one_by_one_leave_few_ranges_and_nothing_else_moves() {
    let mut map = allocate(&SlotMap::default(), &members(1), 2);
    let mut ranges = Vec::new();
    for count in 2..=32 {
        let grown = allocate(&map, &members(count), 2);
        check(&grown, &members(count), 2);
        let moved = copied(&map, &grown);
        let newcomer = Node(count - 1);
        assert!(moved.iter().all(|(_, node)| *node == newcomer), "{count}: {:?}", moved.len());
        assert_eq!(moved.len(), counts(&grown, newcomer).1);
        for node in 0..count {
            let (primary, held) = counts(&grown, Node(node));
            let (share, all) = (16_384 / usize::from(count), 32_768 / usize::from(count));
            assert!(primary.abs_diff(share) <= 1 && held.abs_diff(all) <= 1, "{count}: {node}");
        }
        map = grown;
        ranges.push(map.primaries().len());
    }
    for (count, most) in [(3, 4), (4, 8), (6, 20), (10, 60), (16, 140), (32, 520)] {
        assert!(ranges[count - 2] <= most, "{count} nodes: {} ranges", ranges[count - 2]);
    }
}

#[test]
fn a_backup_replaces_a_primary_that_has_left() {
    let map = allocate(&SlotMap::default(), &members(3), 2);
    let left: Vec<Member> = members(3).into_iter().filter(|member| member.node.0 != 1).collect();
    let after = allocate(&map, &left, 2);
    check(&after, &left, 2);
    for slot in 0..SLOTS {
        if map.primary(slot) == Some(Node(1)) {
            assert!(map.owners(slot).contains(&after.primary(slot).unwrap()));
        }
    }
    // Only slots of the node that left are copied.
    assert_eq!(copied(&map, &after).len(), counts(&map, Node(1)).1);
}

#[test]
fn owners_are_in_different_zones_and_weights_decide() {
    let zoned = |zones: &[u32], weights: &[u32]| -> Vec<Member> {
        let each = zones.iter().zip(weights).enumerate();
        each.map(|(node, (&zone, &weight))| Member { node: Node(node as u16), weight, zone })
            .collect()
    };
    let even = zoned(&[1, 1, 1, 2, 2, 2], &[1; 6]);
    let map = allocate(&SlotMap::default(), &even, 2);
    check(&map, &even, 2);
    let zone = |node: &Node| even[usize::from(node.0)].zone;
    assert!(map.ranges().iter().all(|range| zone(&range.owners[0]) != zone(&range.owners[1])));
    let weighted = zoned(&[1, 2, 3, 4], &[1, 1, 2, 0]);
    let map = allocate(&SlotMap::default(), &weighted, 2);
    let held: Vec<usize> = (0..4).map(|node| counts(&map, Node(node)).1).collect();
    assert_eq!(held, [8_192, 8_192, 16_384, 0]);
    let heavy = allocate(&SlotMap::default(), &zoned(&[1, 2], &[100, 1]), 2);
    check(&heavy, &members(2), 2);
    assert!(allocate(&map, &[], 2).ranges().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn members_come_and_go(
        copies in 1usize..4,
        steps in prop::collection::vec((0u16..12, any::<bool>()), 1..12),
    ) {
        let mut there = members(3);
        let mut map = allocate(&SlotMap::default(), &there, copies);
        for (node, comes) in steps {
            let before = there.len();
            match comes {
                true if there.iter().all(|member| member.node.0 != node) => there.push(member(node)),
                false if before > 1 => there.retain(|member| member.node.0 != node),
                _ => {}
            }
            let changed = allocate(&map, &there, copies);
            check(&changed, &there, copies);
            let (primaries, all) = (usize::from(SLOTS), usize::from(SLOTS) * copies.min(there.len()));
            let mut lacked = 0;
            for member in &there {
                let (primary, held) = counts(&changed, member.node);
                prop_assert!(primary.abs_diff(primaries / there.len()) <= 1, "{primary}");
                prop_assert!(held.abs_diff(all / there.len()) <= 1 + all / there.len() / 32, "{held}");
                lacked += (all / there.len() + 1).saturating_sub(counts(&map, member.node).1);
            }
            // Only missing owners are copied, except for primaries that swap places.
            let moved = copied(&map, &changed).len();
            prop_assert!(moved <= lacked + primaries / there.len(), "{moved} of {lacked}");
            prop_assert_eq!(&allocate(&changed, &there, copies), &changed);
            map = changed;
        }
    }
}
