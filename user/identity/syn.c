// SPDX-License-Identifier: Apache-2.0
/*
 * What a SYN says, and whether it was said before. Pure functions over bytes of a peer: every length is checked, and
 * what is not understood is no mark.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "identity/wire.h"

enum { IPV4_MIN = 20, IPV6_SIZE = 40, TCP_MIN = 20, PROTO_TCP = 6, SYN = 0x02, ACK = 0x10 };

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Steps over the IP header. Returns the TCP header, or NULL. */
static const uint8_t *ip_skip(const uint8_t *p, size_t *size)
{
	size_t head;

	if (*size < IPV4_MIN)
		return NULL;
	if (p[0] >> 4 == 4) {
		head = (size_t)(p[0] & 15) * 4;
		if (head < IPV4_MIN || p[9] != PROTO_TCP)
			return NULL;
	} else if (p[0] >> 4 == 6) {
		head = IPV6_SIZE; /* with extension headers it is none that a fence sends */
		if (*size < IPV6_SIZE || p[6] != PROTO_TCP)
			return NULL;
	} else {
		return NULL;
	}
	if (*size < head)
		return NULL;
	*size -= head;
	return p + head;
}

static bool is_mark(const uint8_t *option, size_t size)
{
	return option[0] == CORDON_PEER_KIND && size == sizeof(struct cordon_peer_option) &&
	       (option[2] << 8 | option[3]) == CORDON_PEER_EXID;
}

/* The one mark among the options. */
static int options_find(const uint8_t *p, size_t size, struct cordon_peer_option *ret_option)
{
	int found = 0;

	while (size) {
		size_t n;

		if (*p == 0) /* end of list */
			break;
		if (*p == 1) { /* padding */
			p++;
			size--;
			continue;
		}
		if (size < 2)
			return -ENOENT;
		n = p[1];
		if (n < 2 || n > size)
			return -ENOENT;
		if (is_mark(p, n)) {
			memcpy(ret_option, p, sizeof(*ret_option));
			found++;
		}
		p += n;
		size -= n;
	}
	return found == 1 ? 0 : -ENOENT;
}

int identity_parse_syn(const void *headers, size_t size, struct identity_syn *ret_syn)
{
	const struct cordon_peer_option *o = &ret_syn->option;
	const uint8_t *tcp = ip_skip(headers, &size);
	size_t head;

	if (!tcp || size < TCP_MIN)
		return -ENOENT;
	head = (size_t)(tcp[12] >> 4) * 4;
	if (head < TCP_MIN || head > size || (tcp[13] & (SYN | ACK)) != SYN)
		return -ENOENT;
	if (options_find(tcp + TCP_MIN, head - TCP_MIN, &ret_syn->option))
		return -ENOENT;
	ret_syn->isn = be32(tcp + 4);
	ret_syn->slot = (uint32_t)o->slot[0] << 8 | o->slot[1];
	ret_syn->count = be32(o->count);
	return 0;
}

bool identity_window_take(struct identity_window *window, uint32_t count)
{
	_Atomic uint32_t *place = &window->seen[count % IDENTITY_WINDOW];
	uint32_t seen = atomic_load(place);

	/* The last number of all has no value of its own: one mark in four billion is none. */
	if (count == UINT32_MAX)
		return false;
	do
		if (seen && (int32_t)(count + 1 - seen) <= 0)
			return false;
	while (!atomic_compare_exchange_weak(place, &seen, count + 1));
	return true;
}

void identity_window_close(struct identity_window *window, uint32_t next)
{
	for (uint32_t back = 1; back <= IDENTITY_WINDOW && back <= next; back++)
		atomic_store(&window->seen[(next - back) % IDENTITY_WINDOW], next - back + 1);
}

static bool text_ends(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

/* Rules without their end, or prefixes longer than an address, could be read past. */
static bool reach_is_sound(const struct identity *i)
{
	if (i->n_allow > IDENTITY_ALLOW_MAX || i->domains_size > IDENTITY_DOMAINS_SIZE ||
	    (i->domains_size && i->domains[i->domains_size - 1]))
		return false;
	for (uint32_t n = 0; n < i->n_allow; n++)
		if (i->allow[n].addr.v6 > 1 || i->allow[n].bits > (i->allow[n].addr.v6 ? 128 : 32))
			return false;
	return true;
}

bool identity_is_sound(const struct identity *i)
{
	if (!i->fence_id || i->n_scopes > IDENTITY_SCOPES_MAX)
		return false;
	for (uint32_t n = 0; n < i->n_scopes; n++)
		if (!text_ends(i->scopes[n], sizeof(i->scopes[n])))
			return false;
	return reach_is_sound(i) && text_ends(i->tenant, sizeof(i->tenant)) &&
	       text_ends(i->subject, sizeof(i->subject)) && text_ends(i->task, sizeof(i->task)) &&
	       text_ends(i->fence_name, sizeof(i->fence_name)) &&
	       text_ends(i->policy, sizeof(i->policy)) &&
	       text_ends(i->container, sizeof(i->container)) && text_ends(i->node, sizeof(i->node));
}
