//! The syntax tree of a query, with parameters substituted.
//!
//! Names of fields are kept as they were written: numbers, tags, places, shapes and vectors of an
//! unknown field parse, as in Redis, and fail or match nothing when the query is evaluated. Names
//! in front of text (`@title|body:`) are resolved into a [`FieldMask`] by the parser.

use super::lexer::unescape;

/// Bytes of a query: a term, a name of a field, a tag.
pub type Bytes = Box<[u8]>;

/// A set of the TEXT fields of a schema, by their number among TEXT fields (at most 128).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FieldMask(pub u128);

impl FieldMask {
    /// Every TEXT field: no field was named.
    pub const ALL: Self = Self(u128::MAX);
    /// No TEXT field: none of the named ones exists.
    pub const NONE: Self = Self(0);

    /// The set of one TEXT field. Empty for numbers above 127.
    pub fn of(text_field: usize) -> Self {
        Self(u32::try_from(text_field).ok().and_then(|bit| 1u128.checked_shl(bit)).unwrap_or(0))
    }

    /// Fields in both sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Fields in either set.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The condition.
    pub kind: NodeKind,
    /// TEXT fields in which terms match. Set on every node; it matters for leaves of text.
    pub fields: FieldMask,
    /// Attributes of `=>{ .. }`.
    pub attributes: Attributes,
}

impl Node {
    /// A node over all TEXT fields, without attributes.
    pub fn new(kind: NodeKind) -> Self {
        Self { kind, fields: FieldMask::ALL, attributes: Attributes::default() }
    }
}

/// Conditions on a document.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Nothing matches, e.g. the query has stop words only.
    Empty,
    /// Every document (`*`).
    Everything,
    /// A term of a text, as it stands in the dictionary of terms.
    Term(Term),
    /// All children match; text of them within `slop` and in order, if the attributes say so.
    Intersection(Vec<Node>),
    /// All children match, one directly after the other (`"a b"`).
    Phrase(Vec<Node>),
    /// At least one child matches.
    Union(Vec<Node>),
    /// The child does not match.
    Not(Box<Node>),
    /// Every document matches; those of the child score higher.
    Optional(Box<Node>),
    /// Any term that matches the pattern.
    Pattern(Pattern),
    /// Any term within a Levenshtein distance (1 to 3).
    Fuzzy {
        /// The term.
        text: Bytes,
        /// Largest number of changed bytes.
        distance: u8,
    },
    /// Tags of a field: at least one value matches.
    Tag {
        /// Name of the field.
        field: Bytes,
        /// Values in the order of the query.
        values: Vec<TagValue>,
    },
    /// Numbers of a field within a range.
    Numeric(NumericRange),
    /// Points of a field within a circle.
    Geo(GeoCircle),
    /// Shapes of a field in relation to a shape.
    GeoShape {
        /// Name of the field.
        field: Bytes,
        /// The relation.
        relation: ShapeRelation,
        /// The shape, in well-known text; not checked.
        shape: Bytes,
    },
    /// The nearest vectors of a field, among documents that match `filter`.
    Knn(Box<Knn>),
    /// Vectors of a field within a radius.
    VectorRange(Box<VectorRange>),
    /// Documents without a value for the field.
    Missing {
        /// Name of the field.
        field: Bytes,
    },
}

/// A term of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Term {
    /// Folded bytes. A stem is written as `+stem`, a phonetic code as `<CODE`.
    pub text: Bytes,
    /// True if expansion added the term, i.e. the user did not write it.
    pub expanded: bool,
    /// True if the term is not expanded: a part of a phrase, a number.
    pub verbatim: bool,
}

/// Patterns over terms and tags, without the `*` that marks them. Patterns over terms are
/// unescaped, over tags as written; neither is folded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Pattern {
    /// `abc*`
    Prefix(Bytes),
    /// `*abc`
    Suffix(Bytes),
    /// `*abc*`
    Infix(Bytes),
    /// `w'a*b?'`: `*` is any number of bytes, `?` one byte, `\` escapes.
    Wildcard(Bytes),
}

/// An alternative of a tag condition. Texts are kept as they were written, with escapes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TagValue {
    /// A tag. Not folded: the field decides about case.
    Exact(Bytes),
    /// A tag of several words, joined by one space each.
    Words(Vec<Bytes>),
    /// Tags that match a pattern.
    Pattern(Pattern),
}

impl TagValue {
    /// The tag's bytes: words joined, escapes removed. `None` for a pattern.
    pub fn exact(&self) -> Option<Vec<u8>> {
        match self {
            Self::Exact(tag) => Some(unescape(tag)),
            Self::Words(words) => {
                let words: Vec<_> = words.iter().map(|word| unescape(word)).collect();
                Some(words.join(&b' '))
            }
            Self::Pattern(_) => None,
        }
    }
}

/// A range of numbers of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct NumericRange {
    /// Name of the field.
    pub field: Bytes,
    /// Lower end, may be negative infinity.
    pub min: f64,
    /// Upper end, may be infinity.
    pub max: f64,
    /// True if `min` itself matches.
    pub includes_min: bool,
    /// True if `max` itself matches.
    pub includes_max: bool,
}

impl NumericRange {
    /// True if `value` lies in the range.
    pub fn contains(&self, value: f64) -> bool {
        let above = if self.includes_min { value >= self.min } else { value > self.min };
        above && if self.includes_max { value <= self.max } else { value < self.max }
    }
}

/// A circle on the earth.
#[derive(Clone, Debug, PartialEq)]
pub struct GeoCircle {
    /// Name of the field.
    pub field: Bytes,
    /// Longitude in degrees.
    pub longitude: f64,
    /// Latitude in degrees.
    pub latitude: f64,
    /// Radius in `unit`.
    pub radius: f64,
    /// Unit of the radius.
    pub unit: DistanceUnit,
}

impl GeoCircle {
    /// Text of the error of numbers that are no circle.
    pub fn fault(&self) -> Option<&'static str> {
        let is_place =
            (-90.0..=90.0).contains(&self.latitude) && (-180.0..=180.0).contains(&self.longitude);
        match () {
            () if !is_place => Some("Invalid GeoFilter lat/lon"),
            () if self.radius <= 0.0 || self.radius.is_nan() => Some("Invalid GeoFilter radius"),
            () => None,
        }
    }
}

/// Units of a distance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DistanceUnit {
    /// Meters.
    Meters,
    /// Kilometers.
    Kilometers,
    /// Miles.
    Miles,
    /// Feet.
    Feet,
}

impl DistanceUnit {
    /// The unit of a name.
    pub fn of(name: &[u8]) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_slice() {
            b"m" => DistanceUnit::Meters,
            b"km" => DistanceUnit::Kilometers,
            b"mi" => DistanceUnit::Miles,
            b"ft" => DistanceUnit::Feet,
            _ => return None,
        })
    }

    /// Length of the unit in metres, as Redis has it.
    pub fn metres(self) -> f64 {
        match self {
            DistanceUnit::Meters => 1.0,
            DistanceUnit::Kilometers => 1000.0,
            DistanceUnit::Miles => 1609.34,
            DistanceUnit::Feet => 0.3048,
        }
    }
}

/// Relations of a document's shape to the shape of a query.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShapeRelation {
    /// The document's shape contains the query's.
    Contains,
    /// The document's shape lies within the query's.
    Within,
    /// No point is in both.
    Disjoint,
    /// A point is in both.
    Intersects,
}

/// A search for the nearest vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Knn {
    /// Documents to search among.
    pub filter: Node,
    /// Name of the field.
    pub field: Bytes,
    /// Number of neighbours.
    pub k: usize,
    /// The vector.
    pub vector: VectorArgument,
    /// Options of the search, in the order of the query.
    pub options: Vec<VectorOption>,
    /// Name under which the distance is returned: the query's or `__<field>_score`.
    pub score_field: Bytes,
}

/// A search for vectors within a radius.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRange {
    /// Name of the field.
    pub field: Bytes,
    /// Largest distance.
    pub radius: f64,
    /// The vector.
    pub vector: VectorArgument,
    /// Options of the search, in the order of the query.
    pub options: Vec<VectorOption>,
    /// Name under which the distance is returned, if any.
    pub score_field: Option<Bytes>,
}

/// A vector from a parameter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VectorArgument {
    /// Name of the parameter, without `$`.
    pub name: Bytes,
    /// Bytes of the vector; their length is not checked.
    pub bytes: Bytes,
}

/// An option of a vector search, e.g. `EF_RUNTIME 10`; not checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VectorOption {
    /// Name as written.
    pub name: Bytes,
    /// Value as written.
    pub value: Bytes,
}

/// Attributes of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    /// Factor of the node's score.
    pub weight: f64,
    /// Largest number of other words between the words; without a limit if absent.
    pub slop: Option<u32>,
    /// True if words must be in the order of the query.
    pub in_order: Option<bool>,
    /// Whether phonetic codes of terms match too; by the field if absent.
    pub phonetic: Option<bool>,
}

impl Default for Attributes {
    fn default() -> Self {
        Self { weight: 1.0, slop: None, in_order: None, phonetic: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_128_fields() {
        assert_eq!(FieldMask::of(0), FieldMask(1));
        assert_eq!(FieldMask::of(127), FieldMask(1 << 127));
        assert_eq!(FieldMask::of(128), FieldMask::NONE);
        assert_eq!(FieldMask::of(3).or(FieldMask::of(4)).and(FieldMask::of(4)), FieldMask::of(4));
    }

    #[test]
    fn ranges_have_open_and_closed_ends() {
        let range = NumericRange {
            field: (*b"n").into(),
            min: 1.0,
            max: f64::INFINITY,
            includes_min: false,
            includes_max: true,
        };
        assert!(!range.contains(1.0) && range.contains(1.5) && range.contains(f64::INFINITY));
        assert!(!range.contains(f64::NAN));
    }

    #[test]
    fn words_of_a_tag_are_joined() {
        let words = TagValue::Words(vec![(*b"a").into(), (*b"b").into()]);
        assert_eq!(words.exact().as_deref(), Some(&b"a b"[..]));
        let escaped = TagValue::Exact((*b"a\\-b").into());
        assert_eq!(escaped.exact().as_deref(), Some(&b"a-b"[..]));
    }
}
