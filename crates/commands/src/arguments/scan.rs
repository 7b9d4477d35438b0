//! Common parts of SCAN, SSCAN, HSCAN and ZSCAN: cursors, options and replies.

use super::cursor::parse_cursor;
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::glob::{Case, Pattern};
use crate::long::Pacer;
use crate::numbers::integer;
use petrel_keyspace::Type;
use petrel_table::options::ScanOption;

/// Units for examining an item.
const UNITS_PER_ITEM: usize = 4;

/// Default of `COUNT`.
const COUNT: usize = 10;

/// Kind of scan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scanned {
    /// The keys of a database, by `SCAN`.
    Keys,
    /// The fields of a hash, by `HSCAN`.
    Fields,
    /// The members of a set.
    Members,
    /// The members of a sorted set, by `ZSCAN`.
    Scores,
}

/// The options of a call.
pub(crate) struct Options<'a> {
    /// `COUNT`: number of items to examine, at least 1.
    pub count: usize,
    /// `TYPE`: type of the wanted values.
    pub type_name: Option<&'a [u8]>,
    /// `NOVALUES`.
    pub no_values: bool,
    /// `NOSCORES`.
    pub no_scores: bool,
    pattern: Option<Pattern<'a>>,
}

impl<'a> Options<'a> {
    /// The options from argument `from` on.
    pub fn parse(ctx: &Ctx<'a>, from: usize, scanned: Scanned) -> Result<Self, Fail> {
        let mut options = Options {
            count: COUNT,
            pattern: None,
            type_name: None,
            no_values: false,
            no_scores: false,
        };
        for option in ctx.options(from) {
            match option? {
                ScanOption::Novalues if scanned != Scanned::Fields => {
                    return Err(Fail::fixed("ERR NOVALUES option can only be used in HSCAN"));
                }
                ScanOption::Noscores if scanned != Scanned::Scores => {
                    return Err(Fail::fixed("ERR NOSCORES option can only be used in ZSCAN"));
                }
                ScanOption::Novalues => options.no_values = true,
                ScanOption::Noscores => options.no_scores = true,
                ScanOption::Count(count) => match integer(count)? {
                    count @ 1.. => options.count = usize::try_from(count).unwrap_or(usize::MAX),
                    _ => return Err(Fail::SYNTAX),
                },
                ScanOption::Match(pattern) => {
                    let pattern = Some(pattern).filter(|pattern| *pattern != b"*");
                    options.pattern = pattern.map(|pattern| Pattern::new(pattern, Case::Sensitive));
                }
                ScanOption::Type(_) if scanned != Scanned::Keys => return Err(Fail::SYNTAX),
                ScanOption::Type(name) if ctx.dialect().is_valkey() && !Type::is_name(name) => {
                    let name = name.escape_ascii();
                    return Err(Fail::new(format!("ERR unknown type name '{name}'")));
                }
                ScanOption::Type(name) => options.type_name = Some(name),
            }
        }
        Ok(options)
    }

    /// Whether `MATCH` admits a name.
    pub fn admits(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    }

    /// Like [`Options::admits`], for a walk that holds stripes: false once it is `ended`.
    pub fn admits_within(&self, name: &[u8], pacer: &mut Pacer, ended: &mut Outcome) -> bool {
        let units = self.pattern.as_ref().map_or(0, |pattern| pattern.units(name.len()));
        pacer.goes_on(UNITS_PER_ITEM + units, ended) && self.admits(name)
    }
}

/// Argument `i` as the cursor that a client sent back.
pub(crate) fn cursor(ctx: &Ctx<'_>, i: usize) -> Result<u64, Fail> {
    parse_cursor(ctx.arg(i)).ok_or(Fail::fixed("ERR invalid cursor"))
}

/// Copies of what a walk found, one behind the other.
#[derive(Default)]
pub(crate) struct Found {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Found {
    /// Adds one.
    pub fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.ends.push(self.bytes.len());
    }

    /// The first.
    pub fn first(&self) -> Option<&[u8]> {
        self.ends.first().map(|&end| &self.bytes[..end])
    }

    /// Writes all as an array.
    pub fn write(&self, ctx: &mut Ctx<'_>) {
        ctx.reply.array(self.ends.len());
        let mut begin = 0;
        for &end in &self.ends {
            ctx.reply.bulk(&self.bytes[begin..end]);
            begin = end;
        }
    }

    /// Writes the reply of a scan: the next cursor and the found items.
    pub fn write_with_cursor(&self, ctx: &mut Ctx<'_>, cursor: u64) -> Outcome {
        ctx.reply.array(2);
        ctx.reply.bulk(itoa::Buffer::new().format(cursor).as_bytes());
        self.write(ctx);
        Ok(())
    }
}
