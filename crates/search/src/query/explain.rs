//! The text of `FT.EXPLAIN`.

use super::ast::{
    Attributes, DistanceUnit, FieldMask, GeoCircle, Node, NodeKind, NumericRange, Pattern,
    ShapeRelation, TagValue, Term, VectorOption,
};
use super::lexer::unescape;
use super::numbers::{print_fixed, print_short};
use super::parser::Fields;

/// Prints a tree as Redis does: a node per line, two blanks per level.
pub fn explain(node: &Node, fields: &dyn Fields) -> Vec<u8> {
    let mut printer = Printer { fields, text: Vec::new() };
    printer.node(node, 0);
    printer.text
}

struct Printer<'a> {
    fields: &'a dyn Fields,
    text: Vec<u8>,
}

impl Printer<'_> {
    fn put(&mut self, text: impl AsRef<[u8]>) {
        self.text.extend_from_slice(text.as_ref());
    }

    fn indent(&mut self, depth: usize) {
        self.text.resize(self.text.len() + 2 * depth, b' ');
    }

    fn node(&mut self, node: &Node, depth: usize) {
        self.indent(depth);
        let is_number = match node.kind {
            NodeKind::Numeric(_) => true,
            NodeKind::Geo(_) => node.fields != FieldMask::NONE,
            _ => false,
        };
        if !is_number {
            self.mask(node.fields);
        }
        match &node.kind {
            NodeKind::Term(term) => {
                self.term(term);
                if node.attributes.weight != 1.0 {
                    let weight = print_short(node.attributes.weight);
                    self.put(format!(" => {{$weight: {weight};}}"));
                }
                return self.put("\n");
            }
            NodeKind::Empty => self.put("<empty>"),
            NodeKind::Everything => self.put("<WILDCARD>"),
            NodeKind::Intersection(children) => self.list("INTERSECT {\n", children, depth),
            NodeKind::Phrase(children) => self.list("EXACT {\n", children, depth),
            NodeKind::Union(children) => self.list("UNION {\n", children, depth),
            NodeKind::Not(child) => self.list("NOT{\n", std::slice::from_ref(child), depth),
            NodeKind::Optional(child) => {
                self.list("OPTIONAL{\n", std::slice::from_ref(child), depth);
            }
            NodeKind::Pattern(pattern) => self.pattern(pattern),
            NodeKind::Fuzzy { text, .. } => self.braced("FUZZY{", text),
            NodeKind::Tag { field, values } => self.tags(field, values, node.fields, depth),
            NodeKind::Numeric(range) => self.numeric(range),
            NodeKind::Geo(circle) => self.circle(circle),
            NodeKind::GeoShape { relation, shape, .. } => {
                let number = match relation {
                    ShapeRelation::Contains => 1,
                    ShapeRelation::Within => 2,
                    ShapeRelation::Disjoint => 3,
                    ShapeRelation::Intersects => 4,
                };
                self.braced(&format!("GEOSHAPE{{{number} "), shape);
            }
            NodeKind::Knn(_) | NodeKind::VectorRange(_) => self.vector(node, depth),
            NodeKind::Missing { field } => self.braced("ISMISSING{", field),
        }
        self.attributes(&node.attributes);
        self.put("\n");
    }

    fn mask(&mut self, mask: FieldMask) {
        if mask == FieldMask::ALL {
            return;
        }
        let names = (0..128).filter(|&number| mask.and(FieldMask::of(number)) != FieldMask::NONE);
        let names: Vec<_> = names.filter_map(|number| self.fields.text_name(number)).collect();
        let names = if names.is_empty() { b"NULL".to_vec() } else { names.join(&b'|') };
        self.put("@");
        self.put(names);
        self.put(":");
    }

    fn term(&mut self, term: &Term) {
        if term.text.is_empty() {
            self.put("\"\"");
        } else {
            self.put(&term.text);
        }
        if term.expanded {
            self.put("(expanded)");
        }
    }

    fn braced(&mut self, opening: &str, text: &[u8]) {
        self.put(opening);
        self.put(text);
        self.put("}");
    }

    fn list<N: std::borrow::Borrow<Node>>(&mut self, opening: &str, nodes: &[N], depth: usize) {
        self.put(opening);
        for node in nodes {
            self.node(node.borrow(), depth + 1);
        }
        self.indent(depth);
        self.put("}");
    }

    fn pattern(&mut self, pattern: &Pattern) {
        let (name, text) = match pattern {
            Pattern::Prefix(text) => ("PREFIX{", [text, &b"*"[..]].concat()),
            Pattern::Suffix(text) => ("SUFFIX{*", text.to_vec()),
            Pattern::Infix(text) => ("INFIX{*", [text, &b"*"[..]].concat()),
            Pattern::Wildcard(text) => ("WILDCARD{", text.to_vec()),
        };
        self.braced(name, &text);
    }

    fn tags(&mut self, field: &[u8], values: &[TagValue], mask: FieldMask, depth: usize) {
        self.put("TAG:@");
        self.put(field);
        self.put(" {\n");
        for value in values {
            match value {
                TagValue::Exact(tag) => {
                    self.indent(depth + 1);
                    self.mask(mask);
                    self.tag(tag);
                }
                TagValue::Words(words) => {
                    self.indent(depth + 1);
                    self.mask(mask);
                    self.put("INTERSECT {\n");
                    for word in words {
                        self.indent(depth + 2);
                        self.mask(mask);
                        self.tag(&unescape(word).to_ascii_lowercase());
                    }
                    self.indent(depth + 1);
                    self.put("}\n");
                }
                TagValue::Pattern(pattern) => {
                    self.indent(depth + 1);
                    self.mask(mask);
                    self.pattern(pattern);
                    self.put("\n");
                }
            }
        }
        self.indent(depth);
        self.put("}");
    }

    fn tag(&mut self, tag: &[u8]) {
        self.put(if tag.is_empty() { b"\"\"" } else { tag });
        self.put("\n");
    }

    fn numeric(&mut self, range: &NumericRange) {
        let sign = |includes: bool| if includes { "<=" } else { "<" };
        self.put(format!("NUMERIC {{{} {} @", print_fixed(range.min), sign(range.includes_min)));
        self.put(&range.field);
        self.put(format!(" {} {}}}", sign(range.includes_max), print_fixed(range.max)));
    }

    fn circle(&mut self, circle: &GeoCircle) {
        let unit = match circle.unit {
            DistanceUnit::Meters => "m",
            DistanceUnit::Kilometers => "km",
            DistanceUnit::Miles => "mi",
            DistanceUnit::Feet => "ft",
        };
        self.put("GEO ");
        self.put(&circle.field);
        let numbers = [circle.longitude, circle.latitude, circle.radius].map(print_fixed);
        self.put(format!(":{{{},{} --> {} {unit}}}", numbers[0], numbers[1], numbers[2]));
    }

    fn vector(&mut self, node: &Node, depth: usize) {
        self.put("VECTOR {");
        let (vector, field, options, score_field) = match &node.kind {
            NodeKind::Knn(knn) => {
                if knn.filter.kind != NodeKind::Everything {
                    self.put("\n");
                    self.node(&knn.filter, depth + 1);
                    self.indent(depth);
                    self.put("} => {");
                }
                self.put(format!("K={} nearest vectors to `$", knn.k));
                (&knn.vector, &knn.field, &knn.options, Some(&knn.score_field))
            }
            NodeKind::VectorRange(range) => {
                let radius = print_short(range.radius);
                self.put(format!("Vectors that are within {radius} distance radius from `$"));
                (&range.vector, &range.field, &range.options, range.score_field.as_ref())
            }
            _ => return,
        };
        self.put(&vector.name);
        self.put("` in vector index associated with field @");
        self.put(field);
        for VectorOption { name, value } in options {
            self.put(", ");
            self.put(name);
            self.put(" = ");
            self.put(value);
        }
        if let Some(name) = score_field {
            self.put(", yields distance as `");
            self.put(name);
            self.put("`");
        }
        self.put("}");
    }

    fn attributes(&mut self, attributes: &Attributes) {
        let Attributes { weight, slop, in_order, .. } = *attributes;
        let is_ordered = in_order == Some(true);
        if weight == 1.0 && slop.is_none() && !is_ordered {
            return;
        }
        self.put(" => {");
        if weight != 1.0 {
            self.put(format!(" $weight: {};", print_short(weight)));
        }
        if let Some(slop) = slop {
            self.put(format!(" $slop: {slop};"));
        }
        if slop.is_some() || is_ordered {
            self.put(format!(" $inorder: {is_ordered};"));
        }
        self.put(" }");
    }
}
