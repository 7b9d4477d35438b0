//! A stranger's image of a vector set must be refused or be a set, whatever its links say.
//!
//! The input is a byte, odd for a set in our own form, and the value of `DUMP` behind the number of its
//! type.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::rdb::{Slice, read_value};
use petrel_persistence::value::Builder;
use petrel_vector::Search;

/// The type byte of values of modules.
const MODULE_2: u8 = 7;
/// The numbers of the types `vectorset` and `petrelvec`.
const TYPES: [u64; 2] = [0xbde7_2da2_bb1e_b400, 0xa5eb_6b7a_5bde_7000];

fuzz_target!(|input: &[u8]| {
    let Some((&which, input)) = input.split_first() else { return };
    let head = TYPES[usize::from(which & 1)].to_be_bytes();
    let image = [&[0x81][..], &head, input].concat();
    let mut handle = Keyspace::new(&Options { stripes: 16, ..Options::default() }).attach();
    handle.enter();
    handle.lock_all();
    let key = handle.key(b"k");
    let built = handle.build(0, key, None, |handle| {
        let mut builder = Builder::new(handle, 0, key);
        read_value(&mut Slice::new(&image), MODULE_2, &mut builder)?;
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
            set.search(&set.shape().query_of(vector.as_ref()), &search, None);
            assert!(set.remove(&name));
        }
    }
    handle.unlock();
    handle.exit();
});
