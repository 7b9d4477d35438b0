//! A connection that one caller has to itself.

use std::sync::Arc;

use petrel_client::{Dedicated, Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tokio::sync::Mutex;

use crate::bridge::{Bridge, Work};
use crate::client::{Core, converted, made, pipeline_of};
use crate::runtime::{self, BoxFuture};
use crate::{command, failure};

/// A connection of one's own. Commands are executed one after the other.
#[pyclass(frozen, module = "petrel._petrel")]
pub(crate) struct Connection {
    core: Py<Core>,
    dedicated: Arc<Mutex<Option<Dedicated>>>,
}

impl Connection {
    pub(crate) fn new(core: Py<Core>, dedicated: Dedicated) -> Self {
        Self { core, dedicated: Arc::new(Mutex::new(Some(dedicated))) }
    }
}

#[pymethods]
impl Connection {
    /// Runs a command: `run(command, argument, ...)`.
    #[pyo3(signature = (*call))]
    fn run<'py>(&self, call: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (py, core) = (call.py(), self.core.get());
        let (template, arguments) = command::split(call)?;
        let command = template.get().with(arguments)?;
        let dedicated = self.dedicated.clone();
        let future: BoxFuture<Result<_>> = Box::pin(async move {
            match &mut *dedicated.lock().await {
                Some(dedicated) => command.to(dedicated).await,
                None => Err(Error::closed()),
            }
        });
        if core.is_async() {
            let work = Work::Reply(future, template.unbind(), core.decoding());
            return Bridge::start_long(&core.bridge(py)?, work);
        }
        let reply = runtime::wait(py, future)?.map_err(|error| failure::of(py, &error))?;
        template.get().convert(py, &reply, core.decoding()).map(|it| it.into_bound(py))
    }

    /// Sends commands in one piece; a list of their replies, with exceptions among them.
    fn pipeline(
        &self,
        py: Python<'_>,
        calls: Vec<Bound<'_, PyTuple>>,
        is_transaction: bool,
    ) -> PyResult<Py<PyAny>> {
        let (pipeline, templates) = pipeline_of(&calls, is_transaction)?;
        let (dedicated, decoding) = (self.dedicated.clone(), self.core.get().decoding());
        self.core.get().finish(
            py,
            Box::pin(async move {
                let replies = match &mut *dedicated.lock().await {
                    Some(dedicated) => dedicated.run(pipeline).await,
                    None => Err(Error::closed()),
                };
                made(move |py| converted(py, replies, &templates, decoding))
            }),
        )
    }

    /// Closes the connection, after the command that it is executing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let dedicated = self.dedicated.clone();
        runtime::handle(py)?.spawn(async move { drop(dedicated.lock().await.take()) });
        Ok(())
    }
}
