//! Value types beside those that are built in: one whose values are packed into the key's entry.

use petrel_keyspace::custom::{
    CustomChange, CustomValue, Held, LoadError, Loaded, MALFORMED_CHANGE, PACKED_MAX, RdbForm,
    Shown, Slot, TypeNumber, ValueType, add_type, type_of_module, type_of_number,
};
use petrel_keyspace::{Effect, Handle, Keyspace, Options, Origin, Type, View};
use std::sync::{Arc, Mutex};

/// Operations and bodies of changes.
type Changes = Vec<(u8, Vec<u8>)>;

const MODULE: u64 = 0x1111_2222_3333_4400;

/// A text, from its first byte on: packed up to [`PACKED_MAX`], boxed beyond.
static CELL: ValueType = ValueType {
    number: TypeNumber(201),
    name: "cell",
    shown: Shown::MODULE,
    form: RdbForm::Module { numbers: &[MODULE], of: |_| MODULE },
    rdb_version: 9,
    head: |_, _| {},
    body: |held, out| out.text(text_of(held)),
    load: |reader, _| match reader.text()? {
        b"" => Err(LoadError::Malformed("an empty cell")),
        text => Ok(Loaded::Packed(text.to_vec())),
    },
    apply: |slot, change| match change.op {
        0 => {
            put(slot, change.body);
            Ok(())
        }
        1 => {
            append(slot, change.body);
            Ok(())
        }
        _ => Err(MALFORMED_CHANGE),
    },
    event: |_| None,
    commands: Some(|key, change, out| out.command("CELL.PUT", &[key, change.body])),
    digest: |held, digest| digest.ordered(text_of(held)),
    copy_effort: |_| 0,
    sizes: None,
};

struct Long(Vec<u8>);

impl CustomValue for Long {
    fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.0.capacity()
    }

    fn free_effort(&self) -> usize {
        1
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(Long(self.0.clone()))
    }

    fn begin_snapshot(&mut self) {}

    fn next_chunk(&mut self, _: &mut petrel_keyspace::custom::TakeChunk<'_>) -> bool {
        false
    }
}

fn text_of(held: Held<'_>) -> &[u8] {
    match held {
        Held::Packed(text) => text,
        held => held.get::<Long>().map_or(b"", |long| &long.0),
    }
}

fn put(slot: &mut (impl Slot + ?Sized), text: &[u8]) {
    if text.len() <= PACKED_MAX {
        slot.put_packed(text);
    } else {
        slot.put_boxed(Box::new(Long(text.to_vec())));
    }
    slot.record(0, &mut |out| out.extend_from_slice(text));
}

/// Appends to a text, and makes its first byte a capital.
fn append(slot: &mut (impl Slot + ?Sized), more: &[u8]) {
    match slot.held() {
        Some(Held::Packed(text)) if text.len() + more.len() <= PACKED_MAX => {
            let at = text.len();
            slot.splice(at, 0, more, &mut |text| text[0].make_ascii_uppercase());
        }
        held => {
            let mut text = [held.map_or(&b""[..], text_of), more].concat();
            text[0].make_ascii_uppercase();
            slot.put_boxed(Box::new(Long(text)));
        }
    }
    slot.record(1, &mut |out| out.extend_from_slice(more));
}

fn handle() -> Handle {
    add_type(&CELL);
    let mut handle = Keyspace::new(&Options::default()).attach();
    handle.enter();
    handle.lock_all();
    handle
}

fn text(view: Option<View<'_>>) -> Option<Vec<u8>> {
    view.and_then(|view| view.held()).map(|held| text_of(held).to_vec())
}

#[test]
fn a_type_is_found_by_number_and_module() {
    add_type(&CELL);
    // Once more is no harm.
    add_type(&CELL);
    assert!(std::ptr::eq(type_of_number(CELL.number).unwrap(), &CELL));
    assert!(std::ptr::eq(type_of_module(MODULE).unwrap(), &CELL));
    assert!(type_of_number(TypeNumber(255)).is_none());
    assert!(Type::is_name(b"CELL") && Type::is_name(b"rejson-rl") && !Type::is_name(b"cells"));
    static OTHER: ValueType = ValueType { number: CELL_NUMBER, name: "other", ..COPY };
    assert!(std::panic::catch_unwind(|| add_type(&OTHER)).is_err());
}

const CELL_NUMBER: TypeNumber = TypeNumber(201);

const COPY: ValueType = ValueType {
    number: TypeNumber(202),
    name: "copy",
    shown: Shown::MODULE,
    form: RdbForm::TypeByte(200),
    rdb_version: 9,
    head: |_, _| {},
    body: |_, _| {},
    load: |_, _| Err(LoadError::Truncated),
    apply: |_, _| Ok(()),
    event: |_| None,
    commands: None,
    digest: |_, _| {},
    copy_effort: |_| 0,
    sizes: None,
};

#[test]
fn packed_values_grow_until_they_are_boxed() {
    let mut handle = handle();
    let (name, other) = (b"name".as_slice(), b"other".as_slice());
    let (name, other) = (handle.key(name), handle.key(other));
    put(&mut handle.slot(0, name, &CELL).unwrap(), b"text");
    assert!(handle.set_expiry(0, name, Some(i64::MAX)));
    let mut expected = b"Text".to_vec();
    for len in [1, 7, 100, 1000, 2000, 900, 500, 10_000] {
        let more = vec![b'a' + (len % 26) as u8; len];
        append(&mut handle.slot(0, name, &CELL).unwrap(), &more);
        expected.extend_from_slice(&more);
        let view = handle.view(0, name).unwrap();
        assert_eq!(view.type_of(), Type::Custom(CELL.number));
        assert_eq!((view.type_of().name(), view.encoding()), ("cell", "raw"));
        assert_eq!(view.expiry(), Some(i64::MAX));
        assert!(view.footprint() >= expected.len());
        let is_packed = matches!(view.held(), Some(Held::Packed(_)));
        assert_eq!(is_packed, expected.len() <= PACKED_MAX, "{}", expected.len());
        assert!(view.custom::<Long>().is_ok() != is_packed);
        assert!(view.json().is_err() && view.vectors().is_err() && view.stream().is_err());
        assert_eq!(text(Some(view)).as_deref(), Some(&expected[..]));
        assert!(handle.copy(0, name, 0, other));
        assert_eq!(text(handle.view(0, other)).as_deref(), Some(&expected[..]));
    }
    assert!(handle.list_push(0, name, petrel_keyspace::types::list::End::Back, &[b"x"]).is_err());
    assert!(handle.remove(0, name));
    handle.unlock();
    handle.exit();
}

#[test]
fn changes_pass_as_effects() {
    let mut handle = handle();
    let noted: Arc<Mutex<Changes>> = Arc::default();
    let sink = noted.clone();
    handle.set_sink(Some(Box::new(move |_: u16, effect: &Effect<'_>| {
        if let Effect::Custom { change: CustomChange { op, body }, .. } = *effect {
            sink.lock().unwrap().push((op, body.to_vec()));
        }
    })));
    let name = handle.key(b"name");
    put(&mut handle.slot(0, name, &CELL).unwrap(), b"text");
    append(&mut handle.slot(0, name, &CELL).unwrap(), b" and more");
    handle.unlock();
    handle.exit();
    let noted = std::mem::take(&mut *noted.lock().unwrap());
    assert_eq!(noted, [(0, b"text".to_vec()), (1, b" and more".to_vec())]);

    let mut other = self::handle();
    let mut apply = |of, op, body: &[u8]| {
        let effect = Effect::Custom { key: b"name", of, change: CustomChange { op, body } };
        other.apply(0, &effect, Origin::LOCAL).map_err(|misfit| misfit.to_string())
    };
    for (op, body) in &noted {
        apply(CELL.number, *op, body).unwrap();
    }
    let error = apply(CELL.number, 9, b"").unwrap_err();
    assert!(error.contains(MALFORMED_CHANGE) && error.contains("'name'"), "{error}");
    let error = apply(TypeNumber(255), 0, b"").unwrap_err();
    assert!(error.contains("another type"), "{error}");
    let error = apply(TypeNumber::JSON, 0, b"\x01\x00").unwrap_err();
    assert!(error.contains("another type"), "{error}");
    let name = other.key(b"name");
    assert_eq!(text(other.view(0, name)).as_deref(), Some(&b"Text and more"[..]));
    other.unlock();
    other.exit();
}
