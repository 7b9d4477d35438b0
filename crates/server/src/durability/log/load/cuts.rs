//! Every file of a log, cut to every length: the load results in an earlier state, with all that
//! the files promise, or is refused with an error that names a file.

use super::*;
use crate::client::Client;
use crate::config::{Config, SavePoints, SharedConfig};
use crate::host::ServerHost;
use crate::lifecycle::process::Indifferent;
use petrel_commands::{Executor, Session};
use petrel_net::{Endpoint, Slot};
use petrel_resp::{Protocol, RespWriter};
use std::fs;
use std::path::PathBuf;

/// The keys that are written, one after another.
const KEYS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

/// A directory of files, which goes at the end.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("petrel-cuts-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("log")).unwrap();
        Files(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join("log").join(name)
    }

    fn server(&self) -> Arc<Server> {
        let config = Config {
            save: SavePoints::default(),
            threads: 1,
            stripes: 16,
            appendonly: true,
            appenddirname: (&*self.0.join("log").to_string_lossy()).into(),
            dbfilename: self.0.join("dump.rdb"),
            ..Config::default()
        };
        let config = Arc::new(SharedConfig::new(config, None));
        let (registry, _) = crate::commands::registry(config.renames());
        Server::new(config, registry, Box::new(Indifferent))
    }

    /// A server that has loaded the files, and continues with them.
    fn started(&self) -> Arc<Server> {
        let server = self.server();
        let loads = server.begin_load(&server.config.snapshot()).unwrap();
        await_that(|| !loads || !server.commands.is_loading());
        assert_eq!(server.failure.get(), None);
        server
    }

    /// The result of a load: the keys that are there; or the error.
    fn load(&self) -> Result<Vec<bool>, String> {
        let server = self.server();
        let config = server.config.snapshot();
        let mut directory = server.open_directory(&config).map_err(|error| error.to_string())?;
        server.begin_loading(&config);
        server.load_files(&mut directory, &config)?;
        server.finish_loading();
        Ok(KEYS
            .iter()
            .map(|key| call(&server, &format!("GET {key}")) == format!("$1 {key}"))
            .collect())
    }

    /// Names of the files that the manifest names, in their order.
    fn names(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("appendonly.aof.manifest")).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("file "));
        names.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    /// Cuts a file to every length, and hands each with the result of its load to `judge`.
    fn cut(&self, name: &str, mut judge: impl FnMut(usize, Result<Vec<bool>, String>)) {
        let whole = fs::read(self.path(name)).unwrap();
        for len in 0..=whole.len() {
            fs::write(self.path(name), &whole[..len]).unwrap();
            let loaded = self.load();
            if let Err(why) = &loaded {
                assert!(
                    why.contains("appendonly.aof") && !why.contains('\n'),
                    "{name} {len}: {why}"
                );
            }
            judge(len, loaded);
        }
        fs::write(self.path(name), &whole).unwrap();
    }

    /// A file that others follow on: it is loaded whole, or without the mark of its end.
    fn must_be_whole(&self, name: &str, keys: usize) {
        let whole = fs::metadata(self.path(name)).unwrap().len() as usize;
        let mut refused = 0;
        self.cut(name, |len, loaded| match loaded {
            Ok(found) => assert_eq!(found, first(keys), "{name} {len}"),
            Err(why) => {
                assert!(len < whole, "{name} {len}: {why}");
                refused += 1;
            }
        });
        assert!(refused >= whole - 1, "{name}: {refused} of {whole}");
    }

    /// The last file for effects, which holds the last keys, one in a block: up to where it is cut.
    fn may_end_early(&self, name: &str, before: usize, keys: usize) {
        let bytes = fs::read(self.path(name)).unwrap();
        let begins = |at: &usize| bytes[*at..].starts_with(b"EPOC");
        let blocks: Vec<usize> = (0..bytes.len()).filter(begins).collect();
        // The last one is the mark of the end.
        assert_eq!((blocks[0], blocks.len()), (64, keys - before + 1));
        self.cut(name, |len, loaded| {
            let whole = blocks[1..].iter().filter(|&&end| end <= len).count();
            match loaded {
                Ok(found) => {
                    assert!(len >= 64, "{name} {len}");
                    assert_eq!(found, first(before + whole), "{name} {len}");
                }
                Err(why) => assert!(len < 64, "{name} {len}: {why}"),
            }
        });
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn first(keys: usize) -> Vec<bool> {
    (0..KEYS.len()).map(|i| i < keys).collect()
}

fn await_that(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn call(server: &Arc<Server>, words: &str) -> String {
    let mut exec = Executor::new(server.keyspace.attach(), server.commands.clone());
    let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let client = Client::new(1, 0, Slot::NOWHERE, 0, -1, Endpoint::Unix, Endpoint::Unix);
    let mut host = ServerHost::new(server.clone(), Arc::new(client));
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    let mut reply = RespWriter::new(&mut bytes, &mut values, Protocol::Resp2);
    exec.begin();
    let request = exec.prepare(&args, None);
    exec.execute(&request, &mut Session::new(true), &mut host, &mut reply);
    exec.end();
    String::from_utf8(bytes).unwrap().trim_end().replace("\r\n", " ")
}

/// Writes keys, each in a block of its own.
fn write(server: &Arc<Server>, keys: std::ops::Range<usize>) {
    for key in &KEYS[keys] {
        assert_eq!(call(server, &format!("SET {key} {key}")), "+OK");
        let (log, epoch) = (server.durability.log().unwrap(), server.keyspace.epochs().now());
        log.want(epoch);
        await_that(|| log.durable() >= epoch);
    }
}

/// Goes on in the next file, as another process.
fn next(files: &Files, server: Arc<Server>) -> Arc<Server> {
    server.end_log();
    drop(server);
    files.started()
}

fn rewrite(server: &Arc<Server>) {
    let mut handle = server.keyspace.attach();
    handle.enter();
    server.begin_rewrite(&mut handle).unwrap();
    handle.exit();
    await_that(|| !server.durability.is_rewriting());
    assert_eq!(server.durability.rewrites.load(Relaxed), 1);
}

fn commands(lines: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        petrel_resp::encode_command(&args, &mut bytes);
    }
    bytes
}

fn sets(keys: std::ops::Range<usize>) -> Vec<u8> {
    commands(&KEYS[keys].iter().map(|key| format!("SET {key} {key}")).collect::<Vec<_>>())
}

/// An RDB file with these first keys.
fn snapshot(keys: std::ops::Range<usize>) -> Vec<u8> {
    let files = Files::new("snapshot");
    let server = files.started();
    write(&server, keys);
    rewrite(&server);
    server.end_log();
    fs::read(files.path(&files.names()[0])).unwrap()
}

/// A manifest must be whole up to its last line's type.
fn must_have_its_manifest(files: &Files, keys: usize) {
    let name = "appendonly.aof.manifest";
    let whole = fs::metadata(files.path(name)).unwrap().len() as usize;
    files.cut(name, |len, loaded| match loaded {
        Ok(found) => assert_eq!((len >= whole - 1, found), (true, first(keys)), "{len}"),
        Err(why) => assert!(len < whole - 1, "{len}: {why}"),
    });
    let text = fs::read(files.path(name)).unwrap();
    fs::remove_file(files.path(name)).unwrap();
    assert!(files.load().unwrap_err().contains("no appendonly.aof.manifest"));
    fs::write(files.path(name), text).unwrap();
}

#[test]
fn a_log_that_was_cut_anywhere_is_loaded_up_to_there_or_refused() {
    let files = Files::new("own");
    let server = files.started();
    write(&server, 0..2);
    let server = next(&files, server);
    write(&server, 2..3);
    let server = next(&files, server);
    write(&server, 3..5);
    server.end_log();
    // It begins without a base.
    let names = files.names();
    assert_eq!(names.len(), 3);
    files.must_be_whole(&names[0], 5);
    files.must_be_whole(&names[1], 5);
    files.may_end_early(&names[2], 3, 5);
    must_have_its_manifest(&files, 5);
    // One that was begun and not written to is no end of anything.
    let server = files.started();
    let server = next(&files, server);
    rewrite(&server);
    write(&server, 5..6);
    let server = next(&files, server);
    write(&server, 6..7);
    let server = next(&files, server);
    write(&server, 7..9);
    server.end_log();
    let names = files.names();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in &names[..3] {
        files.must_be_whole(name, 9);
    }
    files.may_end_early(&names[3], 7, 9);
    must_have_its_manifest(&files, 9);
}

#[test]
fn files_of_another_server_that_were_cut_are_loaded_up_to_there_or_refused() {
    let files = Files::new("foreign");
    let names =
        ["appendonly.aof.2.base.rdb", "appendonly.aof.4.incr.aof", "appendonly.aof.5.incr.aof"];
    let manifest = "file appendonly.aof.2.base.rdb seq 2 type b\n\
                    file appendonly.aof.4.incr.aof seq 4 type i startoffset 7\n\
                    file appendonly.aof.5.incr.aof seq 5 type i startoffset 9\n";
    fs::write(files.path(names[0]), snapshot(0..2)).unwrap();
    fs::write(files.path(names[1]), sets(2..4)).unwrap();
    fs::write(files.path(names[2]), sets(4..6)).unwrap();
    fs::write(files.path("appendonly.aof.manifest"), manifest).unwrap();
    files.must_be_whole(names[0], 6);
    // Between two commands such a file says nothing of its end.
    let ends = |from: usize, to: usize| (from..=to).map(move |key| sets(from..key).len());
    let of_keys = |found: &[bool]| found.iter().filter(|is_there| **is_there).count();
    files.cut(names[1], |len, loaded| {
        let is_end = ends(2, 4).any(|end| end == len);
        assert_eq!(loaded.is_ok(), is_end, "{len}: {loaded:?}");
    });
    files.cut(names[2], |len, loaded| {
        let whole = ends(4, 6).filter(|&end| end <= len).count() - 1;
        assert_eq!(loaded.map(|found| of_keys(&found)), Ok(4 + whole), "{len}");
    });
    let typed = manifest.find(" startoffset 9").unwrap();
    files.cut("appendonly.aof.manifest", |len, loaded| match loaded {
        Ok(found) => assert_eq!((len >= typed, found), (true, first(6)), "{len}"),
        Err(why) => assert!(len < manifest.len() - 1, "{len}: {why}"),
    });

    // Petrel goes on behind them. From then on they are as long as they are.
    let server = files.started();
    write(&server, 6..7);
    let server = next(&files, server);
    write(&server, 7..9);
    server.end_log();
    let own = files.names();
    assert_eq!((own.len(), &own[..3]), (5, &names.map(String::from)[..]));
    for name in &own[..4] {
        files.must_be_whole(name, 9);
    }
    files.may_end_early(&own[4], 7, 9);
    must_have_its_manifest(&files, 9);
}

#[test]
fn a_base_of_commands_may_be_empty_and_one_that_is_named_as_a_snapshot_may_not() {
    let files = Files::new("bases");
    let incr = "appendonly.aof.1.incr.aof";
    fs::write(files.path(incr), sets(0..2)).unwrap();
    for (base, bytes, is_loaded) in [
        ("appendonly.aof.1.base.aof", &b""[..], true),
        ("appendonly.aof.1.base.rdb", b"", false),
        ("appendonly.aof.1.base.rdb", b"*1\r\n$4\r\nPING\r\n", false),
    ] {
        fs::write(files.path(base), bytes).unwrap();
        let manifest = format!("file {base} seq 1 type b\nfile {incr} seq 1 type i\n");
        fs::write(files.path("appendonly.aof.manifest"), manifest).unwrap();
        let loaded = files.load();
        assert_eq!(loaded.is_ok(), is_loaded, "{base}: {loaded:?}");
    }
}
