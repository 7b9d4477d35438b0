//! Errors as Python exceptions.

use petrel_client::{Error, ErrorKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `petrel.exceptions.make(kind, message, code, command)`.
static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// An exception of the class that `petrel.exceptions` has for a kind and an error code.
pub(crate) fn new(py: Python<'_>, kind: &str, message: &str, code: &str, command: &str) -> PyErr {
    let make = MAKE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("petrel.exceptions")?.getattr("make")?.unbind())
    });
    let exception = make.and_then(|make| make.call1(py, (kind, message, code, command)));
    match exception {
        Ok(exception) => PyErr::from_value(exception.into_bound(py)),
        Err(error) => PyRuntimeError::new_err(format!("{message} ({error})")),
    }
}

/// The exception for an error of the client.
pub(crate) fn of(py: Python<'_>, error: &Error) -> PyErr {
    let kind = match error.kind() {
        ErrorKind::Server { code, message } => {
            return new(py, "ResponseError", message, code, error.command());
        }
        ErrorKind::UnexpectedReply { .. } => "InvalidResponse",
        ErrorKind::TimedOut { .. } => "TimeoutError",
        ErrorKind::Configuration(_) => "DataError",
        ErrorKind::NeedsDedicated | ErrorKind::Unanswered => "NeedsConnectionError",
        ErrorKind::WatchedKeyChanged => "WatchError",
        _ => "ConnectionError",
    };
    new(py, kind, &error.to_string(), "", error.command())
}
