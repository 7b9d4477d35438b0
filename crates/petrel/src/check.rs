//! `petrel check [--fix] PATH ...`: whether files are whole, and what they hold.
//!
//! A path is an RDB file, an append-only file of Redis or Valkey, a file of Petrel's log, a manifest, or a directory with one.

use petrel_persistence::aof::{self, Flaw, ReadError, begins_as_rdb};
use petrel_persistence::log::{BlockReader, LogError, Manifest, is_log};
use petrel_persistence::rdb::Leniency;
use petrel_persistence::{Census, check};
use petrel_server::config::CheckLine;
use petrel_server::counted::Counted;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Checks each path and prints what was found; fails if something is not whole, and was not made so.
pub fn check_all(line: &CheckLine) -> ExitCode {
    let mut all_whole = !line.paths.is_empty();
    if !all_whole {
        eprintln!("petrel: check: which file? Usage: petrel check [--fix] FILE-OR-DIRECTORY ...");
    }
    for path in &line.paths {
        all_whole &= check_path(path, line.fix);
    }
    if all_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check_path(path: &Path, fix: bool) -> bool {
    if path.is_dir() {
        return check_directory(path, fix);
    }
    if path.extension().is_some_and(|extension| extension == "manifest") {
        return check_manifest(path, fix);
    }
    report(path, check_file(path, fix))
}

fn report(path: &Path, found: Result<String, String>) -> bool {
    let shown = path.display();
    match &found {
        Ok(text) => println!("{shown}: {text}"),
        Err(text) => eprintln!("{shown}: {text}"),
    }
    found.is_ok()
}

/// The manifests of a directory; without any, its files that are named like ours.
fn check_directory(path: &Path, fix: bool) -> bool {
    let files = match fs::read_dir(path) {
        Ok(files) => files.flatten().map(|file| file.path()).collect::<Vec<_>>(),
        Err(error) => return report(path, Err(error.to_string())),
    };
    let of = |extensions: &[&str]| {
        let is_of = |file: &&PathBuf| {
            let extension = file.extension().and_then(|extension| extension.to_str());
            extension.is_some_and(|extension| extensions.contains(&extension))
        };
        let mut found: Vec<PathBuf> = files.iter().filter(is_of).cloned().collect();
        found.sort();
        found
    };
    let mut found = of(&["manifest"]);
    if found.is_empty() {
        found = of(&["rdb", "aof"]);
    }
    if found.is_empty() {
        return report(path, Err("there is no manifest, and no RDB or append-only file".into()));
    }
    // Each is looked at, also behind one that is not whole.
    let whole = found.iter().filter(|file| check_path(file, fix)).count();
    whole == found.len()
}

/// The files that a manifest names. Only the last may be cut.
fn check_manifest(path: &Path, fix: bool) -> bool {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return report(path, Err(error.to_string())),
    };
    let manifest = match Manifest::parse(&text) {
        Ok(manifest) => manifest,
        Err(error) => return report(path, Err(error.to_string())),
    };
    let directory = path.parent().unwrap_or(Path::new(""));
    let files = manifest.base().into_iter().chain(manifest.logs());
    let files: Vec<PathBuf> = files.map(|entry| directory.join(&entry.name)).collect();
    let mut all_whole = true;
    for (number, file) in (1..).zip(&files) {
        let is_last = number == files.len();
        let found = check_file(file, fix && is_last);
        let found = found.map_err(|text| match is_last {
            true => text,
            false => format!("{text}; it is not the last file, and is not cut"),
        });
        all_whole &= report(file, found);
    }
    if all_whole {
        println!("{}: whole; {}", path.display(), Counted(files.len() as u64, "file"));
    }
    all_whole
}

/// One line that says what a file holds, or what is wrong with it.
fn check_file(path: &Path, fix: bool) -> Result<String, String> {
    let text = |error: io::Error| error.to_string();
    let mut file = File::open(path).map_err(text)?;
    let len = file.metadata().map_err(text)?.len();
    let mut head = Vec::new();
    (&file).take(8).read_to_end(&mut head).map_err(text)?;
    file.rewind().map_err(text)?;
    if is_log(&head) {
        return check_log(path, &file, len, fix);
    }
    let is_named_rdb = path.extension().is_some_and(|extension| extension == "rdb");
    let (mut found, mut from) = (String::new(), 0);
    if begins_as_rdb(&head) || is_named_rdb {
        let census = check(&file, len, Leniency::default()).map_err(|error| error.to_string())?;
        found = describe(&census);
        from = census.end;
        if from == len {
            return Ok(found);
        }
        found.push_str("; behind it: ");
    }
    file.seek(SeekFrom::Start(from)).map_err(text)?;
    found.push_str(&check_commands(path, file, from, len, fix)?);
    Ok(found)
}

fn check_commands(
    path: &Path,
    mut file: File,
    from: u64,
    len: u64,
    fix: bool,
) -> Result<String, String> {
    let text = |error: io::Error| error.to_string();
    let census = aof::check_commands(&file, from, len).map_err(text)?;
    let mut found = format!("whole; {}", Counted(census.commands, "command"));
    if census.transactions > 0 {
        let _ = write!(found, ", {}", Counted(census.transactions, "transaction"));
    }
    let Some(flaw) = census.flaw else { return Ok(found) };
    let whole = census.whole;
    if let (0, Flaw::Read(ReadError::Malformed { at: 0, .. })) = (from, &flaw) {
        return Err("it is no RDB file, no append-only file and none of Petrel's log".into());
    }
    let mut wrong = match &flaw {
        Flaw::Read(error) => error.to_string(),
        Flaw::OpenTransaction => format!("the transaction at byte {whole} has no end"),
    };
    if census.commands > 0 {
        let last = String::from_utf8_lossy(&census.last);
        let _ = write!(
            wrong,
            "; before that: {}, the last '{last}'",
            Counted(census.commands, "command")
        );
    }
    if let Flaw::Read(ReadError::Malformed { at, .. }) = flaw {
        file.seek(SeekFrom::Start(at)).map_err(text)?;
        if aof::holds_commands(&file).map_err(text)? {
            return Err(format!("{wrong}; more commands follow, so it is not cut"));
        }
    }
    cut(path, whole, len, wrong, fix)
}

/// The blocks of a file of Petrel's log.
fn check_log(path: &Path, file: &File, len: u64, fix: bool) -> Result<String, String> {
    let mut reader = BlockReader::new(file, len, None).map_err(|error| error.to_string())?;
    let (mut blocks, mut body) = (0u64, Vec::new());
    loop {
        body.clear();
        match reader.next(&mut body) {
            Ok(Some(_)) => blocks += 1,
            Ok(None) => break,
            Err(error @ LogError::Torn { at, .. }) => {
                return cut(path, at, len, error.to_string(), fix);
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    let mut found = format!("whole; Petrel's log, {}", Counted(blocks, "block"));
    if let Some(epoch) = reader.last_epoch() {
        let _ = write!(found, ", the last of epoch {epoch}");
    }
    if reader.has_ended() {
        found.push_str("; ended on purpose");
    }
    Ok(found)
}

/// Cuts off everything from byte `whole` on, if that is wanted.
fn cut(path: &Path, whole: u64, len: u64, wrong: String, fix: bool) -> Result<String, String> {
    let lost = len - whole;
    if !fix {
        return Err(format!("{wrong}; --fix cuts the last {lost} bytes off"));
    }
    let cut = || {
        let file = File::options().write(true).open(path)?;
        file.set_len(whole)?;
        file.sync_all()
    };
    cut().map_err(|error: io::Error| format!("{wrong}; and it cannot be cut: {error}"))?;
    Ok(format!("{wrong}; its last {lost} bytes were cut off, {whole} are left"))
}

/// What an RDB file holds.
fn describe(census: &Census) -> String {
    let mut text =
        format!("whole; RDB version {}, {}", census.version, Counted(census.keys(), "key"));
    for (name, count) in &census.by_type {
        let _ = write!(text, ", {count} {name}");
    }
    if census.volatile > 0 {
        let _ = write!(text, "; {} expire", census.volatile);
    }
    if census.by_database.len() > 1 {
        let _ = write!(text, "; in {} databases", census.by_database.len());
    }
    if census.functions > 0 {
        let libraries = if census.functions == 1 { "library" } else { "libraries" };
        let _ = write!(text, "; {} {libraries} of functions", census.functions);
    }
    if census.modules > 0 {
        let _ = write!(text, "; data of {}, which is skipped", Counted(census.modules, "module"));
    }
    if let Some((_, version)) = census.aux.iter().find(|(name, _)| name == b"redis-ver") {
        let _ = write!(text, "; made by version {}", String::from_utf8_lossy(version));
    }
    text
}
