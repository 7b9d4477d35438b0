//! Users and their permissions:
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/>.
//!
//! ```text
//!  rules.rs         "+@read ~k:* (…)" ──▶ Permissions   rule by rule, of ACL SETUSER and files
//!  permissions.rs   passwords, root selector, further selectors; immutable, shared ──▶ ACL LIST
//!  selector.rs      commands as a bitset, key and channel patterns, databases
//!  check.rs         Permissions × call ──▶ allowed, or the first denial
//!  user.rs          a name and its current Permissions, replaced as a whole
//!  users.rs         all users by name; passwords are checked here
//!  gate.rs          checks of `Executor::admit`; error, count and log entry (log.rs) of a denial
//! ```
//!
//! A connection refers to its user, and every command is checked against the user's current
//! permissions. So a change applies to open connections, queued transactions and blocked commands.
//! A user with full permissions costs one branch.

mod check;
mod gate;
mod log;
mod password;
mod permissions;
mod rules;
mod selector;
mod user;
mod users;

pub use check::{Call, Denial, Reason};
pub use gate::DenialKind;
pub use log::{AclLog, Context, LogEntry};
pub use password::Hash;
pub use permissions::Permissions;
pub use rules::{RuleError, join_selectors};
pub use selector::Selector;
pub(crate) use user::Seen;
pub use user::{Access, User};
pub use users::{Change, SetError, Users};

/// Name of the user that a connection begins as.
pub const DEFAULT_USER: &[u8] = b"default";
