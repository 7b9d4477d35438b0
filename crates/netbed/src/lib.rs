//! A network of hosts on one machine, for tests and benchmarks of programs that speak to each
//! other. Each [`Host`] is a network namespace with a TUN device as its only interface; a
//! [`Network`] is the switch between them, in user space. It delays, reorders, loses and cuts
//! packets in each direction separately, and counts them. Everything above IP is the kernel's own:
//! TCP, UDP, QUIC.
//!
//! Linux only. It needs the right to make namespaces and TUN devices (`CAP_SYS_ADMIN` and
//! `CAP_NET_ADMIN`, as root has them), and the program `ip` of iproute2; where one is missing,
//! [`Network::new`] and [`Network::host`] say so.
//!
//! | file | holds |
//! |---|---|
//! | `host.rs` | a namespace and the thread that lives in it |
//! | `switch.rs` | the switch: paths between hosts, queues of packets |
//! | `tun.rs` | the TUN device; the only `unsafe` |

mod host;
mod switch;
mod tun;

use std::io;
use std::sync::Arc;

pub use host::Host;
pub use switch::{Path, Traffic};

/// A switch and the hosts behind it.
#[derive(Debug)]
pub struct Network {
    switch: Arc<switch::Switch>,
}

impl Network {
    /// A network without hosts. Losses and jitter are drawn from `seed`.
    pub fn new(seed: u64) -> Network {
        Network { switch: Arc::new(switch::Switch::new(seed)) }
    }

    /// Adds a host; the first is number 0. What passes between it and others passes at once, until
    /// [`Network::set_path`] says otherwise.
    ///
    /// # Errors
    ///
    /// A namespace or a TUN device cannot be made here (not root, no `/dev/net/tun`), the program
    /// `ip` is missing, or there are [`Network::HOSTS_MAX`] hosts already.
    pub fn host(&mut self) -> io::Result<Host> {
        let number = self.switch.ports();
        if number >= Network::HOSTS_MAX {
            return Err(io::Error::other(format!("at most {} hosts", Network::HOSTS_MAX)));
        }
        let (host, device) = Host::new(number)?;
        self.switch.connect(device)?;
        Ok(host)
    }

    /// Hosts that a network can have.
    pub const HOSTS_MAX: usize = 64;

    /// Sets the path from one host to another for packets sent from now on. Packets already under
    /// way keep the path they had.
    ///
    /// # Panics
    ///
    /// There is no such host.
    pub fn set_path(&self, from: usize, to: usize, path: Path) {
        self.switch.set_path(from, to, path);
    }

    /// Sets the paths between each of `hosts` and each other host, in both directions.
    pub fn set_paths_between(&self, hosts: &[usize], path: Path) {
        for inside in 0..self.switch.ports() {
            for outside in 0..self.switch.ports() {
                if hosts.contains(&inside) && !hosts.contains(&outside) {
                    self.set_path(inside, outside, path);
                    self.set_path(outside, inside, path);
                }
            }
        }
    }

    /// Sets the paths between all hosts.
    pub fn set_all_paths(&self, path: Path) {
        for from in 0..self.switch.ports() {
            (0..self.switch.ports()).for_each(|to| self.set_path(from, to, path));
        }
    }

    /// Traffic from one host to another so far, lost packets included.
    ///
    /// # Panics
    ///
    /// There is no such host.
    pub fn traffic(&self, from: usize, to: usize) -> Traffic {
        self.switch.traffic(from, to)
    }

    /// Traffic between all hosts so far.
    pub fn total_traffic(&self) -> Traffic {
        let hosts = 0..self.switch.ports();
        let pairs = hosts.clone().flat_map(|from| hosts.clone().map(move |to| (from, to)));
        pairs.map(|(from, to)| self.traffic(from, to)).fold(Traffic::default(), Traffic::plus)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.switch.stop();
    }
}
