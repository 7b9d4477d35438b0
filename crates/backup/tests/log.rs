//! The backup of a log: it grows, is fetched back, and begins anew with each base.

use petrel_backup::{
    BackupKind, LogState, LogTarget, Name, Options, RestoreTarget, Shipper, Source, list, restore,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(30);

/// A directory that goes when the test ends: a log in it, and a store.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("petrel-backup-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("log")).unwrap();
        fs::create_dir_all(path.join("store")).unwrap();
        Scratch(path)
    }

    fn url(&self) -> String {
        format!("file://{}/store", self.0.display())
    }

    /// Writes a file of the log, which was last changed at that second.
    fn write(&self, name: &str, text: &str, second: u64) {
        let path = self.0.join("log").join(name);
        fs::write(&path, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + second);
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }

    fn state(&self, names: &[&str]) -> LogState {
        let path = |name: &&str| ((*name).to_owned(), self.0.join("log").join(name));
        LogState { files: names.iter().map(path).collect(), index: names.join("\n") }
    }

    fn shipper(&self, keep: u64) -> Shipper {
        let options = Options { server: "0.0.0".into(), keep };
        Shipper::start(&self.url(), options).unwrap()
    }

    /// Ships states one after another; how many files went.
    fn ship(&self, keep: u64, states: &[&[&str]]) -> u64 {
        let shipper = self.shipper(keep);
        for state in states {
            let shipped = shipper.figures().shipped.load(Relaxed);
            shipper.ship_log(self.state(state));
            let deadline = std::time::Instant::now() + PATIENCE;
            while shipper.is_busy() {
                assert!(std::time::Instant::now() < deadline, "not shipped after {shipped}");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        shipper.stop(PATIENCE);
        assert_eq!(shipper.figures().failed.load(Relaxed), 0);
        shipper.figures().files.load(Relaxed)
    }

    /// Restores; the directory and what its index says.
    fn restored(&self, name: Option<Name>) -> (PathBuf, String) {
        let directory = self.0.join("restored");
        let _ = fs::remove_dir_all(&directory);
        let log = LogTarget { directory: directory.clone(), index: "the.index".into() };
        let place = RestoreTarget { snapshot: self.0.join("dump.rdb"), log: Some(log) };
        restore(&Source { url: self.url(), name }, &place).unwrap();
        let index = fs::read_to_string(directory.join("the.index")).unwrap();
        (directory, index)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap()
}

#[test]
fn a_log_grows_and_comes_back() {
    let scratch = Scratch::new();
    scratch.write("1.base", "base", 10);
    scratch.write("2.log", "second", 20);
    scratch.write("3.log", "third", 30);
    let states: [&[&str]; 3] = [&["1.base"], &["1.base", "2.log"], &["1.base", "2.log", "3.log"]];
    // Each file goes once.
    assert_eq!(scratch.ship(0, &states[..2]), 2);
    // Nor after a restart.
    assert_eq!(scratch.ship(0, &states[1..]), 1);
    let listed = list(&scratch.url()).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name.kind, BackupKind::Log);
    assert_eq!(listed[0].bytes, Some(15));
    assert!(listed[0].about.ends_with(", up to 20270115T080030.000Z"), "{listed:?}");
    let (directory, index) = scratch.restored(None);
    assert_eq!(index, "1.base\n2.log\n3.log");
    assert_eq!(text(&directory, "1.base"), "base");
    assert_eq!(text(&directory, "3.log"), "third");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 4);
}

#[test]
fn what_differs_is_shipped_anew() {
    let scratch = Scratch::new();
    scratch.write("1.base", "base", 10);
    scratch.write("2.log", "second", 20);
    assert_eq!(scratch.ship(0, &[&["1.base", "2.log"]]), 2);
    scratch.write("2.log", "cut", 20);
    assert_eq!(scratch.ship(0, &[&["1.base", "2.log"]]), 1);
    let (directory, _) = scratch.restored(None);
    assert_eq!(text(&directory, "2.log"), "cut");
}

#[test]
fn each_base_begins_a_backup_and_the_newest_stay() {
    let scratch = Scratch::new();
    for (name, second) in [("1.base", 10), ("2.log", 20), ("3.base", 30), ("5.base", 50)] {
        scratch.write(name, name, second);
    }
    let states: [&[&str]; 3] = [&["1.base", "2.log"], &["3.base"], &["5.base"]];
    scratch.ship(2, &states);
    let names: Vec<Name> = list(&scratch.url()).unwrap().iter().map(|each| each.name).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(scratch.restored(None).1, "5.base");
    assert_eq!(scratch.restored(Some(names[0])).1, "3.base");
}

#[test]
fn the_newest_content_counts_whenever_its_backup_began() {
    let scratch = Scratch::new();
    scratch.write("1.base", "base", 10);
    scratch.write("2.log", "second", 30);
    scratch.ship(1, &[&["1.base"]]);
    // A snapshot of a moment between the two.
    scratch.write("dump.rdb", "snapshot", 20);
    let shipper = scratch.shipper(1);
    shipper.ship_snapshot(fs::File::open(scratch.0.join("log/dump.rdb")).unwrap());
    shipper.stop(PATIENCE);
    let place = RestoreTarget { snapshot: scratch.0.join("dump.rdb"), log: None };
    let newest = Source { url: scratch.url(), name: None };
    assert_eq!(restore(&newest, &place).unwrap().name.kind, BackupKind::Snapshot);
    scratch.ship(1, &[&["1.base", "2.log"]]);
    assert_eq!(scratch.restored(None).1, "1.base\n2.log");
    let error = restore(&newest, &place).unwrap_err().to_string();
    assert!(error.contains("is a log: start with --appendonly yes"), "{error}");
}

#[test]
fn a_damaged_file_leaves_nothing_behind() {
    let scratch = Scratch::new();
    scratch.write("1.base", "base", 10);
    scratch.ship(0, &[&["1.base"]]);
    let name = list(&scratch.url()).unwrap()[0].name;
    let path = scratch.0.join("store").join(name.to_string()).join("1.base");
    fs::write(path, "bask").unwrap();
    let log = LogTarget { directory: scratch.0.join("restored"), index: "i".into() };
    let place = RestoreTarget { snapshot: scratch.0.join("dump.rdb"), log: Some(log) };
    let error = restore(&Source { url: scratch.url(), name: None }, &place).unwrap_err();
    assert!(error.to_string().contains("1.base has the checksum"), "{error}");
    let left: Vec<_> = fs::read_dir(&scratch.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
