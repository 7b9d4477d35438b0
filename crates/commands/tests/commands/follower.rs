//! A keyspace that applies another's effects, and a stream of them as commands for a Redis replica.

use crate::client::{Client, show, show_args};
use petrel_commands::Session;
use petrel_commands::aux_state::write_commands;
use petrel_keyspace::{Effect, Handle, Origin};
use petrel_persistence::rdb::Dialect;
use petrel_replication::{Encoder, Understood};
use petrel_resp::{DecodeLimits, Value, decode};
use std::sync::{Arc, Mutex};

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
        handle.lock(key.hash);
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
