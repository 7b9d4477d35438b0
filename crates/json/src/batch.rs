//! Changes of many values of one document: made one by one, or all at once while the document is
//! copied, which takes time in proportion to its length however many they are.

use crate::change::{Change, Misfit, Op};
use crate::parse::DEPTH_MAX;
use crate::path::Step;
use crate::tape::{BYTES_MAX, Document, Writer};
use crate::value::{Kind, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// The change of one value. A new value that many get is borrowed.
#[derive(Clone, Debug)]
pub enum Action<'a> {
    /// Replace the value by this tape.
    Set(Cow<'a, [u8]>),
    /// Remove the value from its container.
    Remove,
    /// An object gets another member: its name, and its value, a tape.
    Add(Cow<'a, [u8]>, Cow<'a, [u8]>),
    /// An array gets elements.
    Insert {
        /// The index of the first of them.
        index: usize,
        /// Number of values.
        count: usize,
        /// Concatenated tapes of the values.
        values: Cow<'a, [u8]>,
    },
    /// Keep a range of an array's elements and remove the others.
    Keep {
        /// The first that stays.
        from: usize,
        /// Number of elements to keep.
        count: usize,
        /// Number of elements before.
        of: usize,
    },
    /// An array loses the element at an index.
    Take(usize),
}

/// Changes of values of one document, each at most once.
#[derive(Debug, Default)]
pub struct Batch<'a> {
    edits: Vec<Edited<'a>>,
    adds: usize,
    /// Bytes that places and actions take, beside the edits themselves.
    held: usize,
    /// The last value of those in the order of the document, plus one.
    end: usize,
    /// Places of all values, once one has come in another order: a path may find one twice.
    known: Option<HashSet<usize>>,
}

#[derive(Debug)]
struct Edited<'a> {
    /// Position and length of the value on the document's tape.
    at: usize,
    len: usize,
    place: Place,
    action: Action<'a>,
}

/// Steps to a value that outlive the document.
#[derive(Clone, Debug)]
pub struct Place(Vec<OwnStep>);

#[derive(Clone, Debug)]
enum OwnStep {
    Name(Box<[u8]>),
    Index(usize),
}

impl OwnStep {
    fn step(&self) -> Step<'_> {
        match self {
            OwnStep::Name(name) => Step::Name(name),
            OwnStep::Index(index) => Step::Index(*index),
        }
    }
}

impl Place {
    /// Copies steps that may borrow from the document.
    pub fn of(steps: &[Step<'_>]) -> Self {
        let own = |step: &Step<'_>| match step {
            Step::Name(name) => OwnStep::Name((*name).into()),
            Step::Index(index) => OwnStep::Index(*index),
        };
        Place(steps.iter().map(own).collect())
    }

    /// Bytes that it takes behind itself.
    pub fn footprint(&self) -> usize {
        let name = |step: &OwnStep| match step {
            OwnStep::Name(name) => name.len(),
            OwnStep::Index(_) => 0,
        };
        self.0.iter().map(|step| size_of::<OwnStep>() + name(step)).sum()
    }

    /// The steps.
    pub fn steps(&self) -> Vec<Step<'_>> {
        self.0.iter().map(OwnStep::step).collect()
    }
}

impl Action<'_> {
    /// Calls for each change of the value at a place that it consists of, in order.
    pub fn each<'s>(&'s self, mut place: Vec<Step<'s>>, visit: &mut dyn FnMut(Change<'_>)) {
        match self {
            Action::Set(tape) => visit(Change { place: &place, op: Op::Set(tape) }),
            Action::Remove => visit(Change { place: &place, op: Op::Remove { count: 1 } }),
            Action::Add(name, tape) => {
                place.push(Step::Name(name));
                visit(Change { place: &place, op: Op::Set(tape) });
            }
            Action::Insert { index, count, values } => {
                place.push(Step::Index(*index));
                visit(Change { place: &place, op: Op::Insert { count: *count, values } });
            }
            Action::Keep { from, count, of } => {
                let end = from + count;
                for (index, count) in [(end, of - end), (0, *from)] {
                    if count > 0 {
                        place.push(Step::Index(index));
                        visit(Change { place: &place, op: Op::Remove { count } });
                        place.pop();
                    }
                }
            }
            Action::Take(index) => {
                place.push(Step::Index(*index));
                visit(Change { place: &place, op: Op::Remove { count: 1 } });
            }
        }
    }

    /// Bytes that it takes behind itself.
    fn footprint(&self) -> usize {
        let owned = |bytes: &Cow<'_, [u8]>| match bytes {
            Cow::Owned(bytes) => bytes.capacity(),
            Cow::Borrowed(_) => 0,
        };
        match self {
            Action::Set(tape) => owned(tape),
            Action::Add(name, tape) => owned(name) + owned(tape),
            Action::Insert { values, .. } => owned(values),
            Action::Remove | Action::Keep { .. } | Action::Take(_) => 0,
        }
    }

    /// Bytes that it adds to a document, at most.
    fn adds(&self) -> usize {
        match self {
            Action::Set(tape) => tape.len(),
            // Headers grow by at most six bytes, names have at most five before them.
            Action::Add(name, tape) => name.len() + tape.len() + 11,
            Action::Insert { values, .. } => values.len() + 6,
            Action::Remove | Action::Keep { .. } | Action::Take(_) => 0,
        }
    }
}

impl<'a> Batch<'a> {
    /// Adds what happens to a value of the document; of a value that has been added, the first
    /// counts.
    pub fn push(
        &mut self,
        root: Value<'_>,
        value: Value<'_>,
        steps: &[Step<'_>],
        action: Action<'a>,
    ) {
        let at = value.tape().as_ptr().addr() - root.tape().as_ptr().addr();
        if !self.is_new(at) {
            return;
        }
        self.adds += action.adds();
        let place = Place::of(steps);
        self.held += place.footprint() + action.footprint();
        self.edits.push(Edited { at, len: value.tape().len(), place, action });
    }

    /// Whether a value of the document has not been added yet.
    pub fn may_push(&mut self, root: Value<'_>, value: Value<'_>) -> bool {
        let at = value.tape().as_ptr().addr() - root.tape().as_ptr().addr();
        at >= self.end || !self.known().contains(&at)
    }

    fn known(&mut self) -> &mut HashSet<usize> {
        let edits = &self.edits;
        self.known.get_or_insert_with(|| edits.iter().map(|edit| edit.at).collect())
    }

    /// Whether no value at this place of the tape has been added.
    fn is_new(&mut self, at: usize) -> bool {
        if at >= self.end {
            self.end = at + 1;
            if let Some(known) = &mut self.known {
                known.insert(at);
            }
            return true;
        }
        self.known().insert(at)
    }

    /// Bytes that it takes.
    pub fn footprint(&self) -> usize {
        /// Bytes per place in the set of known places, which is three quarters full at most.
        const KNOWN_BYTES: usize = 2 * (size_of::<usize>() + 1);
        let known = self.known.as_ref().map_or(0, |known| known.capacity() * KNOWN_BYTES);
        self.edits.capacity() * size_of::<Edited<'_>>() + self.held + known
    }

    /// Number of values that change.
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// To be called when everything was pushed: puts the changes in the order of the document.
    /// What happens to a value that another change replaces or removes does not happen.
    pub fn settle(&mut self) {
        self.edits.sort_by_key(|edit| edit.at);
        let mut end = 0;
        self.edits.retain(|edit| {
            if edit.at < end {
                return false;
            }
            if matches!(edit.action, Action::Set(_) | Action::Remove) {
                end = edit.at + edit.len;
            }
            true
        });
    }

    /// Bytes that the document grows by, at most.
    pub fn adds(&self) -> usize {
        self.adds
    }

    /// Whether nothing would be left in the root. The changes were [settled](Batch::settle).
    pub fn empties(&self, root: Value<'_>) -> bool {
        let is_removed =
            |edit: &&Edited| edit.place.0.len() == 1 && matches!(edit.action, Action::Remove);
        self.edits.iter().filter(is_removed).count() == root.len()
    }

    /// Bytes of the changes, about.
    pub fn weight(&self) -> usize {
        let mut weight = 0;
        self.each(&mut |change| weight += change.weight());
        weight
    }

    /// Calls for each change, so that one may be made after the other: what lies behind, or
    /// further inside, comes first.
    pub fn each(&self, visit: &mut dyn FnMut(Change<'_>)) {
        for edit in self.edits.iter().rev() {
            edit.action.each(edit.place.steps(), visit);
        }
    }

    /// The document with all changes made. They were [settled](Batch::settle), and none removes the
    /// root.
    ///
    /// # Errors
    /// If the document would become too long or be nested too deep.
    pub fn rewrite(&self, root: Value<'_>) -> Result<Document, Misfit> {
        let len = root.tape().len() + self.adds();
        if len > BYTES_MAX {
            return Err(Misfit::TooLong);
        }
        let mut writer = Writer::default();
        writer.out.reserve_exact(len);
        let mut copier = Copier { edits: &self.edits, base: root.tape().as_ptr().addr(), writer };
        copier.copy(root);
        let document = copier.writer.finish();
        if document.root().depth() <= DEPTH_MAX { Ok(document) } else { Err(Misfit::TooDeep) }
    }
}

/// Copies a document and changes it meanwhile.
struct Copier<'b> {
    /// Remaining edits, in the order of the tape.
    edits: &'b [Edited<'b>],
    base: usize,
    writer: Writer,
}

impl Copier<'_> {
    /// Copies a value; false if it is left out.
    fn copy(&mut self, value: Value<'_>) -> bool {
        let at = value.tape().as_ptr().addr() - self.base;
        let end = at + value.tape().len();
        let Some(next) = self.edits.first().filter(|edit| edit.at < end) else {
            self.writer.value(value);
            return true;
        };
        let action = (next.at == at).then_some(&next.action);
        if action.is_some() {
            self.edits = &self.edits[1..];
        }
        match action {
            Some(Action::Set(tape)) => self.writer.out.extend_from_slice(tape),
            Some(Action::Remove) => return false,
            _ if value.kind() == Kind::Object => self.copy_object(value, action),
            _ if value.kind() == Kind::Array => self.copy_array(value, action),
            // Scalars have nothing in them.
            _ => self.writer.value(value),
        }
        true
    }

    fn copy_object(&mut self, value: Value<'_>, action: Option<&Action<'_>>) {
        let begun = self.writer.begin_object();
        let mut count = 0;
        for (name, value) in value.members() {
            let before = self.writer.out.len();
            self.writer.string(name);
            if self.copy(value) { count += 1 } else { self.writer.out.truncate(before) }
        }
        if let Some(Action::Add(name, tape)) = action {
            self.writer.string(name);
            self.writer.out.extend_from_slice(tape);
            count += 1;
        }
        self.writer.end(begun, count);
    }

    fn copy_array(&mut self, value: Value<'_>, action: Option<&Action<'_>>) {
        let begun = self.writer.begin_array();
        let mut count = 0;
        let insert = |writer: &mut Writer, at: usize| match action {
            Some(Action::Insert { index, count, values }) if *index == at => {
                writer.out.extend_from_slice(values);
                *count
            }
            _ => 0,
        };
        for (index, value) in value.items().enumerate() {
            count += insert(&mut self.writer, index);
            let before = self.writer.out.len();
            let is_kept = match action {
                Some(Action::Keep { from, count, .. }) => (*from..from + count).contains(&index),
                Some(Action::Take(taken)) => *taken != index,
                _ => true,
            };
            // Removed values are walked too: edits inside them have to be consumed.
            if self.copy(value) && is_kept { count += 1 } else { self.writer.out.truncate(before) }
        }
        count += insert(&mut self.writer, value.len());
        self.writer.end(begun, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edit, Format, Parse, Path, parse, print};

    fn text(value: Value<'_>) -> String {
        let mut out = Vec::new();
        print(value, &Format::default(), &mut out);
        String::from_utf8(out).unwrap()
    }

    /// The document after an action on everything that a path finds, which must be the same on both
    /// ways.
    fn changed(
        json: &str,
        path: &str,
        action: impl Fn(Value<'_>) -> Option<Action<'static>>,
    ) -> String {
        let document = parse(json.as_bytes(), Parse::default()).unwrap();
        let root = document.root();
        let mut batch = Batch::default();
        let path = Path::parse(path).unwrap();
        path.find(root, &mut |value, steps| {
            if let Some(action) = action(value) {
                batch.push(root, value, steps, action);
            }
        })
        .unwrap();
        batch.settle();
        let mut tape = root.tape().to_vec();
        batch.each(&mut |change| Edit::of(&tape.clone(), &change).unwrap().apply(&mut tape));
        let rewritten = batch.rewrite(root).unwrap();
        assert_eq!(text(rewritten.root()), text(Value::new(&tape)), "{json} {}", path.text());
        assert!(crate::check(rewritten.tape(), 0).is_some());
        text(rewritten.root())
    }

    fn tape(json: &str) -> Vec<u8> {
        parse(json.as_bytes(), Parse::default()).unwrap().into_tape()
    }

    #[test]
    fn both_ways_come_to_the_same() {
        let json = r#"{"a":[[1,2,3],[4,5,6]],"b":{"a":7,"c":{"a":8}},"d":[]}"#;
        let set = changed(json, "$..a", |_| Some(Action::Set(tape("{\"a\":0}").into())));
        assert_eq!(set, r#"{"a":{"a":0},"b":{"a":{"a":0},"c":{"a":{"a":0}}},"d":[]}"#);
        let removed = changed(json, "$..a", |_| Some(Action::Remove));
        assert_eq!(removed, r#"{"b":{"c":{}},"d":[]}"#);
        assert_eq!(changed("[0,1,2,3]", "$[0,2,0]", |_| Some(Action::Remove)), "[1,3]");
        let is_array = |value: Value<'_>| value.kind() == Kind::Array;
        let inserted = changed(json, "$..*", |value| {
            let action =
                Action::Insert { index: 0, count: 2, values: tape("[8,9]")[3..].to_vec().into() };
            is_array(value).then_some(action)
        });
        assert_eq!(
            inserted,
            r#"{"a":[8,9,[8,9,1,2,3],[8,9,4,5,6]],"b":{"a":7,"c":{"a":8}},"d":[8,9]}"#
        );
        let kept = changed(json, "$..*", |value| {
            let (from, count) = if value.len() > 2 { (1, 1) } else { (0, value.len().min(1)) };
            is_array(value).then_some(Action::Keep { from, count, of: value.len() })
        });
        assert_eq!(kept, r#"{"a":[[2]],"b":{"a":7,"c":{"a":8}},"d":[]}"#);
        let taken = changed(json, "$..*", |value| {
            (is_array(value) && !value.is_empty()).then(|| Action::Take(value.len() - 1))
        });
        assert_eq!(taken, r#"{"a":[[1,2]],"b":{"a":7,"c":{"a":8}},"d":[]}"#);
        let added =
            changed(json, "$..c", |_| Some(Action::Add(b"new"[..].into(), tape("[1]").into())));
        assert!(added.contains(r#""c":{"a":8,"new":[1]}"#), "{added}");
    }

    #[test]
    fn a_value_that_is_found_again_takes_no_memory() {
        let text = format!("[{},1]", "2,".repeat(20));
        let document = parse(text.replace(",,", ",").as_bytes(), Parse::default()).unwrap();
        let (root, mut batch) = (document.root(), Batch::default());
        for _ in 0..1000 {
            for index in [3, 1, 2, 3, 20] {
                let (value, action) = (root.item(index).unwrap(), vec![0; 4096].into());
                batch.push(root, value, &[Step::Index(index)], Action::Set(action));
            }
        }
        assert!(batch.len() == 4 && batch.adds() == 4 * 4096, "{} changes", batch.len());
        assert!((4 * 4096..6 * 4096).contains(&batch.footprint()), "{}", batch.footprint());
        batch.settle();
        assert_eq!(
            batch.edits.iter().map(|edit| edit.place.steps()[0]).collect::<Vec<_>>(),
            [Step::Index(1), Step::Index(2), Step::Index(3), Step::Index(20)]
        );
    }

    #[test]
    fn what_would_be_too_much_is_refused() {
        let deep = "[".repeat(100) + &"]".repeat(100);
        let document = parse(format!("[{deep}]").as_bytes(), Parse::default()).unwrap();
        let root = document.root();
        let mut batch = Batch::default();
        let value = root.item(0).unwrap();
        batch.push(root, value, &[Step::Index(0)], Action::Set(tape(&deep).into()));
        assert!(batch.rewrite(root).is_ok());
        let mut place = value;
        while let Some(inner) = place.item(0) {
            place = inner;
        }
        let mut batch = Batch::default();
        batch.push(root, place, &[Step::Index(0); 100], Action::Set(tape(&deep).into()));
        assert_eq!(batch.rewrite(root).unwrap_err(), Misfit::TooDeep);
    }
}
