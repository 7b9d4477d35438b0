//! The dialect: error texts, INFO and file formats of Redis or of Valkey.

use super::params::Config;
use super::types::DialectChoice;
use petrel_commands::{REDIS_VERSION, VALKEY_VERSION};
use petrel_resp::Dialect;
use std::path::Path;
use std::sync::OnceLock;

/// The dialect of the name by which the program was called.
static OF_PROGRAM: OnceLock<Dialect> = OnceLock::new();

/// Whether the program was called by the name of Redis's or Valkey's server.
static IS_ANOTHER_SERVER: OnceLock<bool> = OnceLock::new();

/// Says by which name the program was called; before anything else, since the title in process
/// listings takes its place.
pub fn note_program(path: &Path) {
    OF_PROGRAM.get_or_init(|| of_program(path));
    IS_ANOTHER_SERVER.get_or_init(|| {
        path.file_name().is_some_and(|name| name == "redis-server" || name == "valkey-server")
    });
}

/// Text of `--version`. The first line names Petrel, its version and the commit.
///
/// Tools that start servers take the first number for the version of Redis, or of Valkey, to decide
/// which commands and options exist. They call `redis-server` or `valkey-server`; under these names
/// the text is that server's line alone, with Petrel's version at the end.
pub fn version(commit: &str) -> String {
    let own = format!("etrel {} ({commit})", env!("CARGO_PKG_VERSION"));
    let name = OF_PROGRAM.get().copied().unwrap_or_default();
    let (server, number) = name.choose(("Redis", REDIS_VERSION), ("Valkey", VALKEY_VERSION));
    let bits = usize::BITS;
    let line =
        format!("{server} server v={number} sha=00000000:0 malloc=mimalloc bits={bits} build=0");
    match IS_ANOTHER_SERVER.get() {
        Some(true) => format!("{line} (p{own})\n"),
        _ => format!("P{own}\n{line}\n"),
    }
}

impl Config {
    /// The dialect of error texts and INFO.
    pub fn spoken(&self) -> Dialect {
        self.dialect.resolve(OF_PROGRAM.get().copied().unwrap_or_default())
    }
}

impl DialectChoice {
    /// Resolves `auto` to `otherwise`.
    pub fn resolve(self, otherwise: Dialect) -> Dialect {
        match self {
            DialectChoice::Auto => otherwise,
            DialectChoice::Redis => Dialect::Redis,
            DialectChoice::Valkey => Dialect::Valkey,
        }
    }
}

/// The dialect of a program that is called so: with a link of that name, whatever starts
/// `valkey-server` gets one that answers as it expects.
fn of_program(path: &Path) -> Dialect {
    let is_valkey = path.file_name().is_some_and(|name| name == "valkey-server");
    if is_valkey { Dialect::Valkey } else { Dialect::Redis }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_decides_unless_it_is_said() {
        assert_eq!(of_program(Path::new("/usr/bin/valkey-server")), Dialect::Valkey);
        assert_eq!(of_program(Path::new("valkey-server")), Dialect::Valkey);
        for other in ["/usr/bin/petrel", "redis-server", "/opt/valkey-server/petrel", ""] {
            assert_eq!(of_program(Path::new(other)), Dialect::Redis, "{other}");
        }
        assert_eq!(DialectChoice::Redis.resolve(Dialect::Valkey), Dialect::Redis);
        assert_eq!(DialectChoice::Valkey.resolve(Dialect::Redis), Dialect::Valkey);
        assert_eq!(DialectChoice::Auto.resolve(Dialect::Valkey), Dialect::Valkey);
    }
}
