//! VSIM.

use super::add::input_mismatch;
use super::{INVALID_VECTOR, expect, score, set_at_key, vector_at};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::double;
use petrel_keyspace::parse_int;
use petrel_table::options::VsimOption;
use petrel_vector::{Filter, Hit, Quantisation, Query, Search, Shape, SyntaxError, VectorSet};

/// Default number of elements to return.
const COUNT: usize = 10;
/// Default search effort (`EF`): size of the candidate list; at least the count.
const EF: usize = 100;
/// Maximum number of visited nodes per requested element, with a filter.
const LOOKS_PER_ELEMENT: usize = 100;

struct Options {
    count: usize,
    ef: Option<usize>,
    epsilon: Option<f64>,
    filter: Option<Filter>,
    filter_ef: Option<usize>,
    exact: bool,
    with_scores: bool,
    with_attributes: bool,
}

/// `VSIM key <ELE element | FP32 blob | VALUES n x ...> [WITHSCORES] [WITHATTRIBS] [COUNT count]
/// [EPSILON delta] [EF ef] [FILTER expression] [FILTER-EF effort] [TRUTH] [NOTHREAD]`
pub(super) fn vsim(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() >= 4)?;
    let Some(set) = set_at_key(ctx)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let (query, at) = query(ctx, &set)?;
    let options = options(ctx, at)?;
    let search = Search {
        count: options.count,
        ef: options.ef.unwrap_or(EF),
        epsilon: options.epsilon,
        filter_ef: options
            .filter_ef
            .unwrap_or_else(|| options.count.saturating_mul(LOOKS_PER_ELEMENT)),
        exact: options.exact,
    };
    let (filter, mut ended) = (options.filter.as_ref(), Ok(()));
    let mut go_on = |units| ctx.goes_on(units, &mut ended);
    let hits = set.search_while(&query, &search, filter, &mut go_on);
    ended?;
    let hits = hits.unwrap_or_default();
    write(ctx, &hits, options.with_scores, options.with_attributes);
    Ok(())
}

/// Parses the query vector, and returns the index of the first option.
fn query(ctx: &Ctx<'_>, set: &VectorSet) -> Result<(Query, usize), Fail> {
    if ctx.is(2, "ELE") {
        let found = set.vector(ctx.arg(3));
        let found = found.ok_or(Fail::fixed("ERR element not found in set"))?;
        if set.shape().quantisation == Quantisation::RaBitQ {
            return Ok((set.shape().query_of(found.as_ref()), 4));
        }
        // Like Redis, which encodes the decoded vector again: it then has length 1, like any query
        // vector.
        let as_stored = Shape { input_dim: None, ..*set.shape() };
        let vector = as_stored.decode(found.as_ref());
        return Ok((as_stored.query(&vector).ok_or(INVALID_VECTOR)?, 4));
    }
    let (vector, at) = vector_at(ctx, 2)?;
    let (shape, dim) = (*set.shape(), vector.len() as u32);
    let as_stored = Shape { input_dim: None, ..shape };
    let query = match shape.input_dim {
        Some(input) if dim == input => shape.query(&vector),
        _ if dim == shape.dim => as_stored.query(&vector),
        Some(input) => return Err(input_mismatch(dim, input)),
        None => {
            return Err(Fail::new(format!(
                "ERR Vector dimension mismatch - got {dim} but set has {}",
                shape.dim
            )));
        }
    };
    Ok((query.ok_or(INVALID_VECTOR)?, at))
}

fn options(ctx: &Ctx<'_>, from: usize) -> Result<Options, Fail> {
    let mut options = Options {
        count: COUNT,
        ef: None,
        epsilon: None,
        filter: None,
        filter_ef: None,
        exact: false,
        with_scores: false,
        with_attributes: false,
    };
    let positive = |text: &[u8], error: &'static str| {
        let n = parse_int(text).filter(|&n| n > 0);
        n.map(|n| n as usize).ok_or(Fail::fixed(error))
    };
    for option in ctx.options(from) {
        match option {
            Ok(VsimOption::Withscores) => options.with_scores = true,
            Ok(VsimOption::Withattribs) => options.with_attributes = true,
            Ok(VsimOption::Truth) => options.exact = true,
            // Accepted without effect: every worker searches on its own thread.
            Ok(VsimOption::Nothread) => {}
            Ok(VsimOption::Count(text)) => options.count = positive(text, "ERR invalid COUNT")?,
            Ok(VsimOption::Ef(text)) => options.ef = Some(positive(text, "ERR invalid EF")?),
            Ok(VsimOption::FilterEf(text)) => {
                options.filter_ef = Some(positive(text, "ERR invalid FILTER-EF")?);
            }
            Ok(VsimOption::Epsilon(text)) => {
                let epsilon = double::parse(text).filter(|&epsilon| epsilon > 0.0);
                options.epsilon = Some(epsilon.ok_or(Fail::fixed("ERR invalid EPSILON"))?);
            }
            Ok(VsimOption::Filter(text)) => {
                options.filter = Some(Filter::compile(text).map_err(wrong_filter)?);
            }
            Ok(VsimOption::Ele(_) | VsimOption::Fp32(_) | VsimOption::Values(_)) | Err(_) => {
                return Err(Fail::fixed("ERR syntax error in VSIM command"));
            }
        }
    }
    Ok(options)
}

fn wrong_filter(error: SyntaxError) -> Fail {
    let mut text = b"ERR syntax error in FILTER expression near: ".to_vec();
    text.extend_from_slice(&error.near);
    Fail::new(text)
}

fn write(ctx: &mut Ctx<'_>, hits: &[Hit], with_scores: bool, with_attributes: bool) {
    let reply = &mut *ctx.reply;
    let is_paired = with_scores && with_attributes;
    let has_pairs = is_paired && reply.protocol() == petrel_resp::Protocol::Resp3;
    match (with_scores || with_attributes, is_paired, has_pairs) {
        (false, ..) => reply.array(hits.len()),
        (true, true, false) => reply.array(hits.len() * 3),
        _ => reply.map(hits.len()),
    }
    for hit in hits {
        reply.bulk(&hit.name);
        if has_pairs {
            reply.array(2);
        }
        if with_scores {
            reply.double(score(hit.distance));
        }
        match &hit.attributes {
            _ if !with_attributes => {}
            Some(attributes) => reply.bulk(attributes),
            None => reply.null(),
        }
    }
}
