//! The query engine's commands: `FT.*` over indexes of hashes and JSON documents.
//!
//! | file | holds |
//! |---|---|
//! | `definitions`, `follow` | definitions as auxiliary state; live indexes that follow them |
//! | `open` | indexes by name, with permissions |
//! | `create` | `FT.CREATE`, `FT.ALTER` |
//! | `vector_field` | VECTOR fields of these |
//! | `manage` | dropping, listing, aliases, tags |
//! | `query` | options of `FT.SEARCH`, its run |
//! | `words` | words of a query, and the options about them |
//! | `highlight` | marks and summaries of texts |
//! | `vectors` | nearest neighbours in the result |
//! | `stored` | documents of keys: hashes, and JSON values by path |
//! | `showing` | form of the values of JSON documents |
//! | `load` | hits, read and tested again under their locks |
//! | `reply` | replies of `FT.SEARCH` |
//! | `aggregate` | `FT.AGGREGATE`, `FT.CURSOR` |
//! | `dictionaries`, `synonyms` | `FT.DICT*`, `FT.SYN*` |
//! | `spellcheck` | `FT.SPELLCHECK` |
//! | `suggest` | `FT.SUG*` |
//! | `settings` | settings (`search-*`) |
//! | `info` | `FT.INFO` |

mod aggregate;
mod arguments;
mod create;
mod definitions;
mod dictionaries;
mod follow;
mod highlight;
mod info;
mod load;
mod manage;
mod open;
mod query;
mod reply;
mod settings;
mod showing;
mod spellcheck;
mod state;
mod stored;
mod suggest;
mod synonyms;
mod vector_field;
mod vectors;
mod words;

pub(crate) use definitions::Definitions;
pub(crate) use dictionaries::Dictionaries;
pub(crate) use open::{forget_indexes, swap_indexes};
pub use settings::{OnOom, SearchDefaults, SearchSettings};
pub use state::SearchState;

use crate::spec::{CommandSpec, Locks};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::FT_CREATE, create::create).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_ALTER, create::alter).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_DROPINDEX, manage::drop_index).locking(Locks::Itself),
    CommandSpec::new(&meta::FT__LIST, manage::list).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_ALIASADD, manage::alias_add).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_ALIASUPDATE, manage::alias_update).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_ALIASDEL, manage::alias_delete).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_TAGVALS, manage::tag_values).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_INFO, info::info).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_SEARCH, query::search).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_AGGREGATE, aggregate::aggregate).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_CURSOR, aggregate::cursor).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_DICTADD, dictionaries::add).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_DICTDEL, dictionaries::delete).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_DICTDUMP, dictionaries::dump).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_SYNUPDATE, synonyms::update).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_SYNDUMP, synonyms::dump).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_SPELLCHECK, spellcheck::check).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_SUGADD, suggest::add),
    CommandSpec::new(&meta::FT_SUGGET, suggest::get),
    CommandSpec::new(&meta::FT_SUGDEL, suggest::delete),
    CommandSpec::new(&meta::FT_SUGLEN, suggest::len),
    CommandSpec::new(&meta::FT_EXPLAIN, query::explain).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_EXPLAINCLI, query::explain_lines).locking(Locks::Itself),
];
