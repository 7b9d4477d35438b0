//! JSON.GET and JSON.MGET: values as text; RESP3 may have them as replies (`FORMAT`).

use super::read::write_number;
use super::{Asked, NOT_THERE, all, document, first, path_at};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use petrel_json::{Format, Kind, Value, print};
use petrel_resp::{Protocol, Reply};
use petrel_table::options::{JsonGetOption, Reader, Unread};
use std::cell::Cell;

/// How values are answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// As text.
    Text,
    /// As replies, those in containers too.
    Expand,
    /// As replies, containers and strings as text.
    Expand1,
}

impl Form {
    /// By its name, where text is called `text`.
    pub fn from_name(name: &[u8], text: &str) -> Result<Self, Fail> {
        let forms = [(text, Form::Text), ("EXPAND", Form::Expand), ("EXPAND1", Form::Expand1)];
        let found = forms.into_iter().find(|(word, _)| name.eq_ignore_ascii_case(word.as_bytes()));
        found.map(|(_, form)| form).ok_or(Fail::fixed("ERR wrong reply format"))
    }

    /// Only RESP3 has forms.
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
                value.items().for_each(|item| self.write(item, reply));
            }
            (_, Kind::Object) => {
                reply.map(value.len());
                for (name, value) in value.members() {
                    reply.bulk(name);
                    self.write(value, reply);
                }
            }
        }
    }
}

/// Bytes of a text whose memory a thread keeps, at most.
const TEXT_KEPT_MAX: usize = 64 << 10;

thread_local! {
    /// The memory of the last text.
    static TEXT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls with an empty buffer for a text, whose memory is used again.
pub(super) fn with_text<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut text = TEXT.take();
    let result = write(&mut text);
    if text.capacity() <= TEXT_KEPT_MAX {
        text.clear();
        TEXT.set(text);
    }
    result
}

fn write_text(value: Value<'_>, reply: &mut dyn Reply) {
    with_text(|text| {
        print(value, &Format::default(), text);
        reply.bulk(text);
    });
}

/// Writes a text, unless it is too long.
fn write(reply: &mut dyn Reply, format: &Format<'_>, text: &[u8]) -> Outcome {
    if text.len() > format.len_max {
        return Err(Fail::STRING_TOO_LONG);
    }
    reply.bulk(text);
    Ok(())
}

/// What JSON.GET is asked beside paths.
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
            // It means nothing any more.
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

/// Values of one path as text.
fn get_one(ctx: &mut Ctx<'_>, format: &Format<'_>, asked: Asked<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let Some(root) = document(ctx.exec.ks.read(db, key))? else {
        ctx.reply.null();
        return Ok(());
    };
    let path = asked.path()?;
    with_text(|text| {
        if path.is_legacy() {
            print(first(&path, root)?.ok_or(NOT_THERE)?, format, text);
        } else if path.is_static() {
            format.print_values(path.find_static(root).as_slice(), text);
        } else {
            format.print_values(&all(&path, root)?, text);
        }
        write(ctx.reply, format, text)
    })
}

/// Values of several paths: an object that has those of each under its path. One JSONPath among
/// them, and each has an array of values.
fn get_several<'a>(
    ctx: &mut Ctx<'a>,
    mut options: Options<'a>,
    mut words: Reader<'a, JsonGetOption<'a>>,
) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let mut paths = Vec::new();
    // Options may stand behind a path too.
    while words.left() > 0 {
        if !options.take(ctx, &mut words)? {
            paths.push(path_at(ctx, ctx.position(&words))?);
            words.word();
        }
    }
    if paths.is_empty() {
        paths.push(path_at(ctx, ctx.args().len())?);
    }
    let Options { format, form } = options;
    if let ([path], Form::Text) = (&paths[..], form) {
        return get_one(ctx, &format, *path);
    }
    let Some(root) = document(ctx.exec.ks.read(db, key))? else {
        ctx.reply.null();
        return Ok(());
    };
    let paths = paths.into_iter().map(Asked::path).collect::<Result<Vec<_>, _>>()?;
    if form != Form::Text {
        let found = paths.iter().map(|path| all(path, root)).collect::<Result<Vec<_>, _>>()?;
        ctx.reply.array(found.len());
        for values in found {
            ctx.reply.array(values.len());
            values.into_iter().for_each(|value| form.write(value, ctx.reply));
        }
        return Ok(());
    }
    let mut text = Vec::new();
    if paths.iter().all(|path| path.is_legacy()) {
        let mut firsts: Vec<(&[u8], Value<'_>)> = Vec::with_capacity(paths.len());
        for path in &paths {
            let value = first(path, root)?.ok_or(NOT_THERE)?;
            if !firsts.iter().any(|(name, _)| *name == path.text().as_bytes()) {
                firsts.push((path.text().as_bytes(), value));
            }
        }
        format.print_firsts(&firsts, &mut text);
    } else {
        let mut found: Vec<(&[u8], Vec<Value<'_>>)> = Vec::with_capacity(paths.len());
        for path in &paths {
            if !found.iter().any(|(name, _)| *name == path.text().as_bytes()) {
                found.push((path.text().as_bytes(), all(path, root)?));
            }
        }
        format.print_found(&found, &mut text);
    }
    write(ctx.reply, &format, &text)
}

/// `JSON.MGET key [key ...] path`
pub(super) fn mget(ctx: &mut Ctx<'_>) -> Outcome {
    let last = ctx.args().len() - 1;
    let (db, path) = (ctx.db(), path_at(ctx, last)?.path()?);
    let mut texts: Vec<Option<Vec<u8>>> = Vec::with_capacity(last - 1);
    for i in 1..last {
        let key = ctx.key(i);
        // A key of another type counts as none.
        let root = ctx.exec.ks.read(db, key).and_then(|view| view.json().ok());
        let mut text = Vec::new();
        let is_there = match root {
            Some(root) if path.is_legacy() => {
                let value = first(&path, root)?;
                value.inspect(|value| print(*value, &Format::default(), &mut text)).is_some()
            }
            Some(root) => {
                Format::default().print_values(&all(&path, root)?, &mut text);
                true
            }
            None => false,
        };
        texts.push(is_there.then_some(text));
    }
    ctx.reply.array(texts.len());
    for text in texts {
        match text {
            Some(text) => ctx.reply.bulk(&text),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}
