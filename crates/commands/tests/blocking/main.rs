//! Blocking commands, tested with a family of commands that exists only here. The results apply to
//! lists, sorted sets and streams.
//!
//! | file | holds |
//! |---|---|
//! | `family` | the commands |
//! | `client` | clients that can be blocked |
//! | `cases` | order and conditions of serving, step by step |
//! | `streams` | XREAD and XREADGROUP |
//! | `threads` | serving with real threads: nothing is lost, no client is overtaken |

mod cases;
mod client;
mod family;
mod streams;
mod threads;
