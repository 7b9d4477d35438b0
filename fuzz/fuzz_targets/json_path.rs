//! An untrusted path must be refused, or find values by steps that lead to them, within budgets of
//! steps and memory in proportion to the document.
//!
//! The input is a path, a newline, a document.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_json::{
    Action, Batch, Change, Edit, Format, Kind, Op, Parse, Path, SearchError, Value, WORK_MAX, Work,
    check, parse, print,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts what is allocated, and the most of it.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that compiled patterns take beside what is in proportion to the document.
const PATTERNS_MAX: usize = 16 << 20;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (Some(path), Some(text)) = (parts.next(), parts.next()) else { return };
    let Ok(path) = std::str::from_utf8(path) else { return };
    let (Ok(path), Ok(document)) = (Path::parse(path), parse(text, Parse::default())) else {
        return;
    };
    let (root, mut work, mut batch) = (document.root(), Work::default(), Batch::default());
    let (mut found, mut count) = (Vec::new(), 0u64);
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    if let Ok(Some(made)) = path.project(root, &mut Work::default()) {
        assert!(made.root().kind() == Kind::Array);
        let mut text = Vec::new();
        print(made.root(), &Format::default(), &mut text);
        // Lists that are nested in each other may be deeper than a document.
        assert!(made.root().depth() > 127 || parse(&text, Parse::default()).is_ok());
        let peak = PEAK.load(Relaxed).saturating_sub(before + text.capacity());
        assert!(peak <= PATTERNS_MAX + 3 * (64 * root.tape().len() + (4 << 20)), "{peak} bytes");
        return;
    }
    let done = path.search(root, &mut work, &mut |value, steps, _| {
        count += 1;
        if found.len() < 16 {
            found.push((value.tape().len(), steps.to_vec()));
        }
        batch.push(root, value, steps, Action::Set([0x40][..].into()));
        ControlFlow::Continue(())
    });
    // Each value that is found takes a step at least, and a search has its share of the steps.
    let taken = WORK_MAX - work.left();
    let share = (1 << 20) + 32 * root.tape().len() as u64;
    assert!(
        count <= taken && taken <= share.min(WORK_MAX),
        "{count} found, {taken} of {share} steps"
    );
    // A value is in a batch once, with its steps.
    assert!(batch.len() <= root.tape().len(), "{} values", batch.len());
    let held = batch.footprint() + PATTERNS_MAX + 64 * root.tape().len();
    let peak = PEAK.load(Relaxed).saturating_sub(before);
    // A vector or a table that grows is there twice for a moment.
    assert!(peak <= 3 * held, "{peak} bytes, of which {} are accounted for", batch.footprint());
    assert!(path.footprint() <= PATTERNS_MAX + 64 * path.text().len() + 4096);
    match done {
        Ok(()) => {}
        Err(SearchError::TooMuchWork | SearchError::Pattern) => return,
    }
    batch.settle();
    if let Ok(rewritten) = batch.rewrite(root) {
        assert!(check(rewritten.tape(), 0).is_some());
    }
    assert!(root.is_same(Value::new(document.tape())));
    for (len, place) in found {
        let value = parse(b"[\"anew\"]", Parse::default()).expect("it is JSON");
        let change = Change { place: &place, op: Op::Set(value.tape()) };
        let Ok(edit) = Edit::of(document.tape(), &change) else { continue };
        let mut tape = document.tape().to_vec();
        edit.apply(&mut tape);
        assert!(tape.len() + len >= document.tape().len() + value.tape().len());
        assert_eq!(Value::new(&tape).tape().len(), tape.len());
    }
});
