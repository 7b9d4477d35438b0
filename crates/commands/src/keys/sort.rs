//! SORT and SORT_RO.
//!
//! `BY` and `GET` read keys with names made from the elements. Their stripes are only known once
//! the elements are: [`lock_outside`] locks the stripes of few such keys, and the whole keyspace
//! for many.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{Pacer, UNITS_PER_ITEM};
use crate::modes::Modes;
use crate::numbers::{double, integer};
use crate::spec::CommandSpec;
use petrel_keyspace::hash_slot::slot_of;
use petrel_keyspace::packed::Item;
use petrel_keyspace::types::list::{Element, End};
use petrel_keyspace::types::{Type, WrongType};
use petrel_keyspace::{Handle, Key, KeyHash, View};
use petrel_table::commands as meta;
use petrel_table::options::SortOption;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] =
    &[CommandSpec::new(&meta::SORT, sort), CommandSpec::new(&meta::SORT_RO, sort_ro)];

/// Work units for looking up the value of a pattern, and for comparing two elements.
const UNITS_PER_LOOK: usize = 15;
const UNITS_PER_COMPARISON: usize = 2;

/// Rows sorted in one step.
const RUN: usize = 16 * 1024;

/// Maximum number of keys of patterns that are locked one by one; for more, the whole keyspace is
/// locked.
const OUTSIDE_MAX: usize = 512;

/// Additional bytes per element of a list to store.
const ENDS_BYTES: usize = size_of::<usize>() + size_of::<&[u8]>();

/// Maximum number of attempts to lock the keys of patterns, which may change meanwhile.
const ATTEMPTS: usize = 3;

const BY_DENIED: Fail =
    Fail::fixed("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_DENIED: Fail =
    Fail::fixed("ERR GET option of SORT denied due to insufficient ACL permissions.");
const BY_APART: Fail = Fail::fixed(
    "ERR BY option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.",
);
const GET_APART: Fail = Fail::fixed(
    "ERR GET option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.",
);
const NO_NUMBER: Fail = Fail::fixed("ERR One or more scores can't be converted into double");

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]
/// [STORE destination]`
fn sort(ctx: &mut Ctx<'_>) -> Outcome {
    let options = Options::parse(ctx, true)?;
    options.admit_patterns(ctx)?;
    run(ctx, &options)
}

/// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC]
/// [ALPHA]`
fn sort_ro(ctx: &mut Ctx<'_>) -> Outcome {
    let options = Options::parse(ctx, false)?;
    options.admit_patterns(ctx)?;
    run(ctx, &options)
}

fn run(ctx: &mut Ctx<'_>, options: &Options<'_>) -> Outcome {
    lock_outside(ctx, options);
    let (db, key) = (ctx.db(), ctx.key(1));
    ctx.exec.ks.read(db, key);
    let source = Source { ks: &ctx.exec.ks, db, expired: RefCell::default() };
    let (mut joined, mut held, mut pacer) = (Vec::new(), None, ctx.exec.pacer());
    let elements = match source.ks.view(db, key) {
        None => Vec::new(),
        Some(view) => {
            held = source.ks.hold(len_of(view)? * size_of::<Row<'_>>())?;
            options.chosen(view, &source, &mut joined, &mut pacer)?
        }
    };
    let Some(destination) = options.store else {
        let looks = elements.len().saturating_mul(options.get.len());
        pacer.pace(looks.saturating_mul(UNITS_PER_LOOK) + elements.len() * UNITS_PER_ITEM)?;
        ctx.reply.array(elements.len() * options.get.len().max(1));
        options.each_result(&elements, &source, |result| {
            match result {
                Some(text) => ctx.reply.bulk(text.bytes()),
                None => ctx.reply.null(),
            }
            if ctx.reply.is_dropped() {
                return Ok(ControlFlow::Break(()));
            }
            pacer.pace_reply(UNITS_PER_LOOK)?;
            Ok(ControlFlow::Continue(()))
        })?;
        let expired = source.expired.into_inner();
        drop_expired(ctx, &expired);
        return Ok(());
    };
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    // Collected values are copied once more, into the list.
    let mut gathered = source.ks.transient();
    options.each_result(&elements, &source, |result| {
        bytes.extend_from_slice(result.as_ref().map_or(&[], Text::bytes));
        ends.push(bytes.len());
        if !gathered.fits(2 * bytes.len() + ends.len() * ENDS_BYTES) {
            return Err(Fail::OUT_OF_MEMORY);
        }
        pacer.pace(UNITS_PER_LOOK)?;
        Ok(ControlFlow::Continue(()))
    })?;
    drop(held);
    let expired = source.expired.into_inner();
    drop_expired(ctx, &expired);
    store(ctx, destination, &bytes, &ends)
}

/// Removes expired fields that were read, as other reads do; Valkey leaves them to the active
/// expiry cycle.
fn drop_expired(ctx: &mut Ctx<'_>, fields: &[(Vec<u8>, Vec<u8>)]) {
    let (db, is_valkey) = (ctx.db(), ctx.dialect().is_valkey());
    let ks = &mut ctx.exec.ks;
    for (key, field) in fields.iter().filter(|_| !is_valkey) {
        let key = ks.key(key);
        ks.hash_drop_expired(db, key, &[field]);
    }
}

/// Whether the caller may read all keys, since the keys of patterns are not known beforehand.
fn reads_every_key(ctx: &mut Ctx<'_>) -> bool {
    !ctx.exec.restricts(ctx.session) || ctx.reads_every_key()
}

/// Stores the results as a list at the destination; `ends` has the end of each element in `bytes`.
fn store(ctx: &mut Ctx<'_>, destination: usize, bytes: &[u8], ends: &[usize]) -> Outcome {
    let (db, key) = (ctx.db(), ctx.key(destination));
    let mut begin = 0;
    let elements: Vec<&[u8]> =
        ends.iter().map(|&end| &bytes[std::mem::replace(&mut begin, end)..end]).collect();
    crate::lists::check_elements(&elements)?;
    ctx.exec.ks.build(db, key, None, |ks| {
        if elements.is_empty() {
            return Ok(());
        }
        ks.list_push(db, key, End::Back, &elements).map(|_| ())
    })?;
    ctx.number(elements.len() as i64)
}

/// Arguments of SORT.
struct Options<'a> {
    /// Called by a script.
    in_script: bool,
    by: Option<Pattern<'a>>,
    /// `BY` with a constant pattern: no sorting.
    unsorted: bool,
    get: Vec<Pattern<'a>>,
    descending: bool,
    alphabetic: bool,
    offset: i64,
    count: i64,
    /// Argument index of the destination.
    store: Option<usize>,
}

impl<'a> Options<'a> {
    fn parse(ctx: &mut Ctx<'a>, may_store: bool) -> Result<Self, Fail> {
        let mut options = Options {
            by: None,
            unsorted: false,
            get: Vec::new(),
            descending: false,
            alphabetic: false,
            in_script: ctx.exec.is_within_script(),
            offset: 0,
            count: -1,
            store: None,
        };
        let mut words = ctx.options(2);
        while let Some(option) = words.next() {
            match option? {
                SortOption::Asc => options.descending = false,
                SortOption::Desc => options.descending = true,
                SortOption::Alpha => options.alphabetic = true,
                SortOption::Limit(offset, count) => {
                    (options.offset, options.count) = (integer(offset)?, integer(count)?);
                }
                SortOption::Store(_) if may_store => options.store = Some(ctx.position(&words) - 1),
                SortOption::Store(_) => return Err(Fail::SYNTAX),
                SortOption::By(pattern) => {
                    let names_keys = pattern.contains(&b'*');
                    if names_keys && !reads_every_key(ctx) {
                        return Err(BY_DENIED);
                    }
                    options.by = Some(Pattern::parse(pattern));
                    options.unsorted |= !names_keys;
                }
                SortOption::Get(_) if !reads_every_key(ctx) => return Err(GET_DENIED),
                SortOption::Get(pattern) => options.get.push(Pattern::parse(pattern)),
            }
        }
        Ok(options)
    }

    /// Rejects patterns for keys of other nodes, if members of a cluster hold only some slots, and
    /// for clients of Redis Cluster: a pattern needs a hash tag for the slot of the sorted key.
    fn admit_patterns(&self, ctx: &Ctx<'_>) -> Outcome {
        let is_limited = ctx.session.is(Modes::CLUSTER_CLIENT);
        if !is_limited && ctx.exec.shared.cluster_of_few().is_none() {
            return Ok(());
        }
        let slot = slot_of(ctx.arg(1));
        let is_beside = |pattern: &Pattern<'_>| match pattern {
            Pattern::At { before, .. } => {
                let tag = before.iter().position(|&byte| byte == b'{');
                let tagged = tag.map(|open| &before[open + 1..]);
                let len = tagged.and_then(|text| text.iter().position(|&byte| byte == b'}'));
                len.is_some_and(|len| len > 0) && slot_of(before) == slot
            }
            Pattern::Element | Pattern::Nowhere => true,
        };
        if !self.unsorted && !self.by.iter().all(is_beside) {
            return Err(BY_APART);
        }
        if self.get.iter().all(is_beside) { Ok(()) } else { Err(GET_APART) }
    }

    /// Patterns that name keys.
    fn outside(&self) -> impl Iterator<Item = &Pattern<'a>> {
        let by = self.by.iter().filter(|_| !self.unsorted);
        by.chain(&self.get).filter(|pattern| matches!(pattern, Pattern::At { .. }))
    }

    /// Range that `LIMIT` selects of `len` elements.
    fn window(&self, len: usize) -> Range<usize> {
        let start = usize::try_from(self.offset).unwrap_or(0).min(len);
        let count = usize::try_from(self.count).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }

    /// Selected elements, in order.
    fn chosen<'k>(
        &self,
        view: View<'k>,
        source: &Source<'k>,
        joined: &'k mut Vec<u8>,
        pacer: &mut Pacer,
    ) -> Result<Vec<Text<'k>>, Fail> {
        let len = len_of(view)?;
        // Cost of copying the elements.
        pacer.pace(len)?;
        let window = self.window(len);
        // The stored order, and the order that a script sees, must not depend on a set's encoding.
        let is_set = view.type_of() == Type::Set;
        if self.unsorted && !(is_set && (self.store.is_some() || self.in_script)) {
            return Ok(self.unsorted_elements(view, window, joined)?);
        }
        let mut rows = Vec::with_capacity(len);
        let mut failed = None;
        each_element(view, joined, |text| {
            if failed.is_some() {
                return;
            }
            let weight = pacer.pace(UNITS_PER_LOOK).and_then(|()| self.weight(&text, source));
            match weight {
                Ok(weight) => rows.push(Row { weight, index: rows.len(), text }),
                Err(fail) => failed = Some(fail),
            };
        })?;
        if let Some(fail) = failed {
            return Err(fail);
        }
        let order = |a: &Row<'_>, b: &Row<'_>| a.order(b, self.descending);
        if window.end < len / 2 {
            // Only the selected elements and those before them have to be in order.
            if window.end > 0 {
                pacer.pace(len * UNITS_PER_COMPARISON)?;
                rows.select_nth_unstable_by(window.end - 1, order);
            }
            rows.truncate(window.end);
        }
        sort_rows(&mut rows, &order, pacer)?;
        Ok(rows[window].iter().map(|row| row.text).collect())
    }

    fn unsorted_elements<'k>(
        &self,
        view: View<'k>,
        window: Range<usize>,
        joined: &'k mut Vec<u8>,
    ) -> Result<Vec<Text<'k>>, WrongType> {
        let mut elements = Vec::with_capacity(window.len());
        let mut add = |element: Item<'k>| elements.push(Text::of(element));
        match view.type_of() {
            Type::List if self.descending => {
                let list = view.list()?;
                if !window.is_empty() {
                    let last = list.len() - 1 - window.start;
                    let run = list.iter_back_from(last).take(window.len());
                    elements.extend(texts(run, joined));
                }
            }
            Type::List => {
                let run = view.list()?.iter_from(window.start).take(window.len());
                elements.extend(texts(run, joined));
            }
            Type::SortedSet => {
                let set = view.sorted_set()?;
                if self.descending {
                    let ranks = set.len() - window.end..set.len() - window.start;
                    set.run(ranks).each_back(|member, _| add(member));
                } else {
                    set.each(window, |member, _| add(member));
                }
            }
            _ => {
                let mut rank = 0;
                view.set()?.each(&mut |member| {
                    if window.contains(&rank) {
                        add(member);
                    }
                    rank += 1;
                });
            }
        }
        Ok(elements)
    }

    /// Sort key of an element.
    fn weight<'k>(&self, element: &Text<'k>, source: &Source<'k>) -> Result<Weight<'k>, Fail> {
        let by = match &self.by {
            Some(pattern) if !self.unsorted => source.look_up(pattern, element),
            _ => Some(*element),
        };
        if self.alphabetic || self.unsorted {
            return Ok(Weight::Text(by));
        }
        let number = by.map_or(Some(0.0), |text| double::parse(text.bytes()));
        number.map(Weight::Number).ok_or(NO_NUMBER)
    }

    /// Calls `each` with the results of each element, until it breaks or fails: the element itself,
    /// or the values of the `GET` patterns.
    fn each_result<'k>(
        &self,
        elements: &[Text<'k>],
        source: &Source<'k>,
        mut each: impl FnMut(Option<Text<'k>>) -> Result<ControlFlow<()>, Fail>,
    ) -> Outcome {
        for element in elements {
            if self.get.is_empty() && each(Some(*element))?.is_break() {
                return Ok(());
            }
            for pattern in &self.get {
                if each(source.look_up(pattern, element))?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Sorts runs of rows and merges them, with a bounded time per step.
fn sort_rows(
    rows: &mut Vec<Row<'_>>,
    order: &impl Fn(&Row<'_>, &Row<'_>) -> Ordering,
    pacer: &mut Pacer,
) -> Outcome {
    for run in rows.chunks_mut(RUN) {
        pacer.pace(run.len() * UNITS_PER_COMPARISON * 8)?;
        run.sort_unstable_by(order);
    }
    let mut len = RUN;
    while len < rows.len() {
        let mut merged = Vec::with_capacity(rows.len());
        for pair in rows.chunks(2 * len) {
            let (left, right) = pair.split_at(len.min(pair.len()));
            let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
            loop {
                let takes_left = match (left.peek(), right.peek()) {
                    (Some(a), Some(b)) => order(a, b) != Ordering::Greater,
                    (None, None) => break,
                    (next, _) => next.is_some(),
                };
                let next = if takes_left { left.next() } else { right.next() };
                merged.extend(next);
                pacer.pace(UNITS_PER_COMPARISON)?;
            }
        }
        *rows = merged;
        len *= 2;
    }
    Ok(())
}

/// Element with its sort key.
#[derive(Clone, Copy)]
struct Row<'k> {
    weight: Weight<'k>,
    text: Text<'k>,
    index: usize,
}

#[derive(Clone, Copy)]
enum Weight<'k> {
    Number(f64),
    /// `None` sorts first.
    Text(Option<Text<'k>>),
}

impl Row<'_> {
    /// Compares rows. Equal numbers are ordered by the elements; equal texts keep their order.
    fn order(&self, other: &Self, descending: bool) -> Ordering {
        let order = match (&self.weight, &other.weight) {
            (Weight::Number(a), Weight::Number(b)) => a
                .partial_cmp(b)
                .unwrap_or(Ordering::Equal)
                .then_with(|| self.text.bytes().cmp(other.text.bytes())),
            (Weight::Text(a), Weight::Text(b)) => {
                a.as_ref().map(Text::bytes).cmp(&b.as_ref().map(Text::bytes))
            }
            // All weights of a call are of one kind.
            _ => Ordering::Equal,
        };
        let order = if descending { order.reverse() } else { order };
        order.then(self.index.cmp(&other.index))
    }
}

/// Text in the keyspace, or the digits of an integer.
#[derive(Clone, Copy)]
enum Text<'k> {
    Lies(&'k [u8]),
    Digits { digits: [u8; 20], len: u8 },
}

impl<'k> Text<'k> {
    fn of(item: Item<'k>) -> Self {
        match item {
            Item::Text(text) => Text::Lies(text),
            Item::Int(n) => Self::of_int(n),
        }
    }

    fn of_int(n: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let printed = buffer.format(n).as_bytes();
        let mut digits = [0; 20];
        digits[..printed.len()].copy_from_slice(printed);
        Text::Digits { digits, len: printed.len() as u8 }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Text::Lies(text) => text,
            Text::Digits { digits, len } => &digits[..usize::from(*len)],
        }
    }
}

/// Pattern of `BY` or `GET`.
enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// Pattern without `*`: independent of the element, so it matches nothing.
    Nowhere,
    /// Key name before and after the element, of a string, or of a hash with a field.
    At { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a [u8]) -> Self {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|&byte| byte == b'*') else {
            return Pattern::Nowhere;
        };
        let (before, after) = (&text[..star], &text[star + 1..]);
        match after.windows(2).position(|pair| pair == b"->") {
            Some(arrow) if arrow + 2 < after.len() => {
                Pattern::At { before, after: &after[..arrow], field: Some(&after[arrow + 2..]) }
            }
            _ => Pattern::At { before, after, field: None },
        }
    }

    /// Name of the key for an element.
    fn key(before: &[u8], element: &Text<'_>, after: &[u8]) -> Vec<u8> {
        [before, element.bytes(), after].concat()
    }
}

/// Database in which patterns are looked up.
struct Source<'k> {
    ks: &'k Handle,
    db: u16,
    /// Expired hash fields that were read, with their keys.
    expired: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl<'k> Source<'k> {
    fn look_up(&self, pattern: &Pattern<'_>, element: &Text<'k>) -> Option<Text<'k>> {
        let (before, after, field) = match pattern {
            Pattern::Element => return Some(*element),
            Pattern::Nowhere => return None,
            Pattern::At { before, after, field } => (before, after, field),
        };
        let name = Pattern::key(before, element, after);
        let key: Key<'_> = self.ks.key(&name);
        let view = self.ks.read_beside(self.db, key)?;
        match field {
            Some(field) => {
                let hash = view.hash(self.ks.now_ms()).ok()?;
                if hash.has_expired() && hash.is_expired(field) {
                    self.expired.borrow_mut().push((name, field.to_vec()));
                }
                hash.get(field).map(|field| Text::of(field.value))
            }
            None => match view.string().ok()? {
                petrel_keyspace::StrRef::Int(n) => Some(Text::of_int(n)),
                petrel_keyspace::StrRef::Bytes(bytes) => Some(Text::Lies(bytes)),
                petrel_keyspace::StrRef::Blob(bytes) => Some(Text::Lies(bytes)),
            },
        }
    }
}

fn len_of(view: View<'_>) -> Result<usize, WrongType> {
    match view.type_of() {
        Type::List => Ok(view.list()?.len()),
        Type::SortedSet => Ok(view.sorted_set()?.len()),
        _ => Ok(view.set()?.len()),
    }
}

/// Elements of a list; those stored in two pieces are joined in `joined`.
fn texts<'k>(
    elements: impl Iterator<Item = Element<'k>> + Clone,
    joined: &'k mut Vec<u8>,
) -> impl Iterator<Item = Text<'k>> {
    joined.clear();
    for element in elements.clone().filter(|element| element.item().is_none()) {
        element.append_to(joined);
    }
    let mut rest = &joined[..];
    elements.map(move |element| match element.item() {
        Some(item) => Text::of(item),
        None => {
            let (text, behind) = rest.split_at(element.len());
            rest = behind;
            Text::Lies(text)
        }
    })
}

fn each_element<'k>(
    view: View<'k>,
    joined: &'k mut Vec<u8>,
    mut each: impl FnMut(Text<'k>),
) -> Result<(), WrongType> {
    match view.type_of() {
        Type::List => texts(view.list()?.iter_from(0), joined).for_each(each),
        Type::SortedSet => {
            let set = view.sorted_set()?;
            set.each(0..set.len(), |member, _| each(Text::of(member)));
        }
        _ => view.set()?.each(&mut |member| each(Text::of(member))),
    }
    Ok(())
}

/// Locks the keys of patterns as well. Nothing has been executed yet, so the locks may be released
/// and taken again; a transaction holds all locks already.
fn lock_outside(ctx: &mut Ctx<'_>, options: &Options<'_>) {
    if options.outside().next().is_none() {
        return;
    }
    let mut own = vec![ctx.key(1).hash];
    own.extend(options.store.map(|destination| ctx.key(destination).hash));
    for _ in 0..ATTEMPTS {
        if ctx.exec.ks.holds_everything() {
            return;
        }
        let Some(mut hashes) = outside_hashes(ctx, options) else { break };
        if hashes.iter().all(|&hash| ctx.exec.ks.holds(hash)) {
            return;
        }
        hashes.extend_from_slice(&own);
        ctx.exec.lock_instead(Some(&hashes), ctx.host);
    }
    if !ctx.exec.ks.holds_everything() {
        ctx.exec.lock_instead(None, ctx.host);
    }
}

/// Hashes of the keys that the patterns name for the current elements; `None` if there are too
/// many.
fn outside_hashes(ctx: &Ctx<'_>, options: &Options<'_>) -> Option<Vec<KeyHash>> {
    let ks = &ctx.exec.ks;
    let Some(view) = ks.view(ctx.db(), ctx.key(1)) else { return Some(Vec::new()) };
    // A value of a wrong type is rejected later.
    let len = len_of(view).unwrap_or(0);
    if len.saturating_mul(options.outside().count()) > OUTSIDE_MAX {
        return None;
    }
    let mut hashes = Vec::new();
    let _ = each_element(view, &mut Vec::new(), |element| {
        for pattern in options.outside() {
            if let Pattern::At { before, after, .. } = pattern {
                hashes.push(ks.hash(&Pattern::key(before, &element, after)));
            }
        }
    });
    Some(hashes)
}
