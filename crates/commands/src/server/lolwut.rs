//! LOLWUT: draws petrels over a random sea.

use crate::ctx::Ctx;
use crate::fail::Outcome;
use crate::random::Random;
use crate::spec::{CommandSpec, Locks};
use crate::{VALKEY_VERSION, redis_version};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] =
    &[CommandSpec::new(&meta::LOLWUT, lolwut).locking(Locks::Itself)];

const COLUMNS: usize = 64;
const COLUMNS_MAX: i64 = 200;
const ROWS: usize = 12;
const ROWS_MAX: i64 = 100;

/// `LOLWUT [VERSION version] [columns [rows]]`: the version chooses the sea
fn lolwut(ctx: &mut Ctx<'_>) -> Outcome {
    let (dialect, identity) = (ctx.dialect(), ctx.exec.shared.identity());
    let (name, version) =
        identity.choose(("Redis", redis_version(dialect)), ("Valkey", VALKEY_VERSION));
    if ctx.args().len() == 2 && ctx.is(1, "VERSION") {
        ctx.reply.verbatim(b"txt", format!("{name} ver. {version}\n").as_bytes());
        return Ok(());
    }
    let (mut seed, mut sizes) = (None, 1);
    if ctx.args().len() >= 3 && ctx.is(1, "VERSION") {
        seed = Some(ctx.integer(2)? as u64);
        sizes = 3;
    }
    let size = |i: usize, otherwise: usize, max: i64| match ctx.args().get(i) {
        Some(_) => ctx.integer(i).map(|n| n.clamp(1, max) as usize),
        None => Ok(otherwise),
    };
    let columns = size(sizes, COLUMNS, COLUMNS_MAX)?;
    let rows = size(sizes + 1, ROWS, ROWS_MAX)?;
    let seed = seed.unwrap_or_else(|| ctx.exec.random());
    let mut picture = draw(&mut Random::new(seed.wrapping_mul(0x9e37_79b9)), columns, rows);
    let petrel = env!("CARGO_PKG_VERSION");
    picture.push_str(&format!("\n{name} ver. {version} (Petrel ver. {petrel})\n"));
    ctx.reply.verbatim(b"txt", picture.as_bytes());
    Ok(())
}

/// Draws a sky with birds above three superimposed swells.
fn draw(random: &mut Random, columns: usize, rows: usize) -> String {
    let mut canvas = vec![vec![' '; columns]; rows];
    let swells: Vec<Swell> = (0..3).map(|_| Swell::new(random)).collect();
    let sky = rows * 2 / 5;
    for column in 0..columns {
        let height: f64 = swells.iter().map(|swell| swell.height(column)).sum();
        let crest = (rows as f64 * 0.6 + height * rows as f64 / 10.0).max(0.0) as usize;
        for (row, line) in canvas.iter_mut().enumerate().skip(crest) {
            line[column] = match row - crest {
                0 if height < -0.8 => '^',
                0 => '~',
                depth if (depth + column / 3).is_multiple_of(3) => '-',
                _ => ' ',
            };
        }
    }
    for _ in 0..columns * sky / 64 {
        let row = random.below(sky.max(1) as u64) as usize;
        let column = random.below(columns as u64) as usize;
        for (bird, spot) in r"\v/".chars().zip(canvas[row].iter_mut().skip(column)) {
            *spot = bird;
        }
    }
    let lines = canvas.iter().map(|line| line.iter().collect::<String>());
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

struct Swell {
    length: f64,
    phase: f64,
    height: f64,
}

impl Swell {
    fn new(random: &mut Random) -> Self {
        let mut between =
            |low: f64, high: f64| low + (high - low) * random.below(1000) as f64 / 1e3;
        Swell { length: between(2.0, 12.0), phase: between(0.0, 7.0), height: between(0.3, 0.9) }
    }

    fn height(&self, column: usize) -> f64 {
        (column as f64 / self.length + self.phase).sin() * self.height
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_can_be_drawn() {
        for (columns, rows) in [(1, 1), (1, 100), (200, 1), (200, 100), (64, 12)] {
            for seed in 0..20 {
                let picture = draw(&mut Random::new(seed), columns, rows);
                assert_eq!(picture.lines().count(), rows);
                assert!(picture.lines().all(|line| line.chars().count() <= columns));
            }
        }
    }
}
