//! One suite for every back-end: each test is generic over the driver.

mod harness;
mod suite;

use petrel_net::{Driver, Epoll, Options, Uring};

macro_rules! suite {
    ($backend:ident, $driver:ty, $options:expr, $($test:ident)*) => {
        mod $backend {
            use super::*;

            $(#[test]
            fn $test() {
                let options: Options = $options;
                match <$driver>::new(&options) {
                    Ok(driver) => suite::$test(driver),
                    Err(e) => println!("skipped: the kernel refuses {}: {e}", stringify!($driver)),
                }
            })*
        }
    };
    ($backend:ident, $driver:ty, $options:expr) => {
        suite!($backend, $driver, $options,
            echoes_many_connections
            takes_more_at_once_than_its_buffers_hold
            a_long_pipeline_arrives_whole
            a_slow_reader_is_parked_not_spun_on
            a_megabyte_through_read_into_and_splice
            read_into_takes_exactly_what_was_asked
            what_is_expected_comes_in_an_allocation_of_its_own
            output_is_flushed_before_closing
            close_now_is_silent_and_frees_the_slot
            input_before_eof_is_answered
            output_that_is_expected_is_waited_for
            a_reset_peer_closes
            a_reset_peer_closes_with_output_pending
            a_stale_slot_is_ignored
            the_waker_interrupts_and_coalesces
            waits_end_in_time_and_not_much_before
            accepts_many_and_pauses
            pausing_holds_input_back
            a_peer_that_leaves_while_paused_is_reported
            outputs_keep_their_order
            the_rest_of_many_pieces_is_reported
            accept_failures_back_off
            a_greedy_peer_does_not_starve_others
        );
    };
}

suite!(epoll, Epoll, Options::default());
suite!(uring, Uring, Options::default());
suite!(uring_direct, Uring, Options { direct_descriptors: Some(1024) });
