//! The first line of a script or a library: `#!lua flags=no-writes,allow-stale`, `#!lua
//! name=mylib`.

use crate::fail::Fail;
use petrel_resp::Dialect;
use petrel_table::bitset;

bitset! {
    /// Flags of a script.
    Flags: u8 {
        /// Executes read-only commands only.
        NO_WRITES = 0 "no-writes",
        /// May run above the memory limit.
        ALLOW_OOM = 1 "allow-oom",
        /// May run on a replica with stale data.
        ALLOW_STALE = 2 "allow-stale",
        /// Does not run in a cluster.
        NO_CLUSTER = 3 "no-cluster",
        /// May use keys in several hash slots.
        ALLOW_CROSS_SLOT_KEYS = 4 "allow-cross-slot-keys",
    }
}

/// Parses the flags in the first line of a script; `None` if it does not begin with `#!`.
pub(crate) fn parse_script(text: &[u8], dialect: Dialect) -> Result<Option<Flags>, Fail> {
    if !text.starts_with(b"#!") {
        return Ok(None);
    }
    let Some(end) = text.iter().position(|&c| c == b'\n') else {
        return Err(Fail::fixed("ERR Invalid script shebang"));
    };
    let mut words = text[..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(match (dialect, &engine[2..]) {
            (Dialect::Redis, _) => quoting(b"ERR Unexpected engine in script shebang: ", engine),
            (Dialect::Valkey, name) => {
                Fail::new([b"ERR Could not find scripting engine '", name, b"'"].concat())
            }
        });
    }
    let mut flags = Flags::NONE;
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err(quoting(b"ERR Unknown lua shebang option: ", word));
        };
        for name in names.split(|&c| c == b',').filter(|name| !name.is_empty()) {
            // Lower case only, unlike flags in a function's declaration.
            let flag = Flags::from_name(name)
                .filter(|_| !name.iter().any(u8::is_ascii_uppercase))
                .ok_or_else(|| quoting(b"ERR Unexpected flag in script shebang: ", name))?;
            flags = flags.with(flag);
        }
    }
    Ok(Some(flags))
}

/// Parses a library's name from its first line.
pub(crate) fn parse_library(text: &[u8]) -> Result<String, Fail> {
    if !text.starts_with(b"#!") {
        return Err(Fail::fixed("ERR Missing library metadata"));
    }
    let Some(end) = text.iter().position(|&c| c == b'\n') else {
        return Err(Fail::fixed("ERR Invalid library metadata"));
    };
    // The engine's name directly follows `#!`; it may be missing.
    let mut words = text[2..end].split(u8::is_ascii_whitespace);
    let engine = words.next().unwrap_or_default();
    let words = words.filter(|word| !word.is_empty());
    let mut name = None;
    for word in words {
        let Some(given) = word.get(..5).filter(|key| key.eq_ignore_ascii_case(b"name=")) else {
            return Err(quoting(b"ERR Invalid metadata value given: ", word));
        };
        if name.is_some() {
            return Err(Fail::fixed(
                "ERR Invalid metadata value, name argument was given multiple times",
            ));
        }
        let value = &word[given.len()..];
        let quoted = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        name = Some(quoted.unwrap_or(value));
    }
    let name = name.ok_or(Fail::fixed("ERR Library name was not given"))?;
    let is_right = |c: &u8| c.is_ascii_alphanumeric() || *c == b'_';
    if name.is_empty() || !name.iter().all(is_right) {
        return Err(Fail::fixed(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character \
             long",
        ));
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        let engine = String::from_utf8_lossy(engine);
        return Err(Fail::new(format!("ERR Engine '{engine}' not found")));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Text to compile: without the first line's content, but with its newline, so that line numbers
/// stay correct.
pub(crate) fn body(text: &[u8]) -> &[u8] {
    if text.starts_with(b"#!") {
        let end = text.iter().position(|&c| c == b'\n').unwrap_or(text.len());
        &text[end..]
    } else {
        text
    }
}

fn quoting(text: &[u8], word: &[u8]) -> Fail {
    Fail::new([text, word].concat())
}
