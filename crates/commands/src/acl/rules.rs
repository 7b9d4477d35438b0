//! Rules of `ACL SETUSER` and ACL files: <https://redis.io/docs/latest/commands/acl-setuser/>, and
//! Valkey's rules on databases.

use super::password::Hash;
use super::permissions::Permissions;
use super::selector::{Access, READ_WRITE, Selector};
use crate::registry::Registry;
use petrel_keyspace::parse_int;
use petrel_table::Categories;
use std::borrow::Cow;

/// Maximum number of patterns, passwords, and rules on commands and databases of a selector, each.
const PARTS_MAX: usize = 10_000;

/// Maximum number of selectors of a user.
const SELECTORS_MAX: usize = 1_000;

/// Error of an invalid rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RuleError(&'static str);

impl RuleError {
    const SYNTAX: RuleError = RuleError("Syntax error");
    const UNKNOWN: RuleError = RuleError("Unknown command or category name in ACL");
    const FIRST_ARG: RuleError = RuleError("Allowing first-arg of a subcommand is not supported");
    const KEYS_AFTER_ALL: RuleError = RuleError(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns",
    );
    const CHANNELS_AFTER_ALL: RuleError = RuleError(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels",
    );
    const BAD_HASH: RuleError = RuleError(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
    );
    const NO_SUCH_PASSWORD: RuleError =
        RuleError("The password you are trying to remove from the user does not exist");
    const DATABASE: RuleError = RuleError("The provided database ID is out of range");
    const TOO_MANY: RuleError = RuleError("too many rules for one user");

    /// Message in one line: Redis's where Redis has one.
    pub fn text(self) -> &'static str {
        self.0
    }
}

/// Joins the arguments of each selector, which may be several: `(~a`, `+get)`.
///
/// # Errors
/// Returns the argument that opens an unclosed selector.
pub fn join_selectors<'a>(words: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, &'a [u8]> {
    let mut joined: Vec<Cow<'a, [u8]>> = Vec::new();
    let mut open: Option<&'a [u8]> = None;
    for &word in words {
        let closes = word.ends_with(b")");
        match (open, joined.last_mut()) {
            (Some(_), Some(selector)) => {
                let selector = selector.to_mut();
                selector.push(b' ');
                selector.extend_from_slice(word);
            }
            _ => joined.push(Cow::Borrowed(word)),
        }
        if closes {
            open = None;
        } else if open.is_none() && word.starts_with(b"(") {
            open = Some(word);
        }
    }
    open.map_or(Ok(joined), Err)
}

impl Permissions {
    /// Applies one rule. A whole selector is one rule ([`join_selectors`]).
    ///
    /// # Errors
    /// Returns an error if the rule is invalid; the permissions are unchanged then.
    pub fn apply<H>(
        &mut self,
        registry: &Registry<H>,
        rule: &[u8],
        all_channels: bool,
    ) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        if is("on") || is("off") {
            self.enabled = is("on");
        } else if is("nopass") {
            self.no_password = true;
            self.passwords.clear();
        } else if is("resetpass") {
            self.no_password = false;
            self.passwords.clear();
        } else if is("sanitize-payload") || is("skip-sanitize-payload") {
            self.checks_payloads = is("sanitize-payload");
        } else if is("clearselectors") {
            self.selectors.clear();
        } else if is("reset") {
            *self = Permissions::new(registry, all_channels);
        } else if let Some((sign @ (b'>' | b'#' | b'<' | b'!'), password)) = rule.split_first() {
            return self.password(*sign, password);
        } else if let [b'(', inner @ .., b')'] = rule {
            let mut selector = Selector::new(registry, all_channels);
            let words = inner.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            for word in words {
                // If such a word was an argument of its own, it would end the selector.
                if word.ends_with(b")") {
                    return Err(RuleError::SYNTAX);
                }
                selector.apply(registry, word)?;
            }
            if self.selectors.len() == SELECTORS_MAX {
                return Err(RuleError::TOO_MANY);
            }
            self.selectors.push(selector);
        } else {
            return self.root.apply(registry, rule);
        }
        Ok(())
    }

    fn password(&mut self, sign: u8, text: &[u8]) -> Result<(), RuleError> {
        let hash = match sign {
            b'>' | b'<' => Hash::of(text),
            _ => Hash::parse(text).ok_or(RuleError::BAD_HASH)?,
        };
        let known = self.passwords.iter().position(|own| own.matches(&hash));
        match (sign, known) {
            (b'>' | b'#', known) => {
                if known.is_none() && self.passwords.len() == PARTS_MAX {
                    return Err(RuleError::TOO_MANY);
                }
                if known.is_none() {
                    self.passwords.push(hash);
                }
                self.no_password = false;
            }
            (_, Some(at)) => drop(self.passwords.remove(at)),
            (_, None) => return Err(RuleError::NO_SUCH_PASSWORD),
        }
        Ok(())
    }
}

impl Selector {
    /// Applies one rule.
    fn apply<H>(&mut self, registry: &Registry<H>, rule: &[u8]) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        let parts = self.rules().max(self.keys.len()).max(self.channels.len());
        if is("allkeys") || rule == b"~*" {
            self.all_keys = true;
            self.keys.clear();
        } else if is("resetkeys") {
            self.all_keys = false;
            self.keys.clear();
        } else if is("allchannels") || rule == b"&*" {
            self.all_channels = true;
            self.channels.clear();
        } else if is("resetchannels") {
            self.all_channels = false;
            self.channels.clear();
        } else if is("allcommands") || is("+@all") {
            self.all_commands(registry, true);
        } else if is("nocommands") || is("-@all") {
            self.all_commands(registry, false);
        } else if is("alldbs") {
            self.databases = None;
        } else if is("resetdbs") {
            self.databases = Some(Vec::new());
        } else if parts >= PARTS_MAX {
            return Err(RuleError::TOO_MANY);
        } else {
            match rule {
                [] => {}
                [b'~', pattern @ ..] => self.key_pattern(pattern, READ_WRITE)?,
                [b'%', rest @ ..] => {
                    let (pattern, access) = access_and_pattern(rest)?;
                    self.key_pattern(pattern, access)?;
                }
                [b'&', pattern @ ..] => self.channel_pattern(pattern)?,
                [b'+', b'@', name @ ..] => self.category(registry, category(name)?, true),
                [b'-', b'@', name @ ..] => self.category(registry, category(name)?, false),
                [b'+', name @ ..] => self.allow(registry, name)?,
                [b'-', name @ ..] => {
                    let command = registry.find_original(name).ok_or(RuleError::UNKNOWN)?;
                    self.command(registry, command, false);
                }
                [b'd' | b'D', b'b' | b'B', b'=', list @ ..] => {
                    self.databases = Some(databases(list)?)
                }
                _ => return Err(RuleError::SYNTAX),
            }
        }
        Ok(())
    }

    /// `+name`, `+container|subcommand`, `+name|first-argument`.
    fn allow<H>(&mut self, registry: &Registry<H>, name: &[u8]) -> Result<(), RuleError> {
        if let Some(command) = registry.find_original(name) {
            self.command(registry, command, true);
            return Ok(());
        }
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            return Err(RuleError::UNKNOWN);
        };
        let command = registry.find_original(&name[..bar]).ok_or(RuleError::UNKNOWN)?;
        let argument = &name[bar + 1..];
        if registry.is_subcommand(command) {
            return Err(RuleError::FIRST_ARG);
        }
        if !command.spec.subcommands.is_empty() {
            return Err(RuleError::UNKNOWN);
        }
        // The argument is stored as text, so it must be valid UTF-8 without blanks.
        if argument.is_empty() || has_blanks(argument) || std::str::from_utf8(argument).is_err() {
            return Err(RuleError::SYNTAX);
        }
        self.first_arg(registry, command, argument);
        Ok(())
    }

    fn key_pattern(&mut self, pattern: &[u8], access: Access) -> Result<(), RuleError> {
        if has_blanks(pattern) {
            return Err(RuleError::SYNTAX);
        }
        if access == READ_WRITE && pattern == b"*" {
            self.all_keys = true;
            self.keys.clear();
            return Ok(());
        }
        if self.all_keys {
            return Err(RuleError::KEYS_AFTER_ALL);
        }
        match self.keys.iter_mut().find(|(known, _)| **known == *pattern) {
            Some((_, known)) => *known = known.with(access),
            None => self.keys.push((pattern.into(), access)),
        }
        Ok(())
    }

    fn channel_pattern(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if has_blanks(pattern) {
            return Err(RuleError::SYNTAX);
        }
        if self.all_channels {
            return Err(RuleError::CHANNELS_AFTER_ALL);
        }
        if !self.channels.iter().any(|known| **known == *pattern) {
            self.channels.push(pattern.into());
        }
        Ok(())
    }
}

/// Parses the part of a key rule after `%`: `R`, `W` or both, then `~` and the pattern. The `~` may
/// be missing if the pattern is empty.
fn access_and_pattern(rest: &[u8]) -> Result<(&[u8], Access), RuleError> {
    let mut access = Access::NONE;
    for (at, byte) in rest.iter().enumerate() {
        let sign = match byte.to_ascii_uppercase() {
            b'R' => Access::READ,
            b'W' => Access::WRITE,
            b'~' if !access.is_empty() => return Ok((&rest[at + 1..], access)),
            _ => return Err(RuleError::SYNTAX),
        };
        if access.contains(sign) {
            return Err(RuleError::SYNTAX);
        }
        access = access.with(sign);
    }
    if access.is_empty() { Err(RuleError::SYNTAX) } else { Ok((b"", access)) }
}

fn category(name: &[u8]) -> Result<Categories, RuleError> {
    Categories::from_name(name).ok_or(RuleError::UNKNOWN)
}

/// Parses numbers separated by commas; returns them in ascending order. Numbers of databases that
/// this server does not have are allowed.
fn databases(list: &[u8]) -> Result<Vec<u32>, RuleError> {
    let mut databases = Vec::new();
    for number in list.split(|&byte| byte == b',') {
        let digits = number.strip_prefix(b"+").or(number.strip_prefix(b"-")).unwrap_or(number);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(RuleError::SYNTAX);
        }
        let significant = digits.iter().position(|&digit| digit != b'0');
        let value = parse_int(significant.map_or(b"0", |at| &digits[at..]));
        let in_range = value.and_then(|value| i32::try_from(value).ok()).map(i32::unsigned_abs);
        let negative = number.starts_with(b"-") && in_range != Some(0);
        databases.push(in_range.filter(|_| !negative).ok_or(RuleError::DATABASE)?);
    }
    databases.sort_unstable();
    databases.dedup();
    if databases.len() > PARTS_MAX { Err(RuleError::TOO_MANY) } else { Ok(databases) }
}

/// Whether a text contains blanks, which separate rules in files, or zero bytes.
fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}

#[cfg(test)]
mod tests;
