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
