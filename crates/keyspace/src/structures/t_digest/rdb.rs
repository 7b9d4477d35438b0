//! t-digests as a value type, and as RedisBloom writes them.
//!
//! ```text
//! compression, lowest and highest number (doubles), nodes at most, merged nodes, unmerged nodes,
//! compressions, weights of merged and unmerged nodes (doubles)
//! means of merged nodes (doubles), their weights (doubles)
//! ```
//!
//! RedisBloom merges nodes before it writes them. A digest is not changed by being written here, so
//! that its replicas stay as it is: all nodes are written as merged ones, and -0 as the weight of
//! the unmerged ones tells that a merge is due. RedisBloom reads it as 0.

use super::{DigestRef, change, loaded};
use crate::structures::custom::{
    LoadError, Loaded, ModuleReader, ModuleWriter, RdbForm, Shown, TypeNumber, ValueDigest,
    ValueType,
};
use petrel_sketch::t_digest::{COMPRESSION_MAX, Node, TDigest};

/// The number of the module `TDIS-TYPE`, version 0.
const MODULE: u64 = 0x4c32_12f9_360f_1000;

/// Weight of unmerged nodes that are written as merged ones.
const MERGE_IS_DUE: f64 = -0.0;

const BROKEN: LoadError = LoadError::Malformed("a t-digest is broken");

/// The type of t-digests.
pub static TYPE: ValueType = ValueType {
    number: TypeNumber::T_DIGEST,
    // As the module that Redis comes with calls it.
    name: "TDIS-TYPE",
    shown: Shown::MODULE,
    form: RdbForm::Module { numbers: &[MODULE], of: |_| MODULE },
    rdb_version: 9,
    head: |held, out| {
        if let Some(digest) = DigestRef::of(held) {
            write_head(&digest, out);
        }
    },
    body: |held, out| {
        if let Some(digest) = DigestRef::of(held) {
            digest.each_number(&mut |number| out.double(number));
        }
    },
    load,
    apply: change::apply,
    // As Redis, which publishes no event of them.
    event: |_| None,
    commands: Some(change::commands),
    digest: |held, out| {
        if let Some(digest) = DigestRef::of(held) {
            mix_in(&digest, out);
        }
    },
    // A node is sorted, too.
    copy_effort: |held| DigestRef::of(held).map_or(0, |digest| 4 * digest.nodes().len()),
    // Redis has no such line.
    sizes: None,
};

fn write_head(digest: &TDigest, out: &mut dyn ModuleWriter) {
    for number in [digest.compression() as f64, digest.min(), digest.max()] {
        out.double(number);
    }
    for number in [digest.capacity(), digest.nodes().len(), 0] {
        out.unsigned(number as u64);
    }
    out.unsigned(digest.compressions());
    out.double(digest.weight());
    out.double(if digest.unmerged() == 0 { 0.0 } else { MERGE_IS_DUE });
}

fn load(reader: &mut dyn ModuleReader, _: u64) -> Result<Loaded, LoadError> {
    let compression = reader.double()?;
    if !(compression >= 1.0 && compression <= COMPRESSION_MAX as f64) {
        return Err(BROKEN);
    }
    let ends = (reader.double()?, reader.double()?);
    let (capacity, merged) = (reader.unsigned()?, reader.unsigned()?);
    let (unmerged, compressions) = (reader.unsigned()?, reader.unsigned()?);
    let (_, unmerged_weight) = (reader.double()?, reader.double()?);
    let are_merged = unmerged_weight.to_bits() != MERGE_IS_DUE.to_bits();
    if merged > capacity {
        return Err(BROKEN);
    }
    let mut nodes = match (merged, unmerged) {
        (_, 0) => Vec::new(),
        // Redis does not merge a single number, and does not write it: it is at both ends.
        (0, 1) if ends.0 == ends.1 => vec![Node { mean: ends.0, weight: 1.0 }],
        _ => return Err(BROKEN),
    };
    let first = nodes.len();
    for _ in 0..merged {
        nodes.push(Node { mean: reader.double()?, weight: 0.0 });
    }
    for node in &mut nodes[first..] {
        node.weight = reader.double()?;
    }
    let digest = TDigest::from_nodes(compression as u64, ends, nodes, are_merged, compressions);
    Ok(loaded(digest.ok_or(BROKEN)?))
}

fn mix_in(digest: &TDigest, out: &mut dyn ValueDigest) {
    out.ordered(&digest.compression().to_le_bytes());
    out.ordered(&[u8::from(digest.unmerged() == 0)]);
    for number in [digest.min(), digest.max()] {
        out.ordered(&number.to_bits().to_le_bytes());
    }
    digest.each_number(&mut |number| out.ordered(&number.to_bits().to_le_bytes()));
}
