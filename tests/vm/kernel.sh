# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# kernel.sh - Debian's kernels for the guest, by short name. Sourced after apt.sh.
#
# $CORDON_CACHE/kernels/VERSION/ holds vmlinuz, config, modules.img (an ext4 file system with what
# belongs in /lib/modules/VERSION, uncompressed) and early/ (the modules an initramfs needs, and
# their order). A directory appears there only when complete, and never changes afterwards.
# $CORDON_CACHE/names/NAME remembers for a day which version a name stands for; when no mirror
# answers it is believed for longer.

# Name, suites to look in, pattern of the version. Kernels between two stable releases leave the archive one
# day: "or-later" then takes the next one up, and says so.
kernel_table() {
	cat <<-'TABLE'
		6.1 bookworm-security,bookworm ^6\.1\.[0-9]
		6.12 trixie-security,trixie,bookworm-security ^6\.12\.[0-9]
		6.18 trixie-backports ^6\.18\.[0-9] or-later
		newest trixie-backports ^[0-9]
		5.10 bullseye-security,bullseye ^5\.10\.[0-9]
	TABLE
}

kernel_list() {
	kernel_table | cut -d ' ' -f 1
}

# Versions that the suite offers whole, with their modules: lines "VERSION PACKAGE...".
# Older kernels are one package; later ones are split, and their linux-image is empty.
kernel_offers() {
	apt_names "$1" '^linux-(image|base|binary|modules)-[0-9][^-]*\.[0-9].*-cloud-amd64$' | awk '
		{ version = $0; sub(/^linux-[a-z]+-/, "", version) }
		/^linux-image-/ { image[version] = 1 }
		/^linux-base-/ { base[version] = 1 }
		/^linux-binary-/ { binary[version] = 1 }
		/^linux-modules-/ { modules[version] = 1 }
		END {
			for (v in image)
				if (!(v in binary) && !(v in modules))
					print v " linux-image-" v
			for (v in binary)
				if (v in modules && v in base)
					print v " linux-base-" v " linux-binary-" v " linux-modules-" v
		}' | sort -V
}

# Unpacks packages of the current directory into a kernel directory. Usage: kernel_unpack VERSION DIR
kernel_unpack() {
	local version=$1 out=$2 deb module early=0
	mkdir -p tree/usr/lib "$out/early"
	ln -s usr/lib tree/lib
	for deb in *.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C tree --keep-directory-symlink -f - || return 1
	done
	if [ -e "tree/boot/vmlinuz-$version" ]; then
		mv "tree/boot/vmlinuz-$version" "$out/vmlinuz" && mv "tree/boot/config-$version" "$out/config"
	else
		mv "tree/lib/modules/$version/vmlinuz" "$out/vmlinuz" && cp "tree/lib/modules/$version/config" "$out/config"
	fi || return 1
	# Software emulation is slow at decompressing, and the initramfs cannot.
	find "tree/lib/modules/$version/" -name '*.ko.xz' -print0 | xargs -0r -n 64 -P 2 xz -d || return 1
	find "tree/lib/modules/$version/" -name '*.ko.zst' -print0 | xargs -0r -n 64 -P 2 zstd -q -d --rm || return 1
	depmod -b "$PWD/tree" "$version" || return 1
	for module in virtio_pci virtio_blk virtio_console ext4; do
		modprobe -d "$PWD/tree" -S "$version" --show-depends "$module" || return 1
	done > early.depends
	awk '$1 == "insmod" && !seen[$2]++ { print $2 }' early.depends > early.list
	while read -r module; do
		early=$((early + 1))
		cp "$module" "$out/early/$early.ko" || return 1
		echo "/m/$early.ko" >> "$out/early/order"
	done < early.list
	rm -rf "tree/lib/modules/$version/"{build,source}
	image_make "tree/lib/modules/$version" "$out/modules.img" 16 || return 1
}

# Puts a version into the cache. Usage: kernel_fetch CONF VERSION PACKAGE...
kernel_fetch() (
	conf=$1 version=$2
	shift 2
	[ -e "$CORDON_CACHE/kernels/$version/vmlinuz" ] && return 0
	note "fetching kernel $version"
	work=$CORDON_CACHE/work.kernel
	rm -rf "$work"
	mkdir -p "$work" "$CORDON_CACHE/kernels"
	cd "$work" || return 1
	apt_download "$conf" "$@" && kernel_unpack "$version" "$work/new" &&
		mv -T "$work/new" "$CORDON_CACHE/kernels/$version" && cache_prune
	rc=$?
	cd / && rm -rf "$work"
	return $rc
)

# Looks a name up in the archive, fetches the kernel, remembers it. Under the cache's lock.
kernel_refresh() {
	local name=$1 suites=$2 pattern=$3 otherwise=${4:-} suite conf line best='' best_conf='' answered=1
	for suite in ${suites//,/ }; do
		conf=$(apt_suite "$suite" amd64) || {
			answered=0
			continue
		}
		line=$(kernel_offers "$conf" | grep -E "$pattern" | tail -n 1)
		if [ -z "$line" ] && [ "$otherwise" = or-later ]; then
			line=$({ kernel_offers "$conf" && echo "$name"; } | sort -V | sed "0,/^${name//./\\.}\$/d" | head -n 1)
			[ -z "$line" ] || note "the archive no longer has a $name kernel; taking ${line%% *} for it"
		fi
		[ -n "$line" ] || continue
		if [ "$(printf '%s\n%s\n' "${best%% *}" "${line%% *}" | sort -V | tail -n 1)" = "${line%% *}" ]; then
			best=$line best_conf=$conf
		fi
	done
	[ -n "$best" ] || return 1
	# shellcheck disable=SC2086 # a version and its packages
	kernel_fetch "$best_conf" $best || return 1
	mkdir -p "$CORDON_CACHE/names"
	printf '%s\n' "${best%% *}" > "$CORDON_CACHE/names/$name"
	[ "$answered" = 1 ] || touch -d '-23 hours' "$CORDON_CACHE/names/$name"
}

# Prints the version of a cached kernel for a name (see kernel_list, or a whole version), fetching it
# where need be. Fails with a message where neither archive nor cache has it.
kernel_resolve() {
	local name=$1 suites pattern otherwise known=$CORDON_CACHE/names/$1
	if [ -e "$CORDON_CACHE/kernels/$name/vmlinuz" ]; then
		touch -c "$CORDON_CACHE/kernels/$name" 2> /dev/null
		printf '%s\n' "$name"
		return 0
	fi
	read -r suites pattern otherwise < <(kernel_table | awk -v name="$name" '$1 == name { print $2, $3, $4 }')
	if [ -z "$pattern" ]; then
		case $name in
		[0-9]*.[0-9]*) pattern="^${name//[.+]/\\&}([^0-9]|\$)" ;;
		*) complain "no kernel named '$name'; there are: $(kernel_list | tr '\n' ' ')" && return 1 ;;
		esac
		suites=trixie-backports,trixie-security,bookworm-security,bullseye-security,trixie,bookworm
	fi
	if [ ! -e "$known" ] || [ -n "$(find "$known" -mmin +1440)" ] ||
		[ ! -e "$CORDON_CACHE/kernels/$(cat "$known")/vmlinuz" ]; then
		cache_locked kernel_refresh_once "$name" "$suites" "$pattern" "$otherwise" || {
			note "no mirror has a kernel for '$name' now; looking in the cache"
			# Ask again in an hour, not at every run.
			[ ! -e "$known" ] || touch -d '-23 hours' "$known"
		}
	fi
	if [ -e "$known" ] && [ -e "$CORDON_CACHE/kernels/$(cat "$known")/vmlinuz" ]; then
		touch -c "$CORDON_CACHE/kernels/$(cat "$known")" 2> /dev/null # cache_prune looks at it
		cat "$known"
		return 0
	fi
	complain "kernel '$name' is neither in the archive nor in $CORDON_CACHE"
	return 1
}

# Another run may have done it while this one waited for the lock.
kernel_refresh_once() {
	local known=$CORDON_CACHE/names/$1
	if [ -e "$known" ] && [ -z "$(find "$known" -mmin +1440)" ] &&
		[ -e "$CORDON_CACHE/kernels/$(cat "$known")/vmlinuz" ]; then
		return 0
	fi
	kernel_refresh "$@"
}
