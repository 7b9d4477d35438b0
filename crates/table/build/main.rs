//! Makes constants of the files in `commands/`; the form of those is described in `src/lib.rs`.

mod emit;
mod entry;
mod options;
mod syntax;

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("commands");
    println!("cargo::rerun-if-changed={}", directory.display());
    let text = |path: &Path| {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let types = syntax::Types::parse(&text(&directory.join("types")));
    let listed = fs::read_dir(&directory).expect("the directory of the families");
    let mut families: Vec<PathBuf> = listed.flatten().map(|file| file.path()).collect();
    families.retain(|path| path.file_name().is_some_and(|name| name != "types"));
    families.sort();

    let mut entries = Vec::new();
    for path in &families {
        let parsed = entry::parse(&text(path), &types)
            .unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        entries.extend(parsed);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let options = options::module(&entries).unwrap_or_else(|error| panic!("{error}"));
    for (name, text) in [("commands.rs", emit::module(&entries)), ("options.rs", options)] {
        fs::write(out.join(name), text).expect("the output directory can be written");
    }
}
