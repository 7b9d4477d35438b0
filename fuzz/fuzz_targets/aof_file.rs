//! A file of a stranger's bytes must be read as commands or refused; what was read must be read again when it is written anew.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_persistence::aof::{CommandReader, check_commands, of_manifest};
use petrel_resp::encode_command;
use std::path::Path;

/// The commands up to the first that is not whole.
fn commands(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut reader = CommandReader::new(bytes, 0, bytes.len() as u64);
    let mut commands = Vec::new();
    while let Ok(Some(command)) = reader.next_command() {
        commands.push(command.arguments().map(<[u8]>::to_vec).collect());
    }
    assert!(reader.position() <= bytes.len() as u64);
    commands
}

fuzz_target!(|input: &[u8]| {
    let read = commands(input);
    let census = check_commands(input, 0, input.len() as u64).expect("memory can be read");
    assert_eq!(census.commands, read.len() as u64);
    assert!(census.whole <= input.len() as u64);
    let mut again = Vec::new();
    for command in &read {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        encode_command(&args, &mut again);
    }
    assert_eq!(commands(&again), read);
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = of_manifest(Path::new("d/a.manifest"), text);
    }
});
