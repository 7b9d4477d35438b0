//! Dictionaries of words for `FT.SPELLCHECK`: auxiliary state of each database.

use crate::aux_values::AuxValue;
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::definitions::{Name, Reader, Writer};
use crate::search::open::refuse_in_cluster;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Version of the encoding.
const VERSION: u8 = 1;

/// Words of a dictionary, in their order.
pub type Dictionary = BTreeSet<Box<[u8]>>;

/// Dictionaries by database and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dictionaries(pub BTreeMap<Name, Arc<Dictionary>>);

impl Dictionaries {
    /// A dictionary of a database.
    pub fn find(&self, db: u16, name: &[u8]) -> Option<&Arc<Dictionary>> {
        self.0.get(&(db, name.into()))
    }

    /// Removes the dictionaries of a database, or of all.
    pub fn clear(&mut self, db: Option<u16>) {
        self.0.retain(|(of, _), _| db.is_some_and(|db| *of != db));
    }

    /// Moves the dictionaries of two databases.
    pub fn swap(&mut self, a: u16, b: u16) {
        let moved = |db: u16| match db {
            db if db == a => b,
            db if db == b => a,
            db => db,
        };
        let all = std::mem::take(&mut self.0).into_iter();
        self.0 = all.map(|((db, name), words)| ((moved(db), name), words)).collect();
    }
}

impl AuxValue for Dictionaries {
    const NAME: &'static str = "search-dictionaries";

    fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![VERSION]);
        out.number(self.0.len() as u64);
        for ((db, name), words) in &self.0 {
            out.number(u64::from(*db));
            out.text(name);
            out.number(words.len() as u64);
            words.iter().for_each(|word| out.text(word));
        }
        out.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, Fail> {
        let malformed = || Fail::fixed("ERR the dictionaries are malformed");
        let [VERSION, rest @ ..] = bytes else { return Err(malformed()) };
        let mut reader = Reader(rest);
        let mut read = || -> Option<Self> {
            let mut all = BTreeMap::new();
            for _ in 0..reader.len()? {
                let name = (reader.db()?, reader.text()?);
                all.insert(name, Arc::new(reader.texts()?.into_iter().collect()));
            }
            Some(Dictionaries(all))
        };
        let dictionaries = read().ok_or_else(malformed)?;
        if reader.0.is_empty() { Ok(dictionaries) } else { Err(malformed()) }
    }

    fn merge(&mut self, other: Self, replace: bool) -> Outcome {
        for (name, words) in other.0 {
            if !replace && self.0.contains_key(&name) {
                return Err(Fail::fixed("ERR a dictionary of this name exists already"));
            }
            self.0.insert(name, words);
        }
        Ok(())
    }

    fn heap_bytes(&self) -> usize {
        let words = self.0.values().flat_map(|words| words.iter());
        // A node of the tree is two thirds full.
        words.map(|word| word.len() + size_of::<Box<[u8]>>() * 3 / 2).sum()
    }
}

/// Name of a dictionary and words.
fn arguments<'a>(ctx: &Ctx<'a>) -> Result<(Name, &'a [&'a [u8]]), Fail> {
    refuse_in_cluster(ctx)?;
    match ctx.args() {
        [_, name, words @ ..] if !words.is_empty() => Ok(((ctx.db(), (*name).into()), words)),
        _ => Err(ctx.wrong_arity()),
    }
}

/// `FT.DICTADD dictionary word ...`
pub(super) fn add(ctx: &mut Ctx<'_>) -> Outcome {
    let (name, words) = arguments(ctx)?;
    let added = ctx.exec.change_aux(|all: &mut Dictionaries| {
        let dictionary = Arc::make_mut(all.0.entry(name).or_default());
        let words = words.iter().filter(|word| !word.is_empty());
        Ok(words.filter(|word| dictionary.insert((**word).into())).count())
    })?;
    ctx.reply.integer(added as i64);
    Ok(())
}

/// `FT.DICTDEL dictionary word ...`
pub(super) fn delete(ctx: &mut Ctx<'_>) -> Outcome {
    let (name, words) = arguments(ctx)?;
    let removed = ctx.exec.change_aux(|all: &mut Dictionaries| {
        let Some(dictionary) = all.0.get_mut(&name) else { return Ok(0) };
        let dictionary = Arc::make_mut(dictionary);
        Ok(words.iter().filter(|word| dictionary.remove(**word)).count())
    })?;
    ctx.reply.integer(removed as i64);
    Ok(())
}

/// `FT.DICTDUMP dictionary`
pub(super) fn dump(ctx: &mut Ctx<'_>) -> Outcome {
    refuse_in_cluster(ctx)?;
    let [_, name] = *ctx.args() else { return Err(ctx.wrong_arity()) };
    let all = ctx.exec.aux::<Dictionaries>();
    let words = all.find(ctx.db(), name).ok_or(Fail::fixed("could not open dict key"))?;
    ctx.reply.set(words.len());
    words.iter().for_each(|word| ctx.reply.bulk(word));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_read_as_written() {
        let words = |words: &[&str]| -> Arc<Dictionary> {
            Arc::new(words.iter().map(|word| word.as_bytes().into()).collect())
        };
        let mut all = Dictionaries::default();
        all.0.insert((0, (*b"d").into()), words(&["b", "a", "\u{e9}"]));
        all.0.insert((3, Box::default()), words(&[]));
        let bytes = all.encode();
        assert_eq!(Dictionaries::decode(&bytes), Ok(all.clone()));
        for len in 0..bytes.len() {
            assert!(Dictionaries::decode(&bytes[..len]).is_err());
        }
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 0x55;
            let _ = Dictionaries::decode(&forged);
        }
        assert!(all.clone().merge(all.clone(), false).is_err());
        assert!(all.clone().merge(all.clone(), true).is_ok());
        all.swap(3, 1);
        assert!(all.find(1, b"").is_some() && all.find(3, b"").is_none());
        all.clear(Some(1));
        assert_eq!((all.0.len(), all.heap_bytes() > 4), (1, true));
        all.clear(None);
        assert_eq!(all, Dictionaries::default());
    }
}
