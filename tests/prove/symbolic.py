#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""
symbolic.py - shows properties of compiled BPF code for all inputs, by symbolic execution with Z3.

usage: symbolic.py OBJECT [NAME...]      OBJECT: tests/prove/properties.bpf.c, compiled as the kernel programs are

Every function of a section prove/NAME gets one argument: memory of which nothing is known. All of its paths are followed: a branch whose
both sides are possible is taken both ways. A property holds when no input makes the function return anything but 0; an access outside
of the argument, of the stack frame or of constants, an instruction that is not understood here, and a loop that does not end within
STEPS are failures. A counterexample is printed as the bytes of the argument that are not 0.

Prints a TAP line a property, and the counts. Exit: 0 all hold, 1 otherwise, 2 usage.
"""

import struct
import sys
import time

import z3

IN_SIZE, STACK, STEPS = 2048, 512, 2_000_000
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1


class Unproved(Exception):
    pass


# --- the object file ----------------------------------------------------------------------------------------------


class Object:
    """The sections, symbols and relocations of an ELF64 file."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise Unproved(f"{path}: no little-endian ELF64 file")
        offset, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        self.headers = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)]
        self.names = [self.text(self.headers[names], h[0]) for h in self.headers]
        self.symbols = []
        for h in self.headers:
            if h[1] == 2:
                strings = self.headers[h[6]]
                for at in range(h[4], h[4] + h[5], 24):
                    name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                    self.symbols.append((self.text(strings, name), section, value))

    def text(self, header, at):
        begin = header[4] + at
        return self.data[begin:self.data.index(b"\0", begin)].decode()

    def content(self, index):
        h = self.headers[index]
        return self.data[h[4]:h[4] + h[5]]

    def functions(self):
        return {name[6:]: i for i, name in enumerate(self.names) if name.startswith("prove/")}

    def relocations(self, index):
        """{offset: (section, value)} of what a section refers to."""
        found = {}
        for h in self.headers:
            if h[1] == 9 and h[7] == index:
                for at in range(h[4], h[4] + h[5], 16):
                    offset, info = struct.unpack_from("<QQ", self.data, at)
                    _, section, value = self.symbols[info >> 32]
                    found[offset] = (section, value)
        return found


# --- values: Python integers where known, bit vectors of 64 bits where not, pointers -------------------------------


class Pointer:
    """Into a region: "in", "stack" or a section's number. The offset is known but for constants."""

    def __init__(self, region, offset):
        self.region, self.offset = region, offset

    def __add__(self, n):
        return Pointer(self.region, n + self.offset if not isinstance(n, int) or not isinstance(self.offset, int) else (self.offset + n) & MASK64)


def known(v):
    return isinstance(v, int)


def bv(v, bits=64):
    return z3.BitVecVal(v, bits) if known(v) else v


def simple(v):
    """A bit vector that is a number becomes one."""
    v = z3.simplify(v)
    return v.as_long() if z3.is_bv_value(v) else v


def low(v, bits):
    if known(v):
        return v & ((1 << bits) - 1)
    return simple(z3.ZeroExt(64 - bits, z3.Extract(bits - 1, 0, v)))


def signed(v, bits):
    v &= (1 << bits) - 1
    return v - (1 << bits) if v >> (bits - 1) else v


class State:
    def __init__(self, pc, regs, stack):
        self.pc, self.regs, self.stack = pc, regs, stack

    def copy(self):
        return State(self.pc, list(self.regs), dict(self.stack))


ALU = {0x0: "add", 0x1: "sub", 0x2: "mul", 0x3: "div", 0x4: "or", 0x5: "and", 0x6: "lsh", 0x7: "rsh", 0x8: "neg", 0x9: "mod", 0xa: "xor",
       0xb: "mov", 0xc: "arsh", 0xd: "end"}
JUMP = {0x1: "eq", 0x2: "gt", 0x3: "ge", 0x4: "set", 0x5: "ne", 0x6: "sgt", 0x7: "sge", 0xa: "lt", 0xb: "le", 0xc: "slt", 0xd: "sle"}
SIZES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}


class Machine:
    def __init__(self, obj, section):
        self.obj = obj
        self.code = obj.content(section)
        self.relocations = obj.relocations(section)
        self.input = [z3.BitVec(f"in{i}", 8) for i in range(IN_SIZE)]
        self.solver = z3.SolverFor("QF_BV")
        self.assumed = {}  # what holds on this path, by identity: asked again, it needs no solver
        self.paths = self.steps = self.asked = 0

    # --- memory

    def byte(self, state, pointer, i):
        at = pointer.offset + i
        if pointer.region == "in":
            if not 0 <= at < IN_SIZE:
                raise Unproved(f"reads outside of its argument, at {at}")
            return state.stack.get(("in", at), self.input[at])
        if pointer.region == "stack":
            at = signed(at, 64)
            if at not in state.stack:
                raise Unproved(f"reads the stack at {at}, where nothing was written")
            return state.stack[at]
        data = self.obj.content(pointer.region)
        if not 0 <= at < len(data):
            raise Unproved(f"reads outside of a constant, at {at}")
        return z3.BitVecVal(data[at], 8)

    def load(self, state, pointer, size):
        if not isinstance(pointer, Pointer):
            raise Unproved("reads what is no pointer")
        if not known(pointer.offset):
            return self.load_table(pointer, size)
        parts = [self.byte(state, pointer, i) for i in range(size)]
        if isinstance(parts[0], tuple):  # a pointer that was kept there
            return parts[0][0]
        v = z3.Concat(*reversed(parts)) if size > 1 else parts[0]
        return simple(z3.ZeroExt(64 - 8 * size, v) if size < 8 else v)

    def load_table(self, pointer, size):
        """A constant at an unknown place: it must lie in the table for every input."""
        if pointer.region in ("in", "stack"):
            raise Unproved("reads at an offset that is not known")
        data = self.obj.content(pointer.region)
        if self.possible(z3.UGT(pointer.offset, len(data) - size)):
            raise Unproved("may read outside of a table")
        v = z3.BitVecVal(0, 64)
        for at in range(0, len(data) - size + 1):
            v = z3.If(pointer.offset == at, z3.BitVecVal(int.from_bytes(data[at:at + size], "little"), 64), v)
        return v

    def store(self, state, pointer, size, value):
        if not isinstance(pointer, Pointer) or pointer.region not in ("stack", "in") or not known(pointer.offset):
            raise Unproved("writes elsewhere than to its stack and its argument")
        if pointer.region == "in":
            if not 0 <= pointer.offset <= IN_SIZE - size or isinstance(value, Pointer):
                raise Unproved(f"writes outside of its argument, at {pointer.offset}")
            for i in range(size):
                state.stack["in", pointer.offset + i] = simple8(value, i)
            return
        at = signed(pointer.offset, 64)
        if not -STACK <= at <= -size:
            raise Unproved(f"writes outside of its stack frame, at {at}")
        for i in range(size):
            state.stack[at + i] = (value, i) if isinstance(value, Pointer) else simple8(value, i)

    # --- arithmetic

    def alu(self, op, a, b, bits):
        if op == "mov":
            return b if isinstance(b, Pointer) and bits == 64 else self.plain(b, bits)
        if isinstance(a, Pointer) and bits == 64 and op == "add":
            return a + b
        if isinstance(b, Pointer) and bits == 64 and op == "add":
            return b + a
        if isinstance(a, Pointer) and op == "sub" and known(b):
            return a + (-b & MASK64)
        a, b = self.plain(a, bits), self.plain(b, bits)
        if known(a) and known(b):
            return self.alu_known(op, a, b, bits)
        a, b = z3.Extract(bits - 1, 0, bv(a)), z3.Extract(bits - 1, 0, bv(b))
        shift = b & (bits - 1)
        r = {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "or": lambda: a | b, "and": lambda: a & b,
             "lsh": lambda: a << shift, "rsh": lambda: z3.LShR(a, shift), "arsh": lambda: a >> shift, "xor": lambda: a ^ b,
             "neg": lambda: -a}
        if op not in r:
            raise Unproved(f"arithmetic {op} of unknown values")
        r = r[op]()
        return simple(z3.ZeroExt(64 - bits, r) if bits < 64 else r)

    @staticmethod
    def alu_known(op, a, b, bits):
        shift, mask = b & (bits - 1), (1 << bits) - 1
        r = {"add": a + b, "sub": a - b, "mul": a * b, "or": a | b, "and": a & b, "lsh": a << shift, "rsh": a >> shift,
             "arsh": signed(a, bits) >> shift, "xor": a ^ b, "neg": -a, "div": a // b if b else 0, "mod": a % b if b else a}
        return r[op] & mask

    @staticmethod
    def plain(v, bits):
        if isinstance(v, Pointer):
            raise Unproved("does arithmetic with an address")
        return v if bits == 64 else low(v, bits)

    @staticmethod
    def swap(v, bits, big):
        v = low(v, bits)
        if not big:
            return v
        if known(v):
            return int.from_bytes(v.to_bytes(bits // 8, "little"), "big")
        parts = [z3.Extract(8 * i + 7, 8 * i, v) for i in range(bits // 8)]
        r = z3.Concat(*parts)
        return simple(z3.ZeroExt(64 - bits, r) if bits < 64 else r)

    def condition(self, op, a, b, bits):
        """True, False or a formula."""
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            other = b if isinstance(a, Pointer) else a
            if other == 0 and op in ("eq", "ne"):
                return op == "ne"
            raise Unproved("compares addresses")
        a, b = low(a, bits), low(b, bits)
        if known(a) and known(b):
            sa, sb = signed(a, bits), signed(b, bits)
            return {"eq": a == b, "ne": a != b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "set": a & b != 0, "sgt": sa > sb,
                    "sge": sa >= sb, "slt": sa < sb, "sle": sa <= sb}[op]
        a, b = z3.Extract(bits - 1, 0, bv(a)), z3.Extract(bits - 1, 0, bv(b))
        return {"eq": lambda: a == b, "ne": lambda: a != b, "gt": lambda: z3.UGT(a, b), "ge": lambda: z3.UGE(a, b),
                "lt": lambda: z3.ULT(a, b), "le": lambda: z3.ULE(a, b), "set": lambda: a & b != 0, "sgt": lambda: a > b,
                "sge": lambda: a >= b, "slt": lambda: a < b, "sle": lambda: a <= b}[op]()

    def possible(self, formula):
        self.asked += 1
        answer = self.solver.check(formula)
        if answer == z3.unknown:
            raise Unproved("the solver gave up")
        return answer == z3.sat

    # --- execution

    def run(self):
        """Follows all paths, depth first; the solver holds the conditions of the one that is followed."""
        self.follow(State(0, [0, Pointer("in", 0)] + [None] * 8 + [Pointer("stack", 0)], {}))

    def follow(self, state):
        while True:
            self.steps += 1
            if self.steps > STEPS:
                raise Unproved("does not end")
            op, regs, off, imm = struct.unpack_from("<BBhi", self.code, state.pc * 8)
            dst, src, at = regs & 15, regs >> 4, state.pc * 8
            state.pc += 1
            kind = op & 7
            if op == 0x95:
                return self.end(state)
            if op == 0x18:
                self.immediate(state, dst, imm, at)
            elif kind in (4, 7):
                self.arithmetic(state, op, dst, src, off, imm)
            elif kind == 1 and op & 0xe0 == 0x60:
                state.regs[dst] = self.load(state, self.address(state.regs[src], off), SIZES[op & 0x18])
            elif kind in (2, 3) and op & 0xe0 == 0x60:
                value = state.regs[src] if kind == 3 else imm & MASK64
                self.store(state, self.address(state.regs[dst], off), SIZES[op & 0x18], value)
            elif op == 0x05:
                state.pc += off
            elif kind in (5, 6) and op >> 4 in JUMP:
                if self.branch(state, op, dst, src, off, imm):
                    return None
            else:
                raise Unproved(f"instruction {op:#x} is not known here")

    def immediate(self, state, dst, imm, at):
        high, = struct.unpack_from("<i", self.code, state.pc * 8 + 4)
        state.pc += 1
        if at in self.relocations:
            section, value = self.relocations[at]
            state.regs[dst] = Pointer(section, value + (imm & MASK32))
        else:
            state.regs[dst] = (imm & MASK32) | (high & MASK32) << 32

    @staticmethod
    def address(base, off):
        return base + (off & MASK64 if off >= 0 else (1 << 64) + off) if isinstance(base, Pointer) and known(base.offset) else \
            Pointer(base.region, base.offset + off) if isinstance(base, Pointer) else base

    def arithmetic(self, state, op, dst, src, off, imm):
        bits, name = 64 if op & 7 == 7 else 32, ALU.get(op >> 4)
        if name is None or off:
            raise Unproved(f"arithmetic {op:#x} is not known here")
        if name == "end":
            state.regs[dst] = self.swap(state.regs[dst], imm, bool(op & 8) or bits == 64)
            return
        operand = state.regs[src] if op & 8 else imm & MASK64
        state.regs[dst] = self.alu(name, 0 if name == "mov" else state.regs[dst], operand, bits)

    def branch(self, state, op, dst, src, off, imm):
        """True when both sides were followed, which ends this path."""
        bits = 64 if op & 7 == 5 else 32
        operand = state.regs[src] if op & 8 else imm & MASK64
        taken = self.condition(JUMP[op >> 4], state.regs[dst], operand, bits)
        if isinstance(taken, bool):
            state.pc += off if taken else 0
            return False
        taken = z3.simplify(taken)
        against = z3.simplify(z3.Not(taken))
        if z3.is_true(taken) or taken.get_id() in self.assumed:
            yes, no = True, False
        elif z3.is_false(taken) or against.get_id() in self.assumed:
            yes, no = False, True
        else:
            yes = self.possible(taken)
            no = not yes or self.possible(against)  # the path itself is possible
        if yes != no:
            state.pc += off if yes else 0
            return False
        for way, formula in ((off, taken), (0, against)):
            other = state.copy()
            other.pc += way
            self.solver.push()
            self.solver.add(formula)
            self.assumed[formula.get_id()] = formula  # equal formulas are one object while it is kept
            self.follow(other)
            del self.assumed[formula.get_id()]
            self.solver.pop()
        return True

    def end(self, state):
        self.paths += 1
        value = low(state.regs[0], 32)
        wrong = value != 0
        if (wrong if known(value) else self.possible(wrong)):
            if not known(value):
                self.solver.add(wrong)
            self.solver.check()
            model = self.solver.model()
            found = {i: model.eval(b, model_completion=True).as_long() for i, b in enumerate(self.input)}
            raise Unproved("not so for the argument " + " ".join(f"{i}:{v:02x}" for i, v in found.items() if v))


def simple8(value, i):
    if known(value):
        return z3.BitVecVal(value >> 8 * i & 255, 8)
    return z3.simplify(z3.Extract(8 * i + 7, 8 * i, value))


def main():
    if len(sys.argv) < 2:
        sys.stderr.write(__doc__)
        return 2
    sys.setrecursionlimit(100000)
    obj = Object(sys.argv[1])
    functions = obj.functions()
    unknown = set(sys.argv[2:]) - set(functions)
    if unknown or not functions:
        print(f"symbolic.py: error: no such property: {' '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    passed = failed = 0
    for name, section in functions.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        machine, begun = Machine(obj, section), time.monotonic()
        try:
            machine.run()
            passed += 1
            print(f"ok {passed + failed} - {name}: all {machine.paths} paths, {machine.steps} steps, {machine.asked} questions, "
                  f"{time.monotonic() - begun:.1f} s", flush=True)
        except Unproved as e:
            failed += 1
            print(f"not ok {passed + failed} - {name}\n#   {e}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
