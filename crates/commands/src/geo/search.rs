//! Searches for members of a geographic index inside an area: GEOSEARCH and the older GEORADIUS.

use super::area::{Area, Shape};
use super::geohash::Position;
use super::{place, place_of, unit as meters, write_distance, write_place};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::Pacer;
use crate::numbers::{double, integer};
use crate::sorted_sets::{Gathered, read, write_member};
use crate::spec::CommandSpec;
use petrel_keyspace::Transient;
use petrel_keyspace::packed::Item;
use petrel_keyspace::types::sorted_set::SortedSetRef;
use petrel_resp::{Dialect, Reply};
use petrel_table::commands as meta;
use petrel_table::options::{GeoSearchOption, Reader};

/// The commands of this file.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::GEORADIUS, |ctx| search(ctx, Syntax::Radius { stores: true })),
    CommandSpec::new(&meta::GEORADIUS_RO, |ctx| search(ctx, Syntax::Radius { stores: false })),
    CommandSpec::new(&meta::GEORADIUSBYMEMBER, |ctx| {
        search(ctx, Syntax::RadiusByMember { stores: true })
    }),
    CommandSpec::new(&meta::GEORADIUSBYMEMBER_RO, |ctx| {
        search(ctx, Syntax::RadiusByMember { stores: false })
    }),
    CommandSpec::new(&meta::GEOSEARCH, |ctx| search(ctx, Syntax::Search)),
    CommandSpec::new(&meta::GEOSEARCHSTORE, |ctx| search(ctx, Syntax::SearchStore)),
];

/// Units for examining a member, and for sorting, storing or returning one.
const UNITS_PER_PLACE: usize = 10;
const UNITS_PER_HIT: usize = 30;

/// Minimum number of vertices of a polygon.
const VERTICES_MIN: usize = 3;

/// Argument layout of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Syntax {
    /// `key longitude latitude radius unit [options]`
    Radius { stores: bool },
    /// `key member radius unit [options]`
    RadiusByMember { stores: bool },
    /// `key [options]`
    Search,
    /// `destination source [options]`
    SearchStore,
}

impl Syntax {
    fn source(self) -> usize {
        if self == Syntax::SearchStore { 2 } else { 1 }
    }

    /// Whether center and shape are options.
    fn is_search(self) -> bool {
        matches!(self, Syntax::Search | Syntax::SearchStore)
    }

    /// Whether `STORE key` and `STOREDIST key` are options.
    fn stores(self) -> bool {
        matches!(self, Syntax::Radius { stores: true } | Syntax::RadiusByMember { stores: true })
    }
}

/// Center of a search. A member of a missing key has no position.
#[derive(Clone, Copy, Debug)]
enum Center {
    Position(Position),
    Member(Option<Position>),
}

/// Order of the returned members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Order {
    Nearest,
    Farthest,
}

/// Parsed arguments.
struct Asked {
    center: Option<Center>,
    shape: Option<Shape>,
    /// Length of the unit of distances, in meters.
    unit_m: f64,
    with_distance: bool,
    with_hash: bool,
    with_place: bool,
    count: Option<usize>,
    any: bool,
    order: Option<Order>,
    /// Index of the destination key.
    destination: Option<usize>,
    /// Whether the distances are stored as scores.
    stores_distances: bool,
}

/// Position of a member, which must exist if the set exists.
fn member_place(member: &[u8], set: Option<SortedSetRef<'_>>) -> Result<Option<Position>, Fail> {
    let Some(set) = set else { return Ok(None) };
    let missing = || Fail::new([b"ERR member ", member, b" does not exist"].concat());
    place_of(&set, member).map(Some).ok_or_else(missing)
}

/// A member inside the area.
struct Hit<'a> {
    member: Item<'a>,
    score: f64,
    place: Position,
    distance_m: f64,
}

fn search(ctx: &mut Ctx<'_>, syntax: Syntax) -> Outcome {
    let (source, db) = (ctx.key(syntax.source()), ctx.db());
    read(&mut ctx.exec.ks, db, source)?;
    let set = ctx.exec.ks.view(db, source).and_then(|view| view.sorted_set().ok());
    let asked = Asked::parse(ctx, syntax, set)?;
    let (mut held, mut pacer) = (ctx.exec.ks.transient(), ctx.exec.pacer());
    let hits = match set {
        Some(set) => asked.hits(&set, &mut held, &mut pacer)?,
        None => Vec::new(),
    };
    // The remaining work is proportional to the result.
    pacer.pace(hits.len().saturating_mul(UNITS_PER_HIT))?;
    let Some(destination) = asked.destination.map(|i| ctx.key(i)) else {
        let dialect = ctx.dialect();
        asked.write(ctx.reply, dialect, &hits);
        return Ok(());
    };
    let mut gathered = Gathered::default();
    for hit in &hits {
        let distance = hit.distance_m / asked.unit_m;
        gathered.push(hit.member, if asked.stores_distances { distance } else { hit.score });
    }
    let len = gathered.store(&mut ctx.exec.ks, db, destination);
    ctx.number(len as i64)
}

impl Asked {
    /// Parses the arguments. `set` is the source, if it exists.
    fn parse(ctx: &Ctx<'_>, syntax: Syntax, set: Option<SortedSetRef<'_>>) -> Result<Self, Fail> {
        let mut asked = Asked {
            center: None,
            shape: None,
            unit_m: 1.0,
            with_distance: false,
            with_hash: false,
            with_place: false,
            count: None,
            any: false,
            order: None,
            destination: (syntax == Syntax::SearchStore).then_some(1),
            stores_distances: false,
        };
        let from = match syntax {
            Syntax::Radius { .. } => {
                asked.center = Some(Center::Position(place(ctx.arg(2), ctx.arg(3))?));
                asked.circle(ctx.arg(4), ctx.arg(5))?;
                6
            }
            Syntax::RadiusByMember { .. } => {
                asked.center = Some(Center::Member(member_place(ctx.arg(2), set)?));
                // If the key does not exist, Redis does not check the radius.
                if set.is_some() {
                    asked.circle(ctx.arg(3), ctx.arg(4))?;
                } else {
                    asked.shape = Some(Shape::Circle { radius_m: 0.0 });
                }
                5
            }
            Syntax::Search => 2,
            Syntax::SearchStore => 3,
        };
        let mut words = ctx.options(from);
        while let Some(option) = words.next() {
            asked.option(ctx, option?, &mut words, syntax, set)?;
        }
        asked.check(ctx, syntax)?;
        Ok(asked)
    }

    /// Takes an option and its operands.
    fn option<'a>(
        &mut self,
        ctx: &Ctx<'a>,
        option: GeoSearchOption<'a>,
        words: &mut Reader<'a, GeoSearchOption<'a>>,
        syntax: Syntax,
        set: Option<SortedSetRef<'_>>,
    ) -> Outcome {
        match option {
            GeoSearchOption::Withdist => self.with_distance = true,
            GeoSearchOption::Withhash => self.with_hash = true,
            GeoSearchOption::Withcoord => self.with_place = true,
            GeoSearchOption::Any => self.any = true,
            GeoSearchOption::Asc => self.order = Some(Order::Nearest),
            GeoSearchOption::Desc => self.order = Some(Order::Farthest),
            GeoSearchOption::Count(count) => {
                let count = usize::try_from(integer(count)?).ok().filter(|&count| count > 0);
                self.count = Some(count.ok_or(Fail::fixed("ERR COUNT must be > 0"))?);
            }
            GeoSearchOption::Storedist if syntax == Syntax::SearchStore => {
                self.stores_distances = true;
            }
            GeoSearchOption::Storedist if syntax.stores() => {
                self.destination = Some(ctx.position(words));
                self.stores_distances = true;
                words.word().ok_or(Fail::SYNTAX)?;
            }
            GeoSearchOption::Store(_) if syntax.stores() => {
                self.destination = Some(ctx.position(words) - 1);
                self.stores_distances = false;
            }
            option if syntax.is_search() => return self.search_option(ctx, option, words, set),
            _ => return Err(Fail::SYNTAX),
        }
        Ok(())
    }

    /// Takes a center or a shape. Each may be repeated in the same form, but not in another.
    fn search_option<'a>(
        &mut self,
        ctx: &Ctx<'a>,
        option: GeoSearchOption<'a>,
        words: &mut Reader<'a, GeoSearchOption<'a>>,
        set: Option<SortedSetRef<'_>>,
    ) -> Outcome {
        let has_polygon = matches!(self.shape, Some(Shape::Polygon { .. }));
        match (option, self.center, &self.shape) {
            (GeoSearchOption::Frommember(member), None | Some(Center::Member(_)), _)
                if !has_polygon =>
            {
                self.center = Some(Center::Member(member_place(member, set)?));
            }
            (
                GeoSearchOption::Fromlonlat(longitude, latitude),
                None | Some(Center::Position(_)),
                _,
            ) if !has_polygon => {
                self.center = Some(Center::Position(place(longitude, latitude)?));
            }
            (GeoSearchOption::Byradius(radius, unit), _, None | Some(Shape::Circle { .. })) => {
                self.circle(radius, unit)?;
            }
            (GeoSearchOption::Bybox(width, height, unit), _, None | Some(Shape::Box { .. })) => {
                self.rectangle(width, height, unit)?;
            }
            (GeoSearchOption::Bypolygon(count), None, None | Some(Shape::Polygon { .. })) => {
                self.polygon(ctx, count, words)?;
            }
            _ => return Err(Fail::SYNTAX),
        }
        Ok(())
    }

    /// `BYRADIUS radius unit`
    fn circle(&mut self, radius: &[u8], unit: &[u8]) -> Outcome {
        let radius = double::parse(radius).ok_or(Fail::fixed("ERR need numeric radius"))?;
        if radius < 0.0 {
            return Err(Fail::fixed("ERR radius cannot be negative"));
        }
        self.unit_m = meters(unit)?;
        self.shape = Some(Shape::Circle { radius_m: radius * self.unit_m });
        Ok(())
    }

    /// `BYBOX width height unit`
    fn rectangle(&mut self, width: &[u8], height: &[u8], unit: &[u8]) -> Outcome {
        let width = double::parse(width).ok_or(Fail::fixed("ERR need numeric width"))?;
        let height = double::parse(height).ok_or(Fail::fixed("ERR need numeric height"))?;
        if width < 0.0 || height < 0.0 {
            return Err(Fail::fixed("ERR height or width cannot be negative"));
        }
        self.unit_m = meters(unit)?;
        let (width_m, height_m) = (width * self.unit_m, height * self.unit_m);
        self.shape = Some(Shape::Box { width_m, height_m });
        Ok(())
    }

    /// Takes exactly `count` vertices.
    fn polygon<'a>(
        &mut self,
        ctx: &Ctx<'_>,
        count: &[u8],
        words: &mut Reader<'a, GeoSearchOption<'a>>,
    ) -> Outcome {
        let invalid = Fail::fixed("ERR invalid number of vertices");
        let stated = integer(count).ok().and_then(|count| i32::try_from(count).ok());
        let count = usize::try_from(stated.ok_or(invalid)?).unwrap_or(0);
        let vertices = words.words(2 * count).filter(|_| count >= VERTICES_MIN);
        let vertices = vertices.ok_or_else(|| {
            let name = ctx.arg(0).escape_ascii();
            Fail::new(format!("ERR {name} BYPOLYGON must have at least {VERTICES_MIN} vertices"))
        })?;
        let (pairs, _) = vertices.as_chunks();
        let vertices: Result<_, _> =
            pairs.iter().map(|[longitude, latitude]| place(longitude, latitude)).collect();
        self.shape = Some(Shape::Polygon { vertices: vertices? });
        Ok(())
    }

    fn check(&mut self, ctx: &Ctx<'_>, syntax: Syntax) -> Result<(), Fail> {
        let name = ctx.arg(0).escape_ascii();
        let lists = self.with_distance || self.with_hash || self.with_place;
        if self.destination.is_some() && lists {
            let subject = match syntax {
                Syntax::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            return Err(Fail::new(format!(
                "ERR {subject} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let has_polygon = matches!(self.shape, Some(Shape::Polygon { .. }));
        if self.center.is_none() && !has_polygon {
            return Err(Fail::new(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
            )));
        }
        if self.shape.is_none() {
            let shapes =
                ctx.dialect().choose("BYRADIUS and BYBOX", "BYRADIUS, BYBOX and BYPOLYGON");
            return Err(Fail::new(format!(
                "ERR exactly one of {shapes} can be specified for {name}"
            )));
        }
        if self.any && self.count.is_none() {
            return Err(Fail::fixed("ERR the ANY argument requires COUNT argument"));
        }
        // The nearest ones, unless `ANY` is given.
        if self.count.is_some() && !self.any && self.order.is_none() {
            self.order = Some(Order::Nearest);
        }
        Ok(())
    }

    /// The area; `None` if the center has no position.
    fn area(&self) -> Option<Area> {
        match (self.shape.clone()?, self.center) {
            (Shape::Polygon { vertices }, _) => Some(Area::polygon(vertices)),
            (shape, Some(Center::Position(place) | Center::Member(Some(place)))) => {
                Some(Area::around(place, shape))
            }
            _ => None,
        }
    }

    /// The wanted members, in the wanted order.
    fn hits<'s>(
        &self,
        set: &SortedSetRef<'s>,
        held: &mut Transient,
        pacer: &mut Pacer,
    ) -> Result<Vec<Hit<'s>>, Fail> {
        let Some(area) = self.area() else { return Ok(Vec::new()) };
        let vertices = match &self.shape {
            Some(Shape::Polygon { vertices }) => vertices.len(),
            _ => 0,
        };
        let count = self.count.unwrap_or(usize::MAX);
        let enough = if self.any { count } else { usize::MAX };
        let mut hits = Vec::new();
        for range in area.score_ranges() {
            let rank = |bound: u64| set.count(|score, _| score < bound as f64);
            for (member, score) in set.range(rank(range.start)..rank(range.end)) {
                if hits.len() == enough {
                    break;
                }
                pacer.pace(UNITS_PER_PLACE + vertices)?;
                let place = Position::of_score(score);
                if let Some(distance_m) = area.distance_inside_m(&place) {
                    hits.push(Hit { member, score, place, distance_m });
                    if !held.fits(hits.capacity() * size_of::<Hit<'_>>()) {
                        return Err(Fail::OUT_OF_MEMORY);
                    }
                }
            }
        }
        if self.order.is_some() {
            pacer.pace(hits.len().saturating_mul(UNITS_PER_HIT))?;
        }
        match self.order {
            Some(Order::Nearest) => hits.sort_by(|a, b| a.distance_m.total_cmp(&b.distance_m)),
            Some(Order::Farthest) => hits.sort_by(|a, b| b.distance_m.total_cmp(&a.distance_m)),
            None => {}
        }
        hits.truncate(count);
        Ok(hits)
    }

    fn write(&self, reply: &mut dyn Reply, dialect: Dialect, hits: &[Hit<'_>]) {
        let facts = [self.with_distance, self.with_hash, self.with_place];
        let facts = facts.into_iter().filter(|fact| *fact).count();
        reply.array(hits.len());
        for hit in hits {
            if facts > 0 {
                reply.array(1 + facts);
            }
            write_member(reply, hit.member);
            if self.with_distance {
                write_distance(reply, hit.distance_m, self.unit_m);
            }
            if self.with_hash {
                reply.integer(hit.score as i64);
            }
            if self.with_place {
                write_place(reply, dialect, hit.place);
            }
        }
    }
}
