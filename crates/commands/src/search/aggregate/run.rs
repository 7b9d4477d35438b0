//! The run of an aggregation: its documents, the time, the memory, the reply.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::aggregate::documents::Reader;
use crate::search::aggregate::job::{Form, Found, Job, Keys};
use crate::search::aggregate::options::AggregateOptions;
use crate::search::aggregate::reply::write;
use crate::search::open::OpenIndex;
use crate::search::settings::OnOom;
use petrel_search::aggregate::pipeline::{Pipeline, Row};
use petrel_search::aggregate::plan::Plan;
use petrel_search::index::condition::Condition;
use petrel_search::query::Scorer;
use std::sync::Arc;
use std::time::Instant;

const TIMED_OUT: &str = "Timeout limit was reached";
const OUT_OF_MEMORY: &str = "Not enough memory available to execute the query";

/// Work units of a row that passes all steps.
const UNITS_PER_ROW: usize = 20;
/// Rows that are moved out of a group or sort between two looks at the time.
const ROWS_PER_LOOK: usize = 256;
/// Growth in bytes after which the memory limit is looked at.
const BYTES_PER_LOOK: i64 = 256 << 10;

/// The form of the results.
fn form(options: &AggregateOptions<'_>, index: &OpenIndex) -> Form {
    let search = &options.search;
    let scorer = search.scorer.map(|named| named.scorer);
    Form {
        no_content: search.no_content,
        with_scores: search.with_scores,
        with_payloads: search.with_payloads,
        with_sort_keys: search.with_sort_keys,
        showing: search.showing(),
        expands: search.expands,
        has_score: index.schema.has_texts() || scorer == Some(Scorer::DocScore),
    }
}

impl Job {
    pub fn new(
        ctx: &Ctx<'_>,
        index: &OpenIndex,
        options: &AggregateOptions<'_>,
        plan: Arc<Plan>,
    ) -> Self {
        let settings = &ctx.exec.shared.search.settings;
        let idle_max = settings.cursor_idle_ms();
        let asked = options.cursor.and_then(|cursor| cursor.max_idle_ms);
        Job {
            pipeline: Pipeline::new(plan),
            keys: Keys::new(),
            live: index.live.clone(),
            schema: index.schema.clone(),
            paths: index.paths.clone(),
            condition: Condition::Nothing,
            vectors: Arc::default(),
            db: ctx.db(),
            form: form(options, index),
            id: 0,
            chunk: options.cursor.map(|cursor| cursor.count),
            max_idle_ms: asked.unwrap_or(idle_max).min(idle_max),
            timeout: options.search.timeout.unwrap_or(settings.timeout()),
            started: Instant::now(),
            warning: None,
            key_bytes: 0,
            counted: 0,
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the command is to end here.
    pub fn push(&mut self, ctx: &mut Ctx<'_>, row: Row, condition: &Condition) -> Outcome {
        ctx.pace(UNITS_PER_ROW)?;
        let found = Found {
            schema: &self.schema,
            condition,
            vectors: &self.vectors,
            paths: self.paths.as_deref(),
            showing: self.form.showing,
        };
        self.pipeline.push(row, &mut Reader { ctx, found })
    }

    /// Whether the time is over. The run then ends with its rows so far.
    ///
    /// # Errors
    /// If it fails then (`search-on-timeout fail`).
    pub fn is_late(&mut self, ctx: &Ctx<'_>) -> Result<bool, Fail> {
        if self.timeout.is_zero() || self.started.elapsed() < self.timeout {
            return Ok(false);
        }
        if ctx.exec.shared.search.settings.fails_on_timeout() {
            return Err(Fail::fixed(TIMED_OUT));
        }
        self.stop(TIMED_OUT);
        Ok(true)
    }

    /// Counts the memory of the run, and stops it at the memory limit.
    ///
    /// # Errors
    /// If it fails then (`search-on-oom fail`).
    pub fn count_memory(&mut self, ctx: &Ctx<'_>) -> Result<bool, Fail> {
        let bytes = self.pipeline.footprint() + self.key_bytes;
        let grown = bytes - self.counted;
        if grown.abs() < BYTES_PER_LOOK {
            return Ok(true);
        }
        self.counted = bytes;
        ctx.exec.ks.count_foreign(grown);
        let policy = ctx.exec.shared.search.settings.on_oom();
        let is_over = || ctx.exec.ks.keyspace().is_over_limit();
        if grown < 0 || policy == OnOom::Ignore || !is_over() {
            return Ok(true);
        }
        if policy == OnOom::Fail {
            return Err(Fail::fixed(OUT_OF_MEMORY));
        }
        self.stop(OUT_OF_MEMORY);
        Ok(false)
    }

    /// Reads documents that were kept, and moves rows out of groups and sorts, until the reply is
    /// complete.
    ///
    /// # Errors
    /// If the command is to end here.
    pub fn finish_chunk(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        while self.takes_documents()
            && let Some((key, score)) = self.take_key()
        {
            let found = Found {
                schema: &self.schema,
                condition: &self.condition,
                vectors: &self.vectors,
                paths: self.paths.as_deref(),
                showing: self.form.showing,
            };
            let plan = self.pipeline.plan.clone();
            let mut reader = Reader { ctx, found };
            match reader.row(&plan, &key, score) {
                Ok(None) => {}
                Ok(Some(row)) => self.pipeline.push(row, &mut reader)?,
                Err(fail) => {
                    // The command begins again elsewhere.
                    self.keep_first(key, score);
                    return Err(fail);
                }
            }
            if self.is_late(ctx)? || !self.count_memory(ctx)? {
                break;
            }
        }
        if self.keys.is_empty() {
            self.pipeline.end_documents();
        }
        loop {
            let wanted = self.wanted();
            let found = Found {
                schema: &self.schema,
                condition: &self.condition,
                vectors: &self.vectors,
                paths: self.paths.as_deref(),
                showing: self.form.showing,
            };
            let mut reader = Reader { ctx, found };
            let is_over = !self.pipeline.step(wanted, ROWS_PER_LOOK, &mut reader)?;
            self.count_memory(ctx)?;
            if is_over {
                return Ok(());
            }
            ctx.pace(ROWS_PER_LOOK * UNITS_PER_ROW)?;
            if self.warning.is_none() && self.is_late(ctx)? && self.pipeline.ready() > 0 {
                self.pipeline.end();
            }
        }
    }

    /// Writes the results that are ready. Returns whether the job stays, as a cursor.
    ///
    /// # Errors
    /// If an expression could not be evaluated before the first result.
    pub fn answer(&mut self, ctx: &mut Ctx<'_>, id: Option<u64>) -> Result<bool, Fail> {
        let len = self.pipeline.ready().min(self.wanted());
        if len == 0
            && let Some(error) = self.pipeline.error()
        {
            return Err(Fail::new(error.to_vec()));
        }
        // As in Redis, a reply of the full length is never known to be the last one.
        let whole = self.wanted().min(self.pipeline.plan.page.unwrap_or(usize::MAX));
        let stays = self.chunk.is_some() && len == whole && len > 0;
        let id = match (self.chunk, stays) {
            (None, _) => None,
            (Some(_), false) => Some(0),
            (Some(_), true) => Some(id.unwrap_or_else(|| ctx.exec.shared.search.cursors.new_id())),
        };
        write(ctx, self, len, id);
        self.id = id.unwrap_or(0);
        Ok(stays)
    }
}
