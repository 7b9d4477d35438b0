//! The libraries of functions that the server knows, in a list that changes where it lies unless
//! another thread reads it at that moment; every thread loads for itself the libraries whose
//! functions it calls.

use super::key_use::KeyUse;
use super::shebang::Flags;
use crate::fail::Fail;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A library.
#[derive(Debug)]
pub struct Library {
    /// Its name.
    pub name: String,
    /// Its text, the first line with its name included.
    pub code: Box<[u8]>,
    /// Its functions.
    pub functions: Vec<Function>,
}

impl Library {
    /// Bytes that it takes in a list, about.
    fn footprint(&self) -> usize {
        /// Bytes of places in ordered and other tables, for each name.
        const PLACE_BYTES: usize = 128;
        let of_function = |function: &Function| {
            let description = function.description.as_ref().map_or(0, Vec::len);
            size_of::<Function>() + PLACE_BYTES + 2 * function.name.len() + description
        };
        let functions = self.functions.iter().map(of_function).sum::<usize>();
        size_of::<Self>() + PLACE_BYTES + 2 * self.name.len() + self.code.len() + functions
    }
}

/// A function of a library.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What is said of it.
    pub description: Option<Vec<u8>>,
    /// What it says of itself.
    pub flags: Flags,
    /// Use of keys, as far as known.
    pub key_use: KeyUse,
}

/// A list of libraries, which does not change.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// By name.
    pub libraries: BTreeMap<String, Arc<Library>>,
    /// Functions by name in small letters: the library of each, and its place there.
    pub functions: HashMap<Vec<u8>, (Arc<Library>, usize)>,
}

impl List {
    /// Adds a library, in place of one of its name if `replace`.
    ///
    /// # Errors
    /// If there is one of its name, or another has a function of the name of one of its.
    pub fn add(&mut self, library: Arc<Library>, replace: bool) -> Result<(), Fail> {
        if !replace && self.libraries.contains_key(&library.name) {
            return Err(Fail::new(format!("ERR Library '{}' already exists", library.name)));
        }
        for function in &library.functions {
            let key = function.name.to_ascii_lowercase().into_bytes();
            if let Some((other, _)) = self.functions.get(&key)
                && other.name != library.name
            {
                return Err(Fail::new(format!("ERR Function {} already exists", function.name)));
            }
        }
        self.remove(&library.name);
        for (place, function) in library.functions.iter().enumerate() {
            let key = function.name.to_ascii_lowercase().into_bytes();
            self.functions.insert(key, (library.clone(), place));
        }
        self.libraries.insert(library.name.clone(), library);
        Ok(())
    }

    /// Removes a library; false if there is none of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase().into_bytes());
        }
        true
    }
}

/// The libraries that the server knows.
#[derive(Debug, Default)]
pub struct Libraries {
    list: RwLock<Arc<List>>,
    /// One change at a time.
    changing: Mutex<()>,
    changes: AtomicU64,
    /// Bytes of the libraries as they were counted last.
    counted: AtomicUsize,
    uncounted: AtomicI64,
}

impl Libraries {
    /// The libraries as they are now.
    pub fn list(&self) -> Arc<List> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes of the texts.
    pub fn text_bytes(&self) -> usize {
        self.list().libraries.values().map(|library| library.code.len()).sum()
    }

    /// Growth of the libraries' memory since the last call, in bytes: to be counted as used memory.
    #[inline]
    pub fn take_uncounted(&self) -> i64 {
        if self.uncounted.load(Relaxed) == 0 { 0 } else { self.uncounted.swap(0, Relaxed) }
    }

    /// Records the memory of the libraries during a change.
    fn count(&self, list: &List) {
        let bytes = list.libraries.values().map(|library| library.footprint()).sum();
        let before = self.counted.swap(bytes, Relaxed);
        self.uncounted.fetch_add(bytes as i64 - before as i64, Relaxed);
    }

    /// Changes with every change.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Adds a library, in place of one of its name if `replace`.
    ///
    /// # Errors
    /// As [`List::add`].
    pub fn add(&self, library: Arc<Library>, replace: bool) -> Result<(), Fail> {
        self.change_in_place(|list| list.add(library, replace))
    }

    /// Removes a library.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn remove(&self, name: &str) -> Result<(), Fail> {
        self.change_in_place(|list| match list.remove(name) {
            true => Ok(()),
            false => Err(Fail::fixed("ERR Library not found")),
        })
    }

    /// Makes a change that fails, if it does, before it has changed anything: what there is is not
    /// copied.
    fn change_in_place(
        &self,
        change: impl FnOnce(&mut List) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut list))?;
        self.count(&list);
        self.changes.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Changes a copy of the list, which takes its place unless `change` fails.
    ///
    /// # Errors
    /// As `change`.
    pub fn change(&self, change: impl FnOnce(&mut List) -> Result<(), Fail>) -> Result<(), Fail> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = List::clone(&self.list());
        change(&mut list)?;
        self.count(&list);
        *self.list.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(list);
        self.changes.fetch_add(1, Relaxed);
        Ok(())
    }
}
