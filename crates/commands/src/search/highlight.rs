//! `HIGHLIGHT` and `SUMMARIZE`: texts of results with marks, or in parts.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::arguments::Arguments;
use crate::search::load::{Loader, Returned};
use crate::search::query::Searched;
use petrel_search::index::condition::Condition;
use petrel_search::index::live::Live;
use petrel_search::index::schema::{FieldKind, IndexFlag, Schema};
use petrel_search::index::texts::TextRules;
use petrel_search::query::highlight::{
    MarkedText, Marks, Matcher, Output, Summary, Tags, write_marked, write_summary,
};
use petrel_search::query::{Scorer, Scoring};
use petrel_search::text::Language;

/// Work units of a word of a text.
const UNITS_PER_WORD: usize = 8;

/// Highlights and summaries of texts, by fields.
#[derive(Default)]
pub(super) struct Highlights<'a> {
    tags: Vec<(Scope<'a>, Tags<'a>)>,
    summaries: Vec<(Scope<'a>, Summary<'a>)>,
}

/// Names of fields; none for all.
type Scope<'a> = Option<&'a [&'a [u8]]>;

/// The last setting of a field, or that of all fields.
fn of<'s, T>(settings: &'s [(Scope<'_>, T)], field: &[u8]) -> Option<&'s T> {
    let has = |scope: &Scope<'_>| scope.is_some_and(|names| names.contains(&field));
    let own = settings.iter().rfind(|(scope, _)| has(scope));
    own.or_else(|| settings.iter().rfind(|(scope, _)| scope.is_none())).map(|(_, value)| value)
}

impl<'a> Highlights<'a> {
    /// Whether any text is changed.
    pub fn is_any(&self) -> bool {
        !self.tags.is_empty() || !self.summaries.is_empty()
    }

    /// Takes an option; false if it is none of these.
    pub fn parse(&mut self, upper: &[u8], arguments: &mut Arguments<'a>) -> Result<bool, Fail> {
        match upper {
            b"HIGHLIGHT" => {
                let tags = highlight(arguments);
                self.tags.push(tags.map_err(|_| Fail::fixed("Bad arguments for HIGHLIGHT"))?);
            }
            b"SUMMARIZE" => {
                let summary = summary(arguments);
                let bad = |_| Fail::fixed("Bad arguments for SUMMARIZE");
                self.summaries.push(summary.map_err(bad)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks the names of fields.
    pub fn check(&self, schema: &Schema, returned: Option<&[Returned<'_>]>) -> Outcome {
        if !self.is_any() {
            return Ok(());
        }
        if schema.has_flag(IndexFlag::NoOffsets) || schema.has_flag(IndexFlag::NoHighlight) {
            // As Redis spells it.
            return Err(Fail::fixed(
                "Cannot use highlight/summarize because NOOFSETS was specified at index level",
            ));
        }
        let scopes = || {
            let scopes = self.tags.iter().map(|(scope, _)| scope);
            scopes.chain(self.summaries.iter().map(|(scope, _)| scope))
        };
        let named = || scopes().flatten().flat_map(|names| names.iter().copied());
        let is_unknown = |name: &[u8]| schema.field(name).is_none();
        let Some(returned) = returned else {
            return match named().find(|name| is_unknown(name)) {
                Some(name) => Err(Fail::new([b"No such property `", name, b"`"].concat())),
                None => Ok(()),
            };
        };
        let of_all = scopes().any(Option::is_none);
        let unknown = returned.iter().find_map(|Returned { field, name }| {
            let is_named = named().any(|named| named == *name);
            let tested = if is_named { name } else { field };
            ((is_named || of_all) && is_unknown(tested)).then_some(*tested)
        });
        match unknown {
            Some(name) => Err(Fail::new([b"Property `", name, b"` is not in schema"].concat())),
            None => Ok(()),
        }
    }
}

/// `[FIELDS count field ...]`
fn scope<'a>(arguments: &mut Arguments<'a>) -> Result<Scope<'a>, Fail> {
    match arguments.take("FIELDS") {
        true => Ok(Some(arguments.list("FIELDS")?).filter(|names| !names.is_empty())),
        false => Ok(None),
    }
}

/// `HIGHLIGHT [FIELDS count field ...] [TAGS open close]`
fn highlight<'a>(arguments: &mut Arguments<'a>) -> Result<(Scope<'a>, Tags<'a>), Fail> {
    let scope = scope(arguments)?;
    let mut tags = Tags { open: b"<b>", close: b"</b>" };
    if arguments.take("TAGS") {
        tags.open = arguments.value("TAGS")?;
        tags.close = arguments.value("TAGS")?;
    }
    Ok((scope, tags))
}

/// `SUMMARIZE [FIELDS count field ...] [FRAGS count] [LEN words] [SEPARATOR text]`
fn summary<'a>(arguments: &mut Arguments<'a>) -> Result<(Scope<'a>, Summary<'a>), Fail> {
    let scope = scope(arguments)?;
    let mut summary = Summary { fragments: 3, len: 20, separator: b"... " };
    let number = |arguments: &mut Arguments<'a>, name| {
        let number = u32::try_from(arguments.number(name)?);
        number.map_err(|_| Arguments::out_of_bounds(name))
    };
    loop {
        match () {
            () if arguments.take("FRAGS") => summary.fragments = number(arguments, "FRAGS")?,
            () if arguments.take("LEN") => summary.len = number(arguments, "LEN")?,
            () if arguments.take("SEPARATOR") => {
                summary.separator = arguments.value("SEPARATOR")?
            }
            () => return Ok((scope, summary)),
        }
    }
}

/// Changes the texts of results.
///
/// # Errors
/// If the command is to end here.
pub(super) fn change_texts(
    ctx: &mut Ctx<'_>,
    searched: &Searched<'_, '_>,
    loader: &mut Loader,
) -> Outcome {
    let highlights = &searched.options.highlights;
    let rules = searched.index.rules().filter(|_| highlights.is_any());
    let Some(rules) = rules else { return Ok(()) };
    let matcher = match &searched.condition {
        Condition::Words(words) => Matcher::of(words.tree()),
        _ => Matcher::default(),
    };
    let schema = &searched.index.schema;
    for at in 0..loader.values() {
        let Some(number) = loader.field_of(at) else { continue };
        let field = &schema.fields[number];
        let FieldKind::Text { is_unstemmed, .. } = field.kind else { continue };
        let tags = of(&highlights.tags, &field.name).copied();
        let summary = of(&highlights.summaries, &field.name).copied();
        if tags.is_none() && summary.is_none() {
            continue;
        }
        let Some(text) = loader.text(at).map(<[u8]>::to_vec) else { continue };
        let language = loader.language_of(at).unwrap_or(rules.language());
        let is_searched = rules.has_field(number as u16) && !matcher.is_empty();
        let marks = match is_searched {
            true => {
                let stems = Some(language).filter(|_| !is_unstemmed);
                find(ctx, &text, stems, &rules, &matcher)?
            }
            false => Marks::default(),
        };
        let max = ctx.reply.room_left();
        let mut out = Output { bytes: loader.begin_value(), max };
        let written = match (summary, tags) {
            (Some(summary), tags) => {
                let live = &searched.index.live;
                write_summary(&text, &marks, summary, tags, &|term| weight(live, term), &mut out)
            }
            (None, Some(tags)) => write_marked(&text, &marks, tags, &mut out),
            (None, None) => Ok(()),
        };
        if written.is_err() {
            ctx.reply.refuse();
        }
        loader.end_value(at);
        if ctx.reply.is_dropped() {
            return Ok(());
        }
    }
    Ok(())
}

fn find(
    ctx: &mut Ctx<'_>,
    text: &[u8],
    stems: Option<Language>,
    rules: &TextRules,
    matcher: &Matcher,
) -> Result<Marks, Fail> {
    let is_stop_word = |word: &[u8]| rules.is_stop_word(word);
    let synonyms = rules.synonyms();
    let marked = MarkedText { text, stems, synonyms, is_stop_word: &is_stop_word };
    Marks::find(marked, matcher, &mut || ctx.pace(UNITS_PER_WORD))
}

/// Weight of a term between fragments: as in the score.
fn weight(live: &Live, term: &[u8]) -> f64 {
    let contents = live.read();
    let Some(index) = contents.texts() else { return 0.0 };
    let texts = index.texts();
    let frequency = texts.terms().find(term).map_or(0, |id| texts.frequency(id));
    Scoring::new(Scorer::TfIdf, texts, contents.len()).factor(frequency)
}
