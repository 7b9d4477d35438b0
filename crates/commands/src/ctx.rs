//! Context of a call, which handlers receive, and of its way through the gate.

use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::modes::Modes;
use crate::moment::Moment;
use crate::numbers;
use crate::session::Session;
use crate::spec::{Command, Request};
use petrel_keyspace::{BLOB_MIN, Key, KeyHash, Transient, Value};
use petrel_resp::{Dialect, Reply};
use petrel_table::options::{Options, Reader};

/// A request on its way through the gate to its handler. Passed by value, so that the compiler can
/// keep its fields in registers.
pub(crate) struct Invocation<'a> {
    pub request: &'a Request<'a>,
    /// The connection's state.
    pub session: &'a mut Session,
    /// The server, or a program that embeds the commands.
    pub host: &'a mut dyn Host,
    /// Receives the reply.
    pub reply: &'a mut dyn Reply,
    /// Circumstances that may defer or reject the request.
    pub moment: Moment,
}

impl Invocation<'_> {
    /// Borrows the invocation for one step.
    #[inline(always)]
    pub fn lend(&mut self) -> Invocation<'_> {
        Invocation {
            request: self.request,
            session: &mut *self.session,
            host: &mut *self.host,
            reply: &mut *self.reply,
            moment: self.moment,
        }
    }
}

/// A call of a command.
pub struct Ctx<'a> {
    /// The arguments, with the command and the key hash if they are known.
    pub request: &'a Request<'a>,
    /// The command being called.
    pub command: Command,
    /// The thread's keyspace handle and statistics.
    pub exec: &'a mut Executor,
    /// The connection's state.
    pub session: &'a mut Session,
    /// The server, or a program that embeds the commands.
    pub host: &'a mut dyn Host,
    /// Receives the reply.
    pub reply: &'a mut dyn Reply,
}

impl<'a> Ctx<'a> {
    /// Counts growth of a value beyond the size of the arguments, such as a string's padding, as
    /// used memory until the result is dropped. Does not count replayed and replicated commands.
    ///
    /// # Errors
    /// Returns an error if the growth exceeds the memory limit.
    #[inline]
    pub(crate) fn hold_growth(&self, bytes: usize) -> Result<Option<Transient>, Fail> {
        if self.session.is(Modes::LOADER) { Ok(None) } else { Ok(self.exec.ks.hold(bytes)?) }
    }

    /// Runs a handler that replies nothing about keys and values. The reply is sent before other
    /// clients' writes are durable, although the handler locks all stripes; with a full disk it
    /// would never be sent otherwise.
    pub fn without_data<R>(&mut self, handler: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.exec.ks.take_need();
        let done = handler(self);
        self.exec.ks.take_need();
        self.exec.ks.note_need(before);
        done
    }

    /// The dialect (Redis or Valkey) of error messages.
    pub fn dialect(&self) -> Dialect {
        self.exec.shared.dialect()
    }

    /// The arguments, including the command's name.
    #[inline]
    pub fn args(&self) -> &'a [&'a [u8]] {
        self.request.args
    }

    /// Argument `i`.
    #[inline]
    pub fn arg(&self, i: usize) -> &'a [u8] {
        self.request.args[i]
    }

    /// Reads options from argument `from` on.
    #[inline]
    pub fn options<O: Options<'a>>(&self, from: usize) -> Reader<'a, O> {
        Reader::new(self.args().get(from..).unwrap_or_default())
    }

    /// Index of the argument that a reader reads next.
    pub fn position<O: Options<'a>>(&self, options: &Reader<'a, O>) -> usize {
        self.args().len() - options.left()
    }

    /// The selected database.
    #[inline]
    pub fn db(&self) -> u16 {
        self.session.db
    }

    /// Argument `i` as a key.
    #[inline(always)]
    pub fn key(&self, i: usize) -> Key<'a> {
        let bytes = self.arg(i);
        let hash = match self.request.hash {
            Some(hash) if i == 1 => hash,
            _ => self.located_hash(i, bytes),
        };
        Key { bytes, hash }
    }

    /// The hash of a key of a command that may have several keys.
    #[inline(never)]
    fn located_hash(&self, i: usize, bytes: &[u8]) -> KeyHash {
        self.exec.located(i).unwrap_or_else(|| self.exec.ks.hash(bytes))
    }

    /// Argument `i` as a string value: an integer if the text is one, a shared blob if it is long.
    #[inline]
    pub fn value(&self, i: usize) -> Value<'a> {
        let bytes = self.arg(i);
        if bytes.len() < BLOB_MIN {
            return Value::from_text(bytes);
        }
        match self.request.owner {
            // Keeping the whole receive buffer alive is worth it only for a value that is most of
            // it.
            Some(owner) if bytes.len() >= owner.len() / 4 * 3 => {
                Value::Blob(owner.slice_ref(bytes))
            }
            _ => Value::Bytes(bytes),
        }
    }

    /// Argument `i` as an integer.
    #[inline]
    pub fn integer(&self, i: usize) -> Result<i64, Fail> {
        numbers::integer(self.arg(i))
    }

    /// [`Host::reply_max`]; a reply to a script has no limit.
    pub fn reply_max(&self) -> Option<usize> {
        if self.exec.is_within_script() { None } else { self.host.reply_max() }
    }

    /// Parses a database number.
    pub fn database(&self, word: &[u8]) -> Result<u16, Fail> {
        let number = numbers::integer(word)?;
        if i32::try_from(number).is_err() {
            return Err(Fail::fixed(
                "ERR value is out of range, value must between -2147483648 and 2147483647",
            ));
        }
        let databases = self.exec.ks.keyspace().databases();
        u16::try_from(number).ok().filter(|&db| db < databases).ok_or(Fail::DB_OUT_OF_RANGE)
    }

    /// Rejects a command that works on several databases: Redis Cluster has one.
    pub(crate) fn admit_databases(&self) -> Outcome {
        if !self.session.is(Modes::CLUSTER_CLIENT) {
            return Ok(());
        }
        let name = self.command.spec.meta.name.to_ascii_uppercase();
        Err(Fail::new(format!("ERR {name} is not allowed in cluster mode")))
    }

    /// Whether argument `i` is `word`, ignoring case.
    #[inline]
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.arg(i).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Error of a wrong number of arguments that the command's arity does not exclude.
    #[cold]
    pub fn wrong_arity(&self) -> Fail {
        let name = self.command.spec.meta.name;
        Fail::new(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// Records a keyspace event of a key in the selected database.
    #[inline]
    pub fn event(&self, class: u32, name: &'static str, key: &[u8]) {
        self.exec.ks.event(class, name, self.session.db, key);
    }

    /// Writes `+OK`.
    #[inline]
    pub fn ok(&mut self) -> Outcome {
        self.reply.simple("OK");
        Ok(())
    }

    /// Writes an integer.
    #[inline]
    pub fn number(&mut self, n: i64) -> Outcome {
        self.reply.integer(n);
        Ok(())
    }
}
