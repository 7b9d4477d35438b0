//! Bytes between two nodes while connections break.

mod host;

use host::{Host, Seen, Setup, is_visible, wait_for};
use parking_lot::Mutex;
use petrel_fabric::Link;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Proxy that forwards connections until they are cut.
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
    host.notes.seen.lock().iter().rev().find_map(|seen| match seen {
        Seen::Up(link) => Some(Some(*link)),
        Seen::Down(_) => Some(None),
        _ => None,
    })?
}

/// Messages received over each link: the sender's link, and the message's number on it. The last
/// message may be incomplete.
fn messages(host: &Host) -> BTreeMap<Link, Vec<(u64, u64)>> {
    host.notes.receive();
    let mut bytes_of: BTreeMap<Link, Vec<u8>> = BTreeMap::new();
    let mut up = None;
    for seen in host.notes.seen.lock().iter() {
        match seen {
            Seen::Up(link) => {
                assert_eq!(up, None, "one link at a time");
                up = Some(*link);
            }
            Seen::Down(link) => {
                assert_eq!(up.take(), Some(*link));
            }
            Seen::Bytes(link, bytes) => {
                assert_eq!(up, Some(*link), "bytes come while their link is up");
                bytes_of.entry(*link).or_default().extend(bytes);
            }
            _ => {}
        }
    }
    let messages_of = |mut bytes: &[u8]| {
        let mut messages = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk::<16>() {
            let [link, number] = [&head[..8], &head[8..]]
                .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
            let len = length(number);
            assert!(rest.iter().take(len).all(|&byte| byte == number as u8));
            if rest.len() < len {
                break;
            }
            messages.push((link, number));
            bytes = &rest[len..];
        }
        messages
    };
    bytes_of.into_iter().map(|(link, bytes)| (link, messages_of(&bytes))).collect()
}

/// Bytes of a message after its head.
fn length(number: u64) -> usize {
    (number as usize * 37) % 5000
}

#[test]
fn bytes_come_in_order_and_links_do_not_mix() {
    let first = Setup::create().start();
    first.wait_until_member();
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let bind = free.local_addr().expect("it is bound");
    drop(free);
    let proxy = Proxy::to(bind);
    let second = Setup::join(&[&first]).listens_at(bind, proxy.address.to_string()).start();
    is_visible(&[&first, &second], 2);
    for (from, to) in [(&first, &second), (&second, &first)] {
        for round in 0..5 {
            wait_for("a link", || last_link(from).is_some());
            let sent = last_link(from).map_or(0, |link| send_some(from, to, link));
            if round % 2 == 0 {
                wait_for("messages", || {
                    let messages = messages(to);
                    let last = messages.values().next_back().and_then(|messages| messages.last());
                    last.is_some_and(|(_, number)| number + 1 >= sent / 2)
                });
            }
            let before = last_link(from);
            proxy.cut();
            wait_for("another link", || {
                [from, to].into_iter().for_each(|host| host.notes.receive());
                let link = last_link(from);
                link.is_some() && link != before
            });
        }
    }
    for host in [&first, &second] {
        let messages = messages(host);
        assert!(messages.len() >= 3, "{}", messages.len());
        let mut senders = Vec::new();
        for (link, messages) in messages {
            let Some(&(sender, _)) = messages.first() else { continue };
            senders.push(sender);
            for (at, message) in messages.iter().enumerate() {
                assert_eq!(*message, (sender, at as u64), "over {link:?}");
            }
        }
        senders.dedup();
        assert!(senders.is_sorted());
    }
}

/// Sends numbered messages until enough were accepted or the link is down; returns the number
/// accepted.
fn send_some(from: &Host, to: &Host, link: Link) -> u64 {
    let mut sent: u64 = 0;
    while sent < 2000 {
        let mut message = link.number.to_le_bytes().to_vec();
        message.extend(sent.to_le_bytes());
        message.resize(16 + length(sent), sent as u8);
        match from.notes.send(link, &message) {
            Some(true) => sent += 1,
            Some(false) => break,
            None => to.notes.receive(),
        }
    }
    sent
}
