//! JSON documents as a value type, and as the module that Redis comes with writes them.
//!
//! ```text
//! text
//! ```
//!
//! Version 4 of the module's form, of Redis 8.8, has CBOR instead of the text. It is read, and not
//! written: what reads it reads version 3 too.

use super::{change, loaded, tape_of};
use crate::structures::custom::{
    Held, LoadError, Loaded, ModuleReader, ModuleWriter, RdbForm, Shown, TypeNumber, ValueDigest,
    ValueType,
};
use petrel_json::{Format, Parse, Value, parse, print, text_of_cbor};

/// The number of the module `ReJSON-RL`, version 3.
const MODULE: u64 = 0x45e2_5238_df91_2c03;
/// Version 4 of it: CBOR.
const MODULE_CBOR: u64 = 0x45e2_5238_df91_2c04;
/// Version 0 of it: a tree of nodes.
const MODULE_OLD: u64 = 0x45e2_5238_df91_2c00;

/// The type of JSON documents.
pub(crate) static TYPE: ValueType = ValueType {
    number: TypeNumber::JSON,
    // As the module that Redis comes with calls it.
    name: "ReJSON-RL",
    shown: Shown::MODULE,
    form: RdbForm::Module { numbers: &[MODULE, MODULE_CBOR, MODULE_OLD], of: |_| MODULE },
    rdb_version: 9,
    head: |_, _| {},
    body: |held, out| {
        if let Some(tape) = tape_of(held) {
            write_text(Value::new(tape), out);
        }
    },
    load,
    apply: change::apply,
    event: |_| Some("json.set"),
    commands: Some(change::commands),
    digest,
    copy_effort: |_| 0,
    // Redis has no such line.
    sizes: None,
};

/// The text of a value.
pub(super) fn text(value: Value<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    print(value, &Format::default(), &mut text);
    text
}

pub(super) fn write_text(value: Value<'_>, out: &mut dyn ModuleWriter) {
    out.text(&text(value));
}

fn load(reader: &mut dyn ModuleReader, module: u64) -> Result<Loaded, LoadError> {
    const BROKEN: LoadError = LoadError::Malformed("a JSON document is broken");
    if module == MODULE_OLD {
        return Err(LoadError::Unsupported("the value is a document of RedisJSON 1"));
    }
    let bytes = reader.text()?;
    let parsed = match module {
        MODULE_CBOR => parse(&text_of_cbor(bytes).ok_or(BROKEN)?, Parse::default()),
        _ => parse(bytes, Parse::default()),
    };
    let document = parsed.map_err(|_| LoadError::Refused("a JSON document does not parse"))?;
    Ok(loaded(document.into_tape()))
}

/// Mixes in the text, which is not what Redis does.
fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    if let Some(tape) = tape_of(held) {
        digest.ordered(&text(Value::new(tape)));
    }
}
