// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of include/cordon/decide.h against a slow model, which was written from the documents: addresses are texts of 128
 * characters '0' and '1', prefixes are compared character by character, and every rule is a question of its own.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cordon/abi.h"
#include "cordon/decide.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

struct model {
	char bits[129];
	bool four;
};

static void model_bits(char *bits, const uint8_t *bytes, int n)
{
	for (int i = 0; i < 8 * n; i++)
		bits[i] = bytes[i / 8] >> (7 - i % 8) & 1 ? '1' : '0';
	bits[8 * n] = '\0';
}

/* Does it lie in a prefix that is written as people write it? */
static bool model_in(const struct model *m, const char *prefix)
{
	char text[64], want[129];
	uint8_t bytes[16];
	int n;

	MUST(sscanf(prefix, "%63[^/]/%d", text, &n) == 2);
	if (strchr(text, ':')) {
		MUST(inet_pton(AF_INET6, text, bytes) == 1);
		model_bits(want, bytes, 16);
		return !m->four && !strncmp(m->bits, want, (size_t)n);
	}
	MUST(inet_pton(AF_INET, text, bytes) == 1);
	model_bits(want, bytes, 4);
	return m->four && !strncmp(m->bits, want, (size_t)n);
}

static struct model model_of(const uint8_t *bytes, bool four)
{
	struct model m = { .four = four };

	model_bits(m.bits, bytes, four ? 4 : 16);
	if (!four && model_in(&m, "::ffff:0:0/96")) {
		memmove(m.bits, m.bits + 96, 33);
		m.four = true;
	}
	return m;
}

/* The IPv4 address that stands at a bit of an IPv6 address. */
static struct model model_embedded(const struct model *m, int at, bool inverted)
{
	struct model four = { .four = true };

	for (int i = 0; i < 32; i++)
		four.bits[i] = inverted ? (char)('0' + '1' - m->bits[at + i]) : m->bits[at + i];
	return four;
}

/* The IPv4 address behind a NAT64 prefix of so many bits; bits 64 to 71 are left out (RFC 6052, 2.2). */
static struct model model_nat64(const struct model *m, int prefix)
{
	struct model four = { .four = true };

	for (int i = 0, at = prefix; i < 32; at++)
		if (at < 64 || at > 71)
			four.bits[i++] = m->bits[at];
	return four;
}

static bool model_metadata(const struct model *m)
{
	static const struct {
		const char *prefix;
		int at;
		bool inverted;
	} forms[] = {
		{ "::/96", 96, false },	       { "::ffff:0:0:0/96", 96, false },
		{ "64:ff9b::/32", 96, false }, { "2002::/16", 16, false },
		{ "2001::/32", 96, true },     { "fe80::/10", 96, false },
	};
	static const char isatap[] = "0101111011111110";
	struct model four;

	if (m->four)
		return model_in(m, "169.254.0.0/16");
	if (model_in(m, "fd00:ec2::/32"))
		return true;
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		four = model_embedded(m, forms[i].at, forms[i].inverted);
		if (model_in(m, forms[i].prefix) && model_in(&four, "169.254.0.0/16"))
			return true;
	}
	for (int prefix = 48; prefix <= 64; prefix += 8) {
		four = model_nat64(m, prefix);
		if (model_in(m, "64:ff9b:1::/48") && model_in(&four, "169.254.0.0/16"))
			return true;
	}
	/* ISATAP: 000000ug00000000 5efe, then the address. */
	four = model_embedded(m, 96, false);
	return !strncmp(m->bits + 64, "000000", 6) && !strncmp(m->bits + 72, "00000000", 8) &&
	       !strncmp(m->bits + 80, isatap, 16) && model_in(&four, "169.254.0.0/16");
}

static bool model_loopback(const struct model *m)
{
	return m->four ? model_in(m, "127.0.0.0/8") || model_in(m, "0.0.0.0/8")
		       : model_in(m, "::1/128") || model_in(m, "::/128");
}

static bool model_port(const struct cordon_net *net, uint8_t proto, uint16_t port)
{
	for (unsigned int i = 0; i < net->n && i < CORDON_PORTS_PER_NET; i++) {
		const struct cordon_ports *p = &net->ports[i];

		if (p->proto && p->proto != proto)
			continue;
		for (uint32_t n = p->lo; n <= p->hi; n++)
			if (n == port)
				return true;
	}
	return false;
}

static bool model_gateway(const struct cordon_policy *policy, const struct cordon_addr *a,
			  uint8_t proto, uint16_t port)
{
	for (unsigned int i = 0; i < policy->n_gateways && i < CORDON_GATEWAYS_MAX; i++) {
		const struct cordon_gateway *g = &policy->gateway[i];

		if (g->addr.v6 == a->v6 && !memcmp(g->addr.b, a->b, 16) && g->port == port &&
		    g->proto == proto)
			return true;
	}
	return false;
}

/* With network.dns: gateway, names are asked at the resolver; what goes to another port 53 is led there. */
static bool model_resolver(const struct cordon_policy *policy, const struct cordon_addr *a,
			   uint16_t port)
{
	const struct cordon_gateway *r = &policy->resolver[a->v6];

	if (!policy->dns)
		return false;
	return port == 53 ||
	       (port && r->port == port && r->addr.v6 == a->v6 && !memcmp(r->addr.b, a->b, 16));
}

static bool model_allows(const struct cordon_policy *policy, const struct model *m,
			 const struct cordon_addr *a, uint8_t proto, uint16_t port,
			 const struct cordon_net *net)
{
	if (model_metadata(m) || (proto != 6 && proto != 17))
		return false;
	if (model_gateway(policy, a, proto, port) || model_resolver(policy, a, port))
		return true;
	if (net && model_port(net, proto, port) && (!model_loopback(m) || net->loopback))
		return true;
	if (model_in(m, "127.255.255.255/32") && policy->loopback != CORDON_LOOPBACK_ALLOW)
		return false;
	return model_loopback(m) && policy->loopback != CORDON_LOOPBACK_DENY &&
	       policy->loopback <= CORDON_LOOPBACK_ALLOW;
}

/* What the input is cut into; the flags make the rare cases frequent. */
struct input {
	uint8_t flags;
	uint8_t family;
	uint8_t proto;
	uint8_t pick;
	uint16_t port;
	uint8_t bytes[16];
	struct cordon_policy policy;
	struct cordon_net net;
};

/* Bytes that lie where something is decided. */
static void bend(struct input *in)
{
	static const char *const places[] = { "169.254.1.2",	 "127.0.0.1",	"0.0.0.1",
					      "169.253.255.255", "170.254.0.0", "10.0.0.1",
					      "126.0.0.1",	 "128.0.0.1" };
	static const uint8_t heads[][12] = {
		{ 0 },
		{ [10] = 0xff, 0xff },
		{ [8] = 0xff, 0xff },
		{ 0, 0x64, 0xff, 0x9b },
		{ 0, 0x64, 0xff, 0x9b, 0, 1 },
		{ 0xfe, 0x80, [10] = 0x5e, 0xfe },
		{ 0xfe, 0xbf },
		{ 0x20, 1, 0, 0 },
		{ 0xfd, 0, 0xe, 0xc2 },
		{ 0xfe, 0xc0 },
		{ 0x20, 1, 0, 1 },
	};
	uint8_t four[4];

	inet_pton(AF_INET, places[in->pick % 8], four);
	if (in->flags & 1)
		memcpy(in->bytes + (in->family & 1 ? 0 : 12), four, 4);
	if (in->flags & 2)
		memcpy(in->bytes, heads[in->pick / 8 % 11], 12);
	if (in->flags & 4 && in->pick & 0x80) {
		memcpy(in->bytes, heads[4], 6);
		for (int i = 0, at = 6 + in->pick / 8 % 4; i < 4; at++)
			if (at != 8)
				in->bytes[at] = four[i++];
	} else if (in->flags & 4) {
		in->bytes[0] = 0x20, in->bytes[1] = 2;
		memcpy(in->bytes + 2, four, 4);
	}
	if (in->flags & 8)
		for (int i = 12; i < 16; i++)
			in->bytes[i] = (uint8_t)~in->bytes[i];
	if (in->flags & 16)
		in->proto = in->proto & 1 ? 6 : 17;
	if (in->flags & 32)
		in->policy.n_gateways %= CORDON_GATEWAYS_MAX + 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { 0 };
	const struct cordon_net *net;
	struct cordon_addr a;
	struct model m;
	uint32_t rule;

	memcpy(&in, data, size < sizeof(in) ? size : sizeof(in));
	bend(&in);
	m = model_of(in.bytes, in.family & 1);
	if (in.family & 1)
		decide_addr4(&a, in.bytes);
	else
		decide_addr6(&a, in.bytes);
	if (in.flags & 64)
		in.policy.gateway[in.pick % CORDON_GATEWAYS_MAX] =
			(struct cordon_gateway){ .addr = a, .port = in.port, .proto = in.proto };
	net = in.flags & 128 ? &in.net : NULL;
	MUST(a.v6 == !m.four);
	MUST(!decide_is_metadata(&a) == !model_metadata(&m));
	MUST(!decide_is_loopback(&a) == !model_loopback(&m));
	rule = decide_net(&in.policy, &a, decide_class(&a), in.proto, in.port, net);
	MUST(!decide_allows(rule) == !model_allows(&in.policy, &m, &a, in.proto, in.port, net));
	MUST(!model_metadata(&m) || rule == CORDON_RULE_NET_METADATA);
	return 0;
}
