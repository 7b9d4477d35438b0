//! Detects scripts and functions with the flag `no-writes` before they run.

use super::cache::parse_sum;
use super::shebang::{Flags, parse_script};
use crate::server::stats::Shared;
use crate::spec::Command;

/// Whether a call is of a script or function with the flag `no-writes`.
pub fn only_reads(command: Command, args: &[&[u8]], shared: &Shared) -> bool {
    let flags = match (command.spec.meta.name, args.get(1)) {
        ("eval", Some(text)) => parse_script(text, shared.dialect()).ok().flatten(),
        ("evalsha", Some(sum)) => parse_sum(sum).and_then(|sum| shared.scripts.find(&sum)?.flags),
        ("fcall", Some(name)) => {
            let list = shared.libraries.list();
            let found = list.functions.get(&name.to_ascii_lowercase());
            found.and_then(|(library, place)| library.functions.get(*place)).map(|f| f.flags)
        }
        _ => None,
    };
    flags.is_some_and(|flags| flags.contains(Flags::NO_WRITES))
}
