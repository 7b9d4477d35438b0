//! Links of vectors, found before the index is locked for the changes that set them.

use crate::index::contents::{Change, ChangeKind, Contents, Extent};
use crate::index::field::FieldStore;
use crate::structures::graph_vectors::Planned;

/// Links of a vector, with the number of its field.
pub type FieldPlan = (u16, Planned);

impl Contents {
    /// Finds the links of vectors that a change sets. It takes long, and changes nothing.
    pub fn plan(&self, change: &Change<'_>) -> Vec<FieldPlan> {
        let ChangeKind::Put { fields, bytes, extent, .. } = change.kind else { return Vec::new() };
        let row = self.documents().find(change.hash, change.key);
        if extent == Extent::Scanned && row.is_some_and(|row| self.knows_all_fields(row)) {
            return Vec::new();
        }
        let plans = fields.iter().filter_map(|field| {
            let text = bytes.get(field.value.clone()?)?;
            match self.field(usize::from(field.number))? {
                FieldStore::Vectors(store) => Some((field.number, store.plan(row, text)?)),
                _ => None,
            }
        });
        plans.collect()
    }

    /// Takes links of vectors that the next changes set.
    pub fn expect(&mut self, plans: Vec<FieldPlan>) {
        for (number, planned) in plans {
            if let Some(store) = self.vectors_mut(usize::from(number)) {
                store.expect(Some(planned));
            }
        }
    }

    /// Forgets links that were not used.
    pub fn forget_plans(&mut self) {
        let mut number = 0;
        while self.field(number).is_some() {
            if let Some(store) = self.vectors_mut(number) {
                store.expect(None);
            }
            number += 1;
        }
    }
}
