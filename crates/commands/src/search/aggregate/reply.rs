//! Replies of `FT.AGGREGATE` and `FT.CURSOR READ`, in both protocols.

use crate::ctx::Ctx;
use crate::search::aggregate::job::Job;
use crate::search::load::print_general;
use crate::search::stored::write_value;
use petrel_resp::{Protocol, Reply};
use petrel_search::aggregate::pipeline::Row;
use petrel_search::aggregate::plan::Plan;
use petrel_search::aggregate::value::Value;

/// Writes `len` results, and the number of the cursor if there is one.
pub(super) fn write(ctx: &mut Ctx<'_>, job: &mut Job, len: usize, cursor: Option<u64>) {
    let reply = &mut *ctx.reply;
    if cursor.is_some() {
        reply.array(2);
    }
    let total = job.pipeline.take_total();
    match reply.protocol() {
        Protocol::Resp2 => write_flat(reply, job, total, len),
        Protocol::Resp3 => write_map(reply, job, total, len),
    }
    if let Some(id) = cursor {
        reply.integer(id as i64);
    }
}

fn write_flat(reply: &mut dyn Reply, job: &mut Job, total: usize, len: usize) {
    let form = job.form;
    reply.array(1 + len * form.parts());
    reply.integer(total as i64);
    for _ in 0..len {
        let Some(row) = job.pipeline.take_result() else { return };
        let plan = &job.pipeline.plan;
        if form.with_scores {
            reply.bulk(print_general(row.score, 17).as_bytes());
        }
        if form.with_payloads {
            reply.null();
        }
        if form.with_sort_keys {
            write_sort_key(reply, plan, &row);
        }
        if !form.no_content {
            reply.array(2 * fields(plan, &row).count());
            write_fields(reply, plan, &row, form.expands);
        }
    }
}

fn write_map(reply: &mut dyn Reply, job: &mut Job, total: usize, len: usize) {
    let form = job.form;
    reply.map(5);
    reply.simple("attributes");
    reply.array(0);
    reply.simple("total_results");
    reply.integer(total as i64);
    reply.simple("format");
    reply.simple(if form.expands { "EXPAND" } else { "STRING" });
    reply.simple("results");
    reply.array(len);
    for _ in 0..len {
        let Some(row) = job.pipeline.take_result() else { return };
        let plan = &job.pipeline.plan;
        reply.map(1 + form.parts());
        if form.with_scores {
            reply.simple("score");
            reply.double(row.score);
        }
        if form.with_payloads {
            reply.simple("payload");
            reply.null();
        }
        if form.with_sort_keys {
            reply.simple("sortkey");
            write_sort_key(reply, plan, &row);
        }
        if !form.no_content {
            reply.simple("extra_attributes");
            reply.map(fields(plan, &row).count());
            write_fields(reply, plan, &row, form.expands);
        }
        reply.simple("values");
        reply.array(0);
    }
    reply.simple("warning");
    let warnings: [Option<&[u8]>; 2] = [
        job.warning.map(str::as_bytes),
        job.pipeline.error().filter(|_| job.pipeline.ready() == 0),
    ];
    reply.array(warnings.iter().flatten().count());
    for warning in warnings.into_iter().flatten() {
        match std::str::from_utf8(warning) {
            Ok(text) if !text.contains(['\r', '\n']) => reply.simple(text),
            _ => reply.bulk(warning),
        }
    }
}

/// Names and values of a result.
fn fields<'r>(plan: &'r Plan, row: &'r Row) -> impl Iterator<Item = (&'r [u8], &'r Value)> {
    let named = plan.names.iter().filter_map(|(name, slot)| {
        let value = row.values.get(*slot)?.as_ref()?;
        Some((&**name, value))
    });
    named.chain(row.extra.iter().map(|(name, value)| (&**name, value)))
}

fn write_fields(reply: &mut dyn Reply, plan: &Plan, row: &Row, expands: bool) {
    for (name, value) in fields(plan, row) {
        reply.bulk(name);
        write_value(reply, value, expands);
    }
}

fn write_sort_key(reply: &mut dyn Reply, plan: &Plan, row: &Row) {
    let value = plan.sort_key.and_then(|slot| row.values.get(slot)?.as_ref());
    match value.map(Value::first) {
        Some(Value::Number(number)) => {
            reply.bulk(format!("#{}", print_general(*number, 17)).as_bytes());
        }
        Some(Value::Text(text)) => reply.bulk_joined(b"$", text),
        _ => reply.null(),
    }
}
