//! asyncio: futures of an event loop that are resolved in batches.
//!
//! ```text
//! task of Python ─ Call ─▶ slot ─ polled once ─▶ the client's queue
//! thread of connections ─ wakes slots ─▶ Ready: a list of slots, one byte through a socket pair
//! event loop ─ readable ─▶ drain: polls all slots of the list, resolves their futures
//! ```
//!
//! The event loop is woken once for all replies of a read, and their conversion to Python takes
//! place in one piece, in the loop's own thread. Calls that are made while others are in flight are
//! handed to the client at the end of the loop's turn, all together, so that they are sent together.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use petrel_client::{Result, Value};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tokio::runtime::Handle;

use crate::command::Command;
use crate::failure;
use crate::runtime::{self, BoxFuture};
use crate::shape::Decoding;

/// How often a turn of the loop looks for more replies before others have theirs.
const ROUNDS_MAX: usize = 4;

/// Makes the Python object that a future resolves to.
pub(crate) type Make = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What a slot waits for.
pub(crate) enum Work {
    /// The reply to a command.
    Reply(BoxFuture<Result<Value>>, Py<Command>, Decoding),
    /// Anything else.
    Other(BoxFuture<Make>),
}

impl Work {
    /// The outcome, if it is there.
    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> Option<PyResult<Py<PyAny>>> {
        let context = &mut Context::from_waker(waker);
        match self {
            Self::Reply(future, command, decoding) => match future.as_mut().poll(context) {
                Poll::Ready(Ok(reply)) => Some(command.get().convert(py, &reply, *decoding)),
                Poll::Ready(Err(error)) => Some(Err(failure::of(py, &error))),
                Poll::Pending => None,
            },
            Self::Other(future) => match future.as_mut().poll(context) {
                Poll::Ready(make) => Some(make(py)),
                Poll::Pending => None,
            },
        }
    }
}

/// Slots that have been woken and not been polled since.
struct Ready {
    slots: Mutex<Vec<usize>>,
    /// Whether a byte is on its way to the loop.
    is_told: AtomicBool,
    writer: UnixStream,
}

/// Wakes the slot of one call.
struct SlotWaker {
    ready: Arc<Ready>,
    slot: usize,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.slots.lock().push(self.slot);
        if !self.ready.is_told.swap(true, Ordering::AcqRel) {
            // A full socket has bytes that wake the loop; a closed one has no loop.
            let _ = (&self.ready.writer).write(&[1]);
        }
    }
}

struct Pending {
    work: Work,
    future: Py<PyAny>,
    /// Whether it counts among the calls that others wait for, to be sent together.
    is_brief: bool,
}

/// A place for a call. It outlives calls, so that its waker is made once; a waker of an earlier
/// call polls a later one to no effect.
struct Slot {
    waker: Waker,
    pending: Option<Pending>,
    /// Of the call that has it, so that the end of an earlier one is told apart.
    serial: u64,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Not polled yet.
    unsent: Vec<usize>,
    brief_in_flight: usize,
    serial: u64,
}

/// Between the thread of connections and an event loop of asyncio.
#[pyclass(frozen, weakref, module = "petrel._petrel")]
pub(crate) struct Bridge {
    event_loop: Py<PyAny>,
    slots: Mutex<Slots>,
    ready: Arc<Ready>,
    reader: UnixStream,
    runtime: Handle,
}

impl Bridge {
    /// A bridge to an event loop, which reads from it until it is closed.
    pub(crate) fn open<'py>(event_loop: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let py = event_loop.py();
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let ready =
            Ready { slots: Mutex::new(Vec::new()), is_told: AtomicBool::new(false), writer };
        let fd = reader.as_raw_fd();
        let bridge = Self {
            event_loop: event_loop.clone().unbind(),
            slots: Mutex::new(Slots::default()),
            ready: Arc::new(ready),
            reader,
            runtime: runtime::handle(py)?,
        };
        let bridge = Bound::new(py, bridge)?;
        let drain = bridge.getattr(intern!(py, "drain"))?;
        event_loop.call_method1("add_reader", (fd, drain))?;
        Ok(bridge)
    }

    /// Whether it is that of an event loop.
    pub(crate) fn is_of(&self, event_loop: &Bound<'_, PyAny>) -> bool {
        self.event_loop.is(event_loop)
    }

    /// Starts a command; returns what is to be awaited.
    pub(crate) fn start<'py>(this: &Bound<'py, Self>, work: Work) -> PyResult<Bound<'py, PyAny>> {
        this.get().add(this, work, true)
    }

    /// Starts what may take long, and ends when its awaitable is cancelled.
    pub(crate) fn start_long<'py>(
        this: &Bound<'py, Self>,
        work: Work,
    ) -> PyResult<Bound<'py, PyAny>> {
        this.get().add(this, work, false)
    }

    fn add<'py>(
        &self,
        this: &Bound<'py, Self>,
        mut work: Work,
        is_brief: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let future = self.event_loop.bind(py).call_method0(intern!(py, "create_future"))?;
        let (slot, serial, waker, is_alone) = self.take_slot();
        if is_brief && !is_alone {
            let pending = Pending { work, future: future.clone().unbind(), is_brief };
            let mut slots = self.slots.lock();
            slots.slots[slot].pending = Some(pending);
            slots.brief_in_flight += 1;
            slots.unsent.push(slot);
            let is_first = slots.unsent.len() == 1;
            drop(slots);
            if is_first {
                let flush = this.getattr(intern!(py, "flush"))?;
                self.event_loop.bind(py).call_method1(intern!(py, "call_soon"), (flush,))?;
            }
            return Call::of(future);
        }
        let _entered = self.runtime.enter();
        match work.poll(py, &waker) {
            Some(result) => {
                self.slots.lock().free.push(slot);
                resolve(py, &future, result)?;
            }
            None => {
                let mut slots = self.slots.lock();
                slots.brief_in_flight += usize::from(is_brief);
                let pending = Pending { work, future: future.clone().unbind(), is_brief };
                slots.slots[slot].pending = Some(pending);
                drop(slots);
                if !is_brief {
                    let forget = Forget { bridge: this.clone().unbind(), slot, serial };
                    future.call_method1(intern!(py, "add_done_callback"), (forget,))?;
                }
            }
        }
        Call::of(future)
    }

    fn take_slot(&self) -> (usize, u64, Waker, bool) {
        let mut slots = self.slots.lock();
        slots.serial += 1;
        let serial = slots.serial;
        let slot = slots.free.pop().unwrap_or_else(|| {
            let slot = slots.slots.len();
            let waker = SlotWaker { ready: self.ready.clone(), slot };
            slots.slots.push(Slot { waker: Arc::new(waker).into(), pending: None, serial });
            slot
        });
        slots.slots[slot].serial = serial;
        let is_alone = slots.brief_in_flight == 0;
        (slot, serial, slots.slots[slot].waker.clone(), is_alone)
    }

    /// Polls slots. An error of one, which is that of its future, keeps none of the others.
    fn poll_all(&self, py: Python<'_>, slots: Vec<usize>) -> PyResult<()> {
        let mut result = Ok(());
        for slot in slots {
            result = result.and(self.poll(py, slot));
        }
        result
    }

    /// Polls a slot and resolves its future if that is done.
    fn poll(&self, py: Python<'_>, slot: usize) -> PyResult<()> {
        let (waker, pending) = {
            let mut slots = self.slots.lock();
            let Some(slot) = slots.slots.get_mut(slot) else { return Ok(()) };
            let Some(pending) = slot.pending.take() else { return Ok(()) };
            (slot.waker.clone(), pending)
        };
        let mut pending = pending;
        let result = pending.work.poll(py, &waker);
        let mut slots = self.slots.lock();
        let Some(result) = result else {
            slots.slots[slot].pending = Some(pending);
            return Ok(());
        };
        slots.free.push(slot);
        slots.brief_in_flight -= usize::from(pending.is_brief);
        drop(slots);
        resolve(py, pending.future.bind(py), result)
    }
}

#[pymethods]
impl Bridge {
    /// Called by the event loop when slots have been woken.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let _entered = self.runtime.enter();
        let mut bytes = [0; 64];
        for round in 0..ROUNDS_MAX {
            match (&self.reader).read(&mut bytes) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && round == 0 => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            // Before the list is taken, so that what is added to it later is told anew.
            self.ready.is_told.store(false, Ordering::Release);
            let woken = std::mem::take(&mut *self.ready.slots.lock());
            self.poll_all(py, woken)?;
        }
        Ok(())
    }

    /// Hands calls to the client that were made in this turn of the loop.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let _entered = self.runtime.enter();
        let unsent = std::mem::take(&mut self.slots.lock().unsent);
        let mut wanted = Vec::with_capacity(unsent.len());
        for slot in unsent {
            match self.is_cancelled(py, slot)? {
                true => self.forget(slot, None),
                false => wanted.push(slot),
            }
        }
        self.poll_all(py, wanted)
    }

    /// Ends its part in the event loop.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let event_loop = self.event_loop.bind(py);
        if !event_loop.call_method0("is_closed")?.extract::<bool>()? {
            event_loop.call_method1("remove_reader", (self.reader.as_raw_fd(),))?;
        }
        Ok(())
    }
}

impl Bridge {
    fn is_cancelled(&self, py: Python<'_>, slot: usize) -> PyResult<bool> {
        let slots = self.slots.lock();
        let Some(pending) = &slots.slots[slot].pending else { return Ok(false) };
        let future = pending.future.clone_ref(py);
        drop(slots);
        future.call_method0(py, intern!(py, "done"))?.extract(py)
    }

    /// Drops what a slot waits for, if it is still that of this call.
    fn forget(&self, slot: usize, serial: Option<u64>) {
        let mut slots = self.slots.lock();
        if serial.is_some_and(|serial| slots.slots[slot].serial != serial) {
            return;
        }
        let Some(pending) = slots.slots[slot].pending.take() else { return };
        slots.free.push(slot);
        slots.brief_in_flight -= usize::from(pending.is_brief);
        drop(slots);
        drop(pending);
    }
}

/// Resolves a future of asyncio, unless it was cancelled.
fn resolve(py: Python<'_>, future: &Bound<'_, PyAny>, result: PyResult<Py<PyAny>>) -> PyResult<()> {
    let done = match result {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),)),
    };
    match done {
        Ok(_) => Ok(()),
        Err(_) if future.call_method0(intern!(py, "cancelled"))?.extract()? => Ok(()),
        Err(error) => Err(error),
    }
}

/// The callback of a future that has ended: drops what it waited for if it was cancelled.
#[pyclass(frozen, module = "petrel._petrel")]
struct Forget {
    bridge: Py<Bridge>,
    slot: usize,
    serial: u64,
}

#[pymethods]
impl Forget {
    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = future.py();
        if future.call_method0(intern!(py, "cancelled"))?.extract()? {
            let bridge = self.bridge.get();
            let _entered = bridge.runtime.enter();
            bridge.forget(self.slot, Some(self.serial));
        }
        Ok(())
    }
}

/// A command under way. It can be awaited, and is a coroutine to `asyncio.create_task` and the
/// like. The command is sent whether or not it is awaited.
#[pyclass(frozen, module = "petrel._petrel")]
pub(crate) struct Call {
    future: Py<PyAny>,
    /// The iterator of the future, if it is driven as a coroutine.
    iterator: PyOnceLock<Py<PyAny>>,
}

impl Call {
    fn of(future: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
        let py = future.py();
        let call = Self { future: future.unbind(), iterator: PyOnceLock::new() };
        Ok(Bound::new(py, call)?.into_any())
    }

    fn iterator<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let iterator = self.iterator.get_or_try_init(py, || self.__await__(py))?;
        Ok(iterator.bind(py))
    }
}

#[pymethods]
impl Call {
    fn __await__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.future.call_method0(py, intern!(py, "__await__"))
    }

    fn send<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        self.iterator(py)?.call_method1(intern!(py, "send"), (value,))
    }

    #[pyo3(signature = (*error))]
    fn throw<'py>(&self, error: &Bound<'py, pyo3::types::PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = error.py();
        self.iterator(py)?.call_method1(intern!(py, "throw"), error)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.future.call_method0(py, intern!(py, "cancel")).map(drop)
    }
}
