//! Replies kept in the process.

use petrel_client::{Result, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::bridge::{Bridge, Work};
use crate::client::Core;
use crate::remote::Near;
use crate::runtime::{self, BoxFuture};
use crate::{argument, command, failure};

/// A cache in the process, which the server invalidates.
#[pyclass(frozen, module = "petrel._petrel")]
pub(crate) struct Cache {
    core: Py<Core>,
    cache: Near,
}

impl Cache {
    pub(crate) fn new(core: Py<Core>, cache: Near) -> Self {
        Self { core, cache }
    }
}

#[pymethods]
impl Cache {
    /// Runs a command: `run(command, argument, ...)`.
    #[pyo3(signature = (*call))]
    fn run<'py>(&self, call: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (py, core) = (call.py(), self.core.get());
        let (template, arguments) = command::split(call)?;
        let command = template.get().with(arguments)?;
        let cached = self.cache.cached(&command);
        if !core.is_async()
            && let Some(reply) = cached
        {
            return template.get().convert(py, &reply, core.decoding()).map(|it| it.into_bound(py));
        }
        let cache = self.cache.clone();
        let future: BoxFuture<Result<Value>> = match core.is_async().then_some(cached).flatten() {
            Some(reply) => Box::pin(std::future::ready(Ok(reply))),
            None => Box::pin(async move { cache.call(command).await }),
        };
        if core.is_async() {
            let work = Work::Reply(future, template.unbind(), core.decoding());
            return Bridge::start_long(&core.bridge(py)?, work);
        }
        let reply = runtime::wait(py, future)?.map_err(|error| failure::of(py, &error))?;
        template.get().convert(py, &reply, core.decoding()).map(|it| it.into_bound(py))
    }

    /// What it has done so far.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.cache.statistics();
        let dict = PyDict::new(py);
        dict.set_item("hits", statistics.hits)?;
        dict.set_item("misses", statistics.misses)?;
        dict.set_item("joined", statistics.joined)?;
        dict.set_item("invalidations", statistics.invalidations)?;
        dict.set_item("evictions", statistics.evictions)?;
        dict.set_item("keys", statistics.keys)?;
        dict.set_item("bytes", statistics.bytes)?;
        Ok(dict)
    }

    /// Forgets what is cached of a key.
    fn forget(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.cache.forget(&argument::bytes(key)?);
        Ok(())
    }

    /// Forgets everything.
    fn clear(&self) {
        self.cache.clear();
    }
}
