//! Python objects as arguments of commands.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyMemoryView, PyString};

use crate::failure;

/// Appends an object as one argument: bytes as they are, text as UTF-8, numbers in decimal. `None`,
/// booleans and containers are refused, since what they would mean is a guess.
pub(crate) fn push(
    command: &mut petrel_client::Command,
    argument: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if let Ok(bytes) = argument.cast::<PyBytes>() {
        command.push(bytes.as_bytes());
    } else if let Ok(text) = argument.cast::<PyString>() {
        command.push(&*text.to_cow()?);
    } else if argument.is_instance_of::<PyBool>() {
        return Err(refused(argument));
    } else if argument.is_instance_of::<PyInt>() {
        match argument.extract::<i64>() {
            Ok(number) => command.push(number),
            Err(_) => command.push(&*argument.str()?.to_cow()?),
        }
    } else if let Ok(number) = argument.cast::<PyFloat>() {
        command.push(number.value());
    } else if argument.is_instance_of::<PyByteArray>() || argument.is_instance_of::<PyMemoryView>()
    {
        let bytes = argument.py().get_type::<PyBytes>().call1((argument,))?;
        command.push(bytes.cast::<PyBytes>()?.as_bytes());
    } else {
        return Err(refused(argument));
    }
    Ok(())
}

/// The bytes of a key or a channel.
pub(crate) fn bytes(argument: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut command = petrel_client::Command::named("GET");
    push(&mut command, argument)?;
    Ok(command.arguments().nth(1).unwrap_or_default().to_vec())
}

fn refused(argument: &Bound<'_, PyAny>) -> PyErr {
    let kind = argument.get_type().name();
    let kind = kind.map_or_else(|_| "object".into(), |name| name.to_string());
    let text = format!("an argument is bytes, str, int or float, not {kind}");
    failure::new(argument.py(), "DataError", &text, "", "")
}
