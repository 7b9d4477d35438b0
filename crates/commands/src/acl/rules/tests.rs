use super::*;
use crate::FAMILIES;
use crate::spec::Registry;
use petrel_resp::Dialect;
use proptest::prelude::*;

fn registry() -> Registry {
    Registry::new(FAMILIES)
}

/// A new user after these rules, or the error of the invalid rule.
fn made_of(registry: &Registry, rules: &[&[u8]]) -> Result<Permissions, String> {
    let mut permissions = Permissions::new(registry, false);
    let joined = join_selectors(rules).map_err(|open| format!("open {}", open.escape_ascii()))?;
    for rule in joined {
        permissions.apply(registry, &rule, false).map_err(|error| error.text().to_owned())?;
    }
    Ok(permissions)
}

fn words(text: &str) -> Vec<&[u8]> {
    text.split(' ').map(str::as_bytes).collect()
}

fn line(registry: &Registry, rules: &str) -> String {
    match made_of(registry, &words(rules)) {
        Ok(permissions) => {
            String::from_utf8_lossy(&permissions.line(b"u", Dialect::Redis)).into_owned()
        }
        Err(error) => error,
    }
}

#[test]
fn rules_are_shown_in_the_words_of_redis() {
    let registry = registry();
    const NEW: &str = "user u off sanitize-payload";
    for (rules, shown) in [
        ("", "resetchannels -@all"),
        ("~a ~b ~a", "~a ~b resetchannels -@all"),
        ("%R~a %W~a %R~b", "~a %R~b resetchannels -@all"),
        ("%rw~a %W", "~a %W~ resetchannels -@all"),
        ("~* &*", "~* &* -@all"),
        ("%RW~* ALLCHANNELS +@ALL", "~* &* +@all"),
        ("~a allkeys resetkeys ~b", "~b resetchannels -@all"),
        ("&a &b &a", "resetchannels &a &b -@all"),
        ("db=1,0,01,+1", "resetchannels db=0,1 -@all"),
        ("db=1 resetdbs", "resetchannels resetdbs -@all"),
        ("db=1 alldbs", "resetchannels -@all"),
        ("+@all -@hash -@slow +hget", "resetchannels +@all -@hash -@slow +hget"),
        ("+@all -@hash -@slow +hget -@hash", "resetchannels +@all -@slow +hget -@hash"),
        ("+get +GET -Get", "resetchannels -@all -get"),
        ("+object|freq +object|FREQ +object", "resetchannels -@all +object"),
        ("+object +object|freq", "resetchannels -@all +object +object|freq"),
        ("-object -object|freq +object|freq", "resetchannels -@all -object +object|freq"),
        ("+get|X +get|x +get|y", "resetchannels -@all +get|x +get|y"),
        ("+get|x -get", "resetchannels -@all -get"),
        ("+get +@all -@all", "resetchannels -@all"),
        (
            "(~a +get) ( %R~b )",
            "resetchannels -@all (~a resetchannels -@all +get) (%R~b resetchannels -@all)",
        ),
        ("(~a +get) clearselectors", "resetchannels -@all"),
        (">a >a ~x (+get) on skip-sanitize-payload reset", "resetchannels -@all"),
    ] {
        assert_eq!(line(&registry, rules), format!("{NEW} {shown}"), "{rules}");
    }
    let hash = Hash::of(b"a").hex();
    assert_eq!(
        line(&registry, "on nopass >a >b <b"),
        format!("user u on sanitize-payload #{hash} resetchannels -@all")
    );
    assert_eq!(
        line(&registry, ">a nopass"),
        "user u off nopass sanitize-payload resetchannels -@all"
    );
}

#[test]
fn what_is_no_rule_is_refused() {
    let registry = registry();
    let hash = "a".repeat(64);
    for (rules, error) in [
        ("foo", RuleError::SYNTAX),
        ("%", RuleError::SYNTAX),
        ("%~", RuleError::SYNTAX),
        ("%X~a", RuleError::SYNTAX),
        ("%RR~a", RuleError::SYNTAX),
        (")", RuleError::SYNTAX),
        ("(on)", RuleError::SYNTAX),
        ("(>x)", RuleError::SYNTAX),
        ("((+get))", RuleError::SYNTAX),
        ("(~a) +get)", RuleError::UNKNOWN),
        ("+foo", RuleError::UNKNOWN),
        ("-foo|bar", RuleError::UNKNOWN),
        ("+object|foo", RuleError::UNKNOWN),
        ("-get|a", RuleError::UNKNOWN),
        ("+get|a|b", RuleError::UNKNOWN),
        ("+@foo", RuleError::UNKNOWN),
        ("+get|", RuleError::SYNTAX),
        ("+object|freq|x", RuleError::FIRST_ARG),
        ("~* ~a", RuleError::KEYS_AFTER_ALL),
        ("&* &a", RuleError::CHANNELS_AFTER_ALL),
        ("#abc", RuleError::BAD_HASH),
        (&format!("!{hash}"), RuleError::NO_SUCH_PASSWORD),
        ("<x", RuleError::NO_SUCH_PASSWORD),
        ("db=", RuleError::SYNTAX),
        ("db=1,,2", RuleError::SYNTAX),
        ("db=1,", RuleError::SYNTAX),
        ("db=x", RuleError::SYNTAX),
        ("db=-1", RuleError::DATABASE),
        ("db=12345678987654321", RuleError::DATABASE),
    ] {
        assert_eq!(line(&registry, rules), error.text(), "{rules}");
    }
    assert_eq!(line(&registry, "(~a (+get"), "open (~a");
}

/// Parts of rules, and other bytes.
fn rule() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "on",
        "off",
        "nopass",
        "resetpass",
        "reset",
        "allkeys",
        "resetkeys",
        "allchannels",
        "resetchannels",
        "allcommands",
        "nocommands",
        "alldbs",
        "resetdbs",
        "clearselectors",
        "sanitize-payload",
        "skip-sanitize-payload",
        "+@all",
        "-@all",
        "+@read",
        "-@string",
        "+@HASH",
        "-@slow",
        "+get",
        "-get",
        "+object",
        "-object",
        "+object|freq",
        "-object|freq",
        "+get|x",
        "+SET|Y",
        "+select|0",
        "~*",
        "~a",
        "~a*",
        "%R~a",
        "%W~b",
        "%RW~c",
        "%R",
        "&*",
        "&a",
        "&b*",
        ">a",
        "<a",
        "db=0",
        "db=3,1",
        "(",
        ")",
        "(~a",
        "+get)",
        "(+@read %R~x)",
        "()",
    ]);
    let chars = prop::sample::select(b"+-@~&%()|#!<>=dbRW*a \n\"\xff\0".to_vec());
    prop_oneof![
        6 => known.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(chars, 0..8),
    ]
}

proptest! {
    /// Applying arbitrary rules never panics, and the line that `ACL LIST` shows makes an equal
    /// user.
    #[test]
    fn a_line_that_is_read_again_gives_the_same_user(
        rules in prop::collection::vec(rule(), 0..30),
    ) {
        let registry = registry();
        let mut user = Permissions::new(&registry, false);
        let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        for rule in join_selectors(&rules).unwrap_or_default() {
            // An invalid rule does not affect later ones.
            let before = user.line(b"u", Dialect::Redis);
            if user.apply(&registry, &rule, false).is_err() {
                prop_assert_eq!(user.line(b"u", Dialect::Redis), before);
            }
        }
        let line = user.line(b"u", Dialect::Redis);
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let again = made_of(&registry, &words[2..]);
        prop_assert!(again.is_ok(), "{:?} after {}", again, line.escape_ascii());
        let again = again.unwrap_or_else(|_| Permissions::new(&registry, false));
        prop_assert_eq!(again.line(b"u", Dialect::Redis), line.clone());
        prop_assert_eq!(&again.root, &user.root, "{}", line.escape_ascii());
        prop_assert_eq!(&again.selectors, &user.selectors);
        prop_assert_eq!(&again.passwords, &user.passwords);
    }
}
