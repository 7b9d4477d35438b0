//! The switch. Each host has a thread that reads its packets and decides their fate, and a thread
//! that delivers packets when they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::host::number_of;

/// Maximum number of packets under way to a host; more are lost, as in a switch with full buffers.
const PACKETS_MAX: usize = 16 * 1024;

/// Largest packet of IP, bytes.
const PACKET_BYTES: usize = 65_535;

/// Interval at which threads check whether the network has ended.
const STOP_EVERY: Duration = Duration::from_millis(50);

/// Fate of packets from one host to another. By default they arrive at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    /// Time on the way.
    pub delay: Duration,
    /// Maximum random addition to the delay, drawn for each packet: packets may overtake each
    /// other.
    pub jitter: Duration,
    /// The share that is lost, from 0 to 1.
    pub loss: f64,
    /// Nothing arrives.
    pub is_cut: bool,
}

impl Path {
    /// A path on which nothing arrives.
    pub const CUT: Path =
        Path { delay: Duration::ZERO, jitter: Duration::ZERO, loss: 0.0, is_cut: true };

    /// A path that takes so long.
    pub fn delayed(delay: Duration) -> Path {
        Path { delay, ..Path::default() }
    }
}

/// Traffic from one host to another.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Packets of IP.
    pub packets: u64,
    /// Bytes, IP headers included.
    pub bytes: u64,
    /// Bytes without the headers of IP, and of TCP or UDP: what programs wrote, and what TCP sent
    /// again.
    pub payload: u64,
    /// Packets that were lost, by [`Path::loss`], a cut or for want of room.
    pub lost: u64,
}

impl Traffic {
    pub(crate) fn plus(self, other: Traffic) -> Traffic {
        Traffic {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            payload: self.payload + other.payload,
            lost: self.lost + other.lost,
        }
    }
}

/// The switch, shared by its threads.
#[derive(Debug)]
pub struct Switch {
    state: Mutex<State>,
    is_stopped: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// By the number of the host: packets on their way to it.
    ports: Vec<SyncSender<Packet>>,
    /// By sender and receiver.
    paths: Vec<Vec<(Path, Traffic)>>,
    random: u64,
    /// Packets so far.
    count: u64,
}

#[derive(Debug)]
struct Packet {
    due: Instant,
    /// Sequence number among all packets: packets due at the same time arrive in this order.
    number: u64,
    bytes: Vec<u8>,
}

impl PartialEq for Packet {
    fn eq(&self, other: &Packet) -> bool {
        self.number == other.number
    }
}

impl Eq for Packet {}

impl PartialOrd for Packet {
    fn partial_cmp(&self, other: &Packet) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Packet {
    fn cmp(&self, other: &Packet) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl Switch {
    pub fn new(seed: u64) -> Switch {
        let state = State { ports: Vec::new(), paths: Vec::new(), random: seed, count: 0 };
        Switch { state: Mutex::new(state), is_stopped: AtomicBool::new(false) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of hosts.
    pub fn ports(&self) -> usize {
        self.state().ports.len()
    }

    /// Adds a host by its device.
    pub fn connect(self: &Arc<Switch>, device: File) -> io::Result<()> {
        let (to_host, packets) = mpsc::sync_channel(PACKETS_MAX);
        let (reader, writer) = (self.clone(), self.clone());
        let device_to_host = device.try_clone()?;
        let from = {
            let mut state = self.state();
            state.ports.push(to_host);
            let hosts = state.ports.len();
            state.paths.push(Vec::new());
            state.paths.iter_mut().for_each(|row| row.resize_with(hosts, Default::default));
            hosts - 1
        };
        let name = |what: &str| thread::Builder::new().name(format!("{what}{from}"));
        name("from").spawn(move || reader.read(from, device))?;
        name("to").spawn(move || writer.write(device_to_host, &packets))?;
        Ok(())
    }

    pub fn set_path(&self, from: usize, to: usize, path: Path) {
        self.state().paths[from][to].0 = path;
    }

    pub fn traffic(&self, from: usize, to: usize) -> Traffic {
        self.state().paths[from][to].1
    }

    /// Lets the threads end.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    /// Reads the packets that a host sends, until the network ends.
    fn read(&self, from: usize, mut device: File) {
        let mut bytes = vec![0; PACKET_BYTES];
        while !self.is_stopped.load(Relaxed) {
            match device.read(&mut bytes) {
                Ok(length) => self.pass(from, &bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let timeout = Timespec { tv_sec: 0, tv_nsec: STOP_EVERY.as_nanos() as _ };
                    let mut wanted = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN)];
                    // Whatever it says, the next read finds out.
                    let _ = poll(&mut wanted, Some(&timeout));
                }
                // The device is down, while its namespace ends.
                Err(_) => thread::sleep(STOP_EVERY),
            }
        }
    }

    /// Decides what becomes of a packet.
    fn pass(&self, from: usize, packet: &[u8]) {
        let Some((to, payload)) = read_header(packet) else { return };
        let mut state = self.state();
        let State { ports, paths, random, count } = &mut *state;
        let (Some((path, traffic)), Some(port)) = (paths[from].get_mut(to), ports.get(to)) else {
            return;
        };
        traffic.packets += 1;
        traffic.bytes += packet.len() as u64;
        traffic.payload += payload as u64;
        let is_lost = path.is_cut || path.loss > 0.0 && draw(random) < path.loss;
        let jitter = match path.jitter.is_zero() {
            true => Duration::ZERO,
            false => path.jitter.mul_f64(draw(random)),
        };
        *count += 1;
        let (due, number) = (Instant::now() + path.delay + jitter, *count);
        let packet = Packet { due, number, bytes: packet.to_vec() };
        // Packets to a host without threads are dropped.
        if is_lost || matches!(port.try_send(packet), Err(TrySendError::Full(_))) {
            traffic.lost += 1;
        }
    }

    /// Delivers packets to a host when they are due, until the network ends.
    fn write(&self, mut device: File, packets: &Receiver<Packet>) {
        let mut waiting = BinaryHeap::new();
        while !self.is_stopped.load(Relaxed) {
            let now = Instant::now();
            let timeout = match waiting.peek() {
                Some(Reverse(Packet { due, .. })) => due.saturating_duration_since(now),
                None => STOP_EVERY,
            };
            if !timeout.is_zero() {
                match packets.recv_timeout(timeout.min(STOP_EVERY)) {
                    Ok(packet) => waiting.push(Reverse(packet)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            let room = PACKETS_MAX.saturating_sub(waiting.len());
            waiting.extend(packets.try_iter().take(room).map(Reverse));
            let now = Instant::now();
            while waiting.peek().is_some_and(|Reverse(packet)| packet.due <= now) {
                if let Some(Reverse(packet)) = waiting.pop() {
                    // One that the host cannot take is lost, as on a wire.
                    let _ = device.write(&packet.bytes);
                }
            }
        }
    }
}

/// The host that a packet of IPv4 is for, and how many bytes it carries behind its headers. Others
/// have no way in this network.
fn read_header(packet: &[u8]) -> Option<(usize, usize)> {
    let header = usize::from(packet.first()? & 15) * 4;
    if packet[0] >> 4 != 4 || packet.len() < header.max(20) {
        return None;
    }
    let to: [u8; 4] = packet[16..20].try_into().ok()?;
    let transport = match packet[9] {
        // The length of TCP's header stands in its 13th byte, in words of four.
        6 => usize::from(packet.get(header + 12)? >> 4) * 4,
        17 => 8,
        _ => 0,
    };
    Some((number_of(Ipv4Addr::from(to))?, packet.len().saturating_sub(header + transport)))
}

/// A number from 0 up to 1 (SplitMix64, Steele et al. 2014).
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_where_a_packet_goes_and_what_it_carries() {
        let mut packet = vec![0; 60];
        (packet[0], packet[9]) = (0x45, 6);
        packet[16..20].copy_from_slice(&[10, 77, 0, 3]);
        packet[32] = 0x80;
        assert_eq!(read_header(&packet), Some((2, 8)));
        packet[9] = 17;
        assert_eq!(read_header(&packet), Some((2, 32)));
        packet[16] = 11;
        assert_eq!(read_header(&packet), None);
        for nonsense in [&[][..], &[0x45], &[0x60; 40], &[0x4f; 30]] {
            assert_eq!(read_header(nonsense), None);
        }
    }

    #[test]
    fn what_is_drawn_lies_between_zero_and_one() {
        let mut state = 7;
        let draws: Vec<f64> = (0..10_000).map(|_| draw(&mut state)).collect();
        assert!(draws.iter().all(|drawn| (0.0..1.0).contains(drawn)));
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
