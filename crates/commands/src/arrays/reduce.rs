//! `AROP`: sums, extremes and bits of the elements in a range.

use super::{BYTES_PER_UNIT, index, read};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_ITEM, expect};
use crate::numbers::extended::Extended;
use petrel_keyspace::array::{Array, Element};
use petrel_keyspace::parse_int;
use petrel_table::options::AropOption;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Units for reading a number from its text.
const UNITS_PER_NUMBER: usize = 20;

/// Units for counting the elements of a slice.
const UNITS_PER_SLICE: usize = 8;

/// Result so far.
enum Rest {
    Count(u64),
    Number(Option<Extended>),
    Bits(Option<i64>),
}

/// The number of an element, if it is one.
fn number(element: Element<'_>) -> Option<Extended> {
    match element {
        Element::Int(number) => Some(Extended::from(number)),
        Element::Text(text) => match parse_int(text) {
            Some(number) => Some(Extended::from(number)),
            None => Extended::parse(text),
        },
    }
}

/// The number of an element without its fraction, if it is one and fits.
fn bits(element: Element<'_>) -> Option<i64> {
    /// 2^63.
    const END: f64 = 9_223_372_036_854_775_808.0;
    match element {
        Element::Int(number) => Some(number),
        Element::Text(text) => parse_int(text).or_else(|| {
            let whole = Extended::parse(text)?.to_double()?.trunc();
            (-END..END).contains(&whole).then_some(whole as i64)
        }),
    }
}

fn add_up(rest: &mut Rest, operation: AropOption<'_>, element: Element<'_>) {
    match (rest, operation) {
        (Rest::Count(count), AropOption::Match(text)) => {
            *count += u64::from(element.with_text(|own| own == text));
        }
        (Rest::Number(rest), _) => {
            let Some(number) = number(element) else { return };
            let is_less = |rest: Extended| number.compare(rest) == Ordering::Less;
            *rest = Some(match (*rest, operation) {
                (Some(rest), AropOption::Sum) => rest.add(number),
                (Some(rest), AropOption::Min) if !is_less(rest) => rest,
                (Some(rest), AropOption::Max) if is_less(rest) => rest,
                _ => number,
            });
        }
        (Rest::Bits(rest), _) => {
            let Some(bits) = bits(element) else { return };
            *rest = Some(match (*rest, operation) {
                (None, _) => bits,
                (Some(rest), AropOption::And) => rest & bits,
                (Some(rest), AropOption::Or) => rest | bits,
                (Some(rest), _) => rest ^ bits,
            });
        }
        (Rest::Count(_), _) => {}
    }
}

/// The text of a result, which may be infinite.
fn text_of(number: Extended) -> Vec<u8> {
    let zero = Extended::from(0);
    number.print().unwrap_or_else(|| match number.compare(zero) {
        Ordering::Greater => b"inf".to_vec(),
        Ordering::Less => b"-inf".to_vec(),
        Ordering::Equal => b"nan".to_vec(),
    })
}

/// `AROP key start end <SUM | MIN | MAX | AND | OR | XOR | MATCH value | USED>`
pub(super) fn reduce(ctx: &mut Ctx<'_>) -> Outcome {
    let (start, end) = (index(ctx.arg(2))?, index(ctx.arg(3))?);
    let operation = operation(ctx)?;
    let (lo, hi) = (start.min(end), start.max(end));
    let mut rest = match operation {
        AropOption::Match(_) | AropOption::Used => Rest::Count(0),
        AropOption::Sum | AropOption::Min | AropOption::Max => Rest::Number(None),
        AropOption::And | AropOption::Or | AropOption::Xor => Rest::Bits(None),
    };
    let (here, mut pacer) = (ctx.exec.units_here, ctx.exec.pacer());
    if let Some(array) = read(ctx)? {
        let slices = array.slices_between(lo, hi);
        expect(slices.saturating_mul(UNITS_PER_SLICE), here)?;
        if let AropOption::Used = operation {
            rest = Rest::Count(array.count_between(lo, hi));
        } else {
            each(array, (lo, hi), &mut |units| pacer.pace(units), &mut |element| {
                add_up(&mut rest, operation, element);
            })?;
        }
    }
    match rest {
        Rest::Count(count) => super::write_number(ctx.reply, count),
        Rest::Number(Some(number)) => ctx.reply.bulk(&text_of(number)),
        Rest::Bits(Some(bits)) => ctx.reply.integer(bits),
        Rest::Number(None) | Rest::Bits(None) => ctx.reply.null(),
    }
    Ok(())
}

fn operation<'a>(ctx: &Ctx<'a>) -> Result<AropOption<'a>, Fail> {
    let mut options = ctx.options::<AropOption<'a>>(4);
    match options.next() {
        Some(Ok(_)) if options.left() > 0 => Err(Fail::SYNTAX),
        Some(Ok(operation)) => Ok(operation),
        Some(Err(_)) if ctx.is(4, "MATCH") => {
            Err(Fail::fixed("ERR MATCH requires a value argument"))
        }
        _ => Err(Fail::fixed("ERR unknown operation")),
    }
}

/// Passes on the elements of a range, and counts the work.
fn each(
    array: &Array,
    (lo, hi): (u64, u64),
    pace: &mut dyn FnMut(usize) -> Outcome,
    take: &mut dyn FnMut(Element<'_>),
) -> Outcome {
    let ended = array.each(lo, hi, &mut |_, element| {
        take(element);
        let units = match element {
            Element::Int(_) => UNITS_PER_ITEM,
            Element::Text(text) => UNITS_PER_NUMBER + text.len() / BYTES_PER_UNIT,
        };
        match pace(units) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fail) => ControlFlow::Break(fail),
        }
    });
    ended.break_value().map_or(Ok(()), Err)
}
