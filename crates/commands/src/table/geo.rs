//! Geographic indexes: sorted sets whose scores are places.

use crate::bitset::bits;
use crate::keys::{georadius_destination, georadiusbymember_destination, no_keys};
use crate::spec::{Arg, BeginSearch, Group, KeyFlags, KeySpec, Meta};

/// `GEOADD`.
pub const GEOADD: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: GEO),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RW, UPDATE))],
    summary: "Adds members to a geographic index, or moves them.",
    complexity: "O(log(N)) for each member, where N is the number of members of the index",
    history: &[("6.2.0", "Options `CH`, `NX` and `XX`.")],
    arguments: &[
        Arg::key("key"),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
            .since("6.2.0")
            .opt(),
        Arg::word("change", "CH").since("6.2.0").opt(),
        Arg::block(
            "data",
            &[Arg::double("longitude"), Arg::double("latitude"), Arg::string("member")],
        )
        .many(),
    ],
    ..Meta::new("geoadd", -5, Group::Geo, "3.2.0")
};

/// `GEODIST`.
pub const GEODIST: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: GEO),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the distance between two members of a geographic index.",
    arguments: &[
        Arg::key("key"),
        Arg::string("member1"),
        Arg::string("member2"),
        Arg::one_of("unit", UNITS).opt(),
    ],
    ..Meta::new("geodist", -4, Group::Geo, "3.2.0")
};

/// `GEOHASH`.
pub const GEOHASH: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: GEO),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns the geohash strings of members of a geographic index.",
    complexity: "O(N) where N is the number of members asked for",
    arguments: &[Arg::key("key"), Arg::string("member").many().opt()],
    ..Meta::new("geohash", -2, Group::Geo, "3.2.0")
};

/// `GEOPOS`.
pub const GEOPOS: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: GEO),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Returns longitude and latitude of members of a geographic index.",
    complexity: "O(N) where N is the number of members asked for",
    arguments: &[Arg::key("key"), Arg::string("member").many().opt()],
    ..Meta::new("geopos", -2, Group::Geo, "3.2.0")
};

/// `GEORADIUS`.
pub const GEORADIUS: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, MOVABLEKEYS),
    stated_categories: bits!(Categories: GEO),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: RO, ACCESS)),
        stored_after("STORE", 6).located_by(georadius_destination),
        stored_after("STOREDIST", 6).located_by(no_keys),
    ],
    summary: "Finds the members of a geographic index within a distance of a place; may store them at a key.",
    complexity: SEARCH_COMPLEXITY,
    history: &[("6.2.0", "Option `ANY`."), ("7.0.0", "Units in upper case.")],
    deprecated: Some(("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with `BYRADIUS`")),
    arguments: &[
        Arg::key("key"),
        Arg::double("longitude"),
        Arg::double("latitude"),
        Arg::double("radius"),
        Arg::one_of("unit", UNITS),
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_ANY_SINCE,
        ORDER,
        STORE,
    ],
    ..Meta::new("georadius", -6, Group::Geo, "3.2.0")
};

/// `GEORADIUS_RO`.
pub const GEORADIUS_RO: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: GEO),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Finds the members of a geographic index within a distance of a place.",
    complexity: SEARCH_COMPLEXITY,
    history: &[("6.2.0", "Option `ANY`."), ("7.0.0", "Units in upper case.")],
    deprecated: Some(("6.2.0", "`GEOSEARCH` with `BYRADIUS`")),
    arguments: &[
        Arg::key("key"),
        Arg::double("longitude"),
        Arg::double("latitude"),
        Arg::double("radius"),
        Arg::one_of("unit", UNITS),
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_ANY_SINCE,
        ORDER,
    ],
    ..Meta::new("georadius_ro", -6, Group::Geo, "3.2.10")
};

/// `GEORADIUSBYMEMBER`.
pub const GEORADIUSBYMEMBER: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM, MOVABLEKEYS),
    stated_categories: bits!(Categories: GEO),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: RO, ACCESS)),
        stored_after("STORE", 5).located_by(georadiusbymember_destination),
        stored_after("STOREDIST", 5).located_by(no_keys),
    ],
    summary: "Finds the members of a geographic index within a distance of one of them; may store them at a key.",
    complexity: SEARCH_COMPLEXITY,
    history: &[("6.2.0", "Option `ANY`."), ("7.0.0", "Units in upper case.")],
    deprecated: Some((
        "6.2.0",
        "`GEOSEARCH` and `GEOSEARCHSTORE` with `BYRADIUS` and `FROMMEMBER`",
    )),
    arguments: &[
        Arg::key("key"),
        Arg::string("member"),
        Arg::double("radius"),
        Arg::one_of("unit", UNITS),
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_ANY,
        ORDER,
        STORE,
    ],
    ..Meta::new("georadiusbymember", -5, Group::Geo, "3.2.0")
};

/// `GEORADIUSBYMEMBER_RO`.
pub const GEORADIUSBYMEMBER_RO: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: GEO),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Finds the members of a geographic index within a distance of one of them.",
    complexity: SEARCH_COMPLEXITY,
    history: &[("6.2.0", "Option `ANY`."), ("7.0.0", "Units in upper case.")],
    deprecated: Some(("6.2.0", "`GEOSEARCH` with `BYRADIUS` and `FROMMEMBER`")),
    arguments: &[
        Arg::key("key"),
        Arg::string("member"),
        Arg::double("radius"),
        Arg::one_of("unit", UNITS),
        WITHCOORD,
        WITHDIST,
        WITHHASH,
        COUNT_ANY,
        ORDER,
    ],
    ..Meta::new("georadiusbymember_ro", -5, Group::Geo, "3.2.10")
};

/// `GEOSEARCH`.
pub const GEOSEARCH: Meta = Meta {
    flags: bits!(Flags: READONLY),
    stated_categories: bits!(Categories: GEO),
    keys: &[KeySpec::at(1, bits!(KeyFlags: RO, ACCESS))],
    summary: "Finds the members of a geographic index inside a circle, a box or a polygon.",
    complexity: SHAPE_COMPLEXITY,
    history: &[("7.0.0", "Units in upper case."), ("9.0.0", "Option `BYPOLYGON`.")],
    arguments: &[Arg::key("key"), FROM, BY, ORDER, COUNT_ANY, WITHCOORD, WITHDIST, WITHHASH],
    ..Meta::new("geosearch", -7, Group::Geo, "6.2.0")
};

/// `GEOSEARCHSTORE`.
pub const GEOSEARCHSTORE: Meta = Meta {
    flags: bits!(Flags: WRITE, DENYOOM),
    stated_categories: bits!(Categories: GEO),
    keys: &[
        KeySpec::at(1, bits!(KeyFlags: OW, UPDATE)),
        KeySpec::at(2, bits!(KeyFlags: RO, ACCESS)),
    ],
    summary: "Stores the members of a geographic index inside a circle, a box or a polygon at a key.",
    complexity: SHAPE_COMPLEXITY,
    history: &[("7.0.0", "Units in upper case."), ("9.0.0", "Option `BYPOLYGON`.")],
    arguments: &[
        Arg::key("destination"),
        Arg::key("source").of_spec(1),
        FROM,
        BY,
        ORDER,
        COUNT_ANY,
        Arg::word("storedist", "STOREDIST").opt(),
    ],
    ..Meta::new("geosearchstore", -8, Group::Geo, "6.2.0")
};

/// The key after a keyword, overwritten.
const fn stored_after(keyword: &'static str, start: i16) -> KeySpec {
    KeySpec {
        begin: BeginSearch::Keyword { keyword, start },
        ..KeySpec::at(0, KeyFlags::OW.with(KeyFlags::UPDATE))
    }
}

const SEARCH_COMPLEXITY: &str = "O(N+log(M)) where N is the number of members in the bounding box of the circle and M that of the index";

const SHAPE_COMPLEXITY: &str = "O(N+log(M)) where N is the number of members in the bounding box of the shape, widened to the grid, and M that of the index";

/// Units of distance.
const UNITS: &[Arg] =
    &[Arg::word("m", "M"), Arg::word("km", "KM"), Arg::word("ft", "FT"), Arg::word("mi", "MI")];

const WITHCOORD: Arg = Arg::word("withcoord", "WITHCOORD").opt();

const WITHDIST: Arg = Arg::word("withdist", "WITHDIST").opt();

const WITHHASH: Arg = Arg::word("withhash", "WITHHASH").opt();

const COUNT_ANY: Arg = Arg::block(
    "count-block",
    &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").opt()],
)
.opt();

const COUNT_ANY_SINCE: Arg = Arg::block(
    "count-block",
    &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").since("6.2.0").opt()],
)
.opt();

const ORDER: Arg =
    Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).opt();

const STORE: Arg = Arg::one_of(
    "store",
    &[
        Arg::key("storekey").shown("key").token("STORE").of_spec(1),
        Arg::key("storedistkey").shown("key").token("STOREDIST").of_spec(2),
    ],
)
.opt();

const FROM: Arg = Arg::one_of(
    "from",
    &[
        Arg::string("member").token("FROMMEMBER"),
        Arg::block("fromlonlat", &[Arg::double("longitude"), Arg::double("latitude")])
            .token("FROMLONLAT"),
    ],
)
.opt();

const BY: Arg = Arg::one_of(
    "by",
    &[
        Arg::block(
            "circle",
            &[Arg::double("radius").token("BYRADIUS"), Arg::one_of("unit", UNITS)],
        ),
        Arg::block(
            "box",
            &[
                Arg::double("width").token("BYBOX"),
                Arg::double("height"),
                Arg::one_of("unit", UNITS),
            ],
        ),
        Arg::block(
            "polygon",
            &[
                Arg::integer("num-vertices").token("BYPOLYGON"),
                Arg::block("vertices", &[Arg::double("longitude"), Arg::double("latitude")]).many(),
            ],
        )
        .since("9.0.0"),
    ],
);
