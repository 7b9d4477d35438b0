//! Replies of `FT.SEARCH`, in both protocols.

use crate::ctx::Ctx;
use crate::fail::Outcome;
use crate::search::load::{Loaded, Loader, Shown, print_general};
use crate::search::query::Options;
use crate::search::stored::write_value;
use petrel_resp::{Protocol, Reply};
use petrel_search::index::search::SortKey;
use petrel_search::query::Explanation;

const TIMED_OUT: &str = "Timeout limit was reached";

/// Writes the page.
pub(super) fn write(
    ctx: &mut Ctx<'_>,
    options: &Options<'_>,
    total: usize,
    loader: &Loader,
    timed_out: bool,
) -> Outcome {
    match ctx.reply.protocol() {
        Protocol::Resp2 => write_flat(ctx.reply, options, total, loader),
        Protocol::Resp3 => write_map(ctx.reply, options, total, loader, timed_out),
    }
    Ok(())
}

/// Whether the fields of results are part of the reply.
fn has_fields(options: &Options<'_>) -> bool {
    !options.no_content && options.returned.as_ref().is_none_or(|returned| !returned.is_empty())
}

fn write_flat(reply: &mut dyn Reply, options: &Options<'_>, total: usize, loader: &Loader) {
    let parts = 1
        + usize::from(options.with_scores)
        + usize::from(options.with_payloads)
        + usize::from(options.with_sort_keys)
        + usize::from(has_fields(options));
    reply.array(1 + loader.results.len() * parts);
    reply.integer(total as i64);
    for result in &loader.results {
        reply.bulk(&result.key);
        if options.with_scores {
            write_score(reply, options, result);
        }
        if options.with_payloads {
            write_payload(reply, result);
        }
        if options.with_sort_keys {
            write_sort_key(reply, &result.sort_key);
        }
        if has_fields(options) {
            let fields = loader.fields(result);
            reply.array(fields.len() * 2);
            fields.for_each(|(name, value)| {
                reply.bulk(name);
                write_shown(reply, &value, options.expands);
            });
        }
    }
}

fn write_map(
    reply: &mut dyn Reply,
    options: &Options<'_>,
    total: usize,
    loader: &Loader,
    timed_out: bool,
) {
    reply.map(5);
    reply.simple("attributes");
    reply.array(0);
    reply.simple("total_results");
    reply.integer(total as i64);
    reply.simple("format");
    reply.simple(if options.expands { "EXPAND" } else { "STRING" });
    reply.simple("results");
    reply.array(loader.results.len());
    for result in &loader.results {
        let has_sort_key = options.with_sort_keys;
        reply.map(
            2 + usize::from(options.with_scores)
                + usize::from(options.with_payloads)
                + usize::from(has_sort_key)
                + usize::from(has_fields(options)),
        );
        reply.simple("id");
        reply.bulk(&result.key);
        if options.with_scores {
            reply.simple("score");
            write_score(reply, options, result);
        }
        if options.with_payloads {
            reply.simple("payload");
            write_payload(reply, result);
        }
        if has_sort_key {
            reply.simple("sortkey");
            write_sort_key(reply, &result.sort_key);
        }
        if has_fields(options) {
            reply.simple("extra_attributes");
            let fields = loader.fields(result);
            reply.map(fields.len());
            fields.for_each(|(name, value)| {
                reply.bulk(name);
                write_shown(reply, &value, options.expands);
            });
        }
        reply.simple("values");
        reply.array(0);
    }
    reply.simple("warning");
    reply.array(usize::from(timed_out));
    if timed_out {
        reply.simple(TIMED_OUT);
    }
}

fn write_shown(reply: &mut dyn Reply, shown: &Shown<'_>, expands: bool) {
    match shown {
        Shown::Bytes(bytes) => reply.bulk(bytes),
        Shown::Value(value) => write_value(reply, value, expands),
    }
}

/// The score, with its explanation if that was asked for.
fn write_score(reply: &mut dyn Reply, options: &Options<'_>, result: &Loaded) {
    if options.explains_score {
        reply.array(2);
    }
    reply.double(result.score);
    if options.explains_score {
        match &result.explanation {
            Some(explanation) => write_explanation(reply, explanation),
            None => {
                reply.simple(&format!("Document's score is {:.2}", result.score));
            }
        }
    }
}

fn write_explanation(reply: &mut dyn Reply, explanation: &Explanation) {
    let Some(parts) = &explanation.parts else { return write_line(reply, &explanation.text) };
    reply.array(2);
    write_line(reply, &explanation.text);
    reply.array(parts.len());
    parts.iter().for_each(|part| write_explanation(reply, part));
}

/// A line of an explanation: a simple string, unless a tag in it is no line of text.
fn write_line(reply: &mut dyn Reply, text: &[u8]) {
    match std::str::from_utf8(text) {
        Ok(text) if !text.contains(char::is_control) => reply.simple(text),
        _ => reply.bulk(text),
    }
}

fn write_payload(reply: &mut dyn Reply, result: &Loaded) {
    match &result.payload {
        Some(payload) => reply.bulk(payload),
        None => reply.null(),
    }
}

fn write_sort_key(reply: &mut dyn Reply, sort_key: &SortKey) {
    match sort_key {
        SortKey::Number(number) => {
            reply.bulk(format!("#{}", print_general(*number, 17)).as_bytes())
        }
        SortKey::Text(text) => reply.bulk_joined(b"$", text),
        SortKey::Missing => reply.null(),
    }
}
