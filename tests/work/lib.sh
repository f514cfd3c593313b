# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# lib.sh - what the lists of work share: an environment that says the same everywhere, and steps. Sourced, with DATA, the
# folder with helpers.py, as $1, in the directory of the work.

set -u -o pipefail
data=$1
top=$PWD
failed=0
export LC_ALL=C TZ=UTC TMPDIR=$top/tmp HOME=$top/home PYTHONDONTWRITEBYTECODE=1
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_AUTHOR_DATE='2024-01-01T00:00:00Z'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
mkdir -p "$TMPDIR" "$HOME"

tree_hash() {
	(cd "$1" && find . -type f -print0 | sort -z | xargs -0 -r sha256sum | sha256sum)
	(cd "$1" && find . -type l -printf '%p %l\n' | sort | sha256sum)
}

helpers() {
	python3 "$data/helpers.py" "$1"
}

step() {
	local name=$1
	shift
	echo "== $name"
	mkdir -p "$top/$name"
	# A directory and a shell for each step.
	if ! (cd "$top/$name" && "$@"); then
		echo "== $name failed"
		failed=$((failed + 1))
	fi
}
