//! A command with the shape of its reply.

use petrel_client::{CommandInfo, Value};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::argument;
use crate::shape::{Decoding, Shape};

/// A command: its name, how its reply is converted (a Rust type, as `petrel-client` has it), and a
/// function that the converted reply is given to.
#[pyclass(frozen, module = "petrel._petrel")]
pub(crate) struct Command {
    name: String,
    info: Option<&'static CommandInfo>,
    shape: Shape,
    then: Option<Py<PyAny>>,
}

#[pymethods]
impl Command {
    #[new]
    #[pyo3(signature = (name, shape = "Value", then = None))]
    fn new(name: &str, shape: &str, then: Option<Py<PyAny>>) -> Self {
        let name = name.to_ascii_uppercase();
        let info = CommandInfo::find(&name);
        Self { info, shape: Shape::parse(shape), then, name }
    }

    /// The name in upper case.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("<command {}>", self.name)
    }
}

impl Command {
    /// The command with arguments.
    pub(crate) fn with<'py>(
        &self,
        arguments: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<petrel_client::Command> {
        let mut command = match self.info {
            Some(info) => petrel_client::Command::of(info),
            None => petrel_client::Command::named(&self.name),
        };
        for argument in arguments {
            argument::push(&mut command, &argument)?;
        }
        Ok(command)
    }

    /// The reply as Python has it.
    pub(crate) fn convert(
        &self,
        py: Python<'_>,
        reply: &Value,
        decoding: Decoding,
    ) -> PyResult<Py<PyAny>> {
        let reply = self.shape.convert(py, reply, decoding)?;
        match &self.then {
            Some(then) => then.call1(py, (reply,)),
            None => Ok(reply.unbind()),
        }
    }
}

/// Splits `(command, argument, ...)`.
pub(crate) fn split<'a, 'py>(
    call: &'a Bound<'py, PyTuple>,
) -> PyResult<(Bound<'py, Command>, impl Iterator<Item = Bound<'py, PyAny>> + 'a)> {
    let command = call.get_item(0)?.cast_into::<Command>()?;
    Ok((command, call.iter().skip(1)))
}
