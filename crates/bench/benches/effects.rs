//! `cargo bench -p petrel-bench --bench effects [-- --quick]`: the experiment `effects`.

mod run;

fn main() -> std::process::ExitCode {
    run::experiment("effects")
}
