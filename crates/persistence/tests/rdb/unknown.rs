//! Values of types that are not known: kept as they came, with later changes.

use petrel_keyspace::custom::{CustomChange, TypeNumber};
use petrel_keyspace::{Effect, Handle, Key, Keyspace, Options, Origin, Type};
use petrel_persistence::rdb::{
    Dialect, Error, Leniency, Slice, open, read_to_end, read_value, skip_value,
};
use petrel_persistence::value::{self, Builder};

/// A number that no type has.
const OF: TypeNumber = TypeNumber(250);

/// Type byte of modules.
const MODULE: u8 = 7;

fn handle() -> Handle {
    let mut handle = Keyspace::new(&Options::default()).attach();
    handle.enter();
    handle.lock_all();
    handle
}

/// A value of a module: all sorts of parts, a compressed text among them, and numbers in longer
/// forms than need be.
fn parts() -> Vec<u8> {
    let mut value = vec![0x81, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xff, 0x01];
    value.extend_from_slice(&[1, 0x40, 5, 2, 0x80, 0, 0, 0, 9, 3, 1, 2, 3, 4]);
    value.extend_from_slice(&[4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 3, b'a', b'b', b'c']);
    // "aaaaaaaaaa" as one byte and a repetition of it.
    value.extend_from_slice(&[5, 0xc3, 5, 10, 0, b'a', 0xe0, 0, 0]);
    value.extend_from_slice(&[5, 0xc0, 7, 0]);
    value
}

fn read(handle: &mut Handle, key: Key<'_>, type_byte: u8, bytes: &[u8]) -> Result<(), Error> {
    handle.build(0, key, None, |handle| {
        let mut builder = Builder::new(handle, 0, key);
        read_to_end(bytes, type_byte, &mut builder)?;
        builder.finish();
        Ok(())
    })
}

fn dumped(handle: &Handle, key: Key<'_>) -> Vec<u8> {
    value::dump(handle.view(0, key).unwrap(), 0, Dialect::Redis).unwrap()
}

fn change(handle: &mut Handle, key: &[u8], op: u8, body: &[u8]) {
    let change = CustomChange { op, body };
    handle.apply(0, &Effect::Custom { key, of: OF, change }, Origin::LOCAL).unwrap();
}

#[test]
fn a_value_is_written_as_it_was_read() {
    let mut handle = handle();
    let key = handle.key(b"key");
    read(&mut handle, key, MODULE, &parts()).unwrap();
    assert_eq!(handle.view(0, key).unwrap().type_of(), Type::Custom(TypeNumber::UNKNOWN));
    let payload = dumped(&handle, key);
    assert_eq!(payload[1..payload.len() - 10], parts());
    for len in 0..parts().len() {
        assert!(read(&mut handle, key, MODULE, &parts()[..len]).is_err(), "{len}");
    }
    // `RESTORE` takes no value of an unknown module.
    let restored = value::restore(&mut handle, 0, key, None, &payload, Leniency::default());
    assert!(matches!(restored, Err(Error::Unsupported(_))));
}

#[test]
fn changes_are_kept_with_their_value_whatever_comes_between() {
    let mut handle = handle();
    let (key, other) = (handle.key(b"key"), handle.key(b"other"));
    // After a value of a module, after one of an unknown type byte, and after none.
    for (type_byte, bytes) in [(MODULE, parts()), (99, b"anything".to_vec()), (0, Vec::new())] {
        if type_byte != 0 {
            read(&mut handle, key, type_byte, &bytes).unwrap();
        }
        change(&mut handle, b"key", 3, b"first");
        change(&mut handle, b"key", 4, b"12");
        let payload = dumped(&handle, key);
        let (byte, mut source) = open(&payload, Leniency::default()).unwrap();
        assert_eq!(byte, MODULE);
        skip_value(&mut source, byte).unwrap();
        let value = &payload[1..payload.len() - 10];
        read(&mut handle, other, MODULE, value).unwrap();
        assert_eq!(dumped(&handle, other), payload);
        // A change between is as one before.
        change(&mut handle, b"key", 5, b"");
        change(&mut handle, b"other", 5, b"");
        assert_eq!(dumped(&handle, other), dumped(&handle, key));
        // Bytes that are no such value are refused, and none ends in a panic.
        for at in 0..value.len() {
            assert!(read(&mut handle, other, MODULE, &value[..at]).is_err(), "{at}");
            for to in [0, 1, 5, 7, 0x7f, 0x81, 0xff] {
                let mut broken = value.to_vec();
                broken[at] = to;
                let _ = read(&mut handle, other, MODULE, &broken);
            }
        }
        handle.remove(0, key);
        handle.remove(0, other);
    }
}

#[test]
fn no_value_is_within_another() {
    let mut handle = handle();
    let key = handle.key(b"key");
    change(&mut handle, b"key", 1, b"body");
    let payload = dumped(&handle, key);
    // The number of the module, and then: type byte, number of the module, string.
    let mut nested = payload[1..10].to_vec();
    nested.extend_from_slice(&[2, MODULE, 2]);
    nested.extend_from_slice(&payload[1..10]);
    nested.extend_from_slice(&[5, 0, 0]);
    let read = read(&mut handle, key, MODULE, &nested);
    assert!(matches!(read, Err(Error::Malformed(_))), "{read:?}");
    // Nor is a change one of the row that keeps them.
    let change = CustomChange { op: 0, body: b"" };
    let effect = Effect::Custom { key: b"key", of: TypeNumber::UNKNOWN, change };
    assert!(handle.apply(0, &effect, Origin::LOCAL).is_err());
    let mut slice = Slice::new(&nested);
    assert!(read_value(&mut slice, MODULE, &mut petrel_persistence::rdb::Nowhere).is_err());
}
