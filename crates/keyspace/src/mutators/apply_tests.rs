use crate::structures::list::End;
use crate::{
    Effect, EffectHead, EffectSink, Epochs, Handle, Keyspace, Options, Origin, Removal, SinkSource,
    StrRef, Value,
};
use std::sync::{Arc, Mutex};

/// Records a line per call.
#[derive(Clone, Default)]
struct Notes {
    lines: Arc<Mutex<Vec<String>>>,
    owns_epochs: bool,
}

impl Notes {
    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

impl EffectSink for Notes {
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        let text = format!("{effect:?}");
        let name = text.split(' ').next().unwrap_or_default();
        self.note(format!("{name} from {}", head.origin.0));
    }

    fn commit(&mut self, epochs: &Epochs, _: bool) -> u64 {
        self.note("decides".into());
        epochs.now() + 10
    }

    fn committed(&mut self, epoch: u64, _: bool) {
        self.note(format!("committed {epoch}"));
    }
}

impl SinkSource for Notes {
    fn sink(&self) -> Box<dyn EffectSink> {
        Box::new(self.clone())
    }

    fn owns_epochs(&self) -> bool {
        self.owns_epochs
    }
}

fn with_everything<T>(handle: &mut Handle, act: impl FnOnce(&mut Handle) -> T) -> T {
    handle.enter();
    handle.lock_all();
    let result = act(handle);
    handle.unlock();
    handle.exit();
    result
}

fn put<'a>(key: &'a [u8], value: &'a [u8], expiry: Option<i64>) -> Effect<'a> {
    Effect::Put { key, value: StrRef::Bytes(value), expiry }
}

#[test]
fn any_number_of_sinks_of_which_one_owns_the_epochs() {
    let mut handle = Keyspace::new(&Options::default()).attach();
    let (index, log) = (Notes::default(), Notes { owns_epochs: true, ..Notes::default() });
    with_everything(&mut handle, |handle| {
        handle.set_sinks("index", Some(Arc::new(index.clone())));
        handle.set_sinks("log", Some(Arc::new(log.clone())));
    });
    let write = |handle: &mut Handle| {
        with_everything(handle, |handle| {
            let key = handle.key(b"k");
            handle.put(0, key, Value::Int(1), None);
        });
    };
    write(&mut handle);
    assert_eq!(log.take(), ["Put from 0", "decides"]);
    assert_eq!(index.take(), ["Put from 0", "committed 11"]);
    assert_eq!(handle.take_need(), 11);
    with_everything(&mut handle, |handle| handle.set_sinks("log", None));
    write(&mut handle);
    assert_eq!(index.take(), ["Put from 0", "decides"]);
    assert!(log.take().is_empty());
}

#[test]
fn an_applied_effect_keeps_its_origin() {
    let mut handle = Keyspace::new(&Options::default()).attach();
    let notes = Notes::default();
    with_everything(&mut handle, |handle| {
        handle.set_sinks("peer", Some(Arc::new(notes.clone())));
        handle.apply(0, &put(b"k", b"v", None), Origin(7)).unwrap();
        handle.apply(0, &Effect::Clear, Origin(8)).unwrap();
        let key = handle.key(b"k");
        handle.put(0, key, Value::Int(1), None);
    });
    let notes = notes.take();
    assert_eq!(notes[..3], ["Put from 7", "Clear from 8", "Put from 0"], "{notes:?}");
}

#[test]
fn nothing_expires_and_no_event_is_published_because_of_it() {
    let mut handle = Keyspace::new(&Options::default()).attach();
    handle.set_clock(1_000_000);
    handle.set_events(u32::MAX);
    with_everything(&mut handle, |handle| {
        let past = Some(1000);
        handle.apply(0, &put(b"k", b"v", past), Origin(1)).unwrap();
        let push = Effect::Write { key: b"k", offset: 1, bytes: b"w" };
        handle.apply(0, &push, Origin(1)).unwrap();
        handle.apply(0, &Effect::Expire { key: b"k", expiry: Some(2000) }, Origin(1)).unwrap();
        let field = |expiry| Effect::FieldPut { key: b"h", field: b"f", value: b"v", expiry };
        handle.apply(0, &field(past), Origin(1)).unwrap();
        let later = Effect::FieldExpire { key: b"h", field: b"f", expiry: Some(1 << 50) };
        handle.apply(0, &later, Origin(1)).unwrap();
        assert!(!handle.has_events());
        assert_eq!(handle.keyspace().db_stats(0).keys, 2);
    });
    // For readers it has expired.
    assert!(handle.load(0, b"k").is_none());
}

#[test]
fn what_does_not_fit_is_an_error_that_names_key_and_effect() {
    let mut handle = Keyspace::new(&Options::default()).attach();
    with_everything(&mut handle, |handle| {
        handle.apply(0, &put(b"text", b"abc", None), Origin::LOCAL).unwrap();
        let push = Effect::ListPush { key: b"l", end: End::Back, element: b"e" };
        handle.apply(0, &push, Origin::LOCAL).unwrap();
        let misfits = [
            (Effect::Add { key: b"text", delta: 1 }, "Add of key 'text' does not fit"),
            (Effect::MemberAdd { key: b"text", member: b"m" }, "MemberAdd of key 'text'"),
            (Effect::ListPop { key: b"none", end: End::Back }, "ListPop of key 'none'"),
            (Effect::ListSet { key: b"l", index: 1, element: b"x" }, "ListSet of key 'l'"),
            (
                Effect::ListInsert { key: b"l", index: 2, element: b"x", next: None },
                "ListInsert of key 'l'",
            ),
            (Effect::ListRemove { key: b"l", index: 9 }, "ListRemove of key 'l'"),
            (Effect::ListTrim { key: b"l", from: 1, len: usize::MAX }, "ListTrim of key 'l'"),
            (Effect::Expire { key: b"none", expiry: None }, "Expire of key 'none'"),
            (Effect::Write { key: b"text", offset: usize::MAX, bytes: b"x" }, "Write of key"),
            (Effect::Swap { with: 999 }, "Swap does not fit"),
        ];
        for (effect, text) in misfits {
            let misfit = handle.apply(0, &effect, Origin::LOCAL).unwrap_err();
            assert!(misfit.to_string().starts_with(text), "{misfit}");
        }
        // Removing an absent key or adding an existing element changes nothing.
        let gone = Effect::Remove { key: b"none", why: Removal::Deleted };
        handle.apply(0, &gone, Origin::LOCAL).unwrap();
        handle.apply(0, &push, Origin::LOCAL).unwrap();
        assert_eq!(handle.keyspace().db_stats(0).keys, 2);
    });
}
