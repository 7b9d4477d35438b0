//! Has the linker pack the program's relocations where this system can unpack them: some 20,000
//! addresses in tables (commands, parameters, messages) take 8 KB of the file instead of 500, which
//! every start would have to read.

use std::env;

/// The first release of the GNU C library that knows packed relocations (`DT_RELR`).
const GLIBC_WITH_RELR: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of_target = |name| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let glibc_on_linux = of_target("OS") == "linux" && of_target("ENV") == "gnu";
    // Of another machine's C library nothing is known.
    let for_this_machine = env::var("HOST") == env::var("TARGET");
    if glibc_on_linux && for_this_machine && glibc_version() >= Some(GLIBC_WITH_RELR) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
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
