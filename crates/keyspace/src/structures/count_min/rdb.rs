//! Count-min sketches as a value type, and as RedisBloom writes them.
//!
//! ```text
//! width, depth, sum of increments, string: counters of 32 bits, row by row
//! ```

use super::{Sketch, change};
use crate::structures::custom::{
    Held, LoadError, Loaded, ModuleReader, ModuleWriter, RdbForm, Shown, TypeNumber, ValueDigest,
    ValueType,
};
use petrel_sketch::count_min::CountMin;

/// The number of the module `CMSk-TYPE`, version 0.
const MODULE: u64 = 0x08c4_a4f9_360f_1000;

/// The type of count-min sketches.
pub static TYPE: ValueType = ValueType {
    number: TypeNumber::COUNT_MIN,
    // As the module that Redis comes with calls it.
    name: "CMSk-TYPE",
    shown: Shown::MODULE,
    form: RdbForm::Module { numbers: &[MODULE], of: |_| MODULE },
    rdb_version: 9,
    head: |held, out| {
        let Some(sketch) = held.get::<Sketch>().map(Sketch::sketch) else { return };
        out.unsigned(sketch.width().into());
        out.unsigned(sketch.depth().into());
        out.unsigned(sketch.count());
        out.begin_text(sketch.bytes());
    },
    body: write_body,
    load,
    apply: change::apply,
    // As Redis, which publishes no event of them.
    event: |_| None,
    commands: Some(change::commands),
    digest,
    copy_effort: |held| held.get::<Sketch>().map_or(0, |value| value.sketch().allocated() / 64),
    // Redis has no such line.
    sizes: None,
};

fn write_body(held: Held<'_>, out: &mut dyn ModuleWriter) {
    if let Some(sketch) = held.get::<Sketch>() {
        sketch.sketch().each_page(&mut |page| out.text_bytes(page));
    }
}

fn load(reader: &mut dyn ModuleReader, _: u64) -> Result<Loaded, LoadError> {
    const BROKEN: LoadError = LoadError::Malformed("a count-min sketch is broken");
    let (width, depth, count) = (reader.unsigned()?, reader.unsigned()?, reader.unsigned()?);
    let sketch = CountMin::from_bytes(width, depth, count, reader.text()?).ok_or(BROKEN)?;
    Ok(Loaded::Boxed(Box::new(Sketch::new(sketch))))
}

fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(sketch) = held.get::<Sketch>().map(Sketch::sketch) else { return };
    for number in [sketch.width().into(), sketch.depth().into(), sketch.count()] {
        digest.ordered(&u64::to_le_bytes(number));
    }
    sketch.each_page(&mut |page| digest.ordered(page));
}
