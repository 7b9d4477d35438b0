//! Filters of `CLIENT LIST` and `CLIENT KILL`: a connection must match every condition.
//!
//! Conditions are those of Valkey 9: what one asks for, and with `NOT-` before it what one does not
//! want.

use crate::client::{Client, Flag};
use crate::host::client_line;
use crate::server::Server;
use petrel_commands::acl::{DEFAULT_USER, User};
use petrel_commands::{Ctx, Fail, integer};
use petrel_table::options::{ClientFilterOption, Reader};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The command that filters: defaults and an error text differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verb {
    /// `CLIENT LIST`.
    List,
    /// `CLIENT KILL`.
    Kill,
}

/// Conditions, and whether the caller is left out.
pub struct Filter {
    conditions: Vec<Condition>,
    skip_self: bool,
}

struct Condition {
    test: Test,
    /// Whether it must not hold.
    negated: bool,
}

/// The classes that limits on output tell apart.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Class {
    Normal,
    PubSub,
    /// Servers that follow this one.
    Replica,
    /// The server that this one follows: it is no client.
    Primary,
}

impl Class {
    fn of(client: &Client) -> Self {
        match () {
            () if client.has(Flag::Primary) => Class::Primary,
            () if client.has(Flag::Replica) => Class::Replica,
            () if client.has(Flag::PubSub) => Class::PubSub,
            () => Class::Normal,
        }
    }
}

enum Test {
    Ids(Vec<u64>),
    Class(Class),
    /// User of the connection; `None` is the default user.
    User(Option<Arc<User>>),
    Address(Vec<u8>),
    LocalAddress(Vec<u8>),
    Ip(Vec<u8>),
    AgeSeconds(i64),
    IdleSeconds(i64),
    Name(Vec<u8>),
    LibraryName(Vec<u8>),
    LibraryVersion(Vec<u8>),
    Flags(Vec<u8>),
    Capabilities(Vec<u8>),
    Database(u16),
}

impl Filter {
    /// The connection from one address, the caller's not excepted.
    pub fn address(address: &[u8]) -> Self {
        let test = Test::Address(address.to_vec());
        Filter { conditions: vec![Condition { test, negated: false }], skip_self: false }
    }

    /// Reads the conditions from argument `from` on.
    ///
    /// # Errors
    /// In Redis's words.
    pub fn parse(ctx: &Ctx<'_>, from: usize, verb: Verb) -> Result<Self, Fail> {
        let mut filter = Filter { conditions: Vec::new(), skip_self: verb == Verb::Kill };
        let mut options = ctx.options(from);
        while let Some((word, option)) = options.spelled() {
            let negated = word.get(..4).is_some_and(|not| not.eq_ignore_ascii_case(b"NOT-"));
            let test = match option? {
                ClientFilterOption::Skipme(word) => {
                    filter.skip_self = yes_or_no(word)?;
                    continue;
                }
                ClientFilterOption::Id | ClientFilterOption::NotId => {
                    ids(ctx, &mut options, verb, negated)?
                }
                option => test(ctx, option)?,
            };
            filter.add(Condition { test, negated });
        }
        Ok(filter)
    }

    /// Replaces an earlier condition of the same kind; ids are added to the earlier ones.
    fn add(&mut self, condition: Condition) {
        let kind = std::mem::discriminant(&condition.test);
        let is_same = |other: &&mut Condition| {
            other.negated == condition.negated && std::mem::discriminant(&other.test) == kind
        };
        match (self.conditions.iter_mut().find(is_same), condition.test) {
            (Some(Condition { test: Test::Ids(known), .. }), Test::Ids(more)) => {
                known.extend(more);
                known.sort_unstable();
                known.dedup();
            }
            (Some(other), test) => other.test = test,
            (None, test) => {
                self.conditions.push(Condition { test, negated: condition.negated });
            }
        }
    }

    /// The connections that may meet the conditions, as far as they are still there.
    pub fn candidates(&self, server: &Server, caller: &Client) -> Vec<Arc<Client>> {
        let ids = self.conditions.iter().find_map(|condition| match &condition.test {
            Test::Ids(ids) if !condition.negated => Some(ids),
            _ => None,
        });
        let mut found = match ids {
            Some(ids) => ids.iter().filter_map(|&id| server.client(id)).collect(),
            None => server.clients(),
        };
        server.leave_present(&mut found, caller.id);
        found
    }

    /// Whether a connection meets every condition.
    pub fn admits(&self, client: &Client, server: &Server, caller: &Client, path: &str) -> bool {
        if self.skip_self && client.id == caller.id {
            return false;
        }
        let meets = |test: &Test| test.holds(client, server, path);
        self.conditions.iter().all(|condition| meets(&condition.test) != condition.negated)
    }
}

impl Test {
    fn holds(&self, client: &Client, server: &Server, path: &str) -> bool {
        match self {
            Test::Ids(ids) => ids.contains(&client.id),
            Test::Class(class) => *class == Class::of(client),
            Test::User(user) => match (user, client.user()) {
                (None, None) => true,
                (Some(user), Some(own)) => Arc::ptr_eq(user, &own),
                _ => false,
            },
            Test::Address(address) => client.address(path).as_bytes() == address,
            Test::LocalAddress(address) => {
                client_line::local_address(client, path).as_bytes() == address
            }
            Test::Ip(ip) => client.peer().ip().is_some_and(|own| own.to_string().as_bytes() == ip),
            Test::AgeSeconds(least) => {
                i64::from(server.uptime_seconds().saturating_sub(client.connected_at)) >= *least
            }
            Test::IdleSeconds(least) => {
                i64::from(client_line::idle_seconds(client, server)) >= *least
            }
            Test::Name(name) => is_label(&client.labels().name, name),
            Test::LibraryName(name) => is_label(&client.labels().lib_name, name),
            Test::LibraryVersion(version) => is_label(&client.labels().lib_version, version),
            Test::Flags(wanted) => {
                let own = client_line::flags(client);
                wanted.iter().all(|letter| own.contains(letter))
            }
            Test::Capabilities(wanted) => {
                let own = client_line::capabilities(client);
                wanted.iter().all(|letter| own.contains(letter))
            }
            Test::Database(db) => client.db.load(Relaxed) == *db,
        }
    }
}

/// Parses a condition other than `ID`, or the inner condition of its negation.
fn test(ctx: &Ctx<'_>, option: ClientFilterOption<'_>) -> Result<Test, Fail> {
    use ClientFilterOption as Asked;
    Ok(match option {
        Asked::Type(name) | Asked::NotType(name) => Test::Class(class(name)?),
        Asked::User(name) | Asked::NotUser(name) => user(ctx, name)?,
        Asked::Addr(address) | Asked::NotAddr(address) => Test::Address(address.to_vec()),
        Asked::Laddr(address) | Asked::NotLaddr(address) => Test::LocalAddress(address.to_vec()),
        Asked::Ip(ip) | Asked::NotIp(ip) => Test::Ip(ip.to_vec()),
        Asked::Name(name) | Asked::NotName(name) => Test::Name(name.to_vec()),
        Asked::LibName(name) | Asked::NotLibName(name) => Test::LibraryName(name.to_vec()),
        Asked::LibVer(version) | Asked::NotLibVer(version) => {
            Test::LibraryVersion(version.to_vec())
        }
        Asked::Flags(letters) | Asked::NotFlags(letters) => flags(letters)?,
        Asked::Capa(letters) | Asked::NotCapa(letters) => capabilities(letters)?,
        Asked::Db(number) | Asked::NotDb(number) => Test::Database(database(ctx, number)?),
        Asked::Maxage(age) => Test::AgeSeconds(seconds(age, "maxage")?),
        Asked::Idle(idle) => Test::IdleSeconds(seconds(idle, "idle")?),
        Asked::Skipme(_) | Asked::Id | Asked::NotId => return Err(Fail::SYNTAX),
    })
}

/// A user by name.
fn user(ctx: &Ctx<'_>, name: &[u8]) -> Result<Test, Fail> {
    if name == DEFAULT_USER {
        return Ok(Test::User(None));
    }
    let user = ctx.exec.shared.users.find(name);
    user.map(|user| Test::User(Some(user))).ok_or_else(|| quoting("ERR No such user '", name))
}

/// Letters of flags, as `CLIENT LIST` shows them.
fn flags(letters: &[u8]) -> Result<Test, Fail> {
    match letters.iter().all(|letter| client_line::KNOWN_FLAGS.contains(letter)) {
        true => Ok(Test::Flags(letters.to_vec())),
        false => Err(naming("ERR Unknown flags found in the provided filter: ", letters)),
    }
}

/// Letters of what clients have said by `CLIENT CAPA`.
fn capabilities(letters: &[u8]) -> Result<Test, Fail> {
    match letters.iter().all(|letter| client_line::KNOWN_CAPABILITIES.contains(letter)) {
        true => Ok(Test::Capabilities(letters.to_vec())),
        false => Err(naming("ERR Unknown capa found in the provided filter: ", letters)),
    }
}

/// The connection ids that are read next, as many as there are.
fn ids<'a>(
    ctx: &Ctx<'_>,
    options: &mut Reader<'a, ClientFilterOption<'a>>,
    verb: Verb,
    negated: bool,
) -> Result<Test, Fail> {
    if options.left() == 0 {
        return Err(Fail::SYNTAX);
    }
    // Conditions that only Valkey has are refused in its words.
    let (invalid, is_lenient) = match verb {
        _ if negated || ctx.dialect().is_valkey() => (Fail::SYNTAX, false),
        Verb::List => (Fail::fixed("ERR Invalid client ID"), true),
        Verb::Kill => (NOT_POSITIVE, false),
    };
    let mut ids = Vec::new();
    while let Some(word) = options.rest().first() {
        match integer(word) {
            Ok(id) if id > 0 || is_lenient => ids.push(u64::try_from(id).unwrap_or(0)),
            Ok(_) => return Err(NOT_POSITIVE),
            // Every other condition has a value, so what stands last can only have been meant as an
            // id.
            Err(_) if ids.is_empty() || is_lenient && options.left() == 1 => return Err(invalid),
            Err(_) => break,
        }
        options.word();
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(Test::Ids(ids))
}

const NOT_POSITIVE: Fail = Fail::fixed("ERR client-id should be greater than 0");

/// Whether a label equals the wanted one. An empty label never matches.
fn is_label(own: &[u8], wanted: &[u8]) -> bool {
    !own.is_empty() && own == wanted
}

fn database(ctx: &Ctx<'_>, word: &[u8]) -> Result<u16, Fail> {
    let number =
        integer(word).map_err(|_| Fail::fixed("ERR DB is not an integer or out of range"))?;
    let databases = ctx.exec.ks.keyspace().databases();
    u16::try_from(number).ok().filter(|&db| db < databases).ok_or_else(|| {
        Fail::new(format!("ERR DB number should be between 0 and {}", databases - 1))
    })
}

/// The class of this name.
fn class(name: &[u8]) -> Result<Class, Fail> {
    match &name.to_ascii_lowercase()[..] {
        b"normal" => Ok(Class::Normal),
        b"pubsub" => Ok(Class::PubSub),
        b"slave" | b"replica" => Ok(Class::Replica),
        b"master" | b"primary" => Ok(Class::Primary),
        _ => Err(quoting("ERR Unknown client type '", name)),
    }
}

fn seconds(word: &[u8], name: &str) -> Result<i64, Fail> {
    match integer(word) {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        Ok(_) => Err(Fail::new(format!("ERR {name} should be greater than 0"))),
        Err(_) => Err(Fail::new(format!("ERR {name} is not an integer or out of range"))),
    }
}

fn yes_or_no(word: &[u8]) -> Result<bool, Fail> {
    match word.eq_ignore_ascii_case(b"YES") {
        true => Ok(true),
        false if word.eq_ignore_ascii_case(b"NO") => Ok(false),
        false => Err(Fail::SYNTAX),
    }
}

fn quoting(before: &str, value: &[u8]) -> Fail {
    Fail::new([before.as_bytes(), value, b"'"].concat())
}

fn naming(before: &str, value: &[u8]) -> Fail {
    Fail::new([before.as_bytes(), value].concat())
}
