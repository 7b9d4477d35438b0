#!/bin/sh
# Starts three members of a cluster on this machine, ports 7001 to 7003, and a cache on a Unix
# socket, until Ctrl-C. Their data are in ./petrel-cluster. PETREL names the program (default: petrel).
set -eu
petrel=$(realpath "$(command -v "${PETREL:-petrel}")")
mkdir -p petrel-cluster && cd petrel-cluster
[ -s passphrase ] || { umask 077; head -c 24 /dev/urandom | base64 > passphrase; }
trap 'trap - EXIT; kill 0; wait' INT TERM EXIT
start() {
    mkdir -p "$1"
    dir=$1 && shift
    "$petrel" --bind 127.0.0.1 --dir "$dir" --logfile petrel.log \
        --cluster-passphrase-file "$PWD/passphrase" "$@" &
}
start 7001 --port 7001 --cluster-create --cluster-copies 2
start 7002 --port 7002 --cluster-join 127.0.0.1:17001
start 7003 --port 7003 --cluster-join 127.0.0.1:17001
start cache --port 0 --unixsocket "$PWD/cache.sock" --cluster-role cache --cluster-join 127.0.0.1:17001
echo "redis-cli -p 7001 CLUSTER NODES; redis-cli -p 7002 SET greeting hello; redis-cli -s petrel-cluster/cache.sock GET greeting"
wait
