//! The configuration as a whole: starting, CONFIG GET and SET, CONFIG REWRITE.
//!
//! Error texts of CONFIG SET were compared with those of redis-server 7.0.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::load::Loader;
use super::*;
use crate::commands::check_renames;

/// A directory of its own, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("petrel-config-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn invoke(args: &[&str]) -> Result<Invocation, ConfigError> {
    Invocation::parse(args.iter().map(OsString::from))
}

fn start_in(base: &Path, args: &[&str], stdin: &str) -> Result<SharedConfig, String> {
    match invoke(args).map_err(|error| error.to_string())? {
        Invocation::Start(command) => command
            .load_from(base, &mut stdin.as_bytes(), check_renames)
            .map_err(|error| error.to_string()),
        other => panic!("{other:?}"),
    }
}

fn start(args: &[&str]) -> Result<SharedConfig, String> {
    start_in(Path::new("/"), args, "")
}

fn get(shared: &SharedConfig, name: &str) -> String {
    let found = shared.get(&[name]);
    assert_eq!(found.len(), 1, "{name}");
    String::from_utf8(found[0].1.clone()).unwrap()
}

fn set(shared: &SharedConfig, pairs: &[(&str, &str)]) -> Result<Vec<&'static str>, String> {
    let changed = shared.set(pairs, false, |_| Ok(()));
    changed.map(|c| c.iter().map(|p| p.name).collect()).map_err(|error| error.to_string())
}

mod starting {
    use super::*;

    #[test]
    fn without_arguments_everything_is_default() {
        let shared = start(&[]).unwrap();
        assert_eq!(get(&shared, "bind"), "* -::*");
        assert_eq!(get(&shared, "port"), "6379");
        assert_eq!(get(&shared, "dir"), "/");
        assert_eq!(shared.file(), None);
        assert!(shared.snapshot().worker_threads() >= 1);
    }

    #[test]
    fn options_take_everything_up_to_the_next() {
        let args = "--save --port 7000 --bind 127.0.0.1 ::1 --appendonly no --maxmemory 4gb \
                    --client-output-buffer-limit normal 1kb 2kb 3 --threads 4 --LogLevel DEBUG";
        let shared = start(&args.split_whitespace().collect::<Vec<_>>()).unwrap();
        for (name, value) in [
            ("save", ""),
            ("port", "7000"),
            ("bind", "127.0.0.1 ::1"),
            ("maxmemory", "4294967296"),
            ("threads", "4"),
            ("loglevel", "debug"),
            (
                "client-output-buffer-limit",
                "normal 1024 2048 3 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
            ),
        ] {
            assert_eq!(get(&shared, name), value, "{name}");
        }
    }

    #[test]
    fn values_may_be_quoted_lists_empty_or_joined_by_an_equals_sign() {
        let shared =
            start(&["--save", "", "--bind", "::1 -127.0.0.1", "--port=7001", "--hz 20"]).unwrap();
        assert_eq!(get(&shared, "bind"), "::1 -127.0.0.1");
        assert_eq!((get(&shared, "port"), get(&shared, "hz")), ("7001".into(), "20".into()));
        let shared = start(&["--requirepass", "--secret", "--save"]).unwrap();
        assert!(shared.snapshot().requirepass.matches(b"--secret"));
    }

    #[test]
    fn file_then_stdin_then_options() {
        let scratch = Scratch::new();
        scratch.write("petrel.conf", "# first\nhz 20\nport 1\nTIMEOUT 5\n");
        let args = ["petrel.conf", "--port", "3", "-"];
        let shared = start_in(&scratch.0, &args, "port 2\r\ntimeout 6\r\n").unwrap();
        assert_eq!(get(&shared, "hz"), "20");
        assert_eq!(get(&shared, "timeout"), "6");
        assert_eq!(get(&shared, "port"), "3");
        assert_eq!(shared.file(), Some(scratch.0.join("petrel.conf").as_path()));
        let shared = start_in(&scratch.0, &["-", "--hz", "9"], "port 2").unwrap();
        assert_eq!((get(&shared, "port"), get(&shared, "hz")), ("2".into(), "9".into()));
    }

    #[test]
    fn help_and_version() {
        for (arg, expected) in [
            ("-h", Invocation::Help(Topic::All)),
            ("--help", Invocation::Help(Topic::All)),
            ("help", Invocation::Help(Topic::All)),
            ("-v", Invocation::Version),
            ("--version", Invocation::Version),
            ("version", Invocation::Version),
        ] {
            assert_eq!(invoke(&[arg]).unwrap(), expected);
        }
        let all = Invocation::Help(Topic::All);
        assert_eq!(invoke(&["x.conf", "--port", "1", "--help"]).unwrap(), all);
        assert!(matches!(invoke(&["--requirepass", "--help"]), Ok(Invocation::Start(_))));
        let parameter = Invocation::Help(Topic::Parameter("maxmemory"));
        for name in ["maxmemory", "MaxMemory", "--maxmemory"] {
            assert_eq!(invoke(&["help", name]).unwrap(), parameter);
        }
        for subcommand in Subcommand::ALL {
            let expected = Invocation::Help(Topic::Subcommand(subcommand));
            assert_eq!(invoke(&["help", subcommand.name()]).unwrap(), expected);
            if subcommand == Subcommand::Cli {
                // Its arguments are its own: -h names a host.
                let args = vec!["-h".into(), "a".into()];
                assert_eq!(invoke(&["cli", "-h", "a"]).unwrap(), Invocation::Cli(args));
                continue;
            }
            assert_eq!(invoke(&[subcommand.name(), "--help"]).unwrap(), expected);
            assert_eq!(invoke(&[subcommand.name(), "-h"]).unwrap(), expected);
        }
    }

    #[test]
    fn the_images_entry_point_takes_the_commands_of_redis_image() {
        let scratch = Scratch::new();
        scratch.write("a.conf", "protected-mode yes\n");
        let load = |args: &[&str]| {
            let (name, invocation) = Invocation::of_program(args.iter().map(OsString::from));
            match invocation.unwrap() {
                Invocation::Start(line) => {
                    let shared = line.load_from(&scratch.0, &mut &b""[..], check_renames).unwrap();
                    (name, get(&shared, "port"), get(&shared, "protected-mode"))
                }
                other => panic!("{other:?}"),
            }
        };
        let entry = "/usr/local/bin/petrel-entrypoint";
        let found = |name: &str, port: &str, protected: &str| {
            (PathBuf::from(name), port.to_owned(), protected.to_owned())
        };
        assert_eq!(load(&[entry]), found("petrel", "6379", "no"));
        assert_eq!(load(&[entry, "--port", "1"]), found("petrel", "1", "no"));
        assert_eq!(load(&[entry, "redis-server", "--port", "1"]), found("redis-server", "1", "no"));
        let valkey = load(&[entry, "valkey-server", "a.conf", "--port", "1"]);
        assert_eq!(valkey, found("valkey-server", "1", "yes"));
        assert_eq!(load(&["petrel", "--port", "1"]), found("petrel", "1", "yes"));
        let (_, version) = Invocation::of_program([entry, "petrel", "version"].map(OsString::from));
        assert_eq!(version.unwrap(), Invocation::Version);
    }

    #[test]
    fn errors_name_the_place_and_what_to_do() {
        let scratch = Scratch::new();
        scratch.write("a.conf", "port 1\nmaxmemmory 5\n");
        scratch.write("b.conf", "\nsave \"\n");
        scratch.write("c.conf", "include a.conf\n");
        scratch.write("d.conf", "include c.conf\n");
        scratch.write("e.conf", "requirepass a b\n");
        scratch.write("f.conf", "include nosuch.conf\n");
        scratch.write("g.conf", "include g.conf\n");
        scratch.write("h.conf", "include\n");
        scratch.write("i.conf", "loadmodule x.so\n");
        scratch.write("j.conf", "dir nosuch\n");
        for (args, expected) in [
            ("a.conf", "a.conf:2: unknown parameter 'maxmemmory'; did you mean 'maxmemory'?"),
            ("b.conf", "b.conf:2: unbalanced quotes"),
            ("d.conf", "a.conf:2: unknown parameter 'maxmemmory'; did you mean 'maxmemory'?"),
            ("e.conf", "e.conf:1: requirepass: wrong number of arguments: one expected, 2 given"),
            ("f.conf", "f.conf:1: cannot read 'nosuch.conf': No such file or directory"),
            ("g.conf", "g.conf:1: include is nested more than 16 deep"),
            ("h.conf", "h.conf:1: include takes one path"),
            (
                "i.conf",
                "i.conf:1: unknown parameter 'loadmodule'; Redis or Valkey have it, this version \
                 of Petrel does not",
            ),
            ("j.conf", "j.conf:1: dir 'nosuch': No such file or directory"),
            ("nosuch.conf", "cannot read 'nosuch.conf': No such file or directory"),
            ("--prot 1", "command line: unknown option '--prot'; did you mean '--port'?"),
            ("--foo 1", "command line: unknown option '--foo'; --help lists them all"),
            ("--port", "command line: --port: wrong number of arguments"),
            (
                "--port 70000",
                "command line: --port '70000': argument must be between 0 and 65535 inclusive",
            ),
            ("-x", "command line: unexpected argument '-x'; see --help"),
            ("a.conf b.conf", "command line: unexpected argument 'b.conf'; see --help"),
            ("--save 900", "command line: --save '900': Invalid save parameters"),
            (
                "--replicaof h",
                "command line: --replicaof 'h': a host and a port are expected, or 'no one'",
            ),
            (
                "--repl-timeout x",
                "command line: --repl-timeout 'x': argument couldn't be parsed into an integer",
            ),
            ("--stripes 3", "command line: --stripes '3': argument must be 0 or a power of two"),
        ] {
            let args: Vec<_> = args.split(' ').collect();
            assert_eq!(
                start_in(&scratch.0, &args, "").err().as_deref(),
                Some(expected),
                "{args:?}"
            );
        }
        assert_eq!(
            start_in(&scratch.0, &["-"], "port x").err().unwrap(),
            "stdin:1: port 'x': argument couldn't be parsed into an integer"
        );
    }

    #[test]
    fn what_asks_for_nothing_is_accepted_and_shown() {
        let text = "appendonly NO\nappendfsync always\ncluster-enabled no\nslaveof no one\n\
                    lua-time-limit 7\nmasterauth s3cret\nshutdown-on-sigterm nosave NOW\n\
                    hash-max-ziplist-entries 9\nlazyfree-lazy-expire no\nlocale-collate c\n";
        let shared = start_in(Path::new("/"), &["-"], text).unwrap();
        for (name, value) in [
            ("appendfsync", "always"),
            ("replicaof", ""),
            ("busy-reply-threshold", "7"),
            ("primaryauth", "s3cret"),
            ("shutdown-on-sigterm", "nosave now"),
            ("hash-max-listpack-entries", "9"),
            ("lazyfree-lazy-expire", "no"),
            ("locale-collate", "C"),
            ("tls-port", "0"),
        ] {
            assert_eq!(get(&shared, name), value, "{name}");
        }
        assert!(!format!("{:?}", shared.snapshot()).contains("s3cret"));
    }

    #[test]
    fn save_points_add_up_until_an_empty_one() {
        let scratch = Scratch::new();
        let path = scratch.write("a.conf", "port 7000\nsave 900 1\n# more\nsave \"300 10\"\n");
        let shared = |args: &[&str]| start_in(&scratch.0, args, "").unwrap();
        assert_eq!(get(&shared(&[]), "save"), "3600 1 300 100 60 10000");
        assert_eq!(get(&shared(&["--save", "100", "100"]), "save"), "100 100");
        let both = shared(&["a.conf", "--save", "60 10000"]);
        assert_eq!(get(&both, "save"), "900 1 300 10 60 10000");
        assert_eq!(get(&shared(&["a.conf", "--save", ""]), "save"), "");
        scratch.write("bare.conf", "save 900 1\nsave \n");
        assert_eq!(get(&shared(&["bare.conf"]), "save"), "");
        let own = shared(&["a.conf"]);
        own.rewrite(None, Extent::Needed).unwrap();
        let unchanged = fs::read_to_string(&path).unwrap();
        assert!(unchanged.contains("save 900 1\n# more\nsave \"300 10\"\n"), "{unchanged}");
        set(&own, &[("save", "900 1 5 5")]).unwrap();
        own.rewrite(None, Extent::Needed).unwrap();
        let rewritten = fs::read_to_string(&path).unwrap();
        assert!(rewritten.contains("port 7000\nsave 900 1\nsave 5 5\n# more\n"), "{rewritten}");
        assert_eq!(get(&shared(&["a.conf"]), "save"), "900 1 5 5");
        set(&own, &[("save", "")]).unwrap();
        own.rewrite(None, Extent::Needed).unwrap();
        assert_eq!(get(&shared(&["a.conf"]), "save"), "");
        assert!(set(&own, &[("save", "900")]).unwrap_err().contains("Invalid save parameters"));
        assert!(start_in(&scratch.0, &["-"], "save 900").is_err());
    }

    #[test]
    fn every_line_of_the_files_that_redis_and_valkey_come_with_is_accepted() {
        for line in include_str!("stock.conf").lines() {
            start_in(Path::new("/"), &["-"], line).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn includes_expand_patterns_in_order() {
        let scratch = Scratch::new();
        for directory in ["conf.d", "conf.e"] {
            fs::create_dir(scratch.0.join(directory)).unwrap();
        }
        scratch.write("conf.d/10.conf", "hz 10\ntimeout 10\n");
        scratch.write("conf.d/20.conf", "hz 20\n");
        scratch.write("conf.e/05.conf", "maxclients 5\n");
        scratch.write("conf.d/.hidden.conf", "nonsense\n");
        scratch.write("conf.d/30.txt", "nonsense\n");
        scratch
            .write("main.conf", "hz 1\ninclude conf.[de]/*.conf\ninclude 'none*.conf'\nport 9\n");
        let shared = start_in(&scratch.0, &["main.conf"], "").unwrap();
        for (name, value) in [("hz", "20"), ("timeout", "10"), ("maxclients", "5"), ("port", "9")] {
            assert_eq!(get(&shared, name), value, "{name}");
        }
    }
}

mod get_and_set {
    use super::*;

    #[test]
    fn values_as_redis_accepts_and_refuses_them() {
        let shared = start(&[]).unwrap();
        let integer = "argument couldn't be parsed into an integer";
        let memory = "argument must be a memory value";
        let cases: &[(&str, &str, Result<&str, &str>)] = &[
            ("maxmemory", "1Gb", Ok("1073741824")),
            ("maxmemory", "18446744073709551615", Ok("18446744073709551615")),
            ("maxmemory", "1q", Err(memory)),
            ("maxmemory", "-1", Err(memory)),
            ("hz", "0", Ok("1")),
            ("hz", "501", Ok("500")),
            ("hz", "010", Err(integer)),
            ("maxmemory-policy", "ALLKEYS-LRU", Ok("allkeys-lru")),
            ("maxmemory-policy", "allkeys-s3fifo", Ok("allkeys-s3fifo")),
            (
                "loglevel",
                "foo",
                Err("argument(s) must be one of the following: debug, verbose, notice, warning, \
                     nothing"),
            ),
            ("latency-tracking", "NO", Ok("no")),
            ("latency-tracking", "1", Err("argument must be 'yes' or 'no'")),
            ("maxclients", "0", Err("argument must be between 1 and 4294967295 inclusive")),
            ("maxmemory-clients", "10%", Ok("10%")),
            ("maxmemory-clients", "101%", Err("percentage argument must be less or equal to 100")),
            ("maxmemory-clients", "-5%", Err("argument must be a memory or percent value")),
            (
                "proto-max-bulk-len",
                "1",
                Err("argument must be between 1048576 and 9223372036854775807 inclusive"),
            ),
            (
                "slowlog-log-slower-than",
                "-2",
                Err("argument must be between -1 and 9223372036854775807 inclusive"),
            ),
            (
                "client-output-buffer-limit",
                "normal 1 2",
                Err("Wrong number of arguments in buffer limit configuration."),
            ),
            (
                "client-output-buffer-limit",
                "master 1 2 3",
                Err("Invalid client class specified in buffer limit configuration."),
            ),
            (
                "client-output-buffer-limit",
                "normal 0 0 -1",
                Err("Error in hard, soft or soft_seconds setting in buffer limit configuration."),
            ),
            ("latency-tracking-info-percentiles", "", Ok("")),
            (
                "latency-tracking-info-percentiles",
                "101",
                Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"),
            ),
            (
                "proc-title-template",
                "{foo}",
                Err("template format is invalid or contains unknown variables"),
            ),
            ("databases", "1", Err("can't set immutable config")),
            ("stripes", "0", Ok("0")),
            ("stripes", "64", Err("can't set immutable config")),
            ("dir", "/", Err("can't set protected config")),
            ("save", "", Ok("")),
        ];
        for (name, value, expected) in cases {
            let result = set(&shared, &[(name, value)]);
            match expected {
                Ok(shown) => assert_eq!((result.is_ok(), &*get(&shared, name)), (true, *shown)),
                Err(reason) => assert_eq!(
                    result.unwrap_err(),
                    format!(
                        "ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
                    )
                ),
            }
        }
    }

    #[test]
    fn the_first_pair_that_may_not_be_set_is_the_error() {
        let shared = start(&[]).unwrap();
        let failed = |name, why| {
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        };
        let unknown =
            |name| format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
        let immutable = "can't set immutable config";
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Pairs<'_>, String)] = &[
            (&[("FoO", "1")], unknown("FoO")),
            (&[("a b\r\n", "1")], unknown("a b  ")),
            (&[("databases", "2"), ("foo", "1")], failed("databases", immutable)),
            (&[("foo", "2"), ("databases", "1")], unknown("foo")),
            (&[("hz", "2"), ("HZ", "1")], failed("HZ", "duplicate parameter")),
            (&[("hz", "x"), ("databases", "1")], failed("databases", immutable)),
            (
                &[("HZ", "11"), ("MaxMemory", "x"), ("timeout", "x")],
                failed("maxmemory", "argument must be a memory value"),
            ),
        ];
        for (pairs, expected) in cases {
            assert_eq!(&set(&shared, pairs).unwrap_err(), expected);
        }
        assert_eq!(get(&shared, "hz"), "10");
    }

    #[test]
    fn a_parameter_is_set_once_by_whichever_of_its_names() {
        let shared = start(&[]).unwrap();
        let mut pairs = 0;
        for param in PARAMS.iter().filter(|param| !param.aliases.is_empty()) {
            for (first, second) in param.names().flat_map(|a| param.names().map(move |b| (a, b))) {
                let failure = set(&shared, &[(first, "1"), (second, "1")]).unwrap_err();
                let expected = format!("'{second}') - duplicate parameter");
                let is_fixed = failure.contains("can't set");
                assert!(is_fixed || failure.ends_with(&expected), "{first} {second}: {failure}");
                pairs += usize::from(!is_fixed);
            }
        }
        assert!(pairs >= 4 * 10, "{pairs}");
    }

    #[test]
    fn a_set_is_all_or_nothing_and_says_what_changed() {
        let shared = Arc::new(start(&[]).unwrap());
        let mut reader = shared.reader();
        assert_eq!(
            set(&shared, &[("timeout", "5"), ("hz", "10"), ("maxmemory", "1mb")]),
            Ok(vec!["timeout", "maxmemory"])
        );
        assert_eq!((reader.maxmemory, reader.refresh(), reader.maxmemory), (0, true, 1 << 20));
        assert!(!reader.refresh());

        let refused = shared.set(&[("maxclients", "2000000"), ("hz", "20")], false, |change| {
            assert_eq!((change.old.maxclients, change.new.maxclients), (10_000, 2_000_000));
            assert_eq!(change.params.len(), 2);
            Err(Refusal { name: "maxclients", reason: "too many".into() })
        });
        assert_eq!(
            refused.err().unwrap().to_string(),
            "ERR CONFIG SET failed (possibly related to argument 'maxclients') - too many"
        );
        assert!(!reader.refresh());
        assert_eq!((shared.snapshot().maxclients, shared.snapshot().hz), (10_000, 10));
        assert_eq!(set(&shared, &[("hz", "10")]), Ok(vec![]));
        assert!(!reader.refresh());
    }

    #[test]
    fn protected_parameters_ask_for_permission() {
        let shared = start(&["--enable-protected-configs", "local"]).unwrap();
        let set_dir = |dir, local| {
            shared.set(&[("dir", dir)], local, |_| Ok(())).map_err(|error| error.to_string())
        };
        assert!(set_dir("/tmp", false).err().unwrap().ends_with("can't set protected config"));
        assert_eq!(set_dir("/tmp", true).unwrap().len(), 1);
        assert_eq!(get(&shared, "dir"), "/tmp");
        assert_eq!(
            set_dir("/nosuch", true).err().unwrap(),
            "ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory"
        );
    }

    #[test]
    fn get_takes_several_patterns_and_shows_names_as_asked() {
        let shared = start(&["--requirepass", "s3cret"]).unwrap();
        let names = |patterns: &[&str]| -> Vec<String> {
            let found = shared.get(patterns);
            found.into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect()
        };
        assert_eq!(names(&["MAXMEMORY", "maxmemory", "max[a-m]emory"]), ["MAXMEMORY"]);
        assert_eq!(names(&["p?RT", "nosuch", "hz"]), ["hz", "port"]);
        assert_eq!(names(&["*threads"]), ["io-threads", "threads"]);
        assert_eq!(names(&["io-threads"]), ["io-threads"]);
        let all: usize = PARAMS.iter().map(|param| param.names().count()).sum();
        assert_eq!(names(&["*"]).len(), all - crate::config::store::HIDDEN.split(' ').count());
        assert_eq!(names(&["key-load-delay", "key-load*"]), ["key-load-delay"]);
        assert_eq!(get(&shared, "requirepass"), "s3cret");
        assert!(!format!("{:?}", shared.snapshot()).contains("s3cret"));
    }

    #[test]
    fn readers_see_every_change_from_other_threads() {
        let shared = Arc::new(start(&[]).unwrap());
        let mut reader = shared.reader();
        let waiting = std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(20);
            while reader.hz != 77 {
                reader.refresh();
                assert!(Instant::now() < deadline);
                std::thread::yield_now();
            }
        });
        for hz in ["20", "30", "77"] {
            set(&shared, &[("hz", hz)]).unwrap();
        }
        waiting.join().unwrap();
    }
}

mod rewriting {
    use super::*;

    #[test]
    fn comments_order_and_valid_lines_stay() {
        let scratch = Scratch::new();
        let path = scratch.write(
            "petrel.conf",
            "# head\n\n  MAXMEMORY 1GB\nport 7000\nhz 20\n\t# note\nhz 30\ntimeout 0\n\
             requirepass 'it\\'s'\nio-threads 3",
        );
        let shared = start_in(&scratch.0, &["petrel.conf", "--maxclients", "300"], "").unwrap();
        set(&shared, &[("hz", "40"), ("requirepass", "a\"b c\u{1}"), ("slowlog-max-len", "7")])
            .unwrap();
        shared.rewrite(None, Extent::Needed).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "# head\n\n  MAXMEMORY 1GB\nport 7000\nhz 40\n\t# note\ntimeout 0\n\
             requirepass \"a\\\"b c\\x01\"\nio-threads 3\n\n\
             # Generated by CONFIG REWRITE\nmaxclients 300\nslowlog-max-len 7\n"
        );
        set(&shared, &[("slowlog-max-len", "128"), ("maxmemory", "2048"), ("timeout", "9")])
            .unwrap();
        shared.rewrite(None, Extent::Needed).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "# head\n\nmaxmemory 2kb\nport 7000\nhz 40\n\t# note\ntimeout 9\n\
             requirepass \"a\\\"b c\\x01\"\nio-threads 3\n\n\
             # Generated by CONFIG REWRITE\nmaxclients 300\nslowlog-max-len 128\n"
        );
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "temporary files are gone");
    }

    #[test]
    fn a_file_with_everything_gives_the_same_values() {
        let scratch = Scratch::new();
        let path = scratch.write("petrel.conf", "hz 20\n");
        let shared = start_in(&scratch.0, &["petrel.conf", "--maxclients", "300"], "").unwrap();
        shared.rewrite(None, Extent::Everything).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for param in PARAMS.iter().filter(|param| !matches!(param.rule, Rule::Points)) {
            let lines = text.lines().filter(|line| line.split(' ').next() == Some(param.name));
            assert_eq!(lines.count(), 1, "{}", param.name);
        }
        let again = start_in(&scratch.0, &["petrel.conf"], "").unwrap();
        assert!(*again.snapshot() == *shared.snapshot());
    }

    #[test]
    fn a_value_that_an_include_overrides_is_appended() {
        let scratch = Scratch::new();
        scratch.write("late.conf", "hz 20\n");
        let path = scratch.write("petrel.conf", "hz 30\ninclude late.conf\n");
        let shared = start_in(&scratch.0, &["petrel.conf"], "").unwrap();
        set(&shared, &[("hz", "30")]).unwrap();
        shared.rewrite(None, Extent::Needed).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "hz 30\ninclude late.conf\n\n# Generated by CONFIG REWRITE\nhz 30\n"
        );
        assert_eq!(get(&start_in(&scratch.0, &["petrel.conf"], "").unwrap(), "hz"), "30");
    }

    #[test]
    fn mode_and_symbolic_link_stay_and_a_lost_file_comes_back() {
        let scratch = Scratch::new();
        let path = scratch.write("real.conf", "port 7000\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = scratch.0.join("petrel.conf");
        std::os::unix::fs::symlink("real.conf", &link).unwrap();
        let shared = start_in(&scratch.0, &["petrel.conf"], "").unwrap();
        set(&shared, &[("hz", "50")]).unwrap();
        shared.rewrite(None, Extent::Needed).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);

        fs::remove_file(&path).unwrap();
        fs::remove_file(&link).unwrap();
        shared.rewrite(None, Extent::Needed).unwrap();
        assert_eq!(
            fs::read_to_string(&link).unwrap(),
            "# Generated by CONFIG REWRITE\nport 7000\nhz 50\n"
        );
    }

    #[test]
    fn users_are_written_where_they_stand_and_appended_where_they_do_not() {
        let scratch = Scratch::new();
        let path = scratch.write("petrel.conf", "user a on ~x\n# note\nuser gone on\nUSER b off\n");
        let shared = start_in(&scratch.0, &["petrel.conf"], "").unwrap();
        let names: Vec<_> = shared.users().iter().map(|user| user.name.as_slice()).collect();
        assert_eq!(names, [b"a".as_slice(), b"gone", b"b"]);
        assert_eq!(shared.users()[2].location.to_string(), "petrel.conf:4");
        let line = |words: &str| words.split(' ').map(|word| word.into()).collect::<Vec<_>>();
        let users = [line("user a on ~y\""), line("user b off"), line("user c on")];
        shared.rewrite(Some(&users), Extent::Needed).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(
            written,
            "user a on \"~y\\\"\"\n# note\nuser b off\n\n# Generated by CONFIG REWRITE\nuser c on\n"
        );
        let again = start_in(&scratch.0, &["petrel.conf"], "").unwrap();
        assert_eq!(again.users()[0].rules, [b"on".to_vec(), b"~y\"".to_vec()]);
        // Users that are kept in a file of their own are not written.
        shared.rewrite(None, Extent::Needed).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), written);
        // Nothing is written that could not be read.
        scratch.write("more.conf", "user c on\n");
        scratch.write("petrel.conf", "include more.conf\n");
        let error = shared.rewrite(Some(&users), Extent::Needed).unwrap_err().to_string();
        assert!(error.contains("Duplicate user 'c' found"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "include more.conf\n");
    }

    #[test]
    fn failures_leave_the_file_and_are_said() {
        let error = start(&[]).unwrap().rewrite(None, Extent::Needed).unwrap_err().to_string();
        assert_eq!(error, "ERR The server is running without a config file");

        let scratch = Scratch::new();
        let path = scratch.write("petrel.conf", "port 7000\n");
        let shared = start_in(&scratch.0, &["petrel.conf"], "").unwrap();
        set(&shared, &[("hz", "50")]).unwrap();
        scratch.write("petrel.conf", "port 7000\nnonsense 1\n");
        let error = shared.rewrite(None, Extent::Needed).unwrap_err().to_string();
        assert!(error.starts_with("ERR Rewriting config file: "), "{error}");
        assert!(error.contains("petrel.conf:2: unknown parameter 'nonsense'"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "port 7000\nnonsense 1\n");

        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = shared.rewrite(None, Extent::Needed).unwrap_err().to_string();
        assert_eq!(error, "ERR Rewriting config file: Is a directory");
    }

    #[test]
    fn a_line_that_no_longer_is_valid_gets_the_present_value() {
        let scratch = Scratch::new();
        let path = scratch.write("petrel.conf", "hz 10\n");
        let shared = start_in(&scratch.0, &["petrel.conf"], "").unwrap();
        scratch.write("petrel.conf", "hz ten\ntimeout\n");
        shared.rewrite(None, Extent::Needed).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "hz 10\ntimeout 0\n");
    }

    /// A valid value of each kind of parameter, chosen by `seed`.
    fn some_value(param: &Param, seed: u64) -> Vec<u8> {
        let between = |min: i128, max: i128| {
            (min + i128::from(seed) % (max - min + 1)).to_string().into_bytes()
        };
        let pick = |words: &[&str]| words[seed as usize % words.len()].as_bytes().to_vec();
        match param.rule {
            Rule::YesNo => pick(&["yes", "no", "YES"]),
            Rule::Only(words, _) => pick(words),
            Rule::Points => pick(&["", "900 1", "3600 1 300 100 60 10000"]),
            Rule::Flags => pick(&["default", "now nosave", "FORCE", "save"]),
            Rule::Number { min, max } | Rule::Clamped { min, max } => {
                between(min.into(), max.into())
            }
            Rule::PowerOfTwo { .. } => (1u64 << (seed % 17)).to_string().into(),
            Rule::Octal { max } => format!("{:o}", seed % (u64::from(max) + 1)).into(),
            Rule::Memory { .. } => format!("{}kb", 1024 + seed % 9999).into(),
            Rule::Fraction => pick(&["0.01", "0.999", "1e-9"]),
            Rule::MemoryOrPercent => pick(&["5%", "12kb", "0", "100%"]),
            Rule::OneOf(words) => pick(words),
            Rule::AllOr { .. } => pick(&["all", "1", "64", "ALL"]),
            Rule::Password | Rule::Path | Rule::AnyText => {
                // Bytes of every kind but zero, which a path cannot hold.
                seed.to_le_bytes().into_iter().filter(|&byte| byte != 0).collect()
            }
            Rule::EventLetters => pick(&["", "KEA", "Kgnoc", "mAoE", "STIVh"]),
            Rule::SocketPath => pick(&["", "/run/p.sock", "a b"]),
            Rule::Names => pick(&["", "redis.local", "a.example b.example"]),
            Rule::DirectoryName => pick(&["backupdir", "a b"]),
            Rule::Preload => pick(&["", "rdb:/a b/dump.rdb", "aof:/tmp/appendonly.aof.manifest"]),
            Rule::FileName => pick(&["dump.rdb", "a b", "x"]),
            Rule::Directory => pick(&["/", "/tmp", "."]),
            Rule::Template => pick(&["{title}", "a \"{port}\" # b", ""]),
            Rule::List(_) => match param.name {
                "bind" => pick(&["", "*", "127.0.0.1 -::1", "::1"]),
                "client-output-buffer-limit" => {
                    pick(&["normal 1mb 2 3", "replica 0 0 0 pubsub 1 1 1", ""])
                }
                "replicaof" => pick(&["", "no one", "localhost 6379", "::1 1"]),
                "oom-score-adj-values" => pick(&["0 200 800", "-2000 0 2000"]),
                _ => pick(&["", "50", "0 12.5 99.999"]),
            },
        }
    }

    fn settings() -> impl Strategy<Value = Vec<(usize, u64)>> {
        prop::collection::vec((0..PARAMS.len(), any::<u64>()), 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_rewritten_file_gives_the_present_values(before in settings(), after in settings()) {
            let scratch = Scratch::new();
            let mut text = String::from("# kept 1\n").into_bytes();
            for &(index, seed) in &before {
                let param = &PARAMS[index];
                text.extend(line::join(&[param.name.into(), some_value(param, seed)]));
                text.extend(b"\n# kept 2\n");
            }
            let path = scratch.0.join("petrel.conf");
            fs::write(&path, &text).unwrap();
            let file = ConfigFile::new(&path, &scratch.0);
            let mut loader = Loader::new(&scratch.0);
            loader.file(&path).unwrap();
            for &(index, seed) in &after {
                let param = &PARAMS[index];
                param.update(&mut loader.config, &[some_value(param, seed)]).unwrap();
            }
            let present = loader.finish();
            rewrite::rewrite(&file, &present, None, Extent::Needed).unwrap();

            let rewritten = fs::read(&path).unwrap();
            let mut loader = Loader::new(&scratch.0);
            loader.file(&path).unwrap();
            prop_assert!(loader.finish() == present, "{}", String::from_utf8_lossy(&rewritten));
            let comments = |text: &[u8]| {
                text.split(|&b| b == b'\n').filter(|line| line.starts_with(b"# kept")).count()
            };
            prop_assert_eq!(comments(&rewritten), comments(&text));

            rewrite::rewrite(&file, &present, None, Extent::Needed).unwrap();
            prop_assert_eq!(fs::read(&path).unwrap(), rewritten, "twice is once");
        }

        #[test]
        fn no_text_makes_loading_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Loader::new(Path::new("/nosuch")).text(&text, &Source::Stdin);
        }

        #[test]
        fn no_value_makes_setting_panic(index in 0..PARAMS.len(), value in ".{0,40}") {
            let shared = start(&[]).unwrap();
            let _ = shared.set(&[(PARAMS[index].name, &*value)], true, |_| Ok(()));
        }
    }
}
