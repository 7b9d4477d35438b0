//! Redacts arguments of a command, such as passwords, for the slow log and `MONITOR`.

use std::borrow::Cow;

/// Replacement of a secret.
const REDACTED: &[u8] = b"(redacted)";

/// Configuration parameters that hold secrets, under all of their names.
const SECRET_PARAMETERS: [&str; 7] = [
    "masterauth",
    "masteruser",
    "primaryauth",
    "primaryuser",
    "requirepass",
    "tls-client-key-file-pass",
    "tls-key-file-pass",
];

/// The first argument of `MIGRATE` that may be an option.
const MIGRATE_OPTIONS: usize = 6;

/// Arguments of a call of the command with this full name, with secrets replaced.
pub fn shown<'a>(full_name: &str, args: &'a [&'a [u8]]) -> Cow<'a, [&'a [u8]]> {
    let is_secret: fn(&[&[u8]], usize) -> bool = match full_name {
        "auth" => |_, i| i >= 1,
        "acl|setuser" | "acl|getuser" | "acl|deluser" => |_, i| i >= 2,
        "hello" => |args, i| i >= 3 && follows(args, i, "AUTH", 2, 2),
        "migrate" => |args, i| {
            follows(args, i, "AUTH", 1, MIGRATE_OPTIONS)
                || follows(args, i, "AUTH2", 2, MIGRATE_OPTIONS)
        },
        "config|set" => |args, i| {
            i >= 3
                && i % 2 == 1
                && SECRET_PARAMETERS
                    .iter()
                    .any(|name| args[i - 1].eq_ignore_ascii_case(name.as_bytes()))
        },
        _ => return Cow::Borrowed(args),
    };
    let shown = args.iter().enumerate();
    Cow::Owned(shown.map(|(i, &arg)| if is_secret(args, i) { REDACTED } else { arg }).collect())
}

/// Whether argument `i` is one of the `count` arguments after this word, which occurs at `from` or
/// later.
fn follows(args: &[&[u8]], i: usize, word: &str, count: usize, from: usize) -> bool {
    let first = i.saturating_sub(count).max(from);
    (first..i).any(|at| args[at].eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced() {
        let cases = [
            ("auth", "AUTH a b", "AUTH * *"),
            ("acl|setuser", "ACL SETUSER u on >p", "ACL SETUSER * * *"),
            ("acl|whoami", "ACL WHOAMI", "ACL WHOAMI"),
            ("hello", "HELLO 3", "HELLO 3"),
            ("hello", "HELLO 3 SETNAME n AUTH u p", "HELLO 3 SETNAME n AUTH * *"),
            (
                "migrate",
                "MIGRATE h 1 auth 0 9 COPY AUTH p KEYS k",
                "MIGRATE h 1 auth 0 9 COPY AUTH * KEYS k",
            ),
            ("migrate", "MIGRATE h 1 k 0 9 auth2 u p", "MIGRATE h 1 k 0 9 auth2 * *"),
            ("config|set", "CONFIG SET dir d RequirePass p", "CONFIG SET dir d RequirePass *"),
            ("config|set", "CONFIG SET requirepass", "CONFIG SET requirepass"),
            ("set", "SET auth requirepass", "SET auth requirepass"),
        ];
        for (name, call, expected) in cases {
            let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
            let shown = shown(name, &args);
            let texts = shown.iter().map(|arg| if *arg == REDACTED { b"*" } else { *arg });
            let text = texts.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
            assert_eq!(text, expected);
        }
    }
}
