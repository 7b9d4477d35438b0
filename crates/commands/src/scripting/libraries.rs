//! The libraries of functions. Changes to the list are made in place, unless another thread is
//! reading it. Every thread loads for itself the libraries that it uses.

use super::key_use::KeyUse;
use super::shebang::Flags;
use crate::fail::Fail;
use petrel_keyspace::aux_state::put_texts;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Library of functions.
#[derive(Debug)]
pub struct Library {
    /// Name of the library.
    pub name: String,
    /// Source text, including the first line with the name.
    pub code: Box<[u8]>,
    /// Functions that the library declares.
    pub functions: Vec<Function>,
}

impl Library {
    /// Approximate memory in a list, in bytes.
    fn footprint(&self) -> usize {
        /// Bytes per name in maps.
        const PLACE_BYTES: usize = 128;
        let of_function = |function: &Function| {
            let description = function.description.as_ref().map_or(0, Vec::len);
            size_of::<Function>() + PLACE_BYTES + 2 * function.name.len() + description
        };
        let functions = self.functions.iter().map(of_function).sum::<usize>();
        size_of::<Self>() + PLACE_BYTES + 2 * self.name.len() + self.code.len() + functions
    }
}

/// Function of a library.
#[derive(Debug)]
pub struct Function {
    /// Name of the function.
    pub name: String,
    /// Description that the library gave.
    pub description: Option<Vec<u8>>,
    /// Flags that the library gave.
    pub flags: Flags,
    /// Use of keys, as far as known.
    pub key_use: KeyUse,
}

/// Immutable list of libraries.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// By name.
    pub libraries: BTreeMap<String, Arc<Library>>,
    /// Functions by lower-case name: the library, and the index in it.
    pub functions: HashMap<Vec<u8>, (Arc<Library>, usize)>,
}

impl List {
    /// Adds a library; with `replace`, instead of an existing one of its name.
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

    /// Whole form as auxiliary state: the source texts; empty if there are no libraries.
    pub fn form(&self) -> Vec<u8> {
        let texts: Vec<_> = self.libraries.values().map(|library| &library.code).collect();
        if texts.is_empty() { Vec::new() } else { put_texts(&texts) }
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

/// Libraries of the server.
#[derive(Debug, Default)]
pub struct Libraries {
    list: RwLock<Arc<List>>,
    /// Serializes changes.
    changing: Mutex<()>,
    changes: AtomicU64,
    /// Bytes of the libraries when they were last counted.
    counted: AtomicUsize,
    uncounted: AtomicI64,
}

impl Libraries {
    /// The current libraries.
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

    /// Adds a library; with `replace`, instead of an existing one of its name.
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

    /// Changes the list in place, without a copy. `change` must not fail after it has changed
    /// anything.
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

    /// Changes a copy of the list, which replaces it unless `change` fails.
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
