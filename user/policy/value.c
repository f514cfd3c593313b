// SPDX-License-Identifier: Apache-2.0
/*
 * See value.h. Addresses are read by inet_pton() alone: it takes no octal, hexadecimal or short
 * IPv4 forms and never asks a resolver.
 */
#include "policy/value.h"
#include "cordon/decide.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "conf/fault.h"

#define POLICY_NAME_MAX 64
#define LABEL_KEY_MAX 63
#define LABEL_VALUE_MAX 255

/* --- prefixes --------------------------------------------------------------------------------- */

/* The address bytes that count for the family. */
static const uint8_t *addr_bytes(const struct cordon_addr *addr)
{
	return addr->v6 ? addr->b : addr->b + 12;
}

unsigned int policy_addr_bits(const struct cordon_addr *addr)
{
	return addr->v6 ? 128 : 32;
}

/* The mask of byte i of a prefix. */
static uint8_t prefix_mask(unsigned int bits, unsigned int i)
{
	if (bits >= 8 * (i + 1))
		return 0xff;
	return bits <= 8 * i ? 0 : (uint8_t)(0xff00 >> (bits - 8 * i));
}

bool policy_prefix_covers(const struct cordon_addr *a, unsigned int a_bits,
			  const struct cordon_addr *b, unsigned int b_bits)
{
	if (a->v6 != b->v6 || a_bits > b_bits)
		return false;
	for (unsigned int i = 0; i * 8 < a_bits; i++)
		if ((addr_bytes(a)[i] ^ addr_bytes(b)[i]) & prefix_mask(a_bits, i))
			return false;
	return true;
}

bool policy_prefix_is_loopback(const struct cordon_addr *addr, unsigned int bits)
{
	return decide_is_loopback(addr) && bits >= (addr->v6 ? 127U : 8U);
}

bool policy_prefix_inherits(const struct cordon_addr *a, unsigned int a_bits,
			    const struct cordon_addr *b, unsigned int b_bits)
{
	return policy_prefix_covers(a, a_bits, b, b_bits) &&
	       (policy_prefix_is_loopback(a, a_bits) || !policy_prefix_is_loopback(b, b_bits));
}

int policy_prefix_compare(const struct cordon_addr *a, unsigned int a_bits,
			  const struct cordon_addr *b, unsigned int b_bits)
{
	int order;

	if (a->v6 != b->v6)
		return a->v6 ? 1 : -1;
	order = memcmp(a->b, b->b, sizeof(a->b));
	if (order)
		return order;
	return (a_bits > b_bits) - (a_bits < b_bits);
}

static void prefix_clear_host_bits(struct cordon_addr *addr, unsigned int bits)
{
	uint8_t *b = addr->v6 ? addr->b : addr->b + 12;

	for (unsigned int i = 0; i * 8 < policy_addr_bits(addr); i++)
		b[i] &= prefix_mask(bits, i);
}

bool policy_prefix_is_canonical(const struct cordon_addr *addr, unsigned int bits)
{
	struct cordon_addr cleared = *addr;

	if (bits > policy_addr_bits(addr))
		return false;
	prefix_clear_host_bits(&cleared, bits);
	return !memcmp(&cleared, addr, sizeof(cleared));
}

struct policy_prefix_text policy_prefix_format(const struct cordon_addr *addr, unsigned int bits)
{
	struct policy_prefix_text text = { "" };
	size_t used;

	inet_ntop(addr->v6 ? AF_INET6 : AF_INET, addr_bytes(addr), text.s, sizeof(text.s));
	used = strlen(text.s);
	if (bits != policy_addr_bits(addr))
		snprintf(text.s + used, sizeof(text.s) - used, "/%u", bits);
	return text;
}

/*
 * What is always shut, as decide_is_metadata() judges single addresses (a test holds the two
 * together): those whose bits under mask are value. A prefix lies inside when all bits of the mask
 * are bits of the prefix.
 */
struct metadata_form {
	uint8_t value[16], mask[16];
};

static const struct metadata_form metadata_forms[] = {
	/* fd00:ec2::/32, where fd00:ec2::254 lies */
	{ { 0xfd, 0, 0x0e, 0xc2 }, { [0 ... 3] = 0xff } },
	/* fe80::/10 with the low bits of the IPv4 address (fe80::a9fe:a9fe) */
	{ { 0xfe, 0x80, [12] = 0xa9, 0xfe }, { 0xff, 0xc0, [12] = 0xff, 0xff } },
	/* ::a.b.c.d (compatible), ::ffff:a.b.c.d (mapped), ::ffff:0:a.b.c.d (translated) */
	{ { [12] = 0xa9, 0xfe }, { [0 ... 13] = 0xff } },
	{ { [10] = 0xff, 0xff, 0xa9, 0xfe }, { [0 ... 13] = 0xff } },
	{ { [8] = 0xff, 0xff, [12] = 0xa9, 0xfe }, { [0 ... 13] = 0xff } },
	/* 64:ff9b::/96 and 64:ff9b:1::/48 (NAT64); there with prefixes of 48, 56 and 64 bits, too */
	{ { 0, 0x64, 0xff, 0x9b, [12] = 0xa9, 0xfe }, { [0 ... 3] = 0xff, [12] = 0xff, 0xff } },
	{ { 0, 0x64, 0xff, 0x9b, 0, 1, 0xa9, 0xfe }, { [0 ... 7] = 0xff } },
	{ { 0, 0x64, 0xff, 0x9b, 0, 1, 0, 0xa9, [9] = 0xfe },
	  { [0 ... 5] = 0xff, [7] = 0xff, [9] = 0xff } },
	{ { 0, 0x64, 0xff, 0x9b, 0, 1, [9] = 0xa9, 0xfe }, { [0 ... 5] = 0xff, [9] = 0xff, 0xff } },
	/* 2002:a.b.c.d:: (6to4), 2001::/32 with the client inverted at the end (Teredo) */
	{ { 0x20, 0x02, 0xa9, 0xfe }, { [0 ... 3] = 0xff } },
	{ { 0x20, 0x01, [12] = 0x56, 0x01 }, { [0 ... 3] = 0xff, [12] = 0xff, 0xff } },
	/* *:0:5efe:a.b.c.d and its kin (ISATAP) */
	{ { [10] = 0x5e, 0xfe, 0xa9, 0xfe }, { [8] = 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff } },
};

static bool metadata_form_holds(const struct metadata_form *form, const struct cordon_addr *addr,
				unsigned int bits)
{
	for (unsigned int i = 0; i < 16; i++)
		if ((form->mask[i] & ~prefix_mask(bits, i)) ||
		    ((addr->b[i] ^ form->value[i]) & form->mask[i]))
			return false;
	return true;
}

bool policy_prefix_is_metadata(const struct cordon_addr *addr, unsigned int bits)
{
	if (!addr->v6)
		return bits >= 16 && addr->b[12] == 169 && addr->b[13] == 254;
	for (size_t i = 0; i < ARRAY_SIZE(metadata_forms); i++)
		if (metadata_form_holds(&metadata_forms[i], addr, bits))
			return true;
	return false;
}

/* --- addresses -------------------------------------------------------------------------------- */

#define NAMES_ARE_NOT_RESOLVED "names are not resolved"
#define GIVE_AN_ADDRESS "give an address, e.g. 127.0.0.1:8800; " NAMES_ARE_NOT_RESOLVED

/* A decimal number without sign, space or leading zero; -EINVAL for all else or beyond max. */
static int number_parse(const char *text, unsigned int max, unsigned int *ret_number)
{
	unsigned int number = 0;

	if (!*text || (text[0] == '0' && text[1]))
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		number = number * 10 + (unsigned int)(*text - '0');
		if (number > max)
			return -EINVAL;
	}
	*ret_number = number;
	return 0;
}

/* Turns ::ffff:a.b.c.d into a.b.c.d; what counts from here on is the IPv4 address. */
static bool addr_unmap(struct cordon_addr *addr)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

	if (!addr->v6 || memcmp(addr->b, mapped, sizeof(mapped)) != 0)
		return false;
	addr->v6 = 0;
	memset(addr->b, 0, 12);
	return true;
}

static bool text_is_name(const char *text)
{
	bool letter = false;

	for (const char *p = text; *p; p++) {
		if (*p == ':' || *p == '/' || *p == '%')
			return false;
		letter |= isalpha((unsigned char)*p) || *p == '*' || *p == '_' || (*p & 0x80);
	}
	return letter;
}

/* One address as spelled: IPv4-mapped ones are still IPv6. */
static int addr_parse(const char *text, struct cordon_addr *ret_addr, struct error *error)
{
	memset(ret_addr, 0, sizeof(*ret_addr));
	if (inet_pton(AF_INET, text, ret_addr->b + 12) == 1)
		return 0;
	memset(ret_addr, 0, sizeof(*ret_addr));
	ret_addr->v6 = 1;
	if (inet_pton(AF_INET6, text, ret_addr->b) == 1)
		return 0;
	if (text_is_name(text))
		return error_set(error, EINVAL,
				 "`%s` is a name: give an address; " NAMES_ARE_NOT_RESOLVED,
				 conf_quote(text).s);
	if (strchr(text, '%'))
		return error_set(error, EINVAL, "`%s` has a zone (%%); give an address without one",
				 conf_quote(text).s);
	return error_set(error, EINVAL, "`%s` is not an IPv4 or IPv6 address", conf_quote(text).s);
}

int policy_value_prefix(const char *text, struct cordon_addr *ret_addr, uint8_t *ret_bits,
			struct error *error)
{
	_cleanup_free_ char *copy = NULL;
	char *slash;
	unsigned int bits;
	struct cordon_addr cleared;

	if (strstr(text, "://"))
		return error_set(error, EINVAL, "`%s` is a URL; give an address",
				 conf_quote(text).s);
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	slash = strchr(copy, '/');
	if (slash)
		*slash = '\0';
	if (addr_parse(copy, ret_addr, error) < 0)
		return -EINVAL;
	bits = policy_addr_bits(ret_addr);
	if (slash && number_parse(slash + 1, bits, &bits) < 0)
		return error_set(error, EINVAL, "`%s`: after / comes a number of bits, 0 to %u",
				 conf_quote(text).s, policy_addr_bits(ret_addr));
	if (bits >= 96 && addr_unmap(ret_addr))
		bits -= 96;
	cleared = *ret_addr;
	prefix_clear_host_bits(&cleared, bits);
	if (memcmp(&cleared, ret_addr, sizeof(cleared)) != 0)
		return error_set(error, EINVAL, "`%s` has bits set beyond the prefix; write %s",
				 conf_quote(text).s, policy_prefix_format(&cleared, bits).s);
	*ret_bits = (uint8_t)bits;
	return 0;
}

/* What stands there is no ADDRESS:PORT: is it a name, an address alone, or neither? */
static int gateway_fault_no_port(const char *text, struct error *error)
{
	struct cordon_addr addr;

	if (text_is_name(text))
		return error_set(error, EINVAL, GIVE_AN_ADDRESS);
	if (addr_parse(text, &addr, NULL) == 0)
		return error_set(error, EINVAL, "the port is missing: %s:PORT", text);
	return error_set(error, EINVAL, "`%s` is not ADDRESS:PORT, e.g. 127.0.0.1:8800",
			 conf_quote(text).s);
}

/* Splits "HOST:PORT" or "[HOST]:PORT" in place. */
static int gateway_split(char *text, char **ret_host, char **ret_port, struct error *error)
{
	char *colon = strrchr(text, ':'), *bracket = strchr(text, ']');

	if (strstr(text, "://"))
		return error_set(error, EINVAL,
				 "give an address and port without a scheme, e.g. 127.0.0.1:8800");
	if (text[0] == '[') {
		if (!bracket || bracket[1] != ':')
			return error_set(
				error, EINVAL,
				"give an IPv6 address as \"[ADDRESS]:PORT\", e.g. \"[::1]:8800\"");
		*bracket = '\0';
		*ret_host = text + 1;
		*ret_port = bracket + 2;
		return 0;
	}
	if (colon && strchr(text, ':') != colon)
		return error_set(error, EINVAL,
				 "give an IPv6 address in brackets, e.g. \"[::1]:8800\"");
	if (!colon)
		return gateway_fault_no_port(text, error);
	*colon = '\0';
	*ret_host = text;
	*ret_port = colon + 1;
	return 0;
}

bool policy_addr_is_unicast(const struct cordon_addr *addr)
{
	static const struct cordon_addr none, none6 = { .v6 = 1 };

	if (!memcmp(addr, &none, sizeof(none)) || !memcmp(addr, &none6, sizeof(none6)))
		return false;
	return addr->v6 ? addr->b[0] != 0xff : addr->b[12] < 224;
}

int policy_value_gateway(const char *text, struct cordon_gateway *ret_gateway, struct error *error)
{
	_cleanup_free_ char *copy = strdup(text);
	char *host = NULL, *port_text = NULL;
	unsigned int port;
	struct cordon_addr *addr = &ret_gateway->addr;

	if (!copy)
		return -ENOMEM;
	memset(ret_gateway, 0, sizeof(*ret_gateway));
	if (gateway_split(copy, &host, &port_text, error) < 0)
		return -EINVAL;
	if (text_is_name(host))
		return error_set(error, EINVAL, GIVE_AN_ADDRESS);
	if (addr_parse(host, addr, error) < 0)
		return -EINVAL;
	if (number_parse(port_text, 65535, &port) < 0 || port == 0)
		return error_set(error, EINVAL, "port `%s` is not a number from 1 to 65535",
				 conf_quote(port_text).s);
	addr_unmap(addr);
	if (policy_prefix_is_metadata(addr, policy_addr_bits(addr)))
		return error_set(error, EINVAL,
				 "can never match: the metadata service is always shut");
	if (!policy_addr_is_unicast(addr))
		return error_set(error, EINVAL,
				 "can never match: no TCP connection to %s is possible",
				 policy_prefix_format(addr, policy_addr_bits(addr)).s);
	ret_gateway->port = (uint16_t)port;
	ret_gateway->proto = IPPROTO_TCP;
	return 0;
}

int policy_value_ports(const char *text, struct cordon_ports *ret_ports, struct error *error)
{
	_cleanup_free_ char *copy = strdup(text);
	char *dash = copy ? strchr(copy, '-') : NULL;
	unsigned int lo, hi;

	if (!copy)
		return -ENOMEM;
	if (dash)
		*dash = '\0';
	if (number_parse(copy, 65535, &lo) < 0 || lo == 0)
		return error_set(error, EINVAL, "`%s` is not a port (1 to 65535) or a range N-M",
				 conf_quote(text).s);
	hi = lo;
	if (dash && (number_parse(dash + 1, 65535, &hi) < 0 || hi == 0))
		return error_set(error, EINVAL, "`%s` is not a port (1 to 65535) or a range N-M",
				 conf_quote(text).s);
	if (lo > hi)
		return error_set(error, EINVAL, "can never match: write %u-%u", hi, lo);
	if (dash && lo == hi)
		return error_set(error, EINVAL, "a range of one port: write %u", lo);
	ret_ports->lo = (uint16_t)lo;
	ret_ports->hi = (uint16_t)hi;
	return 0;
}

/* --- quantities ------------------------------------------------------------------------------- */

/* A unit of a kind of quantity, and what one of it is. */
struct unit {
	enum policy_type type;
	const char *text;
	uint64_t factor;
};

/* The larger ones first: ranges are told in the largest that fits. */
static const struct unit units[] = {
	{ POLICY_TYPE_PROCESSORS, "", 1000 },  { POLICY_TYPE_NUMBER, "", 1 },
	{ POLICY_TYPE_SIZE, "T", 1ULL << 40 }, { POLICY_TYPE_SIZE, "G", 1ULL << 30 },
	{ POLICY_TYPE_SIZE, "M", 1ULL << 20 }, { POLICY_TYPE_SIZE, "K", 1ULL << 10 },
	{ POLICY_TYPE_SIZE, "", 1 },	       { POLICY_TYPE_TIME, "d", 86400000 },
	{ POLICY_TYPE_TIME, "h", 3600000 },    { POLICY_TYPE_TIME, "m", 60000 },
	{ POLICY_TYPE_TIME, "s", 1000 },
};

static const char *quantity_form(enum policy_type type)
{
	switch (type) {
	case POLICY_TYPE_PROCESSORS:
		return "a number of processors with at most three decimal places, as 1.5";
	case POLICY_TYPE_SIZE:
		return "a number of bytes as N, NK, NM, NG or NT";
	case POLICY_TYPE_TIME:
		return "a time as Ns, Nm, Nh or Nd";
	default:
		return "a whole number";
	}
}

struct quantity_text {
	char s[32];
};

/* As it would be written: in the largest unit that it is a multiple of. */
static struct quantity_text quantity_format(enum policy_type type, uint64_t value)
{
	struct quantity_text text = { "" };
	size_t i = 0;

	if (type == POLICY_TYPE_PROCESSORS && value % 1000) {
		snprintf(text.s, sizeof(text.s), "%g", (double)value / 1000);
		return text;
	}
	while (i < ARRAY_SIZE(units) - 1 && (units[i].type != type || value % units[i].factor))
		i++;
	snprintf(text.s, sizeof(text.s), "%llu%s", (unsigned long long)(value / units[i].factor),
		 units[i].text);
	return text;
}

/* Digits from *text on, which moves behind them; false when there is none, or too many. */
static bool digits_take(const char **text, unsigned int max, uint64_t *ret_value)
{
	unsigned int n = 0;

	for (*ret_value = 0; **text >= '0' && **text <= '9'; (*text)++) {
		if (++n > max)
			return false;
		*ret_value = *ret_value * 10 + (uint64_t)(**text - '0');
	}
	return n > 0;
}

/* Thousandths behind the point. */
static bool fraction_take(const char **text, uint64_t *ret_milli)
{
	const char *from = ++*text;

	if (!digits_take(text, 3, ret_milli))
		return false;
	for (ptrdiff_t n = *text - from; n < 3; n++)
		*ret_milli *= 10;
	return true;
}

static bool quantity_read(enum policy_type type, const char *text, uint64_t *ret_value)
{
	uint64_t whole, milli = 0;

	/* 18 digits and a factor need not fit; what overflows is beyond every range. */
	if (!digits_take(&text, 18, &whole))
		return false;
	if (type == POLICY_TYPE_PROCESSORS && *text == '.' && !fraction_take(&text, &milli))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (units[i].type != type || strcmp(units[i].text, text) != 0)
			continue;
		if (__builtin_mul_overflow(whole, units[i].factor, ret_value) ||
		    __builtin_add_overflow(*ret_value, milli, ret_value))
			*ret_value = UINT64_MAX;
		return true;
	}
	return false;
}

int policy_value_quantity(enum policy_type type, const char *text, uint64_t least, uint64_t most,
			  uint64_t *ret_value, struct error *error)
{
	uint64_t value;

	if (!quantity_read(type, text, &value))
		return error_set(error, EINVAL, "expects %s, not `%s`", quantity_form(type),
				 conf_quote(text).s);
	if (value < least || value > most)
		return error_set(error, EINVAL, "%s is outside %s to %s", conf_quote(text).s,
				 quantity_format(type, least).s, quantity_format(type, most).s);
	*ret_value = value;
	return 0;
}

/* --- paths and names -------------------------------------------------------------------------- */

static bool text_has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	return false;
}

/* Appends the component p[0..n) to path; "." and empty ones say nothing. */
static int path_append(char *path, size_t *used, const char *p, size_t n, struct error *error)
{
	if (n == 0 || (n == 1 && p[0] == '.'))
		return 0;
	if (n == 2 && p[0] == '.' && p[1] == '.')
		return error_set(error, EINVAL, "`..` in a path; write the path that is meant");
	path[(*used)++] = '/';
	memcpy(path + *used, p, n);
	*used += n;
	return 0;
}

int policy_value_path(const char *text, char **ret_path, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	size_t used = 0, n;

	if (text[0] != '/')
		return error_set(error, EINVAL, "`%s` is not an absolute path; begin with /",
				 conf_quote(text).s);
	if (text_has_control(text))
		return error_set(error, EINVAL, "a control character in a path");
	path = malloc(strlen(text) + 2);
	if (!path)
		return -ENOMEM;
	for (const char *p = text; *p; p += n) {
		p++;
		n = strcspn(p, "/");
		if (path_append(path, &used, p, n, error) < 0)
			return -EINVAL;
	}
	if (used == 0)
		path[used++] = '/';
	path[used] = '\0';
	*ret_path = TAKE_PTR(path);
	return 0;
}

bool policy_path_is_canonical(const char *path)
{
	const char *p = path;
	size_t n;

	if (path[0] != '/' || strlen(path) > CONF_STRING_MAX || text_has_control(path))
		return false;
	while (path[1] && *p) {
		p++;
		n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
	}
	return true;
}

static bool text_is_word(const char *text, const char *marks, size_t max)
{
	size_t n = strlen(text);

	if (n == 0 || n > max || !isalnum((unsigned char)text[0]) || (text[0] & 0x80))
		return false;
	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0x80) ||
		    (!isalnum((unsigned char)text[i]) && !strchr(marks, text[i])))
			return false;
	return true;
}

int policy_value_name(const char *text, struct error *error)
{
	if (text_is_word(text, "._-", POLICY_NAME_MAX))
		return 0;
	return error_set(error, EINVAL,
			 "`%s` is not a name: 1 to %d letters, digits, `.`, `_`, `-`, the first a "
			 "letter or digit",
			 conf_quote(text).s, POLICY_NAME_MAX);
}

int policy_value_env_name(const char *text, struct error *error)
{
	static const char allowed[] = "0123456789_"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

	if (text[0] && !strchr("0123456789", text[0]) && !text[strspn(text, allowed)])
		return 0;
	return error_set(
		error, EINVAL,
		"`%s` is not the name of a variable: letters, digits and `_`, no digit first",
		conf_quote_name(text).s);
}

int policy_value_scope(const char *text, struct error *error)
{
	if (text_is_word(text, "._:-", POLICY_SCOPE_MAX))
		return 0;
	return error_set(error, EINVAL,
			 "`%s` is not a scope: 1 to %d letters, digits, `.`, `_`, `:`, `-`, e.g. "
			 "refund:create",
			 conf_quote(text).s, POLICY_SCOPE_MAX);
}

int policy_value_label(const char *key, const char *value, struct error *error)
{
	if (!text_is_word(key, "._-/", LABEL_KEY_MAX))
		return error_set(error, EINVAL,
				 "`%s` is not a label: 1 to %d letters, digits, `.`, `_`, `-`, "
				 "`/`, the first a letter or digit",
				 conf_quote(key).s, LABEL_KEY_MAX);
	if (strlen(value) > LABEL_VALUE_MAX)
		return error_set(error, EINVAL, "longer than %d bytes", LABEL_VALUE_MAX);
	if (text_has_control(value))
		return error_set(error, EINVAL, "a control character in a label");
	return 0;
}
