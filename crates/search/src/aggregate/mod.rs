//! Aggregation: rows of a query pass through steps that compute, filter, group and sort them.
//!
//! ```text
//! documents ─ row ─> load ─> apply ─> filter ─> group ═╗
//!                                                      ╚═> sort ═╗
//!                                                                ╚═> page ─> results
//! ```
//!
//! Groups and sorts take all rows before they give any. A row passes through all steps up to the
//! next of these at once, so a pipeline can rest after any row.
//!
//! | module | holds |
//! |---|---|
//! | `value` | values of rows |
//! | `expression` | the language of `APPLY` and `FILTER` |
//! | `step` | steps as a command states them |
//! | `plan` | steps, resolved against a schema |
//! | `reducer` | functions of the rows of a group |
//! | `group`, `sort` | steps that take all rows first |
//! | `pipeline` | the run |
//! | `columns` | rows of documents, from the index |

pub mod columns;
pub mod expression;
mod group;
mod lookup;
pub mod pipeline;
pub mod plan;
mod reducer;
mod sort;
pub mod step;
pub mod value;

#[cfg(test)]
mod model_tests;
