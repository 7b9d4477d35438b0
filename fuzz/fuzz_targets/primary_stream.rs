//! What a primary sends is read the same however it is cut: its answer to PSYNC, the line before a copy, the copy, and the
//! commands behind it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_replication::primary::{Extent, Offer};
use petrel_resp::{Limits, Parsed, Resume, parse, recycle};

/// Bytes of the copy, and the commands behind it.
type Read = (Vec<u8>, Vec<Vec<Vec<u8>>>, bool);

/// A replica's side of the link, which is given the bytes in pieces.
fn follow(extent: Extent, bytes: &[u8], piece: usize) -> Read {
    let (mut copy, mut commands) = (Vec::new(), Vec::new());
    let (mut received, mut resume, mut is_whole) = (Vec::new(), Resume::default(), false);
    let limits = Limits::new(1 << 16);
    for piece in bytes.chunks(piece) {
        received.extend_from_slice(piece);
        if !is_whole {
            let (taken, ends) = extent.take(&received, copy.len() as u64);
            copy.extend(received.drain(..taken));
            if !ends {
                continue;
            }
            is_whole = true;
            received.drain(..extent.mark_len());
        }
        loop {
            let mut args = recycle(Vec::new());
            let consumed = match parse(&received, &limits, &mut args, &mut resume) {
                Parsed::Command { consumed } => {
                    commands.push(args.iter().map(|arg| arg.to_vec()).collect());
                    consumed
                }
                Parsed::Empty { consumed } => consumed,
                Parsed::Incomplete { .. } => break,
                Parsed::Inline { .. } | Parsed::Error(_) => return (copy, commands, is_whole),
            };
            received.drain(..consumed);
        }
    }
    (copy, commands, is_whole)
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, input)) = input.split_first() else { return };
    let mut lines = input.splitn(3, |&byte| byte == b'\n');
    let (answer, announced) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if let Ok(Offer::Copy { id, offset, .. }) = Offer::read(answer) {
        assert!(id.len() == 40 && offset >= 0);
    }
    let (Some(extent), Some(bytes)) = (Extent::read(announced), lines.next()) else { return };
    let whole = follow(extent, bytes, bytes.len().max(1));
    let in_pieces = follow(extent, bytes, usize::from(piece).max(1));
    // A copy that does not end may have been taken up to another byte.
    assert_eq!(whole.2, in_pieces.2);
    if whole.2 {
        assert_eq!(whole, in_pieces);
    }
    if let (Extent::Length(len), true) = (extent, whole.2) {
        assert_eq!(whole.0.len() as u64, len);
    }
});
