use super::*;

fn filled(numbers: impl IntoIterator<Item = f64>, compression: u64) -> TDigest {
    let mut digest = TDigest::new(compression).unwrap();
    numbers.into_iter().for_each(|number| digest.add(number, 1.0).unwrap());
    digest
}

fn merged(mut digest: TDigest) -> TDigest {
    digest.compress();
    digest
}

/// Numbers from 0 to `count`, each once, in no order.
fn shuffled(count: u64) -> impl Iterator<Item = f64> {
    (0..count).map(move |i| (i * 7_919 % count) as f64)
}

#[test]
fn nodes_are_those_of_redisbloom() {
    let digest = filled((1..=39).map(f64::from), 1);
    // As TDIGEST.INFO of RedisBloom 8.8 answers.
    assert_eq!((digest.capacity(), digest.merged(), digest.unmerged()), (16, 4, 1));
    assert_eq!((digest.merged_weight(), digest.compressions()), (38.0, 3));
    let digest = merged(filled((1..=10).map(f64::from).chain([1e308]), 100));
    let quantiles = [0.0, 0.1, 0.5, 0.9, 1.0].map(|q| digest.quantile(q));
    assert_eq!(quantiles, [1.0, 2.0, 6.0, 10.0, 1e308]);
    let shares = [0.0, 1.0, 2.0, 3.0, 4.0, 11.0].map(|number| digest.cdf(number));
    let expected = [
        0.0,
        0.045454545454545456,
        0.13636363636363635,
        0.22727272727272727,
        0.3181818181818182,
        0.9090909090909091,
    ];
    assert_eq!((shares, digest.trimmed_mean(0.1, 0.9)), (expected, 6.0));
}

#[test]
fn quantiles_are_near_and_exact_at_the_ends() {
    let digest = merged(filled(shuffled(100_000), 100));
    assert!(digest.merged() < 200, "{}", digest.merged());
    assert_eq!((digest.quantile(0.0), digest.quantile(1.0)), (0.0, 99_999.0));
    for (q, error) in [(0.001, 20.0), (0.01, 100.0), (0.5, 1_000.0), (0.99, 100.0), (0.999, 20.0)] {
        let expected = q * 100_000.0;
        assert!((digest.quantile(q) - expected).abs() < error, "{q}: {}", digest.quantile(q));
        assert!((digest.cdf(expected) - q).abs() < error / 100_000.0);
    }
    let mean = digest.trimmed_mean(0.25, 0.75);
    assert!((mean - 50_000.0).abs() < 200.0, "{mean}");
}

#[test]
fn an_empty_digest_answers_no_number() {
    let digest = TDigest::new(100).unwrap();
    assert!(digest.quantile(0.5).is_nan() && digest.cdf(1.0).is_nan());
    assert!(digest.trimmed_mean(0.0, 1.0).is_nan());
    assert_eq!(digest.allocated(), 0);
    assert!(TDigest::new(0).is_none() && TDigest::new(COMPRESSION_MAX + 1).is_none());
}

#[test]
fn merged_digests_have_the_numbers_of_all() {
    let mut all = TDigest::new(100).unwrap();
    for part in 0..4 {
        let numbers = shuffled(20_000).filter(|number| number % 4.0 == f64::from(part));
        all.merge(&filled(numbers, 100)).unwrap();
    }
    assert_eq!(all.weight(), 20_000.0);
    let all = merged(all);
    assert!((all.quantile(0.5) - 10_000.0).abs() < 200.0);
    let heavy = Node { mean: 1.0, weight: WEIGHT_MAX };
    let mut heavy = TDigest::from_nodes(100, (1.0, 1.0), vec![heavy], true, 1).unwrap();
    assert_eq!((heavy.add(1.0, 1.0), heavy.unmerged()), (Err(Overflow), 0));
}

#[test]
fn nodes_that_contradict_themselves_are_refused() {
    let from = |compression, weights: &[f64]| {
        let nodes = weights.iter().map(|&weight| Node { mean: f64::NAN, weight }).collect();
        TDigest::from_nodes(compression, (f64::NAN, f64::NAN), nodes, true, u64::MAX)
    };
    for weights in [&[0.0][..], &[-1.0], &[f64::NAN], &[f64::INFINITY], &[1e16], &[1.0; 17]] {
        assert!(from(1, weights).is_none());
    }
    assert!(from(0, &[1.0]).is_none() && from(u64::MAX, &[1.0]).is_none());
    // Whatever is accepted can be used.
    let mut odd = from(1, &[0.5, 1e-300, 3.0]).unwrap();
    for number in [1.0, f64::MAX, -f64::MAX, 0.0, -0.0, 1e-300] {
        (0..20).for_each(|_| _ = odd.add(number, 1.0));
        odd.with_merged(|odd| {
            let _ = (odd.quantile(0.3), odd.cdf(0.3), odd.trimmed_mean(0.1, 0.7));
        });
    }
}

#[test]
fn a_snapshot_has_the_nodes_of_its_beginning() {
    let mut digest = filled(shuffled(50_000), 5_000);
    let (mut before, mut taken) = (Vec::new(), Vec::new());
    digest.each_number(&mut |number| before.push(number));
    let bytes = digest.allocated();
    digest.begin_snapshot();
    assert_eq!(digest.allocated(), bytes);
    let mut i = 0.0;
    while digest.next_numbers(&mut |numbers| taken.extend_from_slice(numbers)) {
        i += 0.5;
        let (before, bound) = (digest.allocated(), digest.growth(1));
        digest.add(i, 1.0).unwrap();
        assert!(digest.allocated() - before <= bound);
    }
    assert!(taken == before && i > 1.0);
    assert!(digest.snapshot.is_none() && digest.weight() > 50_000.0);
}

/// Nodes in the order in which they are written go on as those in the order of their additions.
#[test]
fn a_copy_from_sorted_nodes_stays_the_same() {
    for added in [0, 1, 30, 60, 70, 500] {
        let mut digest = filled(shuffled(added).map(|number| number % 17.0), 10);
        let mut numbers = Vec::new();
        digest.each_number(&mut |number| numbers.push(number));
        let (means, weights) = numbers.split_at(digest.nodes().len());
        let nodes = means.iter().zip(weights).map(|(&mean, &weight)| Node { mean, weight });
        let (ends, is_merged) = ((digest.min(), digest.max()), digest.unmerged() == 0);
        let mut copy = TDigest::from_nodes(10, ends, nodes.collect(), is_merged, 0).unwrap();
        for round in 0..300 {
            let quantiles = |digest: &TDigest| {
                let at = |merged: &TDigest| [0.1, 0.5, 0.9].map(|q| merged.quantile(q).to_bits());
                digest.with_merged(at)
            };
            assert_eq!(quantiles(&copy), quantiles(&digest), "{added} {round}");
            let number = f64::from(round * 7 % 19);
            assert_eq!((copy.add(number, 1.0), digest.add(number, 1.0)), (Ok(()), Ok(())));
        }
    }
}

#[test]
fn growth_bounds_what_numbers_allocate() {
    for at_once in [1, 7, 5_000] {
        let mut digest = TDigest::new(100).unwrap();
        for round in 0..2_000 / at_once + 2 {
            let (before, bound) = (digest.allocated(), digest.growth(at_once));
            (0..at_once).for_each(|i| digest.add((round * i) as f64, 1.0).unwrap());
            assert!(digest.allocated() - before <= bound + bound / 4 + 64, "{round}");
        }
        assert!(digest.allocated() <= allocated(610 * 16));
    }
}
