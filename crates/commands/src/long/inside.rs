//! Long commands in a transaction or a script: its caller executes a command once more that was
//! given up, and it is part of a slow script from then on.
//!
//! ```text
//!  EXEC, or Runner::call ── handler: it takes 20 ms, and has changed nothing: given up
//!         │ begin_inside
//!         └─ the same command again ── handler: pace ── Inside::look
//!                              slow: shown as a script, its worker's clients are answered
//!                              killed, its client is gone, the server stops: ended
//!            ── mutator: the heap's breather ── Inside::breathe
//!                              slow: its worker's clients are answered, it cannot be killed
//! ```

use super::{ENDED, Whole};
use crate::clock::Tick;
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::modes::Modes;
use crate::scripting::slow_run::SlowRun;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Time since the last look after which a command is taken for one that changes something, and can
/// no longer be killed.
const CHANGE_NANOS: u64 = 20_000_000;

thread_local! {
    /// The transaction or script of this thread that mutators let serve others.
    static CHANGING: RefCell<Option<Rc<dyn Whole>>> = const { RefCell::new(None) };
}

/// A transaction or a script with a command that takes long.
struct Inside {
    run: Rc<SlowRun>,
    /// Whether it had written before the running command.
    wrote: Cell<bool>,
    /// The error that has ended it.
    ended: Cell<Option<&'static str>>,
    /// Time of the last look.
    looked: Cell<Tick>,
    /// `Executor::units_here` outside.
    units_before: usize,
}

impl Inside {
    fn end(&self, why: Option<&'static str>) -> Outcome {
        if why.is_none() {
            return Ok(());
        }
        self.ended.set(why);
        Err(Fail::PUT_OFF_ENDED)
    }
}

impl Whole for Inside {
    fn ended(&self) -> Option<&'static str> {
        self.ended.get()
    }

    fn begin_call(&self, wrote: bool, writes: bool) -> bool {
        self.wrote.set(wrote);
        let watched = self.run.watched();
        let goes_on = self.ended().is_none() && self.look().is_ok();
        goes_on && (!writes || watched.begin_to_write() || self.end(self.run.killed()).is_ok())
    }

    fn end_call(&self, wrote: bool) {
        if wrote {
            self.run.watched().note_write();
        }
    }

    fn look(&self) -> Outcome {
        let wrote = self.wrote.get();
        self.looked.set(self.run.now());
        if !wrote {
            self.run.watched().withdraw_write();
        }
        let ended = self.run.beat((wrote, false)).or_else(|| self.run.killed());
        let is_left = || !wrote && self.run.has_lost_client();
        self.end(ended.or_else(|| is_left().then_some("The client has left")))
    }

    fn breathe(&self) {
        let watched = self.run.watched();
        let changes =
            self.run.nanos_since(self.looked.get()) > CHANGE_NANOS && watched.begin_to_write();
        // A change ends with the process only.
        self.run.beat((changes, false));
    }

    fn units_before(&self) -> usize {
        self.units_before
    }
}

impl Ctx<'_> {
    /// Whether the caller of the command, a transaction or a script, executes it once more if it is
    /// given up now. A stream of changes is executed in any case.
    pub(crate) fn may_begin_inside(&self) -> bool {
        let exec = &self.exec;
        (self.session.in_exec || exec.within_script)
            && exec.inside.is_none()
            && exec.gives_way
            && !exec.is_unblocking()
            && !self.session.is(Modes::LOADER)
    }
}

impl Executor {
    /// Executes the commands that follow as parts of a transaction or a script that runs for long.
    pub(crate) fn begin_inside(&mut self, run: Rc<SlowRun>) -> Rc<dyn Whole> {
        let units_before = std::mem::replace(&mut self.units_here, usize::MAX);
        let (wrote, ended, looked) = (Cell::new(false), Cell::new(None), Cell::new(run.now()));
        let inside: Rc<dyn Whole> = Rc::new(Inside { run, wrote, ended, looked, units_before });
        self.set_inside(Some(inside.clone()));
        inside
    }

    /// Sets the transaction or script that the following commands are part of.
    #[cold]
    fn set_inside(&mut self, inside: Option<Rc<dyn Whole>>) {
        match &inside {
            Some(_) => self.ks.breathe_with(Box::new(|| {
                let changing = CHANGING.with_borrow(Clone::clone);
                changing.iter().for_each(|whole| whole.breathe());
            })),
            None => self.ks.breathe_no_more(),
        }
        CHANGING.set(inside.clone());
        self.inside = inside;
    }

    /// Ends [`Executor::begin_inside`].
    #[inline]
    pub(crate) fn end_inside(&mut self) {
        if let Some(inside) = &self.inside {
            self.units_here = inside.units_before();
            self.set_inside(None);
        }
    }

    /// Begins a script, whose commands are given up when they take long, whatever it is part of.
    /// The result is for [`Executor::leave_script`].
    #[inline]
    pub(crate) fn enter_script(&mut self) -> (Option<Rc<dyn Whole>>, usize) {
        let inside = self.inside.clone();
        if inside.is_some() {
            self.set_inside(None);
        }
        (inside, std::mem::replace(&mut self.units_here, self.move_units))
    }

    /// Ends a script.
    #[inline]
    pub(crate) fn leave_script(&mut self, (inside, units): (Option<Rc<dyn Whole>>, usize)) {
        self.units_here = units;
        if self.inside.is_some() || inside.is_some() {
            self.set_inside(inside);
        }
    }

    /// The error of a command whose transaction was ended.
    pub(crate) fn ended(&self) -> Fail {
        self.shared.count_error(&ENDED);
        ENDED
    }
}
