//! Loads an RDB file into an empty keyspace, writes it again, and says how long both took:
//! `cargo run --release -p petrel-persistence --example load -- dump.rdb [threads]`.

use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::rdb::{Dialect, FileOptions, FileWriter, Leniency};
use petrel_persistence::{LoadOptions, Progress, load, save};
use std::error::Error;
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("which file?")?;
    let threads = args.next().map_or(Ok(2), |text| text.parse())?;
    let file = File::open(&path)?;
    let len = file.metadata()?.len();
    let keyspace = Keyspace::new(&Options::default());
    let options =
        LoadOptions { threads, leniency: Leniency::default(), keeps_expired: false, merges: false };
    let progress = Progress::default();
    let start = Instant::now();
    let loaded = load(file, len, &keyspace, options, &progress)?;
    let (keys, seconds) = (progress.keys.load(Relaxed), start.elapsed().as_secs_f64());
    println!(
        "version {}: {keys} keys, {len} bytes by {threads} threads in {seconds:.2} s: {:.2} M keys/s, {:.0} MB/s",
        loaded.version,
        keys as f64 / seconds / 1e6,
        len as f64 / seconds / 1e6
    );
    let out = std::env::temp_dir().join(format!("petrel-load-{}.rdb", std::process::id()));
    let options = FileOptions {
        compress: true,
        sum: true,
        dialect: Dialect::Redis,
        version_max: FileOptions::ANY_VERSION,
        only_redis_types: false,
    };
    let mut file = FileWriter::new(File::create(&out)?, options)?;
    let mut handle = keyspace.attach();
    let start = Instant::now();
    handle.enter();
    handle.lock_all();
    save(&mut handle, &mut file, |_| ControlFlow::Continue(()))?;
    handle.unlock();
    handle.exit();
    let len = file.finish()?.metadata()?.len();
    let seconds = start.elapsed().as_secs_f64();
    println!("written: {len} bytes in {seconds:.2} s: {:.0} MB/s", len as f64 / seconds / 1e6);
    std::fs::remove_file(out)?;
    Ok(())
}
