//! Permissions of a user: flags, passwords and selectors.

use super::password::Hash;
use super::selector::Selector;
use crate::registry::Registry;
use petrel_resp::Dialect;
use petrel_table::KeyFlags;

/// Permissions and passwords of a user. [`Permissions::apply`] changes them by a rule.
#[derive(Clone, Debug)]
pub struct Permissions {
    pub(super) enabled: bool,
    pub(super) no_password: bool,
    pub(super) checks_payloads: bool,
    pub(super) passwords: Vec<Hash>,
    pub(super) root: Selector,
    pub(super) selectors: Vec<Selector>,
}

impl Permissions {
    /// Permissions of a new user: none, except all channels if `all_channels` is true
    /// (`acl-pubsub-default`).
    pub fn new<H>(registry: &Registry<H>, all_channels: bool) -> Self {
        Permissions {
            enabled: false,
            no_password: false,
            checks_payloads: true,
            passwords: Vec::new(),
            root: Selector::new(registry, all_channels),
            selectors: Vec::new(),
        }
    }

    /// Full permissions without a password, as the default user of a new server has them.
    pub fn everything<H>(registry: &Registry<H>) -> Self {
        Permissions {
            enabled: true,
            no_password: true,
            root: Selector::everything(registry),
            ..Self::new(registry, true)
        }
    }

    /// Makes this the only password, or requires none if it is empty.
    pub fn set_password(&mut self, password: &[u8]) {
        self.no_password = password.is_empty();
        self.passwords.clear();
        if !password.is_empty() {
            self.passwords.push(Hash::of(password));
        }
    }

    /// Whether no call is ever denied.
    pub fn are_everything<H>(&self, registry: &Registry<H>) -> bool {
        self.root.is_everything(registry)
    }

    /// Whether the user can log in.
    pub fn are_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether the user can log in with any password.
    pub fn need_no_password(&self) -> bool {
        self.no_password
    }

    /// Whether the user can log in with a password of this hash. The time depends only on the
    /// number of passwords.
    pub fn accept(&self, password: &Hash) -> bool {
        let known = self.passwords.iter().fold(false, |found, own| found | own.matches(password));
        self.enabled & (self.no_password | known)
    }

    /// The root selector and the other ones.
    pub fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// The selector of the rules outside of parentheses.
    pub fn root(&self) -> &Selector {
        &self.root
    }

    /// The selectors in parentheses.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The hashes of the passwords.
    pub fn passwords(&self) -> &[Hash] {
        &self.passwords
    }

    /// Flags such as `on` and `nopass`. Valkey accepts the flags of payloads but does not show
    /// them.
    pub fn flags(&self, dialect: Dialect) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.no_password {
            flags.push("nopass");
        }
        match (dialect, self.checks_payloads) {
            (Dialect::Redis, true) => flags.push("sanitize-payload"),
            (Dialect::Redis, false) => flags.push("skip-sanitize-payload"),
            (Dialect::Valkey, _) => {}
        }
        flags
    }

    /// Whether a key of a database may be read by any command.
    pub fn allow_reading(&self, db: u16, key: &[u8]) -> bool {
        self.all_selectors().any(|selector| {
            selector.allows_database(db.into()) && selector.allows_key(key, KeyFlags::ACCESS)
        })
    }

    /// Whether every key of a database that begins with a prefix may be read by any command.
    pub fn allow_reading_prefix(&self, db: u16, prefix: &[u8]) -> bool {
        self.all_selectors()
            .any(|selector| selector.allows_database(db.into()) && selector.reads_prefix(prefix))
    }

    /// Whether every key of every database may be read.
    pub fn allow_reading_everything(&self) -> bool {
        self.all_selectors()
            .any(|selector| selector.reads_every_key() && !selector.is_restricted_to_databases())
    }

    /// Whether a channel, or a pattern of channels, may be subscribed to or published to.
    pub fn allow_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_selectors().any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// The user as a line of `ACL LIST` and of files: `user alice on ...`.
    pub fn line(&self, name: &[u8], dialect: Dialect) -> Vec<u8> {
        let mut line = [b"user ", name].concat();
        for flag in self.flags(dialect) {
            line.push(b' ');
            line.extend_from_slice(flag.as_bytes());
        }
        for password in &self.passwords {
            line.extend_from_slice(format!(" #{}", password.hex()).as_bytes());
        }
        line.push(b' ');
        line.extend_from_slice(&self.root.text());
        for selector in &self.selectors {
            line.extend_from_slice(b" (");
            line.extend_from_slice(&selector.text());
            line.push(b')');
        }
        line
    }
}
