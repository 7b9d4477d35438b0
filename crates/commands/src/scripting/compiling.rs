//! Serves other clients while a long script is compiled, as while a script runs. They can end it.

use super::cache::Scripts;
use super::running::{ProgramKind, Watched};
use crate::host::Host;
use petrel_lua::{ScriptReply, Server, hex, sha1};
use petrel_resp::Dialect;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Interval at which other clients are answered.
const ATTEND: Duration = Duration::from_micros(500);

/// The [`Server`] of a compilation.
pub(crate) struct Compiling<'a> {
    scripts: &'a Scripts,
    host: &'a mut dyn Host,
    dialect: Dialect,
    command: &'a [&'a [u8]],
    text: &'a [u8],
    /// Entry among the running scripts, once it has taken a while, and the time of the last
    /// answers to other clients.
    watched: Option<(Arc<Watched>, Instant)>,
}

impl<'a> Compiling<'a> {
    /// Creates it for a script of this text, on behalf of this command.
    pub fn new(
        scripts: &'a Scripts,
        host: &'a mut dyn Host,
        dialect: Dialect,
        (command, text): (&'a [&'a [u8]], &'a [u8]),
    ) -> Self {
        Compiling { scripts, host, dialect, command, text, watched: None }
    }

    fn watch(&self) -> (Arc<Watched>, Instant) {
        let name = String::from_utf8_lossy(&hex(&sha1(self.text))).into_owned();
        let watched = Watched::new(ProgramKind::Script, name, self.command, false);
        (self.scripts.running.begin(watched), Instant::now())
    }
}

impl Server for Compiling<'_> {
    fn call(&mut self, _: &[&[u8]], reply: &mut ScriptReply) -> bool {
        reply.break_off(b"ERR redis.call can only be called inside a script invocation");
        false
    }

    fn interrupt(&mut self) -> Option<Cow<'static, str>> {
        let (watched, attended) = self.watched.take().unwrap_or_else(|| self.watch());
        let slow_ms = self.scripts.slow_ms.load(Relaxed);
        let took = watched.since.elapsed().as_millis() as u64;
        if slow_ms > 0 && took >= slow_ms && !watched.is_slow.swap(true, Relaxed) {
            self.scripts.running.slow.fetch_add(1, Relaxed);
        }
        let attends = watched.is_slow.load(Relaxed) && attended.elapsed() > ATTEND;
        let is_stopping =
            attends && self.host.attendant().is_some_and(|attendant| attendant.attend());
        let attended = if attends { Instant::now() } else { attended };
        let ended = match is_stopping || self.scripts.running.is_ending(&watched) {
            true => Some(super::running::SHUTTING_DOWN.into()),
            false => watched.killed_by(self.dialect).map(Cow::Borrowed),
        };
        self.watched = Some((watched, attended));
        ended
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, &'static str> {
        Ok(false)
    }
}

impl Drop for Compiling<'_> {
    fn drop(&mut self) {
        if let Some((watched, _)) = self.watched.take() {
            self.scripts.running.end(&watched);
        }
    }
}
