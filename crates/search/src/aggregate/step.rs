//! Steps of an aggregation, as a command states them.

/// Results of a sort without a limit.
pub const SORTED_DEFAULT: usize = 10;

/// A step.
#[derive(Clone, Debug)]
pub enum Step<'a> {
    /// `LOAD n field [AS name] ...`
    Load(Vec<LoadedField<'a>>),
    /// `LOAD *`
    LoadAll,
    /// `GROUPBY n @property ... [REDUCE ...] ...`
    Group {
        /// Names of the properties, without `@`.
        by: Vec<&'a [u8]>,
        /// The reducers.
        reducers: Vec<Reduce<'a>>,
    },
    /// `SORTBY` and `LIMIT`, in any order and number.
    Arrange(Arrange<'a>),
    /// `APPLY expression [AS name]`
    Apply {
        /// The expression.
        expression: &'a [u8],
        /// Name of the result.
        name: &'a [u8],
    },
    /// `FILTER expression`
    Filter(&'a [u8]),
}

/// A field of `LOAD`.
#[derive(Clone, Copy, Debug)]
pub struct LoadedField<'a> {
    /// Name in the index or in the document.
    pub field: &'a [u8],
    /// Name of the property.
    pub name: &'a [u8],
}

/// A reducer of `GROUPBY`.
#[derive(Clone, Copy, Debug)]
pub struct Reduce<'a> {
    /// Name of the function, as it was written.
    pub function: &'a [u8],
    /// Arguments of the function.
    pub arguments: &'a [&'a [u8]],
    /// Name of the result.
    pub name: Option<&'a [u8]>,
}

/// Order and page.
#[derive(Clone, Debug, Default)]
pub struct Arrange<'a> {
    /// Properties to sort by, without `@`, and whether high values are first.
    pub sort: Option<Vec<(&'a [u8], bool)>>,
    /// Number of results to skip.
    pub offset: usize,
    /// Number of results: the last of `LIMIT` and `SORTBY ... MAX`.
    pub count: Option<usize>,
}

impl Arrange<'_> {
    /// Offset and number of results.
    pub fn page(&self) -> (usize, usize) {
        (self.offset, self.count.unwrap_or(SORTED_DEFAULT))
    }
}
