# SPDX-License-Identifier: Apache-2.0
"""
Is every number of every fence accounted for in a file that cordond's sink wrote? What the tests of long runs ask of it.

A number is there, once; or a gap record counts it; or it was on its way to the sink when cordond was killed. The last is said by the
event `adopt`: such a number lies behind the last that the file has from before, and before that event's own. All others are lost
in silence. The one event that a front had given away, and not noted yet, when it was killed comes twice: one for each adopt at most. usage: account.py FILE...   (the files of one sink, oldest first; exit 1 when something is)
"""
import json
import re
import sys

REORDER = 8  # processors deliver out of order by a few positions


class Fence:
    """What the file has of one fence."""

    def __init__(self):
        self.seen = set()
        self.twice = 0
        self.gaps = []     # first and last number, count
        self.windows = []  # before the first, and after the last, of numbers that may have been on their way
        self.highest = 0

    def add(self, event):
        seq = event["seq"]
        if event["op"] == "adopt":
            self.windows.append((self.highest - REORDER, seq))
        if event["op"] == "gap":
            first, last = re.fullmatch(r"\d+ lost among the numbers (\d+) to (\d+)", event["detail"]).groups()
            self.gaps.append((int(first), int(last), event["count"]))
        self.twice += seq in self.seen
        self.seen.add(seq)
        self.highest = max(self.highest, seq)

    def was_on_way(self, number):
        return any(a < number < b for a, b in self.windows)

    def missing(self):
        return [n for n in range(1, self.highest + 1) if n not in self.seen]

    def silent(self):
        """The numbers that nothing tells of."""
        holes = [n for n in self.missing() if not self.was_on_way(n)]
        for first, last, count in sorted(self.gaps, key=lambda gap: gap[1]):
            told = set([n for n in holes if first <= n <= last][:count])
            holes = [n for n in holes if n not in told]
        return holes


class Account:
    """Lines in the order of the file."""

    def __init__(self):
        self.fences = {}
        self.lines = self.sunk = 0

    def add(self, line):
        event = json.loads(line)
        if event["schema"] != "cordon.event/1":
            return  # of the chain
        self.lines += 1
        if event["op"] == "sink_gap":
            self.sunk += event["count"]
        elif int(event["fence"]["id"], 16):
            self.fences.setdefault(event["fence"]["id"], Fence()).add(event)

    def add_file(self, path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                self.add(line)

    def faults(self):
        """A line for each fence with something wrong. What the sink had no room for may be of any."""
        found, room = [], self.sunk
        for name, fence in sorted(self.fences.items()):
            silent = fence.silent()
            if len(silent) <= room and fence.twice <= len(fence.windows):
                room -= len(silent)
            else:
                found.append(f"fence {name}: {len(silent)} of {fence.highest} numbers lost in silence ({silent[:10]}), {fence.twice} twice, "
                             f"gap records {fence.gaps[-5:]}, on their way {fence.windows[-5:]}")
        return found

    def summary(self):
        of = self.fences.values()
        return (f"{self.lines} records of {len(of)} fences: {sum(f.highest for f in of)} numbers, {sum(len(f.missing()) for f in of)} of them missing; "
                f"gap records tell of {sum(g[2] for f in of for g in f.gaps)}, the sink's of {self.sunk}, and {sum(len(f.windows) for f in of)} times "
                f"some were on their way: {sum(f.was_on_way(n) for f in of for n in f.missing())}, and {sum(f.twice for f in of)} came twice")


def main():
    account = Account()
    for path in sys.argv[1:]:
        account.add_file(path)
    print(account.summary())
    faults = account.faults()
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
