// SPDX-License-Identifier: Apache-2.0
/*
 * user/identity without a kernel that marks: the MAC against its published vector, SYNs as they come off the wire, the
 * window of numbers, and owner and gateway in one process over TCP whose SYN carries no mark.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cordon/abi.h"
#include "identity/wire.h"

static const __u64 key[2] = { 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL };

/* Vector of the paper's test set: key 00..0f, message 00..0f (16 bytes). */
static void test_mac(void **state)
{
	uint64_t a = 0x0706050403020100ULL, b = 0x0f0e0d0c0b0a0908ULL;

	(void)state;
	assert_true(cordon_peer_hash(key, a, b) == 0x3f2acc7f57c29bdbULL);
}

/* IPv4, TCP with the given options; returns its size. */
static size_t syn_make(uint8_t *p, uint32_t isn, const void *options, size_t n, uint8_t flags)
{
	size_t tcp = 20 + (n + 3) / 4 * 4;

	memset(p, 0, 20 + tcp);
	p[0] = 0x45;
	p[9] = 6;
	p[24] = isn >> 24;
	p[25] = isn >> 16;
	p[26] = isn >> 8;
	p[27] = isn;
	p[32] = (uint8_t)(tcp / 4 << 4);
	p[33] = flags;
	memcpy(p + 40, options, n);
	return 20 + tcp;
}

static void test_syn(void **state)
{
	struct cordon_peer_option option;
	struct identity_syn syn;
	uint8_t p[128], two[32], v6[128] = { 0x60, [6] = 6 };
	size_t n;

	(void)state;
	cordon_peer_fill(&option, key, 7, 0x01020304, 0xa0b0c0d0);
	n = syn_make(p, 0xa0b0c0d0, &option, sizeof(option), 2);
	assert_int_equal(identity_parse_syn(p, n, &syn), 0);
	assert_int_equal(syn.slot, 7);
	assert_int_equal(syn.count, 0x01020304);
	assert_true(syn.isn == 0xa0b0c0d0);
	assert_memory_equal(&syn.option, &option, sizeof(option));
	memcpy(v6 + 40, p + 20, n - 20);
	assert_int_equal(identity_parse_syn(v6, n + 20, &syn), 0);
	v6[6] = 0; /* extension headers */
	assert_int_equal(identity_parse_syn(v6, n + 20, &syn), -ENOENT);
	for (size_t cut = 0; cut < n; cut++) /* cut off anywhere */
		assert_int_equal(identity_parse_syn(p, cut, &syn), -ENOENT);
	p[9] = 17;
	assert_int_equal(identity_parse_syn(p, n, &syn), -ENOENT);
	n = syn_make(p, 1, &option, sizeof(option), 0x12);
	assert_int_equal(identity_parse_syn(p, n, &syn), -ENOENT); /* SYN+ACK */
	memcpy(two, &option, 16);
	memcpy(two + 16, &option, 16);
	n = syn_make(p, 1, two, 32, 2);
	assert_int_equal(identity_parse_syn(p, n, &syn), -ENOENT);
	n = syn_make(p, 1, "\1\1\2\4\5\264\0", 7, 2);
	assert_int_equal(identity_parse_syn(p, n, &syn), -ENOENT);
	n = syn_make(p, 1, "\2\0\2\4", 4, 2); /* an option of no length */
	assert_int_equal(identity_parse_syn(p, n, &syn), -ENOENT);
	option.exid[0]++;
	n = syn_make(p, 1, &option, sizeof(option), 2);
	assert_int_equal(identity_parse_syn(p, n, &syn), -ENOENT);
}

static void test_window(void **state)
{
	static struct identity_window w;

	(void)state;
	assert_true(identity_window_take(&w, 100));
	assert_false(identity_window_take(&w, 100));
	assert_true(identity_window_take(&w, 99)); /* out of order */
	assert_false(identity_window_take(&w, 99));
	assert_true(identity_window_take(&w, 5000));
	assert_false(identity_window_take(&w, 100));
	assert_false(identity_window_take(&w, 5000 - IDENTITY_WINDOW));
	assert_true(identity_window_take(&w, 5000 - IDENTITY_WINDOW + 1));
	for (uint32_t i = 1; i < 10000; i++) {
		assert_true(identity_window_take(&w, 5000 + i));
		assert_false(identity_window_take(&w, 5000 + i));
	}
	memset(&w, 0, sizeof(w));
	assert_true(identity_window_take(&w, UINT32_MAX - 1)); /* wraps */
	assert_true(identity_window_take(&w, 2));
	assert_false(identity_window_take(&w, UINT32_MAX)); /* the one that is given up */
	assert_false(identity_window_take(&w, 2));
	assert_true(identity_window_take(&w, 0));
	assert_false(identity_window_take(&w, 0));
	assert_false(identity_window_take(&w, UINT32_MAX - 1));
	assert_false(identity_window_take(&w, 2 - IDENTITY_WINDOW));
}

/* What an owner closes that takes a fence over: numbers that an earlier one gave out. */
static void test_window_close(void **state)
{
	static const uint32_t nexts[] = { 0,
					  1,
					  2,
					  IDENTITY_WINDOW - 1,
					  IDENTITY_WINDOW,
					  IDENTITY_WINDOW + 1,
					  3 * IDENTITY_WINDOW + 7,
					  UINT32_MAX - 1 };
	static struct identity_window w;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(nexts); i++) {
		uint32_t next = nexts[i];

		memset(&w, 0, sizeof(w));
		identity_window_close(&w, next);
		for (uint32_t back = 1; back <= 2 * IDENTITY_WINDOW && back <= next; back++)
			assert_false(identity_window_take(&w, next - back));
		assert_true(identity_window_take(&w, next));
		assert_true(identity_window_take(&w, next + 5000)); /* in any order */
		assert_true(identity_window_take(&w, next + 4999));
		assert_false(identity_window_take(&w, next));
	}
}

/* Who takes a number when many gateways try at the same time: one each. */
#define RACERS 4
#define RACE_NUMBERS 20000

struct race {
	int fd;
	atomic_uint *taken;
};

static void *race_run(void *context)
{
	const struct race *race = context;
	struct identity_window *w =
		mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, race->fd, 0);

	for (uint32_t n = 0; w != MAP_FAILED && n < RACE_NUMBERS; n++)
		if (identity_window_take(w, n))
			atomic_fetch_add(&race->taken[n], 1);
	return w == MAP_FAILED || munmap(w, sizeof(*w)) ? context : NULL;
}

static void test_window_shared(void **state)
{
	static atomic_uint taken[RACE_NUMBERS];
	struct race race = { memfd_create("window", 0), taken };
	pthread_t threads[RACERS];
	unsigned int all = 0;

	(void)state;
	assert_int_equal(ftruncate(race.fd, sizeof(struct identity_window)), 0);
	for (size_t i = 0; i < RACERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race_run, &race), 0);
	for (size_t i = 0; i < RACERS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	for (size_t n = 0; n < RACE_NUMBERS; n++) {
		assert_true(taken[n] <= 1);
		all += taken[n];
	}
	assert_true(all >= RACE_NUMBERS - IDENTITY_WINDOW && taken[RACE_NUMBERS - 1] == 1);
	close(race.fd);
}

static char dir[64];
static uint64_t gone;

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/cordon-identity-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

static void on_ended(void *context, uint64_t id)
{
	(void)context;
	gone = id;
}

/* The owner answers as its loop would: when the descriptor says so. */
static void owner_turn(struct identity_owner *owner)
{
	struct pollfd pfd = { .fd = identity_owner_fd(owner), .events = POLLIN };

	if (poll(&pfd, 1, 1000) > 0)
		identity_serve(owner);
}

/* What is packed comes back the same: the longest of all, and none. */
static void test_packed(void **state)
{
	struct identity full = {
		.fence_id = 7, .generation = 1ULL << 40, .mode = 2, .n_scopes = IDENTITY_SCOPES_MAX
	};
	const struct identity none = { 0 };
	struct identity_packed *packed;
	struct identity got;

	(void)state;
	memset(full.tenant, 't', IDENTITY_TEXT_MAX);
	memset(full.subject, 's', IDENTITY_TEXT_MAX);
	memset(full.task, 'k', IDENTITY_TEXT_MAX);
	memset(full.fence_name, 'f', IDENTITY_TEXT_MAX);
	memset(full.policy, 'p', IDENTITY_TEXT_MAX);
	memset(full.container, 'c', IDENTITY_TEXT_MAX);
	memset(full.node, 'n', IDENTITY_NODE_MAX);
	for (size_t i = 0; i < IDENTITY_SCOPES_MAX; i++)
		memset(full.scopes[i], 'a' + (int)i % 26, i % IDENTITY_SCOPE_MAX + 1);
	full.upload_bytes = 1ULL << 50;
	full.domains_size = IDENTITY_DOMAINS_SIZE;
	memset(full.domains, 'd', IDENTITY_DOMAINS_SIZE - 1);
	full.n_allow = IDENTITY_ALLOW_MAX;
	for (size_t i = 0; i < IDENTITY_ALLOW_MAX; i++)
		full.allow[i] =
			(struct reach_allow){ .addr.b[12] = 10, .hi = 443, .bits = (uint8_t)i };
	assert_true(identity_is_sound(&full));
	packed = identity_pack(&full);
	identity_unpack(packed, &got);
	assert_memory_equal(&got, &full, sizeof(got));
	assert_string_equal(identity_packed_text(packed, IDENTITY_CONTAINER), full.container);
	assert_string_equal(identity_packed_text(packed, IDENTITY_NODE), full.node);
	free(packed);
	packed = identity_pack(&none);
	identity_unpack(packed, &got);
	assert_memory_equal(&got, &none, sizeof(got));
	free(packed);
}

/* What could be read past is no identity. */
static void test_reach_bounds(void **state)
{
	struct identity id = { .fence_id = 7 };

	(void)state;
	id.domains_size = 2;
	assert_true(identity_is_sound(&id));
	id.domains[1] = 'a';
	assert_false(identity_is_sound(&id));
	id.domains_size = IDENTITY_DOMAINS_SIZE + 1;
	assert_false(identity_is_sound(&id));
	id.domains_size = 0;
	id.n_allow = 1;
	id.allow[0].bits = 32;
	assert_true(identity_is_sound(&id));
	id.allow[0].bits = 33;
	assert_false(identity_is_sound(&id));
	id.allow[0].addr.v6 = 1;
	assert_true(identity_is_sound(&id));
	id.allow[0].bits = 129;
	assert_false(identity_is_sound(&id));
	id.allow[0].bits = 0;
	id.n_allow = IDENTITY_ALLOW_MAX + 1;
	assert_false(identity_is_sound(&id));
}

static bool socket_there(const char *name)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

/* A socket that nobody listens on any more goes with the next owner; one that somebody listens on stays. */
static void test_sweep(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct identity_key k = { { key[0], key[1] } };
	struct identity identity = { .fence_id = 42 };
	struct identity_owner *first, *second;
	struct error error = { "" };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	(void)state;
	assert_int_equal(identity_publish(dir, &identity, 3, &k, 0, NULL, &first, &error), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/dead.sock", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	identity.fence_id = 43;
	assert_int_equal(identity_publish(dir, &identity, 4, &k, 0, NULL, &second, &error), 0);
	assert_false(socket_there("dead.sock"));
	assert_true(socket_there("000000000000002a.sock"));
	identity_withdraw(second);
	identity_withdraw(first);
	assert_false(socket_there("000000000000002a.sock"));
}

static void test_life(void **state)
{
	struct identity identity = { .fence_id = 42, .n_scopes = 1 }, got;
	const struct identity_key k = { { key[0], key[1] } };
	struct identity_source *source;
	struct identity_owner *owner;
	struct error error = { "" };
	struct pollfd pfd;

	(void)state;
	strcpy(identity.tenant, "t-1");
	strcpy(identity.scopes[0], "refund:create");
	assert_int_equal(identity_open(dir, &source, &error), 0);
	assert_int_equal(identity_find(source, 42, &got), -ENOENT);
	assert_int_equal(identity_publish(dir, &identity, 3, &k, 0, NULL, &owner, &error), 0);
	pfd = (struct pollfd){ .fd = identity_fd(source), .events = POLLIN };
	assert_int_equal(poll(&pfd, 1, 1000), 1); /* the directory changed */
	identity_poll(source, on_ended, NULL);
	owner_turn(owner);
	assert_int_equal(identity_find(source, 42, &got), 0);
	assert_string_equal(got.tenant, "t-1");
	assert_string_equal(got.scopes[0], "refund:create");
	assert_true(identity_alive(source, 42));
	assert_false(identity_alive(source, 43));
	identity_withdraw(owner);
	assert_false(identity_alive(source, 42)); /* at once, before any poll */
	assert_int_equal(poll(&pfd, 1, 1000), 1);
	identity_poll(source, on_ended, NULL);
	assert_true(gone == 42);
	assert_int_equal(identity_find(source, 42, &got), -ENOENT);
	identity_close(source);
}

/* Memory for numbers, as an owner would make it. */
static int window_fd(off_t size, int seals)
{
	int fd = memfd_create("window", MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/*
 * Says m as an owner would, with a descriptor beside it (taken over; -1: none); is it believed? What is not believed is
 * hung up on.
 */
static bool believed(const struct identity_message *m, int beside)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .align = { .cmsg_len = CMSG_LEN(sizeof(int)),
				 .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { (void *)m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct identity_source *source;
	struct identity got;
	struct error error = { "" };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), peer;
	bool found;
	char c;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/1.sock", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(identity_open(dir, &source, &error), 0);
	peer = accept(fd, NULL, NULL);
	memcpy(CMSG_DATA(&control.align), &beside, sizeof(beside));
	if (beside >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	assert_int_equal(sendmsg(peer, &msg, 0), sizeof(*m));
	if (beside >= 0)
		close(beside);
	found = !identity_find(source, 9, &got);
	if (!found)
		assert_int_equal(recv(peer, &c, 1, MSG_DONTWAIT), 0);
	close(peer);
	close(fd);
	unlink(address.sun_path);
	identity_close(source);
	return found;
}

static void test_foreign_owner(void **state)
{
	const struct identity_message good = {
		.magic = IDENTITY_MAGIC,
		.version = IDENTITY_VERSION,
		.size_low = (uint16_t)sizeof(struct identity),
		.slot = CORDON_FENCES_MAX - 1,
		.identity = { .fence_id = 9 },
	};
	struct identity_message m = good;

	const off_t size = sizeof(struct identity_window);

	(void)state;
	assert_true(believed(&m, window_fd(size, F_SEAL_SHRINK)));
	/* Without memory for its numbers, or with some that could be taken away, a mark would count again. */
	assert_false(believed(&m, -1));
	assert_false(believed(&m, window_fd(size, 0)));
	assert_false(believed(&m, window_fd(size - 1, F_SEAL_SHRINK)));
	assert_false(believed(&m, open("/dev/null", O_RDWR)));
	m.version++;
	assert_false(believed(&m, window_fd(size, F_SEAL_SHRINK)));
	m = good;
	m.magic++;
	assert_false(believed(&m, window_fd(size, F_SEAL_SHRINK)));
	m = good;
	m.size_low++;
	assert_false(believed(&m, window_fd(size, F_SEAL_SHRINK)));
	m = good;
	m.slot = CORDON_FENCES_MAX;
	assert_false(believed(&m, window_fd(size, F_SEAL_SHRINK)));
	m = good;
	m.identity.n_scopes = IDENTITY_SCOPES_MAX + 1;
	assert_false(believed(&m, window_fd(size, F_SEAL_SHRINK)));
	m = good;
	memset(m.identity.task, 'x', sizeof(m.identity.task));
	assert_false(believed(&m, window_fd(size, F_SEAL_SHRINK)));
	m = good;
	m.identity.fence_id = 0;
	assert_false(believed(&m, window_fd(size, F_SEAL_SHRINK)));
}

/* A connection of nobody. */
static void test_unknown(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(in);
	struct identity_source *source;
	struct identity got;
	struct error error = { "" };
	int fd = socket(AF_INET, SOCK_STREAM, 0), client, accepted, pair[2];

	(void)state;
	assert_int_equal(identity_open(dir, &source, &error), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(identity_listen(fd), 0);
	assert_int_equal(listen(fd, 4), 0);
	getsockname(fd, (struct sockaddr *)&in, &size);
	client = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&in, sizeof(in)), 0);
	accepted = accept(fd, NULL, NULL);
	assert_int_equal(identity_of_connection(source, accepted, &got), -ENOENT);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(identity_of_connection(source, pair[0], &got), -ENOENT);
	assert_int_equal(identity_of_connection(source, -1, &got), -ENOENT);
	close(fd);
	close(client);
	close(accepted);
	close(pair[0]);
	close(pair[1]);
	identity_close(source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mac),
		cmocka_unit_test(test_syn),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_window_close),
		cmocka_unit_test(test_window_shared),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_reach_bounds),
		cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_life, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_owner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
