//! `petrel check [--fix | --cut] PATH ...`: verifies files and describes their contents.
//!
//! A path is an RDB file, an append-only file of Redis or Valkey, a file of Petrel's log, a
//! manifest, or a directory with one.

use crate::mend::mend_rdb;
use petrel_persistence::aof::{self, Flaw, ReadError, begins_as_rdb};
use petrel_persistence::log::{
    BlockReader, Chain, Entry, FileKind, Known, LogError, Lost, Manifest, Piece, Remains,
    about_empty, check_base, check_len, check_names, is_log,
};
use petrel_persistence::rdb::Leniency;
use petrel_persistence::{Census, check};
use petrel_server::commands::check_libraries;
use petrel_server::config::{CheckLine, Config, Cut};
use petrel_server::observation::pluralized::Pluralized;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Checks each path and prints the result. Fails if a file is damaged and was not repaired.
pub fn check_all(line: &CheckLine) -> ExitCode {
    let mut all_whole = true;
    for path in &line.paths {
        all_whole &= check_path(path, line.cut);
    }
    if all_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check_path(path: &Path, cut: Cut) -> bool {
    if path.is_dir() {
        return check_directory(path, cut);
    }
    if path.extension().is_some_and(|extension| extension == "manifest") {
        return check_manifest(path, cut);
    }
    if path.extension().is_some_and(|extension| extension == "pending") {
        return report(path, check_pending(path, None));
    }
    report(path, check_file(path, None, cut))
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
fn check_directory(path: &Path, cut: Cut) -> bool {
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
    let whole = found.iter().filter(|file| check_path(file, cut)).count();
    whole == found.len()
}

/// The files that a manifest names. Only the last may be cut.
fn check_manifest(path: &Path, cut: Cut) -> bool {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return report(path, Err(error.to_string())),
    };
    let manifest = match Manifest::parse(&text) {
        Ok(manifest) => manifest,
        Err(error) => return report(path, Err(error.to_string())),
    };
    if let Err(why) = check_names(path, &manifest) {
        return report(path, Err(why));
    }
    let directory = path.parent().unwrap_or(Path::new(""));
    let files: Vec<&Entry> = manifest.base().into_iter().chain(manifest.logs()).collect();
    let mut all_whole = true;
    let mut chain = Chain::new(&manifest);
    for (number, entry) in (1..).zip(&files) {
        let file = directory.join(&entry.name);
        let is_last = number == files.len();
        let of_log = OfLog { entry, is_last, chain: &mut chain };
        let found = check_file(&file, Some(of_log), if is_last { cut } else { Cut::Nothing });
        let found = found.map_err(|text| match is_last {
            true => text,
            false => format!("{text}; it is not the last file, and is not cut"),
        });
        all_whole &= report(&file, found);
    }
    let pending = path.with_extension("pending");
    if pending.exists() {
        let first = manifest.logs().find(|entry| entry.kind == FileKind::Effects);
        let known = Known {
            log_id: chain.log_id,
            first_seq: first.map_or(0, |entry| entry.seq),
            last_epoch: chain.last_epoch,
        };
        all_whole &= report(&pending, check_pending(&pending, Some(&known)));
    }
    if all_whole {
        println!("{}: whole; {}", path.display(), Pluralized(files.len() as u64, "file"));
    }
    all_whole
}

/// A file that a manifest names, and the files of effects before it.
struct OfLog<'c> {
    entry: &'c Entry,
    /// Nothing follows on it.
    is_last: bool,
    chain: &'c mut Chain,
}

/// Checks the pending records of a process, which may not be in its log yet.
fn check_pending(path: &Path, log: Option<&Known>) -> Result<String, String> {
    let remains = Remains::read(path).map_err(|error| error.to_string())?;
    let Some(remains) = remains.filter(|remains| !remains.is_empty()) else {
        return Ok("whole; no pending records".into());
    };
    let known = log.copied().unwrap_or_default();
    let (_, epochs) = remains.behind(&known).map_err(|error| error.to_string())?;
    let records = epochs.iter().map(|epoch| epoch.records).sum();
    let mut found = format!("whole; {}", Pluralized(records, "pending record"));
    if let (Some(first), Some(last)) = (epochs.first(), epochs.last()) {
        let _ = write!(found, ", of epochs {} to {}", first.epoch, last.epoch);
    }
    match log.and_then(|log| remains.hindrance(log)) {
        _ if !remains.is_of_this_boot() => {
            found.push_str("; not usable, because the machine has been restarted since");
        }
        Some(why) => {
            let _ = write!(found, "; a start puts the file aside: {why}");
        }
        None => found.push_str("; a start appends those that the log does not have"),
    }
    Ok(found)
}

/// A line about the content of a file, or about its fault, by itself or as a file of a log.
fn check_file(path: &Path, of_log: Option<OfLog<'_>>, cut: Cut) -> Result<String, String> {
    let text = |error: io::Error| error.to_string();
    let mut file = File::open(path).map_err(text)?;
    let len = file.metadata().map_err(text)?.len();
    let mut head = Vec::new();
    (&file).take(8).read_to_end(&mut head).map_err(text)?;
    file.rewind().map_err(text)?;
    let is_named_log = path.to_string_lossy().ends_with(".effects.log");
    let is_effects = of_log.as_ref().map(|of| of.entry.kind == FileKind::Effects);
    if is_effects.unwrap_or(is_named_log || is_log(&head)) {
        return check_log(path, &file, len, of_log, cut);
    }
    let (mut keeps_expired, mut empty) = (false, None);
    if let Some(OfLog { entry, is_last, .. }) = &of_log {
        check_len(entry, len)?;
        check_base(entry, &head, len)?;
        empty = about_empty(entry, len, *is_last);
        // Later files may keep an expired key.
        keeps_expired = true;
    }
    let is_named_rdb = path.extension().is_some_and(|extension| extension == "rdb");
    let (mut found, mut from) = (String::new(), 0);
    if begins_as_rdb(&head) || is_named_rdb {
        // Later files may keep an expired key.
        let keeps_expired = keeps_expired || !is_named_rdb;
        let census = match check_rdb(&file, len, keeps_expired) {
            Ok(census) => census,
            Err((wrong, true)) if is_named_rdb => {
                return mend_rdb(path, &file, len, &wrong, cut != Cut::Nothing);
            }
            Err((wrong, _)) => return Err(wrong),
        };
        found = describe(&census);
        from = census.end;
        if from < len && is_named_rdb {
            let _ = write!(found, "; what is behind it is not loaded: {} bytes", len - from);
        }
        if from == len || is_named_rdb {
            return Ok(found);
        }
        found.push_str("; behind it: ");
    }
    if let Some(what) = empty {
        return Ok(what.into());
    }
    file.seek(SeekFrom::Start(from)).map_err(text)?;
    found.push_str(&check_commands(path, file, from, len, cut)?);
    Ok(found)
}

/// The content of an RDB file; or its fault, and whether the rest of it can be loaded.
fn check_rdb(file: &File, len: u64, keeps_expired: bool) -> Result<Census, (String, bool)> {
    let census = check(file, len, Leniency::default(), keeps_expired);
    let census = census.map_err(|error| (error.to_string(), error.is_mendable()))?;
    match check_libraries(&census.functions) {
        Ok(()) => Ok(census),
        Err(why) => Err((format!("its functions cannot be loaded: {why}"), true)),
    }
}

fn check_commands(
    path: &Path,
    mut file: File,
    from: u64,
    len: u64,
    cut: Cut,
) -> Result<String, String> {
    let text = |error: io::Error| error.to_string();
    let census = aof::check_commands(&file, from, len).map_err(text)?;
    let mut found = format!("whole; {}", Pluralized(census.commands, "command"));
    if census.transactions > 0 {
        let _ = write!(found, ", {}", Pluralized(census.transactions, "transaction"));
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
            Pluralized(census.commands, "command")
        );
    }
    if let Flaw::Read(ReadError::Malformed { at, .. }) = flaw {
        file.seek(SeekFrom::Start(at)).map_err(text)?;
        if aof::holds_commands(&file).map_err(text)? {
            return cut_commands(path, whole, len, &wrong, cut);
        }
    }
    cut_end(path, whole, len, wrong, cut)
}

/// The blocks of a file of Petrel's log.
fn check_log(
    path: &Path,
    file: &File,
    len: u64,
    of_log: Option<OfLog<'_>>,
    cut: Cut,
) -> Result<String, String> {
    let previous = of_log.as_ref().and_then(|of| of.chain.last_epoch);
    let mut reader = match BlockReader::new(file, len, previous) {
        Ok(reader) => reader,
        Err(error) => {
            // Why it is not to be there like this.
            let of_log = of_log.filter(|_| matches!(error, LogError::Torn { .. }));
            let piece = Piece { torn: len, ..Piece::default() };
            of_log.map_or(Ok(()), |of| of.chain.add(of.entry, &piece))?;
            return Err(error.to_string());
        }
    };
    let (mut blocks, mut body) = (0u64, Vec::new());
    let torn = loop {
        body.clear();
        match reader.next(&mut body) {
            Ok(Some(_)) => blocks += 1,
            Ok(None) => break None,
            Err(error @ LogError::Torn { .. }) => break Some(error),
            Err(error @ LogError::Damaged { at, lost, .. }) => {
                return cut_damage(path, at, &lost, &error, cut);
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if let Some(OfLog { entry, chain, .. }) = of_log {
        chain.add(entry, &Piece::read_by(&reader, blocks, len))?;
    }
    if let Some(error) = torn {
        return cut_end(path, reader.position(), len, error.to_string(), cut);
    }
    let mut found = format!("whole; Petrel's log, {}", Pluralized(blocks, "block"));
    if let Some(epoch) = reader.last_epoch() {
        let _ = write!(found, ", the last of epoch {epoch}");
    }
    if reader.has_ended() {
        found.push_str("; ended on purpose");
    }
    Ok(found)
}

/// Cuts off everything from byte `whole` on, if that is wanted.
fn cut_end(path: &Path, whole: u64, len: u64, wrong: String, cut: Cut) -> Result<String, String> {
    let lost = len - whole;
    if cut == Cut::Nothing {
        return Err(format!("{wrong}; --fix cuts the last {lost} bytes off"));
    }
    cut_at(path, whole).map_err(|error| format!("{wrong}; and it cannot be cut: {error}"))?;
    Ok(format!("{wrong}; its last {lost} bytes were cut off, {whole} are left"))
}

/// Cuts off everything from byte `at` on, if that is wanted where whole commands follow the damage.
/// The cut part is kept beside the file.
fn cut_commands(path: &Path, at: u64, len: u64, wrong: &str, cut: Cut) -> Result<String, String> {
    let lost = len - at;
    if cut < Cut::Damage {
        return Err(format!(
            "{wrong}; more commands follow, so it is not cut; --cut drops everything from byte {at} on: {lost} bytes"
        ));
    }
    let kept = keep_and_cut(path, at).map_err(|failure| format!("{wrong}; {failure}"))?;
    let kept = kept.display();
    Ok(format!("{wrong}; {lost} bytes were cut off, and are kept in {kept}; {at} bytes are left"))
}

/// Cuts off everything from byte `at` on, which is kept beside the file: under this name.
fn keep_and_cut(path: &Path, at: u64) -> Result<PathBuf, String> {
    let mut kept = path.as_os_str().to_owned();
    kept.push(".cut");
    let kept = PathBuf::from(kept);
    let keep = || {
        let mut from = File::open(path)?;
        from.seek(SeekFrom::Start(at))?;
        let mut to = File::create_new(&kept)?;
        io::copy(&mut from, &mut to)?;
        to.sync_all()
    };
    let done = keep().and_then(|()| cut_at(path, at));
    done.map_err(|failure| {
        format!("and what would be cut off cannot be kept in {}: {failure}", kept.display())
    })?;
    Ok(kept)
}

/// With `--cut`, cuts off everything after a damaged place of a log and keeps it beside the file.
fn cut_damage(
    path: &Path,
    at: u64,
    lost: &Lost,
    error: &LogError,
    cut: Cut,
) -> Result<String, String> {
    let mut what = format!("{} bytes, with {}", lost.bytes, Pluralized(lost.blocks, "block"));
    if let Some((first, last)) = lost.written_ms {
        let _ = write!(what, " written from {} to {}", utc(first), utc(last));
    }
    if cut < Cut::Damage {
        return Err(format!("{error}; --cut drops everything from byte {at} on: {what}"));
    }
    let kept = keep_and_cut(path, at).map_err(|failure| format!("{error}; {failure}"))?;
    Ok(format!(
        "{error}; {what} were cut off, and are kept in {}; {at} bytes are left",
        kept.display()
    ))
}

fn cut_at(path: &Path, len: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.set_len(len)?;
    file.sync_all()
}

/// A time in Unix milliseconds as a date (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn utc(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let from_0000 = days + 719_468;
    let (era, day_of_era) = (from_0000.div_euclid(146_097), from_0000.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (seconds, ms) = (rest / 1000, rest % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
}

/// Describes the contents of an RDB file.
fn describe(census: &Census) -> String {
    let mut text =
        format!("whole; RDB version {}, {}", census.version, Pluralized(census.keys(), "key"));
    for (name, count) in &census.by_type {
        let _ = write!(text, ", {count} {name}");
    }
    if census.volatile > 0 {
        let _ = write!(text, "; {} expire", census.volatile);
    }
    if census.by_database.len() > 1 {
        let _ = write!(text, "; in {} databases", census.by_database.len());
    }
    if census.databases() > u64::from(Config::default().databases) {
        let _ = write!(text, ", for `databases {}` or more", census.databases());
    }
    let functions = census.functions.len();
    if functions > 0 {
        let libraries = if functions == 1 { "library" } else { "libraries" };
        let _ = write!(text, "; {functions} {libraries} of functions");
    }
    if census.modules > 0 {
        let _ =
            write!(text, "; data of {}, which is skipped", Pluralized(census.modules, "module"));
    }
    for note in &census.notes {
        let _ = write!(text, "; {note}");
    }
    if let Some((_, version)) = census.aux.iter().find(|(name, _)| name == b"redis-ver") {
        let _ = write!(text, "; made by version {}", String::from_utf8_lossy(version));
    }
    text
}
