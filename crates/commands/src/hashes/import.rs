//! HIMPORT: creates hashes from values only. The connection names the fields once.

use super::fieldsets::{FIELD_OVERHEAD, Fieldset};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::CommandSpec;
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::container(&meta::HIMPORT, SUBCOMMANDS)];

static SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::HIMPORT_PREPARE, prepare),
    CommandSpec::new(&meta::HIMPORT_SET, set),
    CommandSpec::new(&meta::HIMPORT_DISCARD, discard),
    CommandSpec::new(&meta::HIMPORT_DISCARDALL, discard_all),
];

/// `HIMPORT PREPARE fieldset-name field [field ...]`
fn prepare(ctx: &mut Ctx<'_>) -> Outcome {
    let (name, names) = (ctx.arg(2), &ctx.args()[3..]);
    let Some(prepared) = ctx.exec.ks.field_names(names) else {
        return Err(Fail::fixed("ERR duplicate field name in fieldset"));
    };
    let bytes = names.iter().map(|name| name.len() + FIELD_OVERHEAD).sum::<usize>() + name.len();
    let limit = ctx.host.query_buffer_limit();
    let fieldsets = ctx.session.extras_mut().fieldsets.get_or_insert_default();
    fieldsets.remove(name);
    if fieldsets.bytes + bytes > limit {
        return Err(Fail::fixed("ERR fieldsets exceed client-query-buffer-limit"));
    }
    fieldsets.sets.insert(name.into(), Fieldset { names: prepared, bytes });
    fieldsets.bytes += bytes;
    ctx.ok()
}

/// `HIMPORT SET key fieldset-name value [value ...]`: replaces a hash of the key and removes its
/// expiry.
fn set(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, values) = (ctx.key(2), ctx.db(), &ctx.args()[4..]);
    let fieldsets = ctx.session.extras.as_ref().and_then(|extras| extras.fieldsets.as_ref());
    let Some(set) = fieldsets.and_then(|fieldsets| fieldsets.sets.get(ctx.request.args[3])) else {
        return Err(Fail::fixed("ERR no such fieldset"));
    };
    if values.len() != set.names.len() {
        return Err(Fail::fixed("ERR value count does not match fieldset field count"));
    }
    ctx.exec.ks.hash_import(db, key, &set.names, values)?;
    ctx.ok()
}

/// `HIMPORT DISCARD fieldset-name`
fn discard(ctx: &mut Ctx<'_>) -> Outcome {
    let name = ctx.arg(2);
    let fieldsets = ctx.session.extras.as_mut().and_then(|extras| extras.fieldsets.as_mut());
    let removed = fieldsets.is_some_and(|fieldsets| fieldsets.remove(name));
    ctx.number(i64::from(removed))
}

/// `HIMPORT DISCARDALL`
fn discard_all(ctx: &mut Ctx<'_>) -> Outcome {
    let fieldsets = ctx.session.take_fieldsets();
    ctx.number(fieldsets.map_or(0, |fieldsets| fieldsets.sets.len()) as i64)
}
