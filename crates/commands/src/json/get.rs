//! JSON.GET and JSON.MGET: values as text; RESP3 may have them as replies (`FORMAT`).

use super::read::{is_missing, write_number};
use super::{all, document, first, path_at};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use petrel_json::{Format, Kind, Value, print};
use petrel_resp::{Protocol, Reply};
use std::cell::Cell;

/// How values are answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// As text.
    Text,
    /// As replies, those in containers too.
    Expand,
    /// As replies, containers as text.
    Expand1,
}

impl Form {
    /// By its name, where text is called `text`.
    pub fn from_name(name: &[u8], text: &str, protocol: Protocol) -> Result<Self, Fail> {
        let forms = [(text, Form::Text), ("EXPAND", Form::Expand), ("EXPAND1", Form::Expand1)];
        let found = forms.into_iter().find(|(word, _)| name.eq_ignore_ascii_case(word.as_bytes()));
        let (_, form) = found.ok_or(Fail::fixed("ERR wrong reply format"))?;
        match protocol {
            Protocol::Resp3 => Ok(form),
            _ => Err(Fail::fixed("ERR FORMAT argument is not supported on RESP2")),
        }
    }

    /// Writes a value.
    pub fn write(self, value: Value<'_>, reply: &mut dyn Reply) {
        match (self, value.kind()) {
            (Form::Text, _) | (Form::Expand1, Kind::Array | Kind::Object) => {
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

struct Options<'a> {
    format: Format<'a>,
    form: Form,
    /// Where the paths begin.
    paths: usize,
}

fn options<'a>(ctx: &Ctx<'a>) -> Result<Options<'a>, Fail> {
    let format = Format { len_max: ctx.host.string_len_max(), ..Format::default() };
    let mut options = Options { format, form: Form::Text, paths: 2 };
    while options.paths < ctx.args().len() {
        let i = options.paths;
        // It means nothing any more.
        if ctx.is(i, "NOESCAPE") {
            options.paths += 1;
            continue;
        }
        let is_option = ["INDENT", "NEWLINE", "SPACE", "FORMAT"].iter().any(|name| ctx.is(i, name));
        if !is_option {
            break;
        }
        let text = *ctx.args().get(i + 1).ok_or_else(|| ctx.wrong_arity())?;
        if ctx.is(i, "FORMAT") {
            options.form = Form::from_name(text, "STRING", ctx.reply.protocol())?;
        } else {
            str::from_utf8(text).map_err(|_| super::NOT_UTF8)?;
            let format = &mut options.format;
            *match ctx.arg(i)[0].to_ascii_uppercase() {
                b'I' => &mut format.indent,
                b'N' => &mut format.newline,
                _ => &mut format.space,
            } = text;
        }
        options.paths += 2;
    }
    Ok(options)
}

/// `JSON.GET key [INDENT indent] [NEWLINE newline] [SPACE space] [path [path ...]]`
pub(super) fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let Options { format, form, paths: from } = options(ctx)?;
    let count = ctx.args().len().saturating_sub(from);
    let (key, db) = (ctx.key(1), ctx.db());
    if count > 1 || form != Form::Text {
        return get_several(ctx, (format, form), from);
    }
    let path = path_at(ctx, from)?;
    let Some(root) = document(ctx.exec.ks.read(db, key))? else {
        ctx.reply.null();
        return Ok(());
    };
    with_text(|text| {
        if path.is_legacy() {
            print(first(&path, root)?.ok_or_else(|| is_missing(&path))?, &format, text);
        } else if path.is_static() {
            format.print_values(path.find_static(root).as_slice(), text);
        } else {
            format.print_values(&all(&path, root)?, text);
        }
        write(ctx.reply, &format, text)
    })
}

/// Values of several paths: an object that has those of each under its path. One JSONPath among
/// them, and each has an array of values.
fn get_several(ctx: &mut Ctx<'_>, (format, form): (Format<'_>, Form), from: usize) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let until = ctx.args().len().max(from + 1);
    let paths = (from..until).map(|i| path_at(ctx, i)).collect::<Result<Vec<_>, _>>()?;
    let Some(root) = document(ctx.exec.ks.read(db, key))? else {
        ctx.reply.null();
        return Ok(());
    };
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
            let value = first(path, root)?.ok_or_else(|| is_missing(path))?;
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
    let (db, path) = (ctx.db(), path_at(ctx, last)?);
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
