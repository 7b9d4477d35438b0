//! JSON documents: parsed into one block of bytes, printed, searched by path, changed in place.
//!
//! A document is a *tape* ([`tape`]): its values in sequence, each container preceded by its
//! length, so that a search can skip it. A tape takes less memory than the text. A change is an
//! [`Edit`] of the tape: it replaces a range of bytes and rewrites the headers of the containers
//! around it.
//!
//! ```
//! use petrel_json::{Format, Parse, Path, parse, print};
//!
//! let document = parse(br#"{"a": {"b": [1, 2.5]}}"#, Parse::default())?;
//! let path = Path::parse("$.a.b[1]")?;
//! let mut text = Vec::new();
//! path.find(document.root(), &mut |value, _| print(value, &Format::default(), &mut text))?;
//! assert_eq!(text, b"2.5");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod cbor;
mod change;
mod check;
mod edit;
mod float;
mod merge;
mod number;
mod parse;
pub mod path;
mod print;
pub mod tape;
mod value;
mod work;

pub use batch::{Action, Batch, Place};
pub use cbor::text_of_cbor;
pub use change::{Change, Misfit, Op, Steps};
pub use check::{check, check_many};
pub use edit::Edit;
pub use float::FloatType;
pub use merge::{merge, merged};
pub use number::{Arithmetic, ArithmeticError, Number};
pub use parse::{DEPTH_MAX, Parse, ParseError, parse};
pub use path::{Path, PathError, SearchError, Step, path_to};
pub use print::{Format, Values, print};
pub use tape::{BYTES_MAX, Document};
pub use value::{Items, Kind, Members, Value};
pub use work::{WORK_MAX, Work};
