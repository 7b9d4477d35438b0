//! Tells the program which commit it is built from.
//!
//! Has the linker pack the program's relocations where this system can unpack them: some 20,000
//! addresses in tables (commands, parameters, messages) take 8 KB of the file instead of 500, which
//! every start would have to read.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first release of the GNU C library that knows packed relocations (`DT_RELR`).
const GLIBC_WITH_RELR: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=PETREL_COMMIT={}", commit());
    let of_target = |name| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let glibc_on_linux = of_target("OS") == "linux" && of_target("ENV") == "gnu";
    // Of another machine's C library nothing is known.
    let for_this_machine = env::var("HOST") == env::var("TARGET");
    if glibc_on_linux && for_this_machine && glibc_version() >= Some(GLIBC_WITH_RELR) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Abbreviated id of the commit, from the variable `PETREL_COMMIT` (for packages built from an
/// archive), else from git; `no commit known` without both.
///
/// Development builds do not ask git: each commit would rebuild all tests of this package.
fn commit() -> String {
    println!("cargo:rerun-if-env-changed=PETREL_COMMIT");
    match env::var("PETREL_COMMIT") {
        Ok(commit) if !commit.is_empty() => commit,
        _ if env::var("PROFILE").as_deref() != Ok("release") => "development build".into(),
        _ => git_commit().unwrap_or_else(|| "no commit known".into()),
    }
}

/// The commit of this checkout; none if another repository contains these sources.
fn git_commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(&root).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim_end_matches('\n').to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    if PathBuf::from(git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // A commit on a branch changes the second only.
    for name in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(&["rev-parse", "--git-path", name])?);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Major and minor release of the C library that this program runs with.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn glibc_version() -> Option<(u32, u32)> {
    // SAFETY: returns a constant string that ends in a zero byte.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let mut parts = version.to_str().ok()?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn glibc_version() -> Option<(u32, u32)> {
    None
}
