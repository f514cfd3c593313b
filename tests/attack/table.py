# SPDX-License-Identifier: Apache-2.0
"""
The form of a row, and the list that all rows are in. Imported by the driver (outside) and by the
executor (inside), so that both speak of the same row by its number. No privilege; no side effects.
"""

import errno

ROWS = []


class Row:
    """
    One attack, or one operation that must stay allowed.

    case, name   which case of the field, and which variant of it
    attack(a)    inside: does it; raises OSError when refused; may return data for the effect
    effect       outside: did it happen? effect(arena, a, result) -> bool. Judged by bytes, stat, packets
                 and what listeners received, never by the errno
    errnos       what a refused attack gets, in enforce mode
    event_errno  what Cordon said, where the kernel makes another error of it for the caller
    events       matchers of the deny events, exactly these, in enforce mode; see ev()
    twin(a)      inside: the legal neighbour; must not raise, must cause no deny event
    prep         outside: prep(arena, a) before each part
    also         outside: also(arena, a, result) -> complaint or None, after the attack in enforce mode
    lacking      errnos of a control that mean that the kernel has no such thing: the row is skipped
    audit        "would_deny": the effect happens and is reported; "deny": shut in audit mode too
    absent       the fence has a namespace of its own where the target is not: refused in both modes, and nothing to report
    allowed      not an attack: attack is the operation that must succeed, without an event
    hooks        programs whose removal this row must notice (run.py --mutations); "A+B": of both together
    gap          why this version does not hold it (docs/threat-model.md, docs/limits.md): a failure is a skip that says so
    roots        further directories outside that the default effect watches
    fence        "run", the fence that most rows share; "lists", with lists of what may be read and executed; "attached",
                 put around the executor after it opened what `held` names
    held         attached: names of files that the executor opens before: {held}/NAME, see inside.hold()
    labels       labels of the matrix in which the row runs; outside a matrix always. Empty: all
    """

    def __init__(self, case, name, attack, **kw):
        self.case, self.name, self.attack = case, name, attack
        self.effect = kw.pop("effect", None)
        self.errnos = kw.pop("errnos", (errno.EPERM,))
        self.event_errno = kw.pop("event_errno", None)
        self.events = kw.pop("events", ())
        self.twin = kw.pop("twin", None)
        self.prep = kw.pop("prep", None)
        self.also = kw.pop("also", None)
        self.lacking = kw.pop("lacking", ())
        self.audit = kw.pop("audit", "would_deny")
        self.allowed = kw.pop("allowed", False)
        self.hooks = kw.pop("hooks", ())
        self.roots = kw.pop("roots", ())
        self.gap = kw.pop("gap", None)
        self.absent = kw.pop("absent", False)
        if self.absent:
            self.audit = "deny"
        self.fence = kw.pop("fence", "run")
        self.held = kw.pop("held", ())
        self.labels = kw.pop("labels", ())
        assert not kw, kw
        self.number = len(ROWS)
        assert self.allowed or ((bool(self.events) != self.absent) and self.twin), f"{case} {name}: needs events and a twin"
        ROWS.append(self)

    def __str__(self):
        return f"{self.case} {self.name}"


def attack(case, name, do, **kw):
    return Row(case, name, do, **kw)


def allowed(case, name, do, **kw):
    return Row(case, name, do, allowed=True, **kw)


def ev(op, rule, **keys):
    """
    Matches one deny event. keys: dotted path in the event with "__" for ".", e.g. file__path; values are
    compared as they are, text is first filled in from the context ({out}, {wd}, ...). path stands for
    file__path, path2 for file__path2, the rest without "__" for net__KEY. count: how many such events, a range; with 0 in it there may be none.
    """
    return {"op": op, "rule": rule, "keys": keys}


class Context:
    """What a part of a row gets: directories of its own, a token that is nobody else's, the addresses."""

    def __init__(self, values):
        self.values = values

    def __getattr__(self, name):
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def fill(self, text):
        return text.format(**self.values) if isinstance(text, str) else text
