//! A stranger's image of a vector set must be refused or be a set, whatever its links say.
//!
//! The input is the value of `DUMP` behind the number of its type.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::rdb::{Slice, read_value};
use petrel_persistence::value::Builder;
use petrel_vector::Search;

/// The type byte of values of modules, and the number of the type `vectorset`.
const HEAD: [u8; 10] = [7, 0x81, 0xbd, 0xe7, 0x2d, 0xa2, 0xbb, 0x1e, 0xb4, 0];

fuzz_target!(|input: &[u8]| {
    let image = [&HEAD[1..], input].concat();
    let mut handle = Keyspace::new(&Options { stripes: 16, ..Options::default() }).attach();
    handle.enter();
    handle.lock_all();
    let key = handle.key(b"k");
    let built = handle.build(0, key, None, |handle| {
        let mut builder = Builder::new(handle, 0, key);
        read_value(&mut Slice::new(&image), HEAD[0], &mut builder)?;
        builder.finish();
        Ok::<(), petrel_persistence::rdb::Error>(())
    });
    if built.is_ok()
        && let Some(view) = handle.view(0, key)
        && let Ok(set) = view.vectors()
    {
        let mut first = None;
        set.for_each(|name, vector, _| first = Some((name.to_vec(), vector.to_owned())));
        let search = Search { count: 5, ef: 20, epsilon: None, filter_ef: 100, exact: false };
        if let Some((name, vector)) = first {
            set.search(vector.as_ref(), &search, None);
            assert!(set.remove(&name));
        }
    }
    handle.unlock();
    handle.exit();
});
