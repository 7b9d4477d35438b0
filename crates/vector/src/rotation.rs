//! Random rotation by random signs and fast Hadamard transforms, in O(n log n) and without a
//! matrix.
//!
//! A round flips random signs, then transforms the first and the last `p` components, `p` being the
//! largest power of two that fits: the two ranges overlap, so no padding is needed. Every step, and
//! so the whole rotation, preserves lengths and angles.

/// Number of rounds: with two, a component's quarter of origin is still detectable.
const ROUNDS: u64 = 4;

/// Rotates a vector; the seed selects the rotation.
pub fn rotate(vector: &mut [f32], seed: u32) {
    for round in 0..ROUNDS {
        change_signs(vector, seed, round);
        let part = part(vector.len());
        transform(&mut vector[..part]);
        if part < vector.len() {
            let from = vector.len() - part;
            transform(&mut vector[from..]);
        }
    }
}

/// Inverts [`rotate`].
pub fn rotate_back(vector: &mut [f32], seed: u32) {
    for round in (0..ROUNDS).rev() {
        let part = part(vector.len());
        if part < vector.len() {
            let from = vector.len() - part;
            transform(&mut vector[from..]);
        }
        transform(&mut vector[..part]);
        change_signs(vector, seed, round);
    }
}

/// The largest power of two up to `len`.
fn part(len: usize) -> usize {
    if len == 0 { 0 } else { 1 << len.ilog2() }
}

fn change_signs(vector: &mut [f32], seed: u32, round: u64) {
    for (word, part) in (0u64..).zip(vector.chunks_mut(32)) {
        // A sign for each of the lower 32 bits.
        let bits = mix(u64::from(seed) << 32 | round << 28 | word) as u32;
        for (i, x) in part.iter_mut().enumerate() {
            let sign = if bits & 1 << i != 0 { 1 << 31 } else { 0 };
            *x = f32::from_bits(x.to_bits() ^ sign);
        }
    }
}

/// Output function of splitmix64.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Normalised Hadamard transform of a power of two of components; it is its own inverse.
fn transform(vector: &mut [f32]) {
    let len = vector.len();
    // The first three levels, of eight components at a time; the compiler unrolls them.
    let (eights, rest) = vector.as_chunks_mut::<8>();
    eights.iter_mut().for_each(transform_eight);
    let mut half = if rest.is_empty() { 8 } else { 1 };
    while half < len {
        for block in vector.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (len.max(1) as f32).sqrt();
    vector.iter_mut().for_each(|x| *x *= scale);
}

/// Sums and differences of components that are 1, 2 and 4 apart.
fn transform_eight(block: &mut [f32; 8]) {
    for half in [1, 2, 4] {
        for at in 0..4 {
            let low = at / half * 2 * half + at % half;
            let (a, b) = (block[low], block[low + half]);
            (block[low], block[low + half]) = (a + b, a - b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lengths_and_angles_stay(
            pairs in prop::collection::vec((-9f32..9.0, -9f32..9.0), 1..300),
            seed: u32,
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let dot = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(x, y)| x * y).sum() };
            let (mut x, mut y) = (a.clone(), b.clone());
            rotate(&mut x, seed);
            rotate(&mut y, seed);
            let size = dot(&a, &a).sqrt() * dot(&b, &b).sqrt();
            prop_assert!((dot(&a, &b) - dot(&x, &y)).abs() <= 1e-4 * size + 1e-6);
            rotate_back(&mut x, seed);
            for (x, a) in x.iter().zip(&a) {
                prop_assert!((x - a).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn a_single_component_spreads_over_all() {
        for dim in [64usize, 100, 384, 1000] {
            for at in [0, dim / 2, dim - 1] {
                let mut vector = vec![0.0; dim];
                vector[at] = 1.0;
                rotate(&mut vector, 7);
                let largest = vector.iter().fold(0f32, |max, x| max.max(x.abs()));
                // In a normal distribution one in a million exceeds five standard deviations.
                assert!(largest * (dim as f32).sqrt() < 5.0, "{dim} {at}: {largest}");
            }
        }
        let (mut one, mut other) = (vec![1.0; 96], vec![1.0; 96]);
        rotate(&mut one, 1);
        rotate(&mut other, 2);
        assert_ne!(one, other);
    }
}
