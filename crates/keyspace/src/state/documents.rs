//! A thread's changes of documents that indexes cover, until they are applied.

use crate::structures::key_hash::KeyHash;
use petrel_search::index::batch::Batch;
use petrel_search::index::coverage::{Touched, View};
use petrel_search::index::fence::Pending;
use std::ops::Range;
use std::sync::Arc;

/// Changes of documents: noted with each effect, copied before the unlock, applied after it.
pub(crate) struct Documents {
    /// The indexes.
    pub view: Arc<View>,
    /// The thread's place at the fence.
    pub pending: Arc<Pending>,
    /// Changed documents.
    pub noted: Vec<Noted>,
    /// Keys of `noted`.
    pub keys: Vec<u8>,
    pub batch: Batch,
    /// Hashes of the keys of `batch`.
    pub departed: Vec<u64>,
}

/// A changed document in one index.
pub(crate) struct Noted {
    pub db: u16,
    pub key: Range<usize>,
    pub hash: KeyHash,
    /// Position of the index in the view.
    pub index: u32,
    pub touched: Touched,
}

impl Documents {
    pub fn new(view: Arc<View>, pending: Arc<Pending>) -> Self {
        Documents {
            view,
            pending,
            noted: Vec::new(),
            keys: Vec::new(),
            batch: Batch::default(),
            departed: Vec::new(),
        }
    }

    /// Notes the touched fields of a document in one index. The last documents are compared, so
    /// that one command notes a document once.
    pub fn note(&mut self, db: u16, key: (&[u8], KeyHash), index: u32, touched: Touched) {
        let known = self.noted.iter_mut().rev().take(4).find(|noted| {
            noted.index == index
                && noted.hash == key.1
                && noted.db == db
                && self.keys[noted.key.clone()] == *key.0
        });
        if let Some(known) = known {
            known.touched.0 |= touched.0;
            return;
        }
        let start = self.keys.len();
        match self.noted.last() {
            // Several indexes of one key.
            Some(last) if last.hash == key.1 && self.keys[last.key.clone()] == *key.0 => {
                let key_range = last.key.clone();
                self.noted.push(Noted { db, key: key_range, hash: key.1, index, touched });
            }
            _ => {
                self.keys.extend_from_slice(key.0);
                let key_range = start..self.keys.len();
                self.noted.push(Noted { db, key: key_range, hash: key.1, index, touched });
            }
        }
    }
}
