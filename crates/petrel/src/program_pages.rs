//! Unmapping pages of the program and its libraries that only the start needed.
//!
//! The kernel maps files 64 KiB at a time, and leaves pages mapped for as long as there is memory.
//! Reading the configuration, building tables and joining a cluster use most of the program,
//! serving commands a fraction. Unmapped pages stay in the page cache: the next use maps them
//! again.

use std::ffi::c_void;
use std::fs;
use std::ops::Range;
use std::time::Duration;

/// Pause before the first release, after the start, and before each further one: twice the last.
/// Members of a cluster join at different times.
pub const FIRST_RELEASE: Duration = Duration::from_secs(1);

/// Longest pause before a release: the start is over then.
pub const LAST_RELEASE: Duration = Duration::from_secs(64);

/// Addresses of code and constants that are mapped for as long as the process runs.
pub struct ProgramPages(Vec<Range<usize>>);

impl ProgramPages {
    /// Finds the mappings of the program and of the libraries that it was linked with. To be
    /// called before others are loaded, which may be unmapped later.
    pub fn find() -> Self {
        ProgramPages(unmodified(&smaps()))
    }

    /// Unmaps the pages; those in use are mapped again.
    pub fn release(&self) {
        for mapping in unmodified(&smaps()).into_iter().filter(|mapping| self.0.contains(mapping)) {
            // SAFETY: a private mapping of a file, which is never unmapped; it cannot be written,
            // and no page in it differs from the file: the next access reads the same bytes. A
            // failure leaves the pages mapped.
            unsafe {
                libc::madvise(mapping.start as *mut c_void, mapping.len(), libc::MADV_DONTNEED);
            }
        }
    }
}

/// The mappings of this process; none where they cannot be read.
fn smaps() -> String {
    fs::read_to_string("/proc/self/smaps").unwrap_or_default()
}

/// Addresses of the private mappings of files that cannot be written and have no modified page,
/// such as relocated constants or a debugger's breakpoints.
fn unmodified(smaps: &str) -> Vec<Range<usize>> {
    let mut mappings = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        if let Some((range, mode, path)) = header(line) {
            let is_constant = matches!(mode, "r--p" | "r-xp") && path.starts_with('/');
            current = is_constant.then_some(range);
        } else if line.strip_prefix("Anonymous:").map(str::trim) == Some("0 kB") {
            mappings.extend(current.take());
        }
    }
    mappings
}

/// Addresses, mode and path in the first line of a mapping; `None` for other lines (proc(5)).
fn header(line: &str) -> Option<(Range<usize>, &str, &str)> {
    let (start, rest) = line.split_once('-')?;
    let (end, rest) = rest.split_once(' ')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let mut fields = rest.splitn(5, ' ');
    let mode = fields.next()?;
    Some((range, mode, fields.nth(3)?.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unmodified_mappings_of_files_are_released() {
        let smaps = "\
55d0a0000000-55d0a0002000 r--p 00000000 fe:00 12    /opt/a b/petrel
Rss:                   8 kB
Anonymous:             0 kB
55d0a0002000-55d0a0006000 r-xp 00002000 fe:00 12    /opt/a b/petrel
Anonymous:             0 kB
VmFlags: rd ex mr mw me
55d0a0006000-55d0a0007000 r-xp 00006000 fe:00 12    /opt/a b/petrel
Anonymous:             4 kB
55d0a0007000-55d0a0008000 rw-p 00007000 fe:00 12    /opt/a b/petrel
Anonymous:             0 kB
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0
Anonymous:             0 kB
7ffc00002000-7ffc00003000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
55d0a0009000-55d0a000a000 r--s 00000000 fe:00 12    /opt/a b/petrel
Anonymous:             0 kB
";
        let expected = vec![0x55d0a0000000..0x55d0a0002000, 0x55d0a0002000..0x55d0a0006000];
        assert_eq!(unmodified(smaps), expected);
        assert!(unmodified("").is_empty());
    }

    #[test]
    fn this_program_goes_on_after_a_release() {
        let pages = ProgramPages::find();
        assert!(!pages.0.is_empty());
        pages.release();
        only_unmodified_mappings_of_files_are_released();
    }
}
