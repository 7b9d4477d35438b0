//! Arrays as a value type, and as Redis writes them.
//!
//! ```text
//! count, 1 and the cursor | 0
//! elements, each: index, tag, value
//!   tag 0, 3   string
//!   tag 1      signed integer of eight bytes, little-endian
//!   tag 2      double, which stands for its shortest text
//! ```

use super::{ArrayValue, Piece, change, element};
use crate::structures::custom::{
    Chunk, EventClass, Held, LoadError, Loaded, ModuleReader, ModuleWriter, RdbForm, Shown,
    TypeNumber, ValueDigest, ValueType,
};
use petrel_array::{Array, Element, INDEX_MAX};
use std::ops::ControlFlow;

/// The type byte of arrays.
const TYPE_BYTE: u8 = 28;

/// Tags of elements.
mod tag {
    pub const TEXT: u64 = 0;
    pub const INT: u64 = 1;
    pub const DOUBLE: u64 = 2;
    pub const SHORT_TEXT: u64 = 3;
}

/// Integers from this one on are written as strings, as in Redis, which packs 62 bits.
const INT_END: i64 = 1 << 61;

/// Bytes of an element at least: index, tag, length of a text.
const ELEMENT_BYTES_MIN: u64 = 3;

const BROKEN: LoadError = LoadError::Malformed("an array is broken");

/// The type of arrays.
pub static TYPE: ValueType = ValueType {
    number: TypeNumber::ARRAY,
    name: "array",
    shown: Shown { encoding: "sliced-array", events: EventClass::Array },
    form: RdbForm::TypeByte(TYPE_BYTE),
    rdb_version: 14,
    head: write_head,
    body: |held, out| {
        if let Some(value) = held.get::<ArrayValue>() {
            value.array().each_part(&mut |part| Piece(part).write(out));
        }
    },
    load,
    apply: change::apply,
    event: change::event,
    commands: Some(change::commands),
    digest,
    copy_effort: |held| held.get::<ArrayValue>().map_or(0, |value| value.array().allocated() / 16),
    // Redis has no such line.
    sizes: None,
};

fn write_head(held: Held<'_>, out: &mut dyn ModuleWriter) {
    let Some(array) = held.get::<ArrayValue>().map(ArrayValue::array) else { return };
    out.unsigned(array.count());
    out.unsigned(array.cursor().is_some().into());
    if let Some(cursor) = array.cursor() {
        out.unsigned(cursor);
    }
}

/// Writes an element with its index.
pub(super) fn write_element(index: u64, found: Element<'_>, out: &mut dyn ModuleWriter) {
    out.unsigned(index);
    let number = match found {
        Element::Int(number) => Some(number),
        // Beside texts, numbers are stored as texts.
        Element::Text(text) => super::parse_int(text),
    };
    match number.filter(|number| (-INT_END..INT_END).contains(number)) {
        Some(number) => {
            out.unsigned(tag::INT);
            out.eight_bytes(number.cast_unsigned());
        }
        None => {
            out.unsigned(tag::TEXT);
            found.with_text(|text| out.text(text));
        }
    }
}

fn load(reader: &mut dyn ModuleReader, _: u64) -> Result<Loaded, LoadError> {
    let count = reader.unsigned()?;
    let cursor = match reader.unsigned()? {
        0 => None,
        1 => Some(reader.unsigned()?).filter(|&cursor| cursor <= INDEX_MAX),
        _ => return Err(BROKEN),
    };
    let bytes = count.checked_mul(ELEMENT_BYTES_MIN).ok_or(LoadError::Truncated)?;
    if bytes > reader.left() as u64 {
        return Err(LoadError::Truncated);
    }
    let mut array = Array::default();
    for _ in 0..count {
        let index = Some(reader.unsigned()?).filter(|&index| index <= INDEX_MAX).ok_or(BROKEN)?;
        let is_new = match reader.unsigned()? {
            tag::TEXT | tag::SHORT_TEXT => array.set(index, element(reader.text()?)),
            tag::INT => array.set(index, Element::Int(reader.eight_bytes()?.cast_signed())),
            tag::DOUBLE => {
                array.set(index, Element::Text(text_of_double(reader.double()?).as_bytes()))
            }
            _ => return Err(BROKEN),
        };
        if !is_new {
            return Err(LoadError::Malformed("an index of an array is there twice"));
        }
    }
    if array.is_empty() {
        return Err(LoadError::Malformed("an array without elements"));
    }
    if let Some(cursor) = cursor {
        array.seek(cursor + 1);
    }
    Ok(Loaded::Boxed(Box::new(ArrayValue(array))))
}

/// The shortest text of a double in Redis's layout, with `.0` if it would be that of an integer.
fn text_of_double(value: f64) -> String {
    /// Most zeros that are appended to digits.
    const ZEROS_MAX: i32 = 7;
    /// The magnitude up to which whole numbers are printed as such: 2^62.
    const WHOLE_MAX: f64 = 4_611_686_018_427_387_904.0;
    if !value.is_finite() || value.abs() <= WHOLE_MAX && value == value.trunc() {
        return if value.is_finite() { format!("{value:.1}") } else { value.to_string() };
    }
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let (len, exponent) = (digits.len() as i32, exponent.parse().unwrap_or(0));
    let last = exponent - (len - 1);
    let zeros = |count: i32| "0".repeat(count.max(0) as usize);
    let text = if last >= 0 && exponent < len + ZEROS_MAX {
        format!("{digits}{}.0", zeros(last))
    } else if last < 0 && (last > -ZEROS_MAX || exponent.abs() < 4) {
        let all = format!("{}{digits}", zeros(-exponent));
        let (whole, rest) = all.split_at((exponent.max(0) + 1) as usize);
        format!("{whole}.{rest}")
    } else {
        format!("{mantissa}e{exponent:+}")
    };
    if value < 0.0 { format!("-{text}") } else { text }
}

fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(array) = held.get::<ArrayValue>().map(ArrayValue::array) else { return };
    digest.ordered(&array.next_insert().unwrap_or(u64::MAX).to_le_bytes());
    let _ = array.each(0, INDEX_MAX, &mut |index, element| {
        element.with_text(|text| digest.unordered(&[&index.to_le_bytes(), text]));
        ControlFlow::<()>::Continue(())
    });
}

#[cfg(test)]
mod tests {
    use super::text_of_double;

    #[test]
    fn doubles_have_redis_layout() {
        for (value, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (-9_999_999.0, "-9999999.0"),
            (3.25, "3.25"),
            (0.0625, "0.0625"),
            (-0.5, "-0.5"),
            (1.23456789012, "1.23456789012"),
            (1e-10, "1e-10"),
            (0.001, "0.001"),
            (1.5e-5, "0.000015"),
            (1.25e300, "1.25e+300"),
            (1e100, "1e+100"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(text_of_double(value), text);
        }
    }
}
