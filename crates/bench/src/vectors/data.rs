//! Vectors, queries that are not among them, and the nearest of each by brute force.

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, thread};

use crate::cache;
use crate::experiment::axis_values;
use crate::random::{Random, mix};
use crate::sys::{self, joined};

/// Neighbours of a query.
pub const NEAREST: usize = 10;

/// Program that makes vectors of texts.
const TEXTS: &str = include_str!("../../../../bench/python/texts.py");

/// Vectors of a cluster, and their scatter as a share of that of the centres.
const CLUSTER: usize = 200;
const SCATTER: f32 = 0.6;

/// The seed of all that is drawn.
const SEED: u64 = 1;

/// Source of vectors.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// Latent semantic analysis of paragraphs.
    Texts,
    /// Gaussians around Gaussian centres.
    Clusters,
}

axis_values!(Kind: Texts "texts", Clusters "clusters");

/// Number and kind of vectors.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Shape {
    /// Source.
    pub kind: Kind,
    /// Dimensions.
    pub dim: usize,
    /// Vectors that are loaded.
    pub count: usize,
    /// Queries.
    pub queries: usize,
    /// Vectors to be inserted later.
    pub spare: usize,
}

impl Shape {
    fn rows(&self) -> usize {
        self.count + self.queries + self.spare
    }
}

/// Elements that pass a filter: their attribute `n` is below a number of per cent.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Share(pub u8);

impl Share {
    /// No filter.
    pub const ALL: Share = Share(100);
    /// Filters that are measured.
    pub const FILTERED: [Share; 3] = [Share(1), Share(10), Share(50)];

    /// Whether the element of a number passes.
    pub fn has(self, number: usize) -> bool {
        attribute(number) < self.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter {} %", self.0)
    }
}

impl FromStr for Share {
    type Err = ();

    fn from_str(text: &str) -> Result<Share, ()> {
        let percent = text.strip_prefix("filter ").and_then(|text| text.strip_suffix(" %"));
        percent.and_then(|text| text.parse().ok()).map(Share).ok_or(())
    }
}

/// The attribute `n` of the element of a number, below 100.
pub fn attribute(number: usize) -> u8 {
    (mix(number as u64) % 100) as u8
}

/// Vectors by their shape, each made once, and the sources of vectors of texts.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    made: Arc<Mutex<HashMap<Shape, Arc<Data>>>>,
    provenance: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Sets {
    /// Returns the vectors of a shape, made at the first call.
    pub fn of(&self, shape: &Shape, python: &Path) -> Result<Arc<Data>, String> {
        let mut sets = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(data) = sets.get(shape) {
            return Ok(data.clone());
        }
        let data = Arc::new(Data::new(*shape, python)?);
        if shape.kind == Kind::Texts {
            let said = fs::read_to_string(data.file.with_extension("json")).unwrap_or_default();
            let mut all = self.provenance.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(format!("{} rows", shape.rows()), said.trim().replace('"', ""));
        }
        sets.insert(*shape, data.clone());
        Ok(data)
    }

    /// Describes the texts of the vectors.
    pub fn provenance(&self) -> String {
        let said = self.provenance.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> =
            said.iter().map(|(name, text)| format!("{name}: {text}")).collect();
        lines.join("; ")
    }
}

/// Vectors, and the nearest of each query.
#[derive(Debug)]
pub struct Data {
    /// Number and kind.
    pub shape: Shape,
    /// File of rows of 32-bit floats: the loaded, the queries, those inserted later.
    pub file: PathBuf,
    /// The file, a row after the other.
    bytes: Vec<u8>,
    nearest: HashMap<Share, Vec<Vec<u32>>>,
}

impl Data {
    fn new(shape: Shape, python: &Path) -> Result<Data, String> {
        let name = format!("{}-{}-{}.f32", shape.kind, shape.rows(), shape.dim);
        let file = cache::directory().join("vectors").join(name);
        let length = shape.rows() * shape.dim * 4;
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        let is_there = fs::metadata(&file).is_ok_and(|is| is.len() == length as u64);
        if !is_there {
            cache::make_room_for(&file).map_err(failed)?;
            match shape.kind {
                Kind::Texts => make_of_texts(&shape, &file, python)?,
                Kind::Clusters => cache::write(&file, &clusters(&shape)).map_err(failed)?,
            }
        }
        let bytes = fs::read(&file).map_err(failed)?;
        if bytes.len() != length {
            return Err(format!("{} has {} bytes, not {length}", file.display(), bytes.len()));
        }
        let mut data = Data { shape, file, bytes, nearest: HashMap::new() };
        data.nearest = data.look_at_all();
        Ok(data)
    }

    /// The bytes of a row.
    pub fn row(&self, row: usize) -> &[u8] {
        &self.bytes[4 * row * self.shape.dim..4 * (row + 1) * self.shape.dim]
    }

    /// The bytes of a query.
    pub fn query(&self, query: usize) -> &[u8] {
        self.row(self.shape.count + query)
    }

    /// The bytes of a vector that is inserted later.
    pub fn spare(&self, number: usize) -> &[u8] {
        self.row(self.shape.count + self.shape.queries + number)
    }

    /// Share of the nearest that was found.
    pub fn recall(&self, share: Share, found: &[Vec<i64>]) -> f64 {
        let nearest = &self.nearest[&share];
        let pairs = found.iter().zip(nearest);
        let hit = |found: &[i64], nearest: &[u32]| {
            nearest.iter().filter(|number| found.contains(&i64::from(**number))).count()
        };
        let hits: usize = pairs.clone().map(|(found, nearest)| hit(found, nearest)).sum();
        hits as f64 / pairs.map(|(_, nearest)| nearest.len()).sum::<usize>().max(1) as f64
    }

    /// Nearest neighbours of each query, without a filter and with each filter.
    fn look_at_all(&self) -> HashMap<Share, Vec<Vec<u32>>> {
        let shares: Vec<Share> = [Share::ALL].into_iter().chain(Share::FILTERED).collect();
        let rows: Vec<Vec<f32>> = (0..self.shape.count).map(|row| floats(self.row(row))).collect();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let part = self.shape.queries.div_ceil(threads);
        let of_query = |query: usize| {
            let query = floats(self.query(query));
            let mut best = vec![BinaryHeap::new(); shares.len()];
            for (number, row) in rows.iter().enumerate() {
                let far = far(1.0 - dot(&query, row), number);
                for (share, best) in shares.iter().zip(&mut best) {
                    if share.has(number) {
                        keep(best, far);
                    }
                }
            }
            best.into_iter().map(|best| best.into_iter().map(|(_, number)| number).collect())
        };
        let of_part = |begin: usize| {
            let queries = begin..(begin + part).min(self.shape.queries);
            queries.map(|query| of_query(query).collect::<Vec<Vec<u32>>>()).collect::<Vec<_>>()
        };
        let found: Vec<Vec<Vec<u32>>> = thread::scope(|scope| {
            let of_part = &of_part;
            let begins = (0..self.shape.queries).step_by(part);
            let parts: Vec<_> = begins.map(|begin| scope.spawn(move || of_part(begin))).collect();
            parts.into_iter().flat_map(joined).collect()
        });
        let of_share = |at: usize| found.iter().map(|of_query| of_query[at].clone()).collect();
        shares.iter().enumerate().map(|(at, share)| (*share, of_share(at))).collect()
    }
}

/// A vector in the order of distances: the bits of the distance, and its number.
type Far = (u32, u32);

fn far(distance: f32, number: usize) -> Far {
    // Bits of floats from zero on are in the order of the floats; rounding may give less.
    (distance.max(0.0).to_bits(), number as u32)
}

fn keep(best: &mut BinaryHeap<Far>, far: Far) {
    if best.len() < NEAREST {
        best.push(far);
    } else if let Some(mut last) = best.peek_mut()
        && far < *last
    {
        *last = far;
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// In eight sums, so that the compiler takes several at once.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let mut sums = [0f32; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// Lets Python make vectors of the texts that are installed.
fn make_of_texts(shape: &Shape, file: &Path, python: &Path) -> Result<(), String> {
    let failed = |what: &dyn fmt::Display| format!("vectors of texts: {what}");
    let script = cache::directory().join("texts.py");
    cache::write_if_new(&script, TEXTS).map_err(|error| failed(&error))?;
    eprintln!("making {} vectors of texts", shape.rows());
    let mut command = Command::new(python);
    command.arg(&script).arg("--out").arg(file).stdin(Stdio::null());
    command.args(["--count", &shape.rows().to_string(), "--dim", &shape.dim.to_string()]);
    command.args(["--seed", &SEED.to_string()]);
    let output = sys::die_with_parent(&mut command).output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(&said.lines().last().unwrap_or("it said nothing")));
    }
    cache::write(&file.with_extension("json"), &output.stdout).map_err(|error| failed(&error))
}

/// Gaussians around centres that are Gaussian, too, of length 1.
fn clusters(shape: &Shape) -> Vec<u8> {
    let mut random = Random::new(SEED);
    let centres = (shape.rows() / CLUSTER).max(8);
    let centres: Vec<f32> = (0..centres * shape.dim).map(|_| normal(&mut random)).collect();
    let centres: Vec<&[f32]> = centres.chunks(shape.dim).collect();
    let mut bytes = Vec::with_capacity(shape.rows() * shape.dim * 4);
    for _ in 0..shape.rows() {
        let centre = centres[random.below(centres.len() as u64) as usize];
        let row: Vec<f32> = centre.iter().map(|x| x + SCATTER * normal(&mut random)).collect();
        let length = dot(&row, &row).sqrt();
        bytes.extend(row.iter().flat_map(|x| (x / length).to_le_bytes()));
    }
    bytes
}

/// A number of the normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f32 {
    let uniform = |random: &mut Random| ((random.next() >> 40) as f32 + 0.5) / (1u64 << 24) as f32;
    let (radius, angle) = (uniform(random), uniform(random));
    (-2.0 * radius.ln()).sqrt() * (std::f32::consts::TAU * angle).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Data {
        let shape = Shape { kind: Kind::Clusters, dim: 12, count: 1000, queries: 5, spare: 3 };
        let bytes = clusters(&shape);
        let mut data = Data { shape, file: PathBuf::new(), bytes, nearest: HashMap::new() };
        data.nearest = data.look_at_all();
        data
    }

    #[test]
    fn the_nearest_are_those_of_a_sorted_list_of_all() {
        let data = data();
        for share in [Share::ALL, Share(10)] {
            for query in 0..data.shape.queries {
                let of = |row: usize| dot(&floats(data.row(row)), &floats(data.query(query)));
                let mut all: Vec<usize> =
                    (0..data.shape.count).filter(|number| share.has(*number)).collect();
                all.sort_by(|a, b| of(*b).total_cmp(&of(*a)));
                let mut expected: Vec<u32> = all[..NEAREST].iter().map(|n| *n as u32).collect();
                let mut got = data.nearest[&share][query].clone();
                expected.sort_unstable();
                got.sort_unstable();
                assert_eq!(got, expected);
            }
        }
        let found: Vec<Vec<i64>> = data.nearest[&Share::ALL]
            .iter()
            .map(|nearest| nearest.iter().skip(1).map(|n| i64::from(*n)).collect())
            .collect();
        assert!((data.recall(Share::ALL, &found) - 0.9).abs() < 1e-9);
    }

    #[test]
    fn vectors_have_length_1_and_are_the_same_in_every_run() {
        let data = data();
        for row in 0..data.shape.rows() {
            let row = floats(data.row(row));
            assert!((dot(&row, &row) - 1.0).abs() < 1e-5);
        }
        assert_eq!(clusters(&data.shape), data.bytes);
        assert_eq!("filter 10 %".parse(), Ok(Share(10)));
        assert_eq!(Share(10).to_string().parse(), Ok(Share(10)));
        assert!("search 96".parse::<Share>().is_err());
        let passing = (0..100_000).filter(|number| Share(10).has(*number)).count();
        assert!((9_500..10_500).contains(&passing), "{passing}");
    }
}
