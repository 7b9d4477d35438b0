//! Parameters of a query (`PARAMS 2 name value`).

use super::ast::Bytes;
use super::error::{ErrorKind, QueryError};

/// Named values that a query refers to as `$name`.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    values: Vec<(Bytes, Bytes)>,
}

impl Parameters {
    /// Adds a parameter. Fails if the name was added before.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), QueryError> {
        if self.find(name).is_some() {
            let parts: [&[u8]; 3] = [b"Duplicate parameter `", name, b"`"];
            return Err(QueryError::new(ErrorKind::InvalidValue, &parts));
        }
        self.values.push((name.into(), value.into()));
        Ok(())
    }

    /// The value of a parameter.
    pub fn find(&self, name: &[u8]) -> Option<&[u8]> {
        self.values.iter().find(|(known, _)| &**known == name).map(|(_, value)| &**value)
    }

    /// Like [`find`](Self::find), but fails with the text for the user.
    pub fn get(&self, name: &[u8]) -> Result<&[u8], QueryError> {
        self.find(name).ok_or_else(|| {
            let parts: [&[u8]; 3] = [b"No such parameter `", name, b"`"];
            QueryError::new(ErrorKind::UnknownParameter, &parts)
        })
    }
}
