//! Hit ratios of the eviction policies on a trace, at equal memory, next to an exact LRU.
//!
//! ```text
//! cargo run --release -p petrel-keyspace --example hit_ratio [TRACE]
//! ```
//!
//! TRACE is a file of the libCacheSim format `oracleGeneral`, decompressed: records of 24 bytes,
//! little-endian, with the time in seconds (u32), the object (u64), its size in bytes (u32) and the
//! index of its next request (i64). Without one, requests are drawn: a Zipf distribution with
//! one-hit wonders and a scan now and then. A miss stores the object, as a look-aside cache does.

use bytes::Bytes;
use petrel_keyspace::{Handle, Keyspace, Options, Policy, Value};
use std::collections::{BTreeMap, HashMap};

/// Memory limits, in permille of the bytes of all objects.
const LIMITS_PERMILLE: [u64; 5] = [10, 50, 100, 200, 400];
const OBJECT_BYTES_MAX: usize = 1 << 20;
/// Values are never read, so all share these bytes.
static ZEROS: [u8; OBJECT_BYTES_MAX] = [0; OBJECT_BYTES_MAX];

#[derive(Clone, Copy)]
struct Request {
    time_s: u32,
    object: u64,
    bytes: usize,
}

fn main() -> std::io::Result<()> {
    let requests = match std::env::args().nth(1) {
        Some(path) => read_trace(&std::fs::read(path)?),
        None => draw_requests(100_000, 1_000_000),
    };
    let sizes: HashMap<u64, usize> = requests.iter().map(|r| (r.object, r.bytes)).collect();
    let total: u64 = sizes.values().map(|bytes| *bytes as u64).sum();
    println!(
        "{} requests of {} objects, {total} bytes; hits in percent",
        requests.len(),
        sizes.len()
    );
    print!("{:18}", "memory, permille");
    LIMITS_PERMILLE.iter().for_each(|permille| print!("{permille:>8}"));
    print_row("exact LRU", &requests, total, exact_lru);
    for policy in Policy::all().filter(|policy| policy.name().starts_with("allkeys")) {
        print_row(policy.name(), &requests, total, |requests, limit| {
            replay(requests, limit, policy)
        });
    }
    println!();
    Ok(())
}

fn print_row(name: &str, requests: &[Request], total: u64, run: impl Fn(&[Request], u64) -> usize) {
    print!("\n{name:18}");
    for permille in LIMITS_PERMILLE {
        let hits = run(requests, total * permille / 1000);
        print!("{:8.2}", hits as f64 * 100.0 / requests.len() as f64);
    }
}

/// Number of requests found in a keyspace with this memory limit.
fn replay(requests: &[Request], limit: u64, policy: Policy) -> usize {
    let keyspace = Keyspace::new(&Options { databases: 1, stripes: 64, seed: 1 });
    keyspace.set_memory_limit(limit, policy);
    let mut handle = keyspace.attach();
    requests.iter().filter(|request| is_hit(&mut handle, request)).count()
}

fn is_hit(handle: &mut Handle, request: &Request) -> bool {
    let key = request.object.to_le_bytes();
    handle.set_clock(i64::from(request.time_s) * 1000);
    let key = handle.key(&key);
    handle.enter();
    handle.lock(key.hash);
    let hit = handle.read(0, key).is_some();
    handle.unlock();
    if !hit && handle.make_room(request.bytes + 64) {
        let value = Bytes::from_static(&ZEROS[..request.bytes]);
        handle.lock(key.hash);
        handle.put(0, key, Value::Blob(value), None);
        handle.unlock();
    }
    handle.exit();
    hit
}

/// Hits of an exact LRU cache of `limit` bytes, which counts no overhead per object.
fn exact_lru(requests: &[Request], limit: u64) -> usize {
    let mut last_use: HashMap<u64, usize> = HashMap::new();
    let mut order: BTreeMap<usize, Request> = BTreeMap::new();
    let (mut used, mut hits) = (0, 0);
    for (now, request) in requests.iter().enumerate() {
        match last_use.insert(request.object, now) {
            Some(last) => {
                hits += 1;
                order.remove(&last);
            }
            None => used += request.bytes as u64,
        }
        order.insert(now, *request);
        while used > limit {
            let Some((_, oldest)) = order.pop_first() else { break };
            last_use.remove(&oldest.object);
            used -= oldest.bytes as u64;
        }
    }
    hits
}

fn read_trace(bytes: &[u8]) -> Vec<Request> {
    let (records, _) = bytes.as_chunks::<24>();
    let requests = records.iter().map(|record| {
        let [a, b, c, d, o0, o1, o2, o3, o4, o5, o6, o7, e, f, g, h, ..] = *record;
        Request {
            time_s: u32::from_le_bytes([a, b, c, d]),
            object: u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            bytes: (u32::from_le_bytes([e, f, g, h]) as usize).min(OBJECT_BYTES_MAX),
        }
    });
    requests.collect()
}

/// Zipf (exponent 0.9) over `objects`, every seventh request a one-hit wonder, and a scan four
/// times.
fn draw_requests(objects: usize, count: usize) -> Vec<Request> {
    let mut sums: Vec<f64> = Vec::with_capacity(objects);
    for rank in 1..=objects {
        sums.push(sums.last().unwrap_or(&0.0) + (rank as f64).powf(-0.9));
    }
    let total = sums[objects - 1];
    let mut state = 1u64;
    let mut draw = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut requests = Vec::with_capacity(count);
    let mut fresh = 1 << 40;
    while requests.len() < count {
        let scan = requests.len() % (count / 4) > count / 4 - objects / 4;
        let object = if scan || draw() < 1.0 / 7.0 {
            fresh += 1;
            fresh
        } else {
            let at = draw() * total;
            sums.partition_point(|sum| *sum < at) as u64
        };
        requests.push(Request { time_s: requests.len() as u32 / 1000, object, bytes: 200 });
    }
    requests
}
