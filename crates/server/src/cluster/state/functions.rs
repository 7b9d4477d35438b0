//! Commands that change the libraries of functions, as they wait for the thread that executes them,
//! and the version of the libraries that is here.

use crate::client::Client;
use parking_lot::{Condvar, Mutex};
use petrel_commands::Fail;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks whether the server is stopping.
const REST: Duration = Duration::from_secs(1);

/// Commands that wait at most.
const WAITING_MAX: usize = 256;

/// Bytes of their arguments.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A command that changes the libraries.
pub(in crate::cluster) struct FunctionRequest {
    pub client: Arc<Client>,
    /// The number of its reply slot.
    pub seq: u64,
    pub resp3: bool,
    pub args: Vec<Vec<u8>>,
    /// Whether its client is one of Redis Cluster, which sends it to every node.
    pub is_for_each_node: bool,
    pub(in crate::cluster) since: Instant,
}

impl FunctionRequest {
    pub fn new(client: Arc<Client>, seq: u64, resp3: bool, args: Vec<Vec<u8>>) -> Self {
        let since = Instant::now();
        FunctionRequest { client, seq, resp3, args, is_for_each_node: false, since }
    }

    fn len(&self) -> usize {
        self.args.iter().map(Vec::len).sum()
    }
}

/// State shared by the thread and the rest of the server.
#[derive(Default)]
pub(in crate::cluster) struct Functions {
    waiting: Mutex<Waiting>,
    woken: Condvar,
    pub(in crate::cluster) applied: Mutex<Applied>,
    pub(in crate::cluster) thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Waiting {
    wishes: VecDeque<FunctionRequest>,
    has_news: bool,
}

/// The version of the libraries that are here.
#[derive(Default)]
pub(in crate::cluster) struct Applied {
    pub(in crate::cluster) version: u64,
    /// Time when the next version could not be loaded.
    pub(in crate::cluster) failed: Option<Instant>,
}

impl Functions {
    /// Wakes the thread to check for agreed libraries.
    pub fn wake(&self) {
        self.waiting.lock().has_news = true;
        self.woken.notify_all();
    }

    /// Leaves a command.
    ///
    /// # Errors
    /// If too many wait.
    pub fn ask(&self, request: FunctionRequest) -> Result<(), Fail> {
        let mut waiting = self.waiting.lock();
        let bytes: usize = waiting.wishes.iter().map(FunctionRequest::len).sum();
        if waiting.wishes.len() >= WAITING_MAX || bytes + request.len() > WAITING_BYTES_MAX {
            return Err(Fail::TOO_MUCH_FORWARDED);
        }
        waiting.wishes.push_back(request);
        self.woken.notify_all();
        Ok(())
    }

    /// The next command; none if something was agreed on, or after a while.
    pub fn next(&self) -> Option<FunctionRequest> {
        let mut waiting = self.waiting.lock();
        if waiting.wishes.is_empty() && !std::mem::take(&mut waiting.has_news) {
            self.woken.wait_for(&mut waiting, REST);
        }
        waiting.has_news = false;
        waiting.wishes.pop_front()
    }

    /// Waits until something was agreed on, or for so long.
    pub fn await_news(&self, pause: Duration) {
        let mut waiting = self.waiting.lock();
        if !waiting.has_news {
            self.woken.wait_for(&mut waiting, pause);
        }
        waiting.has_news = false;
    }

    /// Waits for the thread's end, once the server is stopping.
    pub fn end(&self) {
        self.wake();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the cluster's functions has ended by a panic");
        }
    }
}
