//! JSON.GET and JSON.MGET: values as text; RESP3 may have them as replies (`FORMAT`).

use super::budget::Budget;
use super::read::{Found, write_number, writing};
use super::{Asked, NOT_THERE, document, first, path_at};
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use petrel_json::{Document, Format, Kind, Path, Value, Values, print};
use petrel_resp::{Protocol, Reply};
use petrel_table::options::{JsonGetOption, Reader, Unread};
use std::cell::Cell;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Reply format of values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// As text.
    Text,
    /// As replies, including values within containers.
    Expand,
    /// As replies; containers and strings as text.
    Expand1,
}

impl Form {
    /// Parses a format's name; `text` is the name of the text format.
    pub fn from_name(name: &[u8], text: &str) -> Result<Self, Fail> {
        let forms = [(text, Form::Text), ("EXPAND", Form::Expand), ("EXPAND1", Form::Expand1)];
        let found = forms.into_iter().find(|(word, _)| name.eq_ignore_ascii_case(word.as_bytes()));
        found.map(|(_, form)| form).ok_or(Fail::fixed("ERR wrong reply format"))
    }

    /// Rejects formats other than text in RESP2.
    pub fn check(reply: &dyn Reply) -> Outcome {
        match reply.protocol() {
            Protocol::Resp3 => Ok(()),
            _ => Err(Fail::fixed("ERR FORMAT argument is not supported on RESP2")),
        }
    }

    /// Writes a value.
    pub fn write(self, value: Value<'_>, reply: &mut dyn Reply) {
        match (self, value.kind()) {
            (Form::Text, _) | (Form::Expand1, Kind::Array | Kind::Object | Kind::String) => {
                write_text(value, reply);
            }
            (_, Kind::Null) => reply.null(),
            (_, Kind::Boolean) => reply.boolean(value.boolean() == Some(true)),
            (_, Kind::Integer | Kind::Double) => write_number(value, reply),
            (_, Kind::String) => reply.bulk(value.string().unwrap_or_default()),
            (_, Kind::Array) => {
                reply.array(value.len());
                for item in value.items() {
                    if reply.is_dropped() {
                        return;
                    }
                    self.write(item, reply);
                }
            }
            (_, Kind::Object) => {
                reply.map(value.len());
                for (name, value) in value.members() {
                    if reply.is_dropped() {
                        return;
                    }
                    reply.bulk(name);
                    self.write(value, reply);
                }
            }
        }
    }
}

/// Maximum size of a text buffer that a thread keeps, in bytes. A longer one becomes part of the
/// reply.
const TEXT_KEPT_MAX: usize = 64 << 10;

/// Maximum bytes of all paths of a JSON.GET; parsed, they take fifty times as much.
const PATHS_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// Memory of the last text.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `write` with an empty text buffer. The buffer's memory is kept per thread for reuse.
pub(super) fn with_text<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut text = TEXT.take();
    let result = write(&mut text);
    if text.capacity() <= TEXT_KEPT_MAX {
        text.clear();
        TEXT.set(text);
    }
    result
}

/// Writes a text. A long text moves into the reply, others are copied.
fn write_whole(text: &mut Vec<u8>, reply: &mut dyn Reply) {
    match text.len() > TEXT_KEPT_MAX {
        true => reply.shared(std::mem::take(text).into()),
        false => reply.bulk(text),
    }
}

fn write_text(value: Value<'_>, reply: &mut dyn Reply) {
    let format = Format { len_max: reply.room_left(), ..Format::default() };
    with_text(|text| {
        print(value, &format, text);
        if text.len() > format.len_max { reply.refuse() } else { write_whole(text, reply) }
    });
}

/// Format that stops printing at the length limit, or once the reply is full.
fn ended<'f>(format: &Format<'f>, reply: &dyn Reply) -> Format<'f> {
    Format { len_max: format.len_max.min(reply.room_left()), ..*format }
}

/// Writes a text, unless it exceeds the length limit.
fn write(reply: &mut dyn Reply, format: &Format<'_>, text: &mut Vec<u8>) -> Outcome {
    if text.len() > format.len_max {
        return Err(Fail::STRING_TOO_LONG);
    }
    if text.len() > reply.room_left() {
        reply.refuse()
    } else {
        write_whole(text, reply)
    }
    Ok(())
}

/// Appends all values that a path finds, as elements of an array.
fn print_found(
    path: &Path,
    root: Value<'_>,
    (format, level): (&Format<'_>, usize),
    budget: &mut Budget,
    text: &mut Vec<u8>,
) -> Outcome {
    let mut values = Values::begin(format, level, text);
    if path.is_static() {
        if let Some(value) = path.find_static(root) {
            values.add(value, text);
        }
        values.end(text);
        return Ok(());
    }
    if let Some(made) = projected(path, root, budget)? {
        for value in made.root().items() {
            values.add(value, text);
            budget.memory.hold(made.tape().len() + text.capacity())?;
        }
        values.end(text);
        return Ok(());
    }
    let (Budget { work, memory }, mut added) = (budget, Ok(()));
    path.search(root, work, &mut |value, _, work| {
        added = work.spend(writing(value)).map_err(Fail::from).and_then(|()| {
            values.add(value, text);
            memory.hold(text.capacity())
        });
        // The rest would be cut off.
        let is_full = text.len() > format.len_max;
        if added.is_ok() && !is_full { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    added?;
    values.end(text);
    Ok(())
}

/// The values of a projection, as an array, with the steps for writing them; none of a path.
fn projected(path: &Path, root: Value<'_>, budget: &mut Budget) -> Result<Option<Document>, Fail> {
    let made = path.project(root, &mut budget.work)?;
    if let Some(made) = &made {
        budget.work.spend(writing(made.root()))?;
        budget.memory.hold(made.tape().len())?;
    }
    Ok(made)
}

/// Options of JSON.GET.
struct Options<'a> {
    format: Format<'a>,
    form: Form,
}

impl<'a> Options<'a> {
    /// Takes the next word with its operand if it is an option; false if it is a path.
    fn take(
        &mut self,
        ctx: &Ctx<'a>,
        words: &mut Reader<'a, JsonGetOption<'a>>,
    ) -> Result<bool, Fail> {
        let mut ahead = *words;
        let option = match ahead.next() {
            Some(Err(Unread::Incomplete(word))) => {
                if word.eq_ignore_ascii_case(b"FORMAT") {
                    Form::check(ctx.reply)?;
                }
                return Err(ctx.wrong_arity());
            }
            Some(Ok(option)) => option,
            Some(Err(Unread::Unknown(_))) | None => return Ok(false),
        };
        *words = ahead;
        let (place, text) = match option {
            // `NOESCAPE` is accepted without effect, as in RedisJSON.
            JsonGetOption::Noescape => return Ok(true),
            JsonGetOption::Format(name) => {
                Form::check(ctx.reply)?;
                self.form = Form::from_name(name, "STRING")?;
                return Ok(true);
            }
            JsonGetOption::Indent(text) => (&mut self.format.indent, text),
            JsonGetOption::Newline(text) => (&mut self.format.newline, text),
            JsonGetOption::Space(text) => (&mut self.format.space, text),
        };
        str::from_utf8(text).map_err(|_| super::NOT_UTF8)?;
        *place = text;
        Ok(true)
    }
}

/// `JSON.GET key [INDENT indent] [NEWLINE newline] [SPACE space] [FORMAT form] [path [path ...]]`
pub(super) fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let format = Format { len_max: ctx.host.string_len_max(), ..Format::default() };
    let mut options = Options { format, form: Form::Text };
    let mut words = ctx.options(2);
    while options.take(ctx, &mut words)? {}
    if words.left() > 1 || options.form != Form::Text {
        return get_several(ctx, options, words);
    }
    let asked = path_at(ctx, ctx.position(&words))?;
    get_one(ctx, &options.format, asked)
}

/// Replies with the matches of one path as text.
fn get_one(ctx: &mut Ctx<'_>, format: &Format<'_>, asked: Asked<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let (reply, Executor { ks, paths, .. }) = (&mut *ctx.reply, &mut *ctx.exec);
    // A key that is not there precedes a path that is none.
    let path = asked.query(paths);
    let is_static = path.as_ref().is_ok_and(|path| path.is_static());
    let mut budget = if is_static { Budget::of_one_value() } else { Budget::of_many(ks) };
    let Some(root) = document(ks.read(db, key))? else {
        reply.null();
        return Ok(());
    };
    let (path, shorter) = (path?, ended(format, reply));
    with_text(|text| {
        if path.is_legacy() {
            print(first(&path, root, &mut budget)?.ok_or(NOT_THERE)?, &shorter, text);
        } else {
            print_found(&path, root, (&shorter, 0), &mut budget, text)?;
        }
        write(reply, format, text)
    })
}

/// Replies with the matches of several paths: an object with each path as a name. If any is a
/// JSONPath, all values are arrays.
fn get_several<'a>(
    ctx: &mut Ctx<'a>,
    mut options: Options<'a>,
    mut words: Reader<'a, JsonGetOption<'a>>,
) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let (mut asked, mut bytes) = (Vec::new(), 0);
    // Options may follow paths, too.
    while words.left() > 0 {
        if !options.take(ctx, &mut words)? {
            let path = path_at(ctx, ctx.position(&words))?;
            bytes += path.0.len();
            asked.push(path);
            words.word();
        }
    }
    if asked.is_empty() {
        asked.push(path_at(ctx, ctx.args().len())?);
    }
    let Options { format, form } = options;
    if let ([path], Form::Text) = (&asked[..], form) {
        return get_one(ctx, &format, *path);
    }
    let mut budget = Budget::of_many(&ctx.exec.ks);
    let (reply, Executor { ks, paths, .. }) = (&mut *ctx.reply, &mut *ctx.exec);
    let Some(root) = document(ks.read(db, key))? else {
        reply.null();
        return Ok(());
    };
    if bytes > PATHS_BYTES_MAX {
        let text = format!("ERR the paths have more than {PATHS_BYTES_MAX} bytes: ask for fewer");
        return Err(Fail::new(text));
    }
    let parse = |asked: Asked<'a>| asked.query(paths);
    let paths = asked.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if form != Form::Text {
        return write_found(&paths, root, form, &mut budget, reply);
    }
    let (mut text, shorter) = (Vec::new(), ended(&format, reply));
    print_several(&paths, root, &shorter, &mut budget, &mut text)?;
    write(reply, &format, &mut text)
}

/// Replies with the matches of each path in RESP.
fn write_found(
    paths: &[Arc<Path>],
    root: Value<'_>,
    form: Form,
    budget: &mut Budget,
    reply: &mut dyn Reply,
) -> Outcome {
    let find = |path: &Arc<Path>| Found::of(path, root, budget, writing);
    let found = paths.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    reply.array(found.len());
    for (path, found) in paths.iter().zip(found) {
        reply.array(found.count());
        found.each(path, root, &mut |value| form.write(value, reply));
    }
    Ok(())
}

/// Appends an object with the matches of each path.
fn print_several(
    paths: &[Arc<Path>],
    root: Value<'_>,
    format: &Format<'_>,
    budget: &mut Budget,
    text: &mut Vec<u8>,
) -> Outcome {
    let is_legacy = paths.iter().all(|path| path.is_legacy());
    let (mut named, mut firsts) = (Values::begin_named(format, text), HashSet::new());
    for path in paths {
        let value = match is_legacy {
            true => Some(first(path, root, budget)?.ok_or(NOT_THERE)?),
            false => None,
        };
        if !firsts.insert(path.text()) {
            continue;
        }
        named.name(path.text().as_bytes(), text);
        match value {
            Some(value) => {
                named.value(value, text);
                budget.memory.hold(text.capacity())?;
            }
            None => print_found(path, root, (format, 1), budget, text)?,
        }
    }
    named.end(text);
    Ok(())
}

/// `JSON.MGET key [key ...] path`
pub(super) fn mget(ctx: &mut Ctx<'_>) -> Outcome {
    let last = ctx.args().len() - 1;
    let (db, asked) = (ctx.db(), path_at(ctx, last)?);
    let mut budget = Budget::of_many(&ctx.exec.ks);
    let path = asked.query(&mut ctx.exec.paths)?;
    // All keys are checked against the budget before anything is written.
    for i in 1..last {
        let key = ctx.key(i);
        if let Some(root) = ctx.exec.ks.peek(db, key).and_then(|view| view.json().ok()) {
            estimate(&path, root, &mut budget)?;
        }
    }
    let mut budget = Budget::of_many(&ctx.exec.ks);
    ctx.reply.array(last - 1);
    for i in 1..last {
        let key = ctx.key(i);
        let reply = &mut *ctx.reply;
        if reply.is_dropped() {
            break;
        }
        // A key of another type counts as none.
        match ctx.exec.ks.read(db, key).and_then(|view| view.json().ok()) {
            Some(root) => write_one(&path, root, &mut budget, reply),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Takes the steps for writing the matches of a path.
fn estimate(path: &Path, root: Value<'_>, budget: &mut Budget) -> Outcome {
    if path.is_legacy() {
        let value = first(path, root, budget)?;
        return Ok(budget.work.spend(value.map_or(0, writing))?);
    }
    if projected(path, root, budget)?.is_some() {
        return Ok(());
    }
    let mut taken = Ok(());
    path.search(root, &mut budget.work, &mut |value, _, work| {
        taken = work.spend(writing(value));
        if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(taken?)
}

/// Writes the matches of a path in one of several documents, after [`estimate`].
fn write_one(path: &Path, root: Value<'_>, budget: &mut Budget, reply: &mut dyn Reply) {
    let format = ended(&Format::default(), reply);
    with_text(|text| {
        let printed = match path.is_legacy() {
            true => first(path, root, budget)
                .map(|value| value.inspect(|value| print(*value, &format, text)).is_some()),
            false => print_found(path, root, (&format, 0), budget, text).map(|()| true),
        };
        match printed {
            Ok(true) if text.len() <= format.len_max => write_whole(text, reply),
            Ok(false) => reply.null(),
            // The reply has begun, and no memory is left for the rest.
            _ => reply.refuse(),
        }
    });
}
