//! The configuration: one table of parameters, and everything that follows from it.
//!
//! ```text
//! params.rs   the table: a row per parameter ──▶ Config (fields), PARAMS (names, rules, help)
//! tls.rs      the rows of TLS
//! replication.rs  the rows of replication
//! cluster.rs  the rows of the cluster
//! foreign.rs  the rows of Redis's parameters that decide nothing here
//! command_line.rs ─▶ load.rs ─▶ Config ─▶ store.rs (CONFIG GET, SET) ─▶ rewrite.rs (REWRITE)
//!             '─▶ subcommand.rs   petrel check and the like
//! document.rs     --help, docs/configuration.md, petrel.conf
//! manual.rs       petrel(1), petrel.conf(5); completions.rs: bash, zsh, fish
//! ```
//!
//! Names, syntax and errors are those of Redis, so that its command lines, files and clients work.
//! Sources apply in the order file, standard input, options of the command line; the last wins.

#[cfg_attr(not(feature = "cluster"), path = "cluster_absent.rs")]
mod cluster;
mod command_line;
mod completions;
mod dialect;
mod document;
mod error;
mod foreign;
mod line;
mod load;
mod logging;
mod manual;
mod names;
mod notifications;
mod params;
mod rdb;
mod renames;
mod replication;
mod rewrite;
mod saving;
mod search;
mod store;
mod subcommand;
mod table;
mod tls;
mod types;
mod user_line;
mod value;

#[cfg(test)]
mod tests;

pub use cluster::ClusterConfig;
#[cfg(feature = "cluster")]
pub use cluster::Passphrase;
pub use command_line::{CheckRenames, CommandLine, Invocation};
pub use completions::{bash, fish, zsh};
pub use dialect::{note_program, version};
pub use document::{default_file, descriptions, help, markdown};
pub use error::{ConfigError, Location, Problem, Source};
pub use foreign::Foreign;
pub use logging::{LogFormat, LogLevel, LogTimestamp, SyslogFacility};
pub use manual::{parameters as manual_of_parameters, program as manual_of_program};
pub use names::Hint;
pub use params::{Config, PARAMS};
pub use renames::Rename;
pub use replication::{PrimaryAddress, ReplicationConfig};
pub use rewrite::replace as replace_file;
pub use rewrite::{Extent, RewriteError, sweep_beside};
pub use saving::{SavePoint, SavePoints, ShutdownFlags};
pub use search::{OnOom, OnTimeout};
pub use store::{Change, ConfigFile, ConfigReader, Refusal, SetError, SharedConfig};
pub use subcommand::{CheckLine, Cut, PingLine, Subcommand, Target, Topic};
pub use table::{Group, Mutability, Param};
pub use tls::Tls;
pub use types::{
    AuthClients, Auto, BindAddress, BindAddresses, ClientMemory, DialectChoice, Fixed,
    IdentityField, IoBackend, MaxmemoryPolicy, OomAdjustment, OomScores, OutputBufferLimit,
    OutputBufferLimits, PeerNames, Percentiles, Permission, PreloadFile, ProcTitleTemplate,
    Supervised, Text, VersionCheck, Word,
};
pub use user_line::UserLine;
pub use value::{Invalid, Rule, Secret, Value, parse_memory};
