//! Locks that programs share.

use parking_lot::Mutex;
use petrel_client::{Lock, LockOptions, Result};
use pyo3::prelude::*;

use crate::client::{Core, Shared, duration, made};
use crate::{argument, failure};

/// Waits for a lock and holds it.
pub(crate) fn acquire(
    core: &Bound<'_, Core>,
    key: &Bound<'_, PyAny>,
    ttl: f64,
    wait: Option<f64>,
) -> PyResult<Py<PyAny>> {
    let py = core.py();
    let (key, options) = (argument::bytes(key)?, LockOptions { ttl: duration(py, ttl)? });
    let wait = wait.map(|seconds| duration(py, seconds)).transpose()?;
    let (shared, owner) = (core.get().shared(py)?, core.clone().unbind());
    core.get().finish(
        py,
        Box::pin(async move {
            let acquired = take(&shared, &key, options, wait).await;
            made(move |py| match acquired.map_err(|error| failure::of(py, &error))? {
                Some(lock) => {
                    let held = Held { core: owner, lock: Mutex::new(Some(lock)) };
                    Ok(Py::new(py, held)?.into_any())
                }
                None => Ok(py.None()),
            })
        }),
    )
}

async fn take(
    shared: &Shared,
    key: &[u8],
    options: LockOptions,
    wait: Option<std::time::Duration>,
) -> Result<Option<Lock>> {
    let locks = shared.locks().await?;
    match wait {
        None => locks.lock(key, options).await.map(Some),
        Some(wait) if wait.is_zero() => locks.try_lock(key, options).await,
        Some(wait) => match tokio::time::timeout(wait, locks.lock(key, options)).await {
            Ok(lock) => lock.map(Some),
            Err(_) => Ok(None),
        },
    }
}

/// A lock that is held, and extended until it is released.
#[pyclass(frozen, module = "petrel._petrel")]
pub(crate) struct Held {
    core: Py<Core>,
    lock: Mutex<Option<Lock>>,
}

#[pymethods]
impl Held {
    /// Whether it is known to be lost.
    fn is_lost(&self) -> bool {
        self.lock.lock().as_ref().is_none_or(Lock::is_lost)
    }

    /// Releases it; false if it was lost before.
    fn release(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let lock = self.lock.lock().take();
        self.core.get().finish(
            py,
            Box::pin(async move {
                let released = match lock {
                    Some(lock) => lock.release().await,
                    None => Ok(false),
                };
                made(move |py| {
                    let released = released.map_err(|error| failure::of(py, &error))?;
                    Ok(pyo3::types::PyBool::new(py, released).to_owned().into_any().unbind())
                })
            }),
        )
    }
}
