//! [`Request`]: a command for a certain client, with its options and the type of its reply.

use std::future::{IntoFuture, Ready, ready};
use std::marker::PhantomData;
use std::time::Duration;

use petrel_resp::Value;

use crate::argument::{ArgWriter, ToArg};
use crate::buffer::{Arguments, CommandBuffer};
use crate::error::{Error, ErrorKind, Result};
use crate::reply::FromReply;

/// Metadata of a command, without its arguments.
#[derive(Debug)]
pub struct CommandInfo {
    /// In upper case, with the container's name: `CLIENT SETNAME`.
    pub name: &'static str,
    /// The name as RESP bulks.
    pub(crate) encoded: &'static [u8],
    /// Words of the name.
    pub(crate) words: usize,
    /// Whether it only reads, so that it may be sent again.
    pub is_readonly: bool,
    /// Whether it may wait for other clients.
    pub is_blocking: bool,
    /// Whether it changes how its connection behaves.
    pub is_of_session: bool,
    /// The argument that is its only key, if its reply depends on nothing else.
    pub(crate) cached_key: Option<usize>,
    /// Position of the first key.
    pub(crate) first_key: FirstKey,
}

impl CommandInfo {
    /// Finds a command or subcommand by its full name, in any case.
    pub fn find(name: &str) -> Option<&'static Self> {
        let words: Vec<&[u8]> = name.split(' ').map(str::as_bytes).collect();
        crate::table::find(words.iter().copied()).filter(|info| info.words == words.len())
    }
}

/// Position of the first key of a command; the command's name is argument 0.
#[derive(Debug)]
pub(crate) enum FirstKey {
    /// No key, or at an unknown position.
    None,
    /// At this argument.
    At(usize),
    /// At this argument, unless the count at the other one is 0.
    Counted { count: usize, first: usize },
    /// Behind a keyword.
    After(&'static str),
}

/// Metadata of a command that is not in the table, such as one of a module.
static UNKNOWN: CommandInfo = CommandInfo {
    name: "",
    encoded: b"",
    words: 0,
    is_readonly: false,
    is_blocking: false,
    is_of_session: false,
    cached_key: None,
    first_key: FirstKey::None,
};

/// A command on its way: arguments, and how it is to be sent.
#[derive(Clone, Debug)]
pub struct Command {
    pub(crate) buffer: CommandBuffer,
    pub(crate) info: &'static CommandInfo,
    pub(crate) may_retry: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Command {
    /// A command that begins with its name.
    #[inline]
    pub(crate) fn new(info: &'static CommandInfo) -> Self {
        let buffer = CommandBuffer::new(info.encoded, info.words);
        Self { buffer, info, may_retry: info.is_readonly, timeout: None }
    }

    /// A command of any name.
    pub(crate) fn raw(name: &str) -> Self {
        let mut command = Self::new(&UNKNOWN);
        name.split(' ').for_each(|word| command.buffer.push_argument(word.as_bytes()));
        command
    }

    /// A command by name, such as `GET` or `CLIENT INFO`, without a target: see [`Command::to`].
    pub fn named(name: &str) -> Self {
        match CommandInfo::find(name) {
            Some(info) => Self::new(info),
            None => Self::raw(name),
        }
    }

    /// A command of the table, without looking up its name.
    pub fn of(info: &'static CommandInfo) -> Self {
        Self::new(info)
    }

    /// Appends an argument.
    pub fn push(&mut self, argument: impl ToArg) {
        argument.write_arg(&mut ArgWriter(&mut self.buffer));
    }

    /// Metadata of the command; with an empty name if the table does not have it.
    pub fn info(&mut self) -> &'static CommandInfo {
        self.resolve();
        self.info
    }

    /// Whether it waits on the server, with the arguments that it has, so that it needs a
    /// connection of its own.
    pub fn is_waiting(&mut self) -> bool {
        self.resolve();
        self.waits()
    }

    /// A request to send it to a client, a connection, a cache or a pipeline.
    pub fn to<T: Target>(self, target: T) -> Request<T, Raw, Value> {
        Request::new(target, self)
    }

    /// Looks up the metadata of a command given by its name as text.
    #[inline]
    pub(crate) fn resolve(&mut self) {
        if self.info.words == 0 {
            self.look_up();
        }
    }

    #[inline(never)]
    fn look_up(&mut self) {
        if let Some(info) = crate::table::find(self.arguments()) {
            self.info = info;
            self.may_retry |= info.is_readonly;
        }
    }

    /// Whether it waits on the server, with these arguments.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.info.is_blocking && self.waits_as_given()
    }

    #[inline(never)]
    fn waits_as_given(&self) -> bool {
        // Of XREAD and XREADGROUP only the option BLOCK waits.
        match self.info.name {
            "XREAD" | "XREADGROUP" => {
                let before_keys =
                    self.arguments().take_while(|word| !word.eq_ignore_ascii_case(b"STREAMS"));
                before_keys.skip(1).any(|word| word.eq_ignore_ascii_case(b"BLOCK"))
            }
            _ => true,
        }
    }

    /// Refuses a command that waits, or that changes how its connection behaves.
    #[inline]
    pub(crate) fn check_shared(&self) -> Result<()> {
        match self.waits() || self.info.is_of_session {
            true => Err(Error::new(ErrorKind::NeedsDedicated)),
            false => Ok(()),
        }
    }

    /// Name of the command, for errors.
    pub(crate) fn name(&self) -> String {
        match self.info.words {
            0 => {
                let name = self.arguments().next().unwrap_or_default();
                String::from_utf8_lossy(name).to_ascii_uppercase()
            }
            _ => self.info.name.to_owned(),
        }
    }

    /// First key, if there is one: a cluster routes the command by it.
    pub fn first_key(&self) -> Option<&[u8]> {
        let mut arguments = self.arguments();
        match self.info.first_key {
            FirstKey::None => None,
            FirstKey::At(at) => arguments.nth(at),
            FirstKey::Counted { count, first } => {
                arguments.clone().nth(count).filter(|count| *count != b"0")?;
                arguments.nth(first)
            }
            FirstKey::After(keyword) => {
                arguments.find(|word| word.eq_ignore_ascii_case(keyword.as_bytes()))?;
                arguments.next()
            }
        }
    }

    /// The arguments, the name included.
    #[inline]
    pub fn arguments(&self) -> Arguments<'_> {
        self.buffer.arguments()
    }
}

/// A target of commands: a reference to a client, a connection, a pipeline.
pub trait Target: Sized {}

/// A target of commands that block on the server, or change the state of their connection: a
/// connection that no other caller shares.
pub trait DedicatedTarget: Target {}

/// A target that executes commands itself, on the calling thread, without a connection: an engine
/// embedded in the program (`petrel-embedded`).
pub trait LocalTarget: Target {
    /// Executes a command and returns its reply, an error among others.
    fn execute(self, command: &Command) -> Value;

    /// Executes a command and converts its reply.
    #[inline]
    fn execute_as<R: FromReply>(self, command: &Command) -> Result<R> {
        R::from_reply(self.execute(command))
    }
}

impl<T: LocalTarget, C, R: FromReply> Request<T, C, R> {
    /// Executes the command on this thread.
    #[inline]
    pub fn run(mut self) -> Result<R> {
        // Where it lies: a command is too long to be moved for nothing.
        let Self { target, ref mut command, .. } = self;
        command.resolve();
        let result = command.check_shared().and_then(|()| target.execute_as(command));
        result.map_err(|error| error.of_command(&command.name()))
    }
}

impl<T: LocalTarget, C, R: FromReply> IntoFuture for Request<T, C, R> {
    type Output = Result<R>;
    type IntoFuture = Ready<Result<R>>;

    /// Executes the command on this thread; there is nothing to wait for.
    fn into_future(self) -> Ready<Result<R>> {
        ready(self.run())
    }
}

/// A command for `T`. `C` determines its options, and `R` the type of its reply.
#[must_use = "a command does nothing until it is awaited, run or queued"]
#[derive(Debug)]
pub struct Request<T, C, R> {
    pub(crate) target: T,
    pub(crate) command: Command,
    pub(crate) shape: PhantomData<fn() -> (C, R)>,
}

impl<T, C, R> Request<T, C, R> {
    #[inline]
    pub(crate) fn new(target: T, command: Command) -> Self {
        Self { target, command, shape: PhantomData }
    }

    /// Turns the reply into another type.
    pub fn reply<N: FromReply>(self) -> Request<T, C, N> {
        Request::new(self.target, self.command)
    }

    /// Lets the command be sent again when the connection is lost, although it writes: the server
    /// may execute it twice.
    pub fn retry(mut self) -> Self {
        self.command.may_retry = true;
        self
    }

    /// Sets the timeout of the command, in place of that in the client's options.
    pub fn within(mut self, limit: Duration) -> Self {
        self.command.timeout = Some(limit);
        self
    }

    /// Changes the type of the reply.
    pub(crate) fn retyped<N>(self) -> Request<T, C, N> {
        Request::new(self.target, self.command)
    }

    /// Appends arguments at the end of a gap between required ones.
    pub(crate) fn option(mut self, gap: usize, write: impl FnOnce(&mut CommandBuffer)) -> Self {
        self.command.buffer.insert_in_gap(gap, write);
        self
    }
}

/// Marks a command that was given by name.
#[derive(Debug)]
pub enum Raw {}

impl<T, R> Request<T, Raw, R> {
    /// Appends an argument.
    pub fn arg(mut self, argument: impl ToArg) -> Self {
        argument.write_arg(&mut ArgWriter(&mut self.command.buffer));
        self
    }

    /// Appends arguments.
    pub fn args<A: ToArg>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        for argument in arguments {
            argument.write_arg(&mut ArgWriter(&mut self.command.buffer));
        }
        self
    }
}

/// A way to send any command, with arguments as they come.
pub trait RawCommand: Target {
    /// A command by name, such as `GET` or `CLIENT INFO`; [`Request::arg`] adds its arguments. The
    /// reply is a [`Value`] unless [`Request::reply`] sets another type.
    fn command(self, name: &str) -> Request<Self, Raw, Value> {
        Request::new(self, Command::raw(name))
    }
}

impl<T: Target> RawCommand for T {}
