//! A keyspace that applies another's effects, and a stream of them as commands for a Redis replica.

use crate::client::{Client, show, show_args};
use crate::random::{Random, duration};
use petrel_commands::Session;
use petrel_commands::aux_state::write_commands;
use petrel_keyspace::{Effect, Handle, Origin};
use petrel_persistence::rdb::Dialect;
use petrel_replication::{Encoder, Understood};
use petrel_resp::{DecodeLimits, Value, decode};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Replica that applies another keyspace's effects.
pub struct Follower {
    handle: Handle,
    encoder: Encoder,
    commands: Vec<u8>,
}

impl Follower {
    /// Lets the keyspace of `copy` follow that of `client`.
    pub fn of(client: &mut Client, copy: &Client) -> Arc<Mutex<Self>> {
        let understood = Understood { dialect: Dialect::Redis, version_max: 14, databases: 16 };
        let follower = Arc::new(Mutex::new(Follower {
            handle: copy.exec.ks.keyspace().attach(),
            encoder: Encoder::new(understood, b"mark", write_commands),
            commands: Vec::new(),
        }));
        let told = follower.clone();
        client.exec.ks.set_sink(Some(Box::new(move |db: u16, effect: &Effect<'_>| {
            told.lock().unwrap().take(db, effect);
        })));
        follower
    }

    fn take(&mut self, db: u16, effect: &Effect<'_>) {
        self.encoder.add(db, effect);
        if let Some(batch) = self.encoder.finish() {
            self.commands.extend_from_slice(&batch.bytes[batch.skip..]);
        }
        self.encoder.clear();
        let handle = &mut self.handle;
        handle.enter();
        let key = handle.key(effect.key().expect("a key"));
        match effect.source() {
            Some(_) => handle.lock_all(),
            None => handle.lock(key.hash),
        }
        handle.apply(db, effect, Origin::LOCAL).expect("the same state as there");
        handle.unlock();
        handle.exit();
    }

    /// Takes the commands since the last call.
    pub fn commands(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.commands)
    }
}

/// Executes the commands of a replication stream.
pub fn execute(client: &mut Client, mut stream: &[u8]) {
    while let Ok(Some((Value::Array(words), len))) = decode(stream, &DecodeLimits::default()) {
        let args: Vec<&[u8]> = words.iter().filter_map(Value::as_bytes).collect();
        if !matches!(args[0], b"MULTI" | b"EXEC" | b"SELECT") {
            let reply = client.call(&args);
            assert!(!matches!(reply, Value::Error(_)), "{}: {}", show_args(&args), show(&reply));
        }
        stream = &stream[len..];
    }
    assert!(stream.is_empty());
    let _ = std::mem::replace(&mut client.session, Session::new(true));
}

/// Asserts that effects of random calls reproduce the values of some keys in another keyspace, and
/// as commands in another server, and that `DUMP` and `RESTORE` preserve them. `is_same` compares a
/// key at the server of the calls and at the one of the commands.
pub fn assert_reproduced(
    draw: fn(&mut Random) -> Vec<String>,
    keys: &[&[u8]],
    is_same: fn(&mut Client, &mut Client, &[u8]) -> bool,
) {
    let mut random = Random::seeded();
    let (mut client, mut copy, mut replica) = (Client::new(), Client::new(), Client::new());
    let follower = Follower::of(&mut client, &copy);
    let end = Instant::now() + duration();
    let mut calls = 0;
    while Instant::now() < end || calls < 300 {
        let call = draw(&mut random);
        let args: Vec<&[u8]> = call.iter().map(|arg| arg.as_bytes()).collect();
        let reply = client.call(&args);
        let seen = || format!("{} => {}", show_args(&args), show(&reply));
        let commands = follower.lock().unwrap().commands();
        execute(&mut replica, &commands);
        for &key in keys {
            let own = client.call(&[b"DUMP", key]);
            assert!(copy.call(&[b"DUMP", key]) == own, "{}", seen());
            assert!(is_same(&mut client, &mut replica, key), "{}", seen());
            if let Value::Bulk(payload) = &own
                && calls % 8 == 0
            {
                let mut other = Client::new();
                let restored = other.call(&[b"RESTORE", b"other", b"0", payload]);
                assert_eq!(show(&restored), "OK", "{}", seen());
                assert!(other.call(&[b"DUMP", b"other"]) == own, "{}", seen());
            }
        }
        calls += 1;
    }
}
