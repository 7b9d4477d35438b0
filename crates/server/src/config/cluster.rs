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
        "Found a cluster with this server's data; if the directory has cluster files already, return to that cluster";
    join: Text = "cluster-join", AnyText, "", AtStart,
        "Members to ask for admission: host[:port] of their buses, separated by commas; the default port is that of this server's bus";
    passphrase: Passphrase = "cluster-passphrase", Password, "", AtStart,
        "Passphrase that admits a server, the same at all members; never shown. Prefer cluster-passphrase-file: command lines are visible to other users";
    passphrase_file: Option<PathBuf> = "cluster-passphrase-file", Path, "", AtStart,
        "File with the passphrase as its only line";
    passphrase_previous: Passphrase = "cluster-passphrase-previous", Password, "", AtStart,
        "Passphrase of members that have not been restarted since it was changed";
    passphrase_previous_file: Option<PathBuf> = "cluster-passphrase-previous-file", Path, "", AtStart,
        "File with the previous passphrase as its only line";
    name: Text = "cluster-name", AnyText, "petrel", AtStart,
        "Name of the cluster, the same at all members";
    role: Word = "cluster-role", OneOf(&["data", "cache", "witness"]), "data", AtStart,
        "Role of the server: data holds keys and votes; cache holds copies of the keys read there; witness votes and holds no data";
    copies: CopyCount = "cluster-copies", AllOr { max: 64 }, "2", AtStart,
        "Number of members that hold each key, or all; set when the cluster is founded. With fewer copies than members, the cluster can hold more data than one member";
    acknowledge: u16 = "cluster-acknowledge", Number { min: 1, max: 2 }, "2", AtStart,
        "Number of owners that have a change before a client sees it. With 2, no change that a client has seen is lost with one member, and replies wait for one round trip to another owner; the same at all members";
    zone: Text = "cluster-zone", AnyText, "", AtStart,
        "Failure domain of the server, such as a rack: copies of a key are placed in different zones if possible";
    bus_port: u16 = "cluster-port", Number { min: 0, max: 65535 }, "0", AtStart,
        "TCP port for other members; 0 is the clients' port + 10000, or any free one if there is none";
    announce_ip: Text = "cluster-announce-ip", AnyText, "", Kept,
        "Address or name at which other members and clients reach this server; empty detects it";
    announce_port: u16 = "cluster-announce-port", Number { min: 0, max: 65535 }, "0", Kept,
        "Port at which clients reach it; 0 is the one it listens on";
    announce_bus_port: u16 = "cluster-announce-bus-port", Number { min: 0, max: 65535 }, "0", Kept,
        "Port at which other members reach it; 0 is that of the bus";
    announce_tls_port: u16 = "cluster-announce-tls-port", Number { min: 0, max: 65535 }, "0", Kept,
        "Port at which clients with TLS reach it; 0 is tls-port";
    announce_hostname: Text = "cluster-announce-hostname", AnyText, "", Kept,
        "Host name that clients of Redis Cluster are shown beside the address";
    announce_human_nodename: Text = "cluster-announce-human-nodename", AnyText, "", Kept,
        "Name of the server in logs of the members";
    enabled: bool = "cluster-enabled", YesNo, "no", AtStart,
        "Speak Redis Cluster's protocol to clients by TCP: MOVED instead of forwarding, and the keys of a command in one hash slot; a server outside of a cluster owns all slots";
    preferred_endpoint_type: Word = "cluster-preferred-endpoint-type",
        OneOf(&["ip", "hostname", "unknown-endpoint"]), "ip", Runtime,
        "Type of the addresses of nodes that clients of Redis Cluster get";
    node_timeout: u32 = "cluster-node-timeout", Number { min: 500, max: 3_600_000 }, "3000", AtStart,
        "Milliseconds of silence after which other members take over a member's hash slots; the same at all members";
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
    pub fn owners(self) -> Option<u16> {
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
