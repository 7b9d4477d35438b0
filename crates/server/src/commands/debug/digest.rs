//! DEBUG DIGEST and DIGEST-VALUE: the same digests as a Redis with the same data has, whatever the order of its keys.
//!
//! ```text
//! mix(d, x) = SHA1(d xor SHA1(x))
//! value(d)  = mix(mix(d, type), string), then xor SHA1("!!expire!!") if the key has a time to live
//! dataset   = per database: mix(d, number), then xor SHA1(value(mix(0, key))) for every key
//! ```

use petrel_commands::{Ctx, Outcome};
use petrel_keyspace::{Cursor, View};
use sha1_smol::Sha1;

type Digest = [u8; 20];

/// `DEBUG DIGEST`
pub fn dataset(ctx: &mut Ctx<'_>) -> Outcome {
    let ks = &mut ctx.exec.ks;
    let locks = !ks.holds_any();
    if locks {
        ks.lock_all();
    }
    let mut sum = Digest::default();
    for db in 0..ks.keyspace().databases() {
        let mut keys = Digest::default();
        let mut is_empty = true;
        ks.scan(db, Cursor::default(), usize::MAX, |view| {
            is_empty = false;
            let mut own = Digest::default();
            mix(&mut own, view.key());
            mix_value(&mut own, &view);
            xor(&mut keys, &own);
        });
        if !is_empty {
            mix(&mut sum, &u32::from(db).to_be_bytes());
            fold(&mut sum, &keys);
        }
    }
    if locks {
        ks.unlock();
    }
    ctx.reply.simple(&hex(&sum));
    Ok(())
}

/// `DEBUG DIGEST-VALUE key [key ...]`
pub fn values(ctx: &mut Ctx<'_>) -> Outcome {
    let names = &ctx.args()[2..];
    let db = ctx.session.db;
    ctx.reply.array(names.len());
    for name in names {
        let ks = &mut ctx.exec.ks;
        let key = ks.key(name);
        let locks = !ks.holds_any();
        if locks {
            ks.lock(key.hash);
        }
        let mut digest = Digest::default();
        if let Some(view) = ks.peek(db, key) {
            mix_value(&mut digest, &view);
        }
        if locks {
            ks.unlock();
        }
        ctx.reply.simple(&hex(&digest));
    }
    Ok(())
}

fn mix_value(digest: &mut Digest, view: &View<'_>) {
    const STRING: u32 = 0;
    mix(digest, &STRING.to_be_bytes());
    if let Ok(value) = view.string() {
        mix(digest, &value.to_bytes());
    }
    if view.expiry().is_some() {
        xor(digest, b"!!expire!!");
    }
}

/// Takes `data` in, so that the order matters.
fn mix(digest: &mut Digest, data: &[u8]) {
    xor(digest, data);
    *digest = Sha1::from(&digest).digest().bytes();
}

/// Takes `data` in, so that the order does not matter.
fn xor(digest: &mut Digest, data: &[u8]) {
    fold(digest, &Sha1::from(data).digest().bytes());
}

fn fold(digest: &mut Digest, other: &Digest) {
    digest.iter_mut().zip(other).for_each(|(own, other)| *own ^= other);
}

fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
