//! Converts the cluster's parameters to the settings of `petrel_fabric`.

use super::client_address::ClientAddress;
use crate::config::{Config, Passphrase, Text};
use petrel_fabric::{Copies, Role, Settings, Start, reachable};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// From a port for clients to that for members, as in Redis.
const BUS_OFFSET: u16 = 10_000;

/// Directory of the cluster's files, below the working directory.
pub(super) const DIRECTORY: &str = "cluster";

/// Maximum length of an announced name, as in Redis.
const NAME_MAX: usize = 255;

/// Bytes of a file with a passphrase.
const PASSPHRASE_MAX: usize = 4096;

/// The settings of a member; none if the server is to be none.
///
/// # Errors
/// If they contradict each other, or something is missing: what to change.
pub(super) fn settings(config: &Config) -> Result<Option<Settings>, String> {
    let cluster = &config.cluster;
    let start = match (cluster.create, cluster.join.is_empty()) {
        (false, true) => return unused(config).map(|()| None),
        (true, false) => {
            return Err(
                "cluster-create and cluster-join contradict each other: the first member founds \
                        the cluster with cluster-create, all others join it with cluster-join"
                    .into(),
            );
        }
        (true, true) => Start::Create,
        (false, false) => Start::Join(seeds(&cluster.join.lossy())?),
    };
    let flag = if cluster.create { "cluster-create" } else { "cluster-join" };
    refuse_other_sources(config, flag)?;
    let role = match cluster.role {
        role if role.is("witness") => Role::Witness,
        role if role.is("cache") => Role::Cache,
        _ => Role::Data,
    };
    if cluster.create && role != Role::Data {
        return Err(format!(
            "a {} cannot found a cluster: give the first member cluster-role data",
            cluster.role.word()
        ));
    }
    let passphrase =
        passphrase("cluster-passphrase", &cluster.passphrase, cluster.passphrase_file.as_deref())?;
    let passphrase = passphrase.ok_or_else(|| {
        format!("{flag} needs the passphrase of the cluster: set cluster-passphrase-file")
    })?;
    let previous = self::passphrase(
        "cluster-passphrase-previous",
        &cluster.passphrase_previous,
        cluster.passphrase_previous_file.as_deref(),
    )?;
    let bind = bind(config)?;
    let host = match cluster.announce_ip.lossy() {
        ip if ip.is_empty() => reachable(bind).ip().to_string(),
        ip => ip.into_owned(),
    };
    let is_told = !cluster.announce_ip.is_empty() || cluster.announce_bus_port != 0;
    let bus_port =
        if cluster.announce_bus_port == 0 { bind.port() } else { cluster.announce_bus_port };
    if is_told && bus_port == 0 {
        return Err("cluster-announce-ip needs a known port: set cluster-port".into());
    }
    let client = clients_end(config, &host)?;
    Ok(Some(Settings {
        name: cluster.name.lossy().into_owned(),
        passphrase: passphrase.into(),
        previous_passphrase: previous.map(Into::into),
        start,
        bind,
        announced: is_told.then(|| address(&host, bus_port)),
        client_address: client.announced(),
        role,
        zone: cluster.zone.lossy().into_owned(),
        copies: cluster.copies.owners().map_or(Copies::All, Copies::Of),
        node_timeout: Duration::from_millis(cluster.node_timeout.into()),
        directory: config.dir.join(DIRECTORY),
        waits_for_data: true,
        reports_extents: true,
        acknowledge: cluster.acknowledge.into(),
    }))
}

/// The addresses of this server for clients.
pub(super) fn clients_end(config: &Config, host: &str) -> Result<ClientAddress, String> {
    let cluster = &config.cluster;
    let first = |ports: &[u16]| ports.iter().copied().find(|port| *port != 0).unwrap_or(0);
    let tls_port = match config.tls.tls_port {
        0 => 0,
        port => first(&[cluster.announce_tls_port, port]),
    };
    let port = first(&[cluster.announce_port, config.port, tls_port]);
    let name = |name: &str, text: &Text, more: &str| {
        let text = text.lossy().into_owned();
        let is_valid = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        match text.len() <= NAME_MAX && text.chars().all(is_valid) {
            true => Ok(text),
            false => Err(format!(
                "{name} may have {NAME_MAX} letters, digits and characters of \"{more}\""
            )),
        }
    };
    Ok(ClientAddress {
        host: host.into(),
        port,
        tls_port,
        hostname: name("cluster-announce-hostname", &cluster.announce_hostname, "-.")?,
        nodename: name("cluster-announce-human-nodename", &cluster.announce_human_nodename, "-._")?,
    })
}

/// Refuses sources of data that contradict membership: a primary, and a backup to restore from in a
/// server that joins. `flag`: the option that makes the server a member.
fn refuse_other_sources(config: &Config, flag: &str) -> Result<(), String> {
    if config.replication.replicaof.get().is_some() {
        return Err(format!(
            "{flag} and replicaof contradict each other: a member of a cluster cannot be a replica; remove one of them"
        ));
    }
    if !config.cluster.create && !config.restore_from.is_empty() {
        return Err("restore-from and cluster-join contradict each other: a server that joins begins with the data of the \
                    cluster; restore into its first member, with cluster-create"
            .into());
    }
    Ok(())
}

/// Refuses a passphrase where neither `cluster-create` nor `cluster-join` stands.
fn unused(config: &Config) -> Result<(), String> {
    let cluster = &config.cluster;
    let is_set = cluster.passphrase.is_set() || cluster.passphrase_file.is_some();
    match is_set {
        true => Err(
            "cluster-passphrase has no effect without cluster-create, which founds a cluster, or \
                     cluster-join, which joins one: add one of them"
                .into(),
        ),
        false => Ok(()),
    }
}

fn seeds(text: &str) -> Result<Vec<String>, String> {
    let seeds: Vec<String> = text
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|seed| !seed.is_empty())
        .map(Into::into)
        .collect();
    if seeds.is_empty() {
        return Err("cluster-join needs members to ask: HOST[:PORT],...".into());
    }
    Ok(seeds)
}

/// The passphrase that is given, or stands in a file; none if neither is set.
fn passphrase(
    name: &str,
    given: &Passphrase,
    file: Option<&Path>,
) -> Result<Option<String>, String> {
    let (bytes, source) = match file {
        None if !given.is_set() => return Ok(None),
        None => (given.bytes().to_vec(), name.to_owned()),
        Some(_) if given.is_set() => {
            return Err(format!("{name} and {name}-file are both set: remove one of them"));
        }
        Some(path) => {
            let source = format!("{name}-file {}", path.display());
            (fs::read(path).map_err(|error| format!("{source}: {error}"))?, source)
        }
    };
    if bytes.len() > PASSPHRASE_MAX {
        return Err(format!("{source}: a passphrase has at most {PASSPHRASE_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{source}: it is not UTF-8 text"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(format!("{source}: it is empty; write the passphrase into it"));
    }
    Ok(Some(text.into()))
}

/// Address of the cluster bus: the first address for clients.
fn bind(config: &Config) -> Result<SocketAddr, String> {
    let for_clients = if config.port == 0 { config.tls.tls_port } else { config.port };
    let port = match (config.cluster.bus_port, for_clients) {
        (0, 0) => 0,
        (0, port) => port.checked_add(BUS_OFFSET).ok_or_else(|| {
            format!("port {port} + {BUS_OFFSET} is no port for other members: set cluster-port")
        })?,
        (bus_port, _) => bus_port,
    };
    let first = config.bind.iter().next().map_or("*", |bind| bind.address.as_str());
    let ip = match first {
        "*" => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        "::*" => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        name => {
            let mut found = (name, port)
                .to_socket_addrs()
                .map_err(|error| format!("bind {name}, for other members: {error}"))?;
            found.next().ok_or_else(|| format!("bind {name}: the name has no address"))?.ip()
        }
    };
    Ok(SocketAddr::new(ip, port))
}

/// `host:port`, with brackets where the host has colons.
pub(super) fn address(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::check_renames;
    use crate::config::{CommandLine, Invocation};

    fn settings_of(args: &[&str]) -> Result<Option<Settings>, String> {
        let line = match Invocation::parse(args.iter().map(Into::into)).unwrap() {
            Invocation::Start(line) => line,
            _ => CommandLine::default(),
        };
        settings(&line.load(check_renames).unwrap().snapshot())
    }

    fn error(args: &str) -> String {
        let args: Vec<&str> = args.split(' ').collect();
        settings_of(&args).err().expect("it is refused")
    }

    #[test]
    fn what_is_missing_or_contradicts_itself_is_said() {
        for (args, part) in [
            ("--cluster-create", "cluster-create needs the passphrase"),
            ("--cluster-join a:1", "cluster-join needs the passphrase"),
            ("--cluster-create --cluster-join a", "contradict each other"),
            (
                "--cluster-join a --restore-from file:///x",
                "restore-from and cluster-join contradict",
            ),
            ("--cluster-create --cluster-passphrase x --replicaof a 1", "replicaof"),
            ("--cluster-create --cluster-passphrase x --cluster-role witness", "a witness cannot"),
            ("--cluster-create --cluster-passphrase x --cluster-role cache", "a cache cannot"),
            ("--cluster-passphrase x", "no effect without cluster-create"),
            (
                "--cluster-create --cluster-passphrase-file /no/such/file",
                "/no/such/file: No such file",
            ),
            ("--cluster-create --cluster-passphrase-file /dev/null", "/dev/null: it is empty"),
            ("--cluster-create --cluster-passphrase x --cluster-passphrase-file y", "both set"),
            ("--cluster-create --cluster-passphrase x --port 60000", "set cluster-port"),
            ("--cluster-join , --cluster-passphrase x", "needs members to ask"),
            (
                "--cluster-create --cluster-passphrase x --port 0 --cluster-announce-ip a",
                "set cluster-port",
            ),
        ] {
            assert!(error(args).contains(part), "{args}: {}", error(args));
        }
        assert!(settings_of(&[]).is_ok_and(|settings| settings.is_none()));
    }

    #[test]
    fn addresses_follow_from_ports() {
        let args = "--cluster-join a:1,b --cluster-passphrase x --port 7001 --bind 127.0.0.1";
        let args: Vec<&str> = args.split(' ').collect();
        let settings = settings_of(&args).unwrap().unwrap();
        assert_eq!(settings.bind, "127.0.0.1:17001".parse().unwrap());
        assert_eq!((settings.announced, &*settings.client_address), (None, "127.0.0.1:7001"));
        let Start::Join(seeds) = settings.start else { panic!("it joins") };
        assert_eq!(seeds, ["a:1", "b"]);
        let more = ["--cluster-announce-ip", "::1", "--cluster-announce-port", "9"];
        let settings = settings_of(&[args, more.to_vec()].concat()).unwrap().unwrap();
        assert_eq!(settings.announced.as_deref(), Some("[::1]:17001"));
        assert_eq!(settings.client_address, "[::1]:9");
    }
}
