#!/usr/bin/env bash
# redis-cli against a started server: what a person types, and what redis-cli does by itself (--scan, --pipe, --stat).
#
# Address: PETREL_SOCKET if set, else 127.0.0.1:PETREL_PORT. Prints one line for each case, `ok NAME` or `FAIL NAME: why`.
set -uo pipefail

address=(-h 127.0.0.1 -p "$PETREL_PORT")
[[ -z ${PETREL_SOCKET:-} ]] || address=(-s "$PETREL_SOCKET")

cli() { redis-cli "${address[@]}" --no-raw "$@" 2>&1; }

expect() {
    local name=$1 expected=$2 got=$3
    if [[ $got == $expected ]]; then
        echo "ok $name"
    else
        echo "FAIL $name: got '${got//$'\n'/ }', expected '$expected'"
    fi
}

case_commands() {
    expect "ping" 'PONG' "$(cli PING)"
    expect "set with options" 'OK' "$(cli SET k v EX 100 NX)"
    expect "null" '(nil)' "$(cli SET k v NX)"
    expect "integer" '(integer) 100' "$(cli TTL k)"
    expect "error" "(error) ERR unknown command 'NOSUCH', with args beginning with: 'a' *" "$(cli NOSUCH a)"
    expect "arity" "(error) ERR wrong number of arguments for 'get' command*" "$(cli GET)"
    expect "map in RESP3" '1# "maxmemory-policy" => "noeviction"' "$(cli -3 CONFIG GET maxmemory-policy)"
    expect "INFO" '*redis_mode:standalone*# Keyspace*' "$(redis-cli "${address[@]}" INFO)"
    expect "another database" '(integer) 0' "$(cli -n 5 EXISTS k)"
    expect "COMMAND DOCS" '*summary*' "$(cli COMMAND DOCS get)"
    expect "CLIENT LIST" '*cmd=client|list*' "$(redis-cli "${address[@]}" CLIENT LIST)"
}

# Typed into one connection: redis-cli reads COMMAND DOCS when it is interactive.
case_session() {
    local typed=$'MULTI\nINCR counter\nINCR counter\nEXEC\nSELECT 3\nSET there 1\nDBSIZE'
    expect "a session" $'OK\nQUEUED\nQUEUED\n1) (integer) 1\n2) (integer) 2\nOK\nOK\n(integer) 1' "$(cli <<<"$typed")"
}

case_mass_insertion() {
    local load i
    load=$(for ((i = 0; i < 1000; i++)); do printf 'SET cli:%d %d\r\n' "$i" "$i"; done)
    expect "--pipe" '*errors: 0, replies: 1000*' "$(redis-cli "${address[@]}" --pipe <<<"$load" 2>&1)"
    expect "--scan" 1000 "$(redis-cli "${address[@]}" --scan --pattern 'cli:*' | sort -u | wc -l)"
    expect "value from stdin" "$(printf 'a\\x00' | wc -c)" "$(printf 'a\\x00' | redis-cli "${address[@]}" -x SET k >/dev/null; redis-cli "${address[@]}" STRLEN k)"
    expect "--memkeys" '*Biggest string found*' "$(redis-cli "${address[@]}" --memkeys 2>&1)"
    expect "--bigkeys" '*Biggest string found*' "$(redis-cli "${address[@]}" --bigkeys 2>&1)"
}

redis-cli "${address[@]}" FLUSHALL >/dev/null
case_commands
case_session
case_mass_insertion
