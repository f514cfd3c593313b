// SPDX-License-Identifier: GPL-2.0
/*
 * What an event costs at the least: a record of the size of Cordon's is reserved in a ring buffer and submitted, with
 * nothing in it but its number; and, beside it, a program that does nothing. For tests/bench/events. Readers are woken
 * as Cordon does it: once for so many bytes that wait, else they look by themselves.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "cordon/abi.h"

enum { NAMES = 64, WAKE_BYTES = 16384 };

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} bare_ring SEC(".maps");

__u64 bare_made, bare_lost;

SEC("cgroup/connect4")
int bare_connect(struct bpf_sock_addr *ctx)
{
	struct cordon_event *event;
	__u64 waiting;

	event = bpf_ringbuf_reserve(&bare_ring, sizeof(*event) + NAMES, 0);
	if (!event) {
		__sync_fetch_and_add(&bare_lost, 1);
		return 1;
	}
	event->seq = __sync_fetch_and_add(&bare_made, 1);
	waiting = bpf_ringbuf_query(&bare_ring, BPF_RB_AVAIL_DATA);
	bpf_ringbuf_submit(event,
			   waiting / WAKE_BYTES != (waiting + sizeof(*event) + NAMES) / WAKE_BYTES
				   ? BPF_RB_FORCE_WAKEUP
				   : BPF_RB_NO_WAKEUP);
	return 1;
}

SEC("cgroup/connect4")
int empty_connect(struct bpf_sock_addr *ctx)
{
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
