//! Cache of parsed paths. Programs send the same few paths again and again, and parsing one takes
//! several allocations.

use petrel_json::{Path, PathError};
use petrel_keyspace::{Handle, Transient};
use std::sync::Arc;

/// Number of paths that a thread caches; a power of two.
const PATHS: usize = 64;

/// Maximum length of a cached path, in bytes.
const TEXT_MAX: usize = 64;

/// Maximum memory of a thread's cached paths with their compiled patterns, in bytes.
const BYTES_MAX: usize = 2 << 20;

/// Cached paths of a thread, indexed by a hash of the text. A path replaces another with the same
/// index.
#[derive(Default)]
pub(crate) struct PathCache {
    paths: Box<[Option<Kept>]>,
    /// Bytes of the paths, counted as used memory.
    bytes: usize,
    counted: Option<Transient>,
    /// Bit per index: paths with patterns that were used since they were last measured.
    used: u64,
}

struct Kept {
    path: Arc<Path>,
    bytes: usize,
}

impl PathCache {
    /// Parses a path, or returns it from the cache.
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
        // Patterns are compiled on first use, so their memory is measured afterwards.
        self.used |= 1 << place;
    }

    fn forget(&mut self, place: usize) {
        if let Some(kept) = self.paths[place].take() {
            self.bytes -= kept.bytes;
        }
    }

    /// Updates the counted memory of the paths after a command, and drops some above the limit.
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
        // From the next index on, so that the most recent path is dropped last.
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
