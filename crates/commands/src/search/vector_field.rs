//! `VECTOR` fields of `FT.CREATE`.

use crate::fail::Fail;
use crate::numbers;
use crate::search::arguments::Arguments;
use petrel_search::vectors::{Algorithm, DIM_MAX, ELEMENTS, Metric, VectorSpec};
use petrel_vector::Element;

const CONVERSION: &str = "Could not convert argument to expected type";
const UNKNOWN: &str = "Unknown argument";
const BOUNDS: &str = "Value is outside acceptable bounds";
const NONE: &str = "Expected an argument, but none provided";

fn bad(what: &str, why: &str) -> Fail {
    Fail::new(format!("Bad arguments for vector similarity {what}: {why}"))
}

/// The definition of a field: `FLAT count name value ...`
pub(super) fn spec(arguments: &mut Arguments<'_>) -> Result<VectorSpec, Fail> {
    let algorithm = arguments.next().ok_or_else(|| bad("algorithm", NONE))?;
    let algorithm = match &*algorithm.to_ascii_uppercase() {
        b"FLAT" => Algorithm::Flat,
        b"HNSW" | b"SVS-VAMANA" => {
            let name = String::from_utf8_lossy(algorithm).to_uppercase();
            return Err(Fail::new(format!("ERR VECTOR {name} is not supported yet")));
        }
        _ => return Err(bad("algorithm", UNKNOWN)),
    };
    let count = arguments.next().ok_or_else(|| bad("number of parameters", NONE))?;
    let count = numbers::integer(count).map_err(|_| bad("number of parameters", CONVERSION))?;
    let count = usize::try_from(count).map_err(|_| bad("number of parameters", BOUNDS))?;
    if count % 2 == 1 {
        return Err(Fail::new(format!(
            "Bad number of arguments for vector similarity index: got {count} but expected even \
             number as algorithm parameters (should be submitted as named arguments)"
        )));
    }
    Parameters { name: algorithm.name(), element: None, dim: None, metric: None }
        .read(algorithm, arguments, count)
}

/// Parameters that were read.
struct Parameters {
    /// Name of the algorithm.
    name: &'static str,
    element: Option<Element>,
    dim: Option<u32>,
    metric: Option<Metric>,
}

impl Parameters {
    fn read(
        mut self,
        algorithm: Algorithm,
        arguments: &mut Arguments<'_>,
        count: usize,
    ) -> Result<VectorSpec, Fail> {
        for read in (0..count).step_by(2) {
            let Some(name) = arguments.next() else {
                return Err(Fail::new(format!("Expected {count} parameters but got {read}")));
            };
            match &*name.to_ascii_uppercase() {
                b"TYPE" => {
                    let text = self.value("type", arguments)?;
                    let known = |(name, _): &&(&str, Element)| is(text, name);
                    let found = ELEMENTS.iter().find(known);
                    let element = found.ok_or_else(|| self.bad("type", UNKNOWN))?.1;
                    self.element = Some(element);
                }
                b"DIM" => {
                    let dim = self.number("dim", arguments)?;
                    if !(1..=DIM_MAX as u64).contains(&dim) {
                        return Err(self.bad("dim", BOUNDS));
                    }
                    self.dim = u32::try_from(dim).ok();
                }
                b"DISTANCE_METRIC" => {
                    let text = self.value("metric", arguments)?;
                    let found = Metric::ALL.into_iter().find(|metric| is(text, metric.name()));
                    self.metric = Some(found.ok_or_else(|| self.bad("metric", UNKNOWN))?);
                }
                // Memory is taken as vectors come.
                b"INITIAL_CAP" => {
                    self.number("initial cap", arguments)?;
                }
                b"BLOCK_SIZE" if algorithm == Algorithm::Flat => {
                    if self.number("blocksize", arguments)? == 0 {
                        return Err(self.bad("blocksize", BOUNDS));
                    }
                }
                _ => {
                    let parts: [&[u8]; 4] =
                        [b"Bad arguments for algorithm ", self.name.as_bytes(), b": ", name];
                    return Err(Fail::new(parts.concat()));
                }
            }
        }
        let missing = |what: &str| {
            let name = self.name;
            Fail::new(format!(
                "Missing mandatory parameter: cannot create {name} index without specifying \
                 {what} argument"
            ))
        };
        let element = self.element.ok_or_else(|| missing("TYPE"))?;
        let dim = self.dim.ok_or_else(|| missing("DIM"))?;
        let metric = self.metric.ok_or_else(|| missing("DISTANCE_METRIC"))?;
        Ok(VectorSpec { algorithm, element, dim, metric })
    }

    fn bad(&self, what: &str, why: &str) -> Fail {
        bad(&format!("{} index {what}", self.name), why)
    }

    fn value<'a>(&self, what: &str, arguments: &mut Arguments<'a>) -> Result<&'a [u8], Fail> {
        arguments.next().ok_or_else(|| self.bad(what, NONE))
    }

    fn number(&self, what: &str, arguments: &mut Arguments<'_>) -> Result<u64, Fail> {
        let number = numbers::integer(self.value(what, arguments)?);
        let number = number.map_err(|_| self.bad(what, CONVERSION))?;
        u64::try_from(number).map_err(|_| self.bad(what, BOUNDS))
    }
}

fn is(text: &[u8], name: &str) -> bool {
    text.eq_ignore_ascii_case(name.as_bytes())
}
