//! CLIENT.

use petrel_commands::{Fail, Outcome};

/// Checks a name that a client gives itself: printable ASCII without spaces.
pub fn check_label(what: &str, label: &[u8]) -> Outcome {
    if label.iter().all(|&c| (b'!'..=b'~').contains(&c)) {
        return Ok(());
    }
    Err(Fail::new(format!("ERR {what} cannot contain spaces, newlines or special characters.")))
}
