//! Event-loop back-ends of Petrel: sockets in, bytes out, nothing else.
//!
//! One worker thread owns one [`Driver`]. A turn of its loop is: [`Driver::poll`] writes the
//! queued output, waits, and returns events; the worker reads the received bytes with
//! [`Driver::data`], runs the requests, queues the answers with [`Driver::send`], and polls
//! again. So all reads of a turn come before all its writes, and each connection is read once and
//! written once per turn.
//!
//! Two back-ends implement the trait: [`Uring`] (multishot receive into a shared ring of buffers,
//! one system call per turn) and [`Epoll`] (one `recv` and one `send` per connection and turn).
//! The caller is generic over the driver, so the hot path has no dynamic dispatch.
//!
//! ```no_run
//! use petrel_net::{Driver, Epoll, Event, ListenerId, Options, bind_tcp};
//! use std::sync::Arc;
//!
//! fn echo<D: Driver>(mut driver: D) -> std::io::Result<()> {
//!     let listener = bind_tcp("127.0.0.1", 7777, 511)?;
//!     driver.listen(Arc::new(listener), ListenerId(0))?;
//!     let mut events = Vec::new();
//!     loop {
//!         driver.poll(None, &mut events)?;
//!         for event in events.drain(..) {
//!             match event {
//!                 Event::Accepted { socket, .. } => {
//!                     driver.adopt(socket)?;
//!                 }
//!                 Event::Received { slot, chunk } => {
//!                     let mut output = driver.output();
//!                     output.bytes.extend_from_slice(driver.data(chunk));
//!                     driver.send(slot, output);
//!                 }
//!                 _ => {}
//!             }
//!         }
//!     }
//! }
//! # echo(Epoll::new(&Options::default()).unwrap()).unwrap();
//! ```

mod epoll;
mod event;
mod listeners;
mod outbox;
mod output;
mod poll;
mod region;
mod slab;
mod socket;
mod sys;
mod turn;
mod uring;
mod waker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub use epoll::Epoll;
pub use event::{Chunk, Close, Event, ListenerId, Slot, Why};
pub use output::Output;
pub use poll::{Awaited, Poll};
pub use socket::{
    Endpoint, bind_tcp, bind_unix, bind_unix_for, bytes_received, bytes_unread, have_ended,
    is_hung_up, listen_again, local_endpoint, peer_endpoint, set_keepalive, set_nodelay,
    stop_listening,
};
pub use uring::Uring;
pub use waker::Waker;

/// Options of a driver.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// io_uring only: keep connections in the ring's own file table of this many entries instead
    /// of the process's descriptors, so that one process can hold more connections than
    /// RLIMIT_NOFILE. The kernel bounds one table, not the sum of the tables, by that limit.
    /// Adopting a connection beyond the table fails with `ENFILE`. Connections are accepted as
    /// plain descriptors and move into the table when adopted, so workers can still hand them out.
    pub direct_descriptors: Option<u32>,
}

/// An event loop over sockets, owned by one thread.
///
/// Calls that name a stale [`Slot`] (its connection has been closed) are ignored, so a caller may
/// hold one without harm.
pub trait Driver: Sized + 'static {
    /// Builds the driver on the thread that will poll it.
    ///
    /// # Errors
    /// Errors of the kernel; the text names the missing feature or limit.
    fn new(options: &Options) -> io::Result<Self>;

    /// The name of the back-end as the log and INFO show it.
    fn name(&self) -> &'static str;

    /// Starts accepting on `listener`; connections arrive as [`Event::Accepted`] with this `id`.
    /// The same listener may be given to several drivers: the kernel wakes one of them.
    ///
    /// # Errors
    /// If the listener cannot be watched.
    fn listen(&mut self, listener: Arc<OwnedFd>, id: ListenerId) -> io::Result<()>;

    /// Stops accepting on `id` until [`Driver::resume_accept`]. Connections that the kernel had
    /// already handed over may still be reported.
    fn pause_accept(&mut self, id: ListenerId);

    /// Accepts on `id` again.
    fn resume_accept(&mut self, id: ListenerId);

    /// Drops the listener `id`; the socket closes with its last owner.
    fn unlisten(&mut self, id: ListenerId);

    /// Takes over a connected stream socket, accepted here or by another worker, and starts
    /// reading from it.
    ///
    /// # Errors
    /// If the driver can hold no more connections; the socket is then closed.
    fn adopt(&mut self, socket: OwnedFd) -> io::Result<Slot>;

    /// Runs one turn: writes the queued output, waits for `timeout` (`None`: without limit), or a
    /// millisecond longer, unless something is ready, and replaces the contents of `events`
    /// with the events. A wait may return earlier with no events.
    ///
    /// A slot occurs at most once per turn among `Received`, `Filled` and `Closed`, so the answer
    /// to one (pausing, [`Driver::read_into`], closing) takes effect before the next.
    ///
    /// # Errors
    /// Only failures of the event loop itself; those of connections and listeners are events.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;

    /// The bytes of a [`Event::Received`], valid until the next poll.
    fn data(&self, chunk: Chunk) -> &[u8];

    /// An empty output from the pool.
    fn output(&mut self) -> Output;

    /// Gives an output that is not sent back to the pool.
    fn recycle(&mut self, output: Output);

    /// Appends `output` to the queue of `slot`; the next poll writes it. Output that the peer does
    /// not take stays queued until the kernel reports room.
    fn send(&mut self, slot: Slot, output: Output);

    /// The bytes queued for `slot` that the kernel has not taken yet.
    fn unsent(&self, slot: Slot) -> usize;

    /// Receives the next `count` bytes of `slot` straight into `buffer`, after its contents, and
    /// reports [`Event::Filled`] when all are there. Until then `slot` reports no `Received`. A
    /// buffer without the capacity is grown. Ignored (and the buffer dropped) while an earlier
    /// call on the slot is unfinished.
    fn read_into(&mut self, slot: Slot, buffer: Vec<u8>, count: usize);

    /// Says that the next bytes of `slot` are likely to be `bytes` that the caller wants to keep.
    /// What comes next, as much of it as there is at once, may then be received into an
    /// allocation of that size, made when it is there, and be reported as [`Event::Filled`]; or
    /// it is `Received` as ever, and the word is forgotten. Ignored while a
    /// [`Driver::read_into`] is unfinished.
    fn expect_input(&mut self, slot: Slot, bytes: usize);

    /// Stops reading from `slot`: backpressure on a peer with commands that cannot run now, or on
    /// one that does not read its output. Bytes already received are kept, at most the receive
    /// buffers of the driver (2 MiB).
    fn pause_reading(&mut self, slot: Slot);

    /// Resumes reading from `slot`; the next poll reports the bytes kept meanwhile.
    fn resume_reading(&mut self, slot: Slot);

    /// Closes the connection, at once or after its output; see [`Close`].
    fn close(&mut self, slot: Slot, how: Close);

    /// Says whether more output will come for `slot` although all that was queued may be written:
    /// until it does not, a peer that has ended its side is not closed. For a driver around
    /// this one that produces output in steps.
    fn expect_output(&mut self, slot: Slot, expected: bool);

    /// Number of open connections, including those that are closed after their output.
    fn connections(&self) -> usize;

    /// A handle with which other threads interrupt [`Driver::poll`].
    fn waker(&self) -> Waker;
}
