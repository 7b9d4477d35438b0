//! The ring itself: set-up with the features that the driver rests on, submission, completion.

use std::io;
use std::os::fd::RawFd;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

/// Submissions that fit one system call; more are submitted in between.
const SUBMISSIONS: u32 = 512;
/// Completions that fit before the kernel queues them aside.
const COMPLETIONS: u32 = 8192;

pub(super) struct Ring {
    ring: IoUring,
}

impl Ring {
    /// A ring for this thread alone, with a file table of `files` entries if given.
    pub(super) fn new(files: Option<u32>) -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)
            .map_err(explain_setup)?;
        let params = ring.params();
        if !(params.is_feature_nodrop()
            && params.is_feature_submit_stable()
            && params.is_feature_skip_cqe_on_success())
        {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring: the kernel is too old",
            ));
        }
        if let Some(files) = files {
            ring.submitter().register_files_sparse(files).map_err(|e| {
                let text = format!(
                    "io_uring: cannot register {files} direct descriptors \
                     (one table is bounded by RLIMIT_NOFILE): {e}"
                );
                io::Error::new(e.kind(), text)
            })?;
        }
        Ok(Ring { ring })
    }

    pub(super) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.ring.submitter()
    }

    /// Queues `entry`; the memory it names must stay valid as [`squeue::Entry`] demands.
    ///
    /// # Safety
    /// As for [`io_uring::SubmissionQueue::push`].
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: the caller's promise.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Queues a wait for readable data on the descriptor, once or each time.
    pub(super) fn push_poll(&mut self, fd: RawFd, is_repeated: bool, tag: u64) -> io::Result<()> {
        let poll = opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).multi(is_repeated);
        self.push_memoryless(poll.build().user_data(tag))
    }

    /// Queues the end of the operation with the tag `of`; it says nothing where there is one.
    pub(super) fn push_cancel(&mut self, of: u64, tag: u64) -> io::Result<()> {
        let cancel = opcode::AsyncCancel::new(of).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push_memoryless(cancel.user_data(tag))
    }

    /// Queues an entry of the two above.
    fn push_memoryless(&mut self, entry: squeue::Entry) -> io::Result<()> {
        // SAFETY: neither names memory.
        unsafe { self.push(&entry) }
    }

    /// Hands everything queued to the kernel, so that it has been tried once.
    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            tolerate(self.ring.submitter().submit())?;
        }
        Ok(())
    }

    /// Submits everything queued and, if `wait`, blocks until there is a completion.
    pub(super) fn enter(&mut self, wait: bool) -> io::Result<()> {
        tolerate(self.ring.submitter().submit_and_wait(usize::from(wait)))?;
        self.submit()
    }

    /// Whether completions wait to be taken.
    pub(super) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Moves all completions to `batch`, including those that did not fit the queue.
    ///
    /// # Errors
    /// If the kernel had no memory to keep a completion: the driver's state of its
    /// connections can then no longer be trusted.
    #[inline]
    pub(super) fn take(&mut self, batch: &mut Vec<cqueue::Entry>) -> io::Result<()> {
        loop {
            let mut completions = self.ring.completion();
            batch.extend(&mut completions);
            if completions.overflow() != 0 {
                return Err(io::Error::new(
                    io::ErrorKind::OutOfMemory,
                    "io_uring lost completions",
                ));
            }
            drop(completions);
            if !self.ring.submission().cq_overflow() {
                return Ok(());
            }
            tolerate(self.ring.submitter().submit())?;
        }
    }
}

/// Outcomes after which trying again, or later, is right: a signal, a full completion queue, memory
/// short for the moment.
fn tolerate(entered: io::Result<usize>) -> io::Result<()> {
    match entered {
        Ok(_) => Ok(()),
        Err(e) => match e.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EBUSY | libc::EAGAIN) => {
                std::thread::yield_now();
                Ok(())
            }
            _ => Err(e),
        },
    }
}

fn explain_setup(error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has none",
        Some(libc::EPERM | libc::EACCES) => {
            "it is forbidden here (sysctl kernel.io_uring_disabled, or a container's seccomp rules)"
        }
        Some(libc::ENOMEM) => "no memory for the rings (raise RLIMIT_MEMLOCK)",
        Some(libc::EINVAL) => "the kernel is older than 6.0",
        Some(libc::EMFILE | libc::ENFILE) => "out of descriptors",
        _ => "set-up failed",
    };
    io::Error::new(error.kind(), format!("io_uring: {why}: {error}"))
}
