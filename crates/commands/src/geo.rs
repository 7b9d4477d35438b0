//! Geographic indexes: sorted sets with geohashes as scores.
//!
//! | file | holds |
//! |---|---|
//! | `geohash.rs` | positions, cells of the grid, scores and geohash texts |
//! | `area.rs` | circles, boxes and polygons: containment, and the cells that cover them |
//! | `search.rs` | GEOSEARCH and the older GEORADIUS |

mod area;
mod geohash;
pub(crate) mod search;

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::double;
use crate::sorted_sets::members::{AddOptions, add};
use crate::sorted_sets::read;
use crate::spec::CommandSpec;
use geohash::Position;
use petrel_keyspace::types::sorted_set::SortedSetRef;
use petrel_resp::{Dialect, Reply};
use petrel_table::commands as meta;
use petrel_table::options::GeoaddOption;

/// The commands of this file.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::GEOADD, geoadd),
    CommandSpec::new(&meta::GEODIST, geodist),
    CommandSpec::new(&meta::GEOHASH, geohash),
    CommandSpec::new(&meta::GEOPOS, geopos),
];

/// Units of distance, in meters.
const UNITS: [(&[u8], f64); 4] = [(b"m", 1.0), (b"km", 1000.0), (b"ft", 0.3048), (b"mi", 1609.34)];

/// The length of a unit of distance, in meters.
fn unit(word: &[u8]) -> Result<f64, Fail> {
    let unit = UNITS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
    unit.map(|(_, meters)| *meters)
        .ok_or(Fail::fixed("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// Parses a longitude and a latitude.
fn place(longitude: &[u8], latitude: &[u8]) -> Result<Position, Fail> {
    let coordinate = |word| double::parse(word).ok_or(Fail::NOT_A_FLOAT);
    let place = Position { longitude: coordinate(longitude)?, latitude: coordinate(latitude)? };
    if place.is_valid() {
        return Ok(place);
    }
    let Position { longitude, latitude } = place;
    Err(Fail::new(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// Position of a member.
fn place_of(set: &SortedSetRef<'_>, member: &[u8]) -> Option<Position> {
    set.score(member).map(Position::of_score)
}

/// Writes a position: Redis with the fewest digits that identify it, Valkey with 17 decimals.
fn write_place(reply: &mut dyn Reply, dialect: Dialect, place: Position) {
    reply.array(2);
    for degrees in [place.longitude, place.latitude] {
        match dialect {
            Dialect::Redis => reply.double(degrees),
            Dialect::Valkey => {
                let digits = format!("{degrees:.17}");
                reply.decimal(digits.trim_end_matches('0').trim_end_matches('.').as_bytes());
            }
        }
    }
}

/// Writes a distance, in units of `unit_m` meters.
fn write_distance(reply: &mut dyn Reply, distance_m: f64, unit_m: f64) {
    reply.bulk(format!("{:.4}", distance_m / unit_m).as_bytes());
}

/// `GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]`
fn geoadd(ctx: &mut Ctx<'_>) -> Outcome {
    let mut options = AddOptions::default();
    let mut words = ctx.options(2);
    while let Some(option) = words.leading() {
        match option {
            GeoaddOption::Nx => options.only_new = true,
            GeoaddOption::Xx => options.only_present = true,
            GeoaddOption::Ch => options.changed = true,
        }
    }
    let from = ctx.position(&words);
    let places = from..ctx.args().len();
    let incompatible = options.only_new && options.only_present;
    if places.is_empty() || !places.len().is_multiple_of(3) || incompatible {
        return Err(Fail::SYNTAX);
    }
    let scores: Result<Vec<f64>, Fail> =
        places.step_by(3).map(|i| Ok(place(ctx.arg(i), ctx.arg(i + 1))?.score() as f64)).collect();
    add(ctx, options, &scores?, (from + 2..).step_by(3))
}

/// `GEODIST key member1 member2 [M | KM | FT | MI]`
fn geodist(ctx: &mut Ctx<'_>) -> Outcome {
    let unit_m = match ctx.args().len() {
        4 => 1.0,
        5 => unit(ctx.arg(4))?,
        _ => return Err(Fail::SYNTAX),
    };
    let (key, db, members) = (ctx.key(1), ctx.db(), [ctx.arg(2), ctx.arg(3)]);
    let set = read(&mut ctx.exec.ks, db, key)?;
    match set.map(|set| members.map(|member| place_of(&set, member))) {
        Some([Some(from), Some(to)]) => write_distance(ctx.reply, from.distance_m(&to), unit_m),
        _ => ctx.reply.null(),
    }
    Ok(())
}

/// `GEOHASH key [member ...]`
fn geohash(ctx: &mut Ctx<'_>) -> Outcome {
    each_place(ctx, |reply, _, place| match place {
        Some(place) => reply.bulk(&place.text()),
        None => reply.null(),
    })
}

/// `GEOPOS key [member ...]`
fn geopos(ctx: &mut Ctx<'_>) -> Outcome {
    each_place(ctx, |reply, dialect, place| match place {
        Some(place) => write_place(reply, dialect, place),
        None => reply.null_array(),
    })
}

/// Writes an array with the output of `write` for each member's position.
fn each_place(ctx: &mut Ctx<'_>, write: fn(&mut dyn Reply, Dialect, Option<Position>)) -> Outcome {
    let (key, db, members, dialect) = (ctx.key(1), ctx.db(), &ctx.args()[2..], ctx.dialect());
    let set = read(&mut ctx.exec.ks, db, key)?;
    ctx.reply.array(members.len());
    for member in members {
        write(ctx.reply, dialect, set.and_then(|set| place_of(&set, member)));
    }
    Ok(())
}
