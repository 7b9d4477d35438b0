//! Arrays: strings by 64-bit indexes, with an insert cursor.
//!
//! | file | holds |
//! |---|---|
//! | `write` | changes |
//! | `read` | single elements, ranges, figures |
//! | `reduce` | `AROP` |
//! | `grep`, `regex` | `ARGREP`, and its regular expressions |

mod grep;
mod read;
mod reduce;
mod regex;
mod write;

use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::spec::CommandSpec;
use petrel_keyspace::array::{Array, ArrayValue, Element, INDEX_MAX};
use petrel_resp::Reply;
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::ARSET, write::set),
    CommandSpec::new(&meta::ARMSET, write::set_pairs),
    CommandSpec::new(&meta::ARINSERT, write::insert),
    CommandSpec::new(&meta::ARRING, write::ring),
    CommandSpec::new(&meta::ARSEEK, write::seek),
    CommandSpec::new(&meta::ARDEL, write::delete),
    CommandSpec::new(&meta::ARDELRANGE, write::delete_ranges),
    CommandSpec::new(&meta::ARGET, read::get),
    CommandSpec::new(&meta::ARMGET, read::get_several),
    CommandSpec::new(&meta::ARGETRANGE, read::get_range),
    CommandSpec::new(&meta::ARSCAN, read::scan),
    CommandSpec::new(&meta::ARLASTITEMS, read::last_items),
    CommandSpec::new(&meta::ARLEN, read::len),
    CommandSpec::new(&meta::ARCOUNT, read::count),
    CommandSpec::new(&meta::ARNEXT, read::next),
    CommandSpec::new(&meta::ARINFO, read::info),
    CommandSpec::new(&meta::AROP, reduce::reduce),
    CommandSpec::new(&meta::ARGREP, grep::grep),
];

/// Bytes of a text that are read in a unit of work.
const BYTES_PER_UNIT: usize = 64;

const BAD_INDEX: Fail = Fail::fixed("ERR invalid array index");

/// Parses a number of 64 bits without sign and leading zeros.
fn unsigned(text: &[u8]) -> Option<u64> {
    let is_canonical = matches!(text, [b'0'] | [b'1'..=b'9', ..]) && text.len() <= 20;
    is_canonical.then(|| str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// Parses an index.
fn index(text: &[u8]) -> Result<u64, Fail> {
    unsigned(text).filter(|&index| index <= INDEX_MAX).ok_or(BAD_INDEX)
}

/// The array of the first key.
fn read<'a>(ctx: &'a mut Ctx<'_>) -> Result<Option<&'a Array>, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let view = ctx.exec.ks.read(db, key);
    Ok(view.map(|view| view.custom::<ArrayValue>()).transpose()?.map(ArrayValue::array))
}

/// The array of the first key, which is to be changed.
fn look<'a>(ctx: &'a mut Ctx<'_>) -> Result<Option<&'a Array>, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let view = ctx.exec.ks.look(db, key);
    Ok(view.map(|view| view.custom::<ArrayValue>()).transpose()?.map(ArrayValue::array))
}

/// The array of the first key, once [`read`] has found it, beside the reply.
fn beside<'a>(ctx: &'a mut Ctx<'_>) -> Result<(Option<&'a Array>, &'a mut dyn Reply), Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let Ctx { exec, reply, .. } = ctx;
    let view = exec.ks.view(db, key);
    let array = view.map(|view| view.custom::<ArrayValue>()).transpose()?;
    Ok((array.map(ArrayValue::array), &mut **reply))
}

/// Writes an index or a number of elements. Beyond the integers of RESP it is a big number.
fn write_number(reply: &mut dyn Reply, number: u64) {
    match i64::try_from(number) {
        Ok(number) => reply.integer(number),
        Err(_) => reply.big_number(&number.to_string()),
    }
}

fn write_element(reply: &mut dyn Reply, element: Option<Element<'_>>) {
    match element {
        Some(element) => element.with_text(|text| reply.bulk(text)),
        None => reply.null(),
    }
}
