//! The thread that drives connections, and threads of Python that wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::Handle;

/// How often a thread that waits looks for signals, such as that of Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// The runtime of this process. Locked with the interpreter attached only, so that no other thread
/// holds it when the process forks.
static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// A future that may be polled by any thread.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The runtime that drives all connections, on one thread that never touches the interpreter.
pub(crate) fn handle(_: Python<'_>) -> PyResult<Handle> {
    let mut running = RUNTIME.lock();
    if let Some(handle) = &*running {
        return Ok(handle.clone());
    }
    let failed = |error: std::io::Error| PyRuntimeError::new_err(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("petrel".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))
        .map_err(failed)?;
    *running = Some(handle.clone());
    Ok(handle)
}

/// Forgets the runtime in a process that has just been forked, where its thread does not exist.
#[pyfunction]
pub(crate) fn after_fork() {
    std::mem::forget(RUNTIME.lock().take());
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Parked(std::thread::current())));
}

/// Waits for a future with the interpreter released. A signal whose handler raises ends the wait
/// and drops the future.
pub(crate) fn wait<T: Send>(py: Python<'_>, mut future: BoxFuture<T>) -> PyResult<T> {
    let handle = handle(py)?;
    loop {
        let done = py.detach(|| {
            let _entered = handle.enter();
            let waker = WAKER.with(Waker::clone);
            let until = Instant::now() + SIGNALS_EVERY;
            loop {
                if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Some(done);
                }
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                std::thread::park_timeout(left);
            }
        });
        match done {
            Some(done) => return Ok(done),
            None => py.check_signals()?,
        }
    }
}
