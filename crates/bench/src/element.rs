//! Elements of collections as the benchmarks make them: element `at` of key `n`, appended to a command.

use crate::workload::Args;

/// A field and its value.
pub fn field(args: &mut Args, n: u64, at: u64) {
    args.add(format_args!("field:{at}")).add(format_args!("value:{}", (n * 31 + at * 7) % 100_000));
}

/// An integer.
pub fn integer(args: &mut Args, n: u64, at: u64) {
    args.add(format_args!("{}", n * 3 + at * 1_021));
}

/// A member of a set, of 14 bytes.
pub fn member(args: &mut Args, n: u64, at: u64) {
    args.add(format_args!("member:{:07}", (n * 16 + at) % 10_000_000));
}

/// A member with its score before it.
pub fn scored(args: &mut Args, n: u64, at: u64) {
    args.add(format_args!("{}", (n * 37 + at * 7_919) % 1_000_000));
    member(args, n, at);
}

/// An item of a list, of 15 bytes.
pub fn item(args: &mut Args, n: u64, at: u64) {
    args.add(format_args!("element:{:07}", (n * 100 + at) % 10_000_000));
}

/// The ID of a stream's entry and its fields: readings, one a second.
pub fn entry(args: &mut Args, n: u64, at: u64) {
    args.add(format_args!("{}-0", 1_700_000_000_000 + at * 1_000 + n % 1_000))
        .add(format_args!("sensor"))
        .add(format_args!("{}", (n + at) % 1_000))
        .add(format_args!("temperature"))
        .add(format_args!("{}.{}", at * 7 % 40, at % 10));
}
