//! Whatever comes to the bus, before a node is known and after, must be read or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| petrel_fabric::decode_anything(input));
