//! Arguments of MIGRATE. [`crate::migrate`] executes it.

use crate::host::ServerHost;
use crate::state::migrate::{Credentials, Migration};
use petrel_commands::spec::Locks;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_table::commands as meta;
use petrel_table::options::MigrateOption;
use std::time::Duration;

/// `MIGRATE`.
pub const MIGRATE: CommandSpec = CommandSpec::new(&meta::MIGRATE, migrate).locking(Locks::Itself);

/// Meaning of a timeout of 0 or less.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);

/// `MIGRATE host port <key | ""> destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2
/// username password] [KEYS key [key ...]]`
fn migrate(ctx: &mut Ctx<'_>) -> Outcome {
    let mut migration = options(ctx)?;
    let timeout = ctx.integer(5)?;
    migration.db = ctx.integer(4)?;
    migration.timeout = match u64::try_from(timeout) {
        Ok(0) | Err(_) => TIMEOUT_DEFAULT,
        Ok(millis) => Duration::from_millis(millis),
    };
    if holds_none(ctx, &migration) {
        ctx.reply.simple("NOKEY");
        return Ok(());
    }
    let call = ctx.offload()?;
    ServerHost::of(ctx).server.clone().migrate(migration, call);
    Ok(())
}

/// Whether it is certain here and now that there is nothing to send: in a transaction or a script,
/// which hold the keys and cannot wait for another server.
fn holds_none(ctx: &Ctx<'_>, migration: &Migration) -> bool {
    let ks = &ctx.exec.ks;
    let is_there = |key: &[u8]| ks.view(migration.from_db, ks.key(key)).is_some();
    ks.holds_any() && !migration.keys.iter().any(|key| is_there(key))
}

/// Reads what stands in words and in options.
fn options(ctx: &mut Ctx<'_>) -> Result<Migration, Fail> {
    let client = ServerHost::of(ctx).client.clone();
    let mut migration = Migration {
        host: String::from_utf8_lossy(ctx.arg(1)).into_owned(),
        // An invalid port is treated as a port without listener.
        port: ctx.integer(2).ok().and_then(|port| u16::try_from(port).ok()).unwrap_or(0),
        db: 0,
        timeout: TIMEOUT_DEFAULT,
        copy: false,
        replace: false,
        credentials: None,
        keys: vec![ctx.arg(3).into()],
        from_db: ctx.db(),
        client,
    };
    let mut words = ctx.options(6);
    while let Some(option) = words.next() {
        match option? {
            MigrateOption::Copy => migration.copy = true,
            MigrateOption::Replace => migration.replace = true,
            MigrateOption::Auth(password) => {
                migration.credentials = Some(Credentials::password(password));
            }
            MigrateOption::Auth2(user, password) => {
                migration.credentials = Some(Credentials::user(user, password));
            }
            MigrateOption::Keys if !ctx.arg(3).is_empty() => {
                return Err(Fail::fixed(
                    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                ));
            }
            MigrateOption::Keys => {
                migration.keys = words.rest().iter().map(|&key| key.into()).collect();
                break;
            }
        }
    }
    Ok(migration)
}
