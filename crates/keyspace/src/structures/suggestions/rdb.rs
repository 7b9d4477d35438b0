//! Suggestions as a value type, and as RediSearch writes them.
//!
//! ```text
//! number of terms, each: string: term and a NUL, score, string: payload and a NUL
//! ```

use super::{Suggestion, Suggestions, change, valid_term};
use crate::structures::custom::{
    Chunk, Held, LoadError, Loaded, ModuleReader, RdbForm, Shown, TypeNumber, ValueDigest,
    ValueType,
};

/// The number of the module `trietype0`, version 1.
const MODULE: u64 = 0xb6b8_9eb7_2a5e_d001;

/// The type of suggestions.
pub static TYPE: ValueType = ValueType {
    number: TypeNumber::SUGGESTIONS,
    // As the module that Redis comes with calls it.
    name: "trietype0",
    shown: Shown::MODULE,
    form: RdbForm::Module { numbers: &[MODULE], of: |_| MODULE },
    rdb_version: 9,
    head: |held, out| out.unsigned(held.get::<Suggestions>().map_or(0, Suggestions::len) as u64),
    body: |held, out| {
        let Some(all) = held.get::<Suggestions>() else { return };
        all.from(b"").for_each(|suggestion| suggestion.write(out));
    },
    load,
    apply: change::apply,
    // As Redis, which publishes no event of them.
    event: |_| None,
    commands: Some(change::commands),
    digest,
    copy_effort: |held| held.get::<Suggestions>().map_or(0, |all| all.len() * 8),
    // Redis has no such line.
    sizes: None,
};

fn load(reader: &mut dyn ModuleReader, _: u64) -> Result<Loaded, LoadError> {
    const BROKEN: LoadError = LoadError::Malformed("suggestions are broken");
    let len = reader.unsigned()?;
    let mut terms = Vec::new();
    for _ in 0..len {
        let term = reader.text()?;
        let term = term.strip_suffix(&[0]).filter(|term| valid_term(term) == Some(*term));
        let mut suggestion = Suggestion::new(term.ok_or(BROKEN)?, 0.0);
        suggestion.score = reader.double()? as f32;
        let payload = reader.text()?.strip_suffix(&[0]).ok_or(BROKEN)?;
        suggestion.payload = (!payload.is_empty()).then(|| payload.into());
        if suggestion.score.is_nan() {
            return Err(BROKEN);
        }
        terms.push(suggestion);
    }
    let all = Suggestions::of(terms).ok_or(BROKEN)?;
    Ok(Loaded::Boxed(Box::new(all)))
}

fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(all) = held.get::<Suggestions>() else { return };
    for suggestion in all.from(b"") {
        let score = suggestion.score.to_bits().to_le_bytes();
        let payload = suggestion.payload.as_deref().unwrap_or_default();
        digest.unordered(&[suggestion.term(), &score, payload]);
    }
}
