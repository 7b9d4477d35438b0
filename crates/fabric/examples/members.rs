//! Cluster node without data that prints the views.
//!
//! ```text
//! cargo run -p petrel-fabric --example members -- DIRECTORY BIND PASSPHRASE [SEED...]
//! cargo run -p petrel-fabric --example members -- /tmp/a 127.0.0.1:17001 secret
//! cargo run -p petrel-fabric --example members -- /tmp/b 127.0.0.1:17002 secret localhost:17001
//! ```
//!
//! Without seeds it founds a cluster. A line of input prints the status; `leave` leaves.

use petrel_cluster::{Identity, View};
use petrel_fabric::{
    Connection, Copies, Events, Fabric, Level, Link, MemberInfo, Role, Settings, Start,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

/// Keeps the connections open without using them.
#[derive(Default)]
struct Printer(BTreeMap<Link, Connection>);

impl Printer {
    fn show(&self, view: &View, members: &[MemberInfo]) {
        println!("view {}", view.epoch);
        for member in members {
            let runs = view.slots.primaries();
            let own = runs.iter().filter(|(_, _, node)| node.0 == member.number);
            let slots: u32 = own.map(|(first, last, _)| u32::from(last - first) + 1).sum();
            let MemberInfo { number, incarnation, bus, .. } = member;
            println!("  node {number}.{incarnation} at {bus}, primary of {slots} slots");
        }
    }
}

impl Events for Printer {
    fn admitted(&mut self, own: Identity, view: Arc<View>, members: Arc<[MemberInfo]>) {
        println!("this is node {}.{}", own.node.0, own.incarnation);
        self.show(&view, &members);
    }

    fn view(&mut self, view: Arc<View>, members: Arc<[MemberInfo]>) {
        self.show(&view, &members);
    }

    fn expelled(&mut self) {
        println!("this node is no member");
    }

    fn link_up(&mut self, connection: Connection) {
        let link = connection.link();
        println!("link to node {} is up", link.peer.node.0);
        self.0.insert(link, connection);
    }

    fn link_down(&mut self, link: Link) {
        println!("link to node {} is down", link.peer.node.0);
        self.0.remove(&link);
    }

    fn log(&mut self, level: Level, line: String) {
        println!("{level:?}: {line}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "members DIRECTORY BIND PASSPHRASE [SEED...]";
    let mut next = || arguments.next().ok_or(usage);
    let (directory, bind, passphrase) = (next()?, next()?, next()?);
    let seeds: Vec<String> = arguments.collect();
    let fabric = Fabric::start(
        Settings {
            name: "example".into(),
            passphrase: passphrase.into(),
            previous_passphrase: None,
            start: if seeds.is_empty() { Start::Create } else { Start::Join(seeds) },
            bind: bind.parse()?,
            announced: None,
            client_address: bind,
            role: Role::Data,
            zone: String::new(),
            copies: Copies::All,
            node_timeout: Duration::from_secs(3),
            directory: directory.into(),
            waits_for_data: false,
            reports_extents: false,
            acknowledge: 2,
        },
        Box::new(Printer::default()),
    )?;
    for line in std::io::stdin().lock().lines() {
        if line? == "leave" {
            fabric.leave();
            while !fabric.has_ended() {
                std::thread::sleep(Duration::from_millis(50));
            }
            return Ok(());
        }
        println!("{:#?}", fabric.info());
    }
    Ok(())
}
