//! `petrel check --fix` of an RDB file: its loadable part replaces it, the rest is kept beside it.

use petrel_persistence::rdb::FileError;
use petrel_persistence::{Mended, Outputs, mend};
use petrel_server::commands::check_libraries;
use petrel_server::observation::pluralized::Pluralized;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// Parts that are left out of a file and printed; all of them are named in the file that keeps
/// them.
const SHOWN_MAX: u64 = 100;

/// The file as it was.
const DAMAGED: &str = ".damaged";
/// The file for the parts that are left out.
const SKIPPED: &str = ".skipped";
/// The mended file, until it replaces the damaged one.
const PART: &str = ".fixing";

/// Says what could be loaded of a file that is `wrong`, or with `fixes` makes it one that can be
/// loaded.
pub fn mend_rdb(
    path: &Path,
    file: &File,
    len: u64,
    wrong: &str,
    fixes: bool,
) -> Result<String, String> {
    let because = |error: FileError| format!("{wrong}; and it cannot be fixed: {error}");
    if !fixes {
        let mended = examine(path, file, len, None).map_err(because)?;
        return Err(format!(
            "{wrong}; --fix keeps {}, and puts what it leaves out into {}: {}{}",
            Pluralized(mended.keys, "key"),
            beside(path, SKIPPED).display(),
            left_out(&mended),
            doubt(&mended)
        ));
    }
    let mended = fix(path, file, len).map_err(because)?;
    Ok(format!(
        "{wrong}; fixed: {} are kept, {} are left out and kept in {}, the file as it was in {}{}",
        Pluralized(mended.keys, "key"),
        left_out(&mended),
        beside(path, SKIPPED).display(),
        beside(path, DAMAGED).display(),
        doubt(&mended)
    ))
}

fn left_out(mended: &Mended) -> String {
    format!("{} of {} bytes", Pluralized(mended.parts, "part"), mended.bytes)
}

fn doubt(mended: &Mended) -> &'static str {
    match mended.is_sum_wrong {
        true => "; its checksum is wrong, so that values which can be read may be damaged too",
        false => "",
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(suffix);
    name.into()
}

/// Goes through the file and prints the parts that are left out.
fn examine(
    path: &Path,
    file: &File,
    len: u64,
    outputs: Option<Outputs<'_>>,
) -> Result<Mended, FileError> {
    let mut count = 0;
    let mended = mend(file, len, &check_libraries, outputs, &mut |part| {
        count += 1;
        if count <= SHOWN_MAX {
            eprintln!("{}: {part}", path.display());
        }
    })?;
    if count > SHOWN_MAX {
        eprintln!("{}: and {} more parts", path.display(), count - SHOWN_MAX);
    }
    Ok(mended)
}

/// Replaces the file by its loadable part. Nothing has changed if that fails.
fn fix(path: &Path, file: &File, len: u64) -> Result<Mended, FileError> {
    let (skipped, damaged, part) =
        (beside(path, SKIPPED), beside(path, DAMAGED), beside(path, PART));
    for kept in [&skipped, &damaged] {
        if kept.symlink_metadata().is_ok() {
            let why = format!("{} is there already: move it away", kept.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why).into());
        }
    }
    let fixed = write_both(path, (file, len), &part, &skipped).and_then(|mended| {
        // The name is never without a file: a server that found none would begin without data.
        if fs::hard_link(path, &damaged).is_err() {
            fs::copy(path, &damaged)?;
            File::open(&damaged)?.sync_all()?;
        }
        fs::rename(&part, path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(mended)
    });
    if fixed.is_err() && part.exists() {
        // Before the rename nothing has changed, apart from the files that were made here.
        for made in [&part, &skipped, &damaged] {
            let _ = fs::remove_file(made);
        }
    }
    fixed
}

fn write_both(
    path: &Path,
    (file, len): (&File, u64),
    part: &Path,
    skipped: &Path,
) -> Result<Mended, FileError> {
    let mut kept = BufWriter::new(File::create(part)?);
    let mut left_out = BufWriter::new(File::create_new(skipped)?);
    let metadata = file.metadata()?;
    for made in [&kept, &left_out] {
        made.get_ref().set_permissions(metadata.permissions())?;
        // The server's user has to be able to read it, whichever user runs this.
        fchown(made.get_ref(), Some(metadata.uid()), Some(metadata.gid()))?;
    }
    let outputs = Outputs { kept: &mut kept, left_out: &mut left_out };
    let mended = examine(path, file, len, Some(outputs))?;
    for mut written in [kept, left_out] {
        written.flush()?;
        written.get_ref().sync_all()?;
    }
    Ok(mended)
}
