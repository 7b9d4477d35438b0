//! The serialisation of values that Redis and Valkey share.
//!
//! ```text
//! DUMP payload   +-----------+-- ... --+---------------+----------------+
//!                | type byte |  value  | version (u16) | CRC-64 of what |
//!                |           |         |               | precedes       |
//!                +-----------+-- ... --+---------------+----------------+
//! ```
//!
//! Numbers are little-endian unless said otherwise. [`read_value`] feeds a value item by item to a
//! [`ValueSink`], and a [`Writer`] is one: neither side ever holds a value
//! twice. A payload is the word of a stranger: every length is checked against the bytes that are
//! there before anything is allocated.
//!
//! | file | holds |
//! |---|---|
//! | `sink` | the neutral form in which values pass |
//! | `payload` | the frame of a `DUMP` payload |
//! | `source`, `length`, `text` | bytes, lengths and strings as they are read |
//! | `file`, `file_read`, `file_write` | the frame of an RDB file |
//! | `walk` | the records of a damaged file |
//! | `key_run` | keys that are encoded apart from their file |
//! | `functions` | what `FUNCTION DUMP` answers |
//! | `skip` | where a value ends |
//! | `sum` | the checksum |
//! | `kind` | type bytes, and which of them are written |
//! | `read`, `read_stream` | values of each type, read |
//! | `compact` | compact hashes, read |
//! | `write`, `write_stream` | values of each type, written |
//! | `module` | values of value types, in the form of modules |
//! | `item_list`, `listpack`, `ziplist`, `zipmap`, `intset`, `lzf` | the byte formats inside |

mod compact;
mod error;
mod file;
mod file_read;
mod file_write;
mod functions;
mod intset;
mod item_list;
mod key_run;
mod kind;
mod length;
mod listpack;
mod lzf;
mod module;
mod payload;
mod read;
mod read_stream;
mod sink;
mod skip;
mod source;
mod sum;
mod text;
mod walk;
mod write;
mod write_stream;
mod ziplist;
mod zipmap;

pub use error::{Error, FileError, ShownKey};
pub use file_read::{FileReader, Head, Section, next_key};
pub use file_write::{AUX_STATE, FileOptions, FileWriter, KeyEncoder};
pub use functions::{dump_functions, restore_functions};
pub use key_run::KeyRun;
pub(crate) use kind::COMPACT_VERSION;
pub use kind::{Dialect, Form, STRING, StreamFacts, type_of};
pub use module::read_to_end;
pub use payload::{Leniency, compressed_len, open, seal};
pub use read::read_value;
pub use sink::{
    Consumer, CustomItem, Group, Item, Pending, Producers, Shape, StreamId, StreamState, ValueSink,
};
pub use skip::{Nowhere, skip_value};
pub use source::{Slice, Source, Template, Templates};
pub use text::read_text;
pub use walk::{Part, RawWriter, Record, ValueReader, Walk};
pub use write::{Spill, Writer};
