# Completion of petrel for bash.
# Generated from crates/server/src/config; do not edit.

_petrel() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local words='' files=''
    COMPREPLY=()
    if ((COMP_CWORD > 1)); then
        case ${COMP_WORDS[1]} in
            cli) words='--askpass --bigkeys --cacert --cacertdir --cert --count --csv --cursor --eval --functions-rdb --hotkeys --insecure --intrinsic-latency --json --key --latency --latency-history --memkeys --memkeys-samples --no-auth-warning --no-raw --pass --pattern --pipe --pipe-timeout --quoted-input --quoted-json --quoted-pattern --raw --rdb --replica --scan --show-pushes --sni --stat --tls --user --version --help' ;;
            check) words='--fix --cut --help' ;;
            backups) words='--help' ;;
            ping) words='--timeout --help' ;;
            version) words='--help' ;;
            help) words='--help' ;;
        esac
        if [[ -n $words ]]; then
            case ${COMP_WORDS[1]} in
                check | cli | ping) files=-f ;;
                help) words+=' cli check backups ping version help bind port http-port http-bind http-tls unixsocket unixsocketperm unixsocketgroup tcp-backlog tcp-keepalive timeout protected-mode tls-port tls-cert-file tls-key-file tls-key-file-pass tls-client-cert-file tls-client-key-file tls-client-key-file-pass tls-ca-cert-file tls-ca-cert-dir tls-dh-params-file tls-auth-clients tls-auth-clients-user tls-expected-peer-name tls-auto-reload-interval tls-protocols tls-ciphers tls-ciphersuites tls-prefer-server-ciphers tls-session-caching tls-session-cache-size tls-session-cache-timeout requirepass aclfile acl-pubsub-default acllog-max-len enable-protected-configs enable-debug-command threads io-backend direct-descriptors stripes maxclients maxmemory-clients client-output-buffer-limit client-query-buffer-limit notify-keyspace-events proto-max-bulk-len busy-reply-threshold script-memory-limit availability-zone dialect extended-redis-compatibility databases import-mode maxmemory maxmemory-policy maxmemory-samples lfu-log-factor lfu-decay-time active-expire-effort maxmemory-eviction-tenacity lazyfree-lazy-user-flush activedefrag hash-max-listpack-entries hash-max-listpack-value hash-min-template-entries hash-max-template-entries hash-rdb-load-min-template-entries hash-rdb-load-max-template-entries hash-rdb-load-template-disassembly-threshold list-max-listpack-size set-max-intset-entries set-max-listpack-entries set-max-listpack-value zset-max-listpack-entries zset-max-listpack-value stream-node-max-bytes stream-node-max-entries stream-idmp-duration stream-idmp-maxsize hll-sparse-max-bytes bf-error-rate bf-initial-size bf-expansion-factor cf-bucket-size cf-initial-size cf-max-iterations cf-expansion-factor cf-max-expansions search-timeout search-on-timeout search-on-oom search-default-dialect search-max-search-results search-max-aggregate-results search-cursor-max-idle search-index-cursor-limit tracking-table-max-keys rdb-version-check dump-dialect loglevel logfile log-format log-timestamp-format syslog-enabled syslog-ident syslog-facility slowlog-log-slower-than slowlog-max-len commandlog-request-larger-than commandlog-large-request-max-len commandlog-reply-larger-than commandlog-large-reply-max-len slowlog-entry-max-argc slowlog-entry-max-string-len latency-monitor-threshold latency-tracking latency-tracking-info-percentiles dir daemonize supervised pidfile oom-score-adj oom-score-adj-values set-proc-title proc-title-template shutdown-on-sigint shutdown-on-sigterm hz dbfilename save stop-writes-on-bgsave-error rdbcompression rdbchecksum rdb-version rdb-key-save-delay key-load-delay rdb-save-incremental-fsync appendonly appendfsync appenddirname appendfilename auto-aof-rewrite-percentage auto-aof-rewrite-min-size aof-rewrite-incremental-fsync aof-load-truncated aof-load-corrupt-tail-max-size backupdirname backup-sealed-ttl preload-file backup-store backup-snapshots backup-log-interval backup-keep backup-shutdown-timeout restore-from replicaof masterauth masteruser repl-timeout tls-replication replica-announce-ip replica-announce-port replica-announced replica-read-only replica-serve-stale-data replica-priority replica-lazy-flush replica-ignore-maxmemory repl-diskless-load propagation-error-behavior repl-backlog-size repl-backlog-ttl repl-diskless-sync repl-diskless-sync-delay repl-diskless-sync-max-replicas repl-effects repl-ping-replica-period repl-disable-tcp-nodelay min-replicas-to-write min-replicas-max-lag shutdown-timeout cluster-create cluster-join cluster-passphrase cluster-passphrase-file cluster-passphrase-previous cluster-passphrase-previous-file cluster-name cluster-role cluster-copies cluster-acknowledge cluster-zone cluster-port cluster-announce-ip cluster-announce-port cluster-announce-bus-port cluster-announce-tls-port cluster-announce-hostname cluster-announce-human-nodename cluster-enabled cluster-preferred-endpoint-type cluster-node-timeout' ;;
            esac
            _petrel_reply
            return
        fi
    fi
    case $prev in
        --http-tls) words='yes no' ;;
        --unixsocket) files=-f ;;
        --protected-mode) words='yes no' ;;
        --tls-cert-file) files=-f ;;
        --tls-key-file) files=-f ;;
        --tls-client-cert-file) files=-f ;;
        --tls-client-key-file) files=-f ;;
        --tls-ca-cert-file) files=-f ;;
        --tls-ca-cert-dir) files=-f ;;
        --tls-dh-params-file) files=-f ;;
        --tls-auth-clients) words='no yes optional' ;;
        --tls-auth-clients-user) words='CN URI off' ;;
        --tls-prefer-server-ciphers) words='yes no' ;;
        --tls-session-caching) words='yes no' ;;
        --aclfile) files=-f ;;
        --acl-pubsub-default) words='allchannels resetchannels' ;;
        --enable-protected-configs) words='no yes local' ;;
        --enable-debug-command) words='no yes local' ;;
        --io-backend) words='auto io_uring epoll' ;;
        --direct-descriptors) words='auto yes no' ;;
        --dialect) words='auto redis valkey' ;;
        --extended-redis-compatibility) words='yes no' ;;
        --import-mode) words='yes no' ;;
        --maxmemory-policy) words='volatile-lru volatile-lfu volatile-random volatile-ttl volatile-lrm allkeys-lru allkeys-lfu allkeys-random allkeys-lrm noeviction allkeys-s3fifo' ;;
        --lazyfree-lazy-user-flush) words='yes no' ;;
        --activedefrag) words='yes no' ;;
        --search-on-timeout) words='return fail' ;;
        --search-on-oom) words='ignore return fail' ;;
        --rdb-version-check) words='strict relaxed' ;;
        --dump-dialect) words='auto redis valkey' ;;
        --loglevel) words='debug verbose notice warning nothing' ;;
        --logfile) files=-f ;;
        --log-format) words='legacy logfmt json' ;;
        --log-timestamp-format) words='legacy iso8601 milliseconds' ;;
        --syslog-enabled) words='yes no' ;;
        --syslog-facility) words='user local0 local1 local2 local3 local4 local5 local6 local7' ;;
        --latency-tracking) words='yes no' ;;
        --dir) files=-d ;;
        --daemonize) words='yes no' ;;
        --supervised) words='upstart systemd auto no' ;;
        --pidfile) files=-f ;;
        --oom-score-adj) words='no yes relative absolute' ;;
        --set-proc-title) words='yes no' ;;
        --shutdown-on-sigint) words='default save nosave now force' ;;
        --shutdown-on-sigterm) words='default save nosave now force' ;;
        --stop-writes-on-bgsave-error) words='yes no' ;;
        --rdbcompression) words='yes no' ;;
        --rdbchecksum) words='yes no' ;;
        --rdb-version) words='auto 9 10 11 12 13 14 15' ;;
        --rdb-save-incremental-fsync) words='yes no' ;;
        --appendonly) words='yes no' ;;
        --appendfsync) words='everysec always no' ;;
        --aof-rewrite-incremental-fsync) words='yes no' ;;
        --aof-load-truncated) words='yes no' ;;
        --backup-snapshots) words='yes no' ;;
        --tls-replication) words='yes no' ;;
        --replica-announced) words='yes no' ;;
        --replica-read-only) words='yes no' ;;
        --replica-serve-stale-data) words='yes no' ;;
        --replica-lazy-flush) words='yes no' ;;
        --replica-ignore-maxmemory) words='yes no' ;;
        --repl-diskless-load) words='disabled on-empty-db swapdb flushdb flush-before-load' ;;
        --propagation-error-behavior) words='ignore panic panic-on-replicas' ;;
        --repl-diskless-sync) words='yes no' ;;
        --repl-effects) words='yes no' ;;
        --repl-disable-tcp-nodelay) words='yes no' ;;
        --cluster-create) words='yes no' ;;
        --cluster-passphrase-file) files=-f ;;
        --cluster-passphrase-previous-file) files=-f ;;
        --cluster-role) words='data cache witness' ;;
        --cluster-enabled) words='yes no' ;;
        --cluster-preferred-endpoint-type) words='ip hostname unknown-endpoint' ;;
    esac
    if [[ -z $words$files ]]; then
        words='--bind --port --http-port --http-bind --http-tls --unixsocket --unixsocketperm --unixsocketgroup --tcp-backlog --tcp-keepalive --timeout --protected-mode --tls-port --tls-cert-file --tls-key-file --tls-key-file-pass --tls-client-cert-file --tls-client-key-file --tls-client-key-file-pass --tls-ca-cert-file --tls-ca-cert-dir --tls-dh-params-file --tls-auth-clients --tls-auth-clients-user --tls-expected-peer-name --tls-auto-reload-interval --tls-protocols --tls-ciphers --tls-ciphersuites --tls-prefer-server-ciphers --tls-session-caching --tls-session-cache-size --tls-session-cache-timeout --requirepass --aclfile --acl-pubsub-default --acllog-max-len --enable-protected-configs --enable-debug-command --threads --io-backend --direct-descriptors --stripes --maxclients --maxmemory-clients --client-output-buffer-limit --client-query-buffer-limit --notify-keyspace-events --proto-max-bulk-len --busy-reply-threshold --script-memory-limit --availability-zone --dialect --extended-redis-compatibility --databases --import-mode --maxmemory --maxmemory-policy --maxmemory-samples --lfu-log-factor --lfu-decay-time --active-expire-effort --maxmemory-eviction-tenacity --lazyfree-lazy-user-flush --activedefrag --hash-max-listpack-entries --hash-max-listpack-value --hash-min-template-entries --hash-max-template-entries --hash-rdb-load-min-template-entries --hash-rdb-load-max-template-entries --hash-rdb-load-template-disassembly-threshold --list-max-listpack-size --set-max-intset-entries --set-max-listpack-entries --set-max-listpack-value --zset-max-listpack-entries --zset-max-listpack-value --stream-node-max-bytes --stream-node-max-entries --stream-idmp-duration --stream-idmp-maxsize --hll-sparse-max-bytes --bf-error-rate --bf-initial-size --bf-expansion-factor --cf-bucket-size --cf-initial-size --cf-max-iterations --cf-expansion-factor --cf-max-expansions --search-timeout --search-on-timeout --search-on-oom --search-default-dialect --search-max-search-results --search-max-aggregate-results --search-cursor-max-idle --search-index-cursor-limit --tracking-table-max-keys --rdb-version-check --dump-dialect --loglevel --logfile --log-format --log-timestamp-format --syslog-enabled --syslog-ident --syslog-facility --slowlog-log-slower-than --slowlog-max-len --commandlog-request-larger-than --commandlog-large-request-max-len --commandlog-reply-larger-than --commandlog-large-reply-max-len --slowlog-entry-max-argc --slowlog-entry-max-string-len --latency-monitor-threshold --latency-tracking --latency-tracking-info-percentiles --dir --daemonize --supervised --pidfile --oom-score-adj --oom-score-adj-values --set-proc-title --proc-title-template --shutdown-on-sigint --shutdown-on-sigterm --hz --dbfilename --save --stop-writes-on-bgsave-error --rdbcompression --rdbchecksum --rdb-version --rdb-key-save-delay --key-load-delay --rdb-save-incremental-fsync --appendonly --appendfsync --appenddirname --appendfilename --auto-aof-rewrite-percentage --auto-aof-rewrite-min-size --aof-rewrite-incremental-fsync --aof-load-truncated --aof-load-corrupt-tail-max-size --backupdirname --backup-sealed-ttl --preload-file --backup-store --backup-snapshots --backup-log-interval --backup-keep --backup-shutdown-timeout --restore-from --replicaof --masterauth --masteruser --repl-timeout --tls-replication --replica-announce-ip --replica-announce-port --replica-announced --replica-read-only --replica-serve-stale-data --replica-priority --replica-lazy-flush --replica-ignore-maxmemory --repl-diskless-load --propagation-error-behavior --repl-backlog-size --repl-backlog-ttl --repl-diskless-sync --repl-diskless-sync-delay --repl-diskless-sync-max-replicas --repl-effects --repl-ping-replica-period --repl-disable-tcp-nodelay --min-replicas-to-write --min-replicas-max-lag --shutdown-timeout --cluster-create --cluster-join --cluster-passphrase --cluster-passphrase-file --cluster-passphrase-previous --cluster-passphrase-previous-file --cluster-name --cluster-role --cluster-copies --cluster-acknowledge --cluster-zone --cluster-port --cluster-announce-ip --cluster-announce-port --cluster-announce-bus-port --cluster-announce-tls-port --cluster-announce-hostname --cluster-announce-human-nodename --cluster-enabled --cluster-preferred-endpoint-type --cluster-node-timeout --version --help'
        ((COMP_CWORD == 1)) && words+=' cli check backups ping version help' files=-f
    fi
    _petrel_reply
}

# Sets COMPREPLY to those of $words, and to files if $files says so, that begin with $cur.
_petrel_reply() {
    local word
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(compgen -W "$words" -- "$cur"; [[ -n $files ]] && compgen $files -- "$cur")
    [[ -z $files ]] || compopt -o filenames 2>/dev/null
}

complete -F _petrel petrel
