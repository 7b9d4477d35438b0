//! `set-proc-title`: what process listings show. Linux shows the memory where the arguments of the
//! program were put at its start; a title longer than they were runs on into the memory of the
//! environment, which is moved away before.

use std::ffi::{CStr, c_char};
use std::sync::Mutex;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// The memory that listings show.
pub struct Title(Mutex<Room>);

struct Room {
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to the process for as long as it runs, and only the holder of the lock
// writes it.
unsafe impl Send for Room {}

impl Title {
    /// Takes the memory over. The calling thread is the only one, and nothing keeps references to
    /// arguments or environment: the standard library copies both.
    pub fn claim() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let [arg_start, arg_end, env_start, env_end] = bounds(&stat)?;
        // Its variables are copied to the heap, for good.
        //
        // SAFETY: `environ` is null, or a list of strings that ends with null, which no other
        // thread uses meanwhile, as the caller says. The copies are never freed.
        unsafe {
            let mut variable = environ;
            while !variable.is_null() && !(*variable).is_null() {
                *variable = CStr::from_ptr(*variable).to_owned().into_raw();
                variable = variable.add(1);
            }
        }
        let end = if env_start == arg_end { env_end } else { arg_end };
        // Without its arguments the program has no room for a title either.
        let len = end.checked_sub(arg_start).filter(|&len| len > 1 && arg_start != 0)?;
        Some(Title(Mutex::new(Room { start: arg_start as *mut u8, len })))
    }

    /// Shows `title`, as much of it as there is room for.
    pub fn show(&self, title: &str) {
        let Ok(room) = self.0.lock() else { return };
        let shown = title.len().min(room.len - 1);
        // SAFETY: the kernel put the arguments (and behind them the environment) there, writable,
        // `len` bytes of them; nothing refers to them any more.
        unsafe {
            std::ptr::copy_nonoverlapping(title.as_ptr(), room.start, shown);
            std::ptr::write_bytes(room.start.add(shown), 0, room.len - shown);
        }
    }
}

/// Start and end of the arguments and of the environment: fields 48 to 51 of proc_pid_stat(5). The
/// second field, a name in parentheses, may hold anything.
fn bounds(stat: &str) -> Option<[usize; 4]> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some([field(48)?, field(49)?, field(50)?, field(51)?])
}

#[cfg(test)]
mod tests {
    use super::bounds;

    #[test]
    fn bounds_are_found_behind_any_name() {
        let numbers: Vec<String> = (4..=52).map(|n| (n * 10).to_string()).collect();
        let stat = format!("1 (a) b ) S {}", numbers.join(" "));
        assert_eq!(bounds(&stat), Some([480, 490, 500, 510]));
        assert_eq!(bounds("1 (a) S 1 2"), None);
        assert_eq!(bounds(""), None);
    }
}
