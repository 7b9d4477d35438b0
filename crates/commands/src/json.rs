//! JSON documents, as RedisJSON answers. What reads them: `json/read.rs`, `json/get.rs`; what
//! replaces values: `json/set.rs`; what changes values where they are: `json/update.rs`.
//!
//! A path that begins with `$` (JSONPath) has a reply for each value that it finds. Any other is a
//! legacy path, whose reply is about one: the first that is found by what reads, the last that was
//! changed by what writes.

mod get;
mod merge;
mod path_cache;
mod read;
mod set;
mod update;

use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::spec::CommandSpec;
use petrel_json::{
    Action, BYTES_MAX, Batch, DEPTH_MAX, Document, Misfit, Parse, Path, Step, TooMuchWork, Value,
    parse,
};
use petrel_keyspace::{Handle, JsonChange, JsonError, Key, View};
use petrel_table::commands as meta;
use std::rc::Rc;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::JSON_SET, set::set),
    CommandSpec::new(&meta::JSON_GET, get::get),
    CommandSpec::new(&meta::JSON_MGET, get::mget),
    CommandSpec::new(&meta::JSON_MSET, set::mset),
    CommandSpec::new(&meta::JSON_MERGE, merge::merge),
    CommandSpec::new(&meta::JSON_DEL, set::del),
    CommandSpec::new(&meta::JSON_FORGET, set::del),
    CommandSpec::new(&meta::JSON_CLEAR, set::clear),
    CommandSpec::new(&meta::JSON_TYPE, read::type_of),
    CommandSpec::new(&meta::JSON_NUMINCRBY, update::num_incr_by),
    CommandSpec::new(&meta::JSON_NUMMULTBY, update::num_mult_by),
    CommandSpec::new(&meta::JSON_NUMPOWBY, update::num_pow_by),
    CommandSpec::new(&meta::JSON_STRAPPEND, update::str_append),
    CommandSpec::new(&meta::JSON_STRLEN, read::str_len),
    CommandSpec::new(&meta::JSON_TOGGLE, update::toggle),
    CommandSpec::new(&meta::JSON_ARRAPPEND, update::arr_append),
    CommandSpec::new(&meta::JSON_ARRINDEX, read::arr_index),
    CommandSpec::new(&meta::JSON_ARRINSERT, update::arr_insert),
    CommandSpec::new(&meta::JSON_ARRLEN, read::arr_len),
    CommandSpec::new(&meta::JSON_ARRPOP, update::arr_pop),
    CommandSpec::new(&meta::JSON_ARRTRIM, update::arr_trim),
    CommandSpec::new(&meta::JSON_OBJKEYS, read::obj_keys),
    CommandSpec::new(&meta::JSON_OBJLEN, read::obj_len),
    CommandSpec::new(&meta::JSON_RESP, read::resp),
    CommandSpec::new(&meta::JSON_DEBUG, read::debug),
];

const WRONG_TYPE: Fail = Fail::fixed("Existing key has wrong Redis type");
const NO_KEY: Fail =
    Fail::fixed("ERR could not perform this operation on a key that doesn't exist");
const NOT_UTF8: Fail = Fail::fixed("Couldn't parse as UTF-8 string");
const NOT_AN_INTEGER: Fail = Fail::fixed("Couldn't parse as integer");
const NOT_THERE: Fail = Fail::fixed("ERR Path does not exist");
const NO_ROOT: Fail = Fail::fixed("ERR new objects must be created at the root");

/// Bytes that changes made one by one may move; beyond, the document is copied once.
const MOVED_MAX: usize = 16 << 20;

/// Values that any path may find; in a long document it may be as many as it has, each once.
const FOUND_MAX: usize = 1 << 20;
/// Values that are to be changed and the steps to them together, which take some fifty bytes each;
/// in a long document they may be as many as it has bytes.
const STEPS_MAX: usize = 1 << 21;

const FOUND_TOO_MUCH: Fail = Fail::fixed("ERR the path matches too much: use fewer '..' and '*'");

impl From<TooMuchWork> for Fail {
    fn from(_: TooMuchWork) -> Self {
        FOUND_TOO_MUCH
    }
}

impl From<Misfit> for Fail {
    fn from(misfit: Misfit) -> Self {
        Fail::new(format!("ERR {misfit}"))
    }
}

impl From<JsonError> for Fail {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::WrongType => WRONG_TYPE,
            JsonError::NoKey => NO_KEY,
            JsonError::Misfit(misfit) => misfit.into(),
        }
    }
}

/// The document of a key, if it exists.
fn document<'v>(view: Option<View<'v>>) -> Result<Option<Value<'v>>, Fail> {
    view.map(|view| view.json().map_err(|_| WRONG_TYPE)).transpose()
}

/// A path as a client sent it. It is parsed once it is known that there is a document.
#[derive(Clone, Copy)]
struct Asked<'a>(&'a str);

impl Asked<'_> {
    fn is_legacy(self) -> bool {
        Path::is_legacy_text(self.0)
    }

    fn is_root(self) -> bool {
        matches!(self.0, "$" | ".")
    }

    fn path(self) -> Result<Rc<Path>, Fail> {
        path_cache::parse(self.0).map_err(|error| Fail::new(error.to_string()))
    }
}

/// Argument `i` as a path; the root, as a legacy path, if there is none.
fn path_at<'a>(ctx: &Ctx<'a>, i: usize) -> Result<Asked<'a>, Fail> {
    let text = ctx.args().get(i).copied().unwrap_or(b".");
    str::from_utf8(text).map(Asked).map_err(|_| NOT_UTF8)
}

/// Argument `i` as a JSON value.
fn value_at(ctx: &Ctx<'_>, i: usize, how: Parse) -> Result<Document, Fail> {
    let text = ctx.arg(i);
    if str::from_utf8(text).is_err() {
        return Err(NOT_UTF8);
    }
    parse(text, how).map_err(|error| Fail::new(error.to_string()))
}

/// Argument `i` as a JSON value, where errors in it have a code.
fn coded_value_at(ctx: &Ctx<'_>, i: usize) -> Result<Document, Fail> {
    let text = ctx.arg(i);
    if str::from_utf8(text).is_err() {
        return Err(NOT_UTF8);
    }
    parse(text, Parse::default()).map_err(|error| Fail::new(format!("ERR {error}")))
}

/// Argument `i` as an integer.
fn integer_at(ctx: &Ctx<'_>, i: usize) -> Result<i64, Fail> {
    ctx.integer(i).map_err(|_| NOT_AN_INTEGER)
}

/// The arguments from `i` on as JSON values: how many, their tapes, and how deep the deepest is.
fn values_at(ctx: &Ctx<'_>, i: usize) -> Result<(usize, Vec<u8>, usize), Fail> {
    let (mut tapes, mut depth) = (Vec::new(), 0);
    for i in i..ctx.args().len() {
        let value = value_at(ctx, i, Parse::default())?;
        depth = depth.max(value.root().depth());
        tapes.extend_from_slice(value.tape());
    }
    Ok((ctx.args().len() - i, tapes, depth))
}

/// A legacy path that has nothing of the kind that a command is for.
fn no_such(what: &str) -> Fail {
    Fail::new(format!("ERR Path does not exist or {what}"))
}

/// A value of another kind than a command is for.
fn wrong_kind(expected: &str) -> Fail {
    Fail::new(format!("WRONGTYPE wrong type of path value - expected {expected}"))
}

/// The first value that a path finds.
fn first<'d>(path: &Path, root: Value<'d>) -> Result<Option<Value<'d>>, Fail> {
    if path.is_static() {
        return Ok(path.find_static(root));
    }
    let mut first = None;
    path.find(root, &mut |value, _| {
        first.get_or_insert(value);
    })?;
    Ok(first)
}

/// All values that a path finds.
fn all<'d>(path: &Path, root: Value<'d>) -> Result<Vec<Value<'d>>, Fail> {
    if path.is_static() {
        return Ok(path.find_static(root).into_iter().collect());
    }
    let (mut found, max) = (Vec::new(), FOUND_MAX.max(root.tape().len()));
    path.find(root, &mut |value, _| {
        if found.len() <= max {
            found.push(value);
        }
    })?;
    if found.len() > max { Err(FOUND_TOO_MUCH) } else { Ok(found) }
}

/// Is shown values of a document, with the steps to each.
type Visit<'v, 'd> = dyn FnMut(Value<'d>, &[Step<'d>]) -> Result<(), Fail> + 'v;

/// Calls for all values that a path finds, with the steps to each, until it fails.
fn each<'d>(path: &Path, root: Value<'d>, visit: &mut Visit<'_, 'd>) -> Result<(), Fail> {
    let max = STEPS_MAX.max(root.tape().len());
    let (mut visited, mut count) = (Ok(()), 0);
    path.find(root, &mut |value, steps| {
        count += 1 + steps.len();
        if visited.is_ok() {
            visited = match count > max {
                true => Err(FOUND_TOO_MUCH),
                false => visit(value, steps),
            };
        }
    })?;
    visited
}

/// Whether what lies in so many containers may be so deep itself.
fn fits(outer: usize, depth: usize) -> bool {
    depth == 0 || outer + depth <= DEPTH_MAX
}

/// Adds what happens to a value of a document.
fn push(
    batch: &mut Batch,
    root: Value<'_>,
    (value, steps): (Value<'_>, &[Step<'_>]),
    action: Action,
) -> Result<(), Fail> {
    batch.push(root, value, steps, action);
    if batch.adds() > BYTES_MAX { Err(Misfit::TooLong.into()) } else { Ok(()) }
}

/// How changes of one document are made.
enum Plan {
    /// One by one, each with its own effect.
    Changes(Batch),
    /// All at once, since this is less.
    Whole(Document),
}

impl Plan {
    fn of(root: Value<'_>, mut batch: Batch) -> Result<Self, Fail> {
        batch.settle();
        let len = root.tape().len();
        if len + batch.adds() > BYTES_MAX {
            return Err(Misfit::TooLong.into());
        }
        let is_more = || batch.weight() > len || batch.len().saturating_mul(len) > MOVED_MAX;
        if batch.len() > 1 && is_more() {
            return Ok(Plan::Whole(batch.rewrite(root)?));
        }
        Ok(Plan::Changes(batch))
    }

    /// Makes the changes of the document at a key. They were checked: none fails.
    fn carry_out(&self, ks: &mut Handle, db: u16, key: Key<'_>) -> Result<(), Fail> {
        match self {
            Plan::Whole(document) => {
                ks.json_change(db, key, JsonChange::Put { tape: document.tape() })?;
            }
            Plan::Changes(batch) => {
                let mut made = Ok(());
                batch.each(&mut |change| {
                    if made.is_ok() {
                        made = ks.json_change(db, key, JsonChange::At(change));
                    }
                });
                made?;
            }
        }
        Ok(())
    }
}

/// Makes what happens to the value at a place of the document at a key.
fn carry_out_one(
    ks: &mut Handle,
    db: u16,
    key: Key<'_>,
    place: Vec<Step<'_>>,
    action: &Action,
) -> Result<(), Fail> {
    let mut made = Ok(());
    action.each(place, &mut |change| {
        if made.is_ok() {
            made = ks.json_change(db, key, JsonChange::At(change));
        }
    });
    Ok(made?)
}
