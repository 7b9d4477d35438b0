//! Places in fields: their numbers, and texts to sort by.

use super::{Misfit, NumberStore, TextStore};
use crate::index::document::Value;
use crate::index::json::Listed;
use crate::structures::places::parse_place;

/// Contents of a GEO field.
#[derive(Debug)]
pub struct PlaceStore {
    /// Places by their numbers.
    pub(super) numbers: NumberStore,
    /// Texts to sort by.
    pub(super) texts: TextStore,
}

impl PlaceStore {
    /// Places by their numbers.
    pub fn numbers(&self) -> &NumberStore {
        &self.numbers
    }

    /// The text of a row to sort by, if documents can be sorted by the field without being read.
    pub fn sort_key(&self, row: u32) -> Option<&[u8]> {
        self.texts.sort_key(row)
    }

    pub(super) fn set_text(&mut self, row: u32, text: Option<&[u8]>) -> Result<(), Misfit> {
        let place = text.map(|text| parse_place(text).map_err(|_| Misfit)).transpose();
        self.numbers.set(row, place.unwrap_or(None));
        self.texts.set_text(row, text.filter(|_| place.is_ok()));
        place.map(|_| ())
    }

    pub(super) fn set_listed(
        &mut self,
        row: u32,
        listed: Option<Listed<'_>>,
    ) -> Result<(), Misfit> {
        let places = listed.map(|listed| listed.texts().map(parse_place).collect());
        let Some(places): Option<Result<Vec<f64>, _>> = places else {
            self.clear(row);
            return Ok(());
        };
        let Ok(mut places) = places else {
            self.clear(row);
            return Err(Misfit);
        };
        places.sort_by(f64::total_cmp);
        places.dedup();
        self.numbers.set_list(row, places.first().copied(), &places);
        self.texts.set_listed(row, listed);
        Ok(())
    }

    fn clear(&mut self, row: u32) {
        self.numbers.set(row, None);
        self.texts.set(row, false, None);
    }

    pub(super) fn set(&mut self, row: u32, value: &Value) {
        match value {
            Value::Places(places, text) => {
                self.numbers.set_list(row, places.first().copied(), places);
                self.texts.set(row, true, text.clone());
            }
            _ => self.clear(row),
        }
    }

    pub(super) fn get(&self, row: u32) -> Value {
        let places = match self.numbers.get(row) {
            Value::Number(number) => [number].into(),
            Value::Numbers(_, numbers) => numbers,
            _ => return Value::Missing,
        };
        Value::Places(places, self.texts.sort_key(row).map(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use crate::index::document::Value;
    use crate::index::field::{FieldStore, Misfit};
    use crate::index::schema::{Field, FieldKind};

    #[test]
    fn values_are_replaced_without_a_trace() {
        let field = Field {
            source: (*b"g").into(),
            name: (*b"g").into(),
            kind: FieldKind::Geo,
            is_sortable: true,
            is_unfolded: false,
            is_unindexed: false,
            indexes_empty: false,
            indexes_missing: true,
        };
        let mut store = FieldStore::new(&field);
        store.set_missing(3, true);
        assert_eq!(store.set_text(3, Some(b"1,2")), Ok(()));
        let one = store.get(3);
        assert!(
            matches!(&one, Value::Places(places, Some(text)) if places.len() == 1 && **text == *b"1,2")
        );
        assert!(!store.is_missing(3) && store.records() == 1);
        assert_eq!(store.set_text(3, Some(b"nowhere")), Err(Misfit));
        assert_eq!((store.get(3), store.records()), (Value::Missing, 0));
        let two = Value::Places([1.0, 7.0].into(), None);
        store.set(3, &two);
        assert_eq!((store.get(3), store.records()), (two, 2));
        store.set(3, &one);
        assert_eq!((store.get(3), store.records()), (one, 1));
        store.set(3, &Value::Missing);
        assert!(store.is_missing(3) && store.records() == 0);
        assert!(store.missing().unwrap().contains(3));
    }
}
