//! RESP2 and RESP3: the request parser, the reply writers, and an owned reply value for clients.
//!
//! | file | holds |
//! |---|---|
//! | [`parse`](parse()) | requests: arguments as slices of the read buffer, nothing copied |
//! | `peek` | a look at the key of a request that is not parsed yet |
//! | `inline` | the quoting rules of requests typed by hand |
//! | `reply` | [`Reply`], the output of a command handler |
//! | `write` | [`RespWriter`], the `Reply` that makes RESP bytes |
//! | `dialect` | [`Dialect`]: Redis's or Valkey's texts |
//! | `double`, `grisu` | the text form of a double |
//! | `value`, `decode` | replies as read by a client |

mod decode;
mod dialect;
mod double;
mod error;
mod grisu;
mod inline;
mod length;
mod parse;
mod peek;
mod reply;
mod value;
mod write;

pub use decode::{DecodeError, DecodeLimits, Decoder, decode};
pub use dialect::Dialect;
pub use double::DoubleBuffer;
pub use error::ProtocolError;
pub use inline::split as split_words;
pub use parse::{Limits, Parsed, Resume, parse, recycle};
pub use peek::argument;
pub use reply::{Protocol, Reply};
pub use value::Value;
pub use write::{RespWriter, SHARED_LEN_MIN, encode_command};
