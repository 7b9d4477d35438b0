//! Requests must come out the same however the stream is split, and never be cut short.
//!
//! The first byte of the input chooses the limits and how many bytes arrive at a time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_resp::{Limits, Parsed, ProtocolError, Resume, parse};

#[derive(Debug, PartialEq)]
enum Outcome {
    Command(Vec<Vec<u8>>),
    Empty,
    Incomplete,
    Error(ProtocolError),
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, stream)) = input.split_first() else {
        return;
    };
    let limits = match choice & 3 {
        0 => Limits::default().unauthenticated(),
        1 => Limits::new(100),
        _ => Limits::default(),
    };
    let step = usize::from(choice >> 2) + 1;
    assert_eq!(outcomes(stream, &limits, stream.len()), outcomes(stream, &limits, step));
});

fn outcomes(stream: &[u8], limits: &Limits, step: usize) -> Vec<Outcome> {
    let (mut start, mut end) = (0, 0);
    let mut resume = Resume::default();
    let mut outcomes = Vec::new();
    loop {
        let mut args = Vec::new();
        let buf = &stream[start..end];
        let (consumed, outcome) = match parse(buf, limits, &mut args, &mut resume) {
            Parsed::Command { consumed } => {
                (consumed, Outcome::Command(args.iter().map(|arg| arg.to_vec()).collect()))
            }
            Parsed::Inline { consumed, args } => (consumed, Outcome::Command(args)),
            Parsed::Empty { consumed } => (consumed, Outcome::Empty),
            Parsed::Error(error) => {
                outcomes.push(Outcome::Error(error));
                return outcomes;
            }
            Parsed::Incomplete { needed } => {
                assert!(needed > buf.len() && args.is_empty());
                if end == stream.len() {
                    outcomes.push(Outcome::Incomplete);
                    return outcomes;
                }
                end = stream.len().min(end + step);
                continue;
            }
        };
        assert!(consumed > 0 && consumed <= buf.len() && resume.is_start());
        start += consumed;
        outcomes.push(outcome);
    }
}
