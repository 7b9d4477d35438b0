//! Whole runs of `petrel-bench` against its own bare loop: result files, interruption, going on,
//! servers that fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_petrel-bench");

/// How long anything here may take beside other programs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run's directory: the result file, and below it everything temporary.
struct RunDirectory(PathBuf);

impl RunDirectory {
    fn new(name: &str) -> RunDirectory {
        let path = std::env::temp_dir().join(format!("pb-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("tmp")).unwrap();
        RunDirectory(path)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(shlex::split(words).unwrap()).arg("--out").arg(&self.0);
        command.env("TMPDIR", self.0.join("tmp")).env("PATH", "/nowhere").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    fn results(&self) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(self.0.join("matrix.json")).ok()?).ok()
    }

    /// Completed measurements in the result file.
    fn complete(&self) -> usize {
        let results = self.results().unwrap_or_default();
        let rows = results["rows"].as_array().into_iter().flatten();
        let rounds = rows.flat_map(|row| row["rounds"].as_array().into_iter().flatten());
        rounds.filter(|round| round.get("failure").is_none()).count()
    }

    /// Whether any process that was started by the run, or a temporary directory, is left.
    fn is_littered(&self) -> bool {
        let own = self.0.join("tmp");
        let own = own.to_str().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(own)
        });
        processes.count() > 0 || fs::read_dir(own).unwrap().next().is_some()
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn wait(child: &mut Child, mut until: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !until() {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}");
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        thread::sleep(Duration::from_millis(5));
    }
}

const SMALL: &str = "matrix --servers floor-epoll --keys 100 --pipelines 1,4 --server-threads 1 \
                     --warmup 0 --seconds 0.1 --connections 2 --client-threads 1";

#[test]
fn a_run_leaves_a_result_file_a_page_and_plots_and_report_makes_them_again() {
    let place = RunDirectory::new("whole");
    let output = place.run(&format!("{SMALL} --rounds 2"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.complete(), 2 * 2 * 2, "SET and GET, two pipelines, two rounds");
    assert!(!place.is_littered());
    let results = place.results().unwrap();
    assert_eq!(results["base"], "floor-epoll");
    assert!(results["absent"].as_array().unwrap().contains(&"redis".into()));
    let page = fs::read_to_string(place.0.join("matrix.md")).unwrap();
    assert!(page.contains("| server | SET P1 | SET P4 | GET P1 | GET P4 |"), "{page}");
    let plot = fs::read_to_string(place.0.join("matrix-2-1.svg")).unwrap();
    assert!(plot.contains("GET P4") && page.contains("(matrix-2-1.svg)"), "{plot}");

    fs::remove_file(place.0.join("matrix.md")).unwrap();
    let summary = place.0.join("all.md");
    let report = |directory: &Path| {
        let mut command = Command::new(PROGRAM);
        command.arg("report").arg(directory).arg("--summary").arg(&summary).output().unwrap()
    };
    assert!(report(&place.0).status.success());
    assert_eq!(fs::read_to_string(place.0.join("matrix.md")).unwrap(), page);
    assert!(fs::read_to_string(&summary).unwrap().contains("[All tables](./matrix.md)"));

    // A file of another commit has no place on the same summary.
    let other = fs::read_to_string(place.0.join("matrix.json")).unwrap();
    let commit = results["commit"].as_str().unwrap();
    let other = other.replace(&format!("\"commit\": \"{commit}\""), "\"commit\": \"abcdefg\"");
    let other = other.replace("\"label\": \"\"", "\"label\": \"other\"");
    fs::write(place.0.join("matrix-other.json"), other).unwrap();
    let refused = report(&place.0);
    assert!(!refused.status.success() && stderr(&refused).contains("not of one commit"));
    fs::write(place.0.join("matrix-other.json"), "{").unwrap();
    assert!(stderr(&report(&place.0)).contains("matrix-other.json"));
    let empty = report(&place.0.join("tmp"));
    assert!(stderr(&empty).contains("no result files"));
}

#[test]
fn an_interrupted_run_keeps_what_it_has_ends_its_servers_and_goes_on() {
    let place = RunDirectory::new("stop");
    let words = format!("{SMALL} --rounds 300");
    let mut child = place.command(&words).spawn().unwrap();
    wait(&mut child, || place.complete() >= 4);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("--resume"));
    assert!(!place.is_littered());
    let before = place.complete();
    assert!((4..1200).contains(&before), "{before}");

    // Fewer rounds are to be measured now, and most of them are there.
    let output = place.run(&format!("{SMALL} --rounds 2 --resume"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(place.complete() >= before.max(8));
    let output = place.run(&format!("{SMALL} --rounds 2 --resume --key-size 20"));
    assert!(stderr(&output).contains("--resume: the options"), "{}", stderr(&output));
    assert!(!output.status.success());
}

#[test]
fn a_server_that_does_not_start_or_dies_is_named_and_the_others_are_measured() {
    let place = RunDirectory::new("dead");
    let bad =
        format!("{SMALL} --rounds 1 --peer 'bad=/bin/sh -c \"echo no luck >&2; exit 3\" {{port}}'");
    let output = place.run(&bad.replace("floor-epoll", "floor-epoll,bad"));
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("nothing could be measured of bad: bad did not start"), "{said}");
    assert!(said.contains("no luck"), "{said}");
    assert_eq!(place.complete(), 2 * 2);
    assert!(!place.is_littered());

    // A loop that is killed after some requests: the file says so, and it is started again.
    let dying = format!(
        "{SMALL} --rounds 2 --peer \"dying=/bin/sh -c '{PROGRAM} floor --backend epoll --unixsocket {{sock}} & \
         P=$!; trap \\\"kill $P\\\" EXIT; sleep 0.4; kill -9 $P' \""
    );
    let output =
        place.run(&dying.replace("floor-epoll", "dying").replace("--seconds 0.1", "--seconds 3"));
    let results = place.results().unwrap().to_string();
    assert!(results.contains("\"failure\":"), "{} {results}", stderr(&output));
}

#[test]
fn results_that_cannot_be_written_are_an_error_before_anything_is_measured() {
    let place = RunDirectory::new("full");
    fs::write(place.0.join("file"), "").unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(SMALL.split_whitespace()).arg("--out").arg(place.0.join("file/below"));
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(stderr(&output).contains("file/below"), "{}", stderr(&output));
}

#[test]
fn a_server_that_answers_wrongly_is_named_and_not_measured() {
    let place = RunDirectory::new("liar");
    let liar = format!(
        "{} --rounds 1 --verify --peer 'liar={PROGRAM} floor --backend epoll --unixsocket {{sock}}'",
        SMALL.replace("floor-epoll", "floor-epoll,liar")
    );
    let output = place.run(&liar);
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("liar answers wrongly: GET of"), "{said}");
    assert_eq!(place.complete(), 2 * 2, "the others are measured: {said}");
    assert!(!place.is_littered());
}

#[test]
fn a_full_disk_ends_the_run_with_what_there_was() {
    let place = RunDirectory::new("limit");
    let words = format!("{SMALL} --rounds 40").replace("0.1", "0.02");
    let mut command = Command::new("/bin/sh");
    // Some blocks of 512 or 1024 bytes: room for the first rounds.
    command.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\"", PROGRAM]);
    command.args(shlex::split(&words).unwrap()).arg("--out").arg(&place.0);
    command.env("TMPDIR", place.0.join("tmp")).env("PATH", "/nowhere").stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("matrix.json: File too large"), "{said}");
    let before = place.complete();
    assert!(before >= 1, "{said}");
    assert!(!place.is_littered());
    assert!(!place.0.join(".matrix.json.new").exists());
    let output = place.run(&format!("{SMALL} --rounds 40 --resume").replace("0.1", "0.02"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(place.complete() > before, "it goes on with what is there");
}

#[test]
fn a_truncated_trace_is_an_error_that_says_where_before_a_server_is_started() {
    let place = RunDirectory::new("cut");
    let path = place.0.join("cut.oracleGeneral.bin");
    fs::write(&path, [7; 24 + 10]).unwrap();
    let trace = format!("trace --servers floor-epoll --traces {}", path.display());
    let output = place.run(&trace);
    let said = stderr(&output);
    assert!(said.contains("at record 1: the file ends 10 bytes into a record"), "{said}");
    assert!(!output.status.success() && !place.is_littered());
}

#[test]
fn what_has_no_sockets_is_measured_in_a_process_of_its_own() {
    let place = RunDirectory::new("engine");
    let output = place.run(
        "engine --libraries petrel,moka --workloads get,zipf --threads 1 --milliseconds 20 --rounds 1",
    );
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!place.is_littered());
    let page = fs::read_to_string(place.0.join("engine.md")).unwrap();
    assert!(page.contains("| workload | petrel | moka |") && page.contains("moka 0."), "{page}");
    assert!(page.contains("Time of an operation: petrel has"), "{page}");
}

#[test]
fn a_redis_cluster_is_a_server_like_others_where_moved_is_followed() {
    let Some(program) = ["/usr/bin", "/usr/local/bin"]
        .map(|directory| Path::new(directory).join("redis-server"))
        .into_iter()
        .find(|program| program.is_file())
    else {
        eprintln!("skipped: no redis-server");
        return;
    };
    let place = RunDirectory::new("cluster");
    let output = place.run(&format!(
        "trace --peer-path redis-cluster={} --servers redis-cluster --traces zipf --requests 3000 --memory none \
         --rounds 1",
        program.display()
    ));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!place.is_littered());
    let results = fs::read_to_string(place.0.join("trace.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let measured = &results["rows"][0]["rounds"][0];
    assert!(measured.get("failure").is_none() && measured.get("doubts").is_none(), "{measured}");
    assert!(measured["figures"]["hits"].as_f64().unwrap() > 50.0, "{measured}");
    assert_eq!(measured["figures"]["errors"], 0.0);
}
