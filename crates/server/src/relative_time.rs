//! Commands that state a time relative to their execution.

use petrel_commands::Command;
use petrel_commands::spec::Flags;

/// Whether a command states a time relative to its execution, or may: a script. Servers write
/// absolute times into files and streams; such commands are written by hand.
pub(crate) fn is_relative(command: Command, args: &[&[u8]]) -> bool {
    let says = |words: &[&str]| {
        let is_one =
            |arg: &&[u8]| words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()));
        args.iter().skip(2).any(is_one)
    };
    match command.spec.meta.name {
        "expire" | "pexpire" | "setex" | "psetex" | "hexpire" | "hpexpire" => true,
        "set" => args.len() > 3 && says(&["EX", "PX"]),
        "getex" | "hsetex" | "hgetex" | "increx" => says(&["EX", "PX"]),
        "restore" => !says(&["ABSTTL"]),
        "xadd" => says(&["*"]),
        _ => command.spec.flags.contains(Flags::SCRIPT_RUNNER),
    }
}
