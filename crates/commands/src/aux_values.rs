//! Values of auxiliary state ([`super::aux_state`]) and forms of unknown names.

use crate::fail::{Fail, Outcome};
use crate::scripting::libraries::List;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The whole form of auxiliary state.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuxForm {
    /// A number that grows with each change; the form is as new as the number, or newer.
    pub number: u64,
    /// The form; empty if there is nothing of the state.
    pub bytes: Vec<u8>,
}

/// A value that is auxiliary state, kept in [`Shared::aux`](crate::Shared::aux). Its default is the
/// state of a new server.
pub trait AuxValue: Any + Clone + Default + PartialEq + Send + Sync {
    /// Name in effects and files, at most 255 bytes.
    const NAME: &'static str;

    /// Encodes the value, which is not the default.
    fn encode(&self) -> Vec<u8>;

    /// Decodes a value. The bytes may be forged.
    ///
    /// # Errors
    /// If they are no such value.
    fn decode(bytes: &[u8]) -> Result<Self, Fail>;

    /// Adds the parts of another value; with `replace`, in the place of present parts.
    ///
    /// # Errors
    /// If a part is present, unless it is to be replaced.
    fn merge(&mut self, other: Self, replace: bool) -> Outcome;

    /// Approximate bytes of the value on the heap, if they can be many.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Decodes a whole form; an empty one is the default.
pub(crate) fn decode<T: AuxValue>(bytes: &[u8]) -> Result<T, Fail> {
    if bytes.is_empty() { Ok(T::default()) } else { T::decode(bytes) }
}

/// The whole form of a value.
pub(crate) fn encode<T: AuxValue>(value: &T) -> Vec<u8> {
    if *value == T::default() { Vec::new() } else { value.encode() }
}

/// Values of auxiliary state, and forms of unknown names.
#[derive(Default)]
pub struct AuxValues {
    kept: Mutex<BTreeMap<Vec<u8>, Kept>>,
    /// Serializes changes.
    changing: Mutex<()>,
    uncounted: AtomicI64,
}

#[derive(Clone, Default)]
struct Kept {
    form: AuxForm,
    /// The decoded form, once it was used.
    value: Option<Arc<dyn Any + Send + Sync>>,
    /// Bytes of the value on the heap.
    value_bytes: usize,
}

impl Kept {
    /// Approximate memory in bytes.
    fn footprint(&self, name: &[u8]) -> usize {
        size_of::<Self>() + name.len() + self.form.bytes.capacity() + self.value_bytes
    }
}

impl AuxValues {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a state.
    pub fn value<T: AuxValue>(&self) -> Arc<T> {
        let mut all = self.lock();
        let Some(kept) = all.get_mut(T::NAME.as_bytes()) else { return Arc::default() };
        let value = kept.value.clone().and_then(|value| value.downcast::<T>().ok());
        // Forms of a state that was unknown when they came were not checked.
        value.unwrap_or_else(|| {
            let value: Arc<T> = Arc::new(decode(&kept.form.bytes).unwrap_or_default());
            kept.value = Some(value.clone());
            value
        })
    }

    /// The whole form of a state of this name.
    pub(crate) fn form(&self, name: &[u8]) -> AuxForm {
        self.lock().get(name).map(|kept| kept.form.clone()).unwrap_or_default()
    }

    /// Changes a copy of a value, which replaces it unless `change` fails.
    pub(crate) fn change<T: AuxValue, R>(
        &self,
        change: impl FnOnce(&mut T) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.value::<T>();
        let mut value = T::clone(&before);
        let result = change(&mut value)?;
        if value != *before {
            let bytes = value.heap_bytes();
            self.put(T::NAME.as_bytes(), encode(&value), Some((Arc::new(value), bytes)));
        }
        Ok(result)
    }

    /// Stores the form of an unknown name.
    pub(crate) fn keep(&self, name: &[u8], bytes: &[u8]) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.put(name, bytes.to_vec(), None);
    }

    /// Stores a form, and its value with the bytes of that if it was decoded.
    fn put(&self, name: &[u8], bytes: Vec<u8>, value: Option<(Arc<dyn Any + Send + Sync>, usize)>) {
        let mut all = self.lock();
        let kept = all.entry(name.to_vec()).or_default();
        let before = if kept.form.number == 0 { 0 } else { kept.footprint(name) };
        kept.form = AuxForm { number: kept.form.number + 1, bytes };
        kept.value_bytes = value.as_ref().map_or(0, |(_, bytes)| *bytes);
        kept.value = value.map(|(value, _)| value);
        self.uncounted.fetch_add(kept.footprint(name) as i64 - before as i64, Relaxed);
    }

    /// Removes a form.
    pub(crate) fn remove(&self, name: &[u8]) -> Option<Vec<u8>> {
        let kept = self.lock().remove(name)?;
        self.uncounted.fetch_sub(kept.footprint(name) as i64, Relaxed);
        Some(kept.form.bytes)
    }

    /// Names of all states that were ever changed.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        self.lock().keys().cloned().collect()
    }

    /// Growth of the forms' memory since the last call, in bytes: to be counted as used memory.
    pub(crate) fn take_uncounted(&self) -> i64 {
        self.uncounted.swap(0, Relaxed)
    }
}

/// State that a command changes in the place of the present one, for members to agree on.
pub(crate) struct Draft {
    /// The function libraries.
    pub libraries: List,
    /// Whole forms of changed states.
    pub changed: BTreeMap<&'static str, Vec<u8>>,
}
