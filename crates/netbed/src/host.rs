//! A namespace and the thread that lives in it.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::tun;

/// A function for the thread of a host.
type Job = Box<dyn FnOnce() + Send>;

/// A network namespace with one address. What [`Host::run`] runs, and the processes that it
/// starts, are in it; sockets that it opens stay in it wherever they are used.
#[derive(Debug)]
pub struct Host {
    number: usize,
    jobs: Sender<Job>,
}

impl Host {
    pub(crate) fn new(number: usize) -> io::Result<(Host, File)> {
        let (jobs, queue) = mpsc::channel();
        let (made, is_made) = mpsc::channel();
        thread::Builder::new().name(format!("host{number}")).spawn(move || {
            let device = enter(number);
            let is_ready = device.is_ok();
            // The caller waits for it.
            let _ = made.send(device);
            if is_ready {
                live(&queue);
            }
        })?;
        let device = is_made.recv().map_err(io::Error::other)??;
        Ok((Host { number, jobs }, device))
    }

    /// Number of the host in the network.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Address of the host in the network.
    pub fn address(&self) -> Ipv4Addr {
        address(self.number)
    }

    /// Calls a function in the namespace and returns its result. A process that it starts belongs
    /// to the thread of the host, so a parent-death signal is sent when the host is dropped.
    ///
    /// # Panics
    ///
    /// The function panicked.
    pub fn run<T: Send + 'static>(&self, function: impl FnOnce() -> T + Send + 'static) -> T {
        let (result, returned) = mpsc::channel();
        let job = move || {
            let _ = result.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(function)));
        };
        self.jobs.send(Box::new(job)).expect("the thread lives as long as the host");
        match returned.recv().expect("the thread lives as long as the host") {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// The address of a host.
pub fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 1 + number as u8)
}

/// The number of the host with an address, if it is one of a network.
pub fn number_of(address: Ipv4Addr) -> Option<usize> {
    match address.octets() {
        [10, 77, 0, last] if last > 0 => Some(usize::from(last) - 1),
        _ => None,
    }
}

fn enter(number: usize) -> io::Result<File> {
    tun::enter_new_namespace().map_err(|error| because("a network namespace", &error))?;
    let device = tun::open().map_err(|error| because("a TUN device", &error))?;
    let own = format!("{}/24", address(number));
    ip(&["link", "set", "lo", "up"])?;
    ip(&["addr", "add", &own, "dev", tun::NAME])?;
    // The kernel queues packets until the switch reads them; without this room it would drop them.
    ip(&["link", "set", tun::NAME, "txqueuelen", "10000", "up"])?;
    Ok(device)
}

fn because(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} cannot be made here: {error}"))
}

fn ip(args: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(args).output().map_err(|error| because("ip", &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", args.join(" "), said.trim())))
}

fn live(queue: &Receiver<Job>) {
    queue.iter().for_each(|job| job());
}
