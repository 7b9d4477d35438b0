//! Frames between two nodes whose connections break.

mod host;

use host::{Host, Seen, Setup, is_settled, wait_for};
use parking_lot::Mutex;
use petrel_fabric::Link;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Forwards connections, until they are cut.
struct Proxy {
    address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = open.clone();
        std::thread::spawn(move || {
            for inner in listener.incoming().flatten() {
                let Ok(outer) = TcpStream::connect(target) else { continue };
                let streams = [inner, outer].map(|stream| stream.try_clone().expect("a copy"));
                kept.lock()
                    .extend(streams.iter().map(|stream| stream.try_clone().expect("a copy")));
                let [inner, outer] = streams;
                let back = (outer.try_clone().expect("a copy"), inner.try_clone().expect("a copy"));
                std::thread::spawn(move || forward(inner, outer));
                std::thread::spawn(move || forward(back.0, back.1));
            }
        });
        Proxy { address, open }
    }

    fn cut(&self) {
        for stream in self.open.lock().drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}

fn last_link(host: &Host) -> Option<Link> {
    host.notes.0.lock().iter().rev().find_map(|seen| match seen {
        Seen::Up(link) => Some(Some(*link)),
        Seen::Down(_) => Some(None),
        _ => None,
    })?
}

/// What came over each link: the sender's link, and the number of the frame on it.
fn frames(host: &Host) -> BTreeMap<Link, Vec<(u64, u64)>> {
    let mut frames: BTreeMap<Link, Vec<(u64, u64)>> = BTreeMap::new();
    let mut up = None;
    for seen in host.notes.0.lock().iter() {
        match seen {
            Seen::Up(link) => {
                assert_eq!(up, None, "one link at a time");
                up = Some(*link);
            }
            Seen::Down(link) => {
                assert_eq!(up.take(), Some(*link));
            }
            Seen::Frame(link, bytes) => {
                assert_eq!(up, Some(*link), "frames come while their link is up");
                let number = |at: usize| {
                    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
                };
                assert!(bytes[16..].iter().all(|&byte| byte == number(8) as u8));
                frames.entry(*link).or_default().push((number(0), number(8)));
            }
            _ => {}
        }
    }
    frames
}

#[test]
fn frames_come_whole_and_in_order_and_links_do_not_mix() {
    let first = Setup::create().start();
    first.wait_until_member();
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let bind = free.local_addr().expect("it is bound");
    drop(free);
    let proxy = Proxy::to(bind);
    let second = Setup::join(&[&first]).listens_at(bind, proxy.address.to_string()).start();
    is_settled(&[&first, &second], 2);
    for (from, to) in [(&first, &second), (&second, &first)] {
        for round in 0..5 {
            wait_for("a link", || last_link(from).is_some());
            let sent = last_link(from).map_or(0, |link| send_some(from, link));
            if round % 2 == 0 {
                wait_for("frames", || {
                    let frames = frames(to);
                    let last = frames.values().next_back().and_then(|frames| frames.last());
                    last.is_some_and(|(_, number)| number + 1 >= sent / 2)
                });
            }
            let before = last_link(from);
            proxy.cut();
            wait_for("another link", || {
                let link = last_link(from);
                link.is_some() && link != before
            });
        }
    }
    for host in [&first, &second] {
        let frames = frames(host);
        assert!(frames.len() >= 3, "{}", frames.len());
        let mut senders = Vec::new();
        for (link, frames) in frames {
            let sender = frames[0].0;
            senders.push(sender);
            for (at, frame) in frames.iter().enumerate() {
                assert_eq!(*frame, (sender, at as u64), "over {link:?}");
            }
        }
        senders.dedup();
        assert!(senders.is_sorted());
    }
}

/// Sends numbered frames until enough were taken or the link is down; how many were taken.
fn send_some(host: &Host, link: Link) -> u64 {
    let mut sent: u64 = 0;
    while sent < 2000 {
        let mut frame = link.number.to_le_bytes().to_vec();
        frame.extend(sent.to_le_bytes());
        frame.resize(16 + (sent as usize * 37) % 5000, sent as u8);
        match host.fabric().send(link, frame) {
            Ok(()) => sent += 1,
            Err(petrel_fabric::SendError::Backlogged(_)) => std::thread::yield_now(),
            Err(_) => break,
        }
    }
    sent
}
