//! Uniform random choice, from random numbers of the caller.

/// A number below `bound`, which is not 0.
#[inline]
pub(crate) fn below(bound: usize, random: &mut dyn FnMut() -> u64) -> usize {
    ((u128::from(random()) * bound as u128) >> 64) as usize
}

/// For each of `len` things in turn, whether it is one of `count` chosen: every choice is equally
/// likely (selection sampling: Knuth, The Art of Computer Programming, 3.4.2, algorithm S). Ends
/// after the last chosen one.
pub(crate) fn choose(
    len: usize,
    count: usize,
    random: &mut dyn FnMut() -> u64,
) -> impl Iterator<Item = bool> {
    let (mut left, mut wanted) = (len, count.min(len));
    std::iter::from_fn(move || {
        if wanted == 0 {
            return None;
        }
        let chosen = below(left, random) < wanted;
        left -= 1;
        wanted -= usize::from(chosen);
        Some(chosen)
    })
}

/// Like `indexes`, but yields the number of items skipped before each chosen one.
pub(crate) fn gaps(
    len: usize,
    count: usize,
    random: &mut dyn FnMut() -> u64,
) -> impl Iterator<Item = usize> {
    let mut chosen = choose(len, count, random);
    std::iter::from_fn(move || chosen.by_ref().position(|chosen| chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> impl FnMut() -> u64 {
        let mut state = 88_172_645_463_325_252u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    #[test]
    fn every_choice_is_as_likely() {
        let mut random = numbers();
        let mut chosen = [0; 10];
        for _ in 0..10_000 {
            let places: Vec<usize> = choose(10, 3, &mut random)
                .enumerate()
                .filter_map(|(place, chosen)| chosen.then_some(place))
                .collect();
            assert_eq!(places.len(), 3);
            places.iter().for_each(|&place| chosen[place] += 1);
        }
        assert!(chosen.iter().all(|&times| (2_800..3_200).contains(&times)), "{chosen:?}");
    }

    #[test]
    fn all_or_nothing() {
        let mut random = numbers();
        assert_eq!(choose(3, 7, &mut random).collect::<Vec<_>>(), [true; 3]);
        assert_eq!(choose(3, 0, &mut random).count(), 0);
        assert_eq!(choose(0, 1, &mut random).count(), 0);
    }
}
