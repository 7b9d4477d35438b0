//! CLIENT TRACKING, TRACKINGINFO, CACHING, GETREDIR.

use crate::client::Flag;
use crate::host::ServerHost;
use crate::state::tracking::{Options, Tracker};
use petrel_commands::{Ctx, Fail, Outcome, TrackingMode, integer};
use petrel_table::options::ClientTrackingOption;
use std::sync::Arc;

const OTHER_BROADCAST: Fail = Fail::fixed(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a \
     different mode.",
);
const OTHER_OPTION: Fail = Fail::fixed(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a \
     different mode.",
);

/// `CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST]
/// [OPTIN] [OPTOUT] [NOLOOP]`
pub fn tracking(ctx: &mut Ctx<'_>) -> Outcome {
    let asked = Asked::parse(ctx)?;
    if ctx.is(2, "ON") {
        let mode = asked.mode(ctx)?;
        let Asked { no_loop, target, mut prefixes, .. } = asked;
        if mode == TrackingMode::Broadcast {
            check_overlaps(ctx, &prefixes)?;
            if prefixes.is_empty() {
                prefixes.push(Vec::new());
            }
        }
        let host = ServerHost::of(ctx);
        let (server, client) = (host.server.clone(), host.client.clone());
        server.trackers.track(
            &server.keyspace,
            &client,
            ctx.session,
            &Options { mode, no_loop, target, prefixes },
        );
    } else if ctx.is(2, "OFF") {
        let host = ServerHost::of(ctx);
        let (server, client) = (host.server.clone(), host.client.clone());
        server.trackers.untrack(&server.keyspace, &client, ctx.session);
    } else {
        return Err(Fail::SYNTAX);
    }
    ctx.ok()
}

/// Parsed arguments.
#[derive(Default)]
struct Asked {
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    target: Option<Arc<crate::client::Client>>,
    prefixes: Vec<Vec<u8>>,
}

impl Asked {
    fn parse(ctx: &mut Ctx<'_>) -> Result<Self, Fail> {
        let mut asked = Asked::default();
        for option in ctx.options(3) {
            match option? {
                ClientTrackingOption::Redirect(_) if asked.target.is_some() => {
                    return Err(Fail::fixed(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                ClientTrackingOption::Redirect(id) => asked.target = Some(find_client(ctx, id)?),
                ClientTrackingOption::Prefix(prefix) => asked.prefixes.push(prefix.to_vec()),
                ClientTrackingOption::Bcast => asked.broadcast = true,
                ClientTrackingOption::Optin => asked.opt_in = true,
                ClientTrackingOption::Optout => asked.opt_out = true,
                ClientTrackingOption::Noloop => asked.no_loop = true,
            }
        }
        Ok(asked)
    }

    /// The mode, if the options go together and with the mode that the connection tracks in.
    fn mode(&self, ctx: &Ctx<'_>) -> Result<TrackingMode, Fail> {
        let current = ctx.session.tracking().map(|tracking| tracking.mode);
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err(Fail::fixed("ERR PREFIX option requires BCAST mode to be enabled"));
        }
        if current.is_some_and(|mode| (mode == TrackingMode::Broadcast) != self.broadcast) {
            return Err(OTHER_BROADCAST);
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return Err(Fail::fixed("ERR OPTIN and OPTOUT are not compatible with BCAST"));
        }
        if self.opt_in && self.opt_out {
            return Err(Fail::fixed("ERR You can't specify both OPTIN mode and OPTOUT mode"));
        }
        if self.opt_in && current == Some(TrackingMode::OptOut)
            || self.opt_out && current == Some(TrackingMode::OptIn)
        {
            return Err(OTHER_OPTION);
        }
        Ok(match (self.broadcast, self.opt_in, self.opt_out) {
            (true, ..) => TrackingMode::Broadcast,
            (_, true, _) => TrackingMode::OptIn,
            (_, _, true) => TrackingMode::OptOut,
            _ => TrackingMode::All,
        })
    }
}

fn find_client(ctx: &mut Ctx<'_>, id: &[u8]) -> Result<Arc<crate::client::Client>, Fail> {
    let id = integer(id)?;
    let host = ServerHost::of(ctx);
    let client = u64::try_from(id).ok().and_then(|id| host.server.client(id));
    client.ok_or(Fail::fixed("ERR The client ID you want redirect to does not exist"))
}

/// Refuses prefixes of which one begins with another, or with one that the connection listens to
/// already.
fn check_overlaps(ctx: &Ctx<'_>, prefixes: &[Vec<u8>]) -> Outcome {
    let reader = ctx.session.tracking().map(|tracking| &tracking.reader);
    let existing = reader.map_or(Vec::new(), |reader| Tracker::of(reader).prefixes());
    // In sorted order, a prefix is directly followed by names that begin with it: pairs are
    // compared only if there is an overlap.
    let mut ordered: Vec<&[u8]> = prefixes.iter().map(|prefix| &prefix[..]).collect();
    ordered.extend(existing.iter().map(|prefix| &prefix[..]));
    ordered.sort_unstable();
    if !ordered.windows(2).any(|pair| pair[1].starts_with(pair[0])) {
        return Ok(());
    }
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    for (i, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = existing.iter().find(|other| overlap(prefix, other)) {
            return Err(overlaps(prefix, "an existing prefix", other));
        }
        if let Some(other) = prefixes[i + 1..].iter().find(|other| overlap(prefix, other)) {
            return Err(overlaps(prefix, "another provided prefix", other));
        }
    }
    Ok(())
}

fn overlaps(prefix: &[u8], which: &str, other: &[u8]) -> Fail {
    let (prefix, other) = (String::from_utf8_lossy(prefix), String::from_utf8_lossy(other));
    Fail::new(format!(
        "ERR Prefix '{prefix}' overlaps with {which} '{other}'. Prefixes for a single client must not overlap."
    ))
}

/// `CLIENT CACHING <YES | NO>`
pub fn caching(ctx: &mut Ctx<'_>) -> Outcome {
    let (yes, no) = (ctx.is(2, "YES"), ctx.is(2, "NO"));
    let Some(tracking) = ctx.session.tracking_mut() else {
        return Err(Fail::fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    tracking.caching = match tracking.mode {
        TrackingMode::OptIn if yes => true,
        TrackingMode::OptOut if no => true,
        _ if yes => {
            return Err(Fail::fixed(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        _ if no => {
            return Err(Fail::fixed(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        _ => return Err(Fail::SYNTAX),
    };
    ctx.ok()
}

/// `CLIENT GETREDIR`
pub fn getredir(ctx: &mut Ctx<'_>) -> Outcome {
    let host = ServerHost::of(ctx);
    let id = host.server.trackers.redirection(&host.client);
    ctx.number(id)
}

/// `CLIENT TRACKINGINFO`
pub fn trackinginfo(ctx: &mut Ctx<'_>) -> Outcome {
    let host = ServerHost::of(ctx);
    let redirection = host.server.trackers.redirection(&host.client);
    let broken = host.client.has(Flag::BrokenRedirect);
    let flags = flags(ctx, broken);
    let reader = ctx.session.tracking().map(|tracking| &tracking.reader);
    let prefixes = reader.map_or(Vec::new(), |reader| Tracker::of(reader).prefixes());
    let reply = &mut ctx.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirection);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

fn flags(ctx: &Ctx<'_>, broken: bool) -> Vec<&'static str> {
    let Some(tracking) = ctx.session.tracking() else { return vec!["off"] };
    let (mode, caching) = (tracking.mode, tracking.caching);
    let flags = [
        (true, "on"),
        (mode == TrackingMode::Broadcast, "bcast"),
        (mode == TrackingMode::OptIn, "optin"),
        (mode == TrackingMode::OptIn && caching, "caching-yes"),
        (mode == TrackingMode::OptOut, "optout"),
        (mode == TrackingMode::OptOut && caching, "caching-no"),
        (!Tracker::of(&tracking.reader).loops(), "noloop"),
        (broken, "broken_redirect"),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
}
