//! `FT.SEARCH`: its options, and the run of the query.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::double;
use crate::search::arguments::Arguments;
use crate::search::create::is_language;
use crate::search::highlight::{Highlights, change_texts};
use crate::search::load::{Loader, Returned, load_payload_scores, load_sorted};
use crate::search::open::{OpenIndex, name_argument, open};
use crate::search::reply;
use crate::search::settings::SearchSettings;
use crate::search::showing::Showing;
use crate::search::stored::check_expand;
use crate::search::vectors;
use crate::search::words::{self, NamedScorer, WordOptions};
use petrel_resp::Protocol;
use petrel_search::index::condition::{Condition, Words, WordsOptions};
use petrel_search::index::distances::VectorQuery;
use petrel_search::index::live::Suspension;
use petrel_search::index::schema::{FieldKind, Schema, Unsuitable};
use petrel_search::index::search::{FIRST_STEP, Found, Order, Query, Run};
use petrel_search::query::ast::{DistanceUnit, GeoCircle, Node, NumericRange};
use petrel_search::query::{self, Dialect, Parameters, Scorer};
use petrel_search::text::Language;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Largest number of results, and of skipped ones.
const RESULTS_MAX: u64 = 1_000_000;
/// Time of a step that holds the index.
const STEP_NANOS: u128 = 200_000;
/// Rows of a step at least.
const STEP_LEAST: u32 = 1024;
/// Hits beyond the page, in place of hits that have changed when they are read.
const SPARE_HITS: usize = 8;

/// Options of `FT.SEARCH`.
#[derive(Default)]
pub(super) struct Options<'a> {
    pub no_content: bool,
    pub with_scores: bool,
    pub explains_score: bool,
    pub with_payloads: bool,
    pub with_sort_keys: bool,
    /// The scorer, if one was named.
    pub scorer: Option<NamedScorer>,
    /// The payload that `SCORER HAMMING` compares those of documents with.
    pub payload: Option<&'a [u8]>,
    words: WordOptions<'a>,
    pub highlights: Highlights<'a>,
    pub returned: Option<Vec<Returned<'a>>>,
    pub sort: Option<(&'a [u8], bool)>,
    pub offset: usize,
    pub count: usize,
    /// Maximum number of results.
    results_max: u64,
    keys: Option<&'a [&'a [u8]]>,
    ranges: Vec<NumericRange>,
    places: Vec<GeoCircle>,
    parameters: Parameters,
    /// Values of JSON documents are replies of their own (`FORMAT EXPAND`).
    pub expands: bool,
    has_dialect: bool,
    dialect: Dialect,
    /// Time after which the query ends, if it was stated.
    pub timeout: Option<Duration>,
}

/// `FT.SEARCH index query ...`
pub(super) fn search(ctx: &mut Ctx<'_>) -> Outcome {
    let name = name_argument(ctx)?;
    let text = *ctx.args().get(2).ok_or(Fail::fixed("No query string provided"))?;
    let options = Options::parse(
        &mut Arguments::new(&ctx.args()[3..]),
        ctx.reply.protocol(),
        &ctx.exec.shared.search.settings,
    )?;
    let index = open(ctx, name, || Fail::new([name, b": no such index"].concat()))?;
    options.check_index(&index)?;
    let parsed = parse(text, &options, &index)?;
    let order = order(&options, &index.schema, &parsed.vectors)?;
    options.highlights.check(&index.schema, options.returned.as_deref())?;
    let condition = resolve(&parsed, &options, &index, order)?;
    let vectors = parsed.vectors;
    let mut searched = Searched { index: &index, options: &options, condition, order, vectors };
    searched.answer(ctx)
}

/// `FT.EXPLAIN index query [DIALECT dialect]`
pub(super) fn explain(ctx: &mut Ctx<'_>) -> Outcome {
    let text = explanation(ctx)?;
    ctx.reply.bulk(&text);
    Ok(())
}

/// `FT.EXPLAINCLI index query [DIALECT dialect]`
pub(super) fn explain_lines(ctx: &mut Ctx<'_>) -> Outcome {
    let text = explanation(ctx)?;
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.bulk(line));
    Ok(())
}

fn explanation(ctx: &mut Ctx<'_>) -> Result<Vec<u8>, Fail> {
    let name = name_argument(ctx)?;
    let text = *ctx.args().get(2).ok_or(Fail::fixed("No query string provided"))?;
    let options = Options::parse(
        &mut Arguments::new(&ctx.args()[3..]),
        ctx.reply.protocol(),
        &ctx.exec.shared.search.settings,
    )?;
    let index = open(ctx, name, || Fail::new([name, b": no such index"].concat()))?;
    let rules = index.rules();
    let mut tree = words::parse(text, &options, &index.schema, rules.as_deref())?;
    words::expand(&mut tree, &options, rules.as_deref())?;
    let parsed = Parsed::of(tree.clone(), &options, &index.schema)?;
    resolve(&parsed, &options, &index, Order::Scores)?;
    Ok(query::explain(&tree, &*index.schema))
}

/// A parsed query: its condition on documents, and its vectors.
pub(super) struct Parsed {
    tree: Node,
    pub vectors: Arc<VectorQuery>,
}

impl Parsed {
    fn of(mut tree: Node, options: &Options<'_>, schema: &Schema) -> Result<Self, Fail> {
        let knn = vectors::take_knn(&mut tree);
        words::restrict(&mut tree, options, schema);
        let vectors = VectorQuery::of(knn.as_deref(), &tree, schema);
        let vectors = Arc::new(vectors.map_err(|error| Fail::new(error.0))?);
        Ok(Parsed { tree, vectors })
    }
}

/// Parses the text of a query.
pub(super) fn parse(text: &[u8], options: &Options<'_>, index: &OpenIndex) -> Result<Parsed, Fail> {
    let rules = index.rules();
    let mut tree = words::parse(text, options, &index.schema, rules.as_deref())?;
    words::expand(&mut tree, options, rules.as_deref())?;
    Parsed::of(tree, options, &index.schema)
}

/// The condition of a query on documents.
pub(super) fn resolve(
    parsed: &Parsed,
    options: &Options<'_>,
    index: &OpenIndex,
    order: Order,
) -> Result<Condition, Fail> {
    let Parsed { tree, vectors } = parsed;
    let fail = |error: Unsuitable| Fail::new(error.0);
    words::check_order(tree, &index.schema, index.paths.as_deref())?;
    let needs_scores = options.with_scores || order == Order::Scores && options.count > 0;
    let has_scores = needs_scores && !vectors.is_unfiltered || words::has_words(tree);
    let Some(rules) = index.rules().filter(|_| has_scores) else {
        return Condition::of(tree, &index.schema).map_err(fail);
    };
    let words = WordsOptions {
        scorer: options.scorer.map(|named| named.scorer).unwrap_or_default(),
        needs_scores: options.with_scores,
        explains: options.explains_score,
    };
    Words::of(tree.clone(), &index.schema, rules, words).map(Condition::Words).map_err(fail)
}

/// The order of the result in the index. If the index lacks the values to sort by, documents are
/// found in the order of their rows.
fn order(options: &Options<'_>, schema: &Schema, vectors: &VectorQuery) -> Result<Order, Fail> {
    let Some((name, is_descending)) = options.sort else {
        let scorer = options.scorer.map(|named| named.scorer);
        return Ok(match scorer {
            // Payloads are read from the keys.
            Some(Scorer::Hamming) => Order::Rows,
            Some(Scorer::DocScore) => Order::Scores,
            _ if schema.has_texts() => Order::Scores,
            _ => Order::Rows,
        });
    };
    if let Some(number) = vectors.find(name) {
        return Ok(Order::Distance { number, is_descending });
    }
    let Some(field) = schema.field(name) else {
        return Err(Fail::new([b"Property `", name, b"` not loaded nor in schema"].concat()));
    };
    let definition = &schema.fields[field];
    match definition.is_sortable || definition.kind == FieldKind::Number {
        true => Ok(Order::Field { field, is_descending }),
        false => Ok(Order::Rows),
    }
}

/// A query of one call.
pub(super) struct Searched<'s, 'a> {
    pub index: &'s OpenIndex,
    pub options: &'s Options<'a>,
    pub condition: Condition,
    pub order: Order,
    pub vectors: Arc<VectorQuery>,
}

impl Searched<'_, '_> {
    fn answer(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let options = self.options;
        ctx.exec.ks.wait_for_indexes();
        let compares = options.sort.is_none() && options.is_hamming();
        let sorts_later = options.sort.is_some() && self.order == Order::Rows || compares;
        let mut spare = SPARE_HITS;
        // More neighbours than wanted, once some were gone when they were read.
        let mut more = 0;
        loop {
            let page = options.offset + options.count;
            let needed = match () {
                () if options.count == 0 => 0,
                () if sorts_later => RESULTS_MAX as usize,
                () => page + if options.no_content { 0 } else { spare },
            };
            let now_ms = ctx.exec.ks.now_ms();
            let grown = self.index.live.expire_fields(now_ms);
            ctx.exec.ks.count_foreign(grown);
            let query = Query {
                condition: std::mem::replace(&mut self.condition, Condition::Nothing),
                keys: options.hashed_keys(ctx),
                order: self.order,
                needed,
                now_ms,
                vectors: vectors::with_more(&self.vectors, more),
            };
            let (mut found, timed_out) = run(ctx, self, &query)?;
            self.condition = query.condition;
            if found.has_too_many_terms {
                return Err(Fail::fixed("ERR the query has more terms than are searched at once"));
            }
            self.rate(ctx, &mut found, compares)?;
            let mut is_complete = true;
            if self.vectors.neighbours.is_some() {
                is_complete = vectors::arrange(ctx, self, &mut found, more)?;
            } else if sorts_later && !compares {
                load_sorted(ctx, self, &mut found)?;
            }
            let (wanted, found_all) = match self.vectors.neighbours {
                Some(_) => (options.count.min(found.total.saturating_sub(options.offset)), false),
                None => (options.count, found.hits.len() < needed),
            };
            let mut loader = Loader::default();
            loader.load(ctx, self, &found)?;
            // Documents that changed meanwhile may have left the page short.
            let is_short = loader.is_short(wanted) && !found_all || !is_complete;
            if is_short && !timed_out {
                spare = spare * 8 + options.count;
                more = more * 8 + SPARE_HITS;
                continue;
            }
            change_texts(ctx, self, &mut loader)?;
            return reply::write(ctx, options, found.total, &loader, timed_out);
        }
    }

    /// Gives hits the scores of the command's scorer.
    fn rate(&self, ctx: &mut Ctx<'_>, found: &mut Found, compares: bool) -> Outcome {
        let options = self.options;
        let has_scores = self.index.schema.has_texts() && !self.vectors.is_unfiltered;
        if compares || options.is_hamming() && options.with_scores {
            load_payload_scores(ctx, self, found)?;
        } else if has_scores {
            options.scorer.iter().for_each(|named| named.normalize(found));
        } else if !options.is_doc_score() {
            // Without words, other scorers have nothing to go by.
            found.hits.iter_mut().for_each(|hit| hit.score = 0.0);
        }
        Ok(())
    }
}

/// Runs a query in steps; returns the result, and whether the time ended before.
fn run(
    ctx: &mut Ctx<'_>,
    searched: &Searched<'_, '_>,
    query: &Query,
) -> Result<(Found, bool), Fail> {
    let live = &searched.index.live;
    let settings = &ctx.exec.shared.search.settings;
    let timeout = searched.options.timeout.unwrap_or(settings.timeout());
    let fails = settings.fails_on_timeout();
    let started = Instant::now();
    let mut len = query.vectors.rows_in_time(FIRST_STEP);
    let least = query.vectors.rows_in_time(STEP_LEAST);
    let mut run: Option<Run<'_>> = None;
    let mut suspension: Option<Suspension> = None;
    loop {
        let step_started = Instant::now();
        let contents = live.read();
        // Cleared contents have nothing of the run's moment: it begins again.
        if run.as_ref().is_some_and(|run| !run.is_of(&contents)) {
            (run, suspension) = (None, None);
        }
        let current = run.get_or_insert_with(|| Run::new(query, &contents));
        let is_over = current.step(&contents, len);
        if !is_over && suspension.is_none() {
            suspension = Some(live.suspend(current.stamp()));
        }
        drop(contents);
        let is_late = !timeout.is_zero() && started.elapsed() >= timeout && !is_over;
        if is_late && fails {
            return Err(Fail::fixed("Timeout limit was reached"));
        }
        if is_over || is_late {
            drop(suspension);
            return Ok((run.map(Run::finish).unwrap_or_default(), is_late));
        }
        let nanos = step_started.elapsed().as_nanos();
        len = if nanos > STEP_NANOS { (len / 2).max(least) } else { len.saturating_mul(2) };
        if !ctx.exec.yield_within_unless_busy() {
            return Err(ctx.exec.kept_out());
        }
        ctx.pace(nanos as usize / 16)?;
    }
}

impl<'a> Options<'a> {
    /// Whether payloads are compared.
    pub fn is_hamming(&self) -> bool {
        self.scorer.is_some_and(|named| named.scorer == Scorer::Hamming)
    }

    /// Whether scores are those of the documents.
    pub fn is_doc_score(&self) -> bool {
        self.scorer.is_some_and(|named| named.scorer == Scorer::DocScore)
    }

    /// Options of the words.
    pub fn words(&self) -> &WordOptions<'a> {
        &self.words
    }

    /// Form of the shown values of JSON documents.
    pub fn showing(&self) -> Showing {
        // As in Redis, `EXPAND` without a dialect is that of dialect 3.
        let is_third = matches!(self.dialect, Dialect::Three | Dialect::Four);
        match is_third || self.expands && !self.has_dialect {
            true => Showing::All,
            false => Showing::First,
        }
    }

    /// Rejects options that the index does not allow.
    pub fn check_index(&self, index: &OpenIndex) -> Outcome {
        match self.expands {
            true => check_expand(&index.schema, self.showing()),
            false => Ok(()),
        }
    }

    /// The dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The parameters of the query.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Ranges of numbers beside the query.
    pub fn ranges(&self) -> &[NumericRange] {
        &self.ranges
    }

    /// Circles beside the query.
    pub fn places(&self) -> &[GeoCircle] {
        &self.places
    }

    /// Options before the first argument.
    pub fn new(dialect: Dialect) -> Self {
        Options { count: 10, dialect, ..Options::default() }
    }

    fn parse(
        arguments: &mut Arguments<'a>,
        protocol: Protocol,
        settings: &SearchSettings,
    ) -> Result<Self, Fail> {
        let mut options = Options::new(settings.dialect());
        options.results_max = settings.search_results_max().min(RESULTS_MAX);
        while let Some(word) = arguments.next() {
            let upper = word.to_ascii_uppercase();
            let is_known = options.flag(&upper)
                || options.list_option(&upper, arguments)?
                || options.value_option(&upper, arguments, protocol)?
                || options.highlights.parse(&upper, arguments)?;
            if !is_known {
                return Err(Options::unknown(word, arguments));
            }
        }
        options.check()?;
        Ok(options)
    }

    /// The error of an unknown argument, the last one that was read.
    pub fn unknown(word: &[u8], arguments: &Arguments<'_>) -> Fail {
        // Positions count from the query on.
        let position = arguments.position();
        let text = String::from_utf8_lossy(word);
        Fail::new(format!("Unknown argument `{text}` at position {position} for <main>"))
    }

    /// Rejects options that need others.
    pub fn check(&self) -> Outcome {
        match self.explains_score && !self.with_scores {
            true => Err(Fail::fixed("EXPLAINSCORE must be accompanied with WITHSCORES")),
            false => Ok(()),
        }
    }

    /// The keys of `INKEYS` with their hashes.
    pub fn hashed_keys(&self, ctx: &Ctx<'_>) -> Option<Vec<(u64, Box<[u8]>)>> {
        let keys = self.keys?;
        let each = keys.iter().map(|&key| (ctx.exec.ks.hash(key).bits(), key.into()));
        Some(each.collect())
    }

    /// Takes an option without a value; false if it is none of these.
    pub fn flag(&mut self, upper: &[u8]) -> bool {
        match upper {
            b"NOCONTENT" => self.no_content = true,
            b"WITHSCORES" => self.with_scores = true,
            b"WITHPAYLOADS" => self.with_payloads = true,
            b"WITHSORTKEYS" => self.with_sort_keys = true,
            b"EXPLAINSCORE" => self.explains_score = true,
            b"VERBATIM" => self.words.is_verbatim = true,
            b"NOSTOPWORDS" => self.words.no_stop_words = true,
            b"INORDER" => self.words.in_order = true,
            // The total is always exact.
            b"WITHCOUNT" | b"WITHOUTCOUNT" => {}
            _ => return false,
        }
        true
    }

    /// Takes an option with a list; false if it is none of these.
    pub fn list_option(
        &mut self,
        upper: &[u8],
        arguments: &mut Arguments<'a>,
    ) -> Result<bool, Fail> {
        match upper {
            b"RETURN" => self.returned = Some(Returned::parse(arguments.list("RETURN")?)?),
            b"INKEYS" => self.keys = Some(arguments.list("INKEYS")?),
            b"INFIELDS" => self.words.fields = Some(arguments.list("INFIELDS")?),
            b"PARAMS" => {
                let list = arguments.list("PARAMS")?;
                if list.is_empty() || list.len() % 2 == 1 {
                    return Err(Fail::fixed("Parameters must be specified in PARAM VALUE pairs"));
                }
                for pair in list.chunks_exact(2) {
                    let added = self.parameters.add(pair[0], pair[1]);
                    added.map_err(|error| Fail::new(error.text))?;
                }
            }
            b"FILTER" => self.ranges.push(range(arguments)?),
            b"GEOFILTER" => self.places.push(circle(arguments)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes an option with a value; false if it is none of these.
    pub fn value_option(
        &mut self,
        upper: &[u8],
        arguments: &mut Arguments<'a>,
        protocol: Protocol,
    ) -> Result<bool, Fail> {
        match upper {
            b"LIMIT" => self.limit(arguments)?,
            b"SORTBY" => {
                if self.sort.is_some() {
                    return Err(Fail::fixed("Multiple SORTBY steps are not allowed"));
                }
                let name = arguments.next().ok_or(Fail::fixed("Bad SORTBY arguments"))?;
                let is_descending = !arguments.take("ASC") && arguments.take("DESC");
                self.sort = Some((name, is_descending));
            }
            b"DIALECT" => {
                let text = arguments.next().ok_or(Fail::fixed("Need an argument for DIALECT"))?;
                let number = crate::numbers::integer(text).ok();
                let dialect = number.and_then(|number| Dialect::of(u32::try_from(number).ok()?));
                self.has_dialect = true;
                self.dialect = dialect
                    .ok_or(Fail::fixed("DIALECT requires a non negative integer >=1 and <= 4"))?;
            }
            b"TIMEOUT" => {
                let bad = Fail::fixed("TIMEOUT requires a non negative integer");
                let text = arguments.next().ok_or(Fail::fixed("Need argument for TIMEOUT"))?;
                let number = crate::numbers::integer(text).ok();
                let millis = number.and_then(|number| u64::try_from(number).ok()).ok_or(bad)?;
                self.timeout = Some(Duration::from_millis(millis));
            }
            b"SLOP" => self.words.slop = Some(arguments.integer("SLOP")?),
            b"LANGUAGE" => {
                let name = arguments.value("LANGUAGE")?;
                if !is_language(name) {
                    return Err(Fail::fixed("No such language"));
                }
                self.words.language = Some(
                    Language::of(name)
                        .ok_or(Fail::fixed("ERR LANGUAGE chinese is not supported yet"))?,
                );
            }
            b"SCORER" => {
                let name = arguments.value("SCORER")?;
                let named = NamedScorer::of(name);
                self.scorer =
                    Some(named.ok_or_else(|| Fail::new([b"No such scorer ", name].concat()))?);
            }
            b"EXPANDER" => self.words.expander = Some(arguments.value("EXPANDER")?),
            b"PAYLOAD" => self.payload = Some(arguments.value("PAYLOAD")?),
            b"FORMAT" => self.expands = expands(arguments, protocol)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn limit(&mut self, arguments: &mut Arguments<'a>) -> Outcome {
        let mut number = || {
            let text = arguments.next().ok_or(Fail::fixed("LIMIT requires two arguments"))?;
            let number = crate::numbers::integer(text).ok();
            let number = number.and_then(|number| u64::try_from(number).ok());
            number.ok_or(Fail::fixed("LIMIT needs two numeric arguments"))
        };
        let (offset, count) = (number(), number());
        let count = count?;
        let offset = offset?;
        if count > self.results_max {
            return Err(Fail::new(format!("LIMIT exceeds maximum of {}", self.results_max)));
        }
        if offset > RESULTS_MAX {
            return Err(Fail::fixed("OFFSET exceeds maximum of 1000000"));
        }
        (self.offset, self.count) = (offset as usize, count as usize);
        Ok(())
    }
}

/// Whether a reply's format is `EXPAND`.
fn expands(arguments: &mut Arguments<'_>, protocol: Protocol) -> Result<bool, Fail> {
    let name = arguments.value("FORMAT")?;
    match () {
        () if name.eq_ignore_ascii_case(b"STRING") => Ok(false),
        () if !name.eq_ignore_ascii_case(b"EXPAND") => {
            Err(Fail::new([b"FORMAT ", name, b" is not supported"].concat()))
        }
        () if protocol == Protocol::Resp2 => {
            Err(Fail::fixed("EXPAND format is only supported with RESP3"))
        }
        () => Ok(true),
    }
}

/// `FILTER field min max`
fn range(arguments: &mut Arguments<'_>) -> Result<NumericRange, Fail> {
    let mut word = || arguments.next().ok_or(Fail::fixed("FILTER requires 3 arguments"));
    let (field, min, max) = (word()?, word()?, word()?);
    let end = |text: &[u8], which: &str| {
        let (number, includes) = match text {
            [b'(', rest @ ..] => (rest, false),
            _ => (text, true),
        };
        let bad = || Fail::new([format!("Bad {which} range: ").as_bytes(), text].concat());
        double::parse_bound(number).map(|number| (number, includes)).ok_or_else(bad)
    };
    let ((min, includes_min), (max, includes_max)) = (end(min, "lower")?, end(max, "upper")?);
    Ok(NumericRange { field: field.into(), min, max, includes_min, includes_max })
}

/// `GEOFILTER field longitude latitude radius unit`
fn circle(arguments: &mut Arguments<'_>) -> Result<GeoCircle, Fail> {
    let mut word = || arguments.next().ok_or(Fail::fixed("GEOFILTER requires 5 arguments"));
    let (field, numbers, unit) = (word()?, [word()?, word()?, word()?], word()?);
    let number = |at: usize, name: &str| {
        let why = "Could not convert argument to expected type";
        let bad = || Fail::new(format!("Bad arguments for <{name}>: {why}"));
        double::parse(numbers[at]).ok_or_else(bad)
    };
    let (longitude, latitude) = (number(0, "lon")?, number(1, "lat")?);
    let radius = number(2, "radius")?;
    let unknown = || Fail::new([b"Unknown distance unit ", unit].concat());
    let unit = DistanceUnit::of(unit).ok_or_else(unknown)?;
    let circle = GeoCircle { field: field.into(), longitude, latitude, radius, unit };
    match circle.fault() {
        Some(text) => Err(Fail::fixed(text)),
        None => Ok(circle),
    }
}
