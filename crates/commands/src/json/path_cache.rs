//! Paths as they were parsed: a program sends the same few paths again and again, and to parse one
//! takes several allocations.

use petrel_json::{Path, PathError};
use petrel_keyspace::{Handle, Transient};
use std::sync::Arc;

/// Paths that a thread keeps; a power of two.
const PATHS: usize = 64;

/// Longest path that is kept, in bytes.
const TEXT_MAX: usize = 64;

/// Bytes of memory that the kept paths of a thread take, with their compiled patterns.
const BYTES_MAX: usize = 2 << 20;

/// The paths of a thread: each at the place that its text's hash says; a path takes the place of
/// another one.
#[derive(Default)]
pub(crate) struct PathCache {
    paths: Box<[Option<Kept>]>,
    /// Bytes of the paths, counted as used memory.
    bytes: usize,
    counted: Option<Transient>,
    /// Paths with patterns that have been used since they were measured: a bit for each place.
    used: u64,
}

struct Kept {
    path: Arc<Path>,
    bytes: usize,
}

impl PathCache {
    /// The path that a text is.
    ///
    /// # Errors
    /// Errors of [`Path::parse`]; they are not cached.
    pub fn parse(&mut self, text: &str) -> Result<Arc<Path>, PathError> {
        if text.len() > TEXT_MAX {
            return Path::parse(text).map(Arc::new);
        }
        let place = place(text);
        let kept = self.paths.get(place).and_then(Option::as_ref);
        if let Some(Kept { path, .. }) = kept.filter(|kept| kept.path.text() == text) {
            self.used |= u64::from(path.has_patterns()) << place;
            return Ok(path.clone());
        }
        let path = Arc::new(Path::parse(text)?);
        self.keep(place, &path);
        Ok(path)
    }

    fn keep(&mut self, place: usize, path: &Arc<Path>) {
        if self.paths.is_empty() {
            self.paths = (0..PATHS).map(|_| None).collect();
        }
        self.forget(place);
        self.bytes += path.footprint();
        self.paths[place] = Some(Kept { path: path.clone(), bytes: path.footprint() });
        // What patterns take is known once they have been used.
        self.used |= 1 << place;
    }

    fn forget(&mut self, place: usize) {
        if let Some(kept) = self.paths[place].take() {
            self.bytes -= kept.bytes;
        }
    }

    /// Counts the memory of the paths after a command, and forgets some if it is too much.
    #[inline]
    pub fn settle(&mut self, ks: &Handle) {
        if self.used != 0 {
            self.measure(ks);
        }
    }

    #[cold]
    fn measure(&mut self, ks: &Handle) {
        let mut used = std::mem::take(&mut self.used);
        let first = used.trailing_zeros() as usize;
        while used != 0 {
            let place = used.trailing_zeros() as usize;
            used &= used - 1;
            if let Some(kept) = &mut self.paths[place] {
                let bytes = kept.path.footprint();
                self.bytes = self.bytes - kept.bytes + bytes;
                kept.bytes = bytes;
            }
        }
        // From the next place on, so that the most recent path goes last.
        for place in (first + 1..=first + PATHS).map(|place| place % PATHS) {
            if self.bytes <= BYTES_MAX {
                break;
            }
            self.forget(place);
        }
        self.counted.get_or_insert_with(|| ks.transient()).count(self.bytes);
    }

    /// Frees all paths.
    pub fn clear(&mut self) {
        *self = PathCache::default();
    }
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
    use petrel_json::{Parse, Work, parse};
    use petrel_keyspace::{Keyspace, Options};
    use std::ops::ControlFlow;

    #[test]
    fn a_path_is_parsed_once_and_gives_way_to_others() {
        let mut cache = PathCache::default();
        let path = cache.parse("$.a.b").unwrap();
        assert!(Arc::ptr_eq(&path, &cache.parse("$.a.b").unwrap()));
        assert_eq!(cache.parse("$[").unwrap_err(), Path::parse("$[").unwrap_err());
        for n in 0..1000 {
            let text = format!("$.n{n}");
            assert_eq!(cache.parse(&text).unwrap().text(), text);
        }
        assert!(!Arc::ptr_eq(&path, &cache.parse("$.a.b").unwrap()));
        let long = format!("$.{}", "a".repeat(TEXT_MAX));
        assert!(!Arc::ptr_eq(&cache.parse(&long).unwrap(), &cache.parse(&long).unwrap()));
    }

    #[test]
    fn patterns_are_counted_and_limited() {
        let keyspace = Keyspace::new(&Options { stripes: 4, ..Options::default() });
        let ks = keyspace.attach();
        let (mut cache, empty) = (PathCache::default(), keyspace.stats().used);
        let document = parse("[\"wörd\"]".as_bytes(), Parse::default()).unwrap();
        for n in 0..200 {
            let path = cache.parse(&format!("$[?@ =~ '\\\\w{{{}}}{n}']", 1 + n % 20)).unwrap();
            let search = path.search(document.root(), &mut Work::default(), &mut |_, _, _| {
                ControlFlow::Continue(())
            });
            assert_eq!(search, Ok(()));
            cache.settle(&ks);
            assert!(cache.bytes <= BYTES_MAX, "{} bytes", cache.bytes);
            assert_eq!(keyspace.stats().used - empty, cache.bytes as u64);
        }
        assert!(cache.bytes > BYTES_MAX / 2, "{} bytes", cache.bytes);
        cache.clear();
        assert_eq!(keyspace.stats().used, empty);
    }
}
