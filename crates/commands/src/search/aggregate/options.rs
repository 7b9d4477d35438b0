//! Steps and options of `FT.AGGREGATE`.

use crate::fail::{Fail, Outcome};
use crate::search::arguments::Arguments;
use crate::search::query::Options;
use petrel_resp::Protocol;
use petrel_search::aggregate::step::{Arrange, LoadedField, Reduce, Step};
use petrel_search::query::Dialect;

/// Maximum number of properties of `SORTBY`.
const SORT_KEYS_MAX: usize = 8;
/// Results of a read of a cursor by default.
const CHUNK_DEFAULT: usize = 1000;
/// Largest offset of `LIMIT`.
const OFFSET_MAX: u64 = 1_000_000;

/// Options of `FT.AGGREGATE`.
#[derive(Default)]
pub(super) struct AggregateOptions<'a> {
    /// Options that `FT.SEARCH` has too.
    pub search: Options<'a>,
    pub steps: Vec<Step<'a>>,
    pub adds_scores: bool,
    pub cursor: Option<CursorOptions>,
}

/// Options of `WITHCURSOR`.
#[derive(Clone, Copy)]
pub(super) struct CursorOptions {
    pub count: usize,
    pub max_idle_ms: Option<u64>,
}

impl<'a> AggregateOptions<'a> {
    pub fn parse(
        arguments: &mut Arguments<'a>,
        protocol: Protocol,
        dialect: Dialect,
    ) -> Result<Self, Fail> {
        let search = Options::new(dialect);
        let mut options = AggregateOptions { search, ..AggregateOptions::default() };
        while let Some(word) = arguments.next() {
            let upper = word.to_ascii_uppercase();
            let is_known = options.step(&upper, arguments)?
                || options.own(&upper, arguments)?
                || options.search.flag(&upper)
                || !is_foreign(&upper) && options.search.list_option(&upper, arguments)?
                || !is_foreign(&upper)
                    && options.search.value_option(&upper, arguments, protocol)?;
            if !is_known {
                return Err(Options::unknown(word, arguments));
            }
        }
        options.search.check()?;
        Ok(options)
    }

    fn own(&mut self, upper: &[u8], arguments: &mut Arguments<'a>) -> Result<bool, Fail> {
        match upper {
            b"ADDSCORES" => self.adds_scores = true,
            b"WITHCURSOR" => self.cursor = Some(cursor(arguments)?),
            b"RETURN" | b"HIGHLIGHT" | b"SUMMARIZE" => {
                return Err(Fail::new([upper, b" is not supported on FT.AGGREGATE"].concat()));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn step(&mut self, upper: &[u8], arguments: &mut Arguments<'a>) -> Result<bool, Fail> {
        match upper {
            b"LOAD" => {
                let step = match arguments.take("*") {
                    true => Step::LoadAll,
                    false => Step::Load(loaded(arguments)?),
                };
                self.steps.push(step);
            }
            b"GROUPBY" => self.steps.push(group(arguments)?),
            b"SORTBY" => sort(self.arrange(), arguments)?,
            b"LIMIT" => {
                let (offset, count) = limit(arguments)?;
                let arrange = self.arrange();
                (arrange.offset, arrange.count) = (offset, Some(count));
            }
            b"APPLY" => {
                let expression = arguments.value("APPLY/FILTER")?;
                let name = match arguments.take("AS") {
                    true => arguments.next().ok_or(Fail::fixed("AS needs argument"))?,
                    false => expression,
                };
                self.steps.push(Step::Apply { expression, name });
            }
            b"FILTER" => self.steps.push(Step::Filter(arguments.value("APPLY/FILTER")?)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The step of order and page: as in Redis there is one at most before and after each group,
    /// at the place of the first `SORTBY` or `LIMIT`.
    fn arrange(&mut self) -> &mut Arrange<'a> {
        let start = self.steps.iter().rposition(|step| matches!(step, Step::Group { .. }));
        let start = start.map_or(0, |group| group + 1);
        let is_arrange = |step: &Step<'_>| matches!(step, Step::Arrange(_));
        let at = match self.steps[start..].iter().position(is_arrange) {
            Some(at) => start + at,
            None => {
                self.steps.push(Step::Arrange(Arrange::default()));
                self.steps.len() - 1
            }
        };
        match &mut self.steps[at] {
            Step::Arrange(arrange) => arrange,
            _ => unreachable!("it was found, or pushed"),
        }
    }
}

/// Options of `FT.SEARCH` that `FT.AGGREGATE` lacks.
fn is_foreign(upper: &[u8]) -> bool {
    matches!(upper, b"GEOFILTER" | b"FILTER")
}

fn cursor(arguments: &mut Arguments<'_>) -> Result<CursorOptions, Fail> {
    let mut cursor = CursorOptions { count: CHUNK_DEFAULT, max_idle_ms: None };
    loop {
        let name = match () {
            () if arguments.take("COUNT") => "COUNT",
            () if arguments.take("MAXIDLE") => "MAXIDLE",
            () => return Ok(cursor),
        };
        let number = match arguments.number(name)? {
            0 => return Err(Arguments::out_of_bounds(name)),
            number => number,
        };
        match name {
            "COUNT" => cursor.count = usize::try_from(number).unwrap_or(usize::MAX),
            _ => cursor.max_idle_ms = Some(number),
        }
    }
}

fn loaded<'a>(arguments: &mut Arguments<'a>) -> Result<Vec<LoadedField<'a>>, Fail> {
    if arguments.is_empty() {
        arguments.value("LOAD")?;
    }
    // Redis has no reason to tell.
    let words = arguments.list("LOAD");
    let words = words.map_err(|_| Fail::fixed("Bad arguments for LOAD: SUCCESS"))?;
    let mut fields = Vec::new();
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        let field = word.strip_prefix(b"@").unwrap_or(word);
        let mut name = field;
        if words.next_if(|word| word.eq_ignore_ascii_case(b"AS")).is_some() {
            let unnamed = Fail::fixed("LOAD path AS name - must be accompanied with NAME");
            name = words.next().ok_or(unnamed)?;
        }
        fields.push(LoadedField { field, name });
    }
    Ok(fields)
}

fn group<'a>(arguments: &mut Arguments<'a>) -> Result<Step<'a>, Fail> {
    let mut by = Vec::new();
    for word in arguments.list("GROUPBY")? {
        let name = word.strip_prefix(b"@").ok_or_else(|| {
            let parts: [&[u8]; 5] = [
                b"Bad arguments for GROUPBY: Unknown property `",
                word,
                b"`. Did you mean `@",
                word,
                b"`?",
            ];
            Fail::new(parts.concat())
        })?;
        by.push(name);
    }
    let mut reducers = Vec::new();
    while arguments.take("REDUCE") {
        let unnamed = Fail::fixed("Bad arguments for REDUCE: SUCCESS");
        let function = arguments.next().ok_or(unnamed)?;
        let values = arguments.list(&String::from_utf8_lossy(function))?;
        let name = match arguments.take("AS") {
            true => Some(arguments.value("AS")?),
            false => None,
        };
        reducers.push(Reduce { function, arguments: values, name });
    }
    Ok(Step::Group { by, reducers })
}

fn sort<'a>(arrange: &mut Arrange<'a>, arguments: &mut Arguments<'a>) -> Outcome {
    if arrange.sort.is_some() {
        let text = "Multiple SORTBY steps are not allowed. Sort multiple fields in a single step";
        return Err(Fail::fixed(text));
    }
    let mut keys: Vec<(&[u8], bool)> = Vec::new();
    for &word in arguments.list("SORTBY")? {
        if let Some(name) = word.strip_prefix(b"@") {
            keys.push((name, false));
            if keys.len() > SORT_KEYS_MAX {
                return Err(Fail::fixed("Cannot sort by more than 8 fields"));
            }
            continue;
        }
        let is_descending = word.eq_ignore_ascii_case(b"DESC");
        if !is_descending && !word.eq_ignore_ascii_case(b"ASC") {
            let parts: [&[u8]; 3] = [b"MISSING ASC or DESC after sort field (", word, b")"];
            return Err(Fail::new(parts.concat()));
        }
        if let Some(last) = keys.last_mut() {
            last.1 = is_descending;
        }
    }
    arrange.sort = Some(keys);
    if arguments.take("MAX") {
        let bad = "Bad arguments for MAX: Could not convert argument to expected type";
        let most = arguments.number("MAX").map_err(|_| Fail::fixed(bad))?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        arrange.count = Some(most).filter(|&most| most > 0);
    }
    Ok(())
}

fn limit(arguments: &mut Arguments<'_>) -> Result<(usize, usize), Fail> {
    let mut word = || arguments.next().ok_or(Fail::fixed("LIMIT requires two arguments"));
    let (offset, count) = (word()?, word()?);
    let number = |text: &[u8]| {
        let number = crate::numbers::integer(text).ok();
        let number = number.and_then(|number| u64::try_from(number).ok());
        number.ok_or(Fail::fixed("LIMIT needs two numeric arguments"))
    };
    let (offset, count) = (number(offset)?, number(count)?);
    if offset > OFFSET_MAX {
        return Err(Fail::fixed("OFFSET exceeds maximum of 1000000"));
    }
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok((size(offset), size(count)))
}
