// SPDX-License-Identifier: Apache-2.0
/*
 * What gateways tell cordond: frames (user/event/frame.c), and the front's side of their socket (user/cordond/front_gateway.c)
 * with a keeper that this test plays, without a kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "cordond/front.h"
#include "metrics/metrics.h"

static char frame[EVENT_FRAME_MAX + 1];

/* --- frames ----------------------------------------------------------------------------------- */

static struct event_gateway refund(void)
{
	return (struct event_gateway){ .tool = "refund",
				       .action = "POST /refund",
				       .object = "o-\xff\n\"1",
				       .reason = "ok",
				       .key = "",
				       .has_amount = true,
				       .destructive = true,
				       .amount = -7,
				       .status = 200,
				       .upstream_status = -1,
				       .latency_us = 12,
				       .record = 9 };
}

static const struct event_context told_by_gateway = { .task = "told", .tenant = "t-1" };

static size_t frame_make(uint64_t fence, uint64_t number, const struct event_gateway *gateway)
{
	static struct event event;
	struct event_frame head;
	size_t size;

	event_make(&event, CORDON_OP_CALL, NULL, NULL, 5, NULL);
	event.raw.rule = CORDON_RULE_GW_OK;
	event.raw.fence_id = fence;
	event.gateway = gateway;
	size = event_frame_encode(frame, &told_by_gateway, &event);
	memcpy(&head, frame, sizeof(head));
	head.instance = 77;
	head.number = number;
	memcpy(frame, &head, sizeof(head));
	return size;
}

static void test_frame(void **state)
{
	static char line[EVENT_LINE_MAX + 1];
	static struct event event;
	const struct event_gateway gateway = refund();
	struct event_context context;
	struct event_gateway got;
	struct event_record record;
	size_t n, size = frame_make(42, 1, &gateway);

	(void)state;
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), 0);
	assert_int_equal(event.raw.type, CORDON_TYPE_GATEWAY);
	assert_int_equal(event.raw.fence_id, 42);
	assert_string_equal(context.task, "told");
	assert_null(context.subject);
	assert_string_equal(got.object, gateway.object);
	assert_string_equal(got.key, "");
	assert_null(got.grant);
	assert_true(got.has_amount && got.destructive && got.amount == -7 && got.record == 9);
	n = event_format_json(line, &context, &event);
	line[n] = '\0';
	assert_true(event_line_is_sound(line, n));
	assert_int_equal(event_record_parse(line, n, &record, NULL), 0);
	event_record_clear(&record);
	assert_non_null(strstr(line, "\"destructive\":true"));
	/* Of a time that has not come yet is now. */
	((struct event_frame *)frame)->mono_ns = INT64_MAX;
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), 0);
	assert_true(event.raw.mono_ns < INT64_MAX);
}

static void test_frame_long(void **state)
{
	static char text[2 * EVENT_TEXT_MAX];
	static struct event event;
	struct event_context context;
	struct event_gateway got, gateway = refund();
	size_t size;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	gateway.object = gateway.reason = gateway.key = text;
	size = frame_make(1, 1, &gateway);
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), 0);
	assert_int_equal(strlen(got.object), EVENT_TEXT_MAX);
}

/* What a gateway may not say: each a change of a good frame. */
#define CHANGES(X)                           \
	X(magic, 1)                          \
	X(version, 1)                        \
	X(size, 8)                           \
	X(number, 0)                         \
	X(instance, 0)                       \
	X(mono_ns, UINT64_MAX)               \
	X(record, UINT64_MAX)                \
	X(status, 1000)                      \
	X(status, -2)                        \
	X(latency_us, -2)                    \
	X(mode, CORDON_MODE_AUDIT + 1)       \
	X(has_amount, 2)                     \
	X(destructive, 2)                    \
	X(count, 1)                          \
	X(pad, 1)                            \
	X(pad2[3], 1)                        \
	X(has_bytes, 2)                      \
	X(up_bytes, -1)                      \
	X(down_bytes, -1)                    \
	X(length[0], 1)                      \
	X(length[1], UINT16_MAX)             \
	X(op, CORDON_OP_OPEN_WRITE)          \
	X(op, CORDON_OP_CONNECT)             \
	X(op, CORDON_OP_START)               \
	X(op, CORDON_OP_ENFORCING)           \
	X(op, CORDON_OP_STEER)               \
	X(op, CORDON_OP_LAG)                 \
	X(op, CORDON_OP_GAP)                 \
	X(op, CORDON_OP_DENY_RATE)           \
	X(op, CORDON_OP_DESTRUCTIVE)         \
	X(op, CORDON_OP_COUNT)               \
	X(rule, CORDON_RULE_NONE)            \
	X(rule, CORDON_RULE_FILES_WRITE)     \
	X(rule, CORDON_RULE_ALERT_DENY_RATE) \
	X(rule, CORDON_RULE_COUNT)           \
	X(rule, CORDON_RULE_GW_QUOTA)        \
	X(verdict, CORDON_VERDICT_DENY)      \
	X(verdict, CORDON_VERDICT_WOULD_DENY)

static void test_frame_refused(void **state)
{
	static struct event event;
	struct event_frame *head = (struct event_frame *)frame;
	const struct event_gateway gateway = refund();
	struct event_context context;
	struct event_gateway got;
	size_t size;

	(void)state;
#define CORDON_X(member, value)                                                  \
	size = frame_make(42, 1, &gateway);                                      \
	head->member = (__typeof__(head->member))(value);                        \
	if (event_frame_decode(frame, size, &context, &got, &event) != -EBADMSG) \
		fail_msg(#member " " #value " is taken");
	CHANGES(CORDON_X)
#undef CORDON_X
	size = frame_make(42, 1, &gateway);
	for (size_t n = 0; n < size; n++) /* cut off anywhere, whatever it says of its size */
		for (int said = 0; said < 2; said++) {
			head->size = (uint16_t)(said ? n : size);
			assert_int_equal(event_frame_decode(frame, n, &context, &got, &event),
					 -EBADMSG);
		}
	/* A refusal that says that something was done. */
	size = frame_make(42, 1, &gateway);
	head->rule = CORDON_RULE_GW_QUOTA;
	head->verdict = CORDON_VERDICT_DENY;
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), -EBADMSG);
	head->destructive = 0;
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), 0);
	/* One for many are refused calls, nothing else. */
	head->count = 123;
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), 0);
	assert_int_equal(event.raw.count, 123);
	head->op = CORDON_OP_APPROVAL;
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), -EBADMSG);
	/* A NUL in a text, and none at its end. */
	size = frame_make(42, 1, &gateway);
	frame[sizeof(*head)] = '\0';
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), -EBADMSG);
	size = frame_make(42, 1, &gateway);
	frame[size - 1] = 'x';
	assert_int_equal(event_frame_decode(frame, size, &context, &got, &event), -EBADMSG);
	/* A gap is of no fence. */
	memset(head, 0, sizeof(*head));
	*head = (struct event_frame){ .magic = EVENT_FRAME_MAGIC,
				      .version = EVENT_FRAME_VERSION,
				      .size = sizeof(*head),
				      .instance = 1,
				      .number = 1,
				      .op = CORDON_OP_GAP,
				      .count = 3 };
	assert_int_equal(event_frame_decode(frame, sizeof(*head), &context, &got, &event), 0);
	assert_true(event.raw.type == CORDON_TYPE_LOSS && event.raw.count == 3 && !event.gateway);
	head->fence_id = 42;
	assert_int_equal(event_frame_decode(frame, sizeof(*head), &context, &got, &event),
			 -EBADMSG);
}

/* --- the front's side ------------------------------------------------------------------------- */

enum { FENCE = 42 };

static struct front front;
static struct watched fence;
static int keeper, door;
static char dir[64], path[128];
static union wire_message asked;

static void on_evict(void *context, uint64_t at, const struct history_entry *entry)
{
	(void)context;
	(void)at;
	(void)entry;
}

static int setup(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct watched *known[] = { &fence };
	static const struct wire_fence nothing;
	int pair[2];

	(void)state;
	strcpy(dir, "/tmp/cordon-unit-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	strcpy(address.sun_path, path);
	door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(door, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(door, 8), 0);
	assert_int_equal(chmod(dir, 0755) | chmod(path, 0666), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	keeper = pair[1];
	memset(&front, 0, sizeof(front));
	front.keeper_fd = pair[0];
	front.events_fd = door;
	front.peers_fd = -1;
	front.epoll_fd = epoll_create1(0);
	front.event = malloc(sizeof(struct event));
	front.line = malloc(EVENT_LINE_MAX);
	front.history = history_new(1 << 20, on_evict, NULL);
	front.has_gateway = true;
	front.gateway = geteuid();
	snprintf(front.node, sizeof(front.node), "here");
	front.watched = malloc(sizeof(known));
	memcpy(front.watched, known, sizeof(known));
	front.n_watched = 1;
	front_gateways_init(&front);
	memset(&fence, 0, sizeof(fence));
	fence.id = FENCE;
	fence.context = (struct event_context){ .node = "here", .task = "known", .tenant = "t-9" };
	fence.account = calloc(1, sizeof(*fence.account));
	fence.account->fence_id = FENCE;
	assert_int_equal(how_set(&fence.how, &nothing), 0);
	event_tracker_init(&fence.tracker, 0, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < GATEWAYS_MAX; i++)
		if (front.gateways[i].fd >= 0)
			close(front.gateways[i].fd);
	close(door);
	close(keeper);
	close(front.keeper_fd);
	close(front.epoll_fd);
	alerts_close(TAKE_PTR(front.alerts));
	history_free(front.history);
	free(front.event);
	free(front.line);
	free(front.watched);
	how_clear(&fence.how);
	free(fence.account);
	unlink(path);
	rmdir(dir);
	return 0;
}

static int gateway_connect(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* What the loop does when descriptors are ready. */
static void turn(void)
{
	struct epoll_event events[16];
	int n;

	front_gateway_accept(&front);
	n = epoll_wait(front.epoll_fd, events, ARRAY_SIZE(events), 0);
	for (int i = 0; i < n; i++)
		front_gateway_ready(&front, events[i].data.ptr, events[i].events);
	front_gateways_turn(&front);
}

static void tell(int fd, uint64_t id, uint64_t number)
{
	const struct event_gateway gateway = refund();
	size_t size = frame_make(id, number, &gateway);

	assert_int_equal(send(fd, frame, size, MSG_NOSIGNAL), size);
	turn();
}

/* 1: none yet; else err. */
static int answer(int fd)
{
	struct event_frame_answer got = { 0, 0 };
	ssize_t n = recv(fd, &got, sizeof(got), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return 1;
	assert_int_equal(n, sizeof(got));
	assert_int_equal(got.magic, EVENT_FRAME_MAGIC);
	return got.err;
}

/* The keeper's next message; its serial. */
static uint32_t keeper_asked(enum wire_type type)
{
	int fds[WIRE_FDS_MAX];

	assert_int_equal(wire_receive(keeper, true, &asked, fds), 1);
	assert_int_equal(asked.head.type, type);
	return asked.head.serial;
}

static void keeper_not_asked(void)
{
	int fds[WIRE_FDS_MAX];

	assert_int_equal(wire_receive(keeper, true, &asked, fds), 0);
}

/* How many lines there are; the last of them. */
static unsigned int lines(char last[4096])
{
	uint64_t at = history_oldest(front.history), next;
	const struct history_entry *entry;
	unsigned int n = 0;

	last[0] = '\0';
	for (; (entry = history_at(front.history, at, &next)); at = next, n++)
		snprintf(last, 4096, "%.*s", (int)entry->bytes, entry->line);
	return n;
}

static void test_kept(void **state)
{
	char last[4096];
	int fd = gateway_connect();
	uint32_t serial;

	(void)state;
	tell(fd, FENCE, 1);
	serial = keeper_asked(WIRE_NUMBER);
	assert_int_equal(asked.NUMBER.fence_id, FENCE);
	assert_int_equal(lines(last), 0);
	assert_int_equal(answer(fd), 1); /* not before it is given away */
	assert_int_equal(fence.n_numbered, 1);
	front_gateway_numbered(&front, serial + 1, 5); /* somebody else's */
	assert_int_equal(answer(fd), 1);
	front_gateway_numbered(&front, serial, 1);
	assert_int_equal(answer(fd), 0);
	assert_int_equal(fence.n_numbered, 0);
	assert_int_equal(lines(last), 1);
	/* Who it is, cordond knows better. */
	assert_non_null(strstr(last, "\"node\":\"here\",\"seq\":1,"));
	assert_non_null(strstr(last, "\"type\":\"gateway\",\"op\":\"call\""));
	assert_non_null(strstr(last, "\"task\":\"known\",\"tenant\":\"t-9\""));
	assert_null(strstr(last, "told"));
	/* Its number is one of the fence's. */
	assert_int_equal(fence.tracker.received, 1);
	tell(fd, FENCE, 2);
	front_gateway_numbered(&front, keeper_asked(WIRE_NUMBER), 2);
	assert_int_equal(answer(fd), 0);
	assert_int_equal(lines(last), 2);
	close(fd);
}

static void test_unkept(void **state)
{
	char last[4096];
	int fd = gateway_connect();

	(void)state;
	tell(fd, 7, 1);
	keeper_not_asked();
	assert_int_equal(answer(fd), 0);
	assert_int_equal(lines(last), 1);
	assert_non_null(strstr(last, "\"seq\":1,"));
	assert_non_null(strstr(last, "\"id\":\"0000000000000007\""));
	assert_non_null(strstr(last, "\"task\":\"told\",\"tenant\":\"t-1\""));
	/* One that the keeper does not keep any more. */
	tell(fd, FENCE, 2);
	front_gateway_numbered(&front, keeper_asked(WIRE_NUMBER), 0);
	assert_int_equal(answer(fd), 0);
	assert_int_equal(lines(last), 2);
	assert_non_null(strstr(last, "\"seq\":2,"));
	assert_int_equal(fence.tracker.received, 0);
	assert_int_equal(fence.n_numbered, 0);
	close(fd);
}

/* One event for many calls that a gateway did not let in: the figures have them all. */
static void test_many(void **state)
{
	const struct event_gateway gateway = {
		.reason = "rate_limited", .status = 429, .upstream_status = -1, .latency_us = -1
	};
	struct event_frame *head = (struct event_frame *)frame;
	_cleanup_free_ char *page = NULL;
	size_t size = frame_make(7, 1, &gateway), n_page;
	int fd = gateway_connect();
	FILE *out;

	(void)state;
	metrics_reset();
	head->rule = CORDON_RULE_GW_QUOTA;
	head->verdict = CORDON_VERDICT_DENY;
	head->count = 123;
	assert_int_equal(send(fd, frame, size, MSG_NOSIGNAL), size);
	turn();
	assert_int_equal(answer(fd), 0);
	out = open_memstream(&page, &n_page);
	assert_int_equal(metrics_write(out), 0);
	fclose(out);
	assert_non_null(strstr(page, "cordon_denied_total{rule=\"gateway.quota\"} 123\n"));
	close(fd);
	turn();
}

/* Sent again: after its answer, and while its number is awaited, by another connection. */
static void test_again(void **state)
{
	char last[4096];
	int fd = gateway_connect(), second;
	uint32_t serial;

	(void)state;
	tell(fd, FENCE, 1);
	front_gateway_numbered(&front, keeper_asked(WIRE_NUMBER), 1);
	assert_int_equal(answer(fd), 0);
	close(fd);
	fd = gateway_connect();
	tell(fd, FENCE, 1);
	keeper_not_asked();
	assert_int_equal(answer(fd), 0);
	assert_int_equal(lines(last), 1);
	tell(fd, FENCE, 2);
	serial = keeper_asked(WIRE_NUMBER);
	close(fd);
	turn();
	second = gateway_connect();
	tell(second, FENCE, 2);
	keeper_not_asked();
	assert_int_equal(answer(second), 1);
	front_gateway_numbered(&front, serial, 2);
	assert_int_equal(answer(second), 0);
	assert_int_equal(lines(last), 2);
	tell(second, FENCE, 3); /* and it goes on */
	front_gateway_numbered(&front, keeper_asked(WIRE_NUMBER), 3);
	assert_int_equal(answer(second), 0);
	assert_int_equal(front.n_gateways, 1);
	close(second);
	turn();
	assert_int_equal(front.n_gateways, 0);
}

/* A keeper that never answers is asked again; the late answer is nobody's. */
static void test_asked_again(void **state)
{
	char last[4096];
	int fd = gateway_connect();
	uint32_t serial;

	(void)state;
	tell(fd, FENCE, 1);
	serial = keeper_asked(WIRE_NUMBER);
	turn();
	keeper_not_asked();
	front.gateways[0].asked_ms -= 6000;
	turn();
	assert_int_not_equal(keeper_asked(WIRE_NUMBER), serial);
	front_gateway_numbered(&front, serial, 1);
	assert_int_equal(answer(fd), 1);
	front_gateway_numbered(&front, asked.head.serial, 2);
	assert_int_equal(answer(fd), 0);
	assert_int_equal(lines(last), 1);
	assert_int_equal(fence.n_numbered, 0);
	close(fd);
}

static void test_no_frame(void **state)
{
	static char huge[EVENT_FRAME_MAX + 1000];
	char last[4096];
	const struct event_gateway gateway = refund();
	int fd = gateway_connect();
	size_t size = frame_make(FENCE, 1, &gateway);

	(void)state;
	((struct event_frame *)frame)->op = CORDON_OP_OPEN_WRITE; /* as if it were the kernel's */
	assert_int_equal(send(fd, frame, size, 0), size);
	turn();
	assert_int_equal(answer(fd), -EBADMSG);
	assert_int_equal(recv(fd, huge, 1, 0), 0);
	close(fd);
	fd = gateway_connect();
	memcpy(huge, frame, sizeof(frame));
	assert_int_equal(send(fd, huge, sizeof(huge), 0), sizeof(huge));
	turn();
	assert_int_equal(answer(fd), -EBADMSG);
	close(fd);
	assert_int_equal(lines(last), 0);
	keeper_not_asked();
	assert_int_equal(front.n_gateways, 0);
}

/* More than there is room for are closed; those that there are go on. */
static void test_room(void **state)
{
	int fds[GATEWAYS_MAX + 1];
	char byte;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = gateway_connect();
	turn();
	assert_int_equal(front.n_gateways, GATEWAYS_MAX);
	assert_int_equal(recv(fds[GATEWAYS_MAX], &byte, 1, 0), 0);
	tell(fds[0], 7, 1);
	assert_int_equal(answer(fds[0]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	turn();
	assert_int_equal(front.n_gateways, 0);
}

/* Another user is told that he may not. */
static void test_user(void **state)
{
	const struct event_gateway gateway = refund();
	int fd = gateway_connect(), status = -1;
	char last[4096];
	size_t size;
	pid_t pid;

	(void)state;
	tell(fd, 7, 1);
	assert_int_equal(answer(fd), 0);
	size = frame_make(7, 2, &gateway);
	close(fd);
	if (geteuid()) {
		skip();
		return;
	}
	pid = fork();
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(2);
		fd = gateway_connect();
		/* Its frame is there when it is judged. */
		_exit(send(fd, frame, size, 0) < 0 ? 3 : fd);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) > 3);
	turn();
	assert_int_equal(front.n_gateways, 0);
	assert_int_equal(lines(last), 1);
	/* Whose gateways are to be heard is configured. */
	front.gateway = 65534;
	pid = fork();
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(2);
		fd = gateway_connect();
		_exit(send(fd, frame, size, 0) < 0 ? 3 : fd);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	turn();
	assert_int_equal(lines(last), 2);
}

/* An account is written for the fence that has the slot; not for one that had it before and is not done yet. */
static void test_account(void **state)
{
	struct event event;
	const struct cordon_fence info = { .id = FENCE };

	(void)state;
	event_make(&event, CORDON_OP_RELOAD, &info, NULL, 1, "");
	front_fence_tell(&front, &fence, &event);
	assert_true(fence.account->valid);
	assert_int_equal(fence.account->tracker[fence.account->valid - 1].received, 1);
	fence.account->fence_id = FENCE + 1;
	fence.account->valid = 0;
	event_make(&event, CORDON_OP_RELOAD, &info, NULL, 2, "");
	front_fence_tell(&front, &fence, &event);
	assert_int_equal(fence.account->valid, 0);
}

static void test_alert(void **state)
{
	const struct alert_limits limits = { .calls = 3,
					     .calls_window_ns = 60 * 1000000000ULL,
					     .quiet_ns = 60 * 1000000000ULL };
	struct error error = { "" };
	char last[4096];
	int fd = gateway_connect();

	(void)state;
	assert_int_equal(alerts_open(&limits, &front.alerts, &error), 0);
	/* Of a fence that is kept, the keeper is asked for it. */
	for (uint64_t i = 1; i <= 3; i++) {
		tell(fd, FENCE, i);
		front_gateway_numbered(&front, keeper_asked(WIRE_NUMBER), i);
		assert_int_equal(answer(fd), 0);
		if (i < 3)
			keeper_not_asked();
	}
	keeper_asked(WIRE_REMARK);
	assert_int_equal(asked.REMARK.op, CORDON_OP_DESTRUCTIVE);
	assert_int_equal(asked.REMARK.fence_id, FENCE);
	assert_int_equal(asked.REMARK.count, 3);
	assert_int_equal(lines(last), 3);
	/* Of another it is written at once, for the subject that the gateway names: here the fence. */
	for (uint64_t i = 4; i <= 6; i++)
		tell(fd, 7, i);
	assert_int_equal(lines(last), 7);
	assert_non_null(strstr(last, "\"type\":\"limit\",\"op\":\"destructive\""));
	assert_non_null(strstr(last, "\"rule\":\"alert.destructive\""));
	assert_non_null(strstr(last, "\"task\":\"told\""));
	close(fd);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_frame),
					    cmocka_unit_test(test_frame_long),
					    cmocka_unit_test(test_frame_refused),
					    T(test_kept),
					    T(test_unkept),
					    T(test_many),
					    T(test_again),
					    T(test_asked_again),
					    T(test_no_frame),
					    T(test_room),
					    T(test_user),
					    T(test_alert),
					    T(test_account) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
