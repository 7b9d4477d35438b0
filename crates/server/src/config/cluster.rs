//! The parameters of the cluster that the server is a member of.

use super::params::{Config, parameters};
use super::table::{Group, Mutability::*, Param};
use super::types::{Text, Word};
use super::value::{Invalid, Rule, Rule::*, Secret, Value};
use std::path::PathBuf;

parameters! {
/// Parameters of the cluster that the server is a member of.
ClusterConfig, CLUSTER, |config| config.cluster;

Cluster {
    create: bool = "cluster-create", YesNo, "no", AtStart,
        "Found a cluster with this server's data; where there is one already in the directory, return to it";
    join: Text = "cluster-join", AnyText, "", AtStart,
        "Members to ask to be let in, host[:port] of their buses, with commas; without a port, that of this server's bus";
    passphrase: Passphrase = "cluster-passphrase", Password, "", AtStart,
        "What admits a server, the same at all members; never shown. A file is better: others see command lines";
    passphrase_file: Option<PathBuf> = "cluster-passphrase-file", Path, "", AtStart,
        "File whose only line is the passphrase";
    passphrase_previous: Passphrase = "cluster-passphrase-previous", Password, "", AtStart,
        "Passphrase that members still have which were not started again since it was changed";
    passphrase_previous_file: Option<PathBuf> = "cluster-passphrase-previous-file", Path, "", AtStart,
        "File whose only line is the previous passphrase";
    name: Text = "cluster-name", AnyText, "petrel", AtStart,
        "Name of the cluster, the same at all members";
    role: Word = "cluster-role", OneOf(&["data", "cache", "witness"]), "data", AtStart,
        "What the server is for: data holds keys, and votes; cache holds copies of what is read there; witness votes and holds nothing";
    copies: CopyCount = "cluster-copies", AllOr { max: 64 }, "2", AtStart,
        "Members that hold each key, set where the cluster is founded: all, or a number; with fewer than there are members, their data are more than one could hold";
    zone: Text = "cluster-zone", AnyText, "", AtStart,
        "What may fail as a whole, such as a rack: copies of a key are in different ones where that is possible";
    bus_port: u16 = "cluster-port", Number { min: 0, max: 65535 }, "0", AtStart,
        "TCP port for other members; 0 is that for clients + 10000, or any that is free if there is none";
    announce_ip: Text = "cluster-announce-ip", AnyText, "", Kept,
        "Address or name at which other members and clients find this server; empty finds it out";
    announce_port: u16 = "cluster-announce-port", Number { min: 0, max: 65535 }, "0", Kept,
        "Port at which clients find it; 0 is the one it listens on";
    announce_bus_port: u16 = "cluster-announce-bus-port", Number { min: 0, max: 65535 }, "0", Kept,
        "Port at which other members find it; 0 is that of the bus";
    node_timeout: u32 = "cluster-node-timeout", Number { min: 500, max: 3_600_000 }, "3000", AtStart,
        "Milliseconds for which a member may be silent before others take its hash slots over; the same at all members";
}
}

/// A passphrase, which `CONFIG GET` does not show either.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Passphrase(Secret);

impl Passphrase {
    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        self.0.is_set()
    }

    /// The passphrase.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Value for Passphrase {
    fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        Secret::parse(rule, args).map(Self)
    }

    fn arguments(&self, rule: &Rule) -> Vec<Vec<u8>> {
        self.0.arguments(rule)
    }

    fn text(&self, _: &Rule) -> Vec<u8> {
        Vec::new()
    }
}

/// Number of members that hold each key: `cluster-copies`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopyCount(Option<u16>);

impl CopyCount {
    /// The number; `None` for all members.
    pub fn homes(self) -> Option<u16> {
        self.0
    }
}

impl Value for CopyCount {
    fn parse(rule: &Rule, args: &[Vec<u8>]) -> Result<Self, Invalid> {
        let text = args.first().map_or(&[][..], Vec::as_slice);
        if text.eq_ignore_ascii_case(b"all") && args.len() == 1 {
            return Ok(CopyCount(None));
        }
        let max = if let Rule::AllOr { max } = rule { *max } else { u16::MAX };
        let range = Rule::Number { min: 1, max: max.into() };
        let number = u16::parse(&range, args);
        let reason = || format!("argument must be 'all' or a number from 1 to {max}").into();
        number.map(|number| CopyCount(Some(number))).map_err(|_| reason())
    }

    fn arguments(&self, _: &Rule) -> Vec<Vec<u8>> {
        vec![self.0.map_or("all".into(), |number| number.to_string()).into_bytes()]
    }
}
