//! Groups of synonyms of an index.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::open::{change_definitions, open};
use std::sync::Arc;

const UNKNOWN: Fail = Fail::fixed("Unknown index name");

/// `FT.SYNUPDATE index group [SKIPINITIALSCAN] term ...`
pub(super) fn update(ctx: &mut Ctx<'_>) -> Outcome {
    let [_, name, group, words @ ..] = ctx.args() else { return Err(ctx.wrong_arity()) };
    let (first, rest) = words.split_first().ok_or_else(|| ctx.wrong_arity())?;
    let skips_scan = first.eq_ignore_ascii_case(b"SKIPINITIALSCAN");
    let words = if skips_scan { rest } else { words };
    let index = open(ctx, name, || UNKNOWN)?;
    let db = ctx.db();
    change_definitions(ctx, |all| {
        let definition = all.indexes.get_mut(&(db, index.name)).ok_or(UNKNOWN)?;
        let synonyms = Arc::make_mut(&mut Arc::make_mut(&mut definition.schema).synonyms);
        words.iter().for_each(|word| synonyms.add(group, word));
        if !skips_scan {
            synonyms.scans += 1;
            definition.skips_scan = false;
        }
        Ok(())
    })?;
    ctx.ok()
}

/// `FT.SYNDUMP index`
pub(super) fn dump(ctx: &mut Ctx<'_>) -> Outcome {
    let [_, name] = *ctx.args() else { return Err(ctx.wrong_arity()) };
    let index = open(ctx, name, || UNKNOWN)?;
    let synonyms = &index.schema.synonyms;
    ctx.reply.map(synonyms.iter().len());
    for (word, groups) in synonyms.iter() {
        ctx.reply.bulk(word);
        ctx.reply.array(groups.len());
        groups.iter().for_each(|group| ctx.reply.bulk(group));
    }
    Ok(())
}
