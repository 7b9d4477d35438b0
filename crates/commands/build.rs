//! Compiles the arithmetic of the machine's `long double`, which Rust has no type for.

fn main() {
    println!("cargo:rerun-if-changed=src/numbers/long_double.c");
    cc::Build::new().file("src/numbers/long_double.c").compile("petrel_long_double");
}
