//! Fills a keyspace, writes an image of it, and says how long that took:
//! `cargo run --release -p petrel-persistence --example image -- 10000000 100 noise /tmp/image.rdb
//! [threads]`. Values are `noise`, which does not compress, or `text`, which does.

use petrel_keyspace::{Keyspace, Options, Value};
use petrel_persistence::Image;
use petrel_persistence::rdb::{Dialect, FileOptions, FileWriter};
use std::error::Error;
use std::fs::File;
use std::ops::ControlFlow;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [keys, len, kind, path, rest @ ..] = &args[..] else {
        return Err("keys, length of a value, noise or text, path".into());
    };
    let (keys, len): (u64, usize) = (keys.parse()?, len.parse()?);
    let threads = rest.first().map_or(Ok(1), |text| text.parse())?;
    let keyspace = Keyspace::new(&Options::default());
    let mut handle = keyspace.attach();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for n in 0..keys {
        let mut value = Vec::with_capacity(len + 8);
        while value.len() < len {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match kind.as_str() {
                "text" => value.extend_from_slice(b"value of a field, "),
                _ => value.extend_from_slice(&(random ^ random >> 29).to_le_bytes()),
            }
        }
        let name = format!("key:{n:012}");
        let key = handle.key(name.as_bytes());
        handle.enter();
        handle.lock(key.hash);
        handle.put(0, key, Value::Bytes(&value[..len]), None);
        handle.unlock();
        handle.exit();
    }
    for _ in 0..2 {
        let options = FileOptions {
            compress: true,
            sum: true,
            dialect: Dialect::Redis,
            version_max: FileOptions::ANY_VERSION,
            only_redis_types: false,
        };
        let mut file = FileWriter::new(File::create(path)?, options)?;
        let (start, cpu) = (Instant::now(), processor_seconds()?);
        handle.enter();
        let image = Image::begin(&mut handle, options);
        handle.exit();
        let mut image = image.ok_or("another image is being taken")?;
        image.threads = threads;
        image.write(&mut handle, &mut file, |_| ControlFlow::Continue(()))?;
        let bytes = file.finish()?.metadata()?.len();
        let (seconds, cpu) = (start.elapsed().as_secs_f64(), processor_seconds()? - cpu);
        println!(
            "{keys} keys, {bytes} bytes by {threads} threads in {seconds:.2} s: {:.0} MB/s, {:.1} M keys/s; \
             {cpu:.2} s of the calling thread's processor time",
            bytes as f64 / seconds / 1e6,
            keys as f64 / seconds / 1e6,
        );
    }
    Ok(())
}

/// Seconds for which the calling thread has run.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: f64 = text.split(' ').next().ok_or("no figures")?.parse()?;
    Ok(nanos / 1e9)
}
