//! The indexes of a keyspace: their view, and the fence of their changes.

use crate::index::coverage::View;
use crate::index::fence::Fence;
use parking_lot::RwLock;
use std::sync::Arc;

/// The indexes of a keyspace, as its threads see them.
#[derive(Debug, Default)]
pub struct Indexes {
    view: RwLock<Arc<View>>,
    /// Changes before application.
    pub fence: Fence,
}

impl Indexes {
    /// The present view.
    pub fn view(&self) -> Arc<View> {
        self.view.read().clone()
    }

    /// Replaces the view. Threads have to be notified.
    pub fn set_view(&self, view: View) {
        *self.view.write() = Arc::new(view);
    }
}
