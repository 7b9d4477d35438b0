//! A driver with a Unix-socket listener and an accept-everything loop around it.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use petrel_net::{Driver, Event, ListenerId, Slot, bind_unix};

/// The longest any test waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Harness<D> {
    pub driver: D,
    pub path: PathBuf,
    /// How often the driver was polled.
    pub polls: usize,
    events: Vec<Event>,
}

impl<D: Driver> Harness<D> {
    pub fn new(mut driver: D) -> Harness<D> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("petrel-driver-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = Arc::new(bind_unix(&path, None, 1024).unwrap());
        driver.listen(listener, ListenerId(7)).unwrap();
        Harness { driver, path, polls: 0, events: Vec::new() }
    }

    /// One turn; connections are adopted, all other events returned.
    pub fn turn(&mut self, timeout: Duration) -> Vec<Event> {
        self.polls += 1;
        self.driver.poll(Some(timeout), &mut self.events).unwrap();
        let mut rest = Vec::new();
        for event in self.events.drain(..) {
            match event {
                Event::Accepted { listener, socket } => {
                    assert_eq!(listener, ListenerId(7));
                    self.driver.adopt(socket).unwrap();
                }
                other => rest.push(other),
            }
        }
        rest
    }

    /// Turns until `done` says so, passing it each event.
    pub fn until(&mut self, mut done: impl FnMut(&mut D, Event) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut finished = false;
        while !finished {
            assert!(Instant::now() < end, "nothing more happened");
            for event in self.turn(Duration::from_millis(100)) {
                finished |= done(&mut self.driver, event);
            }
        }
    }

    /// Turns for `time`, failing on any event.
    pub fn silence(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let events = self.turn(Duration::from_millis(20));
            assert!(events.is_empty(), "{events:?}");
        }
    }

    /// A connected pair: the client's socket and the driver's slot.
    pub fn connect(&mut self) -> (UnixStream, Slot) {
        let client = UnixStream::connect(&self.path).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.set_write_timeout(Some(PATIENCE)).unwrap();
        self.polls += 1;
        loop {
            self.driver.poll(Some(PATIENCE), &mut self.events).unwrap();
            for event in self.events.drain(..) {
                if let Event::Accepted { socket, .. } = event {
                    return (client, self.driver.adopt(socket).unwrap());
                }
            }
        }
    }

    /// The same over TCP.
    pub fn connect_tcp(&mut self) -> (TcpStream, Slot) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        (client, self.driver.adopt(OwnedFd::from(server)).unwrap())
    }
}

impl<D> Drop for Harness<D> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Ends a connection as a peer does that takes no more.
pub fn reset(client: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of::<libc::linger>() as u32;
    // SAFETY: a valid option value of its length.
    let set = unsafe {
        let value = std::ptr::from_ref(&linger).cast();
        libc::setsockopt(client.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, len)
    };
    assert_eq!(set, 0);
}

/// Sends the bytes of a `Received` back.
pub fn echo<D: Driver>(driver: &mut D, event: &Event) {
    if let Event::Received { slot, chunk } = event {
        let mut output = driver.output();
        output.bytes.extend_from_slice(driver.data(*chunk));
        driver.send(*slot, output);
    }
}

/// Queues `bytes` for `slot`.
pub fn say<D: Driver>(driver: &mut D, slot: Slot, bytes: &[u8]) {
    let mut output = driver.output();
    output.bytes.extend_from_slice(bytes);
    driver.send(slot, output);
}

/// Bytes that differ along their length.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + (i >> 8) * 7) as u8).collect()
}
