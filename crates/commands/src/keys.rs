//! Commands on keys of any type: existence, names, expiry, iteration, serialisation, SORT,
//! databases.

pub(crate) mod cluster_cursor;
pub(crate) mod databases;
pub(crate) mod dump;
pub(crate) mod expire;
pub(crate) mod generic;
pub(crate) mod iterate;
pub(crate) mod object;
pub(crate) mod sort;
