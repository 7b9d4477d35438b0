//! Indexes: the keys that they cover, their contents, and the search in them.
//!
//! | module | holds |
//! |---|---|
//! | `schema` | fields of an index, and its options |
//! | `field` | contents of one field, by its kind |
//! | `document` | values of a document, for conditions |
//! | `distances` | vectors of a query, and distances of documents |
//! | `json` | values of JSON documents by paths |
//! | `touched` | fields that a change concerns |
//! | `texts` | words of TEXT fields |
//! | `contents` | rows, fields and earlier versions: changes of documents |
//! | `condition` | a query, resolved against a schema |
//! | `cursor` | rows that match a condition |
//! | `words` | walks of queries with words |
//! | `search` | one run of a query |
//! | `coverage` | indexes of a key, and numbers of fields by name |
//! | `fence` | changes that were committed and are not applied yet |
//! | `live` | an index with its lock |
//! | `indexes` | all indexes of a keyspace |
//! | `batch` | changes of a thread between commit and application |

pub mod batch;
pub mod condition;
pub mod contents;
pub mod coverage;
pub mod cursor;
pub mod distances;
pub mod document;
pub mod fence;
pub mod field;
pub mod indexes;
pub mod json;
pub mod live;
pub mod schema;
pub mod search;
pub mod texts;
pub mod touched;
pub mod words;

#[cfg(test)]
mod model_tests;
