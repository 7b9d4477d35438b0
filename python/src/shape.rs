//! Replies as Python objects.

use petrel_client::Value;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PySet, PyString, PyTuple};

use crate::failure;

/// What becomes of strings in replies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decoding {
    /// They stay bytes.
    Bytes,
    /// They become text, from UTF-8.
    Strict,
    /// The same; what is not UTF-8 is replaced.
    Replace,
    /// The same; what is not UTF-8 becomes surrogates, as in file names.
    SurrogateEscape,
    /// The same; what is not UTF-8 is left out.
    Ignore,
}

impl Decoding {
    fn errors(self) -> &'static str {
        match self {
            Self::Bytes | Self::Strict => "strict",
            Self::Replace => "replace",
            Self::SurrogateEscape => "surrogateescape",
            Self::Ignore => "ignore",
        }
    }
}

/// How a reply is converted. A reply of another type than that is converted as it is.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Any,
    /// `OK`, which becomes true.
    Status,
    Bool,
    Int,
    Float,
    Text,
    Optional(Box<Shape>),
    List(Box<Shape>),
    Set(Box<Shape>),
    Map(Box<Shape>, Box<Shape>),
    Tuple(Vec<Shape>),
}

impl Shape {
    /// Reads a Rust type such as `Vec<(Bytes, f64)>`; what it does not know is [`Shape::Any`].
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim();
        let inner = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix('>');
        let boxed = |text: &str| Box::new(Self::parse(text));
        if let Some(item) = inner("Option<") {
            return Self::Optional(boxed(item));
        }
        if let Some(item) = inner("Vec<") {
            return Self::List(boxed(item));
        }
        if let Some(item) = inner("HashSet<") {
            return Self::Set(boxed(item));
        }
        if let Some(pair) = inner("HashMap<")
            && let [key, value] = parts(pair)[..]
        {
            return Self::Map(boxed(key), boxed(value));
        }
        match text {
            "()" => Self::Status,
            "bool" => Self::Bool,
            "i64" | "u64" => Self::Int,
            "f64" => Self::Float,
            "Bytes" | "String" => Self::Text,
            "StreamEntry" => {
                Self::Tuple(vec![Self::Text, Self::Map(Box::new(Self::Text), Box::new(Self::Text))])
            }
            _ => match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
                Some(items) => Self::Tuple(parts(items).into_iter().map(Self::parse).collect()),
                None => Self::Any,
            },
        }
    }

    /// Converts a reply.
    pub(crate) fn convert<'py>(
        &self,
        py: Python<'py>,
        reply: &Value,
        decoding: Decoding,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self, reply) {
            (_, Value::Attribute { value, .. }) => self.convert(py, value, decoding),
            (Self::List(_) | Self::Set(_) | Self::Map(..), Value::Null | Value::NullArray) => {
                self.convert(py, &Value::Array(Vec::new()), decoding)
            }
            (_, Value::Null | Value::NullArray) if !matches!(self, Self::Bool) => {
                Ok(py.None().into_bound(py))
            }
            (Self::Optional(inner), _) => inner.convert(py, reply, decoding),
            (Self::Text, Value::Bulk(bytes) | Value::Simple(bytes)) => string(py, bytes, decoding),
            (Self::Status, Value::Simple(_)) => Ok(truth(py, true)),
            (Self::Status, Value::Bulk(text)) if &text[..] == b"OK" => Ok(truth(py, true)),
            (Self::Bool, _) => match reply {
                Value::Boolean(is) => Ok(truth(py, *is)),
                Value::Integer(number @ (0 | 1)) => Ok(truth(py, *number == 1)),
                Value::Null | Value::NullArray => Ok(truth(py, false)),
                Value::Simple(text) | Value::Bulk(text) if &text[..] == b"OK" => {
                    Ok(truth(py, true))
                }
                _ => any(py, reply, decoding),
            },
            (Self::Int, Value::Bulk(text) | Value::Simple(text)) => match number(text) {
                Some(number) => integer(py, number),
                None => any(py, reply, decoding),
            },
            (Self::Float, Value::Bulk(text) | Value::Simple(text)) => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                number.map_or_else(|| any(py, reply, decoding), |number| float(py, number))
            }
            // Exact up to 2^53 and nearest beyond, as the server has scores.
            (Self::Float, Value::Integer(number)) => float(py, *number as f64),
            (Self::List(item), Value::Array(items) | Value::Set(items) | Value::Push(items)) => {
                item.list(py, items, decoding)
            }
            (Self::List(item), Value::Map(pairs)) => {
                let list = PyList::empty(py);
                for (key, value) in pairs {
                    list.append(item.pair(py, key, value, decoding)?)?;
                }
                Ok(list.into_any())
            }
            (Self::Set(item), Value::Array(items) | Value::Set(items)) => {
                let set = PySet::empty(py)?;
                for one in items {
                    set.add(item.convert(py, one, decoding)?)?;
                }
                Ok(set.into_any())
            }
            (Self::Map(key, value), Value::Map(pairs)) => {
                let dict = PyDict::new(py);
                for (one, other) in pairs {
                    dict.set_item(
                        key.convert(py, one, decoding)?,
                        value.convert(py, other, decoding)?,
                    )?;
                }
                Ok(dict.into_any())
            }
            (Self::Map(key, value), Value::Array(items)) if is_flat(items) => {
                let dict = PyDict::new(py);
                for pair in items.chunks_exact(2) {
                    dict.set_item(
                        key.convert(py, &pair[0], decoding)?,
                        value.convert(py, &pair[1], decoding)?,
                    )?;
                }
                Ok(dict.into_any())
            }
            (Self::Tuple(shapes), Value::Array(items)) if items.len() == shapes.len() => {
                let items = shapes.iter().zip(items);
                let items: Vec<_> = items
                    .map(|(shape, item)| shape.convert(py, item, decoding))
                    .collect::<PyResult<_>>()?;
                Ok(PyTuple::new(py, items)?.into_any())
            }
            (Self::Tuple(shapes), Value::Map(pairs)) if pairs.len() == 1 && shapes.len() == 2 => {
                self.pair(py, &pairs[0].0, &pairs[0].1, decoding)
            }
            _ => any(py, reply, decoding),
        }
    }

    /// Items of a list. Of pairs, RESP2 and some commands have the parts beside one another.
    fn list<'py>(
        &self,
        py: Python<'py>,
        items: &[Value],
        decoding: Decoding,
    ) -> PyResult<Bound<'py, PyAny>> {
        let list = match self {
            Self::Tuple(shapes) if shapes.len() == 2 && is_flat(items) => {
                let list = PyList::empty(py);
                for pair in items.chunks_exact(2) {
                    list.append(self.pair(py, &pair[0], &pair[1], decoding)?)?;
                }
                list
            }
            _ => {
                let items: Vec<_> = items
                    .iter()
                    .map(|item| self.convert(py, item, decoding))
                    .collect::<PyResult<_>>()?;
                PyList::new(py, items)?
            }
        };
        Ok(list.into_any())
    }

    /// Two replies as the pair that this shape is, or as a pair of anything.
    fn pair<'py>(
        &self,
        py: Python<'py>,
        first: &Value,
        second: &Value,
        decoding: Decoding,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (one, other) = match self {
            Self::Tuple(shapes) if shapes.len() == 2 => (&shapes[0], &shapes[1]),
            _ => (&Self::Any, &Self::Any),
        };
        let pair = (one.convert(py, first, decoding)?, other.convert(py, second, decoding)?);
        Ok(pair.into_pyobject(py)?.into_any())
    }
}

/// Whether an array has pairs beside one another, not nested.
fn is_flat(items: &[Value]) -> bool {
    items.len().is_multiple_of(2) && !matches!(items.first(), Some(Value::Array(_)))
}

/// The parts of a list of types, split at commas outside of brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// A reply as it is.
fn any<'py>(py: Python<'py>, reply: &Value, decoding: Decoding) -> PyResult<Bound<'py, PyAny>> {
    match reply {
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => {
            string(py, text, decoding)
        }
        Value::Integer(number) => integer(py, *number),
        Value::Double(number) => float(py, *number),
        Value::Boolean(is) => Ok(truth(py, *is)),
        Value::Null | Value::NullArray => Ok(py.None().into_bound(py)),
        Value::BigNumber(digits) => {
            let digits = String::from_utf8_lossy(digits);
            py.get_type::<PyInt>().call1((&*digits,))
        }
        Value::Error(text) => Ok(error(py, text).into_value(py).into_bound(py).into_any()),
        Value::Array(items) | Value::Push(items) => Shape::Any.list(py, items, decoding),
        Value::Set(items) => {
            let set = PySet::empty(py)?;
            for item in items {
                if let Err(error) = set.add(any(py, item, decoding)?) {
                    // What cannot be in a set of Python, such as a list.
                    unhashable(py, error)?;
                    return Shape::Any.list(py, items, decoding);
                }
            }
            Ok(set.into_any())
        }
        Value::Map(pairs) => {
            let dict = PyDict::new(py);
            for (key, value) in pairs {
                let (key, value) = (any(py, key, decoding)?, any(py, value, decoding)?);
                if let Err(error) = dict.set_item(key, value) {
                    unhashable(py, error)?;
                    let of_any = Shape::List(Box::new(Shape::Any));
                    return of_any.convert(py, reply, decoding);
                }
            }
            Ok(dict.into_any())
        }
        Value::Attribute { value, .. } => any(py, value, decoding),
    }
}

/// The exception that an error within a reply is.
fn error(py: Python<'_>, text: &[u8]) -> PyErr {
    let text = String::from_utf8_lossy(text);
    let code = text.split(' ').next().unwrap_or_default();
    failure::new(py, "ResponseError", &text, code, "")
}

/// The exception that an error reply is.
pub(crate) fn error_of(py: Python<'_>, reply: &Value) -> Py<PyAny> {
    match reply {
        Value::Error(text) => error(py, text).into_value(py).into_any(),
        _ => py.None(),
    }
}

fn unhashable(py: Python<'_>, error: PyErr) -> PyResult<()> {
    if error.is_instance_of::<PyTypeError>(py) { Ok(()) } else { Err(error) }
}

/// A string, as bytes or decoded.
pub(crate) fn string<'py>(
    py: Python<'py>,
    bytes: &[u8],
    decoding: Decoding,
) -> PyResult<Bound<'py, PyAny>> {
    if let Decoding::Bytes = decoding {
        return Ok(PyBytes::new(py, bytes).into_any());
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, bytes).call_method1("decode", ("utf-8", decoding.errors())),
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn integer(py: Python<'_>, number: i64) -> PyResult<Bound<'_, PyAny>> {
    Ok(number.into_pyobject(py)?.into_any())
}

fn float(py: Python<'_>, number: f64) -> PyResult<Bound<'_, PyAny>> {
    Ok(PyFloat::new(py, number).into_any())
}

fn truth(py: Python<'_>, is: bool) -> Bound<'_, PyAny> {
    PyBool::new(py, is).to_owned().into_any()
}
