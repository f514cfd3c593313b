# SPDX-License-Identifier: Apache-2.0
#
# report.awk - a table of what one machine measured, and the same as JSON into the file `json`. Input: the lines of
# guest. Variables: label, json. Exit 1 when a limit is missed by more than its tolerance.
#
# The limits: what a process outside fences pays above bare, of what empty programs on the same hooks cost; what one
# inside pays, of what Landlock costs for the same rule, at depth 8; one program of Cordon's for open, write, close.

BEGIN {
	UNFENCED_MAX = 1.25
	FENCED_MAX = 1.0
	TOLERANCE = 0.05 # of the limit: what two builds of one kernel differ by
	NOISE = 20       # instructions, that a median may be off
	split("bare empty_open empty unfenced fenced fenced_read landlock landlock_read", scenarios)
}

$1 == "row" {
	value[$2, $3] = $4
	if (!($3 in seen)) {
		seen[$3] = 1
		rows[++n_rows] = $3
	}
}

$1 == "hook" {
	fired[$2] = fired[$2] sprintf("%s%s x%.0f", fired[$2] ? ", " : "", $3, $4 / 1000)
	hooks[$2]++
}

$1 == "spawn" { sample("spawn " $2, $4); if (NF > 4) sample("start " $2, $5) }

$1 == "phase" { for (i = 2; i < NF; i += 2) sample("phase " $i, $(i + 1)) }

function sample(name, number) {
	samples[name, ++count[name]] = number
}

# The median.
function middle(name,    i, j, k, v, a) {
	k = count[name]
	for (i = 1; i <= k; i++) {
		v = samples[name, i]
		for (j = i - 1; j >= 1 && a[j] > v; j--)
			a[j + 1] = a[j]
		a[j + 1] = v
	}
	return k ? a[int((k + 1) / 2)] : 0
}

function has(scenario, row) {
	return (scenario, row) in value
}

function added(scenario, row) {
	return value[scenario, row] - value["bare", row]
}

function cell(scenario, row) {
	return has(scenario, row) ? added(scenario, row) : "-"
}

function ratio(a, b, row) {
	return has(a, row) && has(b, row) && added(b, row) > NOISE ? sprintf("%.2f", added(a, row) / added(b, row)) : "-"
}

# Holds added(a) against max times added(b).
function limit(name, a, b, row, max,    allowed, verdict) {
	if (!has(a, row) || !has(b, row))
		return
	allowed = added(b, row) * max
	verdict = added(a, row) <= allowed ? "met" : added(a, row) <= allowed * (1 + TOLERANCE) + NOISE ? "within tolerance" : "MISSED"
	if (verdict == "MISSED")
		missed = 1
	limits[++n_limits] = sprintf("{\"limit\": \"%s\", \"row\": \"%s\", \"ratio\": %s, \"max\": %s, \"verdict\": \"%s\"}", name, row, added(b, row) ? added(a, row) / added(b, row) : 0, max, tolower(verdict))
	printf "  %-52s %-9s %6.2f of %.2f  %s\n", name, row, added(b, row) ? added(a, row) / added(b, row) : 0, max, verdict
}

function out(text) {
	printf "%s", text > json
}

function table(    i, row) {
	printf "\n%s: instructions a call; all but bare: added to bare\n", label
	printf "  %-9s %8s %7s %7s %9s %7s %11s %9s %9s | %8s %8s %8s\n", "row", "bare", "empty1", "empty", "unfenced", "fenced", "fenced_read", "landlock", "l._read", "unf/emp", "fen/ll", "fr/ll_r"
	for (i = 1; i <= n_rows; i++) {
		row = rows[i]
		printf "  %-9s %8d %7s %7s %9s %7s %11s %9s %9s | %8s %8s %8s\n", row, value["bare", row], cell("empty_open", row), cell("empty", row), cell("unfenced", row), cell("fenced", row), cell("fenced_read", row), cell("landlock", row), cell("landlock_read", row), ratio("unfenced", "empty", row), ratio("fenced", "landlock", row), ratio("fenced_read", "landlock_read", row)
	}
	for (row in fired)
		printf "  programs of Cordon's that run for an unfenced %s: %s\n", row, fired[row]
}

function commands(    base) {
	base = middle("spawn true")
	if (!base)
		return
	printf "  whole commands, virtual ms: fork+exec %.1f, bwrap %.1f, cordon run cold %.1f (%.1f to the command), with Cordon loaded %.1f (%.1f to the command)\n", base / 1000, middle("spawn bwrap") / 1000, middle("spawn cold") / 1000, middle("start cold") / 1000, middle("spawn warm") / 1000, middle("start warm") / 1000
	printf "  of bwrap: cold %.1f, loaded %.2f\n", middle("spawn cold") / middle("spawn bwrap"), middle("spawn warm") / middle("spawn bwrap")
	printf "  loading, virtual ms: open %.1f, choose hooks %.1f, relocate and load %.1f, of which the verifier %.1f (%d programs, %d steps)\n", middle("phase open") / 1000, middle("phase choose") / 1000, middle("phase load") / 1000, middle("phase verify") / 1000, middle("phase programs"), middle("phase steps")
}

function write_json(    i, s, sep, row, name) {
	out("{\"kernel\": \"" label "\", \"attach\": \"" (label ~ /fmodret/ ? "fmod_ret" : "lsm") "\", \"unit\": \"instructions per call\",\n \"rows\": [")
	for (i = 1; i <= n_rows; i++) {
		row = rows[i]
		out((i > 1 ? "," : "") "\n  {\"row\": \"" row "\"")
		for (s = 1; s in scenarios; s++)
			if (has(scenarios[s], row))
				out(", \"" scenarios[s] "\": " value[scenarios[s], row])
		out("}")
	}
	out("],\n \"limits\": [")
	for (i = 1; i <= n_limits; i++)
		out((i > 1 ? ",\n  " : "\n  ") limits[i])
	out("],\n \"unfenced_programs\": {")
	for (row in fired) {
		out(sep "\"" row "\": \"" fired[row] "\"")
		sep = ", "
	}
	out("},\n \"virtual_us\": {")
	sep = ""
	for (name in count) {
		out(sep "\"" name "\": " middle(name))
		sep = ", "
	}
	out("}}\n")
}

END {
	if (!n_rows)
		exit 1
	table()
	commands()
	print "  limits:"
	for (i = 1; i <= n_rows; i++)
		if (rows[i] ~ /^(write|read)-/)
			limit("unfenced, of empty programs", "unfenced", "empty", rows[i], UNFENCED_MAX)
	limit("fenced, of Landlock: write below the workdir", "fenced", "landlock", "write-8", FENCED_MAX)
	limit("fenced, of Landlock: read, nothing denied", "fenced", "landlock_read", "read-8", FENCED_MAX)
	limit("fenced, of Landlock: read, a subtree denied", "fenced_read", "landlock_read", "read-8", FENCED_MAX)
	if ("write-8" in fired) {
		verdict = hooks["write-8"] == 1 ? "met" : "MISSED"
		if (verdict == "MISSED")
			missed = 1
		printf "  %-52s %-9s %6d of 1     %s\n", "programs that run for an unfenced open+write+close", "write-8", hooks["write-8"], verdict
	}
	write_json()
	exit missed
}
