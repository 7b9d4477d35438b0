//! Values through the bytes of DUMP.
//!
//! | file | holds |
//! |---|---|
//! | `model` | a value that is fed and feeds |
//! | `round_trip` | values are the same after writing and reading |
//! | `fixtures` | payloads dumped by other servers (`payloads.txt`) are read correctly |
//! | `old_forms` | forms that only old servers wrote |
//! | `check` | a file is refused by the check where it is by the load |
//! | `damaged` | loading damaged files, and the parts of them that `mend` keeps |
//! | `malformed` | broken payloads are refused, whatever is broken |
//! | `type_byte` | a value type under a type byte of its own |
//! | `unknown` | values of types that are not known |

mod check;
mod damaged;
mod fixtures;
mod malformed;
mod model;
mod old_forms;
mod round_trip;
mod type_byte;
mod unknown;
