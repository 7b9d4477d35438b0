//! Metadata of every command, made by the build script.

use crate::request::{CommandInfo, FirstKey};

include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// The command that arguments begin with, or the subcommand.
pub(crate) fn find<'a>(
    mut arguments: impl Iterator<Item = &'a [u8]>,
) -> Option<&'static CommandInfo> {
    let name = String::from_utf8_lossy(arguments.next()?).to_ascii_uppercase();
    let by_name = |name: &str| TABLE.binary_search_by(|info| info.name.cmp(name)).ok();
    let sub = arguments.next().map(|sub| {
        let sub = String::from_utf8_lossy(sub).to_ascii_uppercase();
        format!("{name} {sub}")
    });
    let found = sub.and_then(|full| by_name(&full)).or_else(|| by_name(&name))?;
    Some(&TABLE[found])
}
