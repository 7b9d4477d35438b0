//! Sizes at which collections change their representation, set by `CONFIG SET` at run time.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident, $set:ident = $default:expr;)*) => {
        /// Thresholds of the nominal encodings (what `OBJECT ENCODING` answers), sizes of nodes.
        #[derive(Debug)]
        pub struct TypeLimits {
            $($name: AtomicI64,)*
        }

        impl Default for TypeLimits {
            fn default() -> Self {
                TypeLimits { $($name: AtomicI64::new($default),)* }
            }
        }

        impl TypeLimits {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $name(&self) -> i64 {
                    self.$name.load(Relaxed)
                }

                /// Sets it for later changes of values.
                pub fn $set(&self, value: i64) {
                    self.$name.store(value, Relaxed);
                }
            )*
        }
    };
}

limits! {
    /// `hash-max-listpack-entries`: fields up to which a hash is a listpack.
    hash_max_listpack_entries, set_hash_max_listpack_entries = 512;
    /// `hash-max-listpack-value`: bytes of a field or value up to which a hash is a listpack.
    hash_max_listpack_value, set_hash_max_listpack_value = 64;
    /// `hash-min-template-entries`: fields from which a hash becomes compact when it is written; 0
    /// for never.
    hash_min_template_entries, set_hash_min_template_entries = 0;
    /// `hash-max-template-entries`: fields up to which it does; 0 for no limit.
    hash_max_template_entries, set_hash_max_template_entries = 0;
    /// `hash-rdb-load-min-template-entries`: fields from which a hash becomes compact when a file
    /// is loaded; 0 for never.
    hash_rdb_load_min_template_entries, set_hash_rdb_load_min_template_entries = 0;
    /// `hash-rdb-load-max-template-entries`: fields up to which it does; 0 for no limit.
    hash_rdb_load_max_template_entries, set_hash_rdb_load_max_template_entries = 0;
    /// `hash-rdb-load-template-disassembly-threshold`: keys that must have the same fields for
    /// hashes to stay compact after the load.
    hash_rdb_load_template_disassembly_threshold,
        set_hash_rdb_load_template_disassembly_threshold = 0;
    /// `set-max-intset-entries`: members up to which a set of integers is an intset.
    set_max_intset_entries, set_set_max_intset_entries = 512;
    /// `set-max-listpack-entries`: members up to which a set is a listpack.
    set_max_listpack_entries, set_set_max_listpack_entries = 128;
    /// `set-max-listpack-value`: bytes of a member up to which a set is a listpack.
    set_max_listpack_value, set_set_max_listpack_value = 64;
    /// `zset-max-listpack-entries`: members up to which a sorted set is a listpack.
    zset_max_listpack_entries, set_zset_max_listpack_entries = 128;
    /// `zset-max-listpack-value`: bytes of a member up to which a sorted set is a listpack.
    zset_max_listpack_value, set_zset_max_listpack_value = 64;
    /// `list-max-listpack-size`: items of a node if positive; -1 to -5: 4, 8, 16, 32, 64 KiB.
    list_max_listpack_size, set_list_max_listpack_size = -2;
    /// `stream-node-max-bytes`: bytes of a stream's node, 0 for no limit.
    stream_node_max_bytes, set_stream_node_max_bytes = 4096;
    /// `stream-node-max-entries`: entries of a stream's node, 0 for no limit.
    stream_node_max_entries, set_stream_node_max_entries = 100;
    /// `stream-idmp-duration`: seconds for which a new stream retains the IDs of producers'
    /// messages.
    stream_idmp_duration, set_stream_idmp_duration = 100;
    /// `stream-idmp-maxsize`: number of IDs that a new stream retains per producer.
    stream_idmp_maxsize, set_stream_idmp_maxsize = 100;
    /// `hll-sparse-max-bytes`: bytes of a string up to which a HyperLogLog is sparse.
    hll_sparse_max_bytes, set_hll_sparse_max_bytes = 3000;
}
