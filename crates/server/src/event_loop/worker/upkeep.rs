//! Periodic work of a worker: the keyspace's upkeep (expiry, compaction), supervision of the server
//! (first worker only), timers of connections, free memory.

use super::Worker;
use crate::client::Flag;
use crate::event_loop::batch::Engine;
use crate::lifecycle::process::{Whose, cpu_time};
use crate::observation::traffic;
use petrel_commands::Executor;
use petrel_commands::clock::Clock;
use petrel_keyspace::Pace;
use petrel_net::{Driver, Slot};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Milliseconds between two samples of the rates, and two checks of the memory of all clients.
const SUPERVISION_MS: i64 = 100;

/// Milliseconds between two rounds of upkeep while there is much to do: short steps, so that no
/// connection waits for one.
const BUSY_UPKEEP_MS: i64 = 2;

/// Time for each part of the keyspace's upkeep in one round: usually, and while there is much to
/// do.
const UPKEEP_BUDGET: Duration = Duration::from_millis(1);
const BUSY_UPKEEP_BUDGET: Duration = Duration::from_micros(400);

/// Milliseconds after which the peaks of the connections' buffers are halved.
const PEAKS_MS: i64 = 4000;

/// Milliseconds after which free pages of this thread's general allocator are given to all threads.
const COLLECT_MS: i64 = 1000;

/// Milliseconds between two attempts of blocked commands that become ready by time alone.
const POLL_MS: i64 = 100;

impl<D: Driver> Worker<D> {
    pub(super) fn upkeep(&mut self) {
        let now = self.engine.exec.ks.now_ms();
        let interval = 1000 / i64::from(self.engine.host.config.hz);
        if self.engine.host.server.upkeep_paused.load(Relaxed) {
            self.upkeep_at = now + interval;
            return;
        }
        let clock = Clock::get();
        let began = clock.now();
        // Wait here, before the upkeep, for a command that holds the whole keyspace.
        self.begin();
        self.engine.exec.end();
        self.engine.exec.drop_flushed();
        let need = self.engine.exec.ks.take_need();
        let busy = self.tend();
        if now / PEAKS_MS != self.upkeep_at / PEAKS_MS {
            self.traffic().forget_peaks();
        }
        // With much work left, the next round begins sooner, so that memory comes back within
        // seconds of a mass delete.
        self.upkeep_busy = busy;
        self.upkeep_at = now + if busy { BUSY_UPKEEP_MS.min(interval) } else { interval };
        if self.index == 0 && now >= self.supervision_at {
            self.supervision_at = now + SUPERVISION_MS;
            let Engine { exec, host, .. } = &mut self.engine;
            host.server.supervise(&host.config, now);
            host.server.commands.search.close_idle_cursors(now, &exec.ks);
            host.server.save_if_due(&mut exec.ks, &host.config);
            if !host.server.commands.is_loading() {
                host.server.settle_log(&mut exec.ks);
            }
            host.server.rewrite_if_due(&mut exec.ks, &host.config);
            host.server.tend_backup(&mut exec.ks, &host.config);
            host.server.tend_replicas(&mut exec.ks, &host.config);
        }
        // No reply depends on upkeep of the keyspace: none waits until it is durable.
        self.engine.exec.ks.take_need();
        self.engine.exec.ks.note_need(need);
        self.collect_memory(now);
        self.engine.limit_replies();
        self.engine.exec.trim();
        if !self.filling.is_empty() {
            self.show_filling();
        }
        self.begin();
        self.engine.exec.ks.forget_readers();
        self.engine.host.take_upkeep_invalidations(&mut self.engine.exec.ks);
        while let Some(slot) = self.own.timers.due(now) {
            self.check_timers(slot, now);
        }
        if !self.own.polling.is_empty() && now - self.polled_at >= POLL_MS {
            self.polled_at = now;
            self.poll_waiting();
        }
        if self.has_safe_waits() {
            self.end_safe_waits();
        }
        self.engine.exec.end();
        let cpu = cpu_time(Whose::Thread);
        for (figure, seconds) in self.traffic().cpu_us.iter().zip([cpu.system, cpu.user]) {
            figure.store((seconds * 1e6) as u64, Relaxed);
        }
        traffic::add(&self.traffic().upkeep_nanos, clock.nanos(began, clock.now()));
    }

    /// Gives up free pages of this thread's general allocator. After `MEMORY PURGE` it returns
    /// them, and those of all threads, to the system, which may take a while.
    fn collect_memory(&mut self, now: i64) {
        let server = &self.engine.host.server;
        let (collected_at, purges) = self.collected;
        let asked = server.figures.purges.load(Relaxed);
        if purges != asked {
            self.engine.exec.clear_caches();
            server.process.purge_allocator();
        } else if now - collected_at >= COLLECT_MS {
            server.process.collect_thread();
        } else {
            return;
        }
        self.collected = (now, asked);
    }

    /// Upkeep of the keyspace; returns true if there is more to do.
    fn tend(&mut self) -> bool {
        let (clock, pace) = (Clock::get(), self.pace());
        let began = clock.now();
        let Executor { ks, shared, .. } = &mut self.engine.exec;
        // A slow script may have begun meanwhile: work that it blocks is skipped.
        let busy = || shared.scripts.running.is_busy();
        let swept = ks.tick_unless(Pace { compact: Duration::ZERO, ..pace }, busy);
        let expired = clock.now();
        let compacted = ks.tick_unless(Pace { expire: Duration::ZERO, ..pace }, busy);
        if self.index == 0 {
            if ks.enter_unless(busy) {
                ks.keep_limit();
            }
            ks.exit();
        }
        let evicting = ks.take_eviction_nanos();
        let expiring = clock.nanos(began, expired);
        let latency = &self.engine.exec.shared.latency;
        latency.note("expire-cycle", expiring);
        latency.note("active-defrag-cycle", clock.nanos(expired, clock.now()));
        latency.note("eviction-cycle", evicting);
        let traffic = self.traffic();
        traffic::add(&traffic.expiry_nanos, expiring);
        traffic::add(&traffic.expiry_unfinished, u64::from(swept.is_busy()));
        swept.is_busy() || compacted.is_busy()
    }

    /// Time budget of the next round of upkeep.
    fn pace(&self) -> Pace {
        let host = &self.engine.host;
        let budget = if self.upkeep_busy { BUSY_UPKEEP_BUDGET } else { UPKEEP_BUDGET };
        let server = &host.server;
        let expires = server.active_expire.load(Relaxed) && !server.commands.is_loading();
        Pace {
            expire: if expires {
                budget * host.config.active_expire_effort
            } else {
                Duration::ZERO
            },
            compact: if host.config.activedefrag { budget } else { Duration::ZERO },
        }
    }

    fn check_timers(&mut self, slot: Slot, now: i64) {
        let Some(mut conn) = self.take(slot) else { return };
        self.check_output(&mut conn);
        let timeout = self.engine.host.config.timeout;
        let idle = self.seconds().saturating_sub(conn.client.active_at.load(Relaxed));
        // Both times are rounded down to seconds, so one more has to pass.
        conn.doomed |= timeout > 0 && idle > timeout && !conn.client.has(Flag::Blocked);
        if timeout > 0 && !conn.doomed {
            // A blocked client is not idle; its time begins with the answer.
            let left = timeout.saturating_sub(idle) + 1;
            self.own.timers.set(now + i64::from(left) * 1000, slot);
        }
        self.settle(conn);
    }
}
