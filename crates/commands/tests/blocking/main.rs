//! Blocking commands, tested with a family of commands that exists only here: the results apply to
//! lists, sorted sets and streams too.
//!
//! | file | holds |
//! |---|---|
//! | `family` | the commands |
//! | `client` | blocked clients and their replies |
//! | `cases` | order in which blocked clients are served, step by step |
//! | `streams` | XREAD and XREADGROUP |
//! | `threads` | real threads: no element is lost, no client is overtaken |

mod cases;
mod client;
mod family;
mod streams;
mod threads;
