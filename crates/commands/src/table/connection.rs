//! The connection itself, but for `CLIENT`.

use crate::bitset::bits;
use crate::spec::{Arg, Group, Meta};

/// `PING`.
pub const PING: Meta = Meta {
    flags: bits!(Flags: FAST),
    stated_categories: bits!(Categories: CONNECTION),
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    summary: "Answers PONG, or the message given.",
    arguments: &[Arg::string("message").opt()],
    ..Meta::new("ping", -1, Group::Connection, "1.0.0")
};

/// `ECHO`.
pub const ECHO: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE, FAST),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Answers with the message given.",
    arguments: &[Arg::string("message")],
    ..Meta::new("echo", 2, Group::Connection, "1.0.0")
};

/// `HELLO`.
pub const HELLO: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST, NO_AUTH, ALLOW_BUSY),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Chooses the protocol version and describes the server.",
    history: &[("6.2.0", "`protover` is optional.")],
    arguments: &[Arg::block(
        "arguments",
        &[
            Arg::integer("protover"),
            Arg::block("auth", &[Arg::string("username"), Arg::string("password")])
                .token("AUTH")
                .opt(),
            Arg::string("clientname").token("SETNAME").opt(),
        ],
    )
    .opt()],
    ..Meta::new("hello", -1, Group::Connection, "6.0.0")
};

/// `AUTH`.
pub const AUTH: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST, NO_AUTH, ALLOW_BUSY),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Authenticates the connection.",
    complexity: "O(N) where N is the number of passwords of the user",
    history: &[("6.0.0", "A user name may precede the password.")],
    arguments: &[Arg::string("username").since("6.0.0").opt(), Arg::string("password")],
    ..Meta::new("auth", -2, Group::Connection, "1.0.0")
};

/// `QUIT`.
pub const QUIT: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST, NO_AUTH, ALLOW_BUSY),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Closes the connection.",
    deprecated: Some(("7.2.0", "closing the connection")),
    ..Meta::new("quit", -1, Group::Connection, "1.0.0")
};

/// `RESET`.
pub const RESET: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST, NO_AUTH, ALLOW_BUSY),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Puts the connection back into its initial state.",
    ..Meta::new("reset", 1, Group::Connection, "6.2.0")
};

/// `SELECT`.
pub const SELECT: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE, FAST),
    stated_categories: bits!(Categories: CONNECTION),
    summary: "Makes another database the current one of the connection.",
    arguments: &[Arg::integer("index")],
    ..Meta::new("select", 2, Group::Connection, "1.0.0")
};
