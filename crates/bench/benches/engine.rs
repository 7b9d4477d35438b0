//! `cargo bench -p petrel-bench --bench engine [-- --quick]`: the experiment `engine`.

mod run;

fn main() -> std::process::ExitCode {
    run::experiment("engine")
}
