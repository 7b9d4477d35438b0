//! Requests of a trace, and their statistics.

use std::collections::HashMap;

/// Request of a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// Microseconds since the beginning of the trace.
    pub at_us: u64,
    /// Number of the object.
    pub object: u64,
    /// Length of its value in bytes.
    pub size: u32,
    /// Length of its key in bytes, at least [`KEY_SIZE_MIN`].
    pub key_size: u16,
    /// Action on the object.
    pub action: Action,
    /// Seconds that a stored value lives, 0 for ever.
    pub ttl_s: u32,
}

/// Number of hexadecimal digits of an object in a key, at least.
pub const KEY_SIZE_MIN: u16 = 16;

/// Keys are no longer than this, so that a damaged file asks for nothing absurd.
pub const KEY_SIZE_MAX: u16 = 4096;

/// Action of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// GET; where it misses, the value is stored as a user of a cache would.
    Get,
    /// SET.
    Set,
    /// DEL.
    Delete,
}

/// Statistics of a trace before it is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Requests.
    pub requests: u64,
    /// Different objects.
    pub objects: u64,
    /// Sum of the largest size of each object, bytes.
    pub working_set: u64,
}

impl Statistics {
    /// Counts a whole trace.
    pub fn of(trace: &[Request]) -> Statistics {
        let mut sizes: HashMap<u64, u32> = HashMap::new();
        for request in trace {
            let size = sizes.entry(request.object).or_default();
            *size = (*size).max(request.size);
        }
        Statistics {
            requests: trace.len() as u64,
            objects: sizes.len() as u64,
            working_set: sizes.values().map(|size| u64::from(*size)).sum(),
        }
    }
}

/// Makes times begin at zero and never decrease, and spreads requests of the same time evenly up to
/// the next one: files give whole seconds.
pub fn spread_times(trace: &mut [Request]) {
    let first = trace.first().map_or(0, |request| request.at_us);
    let mut latest = 0;
    for request in trace.iter_mut() {
        latest = latest.max(request.at_us.saturating_sub(first));
        request.at_us = latest;
    }
    let mut begin = 0;
    while begin < trace.len() {
        let at = trace[begin].at_us;
        let same = trace[begin..].iter().take_while(|request| request.at_us == at).count();
        if let Some(next) = trace.get(begin + same).map(|request| request.at_us) {
            // A gap of hours is no reason to spread a second's requests over it.
            let room = (next - at).min(1_000_000);
            for (number, request) in trace[begin..begin + same].iter_mut().enumerate() {
                request.at_us = at + room * number as u64 / same as u64;
            }
        }
        begin += same;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_and_never_go_back() {
        let request = |at_s: u64| Request {
            at_us: at_s * 1_000_000,
            object: at_s,
            size: 10,
            key_size: KEY_SIZE_MIN,
            action: Action::Get,
            ttl_s: 0,
        };
        let mut trace = [7, 7, 6, 8, 8, 100].map(request);
        spread_times(&mut trace);
        let times = trace.map(|request| request.at_us / 1000);
        assert_eq!(times, [0, 333, 666, 1000, 1500, 93_000]);
        let statistics = Statistics::of(&trace);
        assert_eq!((statistics.requests, statistics.objects, statistics.working_set), (6, 4, 40));
    }
}
