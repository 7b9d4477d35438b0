//! Relays before the buses of a cluster's nodes: they delay and count bytes as a network would.
//!
//! A relay listens on a port that its node announces in place of its own, so all connections to the
//! node come through it. For each connection and direction one thread reads, and one writes what
//! was read once it is due; a delay neither bounds the throughput nor reorders anything.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// Pieces in flight in one direction of a connection; more are not read.
const PIECES_MAX: usize = 1024;

/// Bytes that relays have carried.
#[derive(Clone, Debug, Default)]
pub struct Carried(Arc<AtomicU64>);

impl Carried {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Sends a number to every client of a Unix socket.
pub fn report(path: &Path, number: impl Fn() -> u64 + Send + 'static) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    thread::spawn(move || {
        for client in listener.incoming() {
            // A client that is gone already needs no answer.
            let _ = client.and_then(|mut client| writeln!(client, "{}", number()));
        }
    });
    Ok(())
}

/// Starts a relay before a port of this machine; returns the port of the relay.
pub fn start(port: u16, delay: Duration, carried: Carried) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let own = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // Without a node behind it, the connection ends as it would without a relay.
            let Ok(node) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
            let _ = join(&client, &node, delay, &carried);
        }
    });
    Ok(own)
}

/// Forwards the bytes of two connections to each other.
fn join(a: &TcpStream, b: &TcpStream, delay: Duration, carried: &Carried) -> io::Result<()> {
    for (from, to) in [(a, b), (b, a)] {
        from.set_nodelay(true)?;
        let (from, to, carried) = (from.try_clone()?, to.try_clone()?, carried.clone());
        let (pieces, due) = mpsc::sync_channel(PIECES_MAX);
        thread::spawn(move || read(from, delay, &carried, &pieces));
        thread::spawn(move || write(to, &due));
    }
    Ok(())
}

fn read(
    mut from: TcpStream,
    delay: Duration,
    carried: &Carried,
    pieces: &SyncSender<(Instant, Vec<u8>)>,
) {
    let mut bytes = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        carried.0.fetch_add(count as u64, Relaxed);
        if pieces.send((Instant::now() + delay, bytes[..count].to_vec())).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Read);
}

fn write(mut to: TcpStream, due: &Receiver<(Instant, Vec<u8>)>) {
    while let Ok((at, bytes)) = due.recv() {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_both_ways_in_order_late_and_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut bytes = [0; 100];
            while let Ok(count @ 1..) = socket.read(&mut bytes) {
                socket.write_all(&bytes[..count]).unwrap();
            }
        });
        let (carried, delay) = (Carried::default(), Duration::from_millis(20));
        let relay = start(port, delay, carried.clone()).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", relay)).unwrap();
        for number in 0..3u8 {
            let (begin, sent, mut got) = (Instant::now(), [number; 300], [0; 300]);
            client.write_all(&sent).unwrap();
            client.read_exact(&mut got).unwrap();
            assert_eq!(got, sent);
            assert!(begin.elapsed() >= 2 * delay);
        }
        assert_eq!(carried.bytes(), 2 * 3 * 300);
        drop(client);
    }
}
