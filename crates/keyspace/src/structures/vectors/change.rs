//! Changes of vector sets: made at a key, encoded, and as commands.
//!
//! ```text
//! put         dimensions, quantisation, [seed of the rotation, of RaBitQ], links,
//!             dimensions before reduction (0: none), ef
//!             length and range (bits of 32-bit floats), name, code,
//!             the vector as given if it is reduced, [attributes]
//! remove      name
//! attributes  name, attributes
//! ```

use super::Vectors;
use crate::structures::custom::number::{Bytes, Malformed, put, put_bytes};
use crate::structures::custom::{
    CommandWriter, CustomChange, CustomValue, MALFORMED_CHANGE, Slot, Why,
};
use petrel_vector::{EncodedRef, Factors, NotInserted, Quantisation, Shape, VectorSet};
use std::any::Any;

/// Operations as effects number them.
mod op {
    pub const PUT: u8 = 0;
    /// Like [`PUT`], with attributes.
    pub const PUT_WITH: u8 = 1;
    pub const REMOVE: u8 = 2;
    pub const ATTRIBUTES: u8 = 3;
}

/// A change of a vector set.
#[derive(Clone, Copy, Debug)]
pub enum VectorChange<'a> {
    /// An element has this vector from now on. A missing key becomes a set of this shape.
    Put {
        /// Properties that all vectors of the set share.
        shape: Shape,
        /// The element.
        name: &'a [u8],
        /// Vector of the element, as the set keeps it.
        vector: EncodedRef<'a>,
        /// The vector as it was given, 32-bit floats; may be left out (empty) of a set that does
        /// not reduce vectors.
        given: &'a [u8],
        /// Attributes of the element; empty if it has none, and none if they are kept.
        attributes: Option<&'a [u8]>,
        /// Candidates that are looked at to link the element.
        ef: u32,
    },
    /// An element is gone. With the last one goes the key, which is an effect of its own.
    Remove {
        /// The element.
        name: &'a [u8],
    },
    /// An element has these attributes from now on.
    SetAttributes {
        /// The element.
        name: &'a [u8],
        /// The attributes; empty if it has none.
        attributes: &'a [u8],
    },
}

/// The reason for which a vector cannot be put.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VectorError {
    /// The key holds another type.
    WrongType,
    /// The set's vectors are of another shape, or the shape is out of range.
    WrongShape,
    /// The set has as many elements as it may have.
    Full,
    /// The caller has ended it.
    Ended,
}

impl From<NotInserted> for VectorError {
    fn from(error: NotInserted) -> Self {
        match error {
            NotInserted::WrongShape => VectorError::WrongShape,
            NotInserted::Full => VectorError::Full,
            NotInserted::Ended => VectorError::Ended,
        }
    }
}

/// Makes a change of the set at a key. Searches as long as `go_on` returns true. Says whether an
/// element is new ([`VectorChange::Put`]), or was there (the others).
///
/// # Errors
/// If the vector does not fit the set, or `go_on` has ended it; nothing has changed then.
pub(crate) fn make<S: Slot + ?Sized>(
    slot: &mut S,
    change: VectorChange<'_>,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<bool, VectorError> {
    let is_changed = match change {
        VectorChange::Put { .. } => {
            let is_new = put_vector(slot, change, go_on)?;
            record(slot, &change);
            return Ok(is_new);
        }
        VectorChange::Remove { name } => alter(slot, |set| set.remove(name)),
        VectorChange::SetAttributes { name, attributes } => {
            let attributes = Some(attributes).filter(|text| !text.is_empty());
            alter(slot, |set| set.set_attributes(name, attributes))
        }
    };
    if is_changed {
        record(slot, &change);
        let vectors = slot.held().and_then(|held| held.get::<Vectors>());
        if vectors.is_some_and(|vectors| vectors.set().is_empty()) {
            slot.remove_emptied();
        }
    }
    Ok(is_changed)
}

fn record<S: Slot + ?Sized>(slot: &mut S, change: &VectorChange<'_>) {
    slot.record(op_of(change), &mut |out| encode(out, change));
}

fn put_vector<S: Slot + ?Sized>(
    slot: &mut S,
    change: VectorChange<'_>,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<bool, VectorError> {
    let VectorChange::Put { shape, name, vector, attributes, ef, .. } = change else {
        return Ok(false);
    };
    if !shape.is_valid() || vector.code.len() != shape.code_bytes() {
        return Err(VectorError::WrongShape);
    }
    let Some(held) = slot.held() else {
        let set = VectorSet::new(shape, slot.seed());
        set.insert_while(name, vector, attributes, ef as usize, go_on)?;
        slot.put_boxed(Box::new(Vectors::new(set)));
        return Ok(true);
    };
    let vectors = held.get::<Vectors>().ok_or(VectorError::WrongType)?;
    if *vectors.set().shape() != shape {
        return Err(VectorError::WrongShape);
    }
    let mut inserted = Err(NotInserted::WrongShape);
    change_set(slot, &mut |set| {
        inserted = set.insert_while(name, vector, attributes, ef as usize, go_on);
    });
    Ok(inserted?)
}

/// Changes an element that is there, if it is.
fn alter<S: Slot + ?Sized>(slot: &mut S, alter: impl Fn(&VectorSet) -> bool) -> bool {
    let mut is_changed = false;
    change_set(slot, &mut |set| is_changed = alter(set));
    is_changed
}

fn change_set<S: Slot + ?Sized>(slot: &mut S, change: &mut dyn FnMut(&VectorSet)) {
    slot.change(&mut |value: &mut dyn CustomValue| {
        if let Some(vectors) = (value as &mut dyn Any).downcast_mut::<Vectors>() {
            change(vectors.set());
        }
    });
}

/// Makes a change that an effect carries.
pub(super) fn apply(slot: &mut dyn Slot, change: CustomChange<'_>) -> Result<(), Why> {
    let change = decode(change).map_err(|Malformed| MALFORMED_CHANGE)?;
    make(slot, change, &mut |_| true).map(drop).map_err(|error| match error {
        VectorError::WrongType => "the key holds a value of another type",
        VectorError::WrongShape => "the vectors of the set are of another shape",
        VectorError::Ended => "it was ended",
        VectorError::Full => "the set has as many elements as it may have",
    })
}

fn op_of(change: &VectorChange<'_>) -> u8 {
    match change {
        VectorChange::Put { attributes: None, .. } => op::PUT,
        VectorChange::Put { .. } => op::PUT_WITH,
        VectorChange::Remove { .. } => op::REMOVE,
        VectorChange::SetAttributes { .. } => op::ATTRIBUTES,
    }
}

fn encode(out: &mut Vec<u8>, change: &VectorChange<'_>) {
    match *change {
        VectorChange::Put { shape, name, vector, given, attributes, ef } => {
            put(out, shape.dim.into());
            put(out, shape.quantisation.number().into());
            if shape.quantisation == Quantisation::RaBitQ {
                put(out, shape.seed.into());
            }
            put(out, shape.links.into());
            put(out, shape.input_dim.unwrap_or(0).into());
            put(out, ef.into());
            put(out, vector.factors.norm.to_bits().into());
            put(out, vector.factors.range.to_bits().into());
            put_bytes(out, name);
            put_bytes(out, vector.code);
            if shape.input_dim.is_some() {
                put_bytes(out, given);
            }
            attributes.into_iter().for_each(|text| put_bytes(out, text));
        }
        VectorChange::Remove { name } => put_bytes(out, name),
        VectorChange::SetAttributes { name, attributes } => {
            put_bytes(out, name);
            put_bytes(out, attributes);
        }
    }
}

fn decode(change: CustomChange<'_>) -> Result<VectorChange<'_>, Malformed> {
    let mut bytes = Bytes(change.body);
    let taken = match change.op {
        op::PUT | op::PUT_WITH => take_put(&mut bytes, change.op == op::PUT_WITH)?,
        op::REMOVE => VectorChange::Remove { name: bytes.bytes()? },
        op::ATTRIBUTES => {
            let (name, attributes) = (bytes.bytes()?, bytes.bytes()?);
            VectorChange::SetAttributes { name, attributes }
        }
        _ => return Err(Malformed),
    };
    bytes.end()?;
    Ok(taken)
}

fn take_put<'a>(
    bytes: &mut Bytes<'a>,
    has_attributes: bool,
) -> Result<VectorChange<'a>, Malformed> {
    let mut word = || u32::try_from(bytes.number()?).map_err(|_| Malformed);
    let (dim, quantisation) = (word()?, word()?);
    let quantisation = Quantisation::from_number(quantisation.into()).ok_or(Malformed)?;
    let seed = if quantisation == Quantisation::RaBitQ { word()? } else { 0 };
    let (links, input_dim, ef, norm, range) = (word()?, word()?, word()?, word()?, word()?);
    let shape = Shape {
        dim,
        quantisation,
        links: u16::try_from(links).map_err(|_| Malformed)?,
        input_dim: Some(input_dim).filter(|&dim| dim != 0),
        seed,
    };
    let factors = Factors { norm: f32::from_bits(norm), range: f32::from_bits(range) };
    let (name, code) = (bytes.bytes()?, bytes.bytes()?);
    if !shape.is_valid() || code.len() != shape.code_bytes() {
        return Err(Malformed);
    }
    let given = if shape.input_dim.is_some() { bytes.bytes()? } else { b"" };
    let attributes = if has_attributes { Some(bytes.bytes()?) } else { None };
    let vector = EncodedRef { code, factors };
    Ok(VectorChange::Put { shape, name, vector, given, attributes, ef })
}

/// Writes a change as a command. A vector is written as it was given, so that the replica makes the
/// same code of it; if that is not known any more, as the code tells. The form is named, RaBitQ's
/// too: Redis, which does not know it, refuses the command, as it refuses the set in a copy.
pub(super) fn commands(key: &[u8], change: CustomChange<'_>, out: &mut dyn CommandWriter) {
    let decoded = decode(change);
    debug_assert!(decoded.is_ok(), "{change:?}");
    match decoded {
        Ok(VectorChange::Remove { name }) => out.command("VREM", &[key, name]),
        Ok(VectorChange::SetAttributes { name, attributes }) => {
            out.command("VSETATTR", &[key, name, attributes]);
        }
        Ok(VectorChange::Put { shape, name, vector, given, attributes, ef }) => {
            let decoded: Vec<u8>;
            let vector = match given {
                b"" => {
                    let components = shape.decode(vector).into_iter();
                    decoded = components.flat_map(f32::to_le_bytes).collect();
                    &decoded
                }
                given => given,
            };
            let mut digits = [itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new()];
            let [of_dim, of_ef, of_links] = &mut digits;
            let mut args = vec![key];
            if shape.input_dim.is_some() {
                args.extend([&b"REDUCE"[..], of_dim.format(shape.dim).as_bytes()]);
            }
            args.extend([&b"FP32"[..], vector, name, shape.quantisation.option().as_bytes()]);
            args.extend([&b"EF"[..], of_ef.format(ef).as_bytes()]);
            args.extend([&b"M"[..], of_links.format(shape.links).as_bytes()]);
            if let Some(attributes) = attributes {
                args.extend([&b"SETATTR"[..], attributes]);
            }
            out.command("VADD", &args);
        }
        Err(Malformed) => {}
    }
}
