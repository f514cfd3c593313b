#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# drive.sh - kills the ledger's processes and its database at random instants, then looks at the books; and lets four
# processes count.
#
# usage: tests/ledger/drive.sh DRIVE DIR KILLS [sqlite|postgres]...     DRIVE: the program; DIR: on disk, made here
#
# Prints a TAP-like line each and a closing count; exit 1 when a check fails.

set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
drive=$1 dir=$2 kills=$3
shift 3
engines=("$@")
[ ${#engines[@]} -gt 0 ] || engines=(sqlite postgres)
increments=${CORDON_TEST_INCREMENTS:-2500}
passed=0 failed=0
pids=()

result() {
	if [ "$1" = 0 ]; then
		echo "ok - $2" && passed=$((passed + 1))
	else
		echo "not ok - $2" && failed=$((failed + 1))
	fi
}

# start NUMBER: a worker
start() {
	"$drive" work "$uri" "n$1" "$dir/$engine" 100000 2>> "$dir/$engine/work.log" &
	pids[$1]=$!
}

end() {
	kill -KILL "${pids[$1]}" 2> /dev/null
	wait "${pids[$1]}" 2> /dev/null
}

# Which of the workers, or the server, dies next, and after how long: random.
kill_loop() {
	local n victim
	for ((n = 0; n < kills; n++)); do
		sleep "0.$((RANDOM % 4))$((RANDOM % 10))$((RANDOM % 10))"
		victim=$((RANDOM % 3))
		if [ "$victim" = 2 ] && [ "$engine" = postgres ]; then
			"$here/pg" kill "$dir/server"
			"$here/pg" again "$dir/server" || return 1
		else
			victim=$((victim % 2))
			end "$victim"
			start "$victim"
		fi
	done
	sleep 0.3
}

count_together() {
	local i rc=0 jobs=()
	for i in 0 1 2 3; do
		"$drive" count "$uri" "n$i" "$increments" &
		jobs+=($!)
	done
	for i in "${jobs[@]}"; do
		wait "$i" || rc=1
	done
	"$drive" counted "$uri" $((4 * increments)) && return $rc
}

mkdir -p "$dir" && chmod 755 "$dir"
for engine in "${engines[@]}"; do
	mkdir -p "$dir/$engine"
	if [ "$engine" = postgres ]; then
		uri=$("$here/pg" start "$dir/server" durable) || { result 1 "a server for $engine" && continue; }
	else
		uri=sqlite:$dir/$engine/ledger.db
	fi
	"$drive" setup "$uri"
	start 0
	start 1
	kill_loop
	result $? "$engine: $kills kills"
	end 0
	end 1
	"$drive" check "$uri" "$dir/$engine" 2
	result $? "$engine: one key, one effect; limits hold; no key is stuck; the chains are whole"
	[ ! -s "$dir/$engine/work.log" ] || tail -n 5 "$dir/$engine/work.log" | sed 's/^/#   /'
	count_together
	result $? "$engine: four processes count to $((4 * increments)), exactly"
	[ "$engine" != postgres ] || "$here/pg" stop "$dir/server"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
