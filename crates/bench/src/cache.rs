//! Files that are kept for later runs, in the directory of this user's caches.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The directory of this program's own.
pub fn directory() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    cache.or_else(home).unwrap_or_else(env::temp_dir).join("petrel-bench")
}

/// Makes the directory of a file.
pub fn make_room_for(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Writes a file beside the old one and then in its place.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_room_for(path)?;
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let written = || {
        let mut file = fs::File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

/// Writes a file unless it has this content already: tools rebuild from newer files.
pub fn write_if_new(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|is| is == text.as_bytes()) {
        return Ok(());
    }
    write(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_the_same_is_not_written_again() {
        let root = env::temp_dir().join(format!("petrel-cache-{}", std::process::id()));
        let path = root.join("a/b");
        write_if_new(&path, "one").unwrap();
        let old = fs::File::open(&path).unwrap();
        old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        write_if_new(&path, "one").unwrap();
        let modified = || fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(modified(), std::time::SystemTime::UNIX_EPOCH);
        write_if_new(&path, "two").unwrap();
        assert!(modified() > std::time::SystemTime::UNIX_EPOCH);
        fs::remove_dir_all(&root).unwrap();
    }
}
