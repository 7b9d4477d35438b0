#!/bin/sh
# Starts three members of a cluster on this machine, ports 7001 to 7003, until Ctrl-C.
# Their data are in ./petrel-cluster. PETREL names the program (default: petrel).
set -eu
petrel=$(realpath "$(command -v "${PETREL:-petrel}")")
mkdir -p petrel-cluster && cd petrel-cluster
[ -s passphrase ] || { umask 077; head -c 24 /dev/urandom | base64 > passphrase; }
trap 'trap - EXIT; kill 0; wait' INT TERM EXIT
for port in 7001 7002 7003; do
    [ "$port" = 7001 ] && how=--cluster-create || how="--cluster-join 127.0.0.1:17001"
    mkdir -p "$port"
    # shellcheck disable=SC2086
    "$petrel" --port "$port" --bind 127.0.0.1 --dir "$port" --logfile petrel.log \
        --cluster-passphrase-file "$PWD/passphrase" $how &
done
echo "redis-cli -p 7001 CLUSTER NODES; redis-cli -p 7002 SET greeting hello; redis-cli -p 7003 GET greeting"
wait
