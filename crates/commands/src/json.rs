//! JSON documents, compatible with RedisJSON. Reads: `json/read.rs`, `json/get.rs`; replacement of
//! values: `json/set.rs`; changes in place: `json/update.rs`.
//!
//! A path that begins with `$` (JSONPath) has a reply per match. Any other path is a legacy path
//! with one reply: the first match for reads, the last changed value for writes.

mod budget;
mod get;
mod merge;
mod path_cache;
mod read;
mod set;
mod update;

use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::long::expect;
use crate::spec::CommandSpec;
use budget::{Budget, Memory};
pub(crate) use path_cache::PathCache;
use petrel_json::{
    Action, BYTES_MAX, Batch, DEPTH_MAX, Document, Misfit, Parse, Path, SearchError, Step, Value,
    parse,
};
use petrel_keyspace::{Handle, JsonChange, JsonError, Key, View};
use petrel_table::commands as meta;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Wraps a handler so that the memory of cached paths is counted afterwards.
macro_rules! counted {
    ($handler:path) => {
        |ctx| {
            let outcome = $handler(ctx);
            let Executor { paths, ks, .. } = &mut *ctx.exec;
            paths.settle(ks);
            outcome
        }
    };
}

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::JSON_SET, counted!(set::set)),
    CommandSpec::new(&meta::JSON_GET, counted!(get::get)),
    CommandSpec::new(&meta::JSON_MGET, counted!(get::mget)),
    CommandSpec::new(&meta::JSON_MSET, counted!(set::mset)),
    CommandSpec::new(&meta::JSON_MERGE, counted!(merge::merge)),
    CommandSpec::new(&meta::JSON_DEL, counted!(set::del)),
    CommandSpec::new(&meta::JSON_FORGET, counted!(set::del)),
    CommandSpec::new(&meta::JSON_CLEAR, counted!(set::clear)),
    CommandSpec::new(&meta::JSON_TYPE, counted!(read::type_of)),
    CommandSpec::new(&meta::JSON_NUMINCRBY, counted!(update::num_incr_by)),
    CommandSpec::new(&meta::JSON_NUMMULTBY, counted!(update::num_mult_by)),
    CommandSpec::new(&meta::JSON_NUMPOWBY, counted!(update::num_pow_by)),
    CommandSpec::new(&meta::JSON_STRAPPEND, counted!(update::str_append)),
    CommandSpec::new(&meta::JSON_STRLEN, counted!(read::str_len)),
    CommandSpec::new(&meta::JSON_TOGGLE, counted!(update::toggle)),
    CommandSpec::new(&meta::JSON_ARRAPPEND, counted!(update::arr_append)),
    CommandSpec::new(&meta::JSON_ARRINDEX, counted!(read::arr_index)),
    CommandSpec::new(&meta::JSON_ARRINSERT, counted!(update::arr_insert)),
    CommandSpec::new(&meta::JSON_ARRLEN, counted!(read::arr_len)),
    CommandSpec::new(&meta::JSON_ARRPOP, counted!(update::arr_pop)),
    CommandSpec::new(&meta::JSON_ARRTRIM, counted!(update::arr_trim)),
    CommandSpec::new(&meta::JSON_OBJKEYS, counted!(read::obj_keys)),
    CommandSpec::new(&meta::JSON_OBJLEN, counted!(read::obj_len)),
    CommandSpec::new(&meta::JSON_RESP, counted!(read::resp)),
    CommandSpec::new(&meta::JSON_DEBUG, counted!(read::debug)),
];

const WRONG_TYPE: Fail = Fail::fixed("Existing key has wrong Redis type");
const NO_KEY: Fail =
    Fail::fixed("ERR could not perform this operation on a key that doesn't exist");
const NOT_UTF8: Fail = Fail::fixed("Couldn't parse as UTF-8 string");
const NOT_AN_INTEGER: Fail = Fail::fixed("Couldn't parse as integer");
const NOT_THERE: Fail = Fail::fixed("ERR Path does not exist");
const COMPUTED: Fail = Fail::fixed(
    "ERR the path computes values, which only JSON.GET, JSON.MGET and JSON.RESP can reply with",
);
const NO_ROOT: Fail = Fail::fixed("ERR new objects must be created at the root");

/// Maximum bytes that single changes may move; beyond, the document is copied once.
const MOVED_MAX: usize = 16 << 20;

const FOUND_TOO_MUCH: Fail = Fail::fixed("ERR the path matches too much: use fewer '..' and '*'");

impl From<SearchError> for Fail {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::TooMuchWork => FOUND_TOO_MUCH,
            SearchError::Pattern => Fail::new(format!("ERR {error}")),
        }
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

/// Path as a client sent it. It is parsed only if a document exists.
#[derive(Clone, Copy)]
struct Asked<'a>(&'a str);

impl Asked<'_> {
    fn is_legacy(self) -> bool {
        Path::is_legacy_text(self.0)
    }

    fn is_root(self) -> bool {
        matches!(self.0, "$" | ".")
    }

    /// The path to values.
    fn path(self, paths: &mut PathCache) -> Result<Arc<Path>, Fail> {
        let path = self.query(paths)?;
        if path.is_projection() { Err(COMPUTED) } else { Ok(path) }
    }

    /// The path, or the projection, which computes values.
    fn query(self, paths: &mut PathCache) -> Result<Arc<Path>, Fail> {
        paths.parse(self.0).map_err(|error| Fail::new(error.to_string()))
    }

    /// Whether the path can match at most one value and is no projection, judged by its characters.
    fn is_plain(self) -> bool {
        let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b':' | b',' | b'(' | b'~' | b' ');
        !self.0.bytes().any(|byte| is_special(&byte)) && !self.0.contains("..")
    }
}

/// Argument `i` as a path; without that argument, the root as a legacy path.
fn path_at<'a>(ctx: &Ctx<'a>, i: usize) -> Result<Asked<'a>, Fail> {
    let text = ctx.args().get(i).copied().unwrap_or(b".");
    str::from_utf8(text).map(Asked).map_err(|_| NOT_UTF8)
}

/// Bytes of text that are parsed per unit of work.
const BYTES_PARSED_PER_UNIT: usize = 4;

/// Argument `i` as a JSON value.
fn value_at(ctx: &Ctx<'_>, i: usize, how: Parse) -> Result<Document, Fail> {
    let text = ctx.arg(i);
    expect(text.len() / BYTES_PARSED_PER_UNIT, ctx.exec.units_here)?;
    if str::from_utf8(text).is_err() {
        return Err(NOT_UTF8);
    }
    parse(text, how).map_err(|error| Fail::new(error.to_string()))
}

/// Argument `i` as a JSON value; syntax errors get an error code.
fn coded_value_at(ctx: &Ctx<'_>, i: usize) -> Result<Document, Fail> {
    let text = ctx.arg(i);
    expect(text.len() / BYTES_PARSED_PER_UNIT, ctx.exec.units_here)?;
    if str::from_utf8(text).is_err() {
        return Err(NOT_UTF8);
    }
    parse(text, Parse::default()).map_err(|error| Fail::new(format!("ERR {error}")))
}

/// Argument `i` as an integer.
fn integer_at(ctx: &Ctx<'_>, i: usize) -> Result<i64, Fail> {
    ctx.integer(i).map_err(|_| NOT_AN_INTEGER)
}

/// Arguments from `i` on as JSON values: their number, their tapes, and the largest depth.
fn values_at(ctx: &Ctx<'_>, i: usize) -> Result<(usize, Vec<u8>, usize), Fail> {
    let (mut tapes, mut depth) = (Vec::new(), 0);
    for i in i..ctx.args().len() {
        let value = value_at(ctx, i, Parse::default())?;
        depth = depth.max(value.root().depth());
        tapes.extend_from_slice(value.tape());
    }
    Ok((ctx.args().len() - i, tapes, depth))
}

/// Error of a legacy path without a match of the right kind.
fn no_such(what: &str) -> Fail {
    Fail::new(format!("ERR Path does not exist or {what}"))
}

/// Error of a value of another kind.
fn wrong_kind(expected: &str) -> Fail {
    Fail::new(format!("WRONGTYPE wrong type of path value - expected {expected}"))
}

/// First match of a path.
fn first<'d>(path: &Path, root: Value<'d>, budget: &mut Budget) -> Result<Option<Value<'d>>, Fail> {
    if path.is_static() {
        return Ok(path.find_static(root));
    }
    let mut first = None;
    path.search(root, &mut budget.work, &mut |value, _, _| {
        first = Some(value);
        ControlFlow::Break(())
    })?;
    Ok(first)
}

/// Callback for values of a document, with the path to each and the memory budget.
type Visit<'v, 'd> = dyn FnMut(Value<'d>, &[Step<'d>], &mut Memory) -> Outcome + 'v;

/// Calls `visit` for all matches of a path until it fails. Each match costs the steps of copying
/// the value, and of looking at its elements.
fn each<'d>(
    path: &Path,
    root: Value<'d>,
    budget: &mut Budget,
    visit: &mut Visit<'_, 'd>,
) -> Outcome {
    let Budget { work, memory } = budget;
    let mut visited = Ok(());
    path.search(root, work, &mut |value, steps, work| {
        let taken = work.spend(value.len() as u64 / 4);
        let taken = taken.and_then(|()| work.spend_bytes(value.tape().len()));
        visited = taken.map_err(Fail::from).and_then(|()| visit(value, steps, memory));
        if visited.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    visited
}

/// Whether a value of this depth fits below `outer` containers within `DEPTH_MAX`.
fn fits(outer: usize, depth: usize) -> bool {
    depth == 0 || outer + depth <= DEPTH_MAX
}

/// Adds an action on a value to the batch. `bytes` is memory held beside the batch, for the limit.
fn push<'a>(
    batch: &mut Batch<'a>,
    root: Value<'_>,
    (value, steps): (Value<'_>, &[Step<'_>]),
    action: Action<'a>,
    (memory, bytes): (&mut Memory, usize),
) -> Outcome {
    batch.push(root, value, steps, action);
    if batch.adds() > BYTES_MAX {
        return Err(Misfit::TooLong.into());
    }
    memory.hold(batch.footprint() + bytes)
}

/// Write plan of one document.
enum Plan<'a> {
    /// Single changes, each with its own effect.
    Changes(Batch<'a>),
    /// Replacement of the whole document, because it is smaller than the single changes.
    Whole(Document),
}

impl<'a> Plan<'a> {
    fn of(root: Value<'_>, mut batch: Batch<'a>, memory: &mut Memory) -> Result<Self, Fail> {
        batch.settle();
        let len = root.tape().len();
        if len + batch.adds() > BYTES_MAX {
            return Err(Misfit::TooLong.into());
        }
        let is_more = || batch.weight() > len || batch.len().saturating_mul(len) > MOVED_MAX;
        if batch.len() > 1 && is_more() {
            memory.hold(batch.footprint() + len + batch.adds())?;
            return Ok(Plan::Whole(batch.rewrite(root)?));
        }
        memory.hold(batch.footprint() + batch.adds())?;
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

/// Applies an action to the value at a place of the document at a key.
fn carry_out_one(
    ks: &mut Handle,
    db: u16,
    key: Key<'_>,
    place: Vec<Step<'_>>,
    action: &Action<'_>,
) -> Outcome {
    let mut made = Ok(());
    action.each(place, &mut |change| {
        if made.is_ok() {
            made = ks.json_change(db, key, JsonChange::At(change));
        }
    });
    Ok(made?)
}
