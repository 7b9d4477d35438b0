//! String format of a HyperLogLog:
//!
//! ```text
//!  0      4          5        8               16
//! +------+----------+--------+---------------+-----------
//! | HYLL | encoding | unused | count, little | registers
//! |      | 0 dense  | (zero) | endian, top   | (dense.rs,
//! |      | 1 sparse |        | bit: stale    | sparse.rs)
//! +------+----------+--------+---------------+-----------
//! ```
//!
//! The format is Redis's byte for byte, so strings can be exchanged in both directions.

use super::estimate::Histogram;
use super::sparse::{self, Corrupted, Raised, RunPosition};
use super::{dense, murmur};
use crate::fail::Fail;

/// Number of registers of a sketch. The low 14 bits of an element's hash choose one.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// The highest rank of an element.
pub(super) const RANK_MAX: u8 = 64 - INDEX_BITS as u8 + 1;
/// Offset of the registers.
pub(super) const HEADER: usize = 16;
/// Offset of the cached count.
pub(super) const COUNT_AT: usize = 8;
/// Offset of the byte of the count that contains the stale bit.
pub(super) const STALE_AT: usize = 15;
/// Bit that marks the cached count as stale.
pub(super) const STALE: u8 = 0x80;

const INDEX_BITS: usize = 14;
const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const SEED: u64 = 0xadc8_3b19;

/// A byte per register.
pub(super) type Registers = [u8; REGISTERS];

/// Encoding of the registers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    Dense,
    Sparse,
}

/// The register of an element, and the rank to raise it to.
pub(super) fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur::hash(element, SEED);
    let rest = hash >> INDEX_BITS | 1 << (64 - INDEX_BITS);
    (hash as usize % REGISTERS, rest.trailing_zeros() as u8 + 1)
}

/// A string with a valid header of a sketch. The runs of a sparse one have not been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sketch<'a> {
    bytes: &'a [u8],
    pub form: Form,
}

impl<'a> Sketch<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Self, Fail> {
        let form = match bytes.get(ENCODING_AT) {
            Some(&DENSE) if bytes.len() == HEADER + dense::LEN => Some(Form::Dense),
            Some(&SPARSE) if bytes.len() >= HEADER => Some(Form::Sparse),
            _ => None,
        };
        let form = form.filter(|_| bytes.starts_with(MAGIC));
        Ok(Sketch { bytes, form: form.ok_or(NOT_A_SKETCH)? })
    }

    /// The encoded registers.
    pub fn registers(self) -> &'a [u8] {
        &self.bytes[HEADER..]
    }

    /// Whether the cached count is stale.
    pub fn is_stale(self) -> bool {
        self.bytes[STALE_AT] & STALE != 0
    }

    /// The cached count, unless it is stale.
    pub fn count(self) -> Option<u64> {
        let (count, _) = self.bytes[COUNT_AT..].split_first_chunk()?;
        (!self.is_stale()).then(|| u64::from_le_bytes(*count))
    }

    /// The value of a register.
    pub fn register(self, register: usize) -> Result<u8, Fail> {
        match self.form {
            Form::Dense => Ok(dense::get(self.registers(), register)),
            Form::Sparse => Ok(sparse::get(self.registers(), register)?),
        }
    }

    /// Raises each of `registers` to its value here if that is higher.
    pub fn raise(self, registers: &mut Registers) -> Result<(), Fail> {
        match self.form {
            Form::Dense => dense::raise(registers, self.registers()),
            Form::Sparse => sparse::raise_all(registers, self.registers())?,
        }
        Ok(())
    }

    /// Number of registers with each value.
    pub fn histogram(self) -> Result<Histogram, Fail> {
        if self.form == Form::Dense {
            let mut registers = [0; REGISTERS];
            self.raise(&mut registers)?;
            return Ok(histogram(&registers));
        }
        sparse::check(self.registers())?;
        let mut histogram = [0; 64];
        for run in sparse::runs(self.registers()) {
            histogram[usize::from(run.value)] += run.len as u32;
        }
        Ok(histogram)
    }
}

/// Number of registers with each value; all values are below 64.
pub(super) fn histogram(registers: &Registers) -> Histogram {
    // Four counters for each value, so that equal neighbours do not wait for each other.
    let mut quarters = [[0u32; 64]; 4];
    let (fours, _) = registers.as_chunks::<4>();
    for four in fours {
        for (quarter, value) in quarters.iter_mut().zip(four) {
            quarter[usize::from(value % 64)] += 1;
        }
    }
    std::array::from_fn(|value| quarters.iter().map(|quarter| quarter[value]).sum())
}

/// The string of a sketch while it is changed.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    bytes: Vec<u8>,
    /// Position of the last search in a sparse sketch.
    place: RunPosition,
}

impl Draft {
    /// The empty sketch.
    pub fn empty() -> Self {
        let mut bytes = Vec::with_capacity(HEADER + sparse::EMPTY.len() + GROWTH);
        bytes.extend_from_slice(MAGIC);
        bytes.resize(HEADER, 0);
        bytes[ENCODING_AT] = SPARSE;
        bytes.extend_from_slice(&sparse::EMPTY);
        Draft { bytes, place: RunPosition::default() }
    }

    pub fn of(sketch: Sketch<'_>) -> Self {
        let mut bytes = Vec::with_capacity(sketch.bytes.len() + GROWTH);
        bytes.extend_from_slice(sketch.bytes);
        Draft { bytes, place: RunPosition::default() }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn sketch(&self) -> Sketch<'_> {
        let form = if self.bytes[ENCODING_AT] == DENSE { Form::Dense } else { Form::Sparse };
        Sketch { bytes: &self.bytes, form }
    }

    /// Marks the cached count as stale.
    pub fn make_stale(&mut self) {
        self.bytes[STALE_AT] |= STALE;
    }

    /// Raises a register to `rank` and returns true, if it is lower. If a sparse sketch of at most
    /// `sparse_max` bytes cannot hold the value, the sketch becomes dense.
    pub fn raise(&mut self, register: usize, rank: u8, sparse_max: usize) -> Result<bool, Fail> {
        if self.sketch().form == Form::Sparse {
            let Draft { bytes, place } = self;
            match sparse::raise(bytes, HEADER, place, register, rank, sparse_max)? {
                Raised::Not => return Ok(false),
                Raised::Done => return Ok(true),
                Raised::Refused => self.make_dense()?,
            }
        }
        let packed = &mut self.bytes[HEADER..];
        if dense::get(packed, register) >= rank {
            return Ok(false);
        }
        let (at, patch, len) = dense::patch(packed, register, rank);
        packed[at..at + len].copy_from_slice(&patch[..len]);
        Ok(true)
    }

    /// Converts the registers to the dense encoding.
    pub fn make_dense(&mut self) -> Result<(), Fail> {
        if self.sketch().form == Form::Sparse {
            let mut registers = [0; REGISTERS];
            self.sketch().raise(&mut registers)?;
            self.set_dense(&registers);
        }
        Ok(())
    }

    /// Replaces the registers, in the dense encoding.
    pub fn set_dense(&mut self, registers: &Registers) {
        self.bytes[ENCODING_AT] = DENSE;
        self.bytes.truncate(HEADER);
        self.bytes.extend_from_slice(&dense::pack(registers));
    }
}

/// Maximum number of bytes by which raising one register lengthens a sparse sketch.
const GROWTH: usize = 4;

const NOT_A_SKETCH: Fail = Fail::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");

impl From<Corrupted> for Fail {
    fn from(_: Corrupted) -> Self {
        Fail::fixed("INVALIDOBJ Corrupted HLL object detected")
    }
}

#[cfg(test)]
mod tests {
    use super::super::estimate::estimate;
    use super::*;

    #[test]
    fn strings_that_are_no_sketches_are_told() {
        let empty = Draft::empty().into_bytes();
        assert_eq!(empty, b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
        assert_eq!(Sketch::read(&empty).unwrap().count(), Some(0));
        for (at, byte) in [(0, b'h'), (4, 2), (4, 0)] {
            let mut bytes = empty.clone();
            bytes[at] = byte;
            assert_eq!(Sketch::read(&bytes).err(), Some(NOT_A_SKETCH));
        }
        assert_eq!(Sketch::read(&empty[..15]).err(), Some(NOT_A_SKETCH));
        assert!(Sketch::read(&empty[..16]).unwrap().histogram().is_err());
    }

    #[test]
    fn both_forms_count_alike_and_nearly_right() {
        let (mut sparse, mut dense) = (Draft::empty(), Draft::empty());
        dense.make_dense().unwrap();
        for n in 1..=40_000u64 {
            let (register, rank) = place(&n.to_le_bytes());
            let raised = sparse.raise(register, rank, 3000).unwrap();
            assert_eq!(dense.raise(register, rank, 0).unwrap(), raised);
            if n % 5000 == 0 || n == 100 {
                let count = estimate(&sparse.sketch().histogram().unwrap());
                assert_eq!(estimate(&dense.sketch().histogram().unwrap()), count);
                assert!(count.abs_diff(n) * 40 < n, "{count} for {n}");
            }
        }
        assert_eq!(sparse.bytes(), dense.bytes());
    }
}
