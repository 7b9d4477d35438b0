//! OpenSSL's words for ciphers and versions, as configuration files have them, and what rustls has
//! for them.

use rustls::crypto::ring::cipher_suite as ring;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Result of parsing a list of cipher suites or versions.
#[derive(Debug)]
pub struct Choice<T> {
    /// Selected items in order of preference.
    pub chosen: Vec<T>,
    /// Words that OpenSSL knows and that have no counterpart here.
    pub left_out: Vec<String>,
}

/// Suites of TLS 1.2 by OpenSSL's names, strongest first.
const TLS12_SUITES: [(&str, SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", ring::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", ring::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", ring::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", ring::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", ring::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", ring::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
];

/// Suites of TLS 1.3 by their standard names.
const TLS13_SUITES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", ring::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", ring::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", ring::TLS13_AES_128_GCM_SHA256),
];

/// Suites of TLS 1.3 without a counterpart.
const TLS13_ABSENT: [&str; 2] = ["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"];

/// The parts that names of OpenSSL's other suites consist of.
const PARTS: &str = "ADH AECDH AES128 AES256 ARIA128 ARIA256 CAMELLIA128 CAMELLIA256 CBC CBC3 CCM \
    CCM8 CHACHA20 DES DHE DSS ECDHE ECDSA GCM MD5 NULL POLY1305 PSK RC4 RSA SEED SHA \
    SHA256 SHA384 SRP";

/// Words for groups of suites, and the part of a name by which a suite belongs to them. No name has
/// a slash: the last words are for suites that are not supported.
const GROUPS: [(&str, &str); 8] = [
    ("ALL DEFAULT HIGH ECDHE EECDH KECDHE KEECDH AEAD TLSV1.2", "-"),
    ("ARSA", "-RSA-"),
    ("ECDSA AECDSA", "-ECDSA-"),
    ("AES AESGCM", "-AES"),
    ("AES128", "-AES128-"),
    ("AES256", "-AES256-"),
    ("CHACHA20", "-CHACHA20-"),
    (
        "3DES ADH AECDH ARIA AESCCM AESCCM8 CAMELLIA COMPLEMENTOFALL COMPLEMENTOFDEFAULT \
        DES DH DHE DSS EDH EXP EXPORT IDEA LOW MD5 MEDIUM NULL PSK RC4 RSA SEED SHA SHA1 \
        SRP SSLV3 TLSV1 TLSV1.0 AANULL ADSS ANULL APSK ENULL KDHE KEDH KPSK KRSA SHA256 \
        SHA384",
        "/",
    ),
];

/// The suites of TLS 1.2 that a value of `tls-ciphers` names, in OpenSSL's syntax; all if it is
/// empty.
///
/// # Errors
/// An unknown word, or that nothing is left.
pub fn ciphers(list: &str) -> Result<Choice<SupportedCipherSuite>, String> {
    let mut chosen: Vec<&str> = Vec::new();
    let mut barred: Vec<&str> = Vec::new();
    let mut left_out = Vec::new();
    let list = if list.trim().is_empty() { "DEFAULT" } else { list };
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        let (operation, word) = match word.split_at(1) {
            (operation @ ("!" | "-" | "+"), rest) => (operation, rest),
            ("@", _) => continue,
            _ => ("", word),
        };
        let Some(named) = named(word) else {
            match operation {
                "" if is_known(word) => left_out.push(word.to_string()),
                "" => return Err(format!("there is no cipher called '{word}'")),
                // Suites that do not exist here are excluded already.
                _ => {}
            }
            continue;
        };
        match operation {
            "" => {
                let new = named.iter().filter(|name| !barred.contains(name));
                let new: Vec<_> = new.copied().filter(|name| !chosen.contains(name)).collect();
                chosen.extend(new);
            }
            "+" => chosen.sort_by_key(|name| named.contains(name)),
            _ => {
                chosen.retain(|name| !named.contains(name));
                if operation == "!" {
                    barred.extend(named);
                }
            }
        }
    }
    let suite = |name: &str| TLS12_SUITES.iter().find(|(other, _)| *other == name);
    let chosen: Vec<_> = chosen.into_iter().filter_map(|name| Some(suite(name)?.1)).collect();
    if chosen.is_empty() {
        return Err(format!(
            "none of its ciphers is supported; there are {}",
            names(&TLS12_SUITES)
        ));
    }
    Ok(Choice { chosen, left_out })
}

/// The suites of TLS 1.3 that a value of `tls-ciphersuites` names; all if it is empty.
///
/// # Errors
/// As [`ciphers`].
pub fn ciphersuites(list: &str) -> Result<Choice<SupportedCipherSuite>, String> {
    let mut choice = Choice { chosen: Vec::new(), left_out: Vec::new() };
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        match TLS13_SUITES.iter().find(|(name, _)| *name == word) {
            Some((_, suite)) if !choice.chosen.contains(suite) => choice.chosen.push(*suite),
            Some(_) => {}
            None if TLS13_ABSENT.contains(&word) => choice.left_out.push(word.to_string()),
            None => return Err(format!("there is no cipher suite called '{word}'")),
        }
    }
    if list.trim().is_empty() {
        choice.chosen = TLS13_SUITES.iter().map(|(_, suite)| *suite).collect();
    }
    if choice.chosen.is_empty() {
        return Err(format!("none of its suites is supported; there are {}", names(&TLS13_SUITES)));
    }
    Ok(choice)
}

/// The versions that a value of `tls-protocols` names; all if it is empty.
///
/// # Errors
/// As [`ciphers`].
pub fn protocols(list: &str) -> Result<Choice<&'static SupportedProtocolVersion>, String> {
    let mut choice = Choice { chosen: Vec::new(), left_out: Vec::new() };
    for word in list.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => choice.chosen.push(&TLS12),
            "tlsv1.3" => choice.chosen.push(&TLS13),
            "tlsv1" | "tlsv1.1" => choice.left_out.push(word.to_string()),
            _ => return Err(format!("there is no version called '{word}'")),
        }
    }
    if list.trim().is_empty() {
        choice.chosen = vec![&TLS13, &TLS12];
    }
    if choice.chosen.is_empty() {
        return Err("none of its versions is supported; there are TLSv1.2 and TLSv1.3".into());
    }
    Ok(choice)
}

/// The suites that a word names: one, or a group, or what several joined by `+` have in common.
fn named(word: &str) -> Option<Vec<&'static str>> {
    let mut all: Vec<&str> = TLS12_SUITES.iter().map(|(name, _)| *name).collect();
    for part in word.split('+').map(str::to_ascii_uppercase) {
        match GROUPS.iter().find(|(words, _)| words.split(' ').any(|word| word == part)) {
            Some((_, infix)) => all.retain(|name| name.contains(infix)),
            None if TLS12_SUITES.iter().any(|(name, _)| *name == part) => {
                all.retain(|name| *name == part);
            }
            None => return None,
        }
    }
    Some(all)
}

/// Whether a word is the name of a suite of OpenSSL.
fn is_known(word: &str) -> bool {
    word.contains('-') && word.split('-').all(|part| PARTS.split(' ').any(|known| known == part))
}

fn names(suites: &[(&str, SupportedCipherSuite)]) -> String {
    suites.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(list: &str) -> Vec<&'static str> {
        let choice = ciphers(list).unwrap();
        let name = |suite| TLS12_SUITES.iter().find(|(_, other)| *other == suite).unwrap().0;
        choice.chosen.into_iter().map(name).collect()
    }

    #[test]
    fn words_groups_and_exclusions() {
        assert_eq!(chosen("").len(), 6);
        assert_eq!(chosen("DEFAULT:-AES128-SHA256").len(), 6);
        assert_eq!(chosen("ALL:!aNULL:!MD5:@STRENGTH").len(), 6);
        assert_eq!(
            chosen("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384"),
            ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"]
        );
        assert_eq!(chosen("aRSA+CHACHA20"), ["ECDHE-RSA-CHACHA20-POLY1305"]);
        assert_eq!(chosen("!CHACHA20:HIGH").len(), 4);
        assert_eq!(chosen("HIGH:-AES256:AES256").len(), 6);
        assert!(chosen("ALL:+AES256").last().unwrap().contains("AES256"));
    }

    #[test]
    fn what_openssl_knows_is_left_out_and_what_nobody_knows_is_an_error() {
        let choice = ciphers("DHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384").unwrap();
        assert_eq!(choice.left_out, ["DHE-RSA-AES256-GCM-SHA384"]);
        assert!(ciphers("AES128-SHA256:AES256-SHA256").unwrap_err().starts_with("none of"));
        assert!(ciphers("DEFAULT:ROT13").unwrap_err().contains("'ROT13'"));
        assert!(ciphersuites("TLS_ROT13").unwrap_err().contains("'TLS_ROT13'"));
        assert_eq!(ciphersuites("TLS_AES_128_GCM_SHA256").unwrap().chosen.len(), 1);
        assert_eq!(ciphersuites("").unwrap().chosen.len(), 3);
        assert_eq!(protocols("TLSv1.1 TLSv1.2").unwrap().left_out, ["TLSv1.1"]);
        assert!(protocols("TLSv1").is_err() && protocols("SSLv2").is_err());
        assert_eq!(protocols("").unwrap().chosen.len(), 2);
    }
}
