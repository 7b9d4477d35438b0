//! Vector sets as a value type, and as the module that Redis comes with writes them.
//!
//! ```text
//! dimensions, elements, quantisation | links << 8, flags (1: reduced, 2: attributes)
//! dimensions before reduction, matrix                      if reduced
//! elements, each:
//!   name, [attributes], code
//!   count of the numbers that follow
//!   number, level | 1 << 24
//!   for each level, the lowest first:
//!     links, most links, each link's number, distance of the farthest << 32 | its place
//!   range << 32 | length
//! ```
//!
//! A set in our own form (RaBitQ) is of another module, `petrelvec`, which Redis refuses by that
//! name; the seed of its rotation comes behind the flags, and before the dimensions before
//! reduction.
//!
//! Numbers are unsigned; the bits of 32-bit floats stand for them.

use super::{Vectors, change};
use crate::structures::custom::{
    Held, LoadError, Loaded, ModuleReader, ModuleWriter, RdbForm, Shown, TypeNumber, ValueDigest,
    ValueType,
};
use petrel_vector::{
    EncodedRef, Factors, LEVELS_MAX, LoadError as SetError, Loader, Quantisation, Shape,
    SnapshotItem, SnapshotNode,
};

/// The number of the module `vectorset`, version 0.
const MODULE: u64 = 0xbde7_2da2_bb1e_b400;
/// The number of the module `petrelvec`, version 0.
const MODULE_OWN: u64 = 0xa5eb_6b7a_5bde_7000;

const REDUCED: u64 = 1;
const ATTRIBUTES: u64 = 2;

/// Layout of an element's numbers, in the number that holds the level.
const LAYOUT: u64 = 1 << 24;

const HEAD: LoadError = LoadError::Malformed("the head of a vector set is broken");
const CODE: LoadError = LoadError::Malformed("a code of a vector set stands for no vector");
const NODE: LoadError = LoadError::Malformed("an element of a vector set is broken");

/// The type of vector sets.
pub(crate) static TYPE: ValueType = ValueType {
    number: TypeNumber::VECTOR_SET,
    name: "vectorset",
    shown: Shown::MODULE,
    form: RdbForm::Module {
        numbers: &[MODULE, MODULE_OWN],
        of: |held| match held.get::<Vectors>() {
            Some(vectors) if is_own(vectors.set().shape()) => MODULE_OWN,
            _ => MODULE,
        },
    },
    // Redis 8.0 reads it.
    rdb_version: 12,
    head: write_head,
    body: |held, out| {
        if let Some(vectors) = held.get::<Vectors>() {
            let snapshot = vectors.set().snapshot();
            let has_attributes = snapshot.has_attributes();
            snapshot.nodes_from(0).for_each(|node| write_element(&node, has_attributes, out));
        }
    },
    load,
    apply: change::apply,
    // As Redis, which publishes no event of them.
    event: |_| None,
    commands: Some(change::commands),
    digest,
    copy_effort: |held| held.get::<Vectors>().map_or(0, |vectors| vectors.set().footprint() / 8),
    // Redis has no such line.
    sizes: None,
};

fn is_own(shape: &Shape) -> bool {
    shape.quantisation == Quantisation::RaBitQ
}

fn write_head(held: Held<'_>, out: &mut dyn ModuleWriter) {
    let Some(vectors) = held.get::<Vectors>() else { return };
    let snapshot = vectors.set().snapshot();
    let shape = snapshot.shape();
    out.unsigned(shape.dim.into());
    out.unsigned(snapshot.len() as u64);
    out.unsigned(u64::from(shape.quantisation.number()) | u64::from(shape.links) << 8);
    let reduced = if shape.input_dim.is_some() { REDUCED } else { 0 };
    out.unsigned(reduced | if snapshot.has_attributes() { ATTRIBUTES } else { 0 });
    if is_own(shape) {
        out.unsigned(shape.seed.into());
    }
    if let Some(input_dim) = shape.input_dim {
        out.unsigned(input_dim.into());
        let matrix: Vec<u8> = shape.matrix().flat_map(f32::to_le_bytes).collect();
        out.text(&matrix);
    }
}

/// Writes an element. Its number is that of its node, and one more, since none is 0.
pub(super) fn write_element(
    node: &SnapshotNode<'_>,
    has_attributes: bool,
    out: &mut dyn ModuleWriter,
) {
    out.text(node.name());
    if has_attributes {
        out.text(node.attributes().unwrap_or_default());
    }
    let vector = node.vector();
    out.text(vector.code);
    let count: usize = (0..=node.level()).map(|level| 3 + node.links(level).len()).sum();
    out.unsigned(count as u64 + 3);
    out.unsigned(u64::from(node.node()) + 1);
    out.unsigned(node.level() as u64 | LAYOUT);
    for level in 0..=node.level() {
        let links = node.links(level);
        out.unsigned(links.len() as u64);
        out.unsigned(node.link_limit(level) as u64);
        links.iter().for_each(|link| out.unsigned(u64::from(link) + 1));
        let (distance, at) = node.farthest(level);
        out.unsigned(u64::from(distance.to_bits()) << 32 | at as u64);
    }
    let Factors { norm, range } = vector.factors;
    out.unsigned(u64::from(range.to_bits()) << 32 | u64::from(norm.to_bits()));
}

fn load(source: &mut dyn ModuleReader, module: u64) -> Result<Loaded, LoadError> {
    let mut reader = Reader { source, left: 0 };
    let (shape, len, has_attributes) = reader.head(module == MODULE_OWN)?;
    let mut loader = Loader::new(shape, reader.source.seed()).map_err(refused)?;
    for _ in 0..len {
        reader.element(&shape, has_attributes, &mut loader)?;
    }
    let set = loader.finish().map_err(refused)?;
    Ok(Loaded::Boxed(Box::new(Vectors::new(set))))
}

struct Reader<'r> {
    source: &'r mut dyn ModuleReader,
    /// Numbers of the element that are left.
    left: usize,
}

impl Reader<'_> {
    fn head(&mut self, is_own: bool) -> Result<(Shape, usize, bool), LoadError> {
        let source = &mut *self.source;
        let dim = u32::try_from(source.unsigned()?).map_err(|_| HEAD)?;
        let len = usize::try_from(source.unsigned()?).map_err(|_| HEAD)?;
        let kind = source.unsigned()?;
        let flags = source.unsigned()?;
        let mut shape = Shape {
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
            shape.seed = u32::try_from(source.unsigned()?).map_err(|_| HEAD)?;
        }
        if flags & REDUCED != 0 {
            shape.input_dim = Some(u32::try_from(source.unsigned()?).map_err(|_| HEAD)?);
        }
        if !shape.is_valid() || len == 0 || flags > REDUCED | ATTRIBUTES {
            return Err(HEAD);
        }
        if shape.input_dim.is_some() {
            let matrix = source.text()?;
            let cells = matrix.as_chunks::<4>().0.iter().map(|&cell| f32::from_le_bytes(cell));
            let cell_count = shape.dim as usize * shape.dim_given();
            let is_ours = matrix.len() == 4 * cell_count
                && cells.zip(shape.matrix()).all(|(cell, own)| (cell - own).abs() < 1e-6);
            if !is_ours {
                return Err(LoadError::Unsupported("a vector set is reduced by another matrix"));
            }
        }
        Ok((shape, len, flags & ATTRIBUTES != 0))
    }

    fn element(
        &mut self,
        shape: &Shape,
        has_attributes: bool,
        loader: &mut Loader,
    ) -> Result<(), LoadError> {
        let name = self.source.text()?.to_vec();
        let attributes = if has_attributes { self.source.text()?.to_vec() } else { Vec::new() };
        let code = self.source.text()?.to_vec();
        self.begin_numbers()?;
        let number = self.number()?;
        let level = self.number()?;
        // Without the mark of the layout there is nothing else to be read either.
        let level = usize::try_from(level & (LAYOUT - 1)).map_err(|_| NODE)?;
        if level >= LEVELS_MAX {
            return Err(NODE);
        }
        let mut levels = Vec::with_capacity(level + 1);
        for _ in 0..=level {
            levels.push(self.links()?);
        }
        let packed = self.number()?;
        if self.left != 0 {
            return Err(NODE);
        }
        let norm = f32::from_bits(packed as u32);
        let range = f32::from_bits((packed >> 32) as u32);
        let vector = EncodedRef { code: &code, factors: Factors { norm, range } };
        if !shape.admits(vector) {
            return Err(CODE);
        }
        let attributes = Some(&attributes[..]).filter(|text| !text.is_empty());
        let image = SnapshotItem { number, name: &name, attributes, vector, levels: &levels };
        loader.push(&image).map_err(refused)
    }

    /// Reads how many numbers follow, of which each takes two bytes.
    fn begin_numbers(&mut self) -> Result<(), LoadError> {
        let count = usize::try_from(self.source.unsigned()?).map_err(|_| LoadError::Truncated)?;
        if count.checked_mul(2).is_none_or(|bytes| bytes > self.source.left()) {
            return Err(LoadError::Truncated);
        }
        self.left = count;
        Ok(())
    }

    fn number(&mut self) -> Result<u64, LoadError> {
        self.left = self.left.checked_sub(1).ok_or(NODE)?;
        self.source.unsigned()
    }

    /// The links of a level. The distance of the farthest is not needed.
    fn links(&mut self) -> Result<Vec<u64>, LoadError> {
        let count = usize::try_from(self.number()?).map_err(|_| NODE)?;
        let _limit = self.number()?;
        if count > self.left {
            return Err(NODE);
        }
        let links = (0..count).map(|_| self.number()).collect::<Result<_, _>>()?;
        let _farthest = self.number()?;
        Ok(links)
    }
}

fn refused(error: SetError) -> LoadError {
    LoadError::Refused(match error {
        SetError::DoubledName => "an element is there twice",
        SetError::Shape => "the shape of a vector set is out of range",
        SetError::OneWayLink => "a link of a vector set does not lead back",
        SetError::DoubledLink => "a link of a vector set is there twice",
        SetError::LinkTarget => "a link of a vector set leads nowhere",
        SetError::LinkCount => "an element of a vector set has too many links",
        SetError::DoubledNumber | SetError::NumberZero => {
            "the numbers of a vector set's elements are not distinct, or one is 0"
        }
        SetError::CodeLength | SetError::Levels => "an element of a vector set does not fit it",
        SetError::Empty => "a vector set without elements",
        SetError::TooMany => "a vector set with too many elements",
    })
}

/// Mixes in name, code, length and attributes of each element, which is not what Redis does.
fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(vectors) = held.get::<Vectors>() else { return };
    vectors.set().snapshot().nodes_from(0).for_each(|node| {
        let vector = node.vector();
        let length = vector.factors.norm.to_le_bytes();
        let attributes = node.attributes().unwrap_or_default();
        digest.unordered(&[node.name(), vector.code, &length, attributes]);
    });
}
