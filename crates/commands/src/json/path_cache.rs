//! Paths as they were parsed: a program sends the same few paths again and again, and to parse one
//! takes several allocations.

use petrel_json::{Path, PathError};
use std::cell::RefCell;
use std::rc::Rc;

/// Paths that a thread keeps; a power of two.
const PATHS: usize = 64;

/// Longest path that is kept, in bytes: what a thread keeps stays below some hundred KiB.
const TEXT_MAX: usize = 64;

thread_local! {
    /// Each at the place that its text's hash says; a path takes the place of another one.
    static CACHE: RefCell<[Option<Rc<Path>>; PATHS]> = const { RefCell::new([const { None }; PATHS]) };
}

/// The path that a text is.
///
/// # Errors
/// Those of [`Path::parse`]; they are not kept.
pub(super) fn parse(text: &str) -> Result<Rc<Path>, PathError> {
    if text.len() > TEXT_MAX {
        return Path::parse(text).map(Rc::new);
    }
    let place = place(text);
    let kept = CACHE.with_borrow(|cache| {
        cache[place].as_ref().filter(|path| path.text() == text).map(Rc::clone)
    });
    if let Some(path) = kept {
        return Ok(path);
    }
    let path = Rc::new(Path::parse(text)?);
    CACHE.with_borrow_mut(|cache| cache[place] = Some(Rc::clone(&path)));
    Ok(path)
}

fn place(text: &str) -> usize {
    // FNV-1a. Texts that collide are parsed each time.
    let hash = text
        .bytes()
        .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ hash >> 16) as usize % PATHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_parsed_once_and_gives_way_to_others() {
        let path = parse("$.a.b").unwrap();
        assert!(Rc::ptr_eq(&path, &parse("$.a.b").unwrap()));
        assert_eq!(parse("$[").unwrap_err(), Path::parse("$[").unwrap_err());
        for n in 0..1000 {
            let text = format!("$.n{n}");
            assert_eq!(parse(&text).unwrap().text(), text);
        }
        assert!(!Rc::ptr_eq(&path, &parse("$.a.b").unwrap()));
        let long = format!("$.{}", "a".repeat(TEXT_MAX));
        assert!(!Rc::ptr_eq(&parse(&long).unwrap(), &parse(&long).unwrap()));
    }
}
