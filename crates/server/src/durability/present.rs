//! Detection of data in the working directory: a server that would begin with a copy or a backup
//! does not start over them.

use crate::config::Config;
use petrel_persistence::aof::begins_as_rdb;
use petrel_persistence::log::{BlockReader, Manifest, Remains, is_log};
use petrel_persistence::rdb::{FileReader, Leniency, Section};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// A file, or the directory of the log, that holds keys or libraries of functions, or that cannot
/// be read: with `appendonly yes` or without, it is a server's data. None if all is empty.
pub(crate) fn data_here(config: &Config) -> Option<PathBuf> {
    if holds_data(&config.dbfilename) {
        return Some(config.dbfilename.clone());
    }
    let directory = PathBuf::from(config.appenddirname.lossy().into_owned());
    let name = config.appendfilename.lossy().into_owned();
    let single = PathBuf::from(&name);
    if holds_data(&single) {
        return Some(single);
    }
    log_holds_data(&directory, &name).then_some(directory)
}

fn log_holds_data(directory: &Path, name: &str) -> bool {
    let pending = directory.join(format!("{name}.pending"));
    if !matches!(Remains::read(&pending), Ok(remains) if remains.as_ref().is_none_or(Remains::is_empty))
    {
        return true;
    }
    match fs::read_to_string(directory.join(format!("{name}.manifest"))) {
        Ok(text) => match Manifest::parse(&text) {
            Ok(manifest) => {
                let files = manifest.base().into_iter().chain(manifest.logs());
                files.map(|entry| directory.join(&entry.name)).any(|file| holds_data(&file))
            }
            Err(_) => true,
        },
        // Files without their manifest are data that may be wanted.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let files = fs::read_dir(directory).into_iter().flatten().flatten();
            files.map(|file| file.path()).any(|file| file.is_file() && holds_data(&file))
        }
        Err(_) => true,
    }
}

/// Whether a file holds anything; one that is not there does not, one that cannot be read may.
fn holds_data(path: &Path) -> bool {
    match look_into(path) {
        Ok(holds) => holds,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn look_into(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut head = Vec::new();
    (&file).take(8).read_to_end(&mut head)?;
    file.rewind()?;
    if is_log(&head) {
        let read = BlockReader::new(file, len, None).and_then(|mut log| log.next(&mut Vec::new()));
        return Ok(!matches!(read, Ok(None)));
    }
    if !begins_as_rdb(&head) {
        return Ok(len > 0);
    }
    let leniency = Leniency { any_version: true, any_sum: true, any_count: true };
    let Ok(mut reader) = FileReader::new(file, len, leniency) else { return Ok(true) };
    loop {
        match reader.next_section() {
            Ok(Section::Aux { .. } | Section::Database(_) | Section::Sizes { .. }) => {}
            // Commands may follow.
            Ok(Section::End) => return Ok(reader.position() < len),
            _ => return Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_persistence::log::Directory;

    #[test]
    fn what_is_empty_is_no_data() {
        let dir = std::env::temp_dir().join(format!("petrel-present-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        assert!(!log_holds_data(&dir, "a.aof"));
        let mut log = Directory::open(&dir, "a.aof", [1; 16]).unwrap();
        log.begin_effects(0, true).unwrap();
        assert!(!log_holds_data(&dir, "a.aof"));
        let write = |name: &str, bytes: &[u8]| fs::write(dir.join(name), bytes).unwrap();
        for (bytes, holds) in [
            (&b""[..], false),
            (b"*1\r\n$4\r\nPING\r\n", true),
            (b"REDIS0011\xff\0\0\0\0\0\0\0\0", false),
            (b"REDIS0011\xff\0\0\0\0\0\0\0\0*1\r\n$4\r\nPING\r\n", true),
            (b"REDIS0011\xfe\0\0\x01a\x01b\xff\0\0\0\0\0\0\0\0", true),
            (b"REDIS", true),
            (b"PETRLOG\n", true),
        ] {
            write("file", bytes);
            assert_eq!(holds_data(&dir.join("file")), holds, "{bytes:?}");
        }
        write("file", b"");
        write("a.aof.pending", b"PETRPEND");
        assert!(log_holds_data(&dir, "a.aof"));
        fs::remove_file(dir.join("a.aof.pending")).unwrap();
        write("a.aof.manifest", b"# Petrel, files: 7\n");
        assert!(log_holds_data(&dir, "a.aof"));
        fs::remove_file(dir.join("a.aof.manifest")).unwrap();
        assert!(!log_holds_data(&dir, "a.aof"));
        write("a.aof.1.incr.aof", b"*1\r\n$4\r\nPING\r\n");
        assert!(log_holds_data(&dir, "a.aof"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
