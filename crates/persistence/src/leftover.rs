//! Files that a process was writing when it was killed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

/// Removes the files of a directory that are named after a process which was writing them and is
/// gone: `prefix`, its number, `suffix`. Only those that are `wanted` gone; their names.
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
        // It is open right here; who writes it in this process has locked it.
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
