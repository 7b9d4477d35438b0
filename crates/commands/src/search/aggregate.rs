//! `FT.AGGREGATE`: documents of a query, in steps that compute, group and sort.
//!
//! | file | holds |
//! |---|---|
//! | `options` | steps and options |
//! | `job` | an aggregation with all that it owns, which a cursor keeps |
//! | `run` | its run: documents, time, memory |
//! | `walk` | the query's documents, in steps that hold the index |
//! | `documents` | values read from documents |
//! | `reply` | replies |
//! | `store` | cursors between two reads |
//! | `cursors` | `FT.CURSOR` |

mod cursors;
mod documents;
mod job;
mod options;
mod reply;
mod run;
mod store;
mod walk;

pub(super) use cursors::cursor;
pub(super) use store::Cursors;

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::aggregate::job::Job;
use crate::search::aggregate::options::AggregateOptions;
use crate::search::arguments::Arguments;
use crate::search::open::{name_argument, open};
use crate::search::query;
use crate::search::showing::Showing;
use petrel_search::aggregate::plan::Plan;
use petrel_search::index::search::{Order, Query};
use std::sync::Arc;

/// `FT.AGGREGATE index query ...`
pub(super) fn aggregate(ctx: &mut Ctx<'_>) -> Outcome {
    let name = name_argument(ctx)?;
    let text = *ctx.args().get(2).ok_or(Fail::fixed("No query string provided"))?;
    let dialect = ctx.exec.shared.search.settings.dialect();
    let mut arguments = Arguments::new(&ctx.args()[3..]);
    let mut options = AggregateOptions::parse(&mut arguments, ctx.reply.protocol(), dialect)?;
    let index = open(ctx, name, || Fail::new([name, b": no such index"].concat()))?;
    options.search.check_index(&index)?;
    let shows_scores = options.search.with_scores;
    options.search.with_scores |= options.adds_scores;
    let parsed = query::parse(text, &options.search, &index)?;
    let condition = query::resolve(&parsed, &options.search, &index, Order::Rows)?;
    let vectors = parsed.vectors;
    options.search.with_scores = shows_scores;
    let results_max = ctx.exec.shared.search.settings.aggregate_results_max();
    let has_columns = options.search.showing() == Showing::First;
    let plan = Plan::new(
        &options.steps,
        (&index.schema, has_columns),
        &vectors,
        options.adds_scores,
        results_max,
    );
    let plan = Arc::new(plan.map_err(Fail::new)?);
    if options.cursor.is_some() {
        cursors::refuse_more(ctx, index.live.id)?;
    }
    ctx.exec.ks.wait_for_indexes();
    let now_ms = ctx.exec.ks.now_ms();
    let grown = index.live.expire_fields(now_ms);
    ctx.exec.ks.count_foreign(grown);
    let query = Query {
        condition,
        keys: options.search.hashed_keys(ctx),
        order: Order::Rows,
        needed: usize::MAX,
        now_ms,
        vectors,
    };
    let mut job = Job::new(ctx, &index, &options, plan);
    job.vectors = query.vectors.clone();
    job.form.has_score &= !query.vectors.is_unfiltered || options.search.is_doc_score();
    let outcome = walk::run(ctx, &mut job, &query);
    let Query { condition, .. } = query;
    job.condition = condition;
    let outcome = outcome.and_then(|()| job.finish_chunk(ctx));
    let outcome = outcome.and_then(|()| job.answer(ctx, None));
    match outcome {
        Ok(true) => ctx.exec.shared.search.cursors.keep(job, ctx.exec.ks.now_ms()),
        Ok(false) => job.release(&ctx.exec.ks),
        Err(fail) => {
            job.release(&ctx.exec.ks);
            return Err(fail);
        }
    }
    Ok(())
}
