//! Auxiliary state that is nowhere but in this file: texts by name. It is added by a row in the
//! list of states and a line in the list of families, both in [`crate::tally::start`].

use petrel_commands::aux_state::{AuxState, AuxValue};
use petrel_commands::spec::Locks;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_keyspace::custom::number::{Bytes, Malformed, put_bytes};
use petrel_table::Meta;
use petrel_table::commands as meta;
use std::collections::BTreeMap;

pub static LABELS: AuxState = AuxState::of::<Labels>();

/// Labels under another name, added by a test after forms of it were kept.
pub static LATER: AuxState = AuxState::of::<Later>();

#[derive(Clone, Default, PartialEq)]
pub struct Labels(pub BTreeMap<Vec<u8>, Vec<u8>>);

#[derive(Clone, Default, PartialEq)]
pub struct Later(pub Labels);

impl AuxValue for Labels {
    const NAME: &'static str = "labels";

    fn encode(&self) -> Vec<u8> {
        let mut form = Vec::new();
        for (name, text) in &self.0 {
            put_bytes(&mut form, name);
            put_bytes(&mut form, text);
        }
        form
    }

    fn decode(bytes: &[u8]) -> Result<Self, Fail> {
        let (mut bytes, mut labels) = (Bytes(bytes), BTreeMap::new());
        let mut pair =
            || Ok((bytes.bytes()?.to_vec(), bytes.bytes()?.to_vec(), bytes.0.is_empty()));
        loop {
            let (name, text, is_last) =
                pair().map_err(|Malformed| Fail::fixed("ERR the labels are malformed"))?;
            labels.insert(name, text);
            if is_last {
                return Ok(Labels(labels));
            }
        }
    }

    fn merge(&mut self, other: Self, replace: bool) -> Outcome {
        if !replace && other.0.keys().any(|name| self.0.contains_key(name)) {
            return Err(Fail::fixed("ERR the label exists"));
        }
        self.0.extend(other.0);
        Ok(())
    }
}

impl AuxValue for Later {
    const NAME: &'static str = "later";

    fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn decode(bytes: &[u8]) -> Result<Self, Fail> {
        Labels::decode(bytes).map(Later)
    }

    fn merge(&mut self, other: Self, replace: bool) -> Outcome {
        self.0.merge(other.0, replace)
    }
}

pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&SET, set).locking(Locks::Itself),
    CommandSpec::new(&DROP, drop_label).locking(Locks::Itself),
    CommandSpec::new(&GET, get).locking(Locks::Itself),
];

static SET: Meta = Meta { name: "label.set", arity: 3, ..meta::FUNCTION_DELETE };
static DROP: Meta = Meta { name: "label.drop", arity: 2, ..meta::FUNCTION_DELETE };
static GET: Meta = Meta { name: "label.get", arity: 2, ..meta::FUNCTION_STATS };

/// `LABEL.SET name text`
fn set(ctx: &mut Ctx<'_>) -> Outcome {
    let (name, text) = (ctx.arg(1).to_vec(), ctx.arg(2).to_vec());
    ctx.exec.change_aux(|labels: &mut Labels| {
        labels.0.insert(name, text);
        Ok(())
    })?;
    ctx.ok()
}

/// `LABEL.DROP name`
fn drop_label(ctx: &mut Ctx<'_>) -> Outcome {
    let name = ctx.arg(1);
    const UNKNOWN: Fail = Fail::fixed("ERR there is no such label");
    ctx.exec.change_aux(|labels: &mut Labels| labels.0.remove(name).ok_or(UNKNOWN))?;
    ctx.ok()
}

/// `LABEL.GET name`
fn get(ctx: &mut Ctx<'_>) -> Outcome {
    match ctx.exec.aux::<Labels>().0.get(ctx.arg(1)) {
        Some(text) => ctx.reply.bulk(text),
        None => ctx.reply.null(),
    }
    Ok(())
}
