//! Options that all experiments have.

use std::path::PathBuf;

use crate::server::{PeerArgs, Transport};

/// Servers, rounds, and the directory of the result.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub peers: PeerArgs,

    /// Server that the others are compared with [default: petrel, or the first]
    #[arg(long, value_name = "NAME")]
    pub base: Option<String>,

    /// Reach the servers over TCP on 127.0.0.1 instead of a Unix socket
    #[arg(long)]
    tcp: bool,

    /// Reach the servers over TLS, with a certificate made for each start
    #[arg(long, conflicts_with = "tcp")]
    tls: bool,

    /// Rounds; the figures are their medians
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: Option<u16>,

    /// Store values in every server that was started, read them back and compare all bytes before
    /// anything is measured: a server that answers wrongly is not
    #[arg(long)]
    pub verify: bool,

    /// Take minutes instead of hours: fewer points and rounds, less data. Options given beside it
    /// win
    #[arg(long)]
    pub quick: bool,

    /// Go on with the result file of an earlier run that was interrupted
    #[arg(long)]
    pub resume: bool,

    /// Ends the name of the result file, so that several runs of one experiment can lie beside
    /// each other
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT",
          value_parser = parse_label)]
    pub label: String,

    /// Directory for the result file (EXPERIMENT.json), its page (.md) and plots (.svg)
    #[arg(long, default_value = "petrel-bench-results", value_name = "DIR")]
    pub out: PathBuf,
}

impl RunArgs {
    /// Transport to the servers.
    pub fn transport(&self) -> Transport {
        match (self.tls, self.tcp) {
            (true, _) => Transport::Tls,
            (false, true) => Transport::Tcp,
            (false, false) => Transport::Unix,
        }
    }
}

fn parse_label(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match text.bytes().all(good) {
        true => Ok(text.to_owned()),
        false => Err("letters, digits and '-' only: it is part of a file's name".to_owned()),
    }
}
