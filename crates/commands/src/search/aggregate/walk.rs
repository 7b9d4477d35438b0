//! The walk over the documents of a query, in steps that hold the index. Rows are made while it is
//! held, and pass through the pipeline afterwards.

use crate::ctx::Ctx;
use crate::fail::Outcome;
use crate::search::aggregate::job::Job;
use petrel_search::aggregate::columns::Columns;
use petrel_search::index::live::Suspension;
use petrel_search::index::search::{Query, Run};
use std::time::Instant;

/// Rows of the index that a step walks at first, at most and at least: each may become a row of the
/// pipeline.
const STEP_FIRST: u32 = 1024;
const STEP_MAX: u32 = 16_384;
const STEP_LEAST: u32 = 256;
/// Time of a step that holds the index.
const STEP_NANOS: u128 = 200_000;
/// Rows between two looks at the time.
const ROWS_PER_LOOK: usize = 64;

/// Feeds the documents of a query to a job. With a cursor, the rest after the first reply is
/// kept by key.
///
/// # Errors
/// If the command is to end here.
pub(super) fn run(ctx: &mut Ctx<'_>, job: &mut Job, query: &Query) -> Outcome {
    let live = job.live.clone();
    let plan = job.pipeline.plan.clone();
    let mut len = query.vectors.rows_in_time(STEP_FIRST);
    let least = query.vectors.rows_in_time(STEP_LEAST);
    let mut run: Option<Run<'_>> = None;
    let mut suspension: Option<Suspension> = None;
    loop {
        let started = Instant::now();
        let contents = live.read();
        // The index was flushed: there is nothing left of the run's moment.
        if run.as_ref().is_some_and(|run| !run.is_of(&contents)) {
            break;
        }
        let current = run.get_or_insert_with(|| Run::new(query, &contents));
        let is_over = current.step(&contents, len);
        let hits = current.take_hits();
        let takes_rows = job.takes_documents();
        let mut columns = Columns::new(&plan, &contents, &query.vectors, current.stamp());
        let rows: Vec<_> = match takes_rows {
            true => hits.iter().map(|hit| columns.row(hit, score(job, hit.score))).collect(),
            false => Vec::new(),
        };
        if !is_over && suspension.is_none() {
            suspension = Some(live.suspend(current.stamp()));
        }
        drop(contents);
        let nanos = started.elapsed().as_nanos();
        len = if nanos > STEP_NANOS { (len / 2).max(least) } else { (len * 2).min(STEP_MAX) };
        ctx.pace(nanos as usize / 16)?;
        if !ctx.exec.yield_within_unless_busy() {
            return Err(ctx.exec.kept_out());
        }
        let mut rows = rows.into_iter();
        for (number, hit) in hits.iter().enumerate() {
            match rows.next() {
                Some(row) if job.takes_documents() => job.push(ctx, row, &query.condition)?,
                _ if job.chunk.is_some() && job.pipeline.takes_documents() => {
                    job.keep(&hit.key, score(job, hit.score));
                }
                _ => break,
            }
            if number % ROWS_PER_LOOK == 0 && (job.is_late(ctx)? || !job.count_memory(ctx)?) {
                return Ok(());
            }
        }
        let needs_more =
            job.takes_documents() || job.chunk.is_some() && job.pipeline.takes_documents();
        if is_over || !needs_more || job.is_late(ctx)? || !job.count_memory(ctx)? {
            return Ok(());
        }
    }
    Ok(())
}

/// The score of a document, by the scorer of the command.
fn score(job: &Job, score: f64) -> f64 {
    if job.form.has_score { score } else { 0.0 }
}
