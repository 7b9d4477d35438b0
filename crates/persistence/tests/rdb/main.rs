//! Values through the bytes of DUMP.
//!
//! | file | holds |
//! |---|---|
//! | `model` | a value that is fed and feeds |
//! | `round_trip` | what is written is read the same |
//! | `fixtures` | what servers dumped (`payloads.txt`) is read as what they held |
//! | `old_forms` | forms that only old servers wrote |
//! | `check` | a file is refused by the check where it is by the load |
//! | `damaged` | what is loaded of damaged files, and what is kept of them |
//! | `malformed` | broken payloads are refused, whatever is broken |
//! | `type_byte` | a value type under a type byte of its own |

mod check;
mod damaged;
mod fixtures;
mod malformed;
mod model;
mod old_forms;
mod round_trip;
mod type_byte;
