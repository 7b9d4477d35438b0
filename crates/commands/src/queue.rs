//! The commands of an open transaction.

use crate::registry::Command;
use crate::request::Request;
use petrel_keyspace::KeyHash;
use petrel_table::{Flags, GateFlags};

/// Room for this many bytes of arguments is kept for the next transaction.
const RETAINED_BYTES_MAX: usize = 64 * 1024;

/// Number of commands from which on a transaction may take long, whatever they are.
const MANY_COMMANDS: usize = 256;

/// Commands that wait for `EXEC`, in order. Their arguments lie one behind the other, so that
/// queueing a command allocates only when the room runs out.
#[derive(Debug)]
pub struct Queue<H: 'static> {
    commands: Vec<Queued<H>>,
    /// Union of the commands' flags.
    flags: Flags,
    /// Whether any of them may take long.
    takes_long: bool,
    /// Where each argument ends in `text`.
    ends: Vec<usize>,
    text: Vec<u8>,
}

/// A command that waits for `EXEC`.
#[derive(Debug)]
pub struct Queued<H: 'static> {
    /// The command.
    pub command: Command<H>,
    /// [`Request::hash`].
    pub hash: Option<KeyHash>,
    /// End of this command's arguments in `ends`.
    args_end: usize,
}

impl<H> Default for Queue<H> {
    fn default() -> Self {
        let flags = Flags::NONE;
        let (commands, ends, text) = (Vec::new(), Vec::new(), Vec::new());
        Queue { commands, flags, takes_long: false, ends, text }
    }
}

impl<H> Queue<H> {
    /// Adds a command.
    pub fn push(&mut self, command: Command<H>, args: &[&[u8]], hash: Option<KeyHash>) {
        self.flags = self.flags.with(command.spec.flags);
        self.takes_long |= command.spec.gate.contains(GateFlags::TAKES_LONG);
        for arg in args {
            self.text.extend_from_slice(arg);
            self.ends.push(self.text.len());
        }
        self.commands.push(Queued { command, hash, args_end: self.ends.len() });
    }

    /// Number of commands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The commands.
    pub fn commands(&self) -> impl Iterator<Item = Command<H>> + '_ {
        self.commands.iter().map(|queued| queued.command)
    }

    /// The flags that any command has.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether they may take long together.
    pub fn takes_long(&self) -> bool {
        let is_program = self.flags.contains(Flags::SCRIPT_RUNNER);
        is_program || self.takes_long || self.len() >= MANY_COMMANDS
    }

    /// The arguments of all commands.
    pub fn args(&self) -> Vec<&[u8]> {
        let mut args = Vec::new();
        self.add_args(&mut args);
        args
    }

    /// Appends all arguments to `args`.
    pub fn add_args<'a>(&'a self, args: &mut Vec<&'a [u8]>) {
        let mut begin = 0;
        let arg = |&end: &usize| &self.text[std::mem::replace(&mut begin, end)..end];
        args.extend(self.ends.iter().map(arg));
    }

    /// The commands as they are executed, given [`Queue::args`].
    pub fn requests<'a>(&'a self, args: &'a [&'a [u8]]) -> impl Iterator<Item = Request<'a, H>> {
        let mut begin = 0;
        self.commands.iter().map(move |queued| {
            let args = &args[std::mem::replace(&mut begin, queued.args_end)..queued.args_end];
            Request { args, command: Some(queued.command), hash: queued.hash, owner: None }
        })
    }

    /// Takes all commands out. Room is kept, if it is not too much.
    pub fn clear(&mut self) {
        if self.text.capacity() > RETAINED_BYTES_MAX
            || self.ends.capacity() > RETAINED_BYTES_MAX / 8
        {
            *self = Queue::default();
        }
        self.commands.clear();
        (self.flags, self.takes_long) = (Flags::NONE, false);
        self.ends.clear();
        self.text.clear();
    }
}
