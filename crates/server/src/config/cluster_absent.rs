//! Parameters of Redis Cluster that decide something only where the server can be a member of a
//! cluster: without the feature, they are taken and shown.

use super::params::{Config, parameters};
use super::table::{Group, Mutability::*, Param};
use super::types::{Fixed, Text, Word};
use super::value::{Rule::*, Value};

const NO_CLUSTER: &str = "this build of Petrel cannot be part of a cluster";

parameters! {
/// Parameters of the cluster, which decide nothing.
ClusterConfig, CLUSTER, |config| config.cluster;

RedisCluster {
    enabled: Fixed = "cluster-enabled", Only(&["no"], NO_CLUSTER), "no", AtStart, "Be a node of a cluster";
    announce_tls_port: u16 = "cluster-announce-tls-port", Number { min: 0, max: 65535 }, "0", Runtime,
        "TLS port that a node announces";
    announce_hostname: Text = "cluster-announce-hostname", AnyText, "", Runtime, "Host name that a node announces";
    announce_human_nodename: Text = "cluster-announce-human-nodename", AnyText, "", Runtime,
        "Name of a node in logs";
    preferred_endpoint_type: Word = "cluster-preferred-endpoint-type",
        OneOf(&["ip", "hostname", "unknown-endpoint"]), "ip", Runtime, "Type of the addresses announced to clients";
    port: u16 = "cluster-port", Number { min: 0, max: 65535 }, "0", AtStart, "Port of the cluster bus";
    node_timeout: i64 = "cluster-node-timeout", Number { min: 0, max: i64::MAX }, "15000", Runtime,
        "Milliseconds of silence after which a node counts as failing";
    announce_ip: Text = "cluster-announce-ip", AnyText, "", Runtime, "Address that a node announces";
    announce_port: u16 = "cluster-announce-port", Number { min: 0, max: 65535 }, "0", Runtime,
        "Port that a node announces";
    announce_bus_port: u16 = "cluster-announce-bus-port", Number { min: 0, max: 65535 }, "0", Runtime,
        "Bus port that a node announces";
}
}
