//! Vector sets, as the module that Redis comes with writes them.
//!
//! ```text
//! number of the module's type: nine letters of 6 bits, 10 bits of version (0)
//! dimensions, elements, quantisation | links << 8, flags (1: reduced, 2: attributes)
//! dimensions before reduction, matrix                      if reduced
//! elements, each:
//!   name, [attributes], code
//!   count of the numbers that follow
//!   number, level | 1 << 24
//!   for each level, the lowest first:
//!     links, most links, each link's number, distance of the farthest << 32 | its place
//!   range << 32 | length
//! 0
//! ```
//!
//! A set in our own form (RaBitQ) is of another module, `petrelvec`, which Redis refuses by that
//! name; the seed of its rotation comes behind the flags, and before the dimensions before
//! reduction.
//!
//! Numbers come behind a 2, strings behind a 5; the bits of 32-bit floats stand for them.

use super::length::{read_count, read_number, write_number};
use super::lzf::Compressor;
use super::module::{END, NUMBER, TEXT};
use super::text::{read_text, write_text};
use super::{Error, Item, Shape, Source, ValueSink, Vector, VectorLevel};
use petrel_vector::{EncodedRef, Factors, LEVELS_MAX, Quantisation};

/// The number of the type `vectorset`, version 0.
pub(super) const MODULE: u64 = 0xbde7_2da2_bb1e_b400;
/// The number of the type `petrelvec`, version 0.
pub(super) const MODULE_OWN: u64 = 0xa5eb_6b7a_5bde_7000;

const REDUCED: u64 = 1;
const ATTRIBUTES: u64 = 2;

/// Flag in the level's number: layout of an element's numbers.
const LAYOUT: u64 = 1 << 24;

const HEAD: Error = Error::Malformed("the head of a vector set is broken");
const CODE: Error = Error::Malformed("a code of a vector set stands for no vector");
const NODE: Error = Error::Malformed("an element of a vector set is broken");

/// Reads what comes behind the number of the module's type.
pub(super) fn read<S: Source, K: ValueSink>(
    source: &mut S,
    module: u64,
    sink: &mut K,
) -> Result<(), Error> {
    let is_own = module == MODULE_OWN;
    let mut reader = Reader { source, scratch: Vec::new() };
    let (shape, len, has_attributes) = reader.head(is_own)?;
    sink.begin(Shape::VectorSet { shape, len, has_attributes })?;
    for _ in 0..len {
        reader.element(&shape, has_attributes, sink)?;
    }
    match read_number(reader.source)? {
        END => Ok(()),
        _ => Err(HEAD),
    }
}

struct Reader<'r, S> {
    source: &'r mut S,
    scratch: Vec<u8>,
}

impl<S: Source> Reader<'_, S> {
    fn number(&mut self) -> Result<u64, Error> {
        if read_number(self.source)? != NUMBER {
            return Err(NODE);
        }
        read_number(self.source)
    }

    fn text(&mut self) -> Result<Vec<u8>, Error> {
        if read_number(self.source)? != TEXT {
            return Err(NODE);
        }
        let item = read_text(self.source, &mut self.scratch)?;
        Ok(item.bytes(&mut itoa::Buffer::new()).to_vec())
    }

    fn head(&mut self, is_own: bool) -> Result<(petrel_vector::Shape, usize, bool), Error> {
        let dim = u32::try_from(self.number()?).map_err(|_| HEAD)?;
        let len = usize::try_from(self.number()?).map_err(|_| HEAD)?;
        let kind = self.number()?;
        let flags = self.number()?;
        let mut shape = petrel_vector::Shape {
            dim,
            quantisation: Quantisation::from_number(kind & 0xff).ok_or(HEAD)?,
            links: u16::try_from(kind >> 8).map_err(|_| HEAD)?,
            input_dim: None,
            seed: 0,
        };
        if is_own != (shape.quantisation == Quantisation::RaBitQ) {
            return Err(HEAD);
        }
        if is_own {
            shape.seed = u32::try_from(self.number()?).map_err(|_| HEAD)?;
        }
        if flags & REDUCED != 0 {
            shape.input_dim = Some(u32::try_from(self.number()?).map_err(|_| HEAD)?);
        }
        if !shape.is_valid() || len == 0 || flags > REDUCED | ATTRIBUTES {
            return Err(HEAD);
        }
        if shape.input_dim.is_some() {
            let matrix = self.text()?;
            let cells = matrix.as_chunks::<4>().0.iter().map(|&cell| f32::from_le_bytes(cell));
            let cell_count = shape.dim as usize * shape.dim_given();
            let is_ours = matrix.len() == 4 * cell_count
                && cells.zip(shape.matrix()).all(|(cell, own)| (cell - own).abs() < 1e-6);
            if !is_ours {
                return Err(Error::Unsupported("a vector set is reduced by another matrix"));
            }
        }
        Ok((shape, len, flags & ATTRIBUTES != 0))
    }

    fn element<K: ValueSink>(
        &mut self,
        shape: &petrel_vector::Shape,
        has_attributes: bool,
        sink: &mut K,
    ) -> Result<(), Error> {
        let name = self.text()?;
        let attributes = if has_attributes { self.text()? } else { Vec::new() };
        let code = self.text()?;
        let count = self.count(2)?;
        let mut left = count;
        let number = self.one(&mut left)?;
        let level = self.one(&mut left)?;
        // Without the mark of the layout there is nothing else to be read either.
        let level = usize::try_from(level & (LAYOUT - 1)).map_err(|_| NODE)?;
        if level >= LEVELS_MAX {
            return Err(NODE);
        }
        let mut levels = Vec::with_capacity(level + 1);
        for _ in 0..=level {
            levels.push(self.level(&mut left)?);
        }
        let packed = self.one(&mut left)?;
        if left != 0 {
            return Err(NODE);
        }
        let norm = f32::from_bits(packed as u32);
        let range = f32::from_bits((packed >> 32) as u32);
        let vector = EncodedRef { code: &code, factors: Factors { norm, range } };
        if !shape.admits(vector) {
            return Err(CODE);
        }
        let (name, attributes, levels) = (&name[..], &attributes[..], &levels[..]);
        sink.vector(&Vector { number, name, attributes, vector, levels })
    }

    /// Reads a number of following values, each of `bytes` bytes at least.
    fn count(&mut self, bytes: usize) -> Result<usize, Error> {
        if read_number(self.source)? != NUMBER {
            return Err(NODE);
        }
        read_count(self.source, bytes)
    }

    fn one(&mut self, left: &mut usize) -> Result<u64, Error> {
        *left = left.checked_sub(1).ok_or(NODE)?;
        self.number()
    }

    fn level(&mut self, left: &mut usize) -> Result<VectorLevel, Error> {
        let count = usize::try_from(self.one(left)?).map_err(|_| NODE)?;
        let limit = self.one(left)?;
        if count > *left {
            return Err(NODE);
        }
        let links = (0..count).map(|_| self.one(left)).collect::<Result<_, _>>()?;
        let packed = self.one(left)?;
        let farthest = (f32::from_bits((packed >> 32) as u32), packed as u32);
        Ok(VectorLevel { links, limit, farthest })
    }
}

/// The state of writing a vector set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VectorWriter {
    has_attributes: bool,
}

impl VectorWriter {
    /// Writes what comes before the elements.
    pub(super) fn begin(
        out: &mut Vec<u8>,
        compressor: Option<&mut Compressor>,
        shape: &petrel_vector::Shape,
        len: usize,
        has_attributes: bool,
    ) -> Self {
        let is_own = shape.quantisation == Quantisation::RaBitQ;
        write_number(out, if is_own { MODULE_OWN } else { MODULE });
        number(out, shape.dim.into());
        number(out, len as u64);
        number(out, u64::from(shape.quantisation.number()) | u64::from(shape.links) << 8);
        let reduced = if shape.input_dim.is_some() { REDUCED } else { 0 };
        number(out, reduced | if has_attributes { ATTRIBUTES } else { 0 });
        if is_own {
            number(out, shape.seed.into());
        }
        if let Some(input_dim) = shape.input_dim {
            number(out, input_dim.into());
            let matrix: Vec<u8> = shape.matrix().flat_map(f32::to_le_bytes).collect();
            text(out, compressor, &matrix);
        }
        VectorWriter { has_attributes }
    }

    /// Writes an element; `is_last` ends the value.
    pub(super) fn element(
        self,
        out: &mut Vec<u8>,
        mut compressor: Option<&mut Compressor>,
        vector: &Vector<'_>,
        is_last: bool,
    ) {
        text(out, compressor.as_deref_mut(), vector.name);
        if self.has_attributes {
            text(out, compressor.as_deref_mut(), vector.attributes);
        }
        text(out, compressor, vector.vector.code);
        let count: usize = vector.levels.iter().map(|level| 3 + level.links.len()).sum();
        number(out, count as u64 + 3);
        number(out, vector.number);
        number(out, vector.levels.len().saturating_sub(1) as u64 | LAYOUT);
        for level in vector.levels {
            number(out, level.links.len() as u64);
            number(out, level.limit);
            level.links.iter().for_each(|&link| number(out, link));
            let (distance, at) = level.farthest;
            number(out, u64::from(distance.to_bits()) << 32 | u64::from(at));
        }
        let Factors { norm, range } = vector.vector.factors;
        number(out, u64::from(range.to_bits()) << 32 | u64::from(norm.to_bits()));
        if is_last {
            write_number(out, END);
        }
    }
}

fn number(out: &mut Vec<u8>, n: u64) {
    write_number(out, NUMBER);
    write_number(out, n);
}

fn text(out: &mut Vec<u8>, compressor: Option<&mut Compressor>, bytes: &[u8]) {
    write_number(out, TEXT);
    write_text(out, Item::Text(bytes), compressor);
}
