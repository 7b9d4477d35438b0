//! A value type under a type byte of its own: parts without sorts, and no end mark.

use petrel_keyspace::custom::{LoadError, Loaded, RdbForm, Shown, TypeNumber, ValueType, add_type};
use petrel_keyspace::{Keyspace, Options, Type};
use petrel_persistence::rdb::{Dialect, Error, Leniency, Slice, Source, open, skip_value};
use petrel_persistence::value;

/// A number that is written in all ways: packed, as eight bytes.
static NUMBER: ValueType = ValueType {
    number: TypeNumber(210),
    name: "number",
    shown: Shown::MODULE,
    form: RdbForm::TypeByte(96),
    rdb_version: 11,
    head: |_, _| {},
    body: |held, out| {
        let petrel_keyspace::custom::Held::Packed(bytes) = held else { return };
        let n = i64::from_le_bytes(bytes.try_into().unwrap());
        out.unsigned(n.unsigned_abs());
        out.signed(n);
        out.double(n as f64);
        out.text(b"text");
    },
    load: |reader, module| {
        let (unsigned, signed, double) = (reader.unsigned()?, reader.signed()?, reader.double()?);
        let is_right = reader.text()? == b"text" && signed.unsigned_abs() == unsigned;
        if !is_right || double != signed as f64 || module != 0 {
            return Err(LoadError::Malformed("a broken number"));
        }
        Ok(Loaded::Packed(signed.to_le_bytes().to_vec()))
    },
    apply: |_, _| Ok(()),
    event: |_| None,
    commands: None,
    digest: |_, _| {},
    copy_effort: |_| 0,
    sizes: None,
};

#[test]
fn values_are_dumped_and_restored() {
    add_type(&NUMBER);
    let mut handle = Keyspace::new(&Options::default()).attach();
    handle.enter();
    handle.lock_all();
    let (key, other) = (handle.key(b"key"), handle.key(b"other"));
    for n in [0, -7, 300, 70_000, i64::MIN, i64::MAX] {
        handle.store_loaded(0, key, &NUMBER, Loaded::Packed(n.to_le_bytes().to_vec()));
        let view = handle.view(0, key).unwrap();
        let payload = value::dump(view, 0, Dialect::Redis).unwrap();
        assert_eq!((payload[0], payload[payload.len() - 10]), (96, 11));
        let (type_byte, mut source) = open(&payload, Leniency::default()).unwrap();
        skip_value(&mut source, type_byte).unwrap();
        assert_eq!(source.left(), 0);

        value::restore(&mut handle, 0, other, None, &payload, Leniency::default()).unwrap();
        let view = handle.view(0, other).unwrap();
        assert_eq!(view.type_of(), Type::Custom(NUMBER.number));
        assert_eq!(value::dump(view, 0, Dialect::Redis).unwrap(), payload);
        for len in 0..payload.len() - 10 {
            let mut source = Slice::new(&payload[1..][..len.min(payload.len() - 11)]);
            let is_whole = len == payload.len() - 11;
            assert_eq!(skip_value(&mut source, 96).is_ok(), is_whole, "{n} {len}");
        }
    }
    let unknown = skip_value(&mut Slice::new(b""), 97);
    assert!(matches!(unknown, Err(Error::Unsupported(_))));
    handle.unlock();
    handle.exit();
}
