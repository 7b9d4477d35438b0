//! Methods that near caches of a server and of a cluster have in common, and the path of commands.

include!(concat!(env!("OUT_DIR"), "/key_reads.rs"));

/// The methods of a handle that has a `source`, and commands that are awaited on it.
macro_rules! near_handle {
    ($handle:ident) => {
        impl $handle {
            /// Statistics since the cache was made.
            pub fn statistics(&self) -> $crate::near::NearCacheStatistics {
                self.source().shared().statistics()
            }

            /// The reply to a command if it is cached, without asking a server. Counts as a hit.
            pub fn cached(&self, command: &$crate::request::Command) -> Option<petrel_resp::Value> {
                // No error is kept.
                self.source().shared().read(command)?.ok()
            }

            /// Removes the cached replies of a key, as an invalidation does.
            pub fn forget(&self, key: impl AsRef<[u8]>) {
                self.source().shared().store.invalidate(key.as_ref());
            }

            /// Forgets everything.
            pub fn clear(&self) {
                self.source().shared().store.clear();
            }
        }

        key_reads!($handle);

        impl $crate::request::Target for &$handle {}

        impl<'a, C, R: $crate::reply::FromReply> std::future::IntoFuture
            for $crate::request::Request<&'a $handle, C, R>
        {
            type Output = $crate::error::Result<R>;
            type IntoFuture = $crate::near::NearCall<'a, R>;

            fn into_future(self) -> $crate::near::NearCall<'a, R> {
                $crate::near::NearCall::new(self.target.source(), self.command)
            }
        }

        impl std::fmt::Debug for $handle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let statistics = self.statistics();
                f.debug_struct(stringify!($handle))
                    .field("statistics", &statistics)
                    .finish_non_exhaustive()
            }
        }
    };
}
