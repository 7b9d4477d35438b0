//! Hosts that speak to each other. Where namespaces cannot be made, nothing is tested, and a line
//! says so.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use petrel_netbed::{Host, Network, Path};

const PORT: u16 = 7000;

/// Creates a network with this many hosts; none if namespaces are not available here.
fn network(hosts: usize) -> Option<(Network, Vec<Host>)> {
    let mut network = Network::new(1);
    match (0..hosts).map(|_| network.host()).collect() {
        Ok(hosts) => Some((network, hosts)),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn bind(host: &Host) -> UdpSocket {
    let address = SocketAddrV4::new(host.address(), PORT);
    let socket = host.run(move || UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket
}

/// Sends a datagram to a host; whether it arrives there.
fn arrives(from: &UdpSocket, to: &UdpSocket) -> bool {
    from.send_to(b"x", to.local_addr().unwrap()).unwrap();
    to.recv(&mut [0; 8]).is_ok()
}

#[test]
fn a_stream_passes_whole_late_and_counted() {
    let Some((network, hosts)) = network(2) else { return };
    let delay = Duration::from_millis(10);
    network.set_all_paths(Path::delayed(delay));
    let address = SocketAddrV4::new(hosts[1].address(), PORT);
    let listener = hosts[1].run(move || TcpListener::bind(address)).unwrap();
    let echo = thread::spawn(move || {
        let (mut client, mut bytes) = (listener.accept().unwrap().0, Vec::new());
        client.read_to_end(&mut bytes).unwrap();
        client.write_all(&bytes).unwrap();
    });
    let begin = Instant::now();
    let mut client = hosts[0].run(move || TcpStream::connect(address)).unwrap();
    assert!(begin.elapsed() >= 2 * delay);
    assert_eq!(client.peer_addr().unwrap(), address.into());
    let sent: Vec<u8> = (0..300_000u32).flat_map(u32::to_be_bytes).collect();
    client.write_all(&sent).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert!(received == sent);
    echo.join().unwrap();
    let there = network.traffic(0, 1);
    assert!(there.payload >= sent.len() as u64 && there.bytes > there.payload, "{there:?}");
    assert_eq!(network.traffic(0, 0).packets, 0);
    assert!(network.total_traffic().payload >= 2 * there.payload.min(sent.len() as u64));
}

#[test]
fn each_direction_is_cut_and_mended_apart() {
    let Some((network, hosts)) = network(3) else { return };
    let sockets: Vec<UdpSocket> = hosts.iter().map(bind).collect();
    assert!(arrives(&sockets[0], &sockets[1]) && arrives(&sockets[1], &sockets[0]));
    network.set_path(0, 1, Path::CUT);
    assert!(!arrives(&sockets[0], &sockets[1]) && arrives(&sockets[1], &sockets[0]));
    assert_eq!(network.traffic(0, 1).lost, 1);
    network.set_all_paths(Path::default());
    network.set_paths_between(&[2], Path::CUT);
    assert!(!arrives(&sockets[0], &sockets[2]) && !arrives(&sockets[2], &sockets[1]));
    assert!(arrives(&sockets[0], &sockets[1]));
    network.set_paths_between(&[2], Path::default());
    assert!(arrives(&sockets[0], &sockets[2]));
}

#[test]
fn a_share_is_lost_and_late_ones_overtake_each_other() {
    let Some((network, hosts)) = network(2) else { return };
    let sockets: Vec<UdpSocket> = hosts.iter().map(bind).collect();
    let jitter = Duration::from_millis(20);
    network.set_path(0, 1, Path { loss: 0.5, jitter, ..Path::default() });
    let to = sockets[1].local_addr().unwrap();
    for number in 0..200u8 {
        sockets[0].send_to(&[number], to).unwrap();
    }
    let mut received = Vec::new();
    let mut byte = [0];
    while sockets[1].recv(&mut byte).is_ok() {
        received.push(byte[0]);
    }
    assert!((50..150).contains(&received.len()), "{}", received.len());
    assert!(!received.is_sorted(), "{received:?}");
    assert_eq!(network.traffic(0, 1).lost, 200 - received.len() as u64);
}

#[test]
fn processes_are_in_the_namespace_of_their_host_alone() {
    let Some((_network, hosts)) = network(2) else { return };
    let said = hosts[1].run(|| Command::new("ip").args(["-4", "addr"]).output()).unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("10.77.0.2") && !said.contains("10.77.0.1/"), "{said}");
    // Each host has a loopback of its own.
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, PORT));
    let both = [hosts[0].run(bind).unwrap(), hosts[1].run(bind).unwrap()];
    assert_eq!(both[0].local_addr().unwrap(), both[1].local_addr().unwrap());
}
