//! Admission of scripts and of the commands that they call.

use super::Moment;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::modes::Modes;
use crate::scripting::{Access, Call, ProgramKind, ScriptFlags};
use crate::server::state::ServerState;
use crate::session::Session;
use crate::spec::{Command, Flags};
use petrel_resp::Dialect;
use petrel_table::bits;
use std::sync::atomic::Ordering::Relaxed;

const READ_ONLY: Fail = Fail::fixed("ERR Write commands are not allowed from read-only scripts.");

/// Error of a call of an unknown command.
pub(super) fn unknown(dialect: Dialect) -> Fail {
    Fail::fixed(dialect.choose(
        "ERR Unknown Redis command called from script",
        "ERR Unknown command called from script",
    ))
}

/// Error of a call with a wrong number of arguments.
pub(super) fn wrong_arity(dialect: Dialect) -> Fail {
    Fail::fixed(dialect.choose(
        "ERR Wrong number of args calling Redis command from script",
        "ERR Wrong number of args calling command from script",
    ))
}

fn not_from_script(dialect: Dialect) -> Fail {
    Fail::fixed(dialect.choose(
        "ERR This Redis command is not allowed from script",
        "ERR This Valkey command is not allowed from script",
    ))
}

impl Executor {
    /// Rejects a command that a script may not call.
    #[inline]
    pub(super) fn admit_from_script(&self, command: Command, moment: Moment) -> Outcome {
        let flags = command.spec.flags;
        let scripts = &self.shared.scripts;
        if flags.contains(Flags::NOSCRIPT) && !scripts.allows_everything.load(Relaxed) {
            return Err(not_from_script(self.shared.dialect()));
        }
        let may_change = flags.intersects(bits!(Flags: WRITE, MAY_REPLICATE));
        if flags.contains(Flags::READONLY) && !may_change {
            return Ok(());
        }
        if moment.contains(Moment::READ_ONLY) && may_change {
            return Err(READ_ONLY);
        }
        if moment.contains(Moment::NO_MEMORY)
            && flags.contains(Flags::DENYOOM)
            // If the server rejects all writes, that error is reported instead.
            && self.shared.write_refusal().is_none()
        {
            return Err(Fail::OUT_OF_MEMORY);
        }
        Ok(())
    }

    /// Checks whether a script or function may begin. Returns the moment of the commands that it
    /// calls.
    pub(crate) fn admit_program(
        &mut self,
        call: &Call<'_>,
        args: &[&[u8]],
        session: &Session,
    ) -> Result<Moment, Fail> {
        let says = |flag| call.flags.is_some_and(|flags| flags.contains(flag));
        if call.access == Access::Read && call.flags.is_some() && !says(ScriptFlags::NO_WRITES) {
            return Err(Fail::fixed(
                "ERR Can not execute a script with write flag using *_ro command.",
            ));
        }
        let is_for_cluster = session.is(Modes::CLUSTER_CLIENT);
        if is_for_cluster && says(ScriptFlags::NO_CLUSTER) {
            return Err(Fail::fixed(match call.kind {
                ProgramKind::Script => {
                    "ERR Can not run script on cluster, 'no-cluster' flag is set."
                }
                ProgramKind::Function => {
                    "ERR Can not run function on cluster, 'no-cluster' flag is set."
                }
            }));
        }
        let may_write = call.access == Access::Write && !says(ScriptFlags::NO_WRITES);
        // Commands from a primary are executed in any state.
        let is_loader = session.is(Modes::LOADER);
        if !is_loader && self.shared.refuses_some() {
            self.admit_program_in_state(call, may_write)?;
        }
        // A write of the script is expected to need at least as much as the script's arguments.
        let needed = args.iter().map(|arg| arg.len()).sum();
        let has_room = |exec: &mut Self| exec.make_room(needed) && exec.has_room_at_owners(args);
        let lacks_memory = !session.in_exec && !is_loader && !has_room(self);
        let allows_oom = says(ScriptFlags::ALLOW_OOM);
        if lacks_memory && call.flags.is_some() && may_write && !allows_oom {
            return Err(Fail::fixed(match call.kind {
                ProgramKind::Script => {
                    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
                }
                ProgramKind::Function => {
                    "OOM allow-oom flag is not set on the function, can not run it when used memory > 'maxmemory'"
                }
            }));
        }
        let with = |moment: Moment, is_so, of| if is_so { moment.with(of) } else { moment };
        let moment = with(Moment::IN_SCRIPT, !may_write, Moment::READ_ONLY);
        let is_of_one_slot = call.flags.is_some() && !says(ScriptFlags::ALLOW_CROSS_SLOT_KEYS);
        let moment = with(moment, is_for_cluster && is_of_one_slot, Moment::ONE_SLOT);
        Ok(with(moment, lacks_memory && !allows_oom, Moment::NO_MEMORY))
    }

    /// Rejects a script that the server's states do not allow.
    #[cold]
    fn admit_program_in_state(&self, call: &Call<'_>, may_write: bool) -> Outcome {
        let shared = &self.shared;
        let is_for_stale = call.flags.is_some_and(|flags| flags.contains(ScriptFlags::ALLOW_STALE));
        let says_that_it_writes = call.flags.is_some() && may_write;
        if says_that_it_writes && shared.is_in_state(ServerState::ReadOnly) {
            return Err(Fail::READ_ONLY);
        }
        if !is_for_stale && shared.is_in_state(ServerState::Stale) {
            return Err(Fail::MASTER_DOWN);
        }
        match shared.write_refusal().filter(|_| says_that_it_writes) {
            Some(fail) => Err(fail),
            None => Ok(()),
        }
    }
}
