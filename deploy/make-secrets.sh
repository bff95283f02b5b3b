#!/usr/bin/env sh
# Make the secrets that compose.yml mounts, each in a file of its own. Those that are there already stay as they are.
#
#   sh deploy/make-secrets.sh [DIRECTORY]      # without one: secrets, beside this file
#
# Only you can enter the directory. The files in it can be read by everyone who could, since the services run as users of
# their own inside their containers, and compose mounts a file with the mode that it has here.
set -eu
umask 022
directory=${1:-"$(dirname "$0")/secrets"}
mkdir -p "$directory"
chmod 0700 "$directory"
cd "$directory"

# 64 digits or none at all: a password without a character would be one that everybody knows.
random() {
  digits=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
  [ "${#digits}" -eq 64 ] || { echo "make-secrets.sh: /dev/urandom cannot be read" >&2; return 1; }
  printf %s "$digits"
}

# Whole or not at all: a secret that was cut off by a full disk would be taken for one.
keep() {
  cat >"$1.part"
  mv "$1.part" "$1"
  echo "$directory/$1"
}

for name in forward_token analyst_token shuffler_admin_token aggregator_admin_token; do
  [ -e "$name" ] && continue
  token=$(random)
  printf %s "$token" | keep "$name"
done

# A user of its own in a Redis of its own. The user that needs no password may do nothing but PING, for the health check.
for service in shuffler aggregator; do
  if [ ! -e "${service}_storage" ] || [ ! -e "${service}_redis_acl" ]; then
    password=$(random)
    digest=$(printf %s "$password" | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1)
    keep "${service}_redis_acl" <<END
user default on nopass resetkeys resetchannels -@all +ping
user $service on #$digest ~* resetchannels +@all -@dangerous -@admin +info +config|get +bgrewriteaof +bgsave +cluster|slots +cluster|info
END
    printf 'redis://%s:%s@%s-redis:6379/0' "$service" "$password" "$service" | keep "${service}_storage"
  fi
done
