#!/usr/bin/env sh
# Make the secrets that compose.yml mounts, each in its own file. Existing files are kept.
#
#   sh deploy/make-secrets.sh [DIRECTORY]      # without one: secrets, beside this file
#
# Only you can enter the directory. The files in it are readable by all, since the services run as separate users inside
# their containers, and compose mounts each file with the mode that it has here.
set -eu
umask 022
directory=${1:-"$(dirname "$0")/secrets"}
mkdir -p "$directory"
chmod 0700 "$directory"
cd "$directory"

# 64 digits or a failure: an empty password would protect nothing.
random() {
  digits=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
  [ "${#digits}" -eq 64 ] || { echo "make-secrets.sh: /dev/urandom cannot be read" >&2; return 1; }
  printf %s "$digits"
}

# Write a file whole or not at all: a secret cut off by a full disk would pass for a complete one.
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

# Each service has its own user in its own Redis. The user without a password may only PING, for the health check.
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
