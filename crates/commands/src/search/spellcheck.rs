//! `FT.SPELLCHECK`: terms that are close to unknown words of a query.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::arguments::Arguments;
use crate::search::dictionaries::{Dictionaries, Dictionary};
use crate::search::open::{OpenIndex, name_argument, open};
use crate::search::query::Options;
use crate::search::words;
use petrel_resp::{Protocol, Reply};
use petrel_search::query::ast::FieldMask;
use petrel_search::query::spelling::{Near, QueryWord, near_terms, query_words};
use petrel_search::text::fold;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Terms that are compared while the index is held.
const TERMS_PER_STEP: u32 = 512;
/// Work units of a comparison.
const UNITS_PER_TERM: usize = 8;

const DISTANCES: &str = "bad distance given, distance must be a natural number between 1 to 4";

/// Options of the command.
struct Spelling<'a> {
    distance: usize,
    included: Vec<Arc<Dictionary>>,
    excluded: Vec<Arc<Dictionary>>,
    /// Scores are numbers of documents.
    with_counts: bool,
    search: Options<'a>,
}

/// Suggestions for a word, the best first.
type Suggestions = Vec<(Box<[u8]>, usize)>;

/// Close words as they are shown, with numbers of documents, by their folded form.
type Close = HashMap<Box<[u8]>, (Box<[u8]>, usize)>;

/// `FT.SPELLCHECK index query [DISTANCE d] [TERMS INCLUDE|EXCLUDE dictionary] ... [FULLSCOREINFO]`
pub(super) fn check(ctx: &mut Ctx<'_>) -> Outcome {
    let name = name_argument(ctx)?;
    let text = *ctx.args().get(2).ok_or_else(|| ctx.wrong_arity())?;
    let index = open(ctx, name, || Fail::fixed("Unknown Index name"))?;
    let spelling = Spelling::parse(ctx)?;
    let tree = words::parse(text, &spelling.search, &index.schema, None)?;
    ctx.exec.ks.wait_for_indexes();
    let documents = index.live.read().len();
    let started = Instant::now();
    let mut known: HashMap<Box<[u8]>, Option<usize>> = HashMap::new();
    let (mut found, mut order) = (Vec::new(), Vec::new());
    for word in query_words(&tree) {
        let key = [&word.fields.0.to_le_bytes()[..], &word.text].concat().into_boxed_slice();
        let number = match known.get(&key) {
            Some(number) => *number,
            None => {
                let suggestions = spelling.suggest(ctx, &index, &word, started)?;
                let number = suggestions.map(|suggestions| {
                    found.push((word.text, suggestions));
                    found.len() - 1
                });
                known.insert(key, number);
                number
            }
        };
        order.extend(number);
    }
    let results: Vec<_> = order.into_iter().map(|number| &found[number]).collect();
    write(ctx.reply, &results, documents, spelling.with_counts);
    Ok(())
}

impl<'a> Spelling<'a> {
    fn parse(ctx: &Ctx<'a>) -> Result<Self, Fail> {
        let search = Options::new(ctx.exec.shared.search.settings.dialect());
        let mut spelling = Spelling {
            distance: 1,
            included: Vec::new(),
            excluded: Vec::new(),
            with_counts: false,
            search,
        };
        let dictionaries = ctx.exec.aux::<Dictionaries>();
        let mut arguments = Arguments::new(&ctx.args()[3..]);
        while let Some(word) = arguments.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"DISTANCE" => {
                    let missing = "DISTANCE arg is given but no DISTANCE comes after";
                    let text = arguments.next().ok_or(Fail::fixed(missing))?;
                    let number = crate::numbers::integer(text).ok();
                    let number = number.filter(|number| (1..=4).contains(number));
                    spelling.distance = number.ok_or(Fail::fixed(DISTANCES))? as usize;
                }
                b"TERMS" => {
                    let missing =
                        || Fail::fixed("TERM arg is given but no TERM params comes after");
                    let action = arguments.next().ok_or_else(missing)?;
                    let name = arguments.next().ok_or_else(missing)?;
                    let list = match () {
                        () if action.eq_ignore_ascii_case(b"INCLUDE") => &mut spelling.included,
                        () if action.eq_ignore_ascii_case(b"EXCLUDE") => &mut spelling.excluded,
                        // As Redis spells it.
                        () => {
                            let text = "bad format, exlude/include operation was not given";
                            return Err(Fail::fixed(text));
                        }
                    };
                    let found = dictionaries.find(ctx.db(), name);
                    let unknown = || Fail::new([b"Dict does not exist: ", name].concat());
                    list.push(found.ok_or_else(unknown)?.clone());
                }
                b"FULLSCOREINFO" => spelling.with_counts = true,
                b"DIALECT" => {
                    spelling.search.value_option(b"DIALECT", &mut arguments, Protocol::Resp2)?;
                }
                // As in Redis.
                _ => {}
            }
        }
        Ok(spelling)
    }

    /// Suggestions for a word; none if the index or an excluding dictionary has it.
    fn suggest(
        &self,
        ctx: &mut Ctx<'_>,
        index: &OpenIndex,
        word: &QueryWord,
        started: Instant,
    ) -> Result<Option<Suggestions>, Fail> {
        let is_it = |other: &[u8]| fold(other) == *word.text;
        for dictionary in &self.excluded {
            if dictionary.contains(&word.text) {
                return Ok(None);
            }
            for other in dictionary.iter() {
                ctx.pace(1)?;
                if is_it(other) {
                    return Ok(None);
                }
            }
        }
        let has_term = index.live.read().texts().is_some_and(|index| {
            let texts = index.texts();
            let term = texts.terms().find(&word.text);
            term.is_some_and(|term| texts.frequency(term) > 0)
        });
        if has_term {
            return Ok(None);
        }
        let mut near = Near::new(&word.text, self.distance);
        let mut found = Close::new();
        self.near_terms(ctx, index, &mut near, word.fields, started, &mut found)?;
        for other in self.included.iter().flat_map(|words| words.iter()) {
            ctx.pace(UNITS_PER_TERM)?;
            let folded = fold(other);
            if near.is_near(&folded) {
                found.entry(folded.into()).or_insert_with(|| (other.clone(), 0));
            }
        }
        let mut suggestions: Suggestions = found.into_values().collect();
        suggestions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(Some(suggestions))
    }

    fn near_terms(
        &self,
        ctx: &mut Ctx<'_>,
        index: &OpenIndex,
        near: &mut Near,
        fields: FieldMask,
        started: Instant,
        found: &mut Close,
    ) -> Outcome {
        let timeout = ctx.exec.shared.search.settings.timeout();
        let mut next = 0;
        loop {
            let contents = index.live.read();
            let Some(texts) = contents.texts().map(|index| index.texts()) else { return Ok(()) };
            let end = u32::try_from(texts.terms().end()).unwrap_or(u32::MAX);
            let to = end.min(next + TERMS_PER_STEP);
            near_terms(texts, next..to, near, fields, &mut |term, documents| {
                found.insert(term.into(), (term.into(), documents));
            });
            drop(contents);
            if to >= end {
                return Ok(());
            }
            next = to;
            if !timeout.is_zero() && started.elapsed() >= timeout {
                return Err(Fail::fixed("Timeout limit was reached"));
            }
            ctx.pace(TERMS_PER_STEP as usize * UNITS_PER_TERM)?;
        }
    }
}

/// Writes the suggestions of all words.
fn write(
    reply: &mut dyn Reply,
    results: &[&(Box<[u8]>, Suggestions)],
    documents: usize,
    with_counts: bool,
) {
    let score = |count: usize| match with_counts || documents == 0 {
        true => count as f64,
        false => count as f64 / documents as f64,
    };
    let is_map = reply.protocol() == Protocol::Resp3;
    if is_map {
        reply.map(1 + usize::from(with_counts));
        if with_counts {
            reply.simple("total_docs");
            reply.integer(documents as i64);
        }
        reply.simple("results");
        reply.map(results.len());
    } else {
        reply.array(results.len() + usize::from(with_counts));
        if with_counts {
            reply.integer(documents as i64);
        }
    }
    for (word, suggestions) in results {
        if !is_map {
            reply.array(3);
            reply.simple("TERM");
        }
        reply.bulk(word);
        reply.array(suggestions.len());
        for (term, count) in suggestions {
            if is_map {
                reply.map(1);
                reply.bulk(term);
                reply.double(score(*count));
            } else {
                reply.array(2);
                reply.double(score(*count));
                reply.bulk(term);
            }
        }
    }
}
