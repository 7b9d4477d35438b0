//! Commands that wait for keys, with a family of commands that exists only here: what holds for it
//! holds for lists, sorted sets and streams.
//!
//! | file | holds |
//! |---|---|
//! | `family` | the commands |
//! | `client` | clients that wait and are answered |
//! | `cases` | who is served when, one step after the other |
//! | `streams` | XREAD and XREADGROUP |
//! | `threads` | the same with real threads: nothing is lost, no client is overtaken |

mod cases;
mod client;
mod family;
mod streams;
mod threads;
