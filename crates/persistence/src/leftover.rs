//! Files that a process was writing when it was killed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time as a part of a file's name: `20261121T200301Z`.
pub fn stamp() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    stamp_of(now)
}

/// The date is found as in Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn stamp_of(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}T{hours:02}{minutes:02}{seconds:02}Z")
}

/// Makes a file for others to know that it is being written: it is locked (flock(2)) until it is
/// closed, or the process is gone.
///
/// # Errors
/// If it cannot be made.
pub fn create_locked(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    // A file system without locks leaves it to the process's number.
    let _ = file.try_lock();
    Ok(file)
}

/// Removes temporary files of processes that no longer exist: named `prefix`, process id, `suffix`,
/// in this directory. Only those for which `wanted` returns true. Returns their names.
pub fn sweep(
    directory: &Path,
    prefix: &str,
    suffix: &str,
    wanted: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let Ok(files) = fs::read_dir(directory) else { return Vec::new() };
    let mut removed = Vec::new();
    for file in files.flatten() {
        let (name, path) = (file.file_name().to_string_lossy().into_owned(), file.path());
        let pid = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix));
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else { continue };
        if wanted(&path) && is_abandoned(&path, pid) && fs::remove_file(&path).is_ok() {
            removed.push(name);
        }
    }
    removed
}

/// Whether it is certain that the process with this number, which the file is named after, does not
/// write it any more, and that no other does.
fn is_abandoned(path: &Path, pid: u32) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // The lock is seen from other containers too, where the number says nothing.
    !may_have_open(pid, &file) && file.try_lock().is_ok()
}

/// Whether a process has a file open, or cannot be asked.
fn may_have_open(pid: u32, file: &File) -> bool {
    let Ok(wanted) = file.metadata() else { return true };
    if pid == std::process::id() {
        // The file is open in this process; its writer has locked it.
        return false;
    }
    let open = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => open,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    open.flatten().any(|link| {
        fs::metadata(link.path())
            .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn times_are_dates() {
        assert_eq!(stamp_of(0), "19700101T000000Z");
        assert_eq!(stamp_of(1_795_291_381), "20261121T200301Z");
        assert_eq!(stamp_of(951_782_399), "20000228T235959Z");
        assert_eq!(stamp_of(951_782_400), "20000229T000000Z");
    }

    #[test]
    fn a_file_is_abandoned_once_its_process_is_gone() {
        let path = std::env::temp_dir().join(format!("petrel-leftover-{}", std::process::id()));
        let own = create_locked(&path).unwrap();
        assert!(!is_abandoned(&path, std::process::id()));
        drop(own);
        assert!(is_abandoned(&path, std::process::id()));
        // Another process that has it open, without a lock.
        let out = File::options().append(true).open(&path).unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(out).spawn().unwrap();
        assert!(!is_abandoned(&path, child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_abandoned(&path, child.id()));
        fs::remove_file(&path).unwrap();
        assert!(!is_abandoned(&path, child.id()));
    }
}
