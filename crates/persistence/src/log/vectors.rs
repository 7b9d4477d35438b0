//! Changes of vector sets as they stand in a record.
//!
//! ```text
//! put         dimensions, quantisation, [seed of the rotation, of RaBitQ], links,
//!             dimensions before reduction (0: none), ef
//!             length and range (bits of 32-bit floats), name, code, the vector as given if it is reduced,
//!             [attributes]
//! remove      name
//! attributes  name, attributes
//! ```

use super::Malformed;
use super::number::{Bytes, put, put_bytes};
use petrel_keyspace::VectorChange;
use petrel_vector::{EncodedRef, Factors, Quantisation, Shape};

pub(super) fn put_change(out: &mut Vec<u8>, change: &VectorChange<'_>) {
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

pub(super) fn take_put<'a>(
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
