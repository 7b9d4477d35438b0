//! Which keys a script or a function uses beside those that it is called with.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What is known of the keys that a script uses.
#[derive(Debug, Default)]
pub struct KeyUse {
    /// It uses declared keys only: that is proven, or it is not.
    keeps_to_declared: OnceLock<bool>,
    /// Its calls begin with the script token: it has used undeclared keys, or had to begin anew.
    takes_token: AtomicBool,
}

impl KeyUse {
    /// Of a script that was looked at before it ran.
    pub(super) fn new(keeps_to_declared: bool) -> Self {
        KeyUse { keeps_to_declared: keeps_to_declared.into(), ..KeyUse::default() }
    }

    /// Looks for the proof unless that was done before.
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

    /// Lets the calls that follow begin with it.
    pub(super) fn take_token_from_now_on(&self) {
        self.takes_token.store(true, Relaxed);
    }
}
