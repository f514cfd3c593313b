// SPDX-License-Identifier: Apache-2.0
/*
 * The policy library: what a text becomes in the model and in the image, that the longest match of the image gives
 * what the rules say, that no damaged image is accepted, and that memory may end at any allocation. Faults word by
 * word are in tests/golden/policy. Needs no privilege; looks at /etc and /var of any Debian machine.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "cordon/decide.h"
#include "conf/fault.h"
#include "policy/keys.h"
#include "policy/nets.h"
#include "policy/policy.h"
#include "policy/secrets.h"
#include "policy/value.h"
#include "util/util.h"

/* --- memory that ends --------------------------------------------------------------------------------------- */

/*
 * The allocator of this program: glibc's, which fails once at the allocation that is asked for and counts what is
 * live, so that a leak on a way out shows. Sanitizers bring their own, and then this test is skipped.
 */
static struct {
	bool armed;
	long countdown; /* allocations until the one that fails; 0: none fails */
	long live;
} memory;

#if !defined(__SANITIZE_ADDRESS__)
#define MEMORY_IS_OURS 1

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

static bool memory_fails(void)
{
	if (!memory.armed || memory.countdown == 0 || --memory.countdown > 0)
		return false;
	errno = ENOMEM;
	return true;
}

static void *memory_count(void *p)
{
	memory.live += memory.armed && p;
	return p;
}

void *malloc(size_t size)
{
	return memory_fails() ? NULL : memory_count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
	return memory_fails() ? NULL : memory_count(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
	if (memory_fails())
		return NULL;
	return p ? __libc_realloc(p, size) : memory_count(__libc_realloc(NULL, size));
}

void free(void *p)
{
	memory.live -= memory.armed && p;
	__libc_free(p);
}
#else
#define MEMORY_IS_OURS 0
#endif

/* --- helpers ------------------------------------------------------------------------------------------------- */

#define HEAD "cordon: 1\nname: t\n"

static const struct policy_options no_paths;

static struct conf_faults faults;

/* Parses a text that is right. */
static struct policy *parse_good(const char *text, const struct policy_options *options)
{
	struct policy *policy = NULL;
	int r;

	conf_faults_clear(&faults);
	r = policy_parse(text, strlen(text), options, &policy, &faults);
	conf_faults_print(&faults, "text", stderr);
	assert_int_equal(r, 0);
	assert_non_null(policy);
	assert_int_equal(faults.n, 0);
	return policy;
}

/* Parses a text that is wrong; its faults stay in `faults`. */
static void parse_bad(const char *text, const struct policy_options *options)
{
	struct policy *policy = NULL;

	conf_faults_clear(&faults);
	assert_int_equal(policy_parse(text, strlen(text), options, &policy, &faults), -EINVAL);
	assert_null(policy);
	assert_true(faults.n > 0);
}

static struct image *compile_good(const char *text)
{
	struct policy *policy = parse_good(text, &no_paths);
	struct image *image = NULL;

	assert_int_equal(policy_compile(policy, &image), 0);
	policy_free(policy);
	assert_int_equal(image_validate(image, image->size_bytes), 0);
	return image;
}

static void assert_strings(const struct policy_strings *strings, const char *const *expected)
{
	size_t n = 0;

	for (; expected[n]; n++) {
		assert_true(n < strings->n);
		assert_string_equal(strings->v[n], expected[n]);
	}
	assert_int_equal(strings->n, n);
	assert_non_null(strings->v);
	assert_null(strings->v[n]);
}
#define STRINGS(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

static struct cordon_addr addr4(unsigned int a, unsigned int b, unsigned int c, unsigned int d)
{
	return (struct cordon_addr){ .b = { [12] = (__u8)a, (__u8)b, (__u8)c, (__u8)d } };
}

/* A generator of numbers that is the same everywhere. */
static uint32_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % n;
}

/* --- the model ----------------------------------------------------------------------------------------------- */

static const char full_text[] =
	HEAD "mode: audit\n"
	     "files:\n"
	     "  workdir: /srv/agent/work/\n"
	     "  private: [/scratch]\n"
	     "  write: [/var/lib//agent, /srv/./out]\n"
	     "  read: {deny: [/etc/shadow, /root]}\n"
	     "  exec: {deny: []}\n"
	     "network:\n"
	     "  gateway: [127.0.0.1:8800, \"[::1]:8801\", \"[::ffff:10.0.0.1]:65535\"]\n"
	     "  allow:\n"
	     "    - {to: 10.0.0.0/8, port: 443, proto: tcp}\n"
	     "    - {to: 10.1.0.0/16, port: 53}\n"
	     "    - {to: \"::ffff:192.168.0.0/112\", port: 1-1024, proto: udp}\n"
	     "    - {to: 2001:db8::/32}\n"
	     "  dns: gateway\n"
	     "  resolver: [\"[2001:db8::53]:53\", 10.0.0.53:5353]\n"
	     "  listen: [8080, 9000-9010, 80]\n"
	     "  loopback: deny\n"
	     "  unix: [/run/app.sock, /run/other.sock]\n"
	     "env:\n"
	     "  pass: [PATH, _X]\n"
	     "  set: {A: yes, B: \"\", C: \"x=y\\nz\", D: 010}\n"
	     "labels: {team: payments, \"a.b/c\": \"1\"}\n";

static void model_of_full_text(void **state)
{
	struct policy *p = parse_good(full_text, &no_paths);

	assert_string_equal(p->name, "t");
	assert_int_equal(p->mode, CORDON_MODE_AUDIT);
	assert_string_equal(p->workdir, "/srv/agent/work");
	assert_strings(&p->private_dirs, STRINGS("/scratch"));
	assert_strings(&p->write, STRINGS("/var/lib/agent", "/srv/out"));
	assert_strings(&p->read_deny, STRINGS("/etc/shadow", "/root"));
	assert_int_equal(p->loopback, CORDON_LOOPBACK_DENY);
	assert_strings(&p->unix_sockets, STRINGS("/run/app.sock", "/run/other.sock"));
	assert_strings(&p->env_pass, STRINGS("PATH", "_X"));
	assert_strings(&p->env_set, STRINGS("A=yes", "B=", "C=x=y\nz", "D=010"));
	assert_strings(&p->labels, STRINGS("team=payments", "a.b/c=1"));
	assert_null(p->gateway_unix);
	policy_free(p);
}

static void model_of_gateways(void **state)
{
	struct policy *p = parse_good(full_text, &no_paths);
	const struct cordon_gateway expected[3] = {
		{ .addr = addr4(127, 0, 0, 1), .port = 8800, .proto = IPPROTO_TCP },
		{ .addr = { .v6 = 1, .b = { [15] = 1 } }, .port = 8801, .proto = IPPROTO_TCP },
		{ .addr = addr4(10, 0, 0, 1), .port = 65535, .proto = IPPROTO_TCP },
	};

	assert_int_equal(p->n_gateways, 3);
	assert_memory_equal(p->gateway, expected, sizeof(expected));
	policy_free(p);
	p = parse_good(HEAD "network: {gateway: /run/cordon//gateway.sock}\n", &no_paths);
	assert_int_equal(p->n_gateways, 0);
	assert_string_equal(p->gateway_unix, "/run/cordon/gateway.sock");
	policy_free(p);
}

static void model_of_allow(void **state)
{
	struct policy *p = parse_good(full_text, &no_paths);
	const struct policy_allow expected[4] = {
		{ addr4(10, 0, 0, 0), 8, { .proto = IPPROTO_TCP, .lo = 443, .hi = 443 } },
		{ addr4(10, 1, 0, 0), 16, { .proto = 0, .lo = 53, .hi = 53 } },
		{ addr4(192, 168, 0, 0), 16, { .proto = IPPROTO_UDP, .lo = 1, .hi = 1024 } },
		{ { .v6 = 1, .b = { 0x20, 0x01, 0x0d, 0xb8 } },
		  32,
		  { .proto = 0, .lo = 0, .hi = 65535 } },
	};

	assert_int_equal(p->n_allow, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_memory_equal(&p->allow[i].addr, &expected[i].addr, sizeof(expected[i].addr));
		assert_int_equal(p->allow[i].prefix_bits, expected[i].prefix_bits);
		assert_memory_equal(&p->allow[i].ports, &expected[i].ports,
				    sizeof(expected[i].ports));
	}
	policy_free(p);
}

static void model_of_defaults(void **state)
{
	struct policy *p = parse_good(HEAD, &no_paths);

	assert_int_equal(p->mode, CORDON_MODE_ENFORCE);
	assert_null(p->workdir);
	assert_strings(&p->private_dirs, STRINGS("/tmp", "/dev/shm"));
	assert_strings(&p->write, STRINGS());
	assert_strings(&p->read_deny, STRINGS());
	assert_int_equal(p->n_gateways, 0);
	assert_null(p->gateway_unix);
	assert_int_equal(p->n_allow, 0);
	assert_int_equal(p->loopback, CORDON_LOOPBACK_FENCE);
	assert_strings(&p->unix_sockets, STRINGS());
	assert_strings(&p->env_pass, STRINGS("PATH", "HOME", "LANG", "TERM"));
	assert_strings(&p->env_set, STRINGS());
	assert_strings(&p->labels, STRINGS());
	policy_free(p);
}

/* What is given empty is empty, not the default. */
static void model_of_empty_lists(void **state)
{
	struct policy *p = parse_good(HEAD "files: {private: []}\nenv: {pass: []}\n", &no_paths);

	assert_strings(&p->private_dirs, STRINGS());
	assert_strings(&p->env_pass, STRINGS());
	policy_free(p);
}

static void workdir_from_options(void **state)
{
	struct policy_options options = { .workdir = "/var//lib/",
					  .check_paths = true,
					  .need_workdir = true };
	struct policy *p = parse_good(HEAD "files: {workdir: /nonexistent}\n", &options);

	assert_string_equal(p->workdir, "/var/lib");
	policy_free(p);
	options.workdir = NULL;
	parse_bad(HEAD, &options);
	assert_int_equal(faults.n, 1);
	assert_string_equal(faults.v[0].text, "files.workdir: missing; give it here or with -w");
	p = parse_good(HEAD "files: {workdir: /var}\n", &options);
	assert_string_equal(p->workdir, "/var");
	policy_free(p);
}

/* A workdir with a fault is not missing as well. */
static void workdir_with_a_fault(void **state)
{
	struct policy_options options = { .need_workdir = true };

	parse_bad(HEAD "files: {workdir: here}\n", &options);
	assert_int_equal(faults.n, 1);
}

/* A socket that exists is a right path; the golden tests have no socket at hand. */
static void unix_sockets_that_exist(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct policy_options options = { .check_paths = true };
	char dir[] = "/tmp/test_policy.XXXXXX", text[512];
	struct policy *p;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/s", dir);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	snprintf(text, sizeof(text), HEAD "network: {unix: [%s]}\nfiles: {read: {deny: [%s]}}\n",
		 un.sun_path, un.sun_path);
	p = parse_good(text, &options);
	assert_strings(&p->unix_sockets, STRINGS(un.sun_path));
	policy_free(p);
	snprintf(text, sizeof(text), HEAD "network: {gateway: %s}\nfiles: {write: [%s]}\n",
		 un.sun_path, un.sun_path);
	parse_bad(text, &options);
	assert_int_equal(faults.n, 1);
	assert_non_null(strstr(faults.v[0].text, "is not a directory or regular file"));
	close(fd);
	unlink(un.sun_path);
	rmdir(dir);
}

/* --- faults --------------------------------------------------------------------------------------------------- */

static void faults_are_sorted_and_bounded(void **state)
{
	struct conf_faults list = { .n = 0 };
	unsigned int before = 0;

	for (unsigned int i = 0; i < 1000; i++) {
		struct conf_mark at = { 1 + random_below(50), 1 + random_below(50) };

		assert_int_equal(conf_fault_add(&list, at, "fault %u", i), 0);
	}
	assert_int_equal(list.n, CONF_FAULTS_MAX);
	assert_int_equal(list.more, 1000 - CONF_FAULTS_MAX);
	for (size_t i = 0; i < list.n; i++) {
		assert_true(list.v[i].line * 100 + list.v[i].column >= before);
		before = list.v[i].line * 100 + list.v[i].column;
	}
	/* The first of the text are kept: 1000 faults on 50 lines leave no room beyond line 10. */
	assert_true(list.v[list.n - 1].line < 10);
	conf_faults_clear(&list);
	assert_int_equal(list.n, 0);
	assert_int_equal(list.more, 0);
}

static void faults_are_printable(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "plain", "plain" },
		{ "a\nb\x1b[m\x7f", "a\\x0ab\\x1b[m\\x7f" },
		{ "\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80", "\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80" },
		{ "\xe2\x80\xae\xc2\x85\xef\xbb\xbf", "\\xe2\\x80\\xae\\xc2\\x85\\xef\\xbb\\xbf" },
		{ "\xff\xc3(\xe2\x82", "\\xff\\xc3(\\xe2\\x82" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct conf_faults list = { .n = 0 };

		assert_int_equal(
			conf_fault_add(&list, (struct conf_mark){ 1, 1 }, "%s", rows[i].in), 0);
		assert_string_equal(list.v[0].text, rows[i].out);
		conf_faults_clear(&list);
	}
}

static void quotes_are_cut_between_characters(void **state)
{
	char text[600];

	for (size_t shift = 0; shift < 3; shift++) {
		struct conf_quote quote;
		uint32_t c;
		size_t n;

		memset(text, 'x', shift);
		for (size_t i = shift; i + 3 < sizeof(text); i += 3)
			memcpy(text + i, "\xe6\x97\xa5", 4);
		quote = conf_quote(text);
		assert_string_equal(quote.s + strlen(quote.s) - 3, "...");
		for (size_t i = 0; quote.s[i]; i += n) {
			n = conf_utf8_next(quote.s + i, strlen(quote.s + i), &c);
			assert_true(n > 0);
		}
	}
	assert_string_equal(conf_quote("short").s, "short");
	assert_string_equal(conf_quote_name("TOKEN=hunter2").s, "TOKEN");
}

/* No fault may say the value of a variable: it may be a secret. */
static void faults_hold_no_secret(void **state)
{
	parse_bad(HEAD "env:\n  pass: [\"TOKEN=hunter2\"]\n  set:\n    \"TOKEN=hunter2\": x\n"
		       "    A B: hunter2\n    C: [hunter2]\n    C: hunter2\n    D: &a hunter2\n    "
		       "E: !t hunter2\n"
		       "    F: \"\\0hunter2\"\n",
		  &no_paths);
	for (size_t i = 0; i < faults.n; i++)
		assert_null(strstr(faults.v[i].text, "hunter2"));
	assert_int_equal(faults.n, 8);
}

/* --- addresses ------------------------------------------------------------------------------------------------ */

/* Whether an address is the metadata service must be the same here and in the kernel. */
static void metadata_is_what_the_kernel_denies(void **state)
{
	static const __u8 pieces[][4] = {
		{ 0, 0, 0, 0 },		 { 0xa9, 0xfe, 0xa9, 0xfe },
		{ 0xa9, 0xfe, 0, 1 },	 { 0x56, 0x01, 0, 0 },
		{ 0, 0, 0xff, 0xff },	 { 0xff, 0xff, 0, 0 },
		{ 0, 0x64, 0xff, 0x9b }, { 0x20, 0x02, 0xa9, 0xfe },
		{ 0x20, 0x01, 0, 0 },	 { 0x20, 0x01, 0x0d, 0xb8 },
		{ 0xfd, 0, 0x0e, 0xc2 }, { 0xfe, 0x80, 0, 0 },
		{ 0xfe, 0xbf, 0, 0 },	 { 0xfe, 0xc0, 0, 0 },
		{ 0, 0, 0x5e, 0xfe },	 { 2, 0, 0x5e, 0xfe },
		{ 3, 0, 0x5e, 0xfe },	 { 4, 0, 0x5e, 0xfe },
		{ 0, 1, 0, 0 },		 { 0, 0, 2, 0x54 },
		{ 0xa9, 0xff, 0, 0 },	 { 0, 1, 0xa9, 0xfe },
		{ 0, 1, 0, 0xa9 },	 { 0, 0xfe, 0, 0 },
		{ 0, 0xa9, 0xfe, 0 },
	};
	const unsigned int n = ARRAY_SIZE(pieces);
	unsigned int shut = 0;

	for (unsigned int i = 0; i < n * n * n * n; i++) {
		struct cordon_addr addr = { .v6 = 1 };

		for (unsigned int k = 0, rest = i; k < 4; k++, rest /= ARRAY_SIZE(pieces))
			memcpy(addr.b + 4 * k, pieces[rest % ARRAY_SIZE(pieces)], 4);
		if (policy_prefix_is_metadata(&addr, 128) != (decide_is_metadata(&addr) != 0))
			fail_msg("%s", policy_prefix_format(&addr, 128).s);
		shut += policy_prefix_is_metadata(&addr, 128);
	}
	assert_true(shut > 10000);
	for (unsigned int i = 0; i < 65536; i++) {
		struct cordon_addr addr = addr4(i >> 8, i & 255, 1, 1);

		assert_int_equal(policy_prefix_is_metadata(&addr, 32),
				 decide_is_metadata(&addr) != 0);
	}
}

/* A prefix is shut when all of it is: every address that it takes in is denied, its parent's not all. */
static void metadata_prefixes(void **state)
{
	static const struct {
		const char *prefix;
		bool shut;
	} rows[] = {
		{ "169.254.0.0/16", true },
		{ "169.254.169.254", true },
		{ "169.254.0.0/15", false },
		{ "169.252.0.0/14", false },
		{ "0.0.0.0/0", false },
		{ "fd00:ec2::/32", true },
		{ "fd00:ec2::254", true },
		{ "fd00:ec2::/31", false },
		{ "fd00::/8", false },
		{ "2002:a9fe::/32", true },
		{ "2002:a9fe::/31", false },
		{ "64:ff9b::a9fe:0/112", true },
		{ "64:ff9b::/96", false },
		{ "64:ff9b:1:a9fe::/64", true },
		{ "64:ff9b:1:a9::/64", false },
		{ "64:ff9b::a9fe:0/111", false },
		{ "::/0", false },
		{ "::a9fe:0/112", true },
		{ "::ffff:169.254.0.0/112", true },
		{ "::ffff:0:0/96", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cordon_addr addr;
		struct error error = { "" };
		uint8_t bits;
		int r = policy_value_prefix(rows[i].prefix, &addr, &bits, &error);

		if (r < 0) { /* host bits of the rows that are not shut */
			assert_false(rows[i].shut);
			continue;
		}
		assert_int_equal(policy_prefix_is_metadata(&addr, bits), rows[i].shut);
	}
}

static void prefixes_format_as_they_parse(void **state)
{
	static const char *const rows[] = { "10.0.0.0/8",	"10.1.2.3", "0.0.0.0/0",
					    "2001:db8::/32",	"::1",	    "::/0",
					    "192.168.1.128/25", "fe80::/10" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cordon_addr addr;
		uint8_t bits;

		assert_int_equal(policy_value_prefix(rows[i], &addr, &bits, NULL), 0);
		assert_true(policy_prefix_is_canonical(&addr, bits));
		assert_string_equal(policy_prefix_format(&addr, bits).s, rows[i]);
		assert_true(policy_prefix_covers(&addr, bits, &addr, bits));
		if (bits)
			assert_false(policy_prefix_covers(&addr, bits, &addr, bits - 1u));
	}
}

static void paths_are_canonical(void **state)
{
	static const struct {
		const char *in, *out; /* NULL: refused */
	} rows[] = {
		{ "/", "/" },	    { "//", "/" },
		{ "/.", "/" },	    { "/a", "/a" },
		{ "/a/", "/a" },    { "//a//b/./c/", "/a/b/c" },
		{ "/...", "/..." }, { "/a..b/.c", "/a..b/.c" },
		{ "", NULL },	    { "a", NULL },
		{ "/..", NULL },    { "/a/../b", NULL },
		{ "/a/..", NULL },  { "/a\nb", NULL },
		{ "./a", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *path = NULL;
		struct error error = { "" };

		assert_int_equal(policy_value_path(rows[i].in, &path, &error),
				 rows[i].out ? 0 : -EINVAL);
		if (rows[i].out) {
			assert_string_equal(path, rows[i].out);
			assert_true(policy_path_is_canonical(path));
		} else {
			assert_true(error.text[0] != '\0');
		}
		if (!rows[i].out || strcmp(rows[i].in, rows[i].out) != 0)
			assert_false(policy_path_is_canonical(rows[i].in));
	}
}

/* --- the table of keys ------------------------------------------------------------------------------------------ */

static void keys_are_sound(void **state)
{
	assert_true(policy_keys_n <= POLICY_KEYS_MAX);
	assert_string_equal(policy_keys[0].path, "");
	for (size_t i = 1; i < policy_keys_n; i++) {
		const struct policy_key *key = &policy_keys[i];
		size_t parents = 0;

		assert_ptr_equal(policy_key_find(key->path), key);
		assert_non_null(key->doc);
		assert_non_null(policy_type_names[key->type]);
		for (size_t k = 0; k < policy_keys_n; k++)
			parents += policy_key_is_child(&policy_keys[k], key);
		assert_int_equal(parents, strchr(policy_key_leaf(key), '[') ? 0 : 1);
		assert_int_equal(key->type == POLICY_TYPE_WORD, key->words != NULL);
	}
}

static void words_that_are_near(void **state)
{
	const struct policy_key *files = policy_key_find("files"),
				*network = policy_key_find("network");

	assert_string_equal(policy_key_nearest(files, "wokdir")->path, "files.workdir");
	assert_string_equal(policy_key_nearest(files, "WorkDir")->path, "files.workdir");
	assert_string_equal(policy_key_nearest(network, "domain")->path, "network.domains");
	assert_null(policy_key_nearest(network, "metadata"));
	assert_null(policy_key_nearest(
		files, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
	assert_null(policy_key_nearest(files, ""));
	assert_string_equal(policy_key_elsewhere("workdri")->path, "files.workdir");
	assert_null(policy_key_elsewhere("metadata"));
}

/* --- prefixes with the union of what covers them ----------------------------------------------------------------- */

static bool ports_allow(const struct cordon_ports *ports, __u8 proto, __u16 port)
{
	return (!ports->proto || ports->proto == proto) && ports->lo <= port && port <= ports->hi;
}

/* What the rules say, each asked. */
static bool rules_allow(const struct policy_allow *allow, size_t n, const struct cordon_addr *addr,
			__u8 proto, __u16 port)
{
	for (size_t i = 0; i < n; i++)
		if (policy_prefix_inherits(&allow[i].addr, allow[i].prefix_bits, addr,
					   policy_addr_bits(addr)) &&
		    ports_allow(&allow[i].ports, proto, port))
			return true;
	return false;
}

/* What the longest matching prefix says, alone. */
static bool longest_match_allows(const struct image_net *nets, size_t n,
				 const struct cordon_addr *addr, __u8 proto, __u16 port)
{
	const struct image_net *longest = NULL;

	for (size_t i = 0; i < n; i++)
		if (policy_prefix_covers(&nets[i].addr, nets[i].prefix_bits, addr,
					 policy_addr_bits(addr)) &&
		    (!longest || nets[i].prefix_bits > longest->prefix_bits))
			longest = &nets[i];
	if (longest && !longest->net.loopback && decide_is_loopback(addr))
		return false;
	for (unsigned int i = 0; longest && i < longest->net.n; i++)
		if (ports_allow(&longest->net.ports[i], proto, port))
			return true;
	return false;
}

/* Few distinct bytes and ports, so that rules meet. */
static struct cordon_addr random_addr(void)
{
	struct cordon_addr addr = { .v6 = random_below(2) == 0 };

	for (unsigned int i = addr.v6 ? 0 : 12; i < 16; i++)
		addr.b[i] = random_below(4) ? 0 : (__u8)(random_below(2) ? 0x80 : 0x01);
	return addr;
}

static void random_rule(struct policy_allow *allow)
{
	static const __u8 protos[] = { 0, IPPROTO_TCP, IPPROTO_UDP };
	struct cordon_addr addr = random_addr();
	unsigned int bits = random_below(policy_addr_bits(&addr) + 1), base = addr.v6 ? 0 : 12;

	for (unsigned int i = bits; i < policy_addr_bits(&addr); i++)
		addr.b[base + i / 8] &= (__u8) ~(0x80 >> i % 8);
	*allow = (struct policy_allow){ addr,
					(uint8_t)bits,
					{ .proto = protos[random_below(3)],
					  .lo = (__u16)random_below(12) } };
	allow->ports.hi = (__u16)(allow->ports.lo + random_below(4));
}

static void nets_check_order(const struct image_net *nets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_true(policy_nets_is_canonical(&nets[i].net));
		if (i)
			assert_true(policy_prefix_compare(&nets[i - 1].addr,
							  nets[i - 1].prefix_bits, &nets[i].addr,
							  nets[i].prefix_bits) < 0);
	}
}

static void longest_match_is_the_whole_answer(void **state)
{
	struct policy_allow rules[24];
	unsigned int built = 0, yes = 0;

	for (int round = 0; round < 2000; round++) {
		size_t n = random_below(ARRAY_SIZE(rules) + 1), n_nets = 0;
		struct image_net *nets = NULL;

		for (size_t i = 0; i < n; i++)
			random_rule(&rules[i]);
		if (policy_nets_build(rules, n, NULL, NULL, &nets, &n_nets) == -E2BIG)
			continue;
		built++;
		nets_check_order(nets, n_nets);
		for (int probe = 0; probe < 200; probe++) {
			struct cordon_addr addr = random_addr();
			__u8 proto = random_below(2) ? IPPROTO_TCP : IPPROTO_UDP;
			__u16 port = (__u16)random_below(18);
			bool expected = rules_allow(rules, n, &addr, proto, port);

			yes += expected;
			assert_int_equal(longest_match_allows(nets, n_nets, &addr, proto, port),
					 expected);
		}
		free(nets);
	}
	assert_true(built > 1000 && yes > 10000);
}

static void ranges_are_merged(void **state)
{
	static const struct {
		const char *rules;
		unsigned int n;
		struct cordon_ports expected[4];
	} rows[] = {
		{ "{to: 10.0.0.0/8, port: 80}, {to: 10.0.0.0/8, port: 81}",
		  1,
		  { { 0, 0, 80, 81 } } },
		{ "{to: 10.0.0.0/8, port: 80-90}, {to: 10.0.0.0/8, port: 85-99}",
		  1,
		  { { 0, 0, 80, 99 } } },
		{ "{to: 10.0.0.0/8, port: 80, proto: tcp}, {to: 10.0.0.0/8, port: 80, proto: udp}",
		  1,
		  { { 0, 0, 80, 80 } } },
		{ "{to: 10.0.0.0/8, port: 80, proto: tcp}, {to: 10.0.0.0/8, port: 81, proto: udp}",
		  2,
		  { { IPPROTO_TCP, 0, 80, 80 }, { IPPROTO_UDP, 0, 81, 81 } } },
		{ "{to: 10.0.0.0/8, port: 80-82, proto: tcp}, {to: 10.0.0.0/8, port: 82-90, proto: "
		  "udp}",
		  2,
		  { { IPPROTO_TCP, 0, 80, 82 }, { IPPROTO_UDP, 0, 82, 90 } } },
		{ "{to: 10.0.0.0/8, port: 80}, {to: 10.0.0.0/8, port: 70-90, proto: tcp}",
		  2,
		  { { IPPROTO_TCP, 0, 70, 90 }, { IPPROTO_UDP, 0, 80, 80 } } },
		{ "{to: 10.0.0.0/8}", 1, { { 0, 0, 0, 65535 } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[512];
		struct image *image;

		snprintf(text, sizeof(text), HEAD "network: {allow: [%s]}\n", rows[i].rules);
		image = compile_good(text);
		assert_int_equal(image->n_nets, 1);
		assert_int_equal(image_nets(image)->net.n, rows[i].n);
		assert_memory_equal(image_nets(image)->net.ports, rows[i].expected,
				    sizeof(image_nets(image)->net.ports[0]) * rows[i].n);
		free(image);
	}
}

static void too_many_ranges_are_refused(void **state)
{
	struct policy_allow rules[CORDON_PORTS_PER_NET + 1];
	struct policy policy = { .name = (char *)"t", .mode = CORDON_MODE_ENFORCE, .allow = rules };
	struct image *image = NULL;

	for (unsigned int i = 0; i < ARRAY_SIZE(rules); i++) {
		__u16 port = (__u16)(100 + 2 * i);

		rules[i] =
			(struct policy_allow){ addr4(10, 0, 0, 0), 8, { .lo = port, .hi = port } };
	}
	policy.n_allow = CORDON_PORTS_PER_NET;
	assert_int_equal(policy_compile(&policy, &image), 0);
	free(image);
	image = NULL;
	policy.n_allow++;
	assert_int_equal(policy_compile(&policy, &image), -E2BIG);
	assert_null(image);
}

/* --- the image ---------------------------------------------------------------------------------------------------- */

static void image_of_full_text(void **state)
{
	static const struct {
		const char *path;
		uint32_t flags;
	} roots[] = {
		{ "/etc/shadow", CORDON_ROOT_READ_DENY }, { "/root", CORDON_ROOT_READ_DENY },
		{ "/run/app.sock", CORDON_ROOT_UNIX },	  { "/run/other.sock", CORDON_ROOT_UNIX },
		{ "/scratch", CORDON_ROOT_PRIVATE },	  { "/srv/agent/work", CORDON_ROOT_WRITE },
		{ "/srv/out", CORDON_ROOT_WRITE },	  { "/var/lib/agent", CORDON_ROOT_WRITE },
	};
	struct image *image = compile_good(full_text);

	assert_int_equal(image->magic, IMAGE_MAGIC);
	assert_string_equal(image_string(image, image->name), "t");
	assert_int_equal(image->policy.mode, CORDON_MODE_AUDIT);
	assert_int_equal(image->policy.loopback, CORDON_LOOPBACK_DENY);
	assert_int_equal(image->policy.root_flags, CORDON_ROOT_WRITE | CORDON_ROOT_READ_DENY |
							   CORDON_ROOT_UNIX | CORDON_ROOT_PRIVATE);
	assert_int_equal(image->policy.has_nets, 1);
	assert_int_equal(image->policy.n_gateways, 3);
	assert_int_equal(image->policy.gateway[0].port, 8800);
	assert_int_equal(image->policy.dns, 1);
	assert_int_equal(image->policy.resolver[0].port, 5353);
	assert_int_equal(image->policy.resolver[0].addr.b[15], 53);
	assert_int_equal(image->policy.resolver[1].port, 53);
	assert_int_equal(image->policy.resolver[1].addr.v6, 1);
	assert_int_equal(image->policy.n_listen, 3);
	assert_int_equal(image->policy.listen[0].lo, 80);
	assert_int_equal(image->policy.listen[2].hi, 9010);
	assert_int_equal(image->n_roots, ARRAY_SIZE(roots));
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		assert_string_equal(image_string(image, image_roots(image)[i].path), roots[i].path);
		assert_int_equal(image_roots(image)[i].flags, roots[i].flags);
	}
	free(image);
}

static uint32_t secrets_of(const char *text)
{
	struct image *image = compile_good(text);
	uint32_t secrets = image->secrets;

	free(image);
	return secrets;
}

/* The rule set is on unless the policy names it; each of its parts by itself. */
static void secrets_are_denied_unless_named(void **state)
{
	assert_int_equal(secrets_of(HEAD), POLICY_SECRETS_ALL);
	assert_int_equal(secrets_of(HEAD "files: {read: {without: []}}\n"), POLICY_SECRETS_ALL);
	assert_int_equal(secrets_of(HEAD "files: {read: {without: [secrets]}}\n"), 0);
	for (unsigned int i = 0; i < POLICY_SECRET_GROUPS_N; i++) {
		char text[128];

		snprintf(text, sizeof(text), HEAD "files: {read: {without: [secrets.%s]}}\n",
			 policy_secret_group_name(i));
		assert_int_equal(secrets_of(text), POLICY_SECRETS_ALL & ~(1U << i));
	}
}

/* Each place by itself is one that the programs can be given: canonical, and of a group. */
static void places_of_secrets_are_good(void **state)
{
	uint32_t seen = 0;

	for (size_t i = 0; i < policy_secret_places_n; i++) {
		const struct policy_secret_place *place = &policy_secret_places[i];
		char path[256];

		snprintf(path, sizeof(path), "%s%s", place->home ? "/home/" : "", place->path);
		assert_true(policy_path_is_canonical(path));
		assert_int_equal(place->home, place->path[0] != '/');
		assert_true(policy_secret_group_what(place->group)[0]);
		seen |= 1U << place->group;
	}
	assert_int_equal(seen, POLICY_SECRETS_ALL);
}

#define BYTES(text) text, sizeof(text) - 1

/* homes, with a NUL behind each, of a passwd and an environment. */
static void assert_homes(const char *passwd, size_t passwd_size, const char *environment,
			 size_t environment_size, const char *homes, size_t size)
{
	char to[256];

	assert_int_equal(policy_homes_read(passwd, passwd_size, environment, environment_size, to,
					   sizeof(to)),
			 size);
	assert_memory_equal(to, homes, size);
}

static void homes_are_read(void **state)
{
	char small[8];

	assert_homes(BYTES(""), BYTES(""), BYTES(""));
	assert_homes(BYTES("root:x:0:0:root:/root:/bin/sh\nu:x:1:1::/home/u/:\n"),
		     BYTES("A=B\0HOME=/srv/h\0HOMEX=/no\0"), BYTES("/root\0/home/u\0/srv/h\0"));
	/* No end of line, no shell, no end of the environment. */
	assert_homes(BYTES("u:x:1:1::/a"), BYTES("HOME=/b"), BYTES("/a\0/b\0"));
	assert_homes(BYTES("u:x:1:1::/:\nu:x:1:1::\nu:x:1:1\n\n::::::::\nu:x:1:1::a/b:\n"
			   "u:x:1:1::/a/../b:\nu:x:1:1::/a\x01:\nu:x:1:1::/a\0b:\nu:x:1:1:::/x\n"),
		     BYTES("HOME=\0HOME=/\0HOME=x\0HOME"), BYTES(""));
	assert_int_equal(policy_homes_read(BYTES("u:x:1:1::/1234567:"), BYTES(""), small, 8), 9);
	assert_int_equal(policy_homes_read(BYTES("u:x:1:1::/123456:"), BYTES(""), small, 8), 8);
	assert_int_equal(policy_homes_read(BYTES("u:x:1:1::/12345:\nu:x:1:1::/1:\nu:x:1:1::/2:\n"),
					   BYTES(""), small, 8),
			 9);
}

static void image_of_lists_of_files(void **state)
{
	static const struct {
		const char *path;
		uint32_t flags;
	} roots[] = {
		{ "/bin", CORDON_ROOT_READ_ALLOW | CORDON_ROOT_EXEC_ALLOW },
		{ "/bin/sh", CORDON_ROOT_READ_DENY | CORDON_ROOT_EXEC_DENY },
		{ "/dev/shm", CORDON_ROOT_PRIVATE },
		{ "/tmp", CORDON_ROOT_PRIVATE },
		{ "/usr", CORDON_ROOT_READ_ALLOW },
	};
	struct image *image = compile_good(HEAD "files:\n"
						"  read: {allow: [/usr, /bin], deny: [/bin/sh]}\n"
						"  exec: {allow: [/bin], deny: [/bin/sh]}\n");

	assert_int_equal(image->n_roots, ARRAY_SIZE(roots));
	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		assert_string_equal(image_string(image, image_roots(image)[i].path), roots[i].path);
		assert_int_equal(image_roots(image)[i].flags, roots[i].flags);
	}
	assert_int_equal(image->policy.root_flags, CORDON_ROOT_PRIVATE | CORDON_ROOT_READ_DENY |
							   CORDON_ROOT_READ_ALLOW |
							   CORDON_ROOT_EXEC);
	free(image);
}

/* A prefix inside another carries what the wider one allows as well. */
static void image_nets_of_full_text(void **state)
{
	struct image *image = compile_good(full_text);
	const struct image_net *nets = image_nets(image);

	assert_int_equal(image->n_nets, 4);
	assert_int_equal(nets[0].prefix_bits, 8);
	assert_int_equal(nets[0].net.n, 1);
	assert_int_equal(nets[1].prefix_bits, 16);
	assert_int_equal(nets[1].net.n, 2);
	assert_int_equal(nets[1].net.ports[0].lo, 53);
	assert_int_equal(nets[1].net.ports[0].proto, 0);
	assert_int_equal(nets[1].net.ports[1].lo, 443);
	assert_int_equal(nets[1].net.ports[1].proto, IPPROTO_TCP);
	assert_int_equal(nets[2].addr.b[12], 192);
	assert_int_equal(nets[3].addr.v6, 1);
	free(image);
}

/* Without network.resolver it is port 53 of the first gateway of each family. */
static void image_has_the_resolver_of_the_gateway(void **state)
{
	struct image *image = compile_good(HEAD "network: {gateway: [127.0.0.1:8800, 127.0.0.2:1, "
						"\"[::1]:8801\"], dns: gateway}\n");

	for (int i = 0; i < 2; i++) {
		assert_int_equal(image->policy.resolver[i].addr.v6, i);
		assert_int_equal(image->policy.resolver[i].addr.b[15], 1);
		assert_int_equal(image->policy.resolver[i].port, 53);
		assert_int_equal(image->policy.resolver[i].proto, 0);
	}
	free(image);
	image = compile_good(HEAD "network: {gateway: 127.0.0.1:8800}\n");
	assert_int_equal(image->policy.dns, 0);
	assert_int_equal(image->policy.resolver[0].port, 0);
	free(image);
}

static void image_merges_flags_of_one_path(void **state)
{
	struct image *image =
		compile_good(HEAD "files: {private: [], write: [/d], read: {deny: [/d]}}\n");

	assert_int_equal(image->n_roots, 1);
	assert_int_equal(image_roots(image)->flags, CORDON_ROOT_WRITE | CORDON_ROOT_READ_DENY);
	assert_int_equal(image->policy.has_nets, 0);
	free(image);
}

static void image_has_the_socket_of_the_gateway(void **state)
{
	struct image *image =
		compile_good(HEAD "files: {private: []}\nnetwork: {gateway: /run/g}\n");

	assert_int_equal(image->n_roots, 1);
	assert_int_equal(image_roots(image)->flags, CORDON_ROOT_UNIX);
	assert_string_equal(image_string(image, image_roots(image)->path), "/run/g");
	assert_int_equal(image->policy.n_gateways, 0);
	free(image);
}

static void image_is_deterministic(void **state)
{
	struct image *a = compile_good(full_text), *b = compile_good(full_text);

	assert_int_equal(a->size_bytes, b->size_bytes);
	assert_memory_equal(a, b, a->size_bytes);
	free(a);
	free(b);
}

/* Damage that image_validate() must see, by name. */
#define NETS(image) ((struct image_net *)image_nets(image))
#define ROOTS(image) ((struct image_root *)image_roots(image))
#define STRINGS_OF(image) ((char *)image_string(image, 0))
#define DAMAGES(D)                                                                  \
	D(i->magic++)                                                               \
	D(i->version++)                                                             \
	D(i->size_bytes++)                                                          \
	D(i->size_bytes = 0)                                                        \
	D(i->n_nets++)                                                              \
	D(i->n_nets = 0)                                                            \
	D(i->n_nets = UINT32_MAX)                                                   \
	D(i->n_roots++)                                                             \
	D(i->n_roots = UINT32_MAX)                                                  \
	D(i->n_roots--; i->string_bytes += 8)                                       \
	D(i->n_nets--; i->n_roots += 9; i->string_bytes += 4)                       \
	D(i->string_bytes--)                                                        \
	D(i->string_bytes = 0)                                                      \
	D(i->string_bytes = UINT32_MAX)                                             \
	D(i->name = 1)                                                              \
	D(i->name = UINT32_MAX)                                                     \
	D(i->secrets |= 1U << POLICY_SECRET_GROUPS_N)                               \
	D(i->secrets = UINT32_MAX)                                                  \
	D(i->policy.mode = 0)                                                       \
	D(i->policy.mode = 3)                                                       \
	D(i->policy.loopback = 3)                                                   \
	D(i->policy.root_flags = 0)                                                 \
	D(i->policy.root_flags = CORDON_ROOT_WRITE)                                 \
	D(i->policy.root_flags |= 8)                                                \
	D(i->policy.has_nets = 0)                                                   \
	D(i->policy.has_nets = 2)                                                   \
	D(i->policy.n_gateways = CORDON_GATEWAYS_MAX)                               \
	D(i->policy.n_gateways = 255)                                               \
	D(i->policy.n_gateways = 2)                                                 \
	D(i->policy.report_allow = 2)                                               \
	D(i->policy.dns = 2)                                                        \
	D(i->policy.dns = 0)                                                        \
	D(memset(i->policy.resolver, 0, sizeof(i->policy.resolver)))                \
	D(i->policy.resolver[0] = i->policy.resolver[1])                            \
	D(i->policy.resolver[0].port = 0)                                           \
	D(i->policy.resolver[0].proto = IPPROTO_TCP)                                \
	D(i->policy.resolver[0].addr = addr4(169, 254, 169, 254))                   \
	D(i->policy.n_listen = CORDON_LISTEN_MAX + 1)                               \
	D(i->policy.n_listen = 2)                                                   \
	D(i->policy.n_listen = 4)                                                   \
	D(i->policy.listen[0].proto = 0)                                            \
	D(i->policy.listen[0].pad = 1)                                              \
	D(i->policy.listen[0].lo = 0)                                               \
	D(i->policy.listen[0].hi = 79)                                              \
	D(i->policy.listen[0].hi = 8080)                                            \
	D(i->policy.listen[7].lo = 1)                                               \
	D(i->policy.event_ns = 1)                                                   \
	D(i->policy.generation = 1)                                                 \
	D(i->policy.root_filter[3] = 1)                                             \
	D(i->policy.gateway[0].port = 0)                                            \
	D(i->policy.gateway[0].proto = IPPROTO_UDP)                                 \
	D(i->policy.gateway[0].pad = 1)                                             \
	D(i->policy.gateway[0].addr.v6 = 2)                                         \
	D(i->policy.gateway[0].addr.mapped = 1)                                     \
	D(i->policy.gateway[0].addr.pad[0] = 1)                                     \
	D(i->policy.gateway[0].addr.b[11] = 1)                                      \
	D(i->policy.gateway[0].addr = addr4(169, 254, 169, 254))                    \
	D(i->policy.gateway[0].addr = addr4(0, 0, 0, 0))                            \
	D(i->policy.gateway[0].addr.v6 = 1; i->policy.gateway[0].addr.b[10] = 0xff; \
	  i->policy.gateway[0].addr.b[11] = 0xff)                                   \
	D(i->policy.gateway[3].port = 1)                                            \
	D(NETS(i)[0].prefix_bits = 33)                                              \
	D(NETS(i)[0].prefix_bits = 4)                                               \
	D(NETS(i)[0].addr.b[15] = 1)                                                \
	D(NETS(i)[0].addr.b[0] = 1)                                                 \
	D(NETS(i)[0].addr.v6 = 1)                                                   \
	D(NETS(i)[0].pad[2] = 1)                                                    \
	D(NETS(i)[0].net.loopback = 1)                                              \
	D(NETS(i)[0].net.n = 0)                                                     \
	D(NETS(i)[0].net.n = 2)                                                     \
	D(NETS(i)[0].net.n = CORDON_PORTS_PER_NET + 1)                              \
	D(NETS(i)[0].net.n = 255)                                                   \
	D(NETS(i)[0].net.pad[0] = 1)                                                \
	D(NETS(i)[0].net.ports[0].proto = 1)                                        \
	D(NETS(i)[0].net.ports[0].pad = 1)                                          \
	D(NETS(i)[0].net.ports[0].lo = 444)                                         \
	D(NETS(i)[0].net.ports[7].hi = 1)                                           \
	D(NETS(i)[0].net.ports[0].hi = 444) /* then more than the one inside it */  \
	D(NETS(i)[0].net.ports[0].proto = 0)                                        \
	D(NETS(i)[1].net.ports[1].lo = 442; NETS(i)[1].net.ports[1].hi = 442)       \
	D(NETS(i)[1].net.ports[1].proto = IPPROTO_UDP)                              \
	D(NETS(i)[1].net.ports[0].lo = 444; NETS(i)[1].net.ports[0].hi = 444)       \
	D(NETS(i)[1].net.ports[0] = NETS(i)[1].net.ports[1])                        \
	D(NETS(i)[1] = NETS(i)[0])                                                  \
	D(NETS(i)[2].addr = addr4(9, 0, 0, 0))                                      \
	D(NETS(i)[2].addr = addr4(169, 254, 0, 0))                                  \
	D(NETS(i)[3].prefix_bits = 129)                                             \
	D(NETS(i)[3].prefix_bits = 255)                                             \
	D(ROOTS(i)[0].path++)                                                       \
	D(ROOTS(i)[0].path = 0)                                                     \
	D(ROOTS(i)[0].path = UINT32_MAX)                                            \
	D(ROOTS(i)[7].path = i->string_bytes)                                       \
	D(ROOTS(i)[0].flags = 0)                                                    \
	D(ROOTS(i)[0].flags |= 8)                                                   \
	D(ROOTS(i)[0].flags |= 0x80000000)                                          \
	D(ROOTS(i)[1] = ROOTS(i)[0])                                                \
	D(STRINGS_OF(i)[i->string_bytes - 1] = 'x')                                 \
	D(STRINGS_OF(i)[0] = '\0')                                                  \
	D(STRINGS_OF(i)[0] = ' ')                                                   \
	D(STRINGS_OF(i)[2] = 'x')                                                   \
	D(STRINGS_OF(i)[3] = '/')                                                   \
	D(STRINGS_OF(i)[3] = '\n')                                                  \
	D(STRINGS_OF(i)[3] = '\0')                                                  \
	D(memcpy(STRINGS_OF(i) + 2, "/../abcdefg", 11))                             \
	D(memcpy(STRINGS_OF(i) + 2, "/a/./bcdefg", 11))                             \
	D(memcpy(STRINGS_OF(i) + 2, "/abcdefghi/", 11))                             \
	D(memcpy(STRINGS_OF(i) + 2, "/z", 2))

static const char *const damage_names[] = {
#define DAMAGE_NAME(...) #__VA_ARGS__,
	DAMAGES(DAMAGE_NAME)
#undef DAMAGE_NAME
};

static void damage(struct image *i, size_t which)
{
	size_t at = 0;

#define DAMAGE_DO(...)       \
	if (which == at++) { \
		__VA_ARGS__; \
	}
	DAMAGES(DAMAGE_DO)
#undef DAMAGE_DO
}

static void damaged_images_are_refused(void **state)
{
	struct image *good = compile_good(full_text);

	for (size_t which = 0; which < ARRAY_SIZE(damage_names); which++) {
		struct image *copy = malloc(good->size_bytes);

		assert_non_null(copy);
		memcpy(copy, good, good->size_bytes);
		damage(copy, which);
		if (image_validate(copy, good->size_bytes) != -EINVAL)
			fail_msg("accepted: %s", damage_names[which]);
		free(copy);
	}
	free(good);
}

static void images_of_wrong_size_are_refused(void **state)
{
	struct image *good = compile_good(full_text);
	size_t size = good->size_bytes;
	char *wide = calloc(1, size + 16);

	assert_non_null(wide);
	for (size_t n = 0; n < size; n++) {
		/* Exactly n bytes, so that a sanitizer sees a look beyond. */
		char *cut = malloc(n ? n : 1);

		assert_non_null(cut);
		memcpy(cut, good, n);
		assert_int_equal(image_validate(cut, n), -EINVAL);
		free(cut);
	}
	memcpy(wide, good, size);
	assert_int_equal(image_validate(wide, size), 0);
	assert_int_equal(image_validate(wide, size + 1), -EINVAL);
	assert_int_equal(image_validate(wide, size + 8), -EINVAL);
	memmove(wide + 1, wide, size);
	assert_int_equal(image_validate(wide + 1, size), -EINVAL);
	free(wide);
	free(good);
}

/* Strings that no root names have no place in an image, however well they are counted. */
static void images_with_spare_strings_are_refused(void **state)
{
	struct image *image = compile_good(full_text);
	uint32_t size = image->size_bytes;

	image = realloc(image, size + 8);
	assert_non_null(image);
	memcpy((char *)image + size, "/zzzzzz", 8);
	assert_int_equal(image_validate(image, size), 0);
	image->size_bytes += 8;
	image->string_bytes += 8;
	assert_int_equal(image_validate(image, size + 8), -EINVAL);
	free(image);
}

/*
 * Every bit turned: what is still accepted must be an image all the same, which is to say that what the accessors
 * give can be used. A third or so are accepted - letters of paths, ports, addresses.
 */
static void turned_bits_do_no_harm(void **state)
{
	struct image *image = compile_good(full_text);
	size_t size = image->size_bytes, accepted = 0;

	for (size_t bit = 0; bit < size * 8; bit++) {
		((unsigned char *)image)[bit / 8] ^= (unsigned char)(1 << bit % 8);
		if (image_validate(image, size) == 0) {
			accepted++;
			for (uint32_t i = 0; i < image->n_roots; i++)
				assert_int_equal(image_string(image, image_roots(image)[i].path)[0],
						 '/');
			nets_check_order(image_nets(image), image->n_nets);
		}
		((unsigned char *)image)[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	assert_true(accepted < size * 8 / 4);
	assert_int_equal(image_validate(image, size), 0);
	free(image);
}

/* --- files ------------------------------------------------------------------------------------------------------------ */

static int load(const char *path)
{
	struct policy *policy = NULL;
	int r;

	conf_faults_clear(&faults);
	r = policy_load(path, &no_paths, &policy, &faults);
	policy_free(policy);
	return r;
}

static void write_file(const char *path, size_t comment)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(HEAD "#", f);
	for (size_t i = 0; i < comment; i++)
		fputc('x', f);
	fclose(f);
}

static void files_are_loaded(void **state)
{
	char dir[] = "/tmp/test_policy.XXXXXX", path[64];

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/p", dir);
	assert_int_equal(load(path), -ENOENT);
	assert_int_equal(load(dir), -EISDIR);
	assert_int_equal(load("/dev/null"), -EOPNOTSUPP);
	write_file(path, CONF_TEXT_MAX - strlen(HEAD "#"));
	assert_int_equal(load(path), 0);
	write_file(path, CONF_TEXT_MAX - strlen(HEAD "#") + 1);
	assert_int_equal(load(path), -EINVAL);
	assert_int_equal(faults.n, 1);
	assert_string_equal(faults.v[0].text, "longer than 256 KiB");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(load(path), -EOPNOTSUPP);
	unlink(path);
	rmdir(dir);
}

/* The largest lists are read in no time: nothing in the library is slower than a square of what they hold. */
static void large_policies_are_read(void **state)
{
	_cleanup_free_ char *text = NULL;
	struct image *image;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fputs(HEAD "network:\n allow:\n", f);
	for (unsigned int i = 0; i < CONF_LIST_MAX; i++)
		fprintf(f, "  - {to: 10.%u.%u.0/24, port: 443, proto: tcp}\n", i / 256, i % 256);
	fclose(f);
	image = compile_good(text);
	assert_int_equal(image->n_nets, CONF_LIST_MAX);
	free(image);
}

/* --- memory that ends, again ---------------------------------------------------------------------------------------- */

/* Parses and compiles with the n-th allocation failing. Returns what came of it; nothing may be left behind. */
static int run_with_failure(const char *text, const struct policy_options *options, long n)
{
	struct conf_faults list = { .n = 0 };
	struct policy *policy = NULL;
	struct image *image = NULL;
	long live;
	int r;

	memory.countdown = n;
	memory.live = 0;
	memory.armed = true;
	r = policy_parse(text, strlen(text), options, &policy, &list);
	if (r == 0)
		r = policy_compile(policy, &image);
	free(image);
	policy_free(policy);
	conf_faults_clear(&list);
	memory.armed = false;
	live = memory.live;
	assert_int_equal(live, 0);
	return r;
}

static void memory_may_end_anywhere(void **state)
{
	static const char *const bad =
		"cordon: 2\nnmae: x\nfiles: {write: [rel, /a, /a], read: {deny: [&a x]}}\n"
		"network: {allow: [{to: x}, {to: 10.0.0.0/8}, {to: 10.0.0.0/8}]}\n"
		"env: {pass: [A, A], set: {B: [x]}}\nlabels: {a: b\n";
	const struct {
		const char *text;
		struct policy_options options;
		int r;
	} rows[] = {
		{ full_text, { .workdir = NULL }, 0 },
		{ full_text, { .workdir = "/var", .check_paths = false }, 0 },
		{ HEAD, { .workdir = ".", .check_paths = true }, 0 },
		{ bad, { .check_paths = true }, -EINVAL },
	};

	if (!MEMORY_IS_OURS)
		skip(); /* a sanitizer's allocator is in place */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		long failed = 0;

		/* Until an allocation was asked for that does not come. Some (of asprintf()) may fail harmlessly. */
		for (long n = 1; n == 1 || memory.countdown == 0; n++) {
			int r = run_with_failure(rows[i].text, &rows[i].options, n);

			if (r != -ENOMEM && r != rows[i].r)
				fail_msg("row %zu, allocation %ld: %d", i, n, r);
			failed += r == -ENOMEM;
		}
		assert_true(failed > 20);
		assert_int_equal(run_with_failure(rows[i].text, &rows[i].options, 0), rows[i].r);
	}
}

static int setup(void **state)
{
	conf_faults_clear(&faults);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(model_of_full_text),
		TEST(model_of_gateways),
		TEST(model_of_allow),
		TEST(model_of_defaults),
		TEST(model_of_empty_lists),
		TEST(workdir_from_options),
		TEST(workdir_with_a_fault),
		TEST(unix_sockets_that_exist),
		TEST(faults_are_sorted_and_bounded),
		TEST(faults_are_printable),
		TEST(quotes_are_cut_between_characters),
		TEST(faults_hold_no_secret),
		TEST(metadata_is_what_the_kernel_denies),
		TEST(metadata_prefixes),
		TEST(prefixes_format_as_they_parse),
		TEST(paths_are_canonical),
		TEST(keys_are_sound),
		TEST(words_that_are_near),
		TEST(longest_match_is_the_whole_answer),
		TEST(ranges_are_merged),
		TEST(too_many_ranges_are_refused),
		TEST(image_of_full_text),
		TEST(image_of_lists_of_files),
		TEST(secrets_are_denied_unless_named),
		TEST(places_of_secrets_are_good),
		TEST(homes_are_read),
		TEST(image_nets_of_full_text),
		TEST(image_has_the_resolver_of_the_gateway),
		TEST(image_merges_flags_of_one_path),
		TEST(image_has_the_socket_of_the_gateway),
		TEST(image_is_deterministic),
		TEST(damaged_images_are_refused),
		TEST(images_of_wrong_size_are_refused),
		TEST(images_with_spare_strings_are_refused),
		TEST(turned_bits_do_no_harm),
		TEST(files_are_loaded),
		TEST(large_policies_are_read),
		TEST(memory_may_end_anywhere),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
