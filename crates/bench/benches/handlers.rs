//! `cargo bench -p petrel-bench --bench handlers [-- --quick]`: the experiment `handlers`.

mod run;

fn main() -> std::process::ExitCode {
    run::experiment("handlers")
}
