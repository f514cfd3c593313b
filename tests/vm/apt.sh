# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# apt.sh - the Debian archive, in any suite, through this machine's own mirrors. Sourced.
#
# Each suite gets a private apt configuration below $CORDON_CACHE/apt: the machine's own sources
# and lists are read, never changed. Nothing here names a host: mirrors come from the
# machine's entries, in both of apt's formats. Needs root only where the cache needs it.
# When no mirror answers, functions return non-zero and the caller uses what the cache has.

# Every enabled source entry of this machine, one line each: URI <tab> suite <tab> components <tab> signed-by
apt_entries() {
	local file
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -r "$file" ] || continue
		awk '
			/^[ \t]*deb[ \t]/ {
				sub(/#.*/, "")
				options = ""
				if (match($0, /\[[^]]*\]/)) {
					options = substr($0, RSTART + 1, RLENGTH - 2)
					$0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
				}
				key = ""
				n = split(options, option, /[ \t]+/)
				for (i = 1; i <= n; i++)
					if (option[i] ~ /^signed-by=/)
						key = substr(option[i], 11)
				components = ""
				for (i = 4; i <= NF; i++)
					components = components " " $i
				print $2 "\t" $3 "\t" components " \t" key
			}' "$file"
	done
	for file in /etc/apt/sources.list.d/*.sources; do
		[ -r "$file" ] || continue
		# Comment lines are no separators: drop them before awk looks for empty lines.
		sed '/^#/d' "$file" | awk '
			function flush(i, j, n, m, uri, suite) {
				if (tolower(field["enabled"]) != "no" && " " field["types"] " " ~ / deb /) {
					n = split(field["uris"], uri, /[ \t]+/)
					m = split(field["suites"], suite, /[ \t]+/)
					for (i = 1; i <= n; i++)
						for (j = 1; j <= m; j++)
							if (uri[i] != "" && suite[j] != "")
								print uri[i] "\t" suite[j] "\t " field["components"] \
								      " \t" (field["signed-by"] ~ /^\// ? field["signed-by"] : "")
				}
				delete field
				last = ""
			}
			/^[ \t]*$/ { flush(); next }
			/^[ \t]/ { if (last != "") { sub(/^[ \t]+/, ""); field[last] = field[last] " " $0 } next }
			{
				at = index($0, ":")
				last = tolower(substr($0, 1, at - 1))
				value = substr($0, at + 1)
				gsub(/^[ \t]+|[ \t]+$/, "", value)
				field[last] = value
			}
			END { flush() }'
	done
}

apt_codename() {
	# shellcheck disable=SC1091
	(. /etc/os-release && printf '%s\n' "${VERSION_CODENAME:?this is not a Debian release}")
}

# Mirrors that may hold Debian's main archive or, with "security", its security archive; best first.
# Others also publish a suite of Debian's name: Debian's keyring refuses them later.
apt_mirrors() {
	local kind=$1 code
	code=$(apt_codename) || return 1
	apt_entries | awk -F '\t' -v code="$code" -v kind="$kind" '
		$3 !~ / main / { next }
		kind == "security" && ($2 == code "-security" || $2 == "stable-security" || $2 == code "/updates") {
			print ($1 ~ /\/debian-security\/*$/ ? 0 : 1) "\t" $1
		}
		$2 == code || $2 == "stable" {
			good = $1 ~ /\/debian\/*$/
			if (kind == "main")
				print (good ? 0 : 1) "\t" $1
			else if (good) {	# usual neighbour, for machines without a security entry
				sub(/\/*$/, "-security", $1)
				print "2\t" $1
			}
		}' | sort -s -k 1,1n | cut -f 2 | awk '!seen[$0]++'
}

# Prints the private configuration's path for SUITE, fresh within a day, or fails.
# Usage: apt_suite SUITE ARCH
apt_suite() {
	local suite=$1 arch=$2 dir kind=main mirror key
	dir=$CORDON_CACHE/apt/$suite-$arch
	if [ -e "$dir/fresh" ] && [ -z "$(find "$dir/fresh" -mmin +1440)" ]; then
		printf '%s\n' "$dir/apt.conf"
		return 0
	fi
	case $suite in *-security | */updates) kind=security ;; esac
	rm -rf "$dir"
	mkdir -p "$dir"/{lists/partial,cache/archives/partial,parts,keys}
	for key in /usr/share/keyrings/debian-archive-*.gpg /usr/share/keyrings/debian-archive-*.pgp; do
		[ -r "$key" ] && cp -L "$key" "$dir/keys/$(basename "${key%.*}").gpg"
	done
	cat > "$dir/apt.conf" <<-CONF
		Dir::Etc::sourcelist "$dir/sources.list";
		Dir::Etc::sourceparts "$dir/parts";
		Dir::Etc::trusted "/dev/null";
		Dir::Etc::trustedparts "$dir/keys";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "$dir/parts";
		Dir::State::lists "$dir/lists";
		Dir::State::status "/dev/null";
		Dir::Cache "$dir/cache";
		APT::Architecture "$arch";
		APT::Architectures "$arch";
		APT::Sandbox::User "root";
		APT::Update::Error-Mode "any";
		Acquire::Languages "none";
		Acquire::Retries "2";
		Acquire::http::Timeout "20";
		Acquire::https::Timeout "20";
		Acquire::Check-Valid-Until "false";
	CONF
	while read -r mirror; do
		echo "deb $mirror $suite main" > "$dir/sources.list"
		if apt-get -q -c "$dir/apt.conf" update > "$dir/log" 2>&1; then
			touch "$dir/fresh"
			printf '%s\n' "$dir/apt.conf"
			return 0
		fi
	done < <(apt_mirrors "$kind")
	return 1
}

# Packages of a suite whose name matches an extended regular expression.
apt_names() {
	apt-cache -c "$1" pkgnames linux- | grep -E "$2" | sort -V
}

# Downloads packages into the current directory.
apt_download() {
	local conf=$1
	shift
	apt-get -q -c "$conf" download "$@" > download.log 2>&1 || {
		cat download.log >&2
		return 1
	}
}
