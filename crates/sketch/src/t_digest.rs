//! t-digests: quantiles of a stream of numbers, exact at both ends and approximate in between. The
//! numbers are collected in nodes, each a mean with a weight; where there is no room for more,
//! neighbours are merged, so that nodes near the ends stay light.
//!
//! The algorithm is the merging digest of Ted Dunning and Otmar Ertl. Bounds, interpolation and
//! order of arithmetic are those of t-digest-c (MIT License, Copyright (c) 2019 Bob Rudis), so that
//! replies are those of RedisBloom; the order of nodes with equal means is that in which they came.

pub mod packed;

use crate::allocated;

/// Largest compression: a merge sorts 6 nodes for each.
pub const COMPRESSION_MAX: u64 = 1 << 20;

/// Sum of weights at most: greater numbers are not exact as doubles.
const WEIGHT_MAX: f64 = 9_007_199_254_740_992.0;

/// Numbers that are handed out at once.
const NUMBERS_AT_ONCE: usize = 1024;

/// Nodes that are allocated first.
const NODES_MIN: usize = 4;

/// Numbers that were merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// Mean of the numbers.
    pub mean: f64,
    /// Count of the numbers.
    pub weight: f64,
}

/// The nodes do not hold more numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Overflow;

/// A t-digest.
#[derive(Debug)]
pub struct TDigest {
    compression: u32,
    min: f64,
    max: f64,
    /// Merged ones, in order, then unmerged ones.
    nodes: Vec<Node>,
    merged: usize,
    merged_weight: f64,
    unmerged_weight: f64,
    compressions: u64,
    snapshot: Option<Box<Snapshot>>,
}

/// Progress of a snapshot.
#[derive(Debug)]
struct Snapshot {
    digest: TDigest,
    /// Numbers that were handed out: means, then weights.
    next: usize,
    /// Whether its memory is counted.
    is_counted: bool,
}

/// Sum of the weights. A sum of no numbers would be -0.0 by `Iterator::sum`.
fn weight_of(nodes: &[Node]) -> f64 {
    nodes.iter().fold(0.0, |sum, node| sum + node.weight)
}

impl TDigest {
    /// Creates an empty digest; none if the compression is 0 or too large.
    pub fn new(compression: u64) -> Option<Self> {
        let is_sound = (1..=COMPRESSION_MAX).contains(&compression);
        is_sound.then(|| TDigest {
            compression: compression as u32,
            min: f64::MAX,
            max: -f64::MAX,
            nodes: Vec::new(),
            merged: 0,
            merged_weight: 0.0,
            unmerged_weight: 0.0,
            compressions: 0,
            snapshot: None,
        })
    }

    /// Creates a digest of nodes; none if they contradict themselves.
    pub fn from_nodes(
        compression: u64,
        (min, max): (f64, f64),
        nodes: Vec<Node>,
        are_merged: bool,
        compressions: u64,
    ) -> Option<Self> {
        let mut digest = TDigest::new(compression)?;
        let weight = weight_of(&nodes);
        let are_sound = nodes.iter().all(|node| node.weight > 0.0) && weight <= WEIGHT_MAX;
        if !are_sound || nodes.len() > digest.capacity() {
            return None;
        }
        (digest.min, digest.max, digest.compressions) = (min, max, compressions);
        if are_merged {
            (digest.merged, digest.merged_weight) = (nodes.len(), weight);
        } else {
            digest.unmerged_weight = weight;
        }
        digest.nodes = nodes;
        digest.nodes.shrink_to_fit();
        Some(digest)
    }

    /// The compression: more is more exact.
    pub fn compression(&self) -> u64 {
        self.compression.into()
    }

    /// Nodes at most.
    pub fn capacity(&self) -> usize {
        6 * self.compression as usize + 10
    }

    /// The lowest number; `f64::MAX` if there is none.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The highest number; `-f64::MAX` if there is none.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Number of merged nodes.
    pub fn merged(&self) -> usize {
        self.merged
    }

    /// Number of unmerged nodes.
    pub fn unmerged(&self) -> usize {
        self.nodes.len() - self.merged
    }

    /// Count of the numbers in merged nodes.
    pub fn merged_weight(&self) -> f64 {
        self.merged_weight
    }

    /// Count of the numbers in unmerged nodes.
    pub fn unmerged_weight(&self) -> f64 {
        self.unmerged_weight
    }

    /// Count of the numbers added.
    pub fn weight(&self) -> f64 {
        self.merged_weight + self.unmerged_weight
    }

    /// Count of merges.
    pub fn compressions(&self) -> u64 {
        self.compressions
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Bytes occupied, without the digest itself.
    pub fn allocated(&self) -> usize {
        let copy = self.snapshot.as_ref().filter(|snapshot| snapshot.is_counted);
        self.own_bytes() + copy.map_or(0, |copy| size_of::<Snapshot>() + copy.digest.own_bytes())
    }

    fn own_bytes(&self) -> usize {
        allocated(self.nodes.capacity() * size_of::<Node>())
    }

    /// Upper bound of the growth of [`TDigest::allocated`] by adding this many numbers.
    pub fn growth(&self, numbers: usize) -> usize {
        let needed = self.nodes.len().saturating_add(numbers).min(self.capacity());
        let copy = self.snapshot.as_ref().map_or(0, |copy| {
            let counted = if copy.is_counted { 0 } else { copy.digest.own_bytes() };
            counted + size_of::<Snapshot>()
        });
        if needed <= self.nodes.capacity() {
            return copy;
        }
        copy + self.room_for(2 * needed) * size_of::<Node>()
    }

    /// The number of nodes for which room is made, so that `needed` fit.
    fn room_for(&self, needed: usize) -> usize {
        needed.max(2 * self.nodes.capacity()).clamp(NODES_MIN, self.capacity())
    }

    /// Adds a number that came `weight` times.
    ///
    /// # Errors
    /// If there would be too many numbers; nothing has changed then.
    pub fn add(&mut self, number: f64, weight: f64) -> Result<(), Overflow> {
        if self.weight() > WEIGHT_MAX - weight {
            return Err(Overflow);
        }
        self.count_snapshot();
        if self.nodes.len() >= self.capacity() - 1 {
            self.compress();
            if self.nodes.len() >= self.capacity() {
                return Err(Overflow);
            }
        }
        if self.nodes.len() == self.nodes.capacity() {
            let room = self.room_for(self.nodes.len() + 1);
            self.nodes.reserve_exact(room - self.nodes.len());
        }
        self.min = if number < self.min { number } else { self.min };
        self.max = if number > self.max { number } else { self.max };
        self.nodes.push(Node { mean: number, weight });
        self.unmerged_weight += weight;
        Ok(())
    }

    /// Merges nodes.
    pub fn compress(&mut self) {
        if self.unmerged() == 0 {
            return;
        }
        self.sort();
        let total = self.weight();
        if total > 1.0 {
            self.merge_neighbours(total);
        }
        (self.merged, self.merged_weight, self.unmerged_weight) = (self.nodes.len(), total, 0.0);
        self.compressions = self.compressions.saturating_add(1);
    }

    fn sort(&mut self) {
        self.nodes.sort_by(|a, b| a.mean.total_cmp(&b.mean));
    }

    fn merge_neighbours(&mut self, total: f64) {
        let normalizer =
            f64::from(self.compression) / (2.0 * std::f64::consts::PI * total * total.ln());
        let (mut last, mut before) = (0, 0.0);
        for i in 1..self.nodes.len() {
            let (Node { mean, weight }, into) = (self.nodes[i], self.nodes[last]);
            let proposed = into.weight + weight;
            let z = proposed * normalizer;
            let (q0, q2) = (before / total, (before + proposed) / total);
            if z <= q0 * (1.0 - q0) && z <= q2 * (1.0 - q2) {
                let mean = into.mean + (mean - into.mean) * weight / proposed;
                self.nodes[last] = Node { mean, weight: proposed };
            } else {
                before += into.weight;
                last += 1;
                self.nodes[last] = Node { mean, weight };
            }
        }
        self.nodes.truncate(last + 1);
    }

    /// Adds the numbers of another digest, after a merge of its nodes.
    ///
    /// # Errors
    /// If there would be too many numbers.
    pub fn merge(&mut self, other: &TDigest) -> Result<(), Overflow> {
        self.compress();
        other.with_merged(|other| {
            other.nodes.iter().try_for_each(|node| self.add(node.mean, node.weight))
        })
    }

    /// Calls `look` with a digest of the same numbers that has merged nodes only.
    pub fn with_merged<R>(&self, look: impl FnOnce(&TDigest) -> R) -> R {
        if self.unmerged() == 0 {
            return look(self);
        }
        let mut merged = self.duplicate();
        merged.compress();
        look(&merged)
    }

    /// A copy without a snapshot.
    pub fn duplicate(&self) -> Self {
        TDigest { nodes: self.nodes.clone(), snapshot: None, ..*self }
    }

    /// Begins a snapshot of the present digest.
    pub fn begin_snapshot(&mut self) {
        let mut digest = self.duplicate();
        digest.sort();
        self.snapshot = Some(Box::new(Snapshot { digest, next: 0, is_counted: false }));
    }

    #[inline]
    fn count_snapshot(&mut self) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.is_counted = true;
        }
    }

    /// Shows the next numbers of the snapshot to `visit`: means, then weights; false at the end.
    pub fn next_numbers(&mut self, visit: &mut dyn FnMut(&[f64])) -> bool {
        self.count_snapshot();
        let Some(snapshot) = &mut self.snapshot else { return false };
        let numbers = snapshot.digest.numbers(snapshot.next);
        if numbers.is_empty() {
            self.snapshot = None;
            return false;
        }
        snapshot.next += numbers.len();
        visit(&numbers);
        true
    }

    /// Some of the means and weights of all nodes, from the given one on.
    fn numbers(&self, from: usize) -> Vec<f64> {
        let means = self.nodes.iter().map(|node| node.mean);
        let all = means.chain(self.nodes.iter().map(|node| node.weight));
        all.skip(from).take(NUMBERS_AT_ONCE).collect()
    }

    /// Shows the means and then the weights of all nodes to `visit`, in ascending order of the
    /// means. The next merge has the same result with this order and with that of the additions.
    pub fn each_number(&self, visit: &mut dyn FnMut(f64)) {
        let mut sorted = self.duplicate();
        sorted.sort();
        sorted.nodes.iter().for_each(|node| visit(node.mean));
        sorted.nodes.iter().for_each(|node| visit(node.weight));
    }
}

/// Value estimated from merged nodes; not a number if there are none.
impl TDigest {
    /// Estimates the number below which a share of all is.
    pub fn quantile(&self, q: f64) -> f64 {
        let nodes = &self.nodes[..self.merged];
        let ([first, .., last], total) = (nodes, self.merged_weight) else {
            return nodes.first().map_or(f64::NAN, |only| only.mean);
        };
        let index = q * total;
        if index < 1.0 {
            return self.min;
        }
        let half = first.weight / 2.0;
        if first.weight > 1.0 && index < half {
            return self.min + (index - 1.0) / (half - 1.0) * (first.mean - self.min);
        }
        if index > total - 1.0 {
            return self.max;
        }
        let half = last.weight / 2.0;
        if last.weight > 1.0 && total - index <= half {
            return self.max - (total - index - 1.0) / (half - 1.0) * (self.max - last.mean);
        }
        let mut before = first.weight / 2.0;
        for pair in nodes.windows(2) {
            let (left, right) = (pair[0], pair[1]);
            let step = f64::midpoint(left.weight, right.weight);
            if before + step > index {
                return between(left, right, index - before, before + step - index);
            }
            before += step;
        }
        let z1 = index - total - last.weight / 2.0;
        weighted_mean(last.mean, z1, self.max, last.weight / 2.0 - z1)
    }

    /// Estimates the share of numbers up to this one, half of its own included.
    pub fn cdf(&self, number: f64) -> f64 {
        let nodes = &self.nodes[..self.merged];
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return f64::NAN };
        if number < self.min {
            return 0.0;
        }
        if number > self.max {
            return 1.0;
        }
        if nodes.len() == 1 {
            let width = self.max - self.min;
            let from = number - self.min;
            return if from <= width { 0.5 } else { from / width };
        }
        if number < first.mean {
            return self.share_outside(number - self.min, first.mean - self.min, first.weight);
        }
        if number > last.mean {
            let width = self.max - last.mean;
            return 1.0 - self.share_outside(self.max - number, width, last.weight);
        }
        self.share_inside(number)
    }

    /// The share of numbers between an end and a distance from it, where a node of this weight is
    /// `width` away.
    fn share_outside(&self, distance: f64, width: f64, weight: f64) -> f64 {
        if width <= 0.0 {
            return 0.0;
        }
        if distance == 0.0 {
            return 0.5 / self.merged_weight;
        }
        (1.0 + distance / width * (weight / 2.0 - 1.0)) / self.merged_weight
    }

    /// The share of numbers up to one between the first and the last mean.
    fn share_inside(&self, number: f64) -> f64 {
        let (nodes, total) = (&self.nodes[..self.merged], self.merged_weight);
        let mut before = 0.0;
        for (i, pair) in nodes.windows(2).enumerate() {
            let (left, right) = (pair[0], pair[1]);
            if left.mean == number {
                let equal = nodes[i..].iter().take_while(|node| node.mean == number);
                let weight: f64 = equal.map(|node| node.weight).sum();
                return (before + weight / 2.0) / total;
            }
            if left.mean <= number && number < right.mean {
                if left.weight == 1.0 && right.weight == 1.0 {
                    return (before + 1.0) / total;
                }
                let left_excluded = if left.weight == 1.0 { 0.5 } else { 0.0 };
                let right_excluded = if right.weight == 1.0 { 0.5 } else { 0.0 };
                let step = f64::midpoint(left.weight, right.weight);
                let step = step - left_excluded - right_excluded;
                let base = before + left.weight / 2.0 + left_excluded;
                let width = right.mean - left.mean;
                return (base + step * (number - left.mean) / width) / total;
            }
            before += left.weight;
        }
        1.0 - 0.5 / total
    }

    /// Estimates the mean of the numbers between two quantiles.
    pub fn trimmed_mean(&self, low: f64, high: f64) -> f64 {
        let nodes = &self.nodes[..self.merged];
        if let [only] = nodes {
            return only.mean;
        }
        let from = (self.merged_weight * low).floor();
        let to = (self.merged_weight * high).ceil();
        let (mut done, mut sum, mut count) = (0.0, 0.0, 0.0);
        for node in nodes {
            let mut part = node.weight;
            part -= f64::max(0.0, from - done).min(part);
            part = f64::max(0.0, to - done).min(part);
            sum += node.mean * part;
            count += part;
            done += node.weight;
            if done > to {
                break;
            }
        }
        sum / count
    }
}

/// The number between two nodes, at these distances from their middles.
fn between(left: Node, right: Node, from_left: f64, from_right: f64) -> f64 {
    let (mut left_unit, mut right_unit) = (0.0, 0.0);
    if left.weight == 1.0 {
        if from_left < 0.5 {
            return left.mean;
        }
        left_unit = 0.5;
    }
    if right.weight == 1.0 {
        if from_right <= 0.5 {
            return right.mean;
        }
        right_unit = 0.5;
    }
    weighted_mean(left.mean, from_right - right_unit, right.mean, from_left - left_unit)
}

/// The mean of two numbers with weights, which is not beyond them.
fn weighted_mean(x1: f64, w1: f64, x2: f64, w2: f64) -> f64 {
    let mean = (x1 * w1 + x2 * w2) / (w1 + w2);
    let (low, high) = if x1 <= x2 { (x1, x2) } else { (x2, x1) };
    low.max(mean.min(high))
}

#[cfg(test)]
mod tests;
