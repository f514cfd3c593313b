# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# root.sh - the guest's root image: a Debian userland of this machine's own release, so that
# programs built here run there. Sourced after apt.sh.
#
# $CORDON_CACHE/root/KEY.img is an ext4 file system without journal; KEY covers the release, the
# package list and the functions below that make the content. Guests use it with snapshot=on: it never changes after it was made.

# Names with | are alternatives: the first that this release has.
root_packages() {
	cat <<-'LIST'
		acl attr bpftool btrfs-progs bubblewrap busybox-static ca-certificates catatonit conmon crun curl e2fsprogs
		file fuse-overlayfs gcc git iodine iproute2 iptables iputils-ping jq kmod ldnsutils less libc6-dev libcap2-bin lsof
		make mount net-tools netavark netcat-openbsd nftables nodejs openssl podman procps psmisc python3
		python3-jsonschema python3-venv python3-yaml redis-server rsync socat sqlite3 strace tar tcc tcpdump uidmap
		util-linux xfsprogs xz-utils zstd
		libacl1|libacl1t64 libattr1 libbpf1 libcap2 libcap-ng0 libcmocka0 libelf1t64|libelf1 libdw1t64|libdw1
		libev4t64|libev4 libevent-2.1-7t64|libevent-2.1-7 libevent-openssl-2.1-7t64|libevent-openssl-2.1-7
		libevent-pthreads-2.1-7t64|libevent-pthreads-2.1-7 libcurl4t64|libcurl4 libjansson4
		libldns3t64|libldns3 libc-ares2|libcares2 libmicrohttpd12t64|libmicrohttpd12 libmnl0 libncursesw6 libpcre2-8-0
		libpq5 librdkafka1 libsctp1 libseccomp2 libsqlite3-0 libssl3t64|libssl3 libsystemd0 libsodium23 libunbound8 liburing2
		libyaml-0-2 libzstd1 zlib1g
	LIST
}

# A tree with the packages. Usage: root_build DIR SOURCES_FILE PACKAGES
root_build() {
	local tree=$1 sources=$2 packages=$3
	# Exclusions keep the image small; licences stay.
	mmdebstrap --quiet --mode=root --variant=minbase --architectures=amd64 \
		--include="$packages" \
		--aptopt='APT::Sandbox::User "root"' --aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Languages "none"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
		"$(apt_codename)" "$tree" - < "$sources"
}

# npm, for tests/work. Debian's needs some 400 packages, most of them to build and test others of them: those that lead there
# are said to be installed. What is left are scripts with nothing to configure, and unpacking them is all. Usage: root_npm DIR CONF WORK_DIR
root_npm() {
	local tree=$1 conf=$2 work=$3 name
	mkdir -p "$work/npm" && cd "$work/npm" && cp "$tree/var/lib/dpkg/status" status || return 1
	for name in gyp libnode-dev eslint node-babel7 node-core-js node-istanbul node-tape webpack; do
		printf 'Package: %s\nStatus: install ok installed\nMaintainer: none\nArchitecture: all\nVersion: 9999\nDescription: none\n\n' $name
	done >> status
	apt-get -q -c "$conf" -o Dir::State::status="$PWD/status" --no-install-recommends -s install npm |
		sed -n 's/^Inst \([^ ]*\) .*/\1/p' > names && grep -q -x npm names || return 1
	# shellcheck disable=SC2046 # a list of names
	apt_download "$conf" $(cat names) || return 1
	for name in *.deb; do
		dpkg-deb --fsys-tarfile "$name" | tar -x -C "$tree" --keep-directory-symlink --exclude=./usr/share/man -f - || return 1
	done
}

# What the guest needs on top of the packages.
root_customize() {
	local tree=$1 applet
	rm -rf "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/var/log/*.log
	mkdir -p "$tree"/{cordon,share,scratch,out,etc/containers} "$tree/usr/lib/modules"
	echo cordon-vm > "$tree/etc/hostname"
	printf '127.0.0.1 localhost cordon-vm\n::1 localhost ip6-localhost\n' > "$tree/etc/hosts"
	rm -f "$tree/etc/resolv.conf"
	: > "$tree/etc/resolv.conf"
	: > "$tree/etc/fstab"
	chroot "$tree" useradd -m -u 1000 -U -s /bin/bash agent || return 1
	grep -q '^agent:' "$tree/etc/subuid" || echo 'agent:100000:65536' >> "$tree/etc/subuid"
	grep -q '^agent:' "$tree/etc/subgid" || echo 'agent:100000:65536' >> "$tree/etc/subgid"
	# No systemd and no journal in the guest.
	cat > "$tree/etc/containers/containers.conf" <<-'CONF'
		[containers]
		log_driver = "k8s-file"
		[engine]
		cgroup_manager = "cgroupfs"
		events_logger = "file"
		runtime = "crun"
		[network]
		network_backend = "netavark"
	CONF
	printf '[storage]\ndriver = "overlay"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n' \
		> "$tree/etc/containers/storage.conf"
	printf '{"default": [{"type": "insecureAcceptAnything"}]}\n' > "$tree/etc/containers/policy.json"
	rm -rf "$tree/etc/cni"
	# A container image without a registry; root_import gives it to podman as localhost/busybox.
	mkdir -p "$tree/usr/share/cordon-vm/busybox"/{bin,dev,etc,proc,sys,tmp,root,run,var,work}
	chmod 1777 "$tree/usr/share/cordon-vm/busybox/tmp"
	cp "$tree/bin/busybox" "$tree/usr/share/cordon-vm/busybox/bin/busybox" || return 1
	for applet in $("$tree/bin/busybox" --list); do
		[ "$applet" = busybox ] || ln -s busybox "$tree/usr/share/cordon-vm/busybox/bin/$applet"
	done
	printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' > "$tree/usr/share/cordon-vm/busybox/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' > "$tree/usr/share/cordon-vm/busybox/etc/group"
	tar -C "$tree/usr/share/cordon-vm/busybox" -cf "$tree/usr/share/cordon-vm/busybox.tar" . || return 1
}

# Gives podman its image, in a guest that may write the root image: podman needs a kernel of its own for that.
root_import() {
	CORDON_CACHE_LOCKED=1 "$VM_DIR/run" --timeout 300 --root-image "$1" -- \
		podman import --quiet /usr/share/cordon-vm/busybox.tar localhost/busybox || return 1
	e2fsck -p -f "$1" || [ $? -le 1 ]
}

# Prints the package list with alternatives resolved, comma-separated.
root_choose() {
	local conf=$1 choice name found
	local -a chosen=()
	local -A known=()
	# One call for all: each takes a second. Its exit code says nothing.
	while read -r name; do
		known[$name]=1
	done < <(root_packages | tr -s '| \n' '\n' | xargs apt-cache -c "$conf" show 2> /dev/null | sed -n 's/^Package: //p')
	for choice in $(root_packages); do
		found=
		for name in ${choice//|/ }; do
			if [ -n "${known[$name]:-}" ]; then
				found=$name
				break
			fi
		done
		if [ -n "$found" ]; then
			chosen+=("$found")
		else
			note "this release has no package $choice; the guest goes without"
		fi
	done
	(IFS=, && printf '%s\n' "${chosen[*]}")
}

# Under the cache's lock.
root_make() {
	local image=$1 code conf work=$CORDON_CACHE/work.root mirror rc=1
	[ -e "$image" ] && return 0
	code=$(apt_codename) || return 1
	conf=$(apt_suite "$code" amd64) || {
		complain "no mirror answers for $code, and $CORDON_CACHE has no root image yet"
		return 1
	}
	note "building the guest's root image ($code); this happens once"
	umount_safe "$work"
	mkdir -p "$work" "$CORDON_CACHE/root"
	cp "$CORDON_CACHE/apt/$code-amd64/sources.list" "$work/sources"
	for mirror in "$code-security" "$code-updates"; do
		conf=$(apt_suite "$mirror" amd64) && cat "$CORDON_CACHE/apt/$mirror-amd64/sources.list" >> "$work/sources"
	done
	conf=$CORDON_CACHE/apt/$code-amd64/apt.conf
	root_build "$work/tree" "$work/sources" "$(root_choose "$conf")" > "$work/log" 2>&1 &&
		(root_npm "$work/tree" "$conf" "$work") >> "$work/log" 2>&1 &&
		root_customize "$work/tree" >> "$work/log" 2>&1 &&
		image_make "$work/tree" "$work/new.img" 3072 &&
		root_import "$work/new.img" >> "$work/log" 2>&1 &&
		mv "$work/new.img" "$image" && cache_prune
	rc=$?
	[ $rc = 0 ] || {
		complain "building the root image failed:"
		cp "$work/log" "$CORDON_CACHE/root/failed.log"
		grep -a -E '^(E:|vm:)|rror' "$work/log" | tail -n 20 >&2
	}
	umount_safe "$work"
	return $rc
}

# rm -rf that refuses while something is mounted below.
umount_safe() {
	if grep -q " $1/" /proc/self/mounts; then
		awk -v dir="$1/" 'index($2, dir) == 1 { print $2 }' /proc/self/mounts | sort -r | xargs -r -n 1 umount
	fi
	rm -rf --one-file-system "$1"
}

# Prints the path of the root image, building it where need be.
root_resolve() {
	local key image
	key=$(apt_codename)-$(declare -f root_packages root_build root_npm root_customize root_import | sha256sum | cut -c 1-12)
	image=$CORDON_CACHE/root/$key.img
	[ -e "$image" ] || cache_locked root_make "$image" || return 1
	touch -c "$image" 2> /dev/null # cache_prune looks at it
	printf '%s\n' "$image"
}
