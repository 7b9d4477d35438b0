//! Keyspace events: the names under which commands publish them, and their delivery to the host.

use crate::execute::Executor;
use crate::host::Host;
use crate::spec::Command;
use petrel_keyspace::Naming;

/// Naming of a command's events: by effect, unless the command is listed here.
fn naming_of(command: Command) -> Naming {
    Naming::As(match command.spec.meta.name {
        "append" => "append",
        "json.forget" => "json.del",
        name if name.starts_with("json.") => name,
        "setrange" => "setrange",
        "setbit" | "bitfield" => "setbit",
        "incrbyfloat" => "incrbyfloat",
        "increx" => "incrby",
        "pfadd" => "pfadd",
        "spop" => "spop",
        "zincrby" => "zincr",
        "zpopmin" | "bzpopmin" => "zpopmin",
        "zpopmax" | "bzpopmax" => "zpopmax",
        "zremrangebyscore" => "zremrangebyscore",
        "zremrangebyrank" => "zremrangebyrank",
        "zremrangebylex" => "zremrangebylex",
        "hincrby" => "hincrby",
        "hincrbyfloat" => "hincrbyfloat",
        "hdel" => "hdel",
        "sinterstore" => "sinterstore",
        "sunionstore" => "sunionstore",
        "sdiffstore" => "sdiffstore",
        "zinterstore" => "zinterstore",
        "zunionstore" => "zunionstore",
        "zdiffstore" => "zdiffstore",
        "zrangestore" => "zrangestore",
        "geosearchstore" => "geosearchstore",
        "georadius" | "georadiusbymember" => "georadiusstore",
        "sort" => "sortstore",
        "xsetid" => "xsetid",
        "create" => "xgroup-create",
        "setid" => "xgroup-setid",
        "rename" | "renamenx" | "copy" | "move" | "lmove" | "blmove" | "lmovem" | "blmovem"
        | "rpoplpush" | "brpoplpush" | "cms.merge" | "pfcount" | "pfdebug" | "pfmerge"
        | "msetex" | "restore" => {
            return Naming::Stated;
        }
        _ => return Naming::ByEffect,
    })
}

impl Executor {
    /// Sets the naming of events for the next command.
    #[cold]
    pub(crate) fn begin_events(&mut self, command: Command) {
        // An expiry in the past deletes the key: event `del` in Redis, `expired` in Valkey.
        let expires = self.shared.dialect().is_valkey()
            && matches!(
                command.spec.meta.name,
                "expire" | "pexpire" | "expireat" | "pexpireat" | "getex"
            );
        let naming = if expires { Naming::As("expired") } else { naming_of(command) };
        self.ks.name_events(naming);
    }

    /// Passes the recorded events to the host, in order.
    #[cold]
    pub fn publish_events(&mut self, host: &mut dyn Host) {
        for event in self.ks.take_events() {
            host.notify(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FAMILIES, Registry};

    #[test]
    fn the_table_names_commands_that_exist() {
        let registry = Registry::new(FAMILIES);
        let stated = registry.all().filter(|&command| naming_of(command) != Naming::ByEffect);
        // `CLIENT` and others have no subcommand of these names.
        let names: Vec<_> =
            stated.map(|command| registry.full_name(command.index).to_owned()).collect();
        assert_eq!(names.len(), 75, "{names:?}");
    }
}
