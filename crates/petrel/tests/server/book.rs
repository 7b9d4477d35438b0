//! Shell sessions of the documentation, run as they are printed.
//!
//! A block ```` ```console ```` holds commands behind `$ `, their continuation lines behind `> `,
//! and their output. In the output `...` stands for any text, and on a line of its own for any
//! lines. A line at a prompt of `petrel cli` (`127.0.0.1:6379> GET key`) is a command too. The
//! blocks of a page are one session of `sh` in an empty directory, with free ports in the place of
//! those printed.

use crate::harness::*;
use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Ports that pages print. A member's bus port is its port + 10,000.
const PORTS: [u16; 10] = [6379, 6380, 6381, 7001, 7002, 7003, 7004, 9121, 9122, 26379];

/// Timeout of a page's session. A cluster is founded in one, and sentinels find each other.
const SESSION_PATIENCE: Duration = Duration::from_secs(120);

/// Separates the outputs of commands.
const MARK: &str = "==== end of command ====";

/// A command of a session, and the output that the page prints.
#[derive(Debug, Eq, PartialEq)]
struct Step {
    /// Line of the page.
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The command for a line typed at a prompt of `petrel cli`, if it is one.
fn typed(line: &str) -> Option<String> {
    let (port, typed) = line.strip_prefix("127.0.0.1:")?.split_once("> ")?;
    port.parse::<u16>().ok()?;
    let quoted = typed.replace('\'', r"'\''");
    Some(format!("printf '%s\\n' '{quoted}' | petrel cli -p {port}"))
}

/// The commands of a page's sessions.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut is_session) = (Vec::<Step>::new(), false);
    for (at, line) in page.lines().enumerate() {
        let command = line.strip_prefix("$ ").map(str::to_owned).or_else(|| typed(line));
        match (is_session, command, steps.last_mut()) {
            (false, ..) => is_session = line == "```console",
            (true, ..) if line == "```" => is_session = false,
            // It opens the prompts that follow.
            (true, Some(command), _) if command.ends_with("petrel cli") => {}
            (true, Some(command), _) => {
                steps.push(Step { line: at + 1, command, output: Vec::new() });
            }
            (true, None, Some(step)) => match line.strip_prefix("> ") {
                Some(more) if step.output.is_empty() => {
                    let _ = write!(step.command, "\n{more}");
                }
                _ => step.output.push(line.trim_end().to_owned()),
            },
            (true, None, None) => panic!("line {}: output without a command", at + 1),
        }
    }
    steps
}

/// Whether a line is what the pattern stands for.
fn line_matches(pattern: &str, line: &str) -> bool {
    let Some((first, others)) = pattern.split_once("...") else { return line == pattern };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let (middle, last) = others.rsplit_once("...").unwrap_or(("", others));
    let parts = middle.split("...").filter(|part| !part.is_empty());
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Whether lines are what the patterns stand for.
fn lines_match(patterns: &[String], lines: &[String]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=lines.len()).any(|skipped| lines_match(rest, &lines[skipped..]))
        }
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, others)| line_matches(first, line) && lines_match(rest, others)),
    }
}

/// Free ports for those of pages, with free bus ports. `taken` are the ports of other sessions.
fn free_ports(taken: &mut Vec<u16>) -> Vec<(String, String)> {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = taken.len();
    while taken.len() < first + PORTS.len() {
        let port = free_port();
        let own = [port, port.saturating_add(10_000), port.saturating_sub(10_000)];
        let is_taken = own.iter().any(|port| taken.contains(port));
        if port < 55_000 && !is_taken && is_free(port + 10_000) {
            taken.push(port);
        }
    }
    let pairs = PORTS.into_iter().zip(taken[first..].iter().copied());
    let pairs = pairs.flat_map(|(page, port)| {
        [(page, port)].into_iter().chain((page < 10_000).then_some((page + 10_000, port + 10_000)))
    });
    pairs.map(|(page, port)| (page.to_string(), port.to_string())).collect()
}

/// Replaces whole numbers of a text.
fn replace_numbers<'a>(
    text: &str,
    pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_digit) {
        let end = rest[start..].find(|c| !is_digit(c)).map_or(rest.len(), |end| start + end);
        let number = &rest[start..end];
        let other = pairs.clone().find(|(from, _)| *from == number).map_or(number, |(_, to)| to);
        replaced.push_str(&rest[..start]);
        replaced.push_str(other);
        rest = &rest[end..];
    }
    replaced + rest
}

/// Programs that sessions call beside Petrel and a system's usual ones, where they are installed.
struct Tools(Vec<(&'static str, Option<PathBuf>)>);

impl Tools {
    fn find() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let peers = std::env::var_os("PETREL_TEST_PEERS").unwrap_or_default();
        let find = |name: &'static str| {
            let files = std::env::split_paths(&path).map(|dir| dir.join(name));
            let peers = std::env::split_paths(&peers).filter(|file| file.ends_with(name));
            (name, files.chain(peers).find(|file| file.is_file()))
        };
        Tools(["redis-cli", "redis-server", "curl"].map(find).into())
    }

    fn path(&self, name: &str) -> Option<std::path::Display<'_>> {
        let path = self.0.iter().find(|tool| tool.0 == name)?.1.as_ref()?;
        Some(path.display())
    }

    /// The first command that needs a tool which is absent, and its name.
    fn first_missing(&self, steps: &[Step]) -> Option<(usize, &'static str)> {
        let missing = self.0.iter().filter(|(_, path)| path.is_none());
        let first = missing.filter_map(|(name, _)| {
            let at = steps.iter().position(|step| step.command.contains(name))?;
            Some((at, *name))
        });
        first.min_by_key(|(at, _)| *at)
    }
}

/// Programs that a session calls, with its ports as their defaults.
fn write_programs(scratch: &Scratch, port: &str, output: &Path, tools: &Tools) {
    let petrel = env!("CARGO_BIN_EXE_petrel");
    // A busy machine keeps a member from its processor for longer than the default.
    let as_member = "case \" $* \" in *' --cluster-create '* | *' --cluster-join '*) set -- \"$@\" --cluster-node-timeout 30000 ;; esac";
    let at_port = format!(
        "case \" $* \" in *' --port '*) ;; *) grep -qs '^port' -- \"${{1-}}\" || set -- \"$@\" --port {port} ;; esac"
    );
    // A client prints as at a terminal, unless the output goes through a pipe.
    let as_client = format!(
        "case \" $* \" in *' -p '* | *' -s '* | *' -u '*) ;; *) set -- -p {port} \"$@\" ;; esac
[ \"$(readlink /proc/$$/fd/1)\" != '{}' ] || set -- --no-raw \"$@\"",
        output.display()
    );
    let mut programs = vec![(
        "petrel",
        format!(
            "case \"${{1-}}\" in
ping) [ $# -gt 1 ] || set -- ping 127.0.0.1:{port} ;;
help | version | check | backups | --help | --version) ;;
cli)
    shift
    {as_client}
    set -- cli \"$@\" ;;
*) {at_port} ;;
esac
{as_member}
exec '{petrel}' \"$@\""
        ),
    )];
    if let Some(path) = tools.path("redis-cli") {
        programs.push(("redis-cli", format!("{as_client}\nexec '{path}' \"$@\"")));
    }
    if let Some(path) = tools.path("redis-server") {
        programs.push(("redis-server", format!("{at_port}\nexec '{path}' \"$@\"")));
    }
    fs::create_dir(scratch.path("bin")).unwrap();
    for (name, text) in programs {
        let path = scratch.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Kills what a session has left running in its directory.
fn kill_all_in(directory: &Path) {
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok());
        let place = fs::read_link(entry.path().join("cwd"));
        if let (Some(pid), Ok(place)) = (pid, place)
            && place.starts_with(directory)
        {
            // SAFETY: a signal; the process was started by the session.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

/// Runs a script to its end; what it printed.
fn run(script: &Path, directory: &Path, output: &Path, bin: &Path) -> String {
    let file = fs::File::create(output).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new("sh")
        .arg(script)
        .current_dir(directory)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("LC_ALL", "C")
        .env_remove("REDISCLI_AUTH")
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + SESSION_PATIENCE;
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    kill_all_in(directory);
    String::from_utf8_lossy(&fs::read(output).unwrap()).into_owned()
}

/// Runs a session, and compares its output. Returns the differences.
fn check(page: &str, steps: &[Step], tools: &Tools, ports: &[(String, String)]) -> String {
    let scratch = Scratch::new();
    let (directory, output, bin) =
        (scratch.path("work"), scratch.path("output"), scratch.path("bin"));
    fs::create_dir(&directory).unwrap();
    write_programs(&scratch, &ports[0].1, &output, tools);
    let to_free = ports.iter().map(|(page, free)| (&page[..], &free[..]));
    let to_page = ports.iter().map(|(page, free)| (&free[..], &page[..]));
    let script = scratch.path("script");
    let text = steps.iter().fold(String::new(), |mut text, step| {
        let _ =
            write!(text, "{}\necho '{MARK}'\n", replace_numbers(&step.command, to_free.clone()));
        text
    });
    fs::write(&script, text).unwrap();
    let printed = replace_numbers(&run(&script, &directory, &output, &bin), to_page);
    let printed = printed.replace(&directory.display().to_string(), "/srv/petrel");
    let mark = format!("{MARK}\n");
    let mut outputs = printed.split(&mark[..]);
    let mut differences = String::new();
    for step in steps {
        let lines = outputs.next().unwrap_or("(it did not end)").trim_end().lines();
        let mut lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
        lines.retain(|line| !line.is_empty());
        let patterns: Vec<_> =
            step.output.iter().filter(|line| !line.is_empty()).cloned().collect();
        if !lines_match(&patterns, &lines) {
            let (line, command) = (step.line, &step.command);
            let _ = write!(differences, "{page}:{line}: $ {command}\n{}\n\n", lines.join("\n"));
        }
    }
    differences
}

/// Whether this build has what the sessions of a page need.
fn is_built_in(page: &str) -> bool {
    match page {
        "backups.md" => cfg!(feature = "object-store"),
        "running-a-cluster.md" => cfg!(feature = "cluster"),
        _ => true,
    }
}

/// README and all pages of the book.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.sort();
    pages.insert(0, root.join("README.md"));
    pages
}

/// Sessions of all pages, as far as their tools are installed.
fn sessions(tools: &Tools) -> Vec<(String, Vec<Step>)> {
    let mut sessions = Vec::new();
    for path in pages() {
        let page = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut steps = steps(&fs::read_to_string(&path).unwrap());
        if ["README.md", "cli.md"].contains(&&page[..]) {
            // Their sessions begin with a server that runs.
            let command = "petrel --daemonize yes --logfile log".into();
            steps.insert(0, Step { line: 0, command, output: Vec::new() });
        }
        if let Some((at, tool)) = tools.first_missing(&steps) {
            println!("skipped: {page} from line {} on, without {tool}", steps[at].line);
            steps.truncate(at);
        }
        if !steps.is_empty() && is_built_in(&page) {
            sessions.push((page, steps));
        }
    }
    sessions
}

#[test]
fn sessions_of_the_book_print_what_it_says() {
    let tools = Tools::find();
    let sessions = sessions(&tools);
    assert!(sessions.len() > 3, "pages have sessions");
    let mut taken = Vec::new();
    let ports: Vec<_> = sessions.iter().map(|_| free_ports(&mut taken)).collect();
    // Most of their time they wait.
    let differences: String = std::thread::scope(|scope| {
        let (all, tools) = (sessions.iter().zip(&ports), &tools);
        let runs: Vec<_> = all
            .map(|((page, steps), ports)| scope.spawn(move || check(page, steps, tools, ports)))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert!(differences.is_empty(), "printed instead:\n\n{differences}");
}

#[test]
fn sessions_are_read_from_pages() {
    let page = "\
text
```console
$ cat <<END
> a
> END
a
$ petrel cli
127.0.0.1:7001> GET it's
(nil)

```
$ no command
";
    let step = |line, command: &str, output: &[&str]| Step {
        line,
        command: command.into(),
        output: output.iter().map(|&line| line.into()).collect(),
    };
    let expected = [
        step(3, "cat <<END\na\nEND", &["a"]),
        step(8, r"printf '%s\n' 'GET it'\''s' | petrel cli -p 7001", &["(nil)", ""]),
    ];
    assert_eq!(steps(page), expected);
}

#[test]
fn wildcards_stand_for_text_and_lines() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let matches = |pattern: &str, text: &str| lines_match(&lines(pattern), &lines(text));
    assert!(matches("a", "a") && !matches("a", "b") && !matches("a", "a\nb") && !matches("a", ""));
    assert!(matches("a...d", "abcd") && matches("a...", "a") && !matches("a...d", "abc"));
    assert!(matches("...b...d...", "abcde") && !matches("...d...b...", "abcde"));
    assert!(
        matches("a\n...\nd", "a\nb\nc\nd") && matches("a\n...", "a") && !matches("...\nb", "b\na")
    );
    let pairs = [("6379", "1"), ("7001", "2")].into_iter();
    assert_eq!(replace_numbers("6379:16379 7001", pairs), "1:16379 2");
}

/// Texts of the sources below a folder.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(end) if end == "rs" => fs::read_to_string(&path).unwrap(),
        _ => String::new(),
    });
    texts.collect()
}

#[test]
fn errors_that_the_book_explains_exist() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let sources: String = crates.filter(|path| path.is_dir()).map(|path| sources(&path)).collect();
    let page = include_str!("../../../../docs/troubleshooting.md");
    let (_, errors) = page.split_once("## By error text").unwrap();
    let rows = errors.lines().filter(|line| line.starts_with("| `"));
    let texts: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    assert!(texts.len() > 20);
    let missing: Vec<_> = texts.into_iter().filter(|&text| !sources.contains(text)).collect();
    assert!(missing.is_empty(), "no such error: {missing:?}");
}

/// Anchor of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Whether a page has a heading with this anchor.
fn has_anchor(page: &str, wanted: &str) -> bool {
    page.lines().any(|line| line.starts_with('#') && anchor(line) == wanted)
}

#[test]
fn links_of_the_book_lead_somewhere() {
    let summary = include_str!("../../../../docs/SUMMARY.md");
    let mut broken = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_listed = summary.contains(&format!("]({name})"));
        if !is_listed && !matches!(name, "README.md" | "SUMMARY.md") {
            broken.push(format!("SUMMARY.md has no {name}"));
        }
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let (file, wanted) = link.0.split_once('#').unwrap_or((link.0, ""));
            if file.contains(':') {
                continue;
            }
            let target = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            let is_page = file.is_empty() || file.ends_with(".md");
            let leads = match fs::read_to_string(&target) {
                Ok(page) if is_page && !wanted.is_empty() => has_anchor(&page, wanted),
                _ => target.exists(),
            };
            if !leads {
                broken.push(format!("{name}: {}", link.0));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
