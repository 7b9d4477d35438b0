//! VADD.

use super::{INVALID_VECTOR, expect, vector_at};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use petrel_keyspace::{VectorChange, parse_int};
use petrel_table::options::VaddOption;
use petrel_vector::{DIM_MAX, Quantisation, Shape};

/// Default search effort (`EF`) for linking an element.
const EF: i64 = 200;
const EF_MAX: i64 = 1_000_000;
/// Default number of links on the upper levels (`M`).
const LINKS: i64 = 16;
const LINKS_RANGE: std::ops::RangeInclusive<i64> = 4..=4096;

struct Options<'a> {
    quantisation: Quantisation,
    ef: u32,
    links: u16,
    attributes: Option<&'a [u8]>,
}

/// `VADD key [REDUCE dim] <FP32 blob | VALUES n x ...> element [CAS]
/// [NOQUANT | Q8 | BIN | RABITQ] [EF ef] [SETATTR attributes] [M links]`
pub(super) fn vadd(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() >= 5)?;
    let (reduced, at) = reduction(ctx)?;
    let (vector, at) = vector_at(ctx, at)?;
    expect(ctx, at < ctx.args().len())?;
    let name = ctx.arg(at);
    let options = options(ctx, at + 1)?;
    let (key, db) = (ctx.key(1), ctx.db());
    // A vector has at most `DIM_MAX` components.
    let dim = vector.len() as u32;
    let shape = match ctx.exec.ks.look(db, key) {
        Some(view) => {
            let shape = *view.vectors()?.shape();
            check(&shape, dim, reduced, &options)?;
            shape
        }
        None => Shape {
            dim: reduced.unwrap_or(dim),
            quantisation: options.quantisation,
            links: options.links,
            input_dim: reduced.map(|_| dim),
            seed: options.quantisation.seed(),
        },
    };
    if !shape.is_valid() {
        return Err(INVALID_VECTOR);
    }
    let encoded = shape.encode(&vector).ok_or(INVALID_VECTOR)?;
    let given: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let change = VectorChange::Put {
        given: &given,
        shape,
        name,
        vector: encoded.as_ref(),
        attributes: options.attributes,
        ef: options.ef,
    };
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let mut go_on = |units| pacer.goes_on(units, &mut ended);
    let is_new = ctx.exec.ks.vector_change_while(db, key, change, &mut go_on);
    ended?;
    let is_new = is_new?;
    ctx.reply.boolean(is_new);
    Ok(())
}

/// Parses `REDUCE dim`; returns the dimension and the index of the next argument.
fn reduction(ctx: &Ctx<'_>) -> Result<(Option<u32>, usize), Fail> {
    if !ctx.is(2, "REDUCE") {
        return Ok((None, 2));
    }
    let dim = parse_int(ctx.arg(3)).and_then(|dim| u32::try_from(dim).ok());
    let dim = dim.filter(|&dim| dim > 0 && dim as usize <= DIM_MAX);
    Ok((Some(dim.ok_or(INVALID_VECTOR)?), 4))
}

fn options<'a>(ctx: &Ctx<'a>, from: usize) -> Result<Options<'a>, Fail> {
    const INVALID: Fail = Fail::fixed("ERR invalid option after element");
    let mut options = Options {
        quantisation: Quantisation::Q8,
        ef: EF as u32,
        links: LINKS as u16,
        attributes: None,
    };
    for option in ctx.options(from) {
        match option {
            Ok(VaddOption::Cas) => {}
            Ok(VaddOption::Noquant) => options.quantisation = Quantisation::None,
            Ok(VaddOption::Bin) => options.quantisation = Quantisation::Binary,
            Ok(VaddOption::Q8) => options.quantisation = Quantisation::Q8,
            Ok(VaddOption::Rabitq) => options.quantisation = Quantisation::RaBitQ,
            Ok(VaddOption::Ef(value)) => {
                let ef = parse_int(value).filter(|ef| (1..=EF_MAX).contains(ef));
                options.ef = ef.ok_or(Fail::fixed("ERR invalid EF"))? as u32;
            }
            Ok(VaddOption::M(value)) => {
                let links = parse_int(value).filter(|links| LINKS_RANGE.contains(links));
                options.links = links.ok_or(Fail::fixed("ERR invalid M"))? as u16;
            }
            Ok(VaddOption::Setattr(value)) => options.attributes = Some(value),
            Ok(VaddOption::Reduce(_) | VaddOption::Fp32(_) | VaddOption::Values(_)) | Err(_) => {
                return Err(INVALID);
            }
        }
    }
    Ok(options)
}

/// Checks that a vector fits an existing set.
fn check(shape: &Shape, dim: u32, reduced: Option<u32>, options: &Options<'_>) -> Outcome {
    if options.quantisation != shape.quantisation {
        return Err(Fail::fixed("ERR asked quantization mismatch with existing vector set"));
    }
    if options.links != shape.links {
        return Err(Fail::fixed("ERR asked M value mismatch with existing vector set"));
    }
    let mismatch = Err(Fail::new(format!(
        "ERR Vector dimension mismatch - got {dim} but set has {}",
        shape.dim
    )));
    match (shape.input_dim, reduced) {
        (None, Some(_)) => {
            let text = "ERR cannot add projection to existing set without projection";
            return Err(Fail::fixed(text));
        }
        (None, None) if dim != shape.dim => return mismatch,
        (Some(_), None) => return mismatch,
        (Some(_), Some(reduced)) if reduced != shape.dim => return mismatch,
        (Some(input), Some(_)) if dim != input => return Err(input_mismatch(dim, input)),
        _ => {}
    }
    Ok(())
}

/// Error of a vector with a dimension other than the set's input dimension.
pub(super) fn input_mismatch(dim: u32, expected: u32) -> Fail {
    Fail::new(format!(
        "ERR Input dimension mismatch for projection - got {dim} but projection expects {expected}"
    ))
}
