//! Taking over the append-only files of Redis and Valkey: the commands in them are executed once
//! more.
//!
//! The commands were executed at other times: no key expires during the import, and expired keys
//! are removed afterwards.

use crate::client::Client;
use crate::config::Config;
use crate::durability::snapshot::mending;
use crate::host::ServerHost;
use crate::observation::pluralized::Pluralized;
use crate::relative_time::is_relative;
use crate::server::Server;
use petrel_commands::acl::Users;
use petrel_commands::{Command, Execution, Executor, Host, Modes, Outcome, Session};
use petrel_keyspace::{Cleared, Handle};
use petrel_net::{Endpoint, Slot};
use petrel_persistence::aof::{self, CommandReader, ReadError};
use petrel_persistence::rdb::Leniency;
use petrel_persistence::{LoadOptions, load};
use petrel_resp::{Protocol, Reply, RespWriter};
use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Number of commands between two checks whether another thread wants the keyspace.
const COMMANDS_AT_ONCE: u64 = 256;

/// Errors of commands that are logged one by one.
const ERRORS_TOLD: u64 = 10;

/// Reason that a file cannot be imported. `Display` is one line.
#[derive(Debug)]
pub struct MoveInError {
    /// The file.
    pub path: PathBuf,
    /// Description of the error.
    pub why: String,
}

impl std::error::Error for MoveInError {}

impl fmt::Display for MoveInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

/// Result of importing a file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Taken {
    /// Commands that were executed.
    pub commands: u64,
    /// Number of commands that returned an error, as they may have done originally.
    pub errors: u64,
    /// Commands that change nothing, and were not executed.
    pub skipped: u64,
    /// Bytes at the end that were no whole command, or a transaction without its end, and were cut
    /// off.
    pub cut: u64,
}

impl Server {
    /// Loads append-only files in their order: the first may be an RDB file, or begin as one. If
    /// nothing follows on them (`is_end`), the end of the last may be missing, as the configuration
    /// allows; it is cut off then. The
    /// keyspace is empty, and commands are refused meanwhile
    /// ([`petrel_commands::ServerState::Loading`]); the calling thread is in no batch.
    ///
    /// # Errors
    /// If a file is missing or damaged; data loaded until then stay.
    pub fn load_foreign(
        self: &Arc<Self>,
        paths: &[PathBuf],
        config: &Config,
        is_end: bool,
    ) -> Result<(), MoveInError> {
        let progress = &self.snapshot.progress;
        let files = paths.iter().map(|path| ForeignFile::open(path));
        let files = files.collect::<Result<Vec<_>, _>>()?;
        progress.total.store(files.iter().map(|file| file.len).sum(), Relaxed);
        let mut loader = Loader::new(self, config);
        let count = files.len();
        for (file, number) in files.into_iter().zip(1..) {
            let (path, len, start) = (file.path, file.len, Instant::now());
            tracing::info!("loading {}: {len} bytes", path.display());
            let error = |why| MoveInError { path: path.to_path_buf(), why };
            let from = if number == 1 { self.load_base(&file, config)? } else { 0 };
            let is_last = is_end && number == count;
            let taken = loader.run(file, from, is_last).map_err(error)?;
            let Taken { commands, errors, skipped, cut } = taken;
            let seconds = start.elapsed().as_secs_f64();
            let (commands, of) = (Pluralized(commands, "command"), path.display());
            tracing::info!("executed {commands} of {of} in {seconds:.2} s");
            if errors > 0 || skipped > 0 {
                tracing::warn!(
                    "of the commands of {}, {errors} failed, and {skipped} more were skipped because they change nothing",
                    path.display()
                );
            }
            if cut > 0 {
                tracing::warn!("{}: its last {cut} bytes were cut off", path.display());
            }
        }
        Ok(())
    }

    /// Loads the RDB file that a file begins as, if it does; where that ends.
    fn load_base(&self, file: &ForeignFile<'_>, config: &Config) -> Result<u64, MoveInError> {
        let error = |why: String| MoveInError { path: file.path.to_path_buf(), why };
        let mut head = Vec::new();
        let mut input = &file.file;
        input.take(8).read_to_end(&mut head).map_err(|failure| error(failure.to_string()))?;
        input.rewind().map_err(|failure| error(failure.to_string()))?;
        if !aof::begins_as_rdb(&head) {
            return Ok(0);
        }
        let leniency = Leniency {
            any_version: config.accepts_any_rdb_version(),
            any_sum: !config.rdbchecksum,
            any_count: true,
        };
        // A command behind it may have kept what would have expired since.
        let options = LoadOptions {
            threads: self.workers.len(),
            leniency,
            keeps_expired: true,
            merges: false,
        };
        let progress = &self.snapshot.progress;
        let loaded = load(input, file.len, &self.keyspace, options, progress);
        let loaded = loaded.map_err(|failure| {
            let is_rdb = file.path.extension().is_some_and(|extension| extension == "rdb");
            let path = file.path.display();
            match failure.is_mendable() && is_rdb {
                true => error(format!("{failure}{}", mending(&path))),
                false => error(failure.to_string()),
            }
        })?;
        let taken = self.commands.merge_aux(&loaded.aux_states(), false);
        taken.map_err(|failure| error(failure.to_string()))?;
        if loaded.modules > 0 {
            let modules = Pluralized(loaded.modules as u64, "module");
            tracing::warn!("auxiliary data of {modules} was skipped");
        }
        Ok(loaded.end)
    }
}

/// A file that is being loaded.
struct ForeignFile<'p> {
    path: &'p Path,
    file: File,
    len: u64,
}

impl<'p> ForeignFile<'p> {
    fn open(path: &'p Path) -> Result<Self, MoveInError> {
        let open = || {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            Ok(ForeignFile { path, file, len })
        };
        open().map_err(|error: io::Error| MoveInError { path: path.into(), why: error.to_string() })
    }

    /// Whether whole commands follow the place that is malformed.
    fn holds_commands(&self, error: &ReadError) -> bool {
        let &ReadError::Malformed { at, .. } = error else { return false };
        let mut input = &self.file;
        let found = input.seek(SeekFrom::Start(at)).and_then(|_| aof::holds_commands(input));
        found.unwrap_or(false)
    }

    /// Cuts off everything from byte `at` on.
    fn cut(&self, at: u64) -> io::Result<()> {
        let file = File::options().write(true).open(self.path)?;
        file.set_len(at)?;
        file.sync_all()
    }
}

/// Executes the commands of files.
struct Loader {
    exec: Executor,
    session: Session,
    host: LoaderHost,
    reply: Vec<u8>,
    /// Bytes of the files before the current one.
    before: u64,
    /// `aof-load-truncated`.
    may_be_cut: bool,
    /// `aof-load-corrupt-tail-max-size`.
    broken_max: u64,
}

impl Loader {
    fn new(server: &Arc<Server>, config: &Config) -> Self {
        let nobody = Client::new(0, 0, Slot::NOWHERE, 0, -1, Endpoint::Unix, Endpoint::Unix);
        let shared = server.commands.clone();
        let mut session = Session::new(true);
        session.set(Modes::LOADER, true);
        session.become_user(Some(Users::nobody_above(&shared.registry)));
        Loader {
            exec: Executor::unseen(server.keyspace.attach(), shared),
            session,
            host: LoaderHost(ServerHost::new(server.clone(), Arc::new(nobody))),
            reply: Vec::new(),
            before: 0,
            may_be_cut: config.aof_load_truncated,
            broken_max: config.aof_load_corrupt_tail_max_size.max(0).unsigned_abs(),
        }
    }

    /// Executes the commands of a file from byte `from` on.
    fn run(&mut self, file: ForeignFile<'_>, from: u64, is_last: bool) -> Result<Taken, String> {
        let mut input = &file.file;
        input.seek(SeekFrom::Start(from)).map_err(|error| error.to_string())?;
        let mut reader = CommandReader::new(input, from, file.len);
        let mut taken = Taken::default();
        let mut open_since = None;
        self.begin();
        let ended = loop {
            if taken.commands % COMMANDS_AT_ONCE == 0 {
                self.exec.end();
                let progress = &self.host.0.server.snapshot.progress;
                progress.loaded.store(self.before + reader.position(), Relaxed);
                self.begin();
                if self.host.0.server.is_stopping() {
                    break Err("the server was stopped while it was loaded".into());
                }
            }
            match reader.next_command() {
                Ok(None) if open_since.is_none() => break Ok(None),
                Ok(None) => break Ok(open_since.map(|at| ReadError::CutShort { at })),
                Err(error) => break Ok(Some(error)),
                Ok(Some(command)) => {
                    let at = command.at;
                    let args: Vec<&[u8]> = command.arguments().collect();
                    if let Err(why) = self.execute(&args, at, file.path, &mut taken) {
                        break Err(format!("at byte {at}: {why}"));
                    }
                    open_since = match self.session.in_multi() {
                        true => open_since.or(Some(at)),
                        false => None,
                    };
                }
            }
        };
        petrel_commands::transactions::abandon(&mut self.exec, &mut self.session);
        self.exec.end();
        self.session.db = 0;
        self.before += file.len;
        let Some(error) = ended? else { return Ok(taken) };
        taken.cut = self.settle(error, open_since, &file, is_last)?;
        Ok(taken)
    }

    /// Handles the end of a file; returns the number of bytes that were cut off.
    fn settle(
        &self,
        error: ReadError,
        open_since: Option<u64>,
        file: &ForeignFile<'_>,
        is_last: bool,
    ) -> Result<u64, String> {
        let (at, may_cut, parameter) = match &error {
            ReadError::Io(_) => return Err(error.to_string()),
            &ReadError::CutShort { at } => {
                (at, self.may_be_cut, "`aof-load-truncated yes`".to_owned())
            }
            &ReadError::Malformed { at, .. } => {
                let broken = file.len - at;
                let parameter = format!("`aof-load-corrupt-tail-max-size {broken}`");
                (at, broken <= self.broken_max, parameter)
            }
        };
        // A transaction without its end is discarded.
        let at = open_since.unwrap_or(at);
        let lost = file.len - at;
        if !is_last {
            return Err(format!("{error}; and it is not the last of the files"));
        }
        if !may_cut {
            let path = file.path.display();
            if matches!(error, ReadError::Malformed { at: 0, .. }) {
                return Err(format!("{error}; it is no append-only file"));
            }
            let flag = if file.holds_commands(&error) { "--cut" } else { "--fix" };
            return Err(format!(
                "{error}; {parameter} would cut its last {lost} bytes off, and so would `petrel check {flag} {path}`"
            ));
        }
        tracing::warn!("{}: {error}", file.path.display());
        file.cut(at).map_err(|failure| format!("{error}; and it cannot be cut: {failure}"))?;
        Ok(lost)
    }

    fn begin(&mut self) {
        self.exec.ks.refresh_clock();
        self.exec.ks.ignore_expiry();
        self.exec.begin();
    }

    fn execute(
        &mut self,
        args: &[&[u8]],
        at: u64,
        path: &Path,
        taken: &mut Taken,
    ) -> Result<(), String> {
        let request = self.exec.prepare(args, None);
        let shown = || String::from_utf8_lossy(&args[0][..args[0].len().min(64)]).into_owned();
        let Some(command) = request.command else {
            return Err(format!("the command '{}' is not known", shown()));
        };
        let is_relative = is_relative(command, args);
        if is_relative {
            self.exec.ks.refresh_clock();
        }
        self.reply.clear();
        let (mut values, session) = (Vec::new(), &mut self.session);
        let mut reply = RespWriter::new(&mut self.reply, &mut values, Protocol::Resp2);
        let done = self.exec.execute(&request, session, &mut self.host, &mut reply);
        if is_relative {
            self.exec.ks.ignore_expiry();
        }
        if done == Execution::Skipped {
            taken.skipped += 1;
            return Ok(());
        }
        taken.commands += 1;
        if done == Execution::Waits {
            return Err(format!("the command '{}' would block", shown()));
        }
        if let Some(error) = self.reply.strip_prefix(b"-") {
            taken.errors += 1;
            if taken.errors <= ERRORS_TOLD {
                let error = String::from_utf8_lossy(error.trim_ascii_end());
                let path = path.display();
                tracing::warn!("{path}: at byte {at}: '{}' answers {error}", shown());
            }
        }
        Ok(())
    }
}

/// Host of the imported commands, which belong to no connection.
struct LoaderHost(ServerHost);

impl Host for LoaderHost {
    delegate_trusted_host!(0);

    fn client_label(&mut self) -> (String, String) {
        (String::new(), String::new())
    }

    fn invalidate(&mut self, ks: &mut Handle, _: Option<&mut dyn Reply>) {
        ks.take_invalidations();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{SavePoints, SharedConfig};
    use crate::lifecycle::process::Indifferent;
    use std::fs;

    /// A server that loads the files of a directory of its own, which goes with it.
    struct Bench {
        server: Arc<Server>,
        dir: PathBuf,
    }

    impl Bench {
        fn new(name: &str) -> Self {
            let dir =
                std::env::temp_dir().join(format!("petrel-move-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            // Without save points, for FLUSHALL would save.
            let config = Config { save: SavePoints::default(), ..Config::default() };
            let config = Arc::new(SharedConfig::new(config, None));
            let (registry, _) = crate::commands::registry(config.renames());
            Bench { server: Server::new(config, registry, Box::new(Indifferent)), dir }
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.dir.join(name);
            fs::write(&path, bytes).unwrap();
            path
        }

        fn load(&self, paths: &[PathBuf], config: &Config) -> Result<(), String> {
            self.server.begin_loading(config);
            let loaded =
                self.server.load_foreign(paths, config, true).map_err(|error| error.to_string());
            self.server.finish_loading();
            loaded
        }

        /// The reply of a client's command, as bytes.
        fn call(&self, words: &str) -> String {
            let mut exec =
                Executor::new(self.server.keyspace.attach(), self.server.commands.clone());
            let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let nobody = Client::new(1, 0, Slot::NOWHERE, 0, -1, Endpoint::Unix, Endpoint::Unix);
            let mut host = ServerHost::new(self.server.clone(), Arc::new(nobody));
            let (mut bytes, mut values) = (Vec::new(), Vec::new());
            let mut reply = RespWriter::new(&mut bytes, &mut values, Protocol::Resp2);
            exec.begin();
            let request = exec.prepare(&args, None);
            exec.execute(&request, &mut Session::new(true), &mut host, &mut reply);
            exec.end();
            String::from_utf8(bytes).unwrap().trim_end().replace("\r\n", " ")
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }

    fn commands(lines: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in lines {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            petrel_resp::encode_command(&args, &mut bytes);
        }
        bytes
    }

    #[test]
    fn files_are_executed_in_their_order() {
        let bench = Bench::new("order");
        let base = bench.file("base", &commands(&["SELECT 0", "SET a 1", "RPUSH l x y"]));
        let notes = b"#TS:1700000000\r\n".to_vec();
        let incr = [notes, commands(&["SELECT 3", "SET b 2", "MULTI", "INCR b", "EXEC"])].concat();
        let last = commands(&["INCR a", "NOSUCHTYPE:CHECK", "LPOP l"]);
        let (incr, last) = (bench.file("incr", &incr), bench.file("last", &last));
        let config = Config::default();
        let error = bench.load(&[base.clone(), incr.clone(), last.clone()], &config).unwrap_err();
        assert!(
            error.ends_with("at byte 21: the command 'NOSUCHTYPE:CHECK' is not known"),
            "{error}"
        );
        bench.call("FLUSHALL");
        fs::write(&last, commands(&["INCR a", "PING", "LPOP l", "INCR l"])).unwrap();
        bench.load(&[base, incr, last], &config).unwrap();
        // Each file begins with database 0.
        assert_eq!(bench.call("GET a"), "$1 2");
        assert_eq!(bench.call("LRANGE l 0 -1"), "*1 $1 y");
        let keyspace = &bench.server.keyspace;
        assert_eq!((keyspace.db_stats(0).keys, keyspace.db_stats(3).keys), (2, 1));
        // Nothing of it is counted as commands of clients.
        assert!(!bench.call("INFO commandstats").contains("cmdstat_incr"));
        assert_eq!(bench.server.unsaved_changes(), 0);
    }

    #[test]
    fn a_member_that_looks_like_effects_is_a_member() {
        // The member that a primary writes for `Put` of key `k`.
        let member = b"\0petrel-effects\0\x01\0\x01k\x05taken";
        assert!(petrel_persistence::effects::hidden(member).is_some());
        let bench = Bench::new("members");
        let calls: [&[&[u8]]; 8] = [
            &[b"SADD", b"k", b"stays", member],
            &[b"SREM", b"k", member],
            &[b"SADD", b"k", member],
            &[b"SMOVE", b"k", b"other", member],
            &[b"MULTI"],
            &[b"REPLCONF", b"capa", b"petrel-members"],
            &[b"SREM", b"k", member],
            &[b"EXEC"],
        ];
        let mut bytes = Vec::new();
        calls.iter().for_each(|call| petrel_resp::encode_command(call, &mut bytes));
        let path = bench.file("base", &bytes);
        bench.load(&[path], &Config::default()).unwrap();
        assert_eq!(bench.call("SMEMBERS k"), "*1 $5 stays");
        assert_eq!(bench.call("SCARD other"), ":1");
    }

    #[test]
    fn nothing_expires_before_all_is_there() {
        let bench = Bench::new("expiry");
        let path = bench.file(
            "base",
            &commands(&[
                "SET kept 1 PXAT 1000",
                "INCR kept",
                "PERSIST kept",
                "SET gone 1 PXAT 1000",
                "APPEND gone 1",
                "SET soon 1 EX 1000",
                "HSET h f v g w",
                "HPEXPIREAT h 1000 FIELDS 1 f",
                "SET again 1",
                "PEXPIREAT again 5",
                "PEXPIREAT again 33333333333333",
            ]),
        );
        bench.load(&[path], &Config::default()).unwrap();
        assert_eq!(bench.call("GET kept"), "$1 2");
        assert_eq!(bench.call("GET gone"), "$-1");
        assert_eq!(bench.call("HGETALL h"), "*2 $1 g $1 w");
        assert_eq!(bench.call("PEXPIRETIME again"), ":33333333333333");
        let ttl: i64 = bench.call("TTL soon")[1..].parse().unwrap();
        assert!((900..=1000).contains(&ttl), "{ttl}");
    }

    #[test]
    fn the_end_of_the_last_file_may_be_missing() {
        let bench = Bench::new("cut");
        let whole = commands(&["SET a 1", "SET b 2"]);
        let transaction = commands(&["MULTI", "SET c 3", "SET d 4"]);
        let strict = Config { aof_load_truncated: false, ..Config::default() };
        let patient = Config { aof_load_corrupt_tail_max_size: 20, ..Config::default() };
        let lax = Config::default();
        for (tail, config, lost) in [
            (&b"*2\r\n$3\r\nSE"[..], &lax, Some(10)),
            (b"*2\r\n$3\r\nSE", &strict, None),
            (&transaction[..], &lax, Some(transaction.len() as u64)),
            (&transaction[..], &strict, None),
            (b"garbage", &lax, None),
            (b"garbage", &patient, Some(7)),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", &patient, None),
        ] {
            let bytes = [&whole[..], tail].concat();
            let path = bench.file("file", &bytes);
            bench.call("FLUSHALL");
            let loaded = bench.load(std::slice::from_ref(&path), config);
            assert_eq!(loaded.is_ok(), lost.is_some(), "{loaded:?}");
            let left = fs::read(&path).unwrap().len() as u64;
            assert_eq!(left, bytes.len() as u64 - lost.unwrap_or(0), "{tail:?}");
            assert_eq!(bench.call("DBSIZE"), ":2", "{tail:?}");
        }
        let first = bench.file("first", &[&whole[..], b"*1"].concat());
        let second = bench.file("second", &whole);
        let error = bench.load(&[first, second], &lax).unwrap_err();
        assert!(error.ends_with("it is not the last of the files"), "{error}");
        let error = bench.load(&[bench.dir.join("missing")], &lax).unwrap_err();
        assert!(error.contains("missing: No such file"), "{error}");
    }
}
