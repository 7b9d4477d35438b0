//! Error messages for scripts in the words of Redis or Valkey.

use petrel_resp::Dialect;
use std::borrow::Cow;

/// Errors that Redis and Valkey word differently, beyond the name of the object: each in Redis's
/// words and in Valkey's.
const ERRORS: &[(&str, &str)] = &[
    (
        "ERR Please specify at least one argument for this redis lib call",
        "ERR Please specify at least one argument for this call",
    ),
    (
        "ERR Lua redis lib command arguments must be strings or integers",
        "ERR Command arguments must be strings or integers",
    ),
    (
        "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        "ERR Function names can only contain letters, numbers, or underscores(_) and must be at least one character long",
    ),
];

/// Converts one of the server's own errors, given in Redis's words, to `dialect`. Not for errors of
/// commands or scripts.
pub(crate) fn in_dialect(dialect: Dialect, error: &[u8]) -> Cow<'_, [u8]> {
    if dialect == Dialect::Redis {
        return Cow::Borrowed(error);
    }
    let other = ERRORS.iter().find(|(redis, _)| redis.as_bytes() == error);
    if let Some((_, valkey)) = other {
        return Cow::Borrowed(valkey.as_bytes());
    }
    match str::from_utf8(error) {
        Ok(text) if text.contains("redis.") => {
            Cow::Owned(text.replace("redis.", "server.").into_bytes())
        }
        _ => Cow::Borrowed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_worded_as_the_dialect_has_them() {
        let in_valkey = |error: &str| {
            String::from_utf8(in_dialect(Dialect::Valkey, error.as_bytes()).into_owned()).unwrap()
        };
        for (redis, valkey) in ERRORS {
            assert_eq!(in_valkey(redis), *valkey);
            assert_eq!(in_dialect(Dialect::Redis, redis.as_bytes()), redis.as_bytes());
        }
        assert_eq!(
            in_valkey("ERR redis.setresp() requires one argument."),
            "ERR server.setresp() requires one argument."
        );
        assert_eq!(in_valkey("ERR Invalid log level."), "ERR Invalid log level.");
    }
}
