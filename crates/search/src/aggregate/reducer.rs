//! Reducers: functions of the rows of a group.

use crate::aggregate::value::{Value, parse_number};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::mem::size_of;

/// Largest sample of `RANDOM_SAMPLE`.
const SAMPLE_MAX: usize = 1000;
/// Distinct values that are counted exactly by `COUNT_DISTINCTISH`.
const EXACT_MAX: usize = 512;
/// Bits of a hash that choose a register: a standard error of 0.8 %.
const REGISTER_BITS: u32 = 14;

/// A reducer with its arguments resolved to slots.
#[derive(Clone, Debug)]
pub(super) struct Reducer {
    pub kind: Kind,
    /// Slot of the property; none for `COUNT`.
    pub slot: usize,
}

/// Kinds of reducers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Count,
    CountDistinct,
    CountDistinctish,
    Sum,
    Min,
    Max,
    Avg,
    StdDev,
    Quantile(f64),
    ToList,
    /// The slot to order by, and whether the highest is first.
    FirstValue(Option<(usize, bool)>),
    RandomSample(usize),
}

/// Arguments of a reducer, as they were written.
pub(super) struct Words<'w> {
    function: &'w [u8],
    words: &'w [&'w [u8]],
    at: usize,
}

impl<'w> Words<'w> {
    fn next(&mut self) -> Option<&'w [u8]> {
        let word = *self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    fn missing(&self, name: &str) -> Vec<u8> {
        format!("Bad arguments for {name}: Expected an argument, but none provided").into_bytes()
    }

    fn unknown(&self) -> Vec<u8> {
        let word = self.words[self.at - 1];
        let place = (self.at - 1).to_string();
        let parts: [&[u8]; 6] = [
            b"Unknown argument `",
            word,
            b"` at position ",
            place.as_bytes(),
            b" for ",
            self.function,
        ];
        parts.concat()
    }
}

/// Returns the slot of a property, or an error for the user.
type Properties<'p> = &'p mut dyn FnMut(&[u8]) -> Result<usize, Vec<u8>>;

/// Resolves a reducer. `property` returns the slot of a name.
///
/// # Errors
/// A text for the user.
pub(super) fn resolve(
    function: &[u8],
    arguments: &[&[u8]],
    property: Properties<'_>,
) -> Result<Reducer, Vec<u8>> {
    let upper = function.to_ascii_uppercase();
    let mut words = Words { function: &upper, words: arguments, at: 0 };
    let kind = match &upper[..] {
        b"COUNT" => {
            return match arguments.is_empty() {
                true => Ok(Reducer { kind: Kind::Count, slot: 0 }),
                false => Err(b"Count accepts 0 values only".to_vec()),
            };
        }
        b"COUNT_DISTINCT" => Kind::CountDistinct,
        b"COUNT_DISTINCTISH" => Kind::CountDistinctish,
        b"SUM" => Kind::Sum,
        b"MIN" => Kind::Min,
        b"MAX" => Kind::Max,
        b"AVG" => Kind::Avg,
        b"STDDEV" => Kind::StdDev,
        b"QUANTILE" => Kind::Quantile(0.0),
        b"TOLIST" => Kind::ToList,
        b"FIRST_VALUE" => Kind::FirstValue(None),
        b"RANDOM_SAMPLE" => Kind::RandomSample(0),
        _ => return Err([b"No such reducer: ", function].concat()),
    };
    let missing = || [b"Missing arguments for ", function].concat();
    let slot = property(words.next().ok_or_else(missing)?)?;
    let kind = match kind {
        Kind::Quantile(_) => quantile(&mut words)?,
        Kind::RandomSample(_) => sample(&mut words)?,
        Kind::FirstValue(_) => first_value(&mut words, property)?,
        // Further properties are ignored.
        other => other,
    };
    Ok(Reducer { kind, slot })
}

fn quantile(words: &mut Words<'_>) -> Result<Kind, Vec<u8>> {
    let word = words.next().ok_or_else(|| words.missing("QUANTILE"))?;
    let bad = b"Bad arguments for QUANTILE: Could not convert argument to expected type";
    let share = Some(word).filter(|word| !word.is_empty()).and_then(parse_number);
    let share = share.filter(|share| !share.is_nan()).ok_or(bad.to_vec())?;
    if !(0.0..=1.0).contains(&share) {
        return Err(b"Percentage must be between 0.0 and 1.0".to_vec());
    }
    if let Some(word) = words.next() {
        let text = std::str::from_utf8(word).ok();
        let resolution = text.and_then(|text| text.parse::<i64>().ok());
        let resolution = resolution.ok_or(
            b"Bad arguments for <resolution>: Could not convert argument to expected type".to_vec(),
        )?;
        // Quantiles are exact, so the resolution has no effect.
        if resolution < 1 {
            return Err(b"Invalid resolution".to_vec());
        }
    }
    match words.next() {
        Some(_) => Err(words.unknown()),
        None => Ok(Kind::Quantile(share)),
    }
}

fn sample(words: &mut Words<'_>) -> Result<Kind, Vec<u8>> {
    let word = words.next().ok_or_else(|| words.missing("<sample size>"))?;
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
    let number = number.ok_or(
        b"Bad arguments for <sample size>: Could not convert argument to expected type".to_vec(),
    )?;
    match usize::try_from(number) {
        Ok(size) if size <= SAMPLE_MAX => Ok(Kind::RandomSample(size)),
        Ok(_) => Err(b"Sample size too large".to_vec()),
        Err(_) => {
            Err(b"Bad arguments for <sample size>: Value is outside acceptable bounds".to_vec())
        }
    }
}

fn first_value(words: &mut Words<'_>, property: Properties<'_>) -> Result<Kind, Vec<u8>> {
    match words.next() {
        None => return Ok(Kind::FirstValue(None)),
        Some(word) if !word.eq_ignore_ascii_case(b"BY") => return Err(words.unknown()),
        Some(_) => {}
    }
    let name = words.next().ok_or_else(|| b"Missing arguments for FIRST_VALUE".to_vec())?;
    let slot = property(name)?;
    let is_descending = match words.next() {
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"ASC") => false,
        Some(word) if word.eq_ignore_ascii_case(b"DESC") => true,
        Some(_) => return Err(words.unknown()),
    };
    match words.next() {
        Some(_) => Err(words.unknown()),
        None => Ok(Kind::FirstValue(Some((slot, is_descending)))),
    }
}

/// Hashes values, so that chosen values do not collide.
#[derive(Clone, Debug, Default)]
pub(super) struct Hasher {
    state: RandomState,
    scratch: Vec<u8>,
    random: u64,
}

impl Hasher {
    fn hash(&mut self, value: &Value) -> u64 {
        self.scratch.clear();
        value.encode(&mut self.scratch);
        self.state.hash_one(&self.scratch)
    }

    fn random_below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(1);
        self.state.hash_one(self.random) % bound.max(1)
    }
}

/// State of a reducer in a group.
#[derive(Debug)]
pub(super) enum State {
    Count(u64),
    Distinct(HashSet<u64>),
    Registers(Box<[u8]>),
    Sum(f64),
    /// The least or the greatest number.
    Extreme(Option<f64>),
    Average {
        sum: f64,
        rows: u64,
    },
    /// Number, mean and sum of squared differences (Welford).
    Deviation {
        count: u64,
        mean: f64,
        squares: f64,
    },
    Numbers(Vec<f64>),
    List {
        seen: HashSet<u64>,
        items: Vec<Value>,
    },
    First(Option<(Option<Value>, Option<Value>)>),
    Sample {
        seen: u64,
        items: Vec<Value>,
    },
}

impl State {
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Count => State::Count(0),
            Kind::CountDistinct | Kind::CountDistinctish => State::Distinct(HashSet::new()),
            Kind::Sum => State::Sum(0.0),
            Kind::Min | Kind::Max => State::Extreme(None),
            Kind::Avg => State::Average { sum: 0.0, rows: 0 },
            Kind::StdDev => State::Deviation { count: 0, mean: 0.0, squares: 0.0 },
            Kind::Quantile(_) => State::Numbers(Vec::new()),
            Kind::ToList => State::List { seen: HashSet::new(), items: Vec::new() },
            Kind::FirstValue(_) => State::First(None),
            Kind::RandomSample(_) => State::Sample { seen: 0, items: Vec::new() },
        }
    }

    /// Adds a row; returns the growth in bytes.
    pub fn add(&mut self, reducer: &Reducer, row: &[Option<Value>], hasher: &mut Hasher) -> usize {
        let value = row.get(reducer.slot).and_then(Option::as_ref);
        let number = value.and_then(Value::number);
        match self {
            State::Count(count) => *count += 1,
            State::Sum(sum) => *sum += number.unwrap_or(0.0),
            State::Average { sum, rows } => {
                *sum += number.unwrap_or(0.0);
                *rows += 1;
            }
            State::Extreme(extreme) => {
                if let Some(number) = number {
                    *extreme = Some(match *extreme {
                        None => number,
                        Some(other) if reducer.kind == Kind::Min => other.min(number),
                        Some(other) => other.max(number),
                    });
                }
            }
            State::Deviation { count, mean, squares } => {
                if let Some(number) = number {
                    *count += 1;
                    let difference = number - *mean;
                    *mean += difference / *count as f64;
                    *squares += difference * (number - *mean);
                }
            }
            State::Numbers(numbers) => {
                if let Some(number) = number {
                    numbers.push(number);
                    return size_of::<f64>();
                }
            }
            State::First(first) => return add_first(first, reducer.kind, value, row),
            State::Distinct(_)
            | State::Registers(_)
            | State::List { .. }
            | State::Sample { .. } => {
                return value.map_or(0, |value| self.add_value(reducer.kind, value, hasher));
            }
        }
        0
    }

    fn add_value(&mut self, kind: Kind, value: &Value, hasher: &mut Hasher) -> usize {
        if *value == Value::Null && matches!(self, State::Distinct(_) | State::Registers(_)) {
            return 0;
        }
        // A set has a byte beside each value, and free places.
        const SET_BYTES: usize = 18;
        match self {
            State::Distinct(seen) => {
                let is_new = seen.insert(hasher.hash(value));
                if kind == Kind::CountDistinctish && seen.len() > EXACT_MAX {
                    let mut registers = vec![0u8; 1 << REGISTER_BITS].into_boxed_slice();
                    seen.iter().for_each(|&hash| note_hash(&mut registers, hash));
                    *self = State::Registers(registers);
                    return 1 << REGISTER_BITS;
                }
                if is_new { SET_BYTES } else { 0 }
            }
            State::Registers(registers) => {
                note_hash(registers, hasher.hash(value));
                0
            }
            State::List { seen, items } => match seen.insert(hasher.hash(value)) {
                true => {
                    items.push(value.clone());
                    SET_BYTES + size_of::<Value>() + value.footprint()
                }
                false => 0,
            },
            State::Sample { seen, items } => {
                let Kind::RandomSample(size) = kind else { return 0 };
                *seen += 1;
                if items.len() < size {
                    items.push(value.clone());
                    return size_of::<Value>() + value.footprint();
                }
                let at = hasher.random_below(*seen) as usize;
                match items.get_mut(at) {
                    Some(item) => {
                        *item = value.clone();
                        value.footprint()
                    }
                    None => 0,
                }
            }
            _ => 0,
        }
    }

    /// The result.
    pub fn finish(self, kind: Kind) -> Value {
        match self {
            State::Count(count) => Value::Number(count as f64),
            State::Distinct(seen) => Value::Number(seen.len() as f64),
            State::Registers(registers) => Value::Number(estimate(&registers)),
            State::Sum(sum) => Value::Number(sum),
            State::Extreme(extreme) => Value::Number(extreme.unwrap_or(0.0)),
            State::Average { sum, rows } => {
                Value::Number(if rows == 0 { 0.0 } else { sum / rows as f64 })
            }
            State::Deviation { count, squares, .. } => Value::Number(match count {
                0 | 1 => 0.0,
                _ => (squares / (count - 1) as f64).sqrt(),
            }),
            State::Numbers(numbers) => {
                let Kind::Quantile(share) = kind else { return Value::Null };
                Value::Number(nth(numbers, share))
            }
            State::List { items, .. } | State::Sample { items, .. } => Value::Array(items.into()),
            State::First(first) => first.and_then(|(value, _)| value).unwrap_or(Value::Null),
        }
    }
}

fn add_first(
    first: &mut Option<(Option<Value>, Option<Value>)>,
    kind: Kind,
    value: Option<&Value>,
    row: &[Option<Value>],
) -> usize {
    let Kind::FirstValue(by) = kind else { return 0 };
    let Some((slot, is_descending)) = by else {
        if first.is_none() {
            *first = Some((value.cloned(), None));
            return value.map_or(0, Value::footprint);
        }
        return 0;
    };
    let Some(value) = value else { return 0 };
    let by = row.get(slot).and_then(Option::as_ref);
    let is_better = match first {
        None => true,
        Some((_, best)) => {
            match (by, best) {
                (Some(by), Some(best)) => {
                    let order = by.order(best);
                    (if is_descending { order.reverse() } else { order }).is_lt()
                }
                (None, None) => false,
                // As in Redis: beside a missing value the later row wins, or the earlier one.
                _ => !is_descending,
            }
        }
    };
    if is_better {
        *first = Some((Some(value.clone()), by.cloned()));
        return value.footprint() + by.map_or(0, Value::footprint);
    }
    0
}

/// The value of a rank: the least of which this share is not above it.
fn nth(mut numbers: Vec<f64>, share: f64) -> f64 {
    if numbers.is_empty() {
        return 0.0;
    }
    let rank = (share * numbers.len() as f64).ceil() as usize;
    let at = rank.clamp(1, numbers.len()) - 1;
    *numbers.select_nth_unstable_by(at, f64::total_cmp).1
}

fn note_hash(registers: &mut [u8], hash: u64) {
    let at = (hash >> (64 - REGISTER_BITS)) as usize;
    let rank = ((hash << REGISTER_BITS) | 1 << (REGISTER_BITS - 1)).leading_zeros() as u8 + 1;
    registers[at] = registers[at].max(rank);
}

/// Number of distinct values (HyperLogLog, with linear counting of few).
fn estimate(registers: &[u8]) -> f64 {
    let count = registers.len() as f64;
    let sum: f64 = registers.iter().map(|&rank| (-f64::from(rank)).exp2()).sum();
    let zeros = registers.iter().filter(|&&rank| rank == 0).count();
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    let linear = raw <= 2.5 * count && zeros > 0;
    (if linear { count * (count / zeros as f64).ln() } else { raw }).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_distinct_values_are_estimated_closely() {
        let reducer = Reducer { kind: Kind::CountDistinctish, slot: 0 };
        for count in [500usize, 5_000, 50_000] {
            let (mut state, mut hasher) = (State::new(reducer.kind), Hasher::default());
            for number in 0..count * 2 {
                let row = [Some(Value::Number((number % count) as f64))];
                state.add(&reducer, &row, &mut hasher);
            }
            let estimate = state.finish(reducer.kind).number().expect("a number");
            assert!((estimate / count as f64 - 1.0).abs() < 0.05, "{estimate} of {count}");
        }
    }

    #[test]
    fn quantiles_are_ranks() {
        let numbers: Vec<f64> = (0..10).map(f64::from).collect();
        let cases = [(0.0, 0.0), (0.1, 0.0), (0.11, 1.0), (0.5, 4.0), (0.9, 8.0), (1.0, 9.0)];
        for (share, value) in cases {
            assert_eq!(nth(numbers.clone(), share), value);
        }
    }
}
