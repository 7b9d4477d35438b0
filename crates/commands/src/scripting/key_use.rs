//! Record of whether a script or a function uses undeclared keys.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A script's use of keys, as far as known.
#[derive(Debug, Default)]
pub struct KeyUse {
    /// Whether it is proven to use declared keys only.
    keeps_to_declared: OnceLock<bool>,
    /// Whether its calls begin with the script token, since it used undeclared keys or was
    /// restarted.
    takes_token: AtomicBool,
}

impl KeyUse {
    /// Creates the state of a script that was examined before it ran.
    pub(super) fn new(keeps_to_declared: bool) -> Self {
        KeyUse { keeps_to_declared: keeps_to_declared.into(), ..KeyUse::default() }
    }

    /// Runs the proof unless it was run before.
    pub(super) fn examine(&self, prove: impl FnOnce() -> bool) {
        self.keeps_to_declared.get_or_init(prove);
    }

    /// Whether it is proven that it uses declared keys only.
    #[inline]
    pub(super) fn keeps_to_declared(&self) -> bool {
        self.keeps_to_declared.get() == Some(&true)
    }

    /// Whether a call begins with the script token.
    #[inline]
    pub(super) fn takes_token(&self) -> bool {
        self.takes_token.load(Relaxed)
    }

    /// Makes later calls begin with the script token.
    pub(super) fn take_token_from_now_on(&self) {
        self.takes_token.store(true, Relaxed);
    }
}
