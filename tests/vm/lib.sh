# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# lib.sh - what the programs of tests/vm share: messages, the cache and its lock, file system images. Sourced.
#
# The cache is $CORDON_CACHE (default /var/cache/cordon), outside the tree. Everything in it can be
# deleted at any time while no run is under way; it is made again.

CORDON_CACHE=${CORDON_CACHE:-/var/cache/cordon}
VM_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO_DIR=$(cd "$VM_DIR/../.." && pwd)
export CORDON_CACHE

note() {
	printf 'vm: %s\n' "$*" >&2
}

complain() {
	printf 'vm: error: %s\n' "$*" >&2
}

# Runs a function while holding the cache's lock, so that parallel runs build things once.
cache_locked() {
	local rc fd
	if [ -n "${CORDON_CACHE_LOCKED:-}" ]; then # by the process that started this one
		"$@"
		return
	fi
	mkdir -p "$CORDON_CACHE" || return 1
	exec {fd}> "$CORDON_CACHE/lock" || return 1
	if ! flock -n "$fd"; then
		note "waiting for another run that fills the cache"
		flock -w 1800 "$fd" || return 1
	fi
	# A child that outlives the function must not keep the lock.
	"$@" {fd}>&-
	rc=$?
	exec {fd}>&-
	return $rc
}

# Deletes kernels and root images that no run has used for a month. Under the cache's lock.
cache_prune() {
	find "$CORDON_CACHE/kernels" "$CORDON_CACHE/root" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} + 2> /dev/null
	find "$CORDON_CACHE/names" -type f -mtime +30 -delete 2> /dev/null
	return 0
}

# Makes a working directory and sets work_dir to it. It stays locked while this process or a child of it
# lives; directories whose lock nobody holds were left by a run that was killed, and go.
work_make() {
	local base=${CORDON_VM_TMP:-/var/tmp} old fd
	for old in "$base"/cordon-vm.*; do
		if [ -O "$old/lock" ] && [ -n "$(find "$old/lock" -mmin +1)" ] && flock -n "$old/lock" true; then
			rm -rf "$old"
		fi
	done
	work_dir=$(mktemp -d "$base/cordon-vm.XXXXXX") && exec {fd}> "$work_dir/lock" && flock -n "$fd"
}

# An ext4 image with the content of a directory. Usage: image_make DIR IMAGE SPARE_MIB [MKE2FS_OPTION...]
image_make() {
	local dir=$1 image=$2 spare=$3 kib files
	shift 3
	kib=$(du -sk --apparent-size --count-links "$dir" | cut -f 1)
	files=$(find "$dir" | wc -l)
	rm -f "$image"
	# Each file may waste a block, and each inode takes 256 bytes.
	MKE2FS_SKIP_PROGRESS=1 mke2fs -q -F -t ext4 -O ^has_journal -m 0 -N $((files + 20000)) -d "$dir" "$@" \
		"$image" "$((kib + kib / 20 + files * 4 + spare * 1024 + 16384))k" > /dev/null
}

# The guest's process 1, compiled once per source. Prints its path.
init_resolve() {
	local init
	init=$CORDON_CACHE/init/$(sha256sum < "$VM_DIR/init.c" | cut -c 1-16)
	if [ ! -e "$init" ]; then
		mkdir -p "$CORDON_CACHE/init"
		${CC:-cc} -static -O2 -Wall -Wextra -o "$init.$$" "$VM_DIR/init.c" && mv "$init.$$" "$init" || return 1
	fi
	printf '%s\n' "$init"
}

# An empty ext4 with journal for /scratch. Prints its path.
scratch_resolve() {
	local image=$CORDON_CACHE/scratch-2g.img
	if [ ! -e "$image" ]; then
		mkdir -p "$CORDON_CACHE"
		mke2fs -q -F -t ext4 -m 0 "$image.$$" 2g > /dev/null && mv "$image.$$" "$image" || return 1
	fi
	printf '%s\n' "$image"
}

# An image of the parts of the repository that the guest gets. A file that changes meanwhile is no fault.
# Usage: tree_make WORK_DIR IMAGE
tree_make() {
	local work=$1/tree image=$2 part
	mkdir -p "$work"
	for part in build tests policies demo include docs; do
		[ -d "$REPO_DIR/$part" ] || continue
		tar -C "$REPO_DIR" --exclude=build/vm-logs --ignore-failed-read --warning=no-file-changed \
			--warning=no-file-removed -cf - "$part" | tar -C "$work" --no-same-owner -xf -
		[ "${PIPESTATUS[1]}" = 0 ] || return 1
	done
	image_make "$work" "$image" 256 && rm -rf "$work"
}

# Copies the lines of a kernel log that are complaints; fails where there are none.
complaints() {
	tr -d '\r' | grep -a -E -f <(
		cat <<-'PATTERNS'
			WARNING:
			(^|[^A-Za-z])BUG:
			Oops
			Kernel panic
			general protection fault
			soft lockup
			hard LOCKUP
			rcu[a-z_]*( kthread)?.*(detected stall|self-detected stall|starved)
			INFO: task .* blocked for more than
			(KASAN|KCSAN|UBSAN|KFENCE|kmemleak):
			refcount_t:
			list_(add|del) corruption
			unregister_netdevice: waiting for
			-+\[ cut here \]-+
		PATTERNS
	)
}
