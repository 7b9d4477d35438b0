//! The frames that a Petrel sends its replicas are read the same however they are cut, and what they
//! hold is applied or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_keyspace::{Cleared, Handle, Keyspace, Misfit, Options};
use petrel_persistence::effects::{Keeper, apply_surveyed, survey};
use petrel_replication::Frame;
use petrel_replication::frame::{MARK, NoFrame, TURN, WHOLE};

/// Bytes of a frame at most.
const LEN_MAX: u64 = 1 << 16;

/// What is read of a stream of frames that comes in pieces, until it is none or anything else.
fn follow(bytes: &[u8], piece: usize) -> (Vec<(u8, Vec<u8>)>, Option<NoFrame>) {
    let (mut frames, mut received) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece) {
        received.extend_from_slice(piece);
        while received.first() == Some(&MARK) {
            match Frame::read(&received, LEN_MAX) {
                Ok(Some(Frame { lane, group, len })) => {
                    assert!(lane <= TURN && len <= received.len());
                    frames.push((lane, group.to_vec()));
                    received.drain(..len);
                }
                Ok(None) => break,
                Err(why) => return (frames, Some(why)),
            }
        }
    }
    (frames, None)
}

struct Nothing;

impl Keeper for Nothing {
    fn cleared(&mut self, _: Cleared) {}
    fn aux(&mut self, _: &mut Handle, _: &[u8], _: &[u8]) {}
    fn misfit(&mut self, _: Misfit) {}
    fn applied(&mut self, _: &mut Handle) {}
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, input)) = input.split_first() else { return };
    let whole = follow(input, input.len().max(1));
    assert_eq!(whole, follow(input, usize::from(piece).max(1)));
    let keyspace = Keyspace::new(&Options { databases: 2, stripes: 2, ..Options::default() });
    let (mut handle, mut keys) = (keyspace.attach(), Vec::new());
    handle.enter();
    for (lane, group) in whole.0.iter().filter(|(lane, _)| *lane <= WHOLE) {
        keys.clear();
        // What is wrong is an error, and no more than that.
        if let Ok(whole) = survey(&handle, group, *lane == WHOLE, &mut keys) {
            let _ = apply_surveyed(&mut handle, group, &keys, whole, &mut Nothing);
        }
    }
    handle.exit();
});
