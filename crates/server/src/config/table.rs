//! Rows of the table of parameters, and finding one by name.

use super::params::{Config, PARAMS};
use super::value::{Invalid, Rule};

/// Description of a parameter.
#[derive(Clone, Copy)]
pub struct Param {
    /// The name under which it is documented and written by CONFIG REWRITE.
    pub name: &'static str,
    /// Other names that are accepted everywhere.
    pub aliases: &'static [&'static str],
    /// The section of the documentation.
    pub group: Group,
    /// Accepted values.
    pub rule: Rule,
    /// The default, written as in a configuration file.
    pub default: &'static str,
    /// Whether CONFIG SET may change it.
    pub mutability: Mutability,
    /// Help text of one line, without the final stop.
    pub help: &'static str,
    pub(super) update: fn(&mut Config, &[Vec<u8>]) -> Result<(), Invalid>,
    pub(super) text: fn(&Config) -> Vec<u8>,
    pub(super) arguments: fn(&Config) -> Vec<Vec<u8>>,
    pub(super) same: fn(&Config, &Config) -> bool,
}

/// Time at which a parameter may change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mutability {
    /// Only on the command line and in the configuration file.
    AtStart,
    /// Only at start, but setting the present value is no error: some tools write back all values
    /// that they have read.
    Kept,
    /// Also by CONFIG SET.
    Runtime,
    /// Also by CONFIG SET, to the value that it has too: it names something that may have changed.
    Reloads,
    /// Also by CONFIG SET where `enable-protected-configs` lets the client.
    Protected,
}

impl Mutability {
    /// Whether it only changes with a start.
    pub fn is_fixed(self) -> bool {
        matches!(self, Self::AtStart | Self::Kept)
    }
}

/// Sections of the documentation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group {
    /// Addresses, ports and TCP options.
    Network,
    /// Encrypted connections.
    Tls,
    /// Passwords and permissions.
    Security,
    /// Workers and their event loops.
    Threads,
    /// Limits on clients.
    Clients,
    /// Memory, eviction, expiry, freeing.
    Keyspace,
    /// Log, slow log, latency.
    Observability,
    /// The process and its background work.
    Process,
    /// The file that is saved and that the server starts from.
    Snapshot,
    /// The log of changes that the server starts from.
    Log,
    /// Backups in an object store.
    Backup,
    /// Primary and replicas.
    Replication,
    /// Encodings of collections, and their thresholds.
    Types,
    /// The cluster that the server is a member of.
    Cluster,
    /// Redis Cluster, which does not exist here.
    RedisCluster,
    /// Other features that do not exist here.
    Absent,
    /// Features that Petrel implements differently.
    Otherwise,
}

impl Group {
    /// Every group with the heading of its section, in the order of the documentation.
    pub const TITLES: [(Self, &'static str); 17] = [
        (Self::Network, "Network"),
        (Self::Tls, "TLS"),
        (Self::Security, "Security"),
        (Self::Threads, "Threads and event loops"),
        (Self::Clients, "Clients"),
        (Self::Keyspace, "Memory and keys"),
        (Self::Types, "Types of values"),
        (Self::Observability, "Log and latency"),
        (Self::Process, "Process"),
        (Self::Snapshot, "Snapshot"),
        (Self::Log, "The log of changes"),
        (Self::Backup, "Backups in object stores"),
        (Self::Replication, "Replication"),
        (Self::Cluster, "Cluster"),
        (Self::RedisCluster, "Redis Cluster: parameters without effect"),
        (Self::Absent, "Not in this version: other features"),
        (Self::Otherwise, "Implemented differently"),
    ];

    /// Whether its parameters decide nothing and are there for files and tools of Redis.
    pub fn is_foreign(self) -> bool {
        use Group::*;
        matches!(self, RedisCluster | Absent | Otherwise)
    }

    /// The parameters of the section.
    pub fn params(self) -> impl Iterator<Item = &'static Param> {
        PARAMS.iter().filter(move |param| param.group == self)
    }
}

impl Param {
    /// The parameter called `name`, in any case, aliases included.
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        PARAMS.iter().find(|param| {
            param.names().any(|candidate| candidate.as_bytes().eq_ignore_ascii_case(name))
        })
    }

    /// Returns the name and its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The value as CONFIG GET shows it.
    pub fn text(&self, config: &Config) -> Vec<u8> {
        (self.text)(config)
    }

    /// The value as the arguments of a line of a configuration file.
    pub fn arguments(&self, config: &Config) -> Vec<Vec<u8>> {
        (self.arguments)(config)
    }

    /// Whether both configurations give it the same value.
    pub fn same(&self, a: &Config, b: &Config) -> bool {
        (self.same)(a, b)
    }

    /// Whether its value must not be shown in messages or logs.
    pub fn is_sensitive(&self) -> bool {
        matches!(self.rule, Rule::Password)
    }

    /// The value that its name alone gives it: no save points, as Redis takes it, and the founding
    /// of a cluster.
    pub(super) fn bare(&self) -> Option<&'static str> {
        match self.name {
            "save" => Some(""),
            "cluster-create" => Some("yes"),
            _ => None,
        }
    }

    /// Whether it can only have the values that ask for nothing.
    pub fn is_fixed(&self) -> bool {
        matches!(self.rule, Rule::Only(..))
    }

    /// Gives it the value that `args` spell. A list given as a single argument is split at blanks.
    /// On an error the configuration is as before.
    pub(super) fn update(&self, config: &mut Config, args: &[Vec<u8>]) -> Result<(), Invalid> {
        match args {
            [] => Err(Invalid::new("wrong number of arguments")),
            [one] if self.rule.is_list() && self.rule != Rule::Points => {
                (self.update)(config, &split_list(one))
            }
            [_] => (self.update)(config, args),
            _ if self.rule.is_list() => (self.update)(config, args),
            _ => Err(Invalid::from(format!(
                "wrong number of arguments: one expected, {} given",
                args.len()
            ))),
        }
    }

    pub(super) fn split_default(rule: Rule, default: &str) -> Vec<Vec<u8>> {
        match rule.is_list() {
            true if rule != Rule::Points => split_list(default.as_bytes()),
            _ => vec![default.into()],
        }
    }
}

fn split_list(text: &[u8]) -> Vec<Vec<u8>> {
    text.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut names: Vec<_> = PARAMS.iter().flat_map(Param::names).collect();
        assert!(names.iter().all(|name| {
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        }));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_default_is_accepted_by_its_own_row() {
        let config = Config::default();
        for param in PARAMS {
            let mut other = config.clone();
            let result = param.update(&mut other, &Param::split_default(param.rule, param.default));
            let empty_list = param.rule.is_list() && param.default.is_empty();
            assert!(result.is_ok() || empty_list, "{}: {result:?}", param.name);
            assert!(other == config, "{}", param.name);
        }
    }

    #[test]
    fn every_bound_survives_its_field() {
        for param in PARAMS {
            let (min, max) = match param.rule {
                Rule::Number { min, max } | Rule::Clamped { min, max } => (min.into(), max.into()),
                Rule::Memory { min, max } => (i128::from(min), i128::from(max)),
                Rule::PowerOfTwo { max } => (1, i128::from(max)),
                _ => continue,
            };
            for bound in [min, max] {
                let mut config = Config::default();
                let text = bound.to_string().into_bytes();
                param.update(&mut config, std::slice::from_ref(&text)).unwrap();
                assert_eq!(param.text(&config), text, "{}", param.name);
            }
        }
    }

    #[test]
    fn help_is_one_line_without_a_final_stop() {
        for param in PARAMS {
            assert!(!param.help.contains('\n') && !param.help.ends_with('.'), "{}", param.name);
        }
    }

    #[test]
    fn a_name_is_found_in_any_case_and_by_its_alias() {
        assert_eq!(Param::find(b"MaxMemory").unwrap().name, "maxmemory");
        assert_eq!(Param::find(b"lua-time-limit").unwrap().name, "busy-reply-threshold");
        assert!(Param::find(b"maxmemmory").is_none());
    }
}
