//! Auxiliary state: state of the server that is no key. The function libraries are one; one more is
//! a value ([`AuxValue`]) and one row of a table ([`AuxState`]).
//!
//! ```text
//! command ──▶ Executor::change_aux ──▶ the value ──▶ Effect::Aux ──▶ log, replicas
//!                    │                     ▲
//!                    ▼ in a cluster        │ load
//!              a draft ─▶ members agree ───┘◀── effects, RDB files, the log
//! ```
//!
//! The log, replication, RDB files and the cluster carry the whole form of a state by its name.
//! Forms of unknown names are kept for a build that knows them.

pub use crate::aux_values::{AuxForm, AuxValue, AuxValues};
pub use petrel_keyspace::aux_state::NamedForm;

use crate::aux_values::{Draft, decode, encode};
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::scripting::libraries::List;
use crate::search::{Definitions, Dictionaries};
use crate::server::stats::Shared;
use petrel_keyspace::Handle;
use petrel_keyspace::aux_state::{NAME_MAX, is_name, texts};
use petrel_keyspace::custom::CommandWriter;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Auxiliary state: one row of the table.
#[derive(Debug)]
pub struct AuxState {
    /// Name in effects and files; never used again for other state.
    pub name: &'static str,
    /// Takes the whole form.
    pub take: fn(&Shared) -> AuxForm,
    /// Replaces the state by a whole form; an empty form stands for the state of a new server. On
    /// failure the state stays.
    pub load: fn(&Shared, &[u8]) -> Outcome,
    /// Adds a whole form to the present state; a part that exists is replaced, or an error. On
    /// failure the state stays.
    pub merge: fn(&Shared, &[u8], bool) -> Outcome,
    /// Writes a whole form as commands for Redis replicas that load RDB of at most this version.
    /// None if Redis has no such state: its replicas do without.
    pub commands: Option<WriteForm>,
}

/// Writes a whole form as commands.
pub type WriteForm = fn(&[u8], u16, &mut dyn CommandWriter);

impl AuxState {
    /// The row of a value that Redis does not have.
    pub const fn of<T: AuxValue>() -> Self {
        assert!(!T::NAME.is_empty() && T::NAME.len() <= NAME_MAX);
        AuxState {
            name: T::NAME,
            take: |shared| shared.aux.form(T::NAME.as_bytes()),
            load: |shared, bytes| {
                shared.aux.change(|value: &mut T| {
                    *value = decode(bytes)?;
                    Ok(())
                })
            },
            merge: |shared, bytes, replace| {
                let other: T = decode(bytes)?;
                shared.aux.change(|value: &mut T| value.merge(other, replace))
            },
            commands: None,
        }
    }
}

/// All states that are built in: a new one is one line.
static BUILT_IN: [&AuxState; 3] = [&FUNCTION_LIBRARIES, &INDEXES, &DICTIONARIES];

static DICTIONARIES: AuxState = AuxState::of::<Dictionaries>();

static INDEXES: AuxState = AuxState {
    load: |shared, form| {
        (AuxState::of::<Definitions>().load)(shared, form)?;
        shared.follow_definitions();
        Ok(())
    },
    merge: |shared, form, replace| {
        (AuxState::of::<Definitions>().merge)(shared, form, replace)?;
        shared.follow_definitions();
        Ok(())
    },
    ..AuxState::of::<Definitions>()
};

static FUNCTION_LIBRARIES: AuxState = AuxState {
    name: "functions",
    take: |shared| {
        // The number is read first: a newer list is recorded again with its own number.
        let number = shared.libraries.changes();
        AuxForm { number, bytes: shared.libraries.list().form() }
    },
    load: |shared, form| shared.exchange_libraries(&library_texts(form)?),
    merge: |shared, form, replace| shared.add_libraries(&library_texts(form)?, replace),
    commands: Some(|form, version_max, out| {
        // Older servers do without.
        if version_max >= FUNCTIONS_VERSION {
            out.command("FUNCTION", &[b"FLUSH"]);
            let texts = texts(form).unwrap_or_default();
            texts.into_iter().for_each(|text| out.command("FUNCTION", &[b"LOAD", text]));
        }
    }),
};

/// The version of RDB that functions came with.
const FUNCTIONS_VERSION: u16 = 10;

fn library_texts(form: &[u8]) -> Result<Vec<Vec<u8>>, Fail> {
    let malformed = |_| Fail::fixed("ERR the list of libraries is malformed");
    let texts = texts(form).map_err(malformed)?;
    Ok(texts.into_iter().map(<[u8]>::to_vec).collect())
}

/// States of a host that embeds the server.
static ADDED: RwLock<Vec<&'static AuxState>> = RwLock::new(Vec::new());

/// Adds a state for the whole process, before anything is loaded. A state that was added before
/// stays.
///
/// # Panics
/// If another state has its name.
pub fn add_aux_state(state: &'static AuxState) {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    if added.iter().any(|other| std::ptr::eq(*other, state)) {
        return;
    }
    let is_taken = BUILT_IN.iter().chain(&*added).any(|other| other.name == state.name);
    assert!(!is_taken, "state {} is there already", state.name);
    added.push(state);
}

/// All states.
fn all() -> Vec<&'static AuxState> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    BUILT_IN.iter().chain(&*added).copied().collect()
}

fn find(name: &[u8]) -> Option<&'static AuxState> {
    all().into_iter().find(|state| state.name.as_bytes() == name)
}

/// Writes the whole form of a state as commands for Redis replicas that load RDB of at most this
/// version; false if Redis has no such state.
pub fn write_commands(
    name: &[u8],
    form: &[u8],
    version_max: u16,
    out: &mut dyn CommandWriter,
) -> bool {
    let write = find(name).and_then(|state| state.commands);
    write.map(|write| write(form, version_max, out)).is_some()
}

/// State that cannot be loaded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuxError {
    /// Name of the state.
    pub name: String,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for AuxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "its {} cannot be loaded: {}", self.name, self.why)
    }
}

impl std::error::Error for AuxError {}

fn named(name: &[u8]) -> impl FnOnce(Fail) -> AuxError {
    move |fail| AuxError {
        name: name.escape_ascii().to_string(),
        why: String::from_utf8_lossy(fail.text()).into_owned(),
    }
}

impl Shared {
    /// All states, by name: known ones, and forms of unknown names.
    pub fn aux_states(&self) -> Vec<(Vec<u8>, AuxForm)> {
        let known = all().into_iter();
        let known = known.map(|state| (state.name.as_bytes().to_vec(), (state.take)(self)));
        let unknown = self.aux.names().into_iter().filter(|name| find(name).is_none());
        known.chain(unknown.map(|name| (name.clone(), self.aux.form(&name)))).collect()
    }

    /// Whole forms of the states of which there is anything.
    pub fn aux_forms(&self) -> Vec<NamedForm> {
        let all = self.aux_states().into_iter().map(|(name, form)| (name, form.bytes));
        all.filter(|(_, form)| !form.is_empty()).collect()
    }

    /// Removes forms of unknown names.
    pub fn take_unknown(&self, is_taken: impl Fn(&[u8]) -> bool) -> Vec<NamedForm> {
        let names = self.aux.names().into_iter();
        let names = names.filter(|name| find(name).is_none() && is_taken(name));
        names.filter_map(|name| Some((name.clone(), self.aux.remove(&name)?))).collect()
    }

    /// Replaces a state by a whole form.
    ///
    /// # Errors
    /// If it cannot be loaded; the state stays.
    pub fn load_aux(&self, name: &[u8], form: &[u8]) -> Result<(), AuxError> {
        let loaded = match find(name) {
            Some(state) => (state.load)(self, form),
            None if is_name(name) => {
                self.aux.keep(name, form);
                Ok(())
            }
            None => Err(Fail::fixed("ERR the name is empty or too long")),
        };
        loaded.map_err(named(name))
    }

    /// Replaces all states; those without a form are emptied.
    ///
    /// # Errors
    /// If one cannot be loaded: it is empty then, the others are replaced.
    pub fn replace_aux(&self, forms: &[NamedForm]) -> Result<(), AuxError> {
        let mut result = Ok(());
        for (name, form) in self.all_of(forms) {
            if let Err(error) = self.load_aux(&name, form) {
                result = result.and(Err(error));
                self.load_aux(&name, b"")?;
            }
        }
        result
    }

    /// Like [`Shared::replace_aux`], but leaves states that are the same already, and keeps a state
    /// on failure.
    ///
    /// # Errors
    /// If one cannot be loaded; others may have been.
    pub fn exchange_aux(&self, forms: &[NamedForm]) -> Result<(), AuxError> {
        let present = self.aux_forms();
        let is_present = |name: &[u8], form: &[u8]| {
            let found = present.iter().find(|(other, _)| other == name);
            found.map_or(form.is_empty(), |(_, present)| present == form)
        };
        let mut wanted = self.all_of(forms).into_iter();
        wanted.try_for_each(|(name, form)| match is_present(&name, form) {
            true => Ok(()),
            false => self.load_aux(&name, form),
        })
    }

    /// Adds forms to the present states; parts that exist are replaced, or an error.
    ///
    /// # Errors
    /// If one cannot be added; others may have been.
    pub fn merge_aux(&self, forms: &[NamedForm], replace: bool) -> Result<(), AuxError> {
        forms.iter().try_for_each(|(name, form)| match find(name) {
            Some(state) => (state.merge)(self, form, replace).map_err(named(name)),
            None if !replace && !self.aux.form(name).bytes.is_empty() => {
                Err(named(name)(Fail::fixed("ERR it exists already")))
            }
            None => self.load_aux(name, form),
        })
    }

    /// Every state that there is or that has a form, with this form or an empty one.
    fn all_of<'f>(&self, forms: &'f [NamedForm]) -> BTreeMap<Vec<u8>, &'f [u8]> {
        let present = self.aux_states().into_iter();
        let mut all: BTreeMap<_, &[u8]> = present.map(|(name, _)| (name, &b""[..])).collect();
        all.extend(forms.iter().map(|(name, form)| (name.clone(), &form[..])));
        all
    }

    /// Records a state for the sinks of effects. The thread is in a batch.
    pub fn record_aux(&self, ks: &mut Handle, name: &[u8]) {
        let AuxForm { number, bytes } = match find(name) {
            Some(state) => (state.take)(self),
            None => self.aux.form(name),
        };
        ks.count_foreign(self.aux.take_uncounted());
        ks.record_aux(number, name, &bytes);
    }

    /// Records all states.
    pub fn record_all_aux(&self, ks: &mut Handle) {
        self.aux_states().iter().for_each(|(name, _)| self.record_aux(ks, name));
    }
}

impl Executor {
    /// Makes commands change a copy of the auxiliary state, until [`Executor::end_draft`].
    pub fn begin_draft(&mut self) {
        let libraries = List::clone(&self.shared.libraries.list());
        self.draft = Some(Draft { libraries, changed: BTreeMap::new() });
    }

    /// Ends the work on the copy, and returns the whole forms of the changed states.
    pub fn end_draft(&mut self) -> Vec<NamedForm> {
        let changed = self.draft.take().map(|draft| draft.changed).unwrap_or_default();
        changed.into_iter().map(|(name, form)| (name.as_bytes().to_vec(), form)).collect()
    }

    /// The value of a state, as the running command sees it.
    pub fn aux<T: AuxValue>(&self) -> Arc<T> {
        let draft = self.draft.as_ref().and_then(|draft| draft.changed.get(T::NAME));
        let drafted = draft.and_then(|form| decode(form).ok());
        drafted.map_or_else(|| self.shared.aux.value(), Arc::new)
    }

    /// Changes the value of a state, and records it. `change` works on a copy; the state stays if
    /// it fails. In a cluster, commands with the gate `agreed` change a draft.
    ///
    /// # Errors
    /// As `change`.
    pub fn change_aux<T: AuxValue, R>(
        &mut self,
        change: impl FnOnce(&mut T) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let Some(draft) = &self.draft else {
            let result = self.shared.aux.change(change)?;
            self.shared.record_aux(&mut self.ks, T::NAME.as_bytes());
            return Ok(result);
        };
        debug_assert!(draft.changed.keys().all(|name| *name == T::NAME));
        let mut value = T::clone(&self.aux::<T>());
        let result = change(&mut value)?;
        if let Some(draft) = &mut self.draft {
            draft.changed.insert(T::NAME, encode(&value));
        }
        Ok(result)
    }
}
