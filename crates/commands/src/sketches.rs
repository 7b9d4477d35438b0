//! Sketches: approximate answers about sets and streams, compatible with RedisBloom.

pub(crate) mod bloom;
pub(crate) mod count_min;
pub(crate) mod cuckoo;
pub(crate) mod t_digest;
pub(crate) mod top_k;

use crate::long::MOVE_UNITS;
use crate::numbers::double;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Units of a change from which on it is made to a copy, which then replaces the value: others get
/// in meanwhile, and the client may end it. Less is done in place, before others.
const COPIED_FROM: usize = 25 * MOVE_UNITS;

/// Items that a filter is made for at most.
const CAPACITY_MAX: u64 = 1 << 30;

/// Factor of growth of a filter at most.
const EXPANSION_MAX: u32 = 32_768;

/// Factor of growth of a cuckoo filter at most.
const CUCKOO_EXPANSION_MAX: u16 = 32_768;

/// Properties of cuckoo filters that commands make without stating them.
#[derive(Clone, Copy, Debug)]
pub struct CuckooDefaults {
    /// Items for which a filter is made.
    pub capacity: u64,
    /// Fingerprints of a bucket.
    pub bucket_size: u8,
    /// Fingerprints that an item may move.
    pub iterations: u16,
    /// Factor by which each sub-filter is larger than the one before.
    pub expansion: u16,
    /// Sub-filters that a filter has at most.
    pub filters: u32,
}

/// Properties of sketches that commands make without stating them (`CONFIG SET bf-error-rate`).
#[derive(Debug)]
pub struct SketchDefaults {
    /// Bits of a double.
    bloom_error: AtomicU64,
    bloom_entries: AtomicU64,
    bloom_expansion: AtomicU32,
    cuckoo_capacity: AtomicU64,
    cuckoo_bucket_size: AtomicU8,
    cuckoo_iterations: AtomicU16,
    cuckoo_expansion: AtomicU16,
    /// Sub-filters that a cuckoo filter has at most.
    cuckoo_filters: AtomicU32,
}

impl Default for SketchDefaults {
    fn default() -> Self {
        SketchDefaults {
            bloom_error: AtomicU64::new(0.01f64.to_bits()),
            bloom_entries: AtomicU64::new(100),
            bloom_expansion: AtomicU32::new(2),
            cuckoo_capacity: AtomicU64::new(1024),
            cuckoo_bucket_size: AtomicU8::new(2),
            cuckoo_iterations: AtomicU16::new(20),
            cuckoo_expansion: AtomicU16::new(1),
            cuckoo_filters: AtomicU32::new(32),
        }
    }
}

impl SketchDefaults {
    /// Sets error rate, capacity and expansion of Bloom filters.
    pub fn set_bloom(&self, error: f64, entries: u64, expansion: u32) {
        self.bloom_error.store(error.to_bits(), Relaxed);
        self.bloom_entries.store(entries, Relaxed);
        self.bloom_expansion.store(expansion, Relaxed);
    }

    /// Sets the properties of cuckoo filters.
    pub fn set_cuckoo(&self, defaults: CuckooDefaults) {
        self.cuckoo_capacity.store(defaults.capacity, Relaxed);
        self.cuckoo_bucket_size.store(defaults.bucket_size, Relaxed);
        self.cuckoo_iterations.store(defaults.iterations, Relaxed);
        self.cuckoo_expansion.store(defaults.expansion, Relaxed);
        self.cuckoo_filters.store(defaults.filters, Relaxed);
    }
}

/// A number of items for which a filter can be made.
fn capacity(items: i64) -> Option<u64> {
    u64::try_from(items).ok().filter(|items| (1..=CAPACITY_MAX).contains(items))
}

/// Parses an error rate: none if it is no number, an error if it is not within 0 and 1.
fn error_rate(text: &[u8]) -> Option<Result<f64, ()>> {
    double::parse(text).map(|rate| if rate > 0.0 && rate < 1.0 { Ok(rate) } else { Err(()) })
}

/// Formats a number with six significant digits, as `%g` of C.
fn six_digits(x: f64) -> String {
    const DIGITS: i32 = 6;
    let text = format!("{x:.*e}", DIGITS as usize - 1);
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let shorten = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        return shorten(&format!("{x:.*}", (DIGITS - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", shorten(mantissa), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits() {
        for (number, text) in [
            (0.005, "0.005"),
            (0.000625, "0.000625"),
            (0.00001234567, "1.23457e-05"),
            (4.94065645841247e-323, "4.94066e-323"),
            (0.25, "0.25"),
            (0.9999999, "1"),
            (123456789.0, "1.23457e+08"),
        ] {
            assert_eq!(six_digits(number), text);
        }
    }
}
