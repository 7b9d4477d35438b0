//! Found words of a text: marked (`HIGHLIGHT`), or shown with the words around them (`SUMMARIZE`).
//!
//! | module | holds |
//! |---|---|
//! | `matcher` | words of a query, and whether a word of a text is one of them |
//! | `marks` | places of the found words of a text |
//! | `output` | the text with marks, and its summary |

mod marks;
mod matcher;
mod output;

pub use marks::{MarkedText, Marks};
pub use matcher::Matcher;
pub use output::{Output, Summary, Tags, TooLong, write_marked, write_summary};
