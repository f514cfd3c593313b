// SPDX-License-Identifier: Apache-2.0
/*
 * `cordon verify`: the five completion criteria, tried from inside a fence that is made for it. Root, because it runs
 * `cordon run`. Nothing is taken on trust: the probe inside says what it saw, and where an effect matters the numbers
 * that the gateway gives out before and after must fit. A criterion that cannot be tried is skipped with the reason,
 * never passed.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "cordon/cli.h"
#include "cordon/probe.h"

enum { CRITERIA = 5 };

struct verify_options {
	const char *policy, *gateway, *tenant, *other_tenant, *order, *other_order, *subject;
	unsigned int cold_start_ms;
	bool json, inside;
};

#define AT(member) offsetof(struct verify_options, member)

static const struct cli_option verify_rows[] = {
	{ 'p', "policy", CLI_STRING, AT(policy), "POLICY",
	  "policy of the fence; default: one that allows the gateway and scope refund:create", 0, 0,
	  NULL },
	{ 'g', "gateway", CLI_STRING, AT(gateway), "URL",
	  "the gateway, http://ADDRESS:PORT; without it criteria 3 and 4 are skipped", 0, 0, NULL },
	{ 0, "tenant", CLI_STRING, AT(tenant), "TENANT", "whose fence it is", 0, 0, "t-1" },
	{ 0, "other-tenant", CLI_STRING, AT(other_tenant), "TENANT",
	  "whose order it must not touch", 0, 0, "t-2" },
	{ 0, "order", CLI_STRING, AT(order), "ID",
	  "an order of the tenant with 2 or more left to refund", 0, 0, "o-1" },
	{ 0, "other-order", CLI_STRING, AT(other_order), "ID", "one of the other tenant, likewise",
	  0, 0, "o-2" },
	{ 0, "subject", CLI_STRING, AT(subject), "USER", "on whose behalf", 0, 0, "verify" },
	{ 0, "cold-start-ms", CLI_UINT, AT(cold_start_ms), "MS", "criterion 5 fails above this", 1,
	  3600000, NULL },
	{ 0, "json", CLI_FLAG, AT(json), NULL, "print one JSON object instead of TAP", 0, 0, NULL },
	{ 0, "inside", CLI_FLAG, AT(inside), NULL, "be the probe (what verify runs in its fence)",
	  0, 0, NULL },
	{ 0, NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL },
};

struct verdict {
	bool tried, ok;
	const char *name;
	char detail[1024];
	size_t n;
};

static const char *const names[CRITERIA] = {
	"from inside, no public address, no resolver and no metadata service is reached",
	"writing outside the workdir fails with Read-only file system",
	"an order of another tenant: 403 object_not_in_tenant, and the order is unchanged",
	"the same idempotency key again: duplicate, and no second effect",
	"cold start is measured",
};

struct verify {
	const struct verify_options *o;
	struct verdict v[CRITERIA];
	char dir[64], policy[96], program[4096];
	char address[64], port[8]; /* of the gateway; "": none */
	long long cold_start_ms;
};

static void note(struct verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct verdict *v, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(v->detail + v->n, sizeof(v->detail) - v->n, format, args);
	va_end(args);
	v->n += n > 0 && v->n + (size_t)n < sizeof(v->detail) ? (size_t)n : 0;
}

/* --- a fence with the probe inside ---------------------------------------------------------------------------- */

struct fence {
	pid_t pid;
	FILE *in, *out;
	char events[96], work[96];
};

static int fence_begin(struct verify *verify, const char *name, const char *tenant, struct fence *f)
{
	int in[2], out[2];

	snprintf(f->events, sizeof(f->events), "%s/%s.events", verify->dir, name);
	snprintf(f->work, sizeof(f->work), "%s/%s", verify->dir, name);
	if (mkdir(f->work, 0700) || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -errno;
	f->pid = fork();
	if (f->pid < 0)
		return -errno;
	if (!f->pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(verify->program, "cordon", "run", "-p", verify->policy, "-w", f->work, "-e",
		      f->events, "-o", "json", "--task", "verify", "--tenant", tenant, "--subject",
		      verify->o->subject, "--", verify->program, "verify", "--inside", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	f->in = fdopen(in[1], "w");
	f->out = fdopen(out[0], "r");
	return f->in && f->out ? 0 : -ENOMEM;
}

/* Returns the exit code of cordon run. */
static int fence_end(struct fence *f)
{
	int status = 0;

	if (f->in)
		fclose(f->in);
	if (f->out)
		fclose(f->out);
	f->in = f->out = NULL;
	if (f->pid > 0)
		while (waitpid(f->pid, &status, 0) < 0 && errno == EINTR)
			;
	f->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What the probe says to a request; NULL when the fence is gone. Caller releases. */
static json_t *ask(struct fence *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static json_t *ask(struct fence *f, const char *format, ...)
{
	static char line[131072];
	va_list args;

	va_start(args, format);
	vfprintf(f->in, format, args);
	va_end(args);
	fputc('\n', f->in);
	if (fflush(f->in) || !fgets(line, sizeof(line), f->out))
		return NULL;
	return json_loads(line, 0, NULL);
}

/* Must be denied, with that error. */
static void must_deny(struct verdict *v, struct fence *f, const char *request, const char *want)
{
	json_t *got = ask(f, "%s", request);
	const char *err = json_string_value(json_object_get(got, "errno"));
	long long ms = json_integer_value(json_object_get(got, "ms"));

	if (!err || strcmp(err, want) != 0)
		v->ok = false;
	note(v, "%s%s: %s in %lld ms", v->n ? "; " : "", request,
	     !got  ? "no answer"
	     : err ? err
		   : "SUCCEEDED",
	     ms);
	json_decref(got);
}

/* --- the criteria --------------------------------------------------------------------------------------------- */

static void judge_network(struct verify *verify, struct fence *f)
{
	static const char *const requests[] = {
		"tcp 1.1.1.1 80",
		"tcp 1.1.1.1 443",
		"udp 1.1.1.1 443",
		"tcp 2606:4700:4700::1111 80",
		"udp 2606:4700:4700::1111 443",
		"dns 8.8.8.8",
		"dns 2001:4860:4860::8888",
		"tcp 169.254.169.254 80",
		"tcp ::ffff:169.254.169.254 80",
		"tcp fd00:ec2::254 80",
	};
	struct verdict *v = &verify->v[0];

	v->tried = v->ok = true;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		must_deny(v, f, requests[i], "EPERM");
}

static void judge_files(struct verify *verify, struct fence *f)
{
	struct verdict *v = &verify->v[1];
	char request[128];
	json_t *got;

	v->tried = v->ok = true;
	must_deny(v, f, "write /etc/cordon-verify", "EROFS");
	must_deny(v, f, "write /var/tmp/cordon-verify", "EROFS");
	snprintf(request, sizeof(request), "write %s/cordon-verify", verify->dir);
	must_deny(v, f, request, "EROFS");
	got = ask(f, "write %s/cordon-verify", f->work);
	if (!got || !json_is_null(json_object_get(got, "errno"))) {
		v->ok = false;
		note(v, "; writing in the workdir does not work");
	}
	json_decref(got);
}

struct answer {
	int status;
	char word[64];	     /* status or error of the body */
	long long remaining; /* -1: not said */
};

static struct answer refund(struct verify *verify, struct fence *f, const char *tenant,
			    const char *order, const char *key)
{
	json_t *got = ask(f,
			  "post %s %s /refund {\"tenant\":\"%s\",\"order_id\":\"%s\",\"amount\":1,"
			  "\"idempotency_key\":\"%s\"}",
			  verify->address, verify->port, tenant, order, key);
	const json_t *body = json_object_get(got, "body");
	const char *word = json_string_value(json_object_get(body, "status"));
	const json_t *remaining = json_object_get(body, "remaining");
	struct answer a = { .remaining = -1 };

	if (!word)
		word = json_string_value(json_object_get(body, "error"));
	if (!remaining)
		remaining = json_object_get(json_object_get(body, "result"), "remaining");
	a.status = (int)json_integer_value(json_object_get(got, "status"));
	snprintf(a.word, sizeof(a.word), "%s", word ? word : "no answer");
	if (json_is_integer(remaining))
		a.remaining = json_integer_value(remaining);
	json_decref(got);
	return a;
}

static bool answer_is(const struct answer *a, int status, const char *word)
{
	return a->status == status && !strcmp(a->word, word);
}

/* Its owner refunds 1 before and after: between the two nothing may have gone. */
static void judge_tenant(struct verify *verify, struct fence *own, struct fence *other)
{
	const struct verify_options *o = verify->o;
	struct verdict *v = &verify->v[2];
	char key[64];
	struct answer before, stolen, stated, after;
	long long t = (long long)time(NULL);

	v->tried = true;
	snprintf(key, sizeof(key), "verify-%lld-before", t);
	before = refund(verify, other, o->other_tenant, o->other_order, key);
	snprintf(key, sizeof(key), "verify-%lld-stolen", t);
	stolen = refund(verify, own, o->tenant, o->other_order, key);
	stated = refund(verify, own, o->other_tenant, o->other_order, key);
	snprintf(key, sizeof(key), "verify-%lld-after", t);
	after = refund(verify, other, o->other_tenant, o->other_order, key);
	v->ok = answer_is(&before, 200, "ok") && answer_is(&stolen, 403, "object_not_in_tenant") &&
		answer_is(&stated, 403, "tenant_mismatch") && answer_is(&after, 200, "ok") &&
		before.remaining > 0 && after.remaining == before.remaining - 1;
	note(v,
	     "%s refunds 1 of %s: %d %s, remaining %lld; %s asks for it: %d %s; stating %s: %d %s; "
	     "%s refunds 1 again: %d %s, remaining %lld",
	     o->other_tenant, o->other_order, before.status, before.word, before.remaining,
	     o->tenant, stolen.status, stolen.word, o->other_tenant, stated.status, stated.word,
	     o->other_tenant, after.status, after.word, after.remaining);
}

static void judge_once(struct verify *verify, struct fence *own)
{
	const struct verify_options *o = verify->o;
	struct verdict *v = &verify->v[3];
	struct answer first, again, next;
	long long t = (long long)time(NULL);
	char key[64];

	v->tried = true;
	snprintf(key, sizeof(key), "verify-%lld-once", t);
	first = refund(verify, own, o->tenant, o->order, key);
	again = refund(verify, own, o->tenant, o->order, key);
	snprintf(key, sizeof(key), "verify-%lld-next", t);
	next = refund(verify, own, o->tenant, o->order, key);
	v->ok = answer_is(&first, 200, "ok") && answer_is(&again, 200, "duplicate") &&
		again.remaining == first.remaining && answer_is(&next, 200, "ok") &&
		first.remaining > 0 && next.remaining == first.remaining - 1;
	note(v,
	     "first %d %s, remaining %lld; again %d %s, remaining %lld; another key %d %s, "
	     "remaining "
	     "%lld",
	     first.status, first.word, first.remaining, again.status, again.word, again.remaining,
	     next.status, next.word, next.remaining);
}

/* By the event that the fence itself recorded. */
static void judge_cold_start(struct verify *verify, const struct fence *f)
{
	struct verdict *v = &verify->v[4];
	_cleanup_fclose_ FILE *file = fopen(f->events, "re");
	static char line[131072];

	verify->cold_start_ms = -1;
	while (file && fgets(line, sizeof(line), file)) {
		json_t *root = json_loads(line, 0, NULL);
		const json_t *ns = json_object_get(root, "cold_start_ns");

		if (json_is_integer(ns))
			verify->cold_start_ms = json_integer_value(ns) / 1000000;
		json_decref(root);
	}
	v->tried = true;
	v->ok = verify->cold_start_ms >= 0 &&
		(!verify->o->cold_start_ms || verify->cold_start_ms <= verify->o->cold_start_ms);
	if (verify->cold_start_ms < 0)
		note(v, "no event cold_start was recorded");
	else if (verify->o->cold_start_ms)
		note(v, "%lld ms, limit %u ms", verify->cold_start_ms, verify->o->cold_start_ms);
	else
		note(v, "%lld ms, no limit set (--cold-start-ms)", verify->cold_start_ms);
}

/* --- the whole ------------------------------------------------------------------------------------------------ */

/* http://ADDRESS:PORT, IPv6 in brackets; names are not looked up. */
static bool url_read(const char *url, char *address, size_t size, char *port, size_t port_size)
{
	const char *p = url, *colon, *end;
	bool v6;

	if (strncmp(p, "http://", 7) != 0)
		return false;
	p += 7;
	v6 = *p == '[';
	colon = strrchr(p, ':');
	end = v6 ? strchr(p, ']') : colon;
	if (!colon || !end || colon < end || (v6 && colon != end + 1))
		return false;
	if (snprintf(address, size, "%.*s", (int)(end - p - v6), p + v6) >= (int)size ||
	    snprintf(port, port_size, "%s", colon + 1) >= (int)port_size)
		return false;
	port[strcspn(port, "/")] = '\0';
	return *port && strspn(port, "0123456789") == strlen(port);
}

static int policy_make(struct verify *verify)
{
	bool v6 = strchr(verify->address, ':');
	FILE *f;

	if (verify->o->policy) {
		if (!realpath(verify->o->policy, verify->program))
			return cli_fail(EXIT_FOUND, "%s: %s", verify->o->policy, strerror(errno));
		if (snprintf(verify->policy, sizeof(verify->policy), "%s", verify->program) >=
		    (int)sizeof(verify->policy))
			return cli_fail(EXIT_FOUND, "--policy: the path is too long");
		return 0;
	}
	snprintf(verify->policy, sizeof(verify->policy), "%s/policy.yaml", verify->dir);
	f = fopen(verify->policy, "we");
	if (!f)
		return cli_fail(EXIT_FOUND, "%s: %s", verify->policy, strerror(errno));
	fputs("cordon: 1\nname: verify\nfiles: {private: []}\nscopes: [refund:create]\n", f);
	if (verify->address[0])
		fprintf(f, "network: {gateway: \"%s%s%s:%s\"}\n", v6 ? "[" : "", verify->address,
			v6 ? "]" : "", verify->port);
	return fclose(f) ? cli_fail(EXIT_FOUND, "%s: %s", verify->policy, strerror(errno)) : 0;
}

static int fences_judge(struct verify *verify)
{
	struct fence own = { .pid = 0 }, other = { .pid = 0 };
	int code = 0, err = fence_begin(verify, "own", verify->o->tenant, &own);
	json_t *got = err ? NULL : ask(&own, "write %s/ready", own.work);

	if (!got) {
		code = fence_end(&own);
		return cli_fail(
			code == EXIT_RUN_FAILED ? EXIT_HOST : EXIT_FOUND,
			"no fence could be made (cordon run: %d); what it said stands above", code);
	}
	json_decref(got);
	judge_network(verify, &own);
	judge_files(verify, &own);
	if (verify->address[0]) {
		err = fence_begin(verify, "other", verify->o->other_tenant, &other);
		if (err)
			return cli_fail(EXIT_FOUND, "no second fence: %s", strerror(-err));
		judge_tenant(verify, &own, &other);
		judge_once(verify, &own);
		fence_end(&other);
	}
	judge_cold_start(verify, &own);
	fence_end(&own);
	return 0;
}

static void print_tap(const struct verify *verify)
{
	printf("1..%d\n", CRITERIA);
	for (int i = 0; i < CRITERIA; i++) {
		const struct verdict *v = &verify->v[i];

		printf("%s %d - %s%s\n", v->ok || !v->tried ? "ok" : "not ok", i + 1, names[i],
		       v->tried ? "" : " # SKIP no --gateway");
		if (v->detail[0])
			printf("# %s\n", v->detail);
	}
}

static void print_json(const struct verify *verify, bool ok)
{
	json_t *root = json_pack("{s:b,s:I,s:[]}", "ok", ok, "cold_start_ms",
				 (json_int_t)verify->cold_start_ms, "criteria");
	char *text;

	for (int i = 0; root && i < CRITERIA; i++) {
		const struct verdict *v = &verify->v[i];

		json_array_append_new(json_object_get(root, "criteria"),
				      json_pack("{s:i,s:s,s:s,s:s}", "number", i + 1, "name",
						names[i], "result",
						!v->tried ? "skipped"
						: v->ok	  ? "ok"
							  : "failed",
						"detail", v->detail));
	}
	text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);
	puts(text ? text : "{}");
	free(text);
	json_decref(root);
}

static void tidy(const struct verify *verify)
{
	static const char *const left[] = { "own.events", "other.events", "policy.yaml", "own",
					    "other" };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		snprintf(path, sizeof(path), "%s/%s", verify->dir, left[i]);
		if (unlink(path) && errno == EISDIR)
			rmdir(path);
		else
			rmdir(path);
	}
	rmdir(verify->dir);
}

static int cmd_verify(const void *options, int argc, char **argv)
{
	static struct verify verify;
	bool ok = true;
	ssize_t n;
	int code;

	(void)argc;
	(void)argv;
	verify.o = options;
	if (verify.o->inside)
		return probe_serve();
	if (geteuid())
		return cli_fail(EXIT_PERMISSION, "must be root: it makes fences; use sudo");
	if (verify.o->gateway &&
	    !url_read(verify.o->gateway, verify.address, sizeof(verify.address), verify.port,
		      sizeof(verify.port)))
		return cli_fail(EXIT_USAGE,
				"--gateway: http://ADDRESS:PORT, the address in numbers");
	signal(SIGPIPE, SIG_IGN);
	strcpy(verify.dir, "/var/tmp/cordon-verify-XXXXXX");
	if (!mkdtemp(verify.dir))
		return cli_fail(EXIT_FOUND, "%s: %s", verify.dir, strerror(errno));
	code = policy_make(&verify);
	n = code ? -1 : readlink("/proc/self/exe", verify.program, sizeof(verify.program) - 1);
	if (!code && n < 0)
		code = cli_fail(EXIT_FOUND, "/proc/self/exe: %s", strerror(errno));
	if (!code) {
		verify.program[n] = '\0';
		code = fences_judge(&verify);
	}
	tidy(&verify);
	if (code)
		return code;
	for (int i = 0; i < CRITERIA; i++)
		ok = ok && (verify.v[i].ok || !verify.v[i].tried);
	if (verify.o->json)
		print_json(&verify, ok);
	else
		print_tap(&verify);
	return ok ? EXIT_OK : EXIT_FOUND;
}

const struct cli_verb cli_verb_verify = {
	.name = "verify",
	.summary = "prove on this host, from inside a fence, what fences promise",
	.arguments = "",
	.text = "The five completion criteria. Makes a fence, and tries from inside: (1) public "
		"addresses, resolvers and the "
		"metadata "
		"service by TCP, UDP, IPv6 and DNS; (2) writing outside the workdir; (3) with "
		"--gateway, "
		"a refund of another tenant's order; (4) the same idempotency key twice; (5) the "
		"time of "
		"the cold start, against --cold-start-ms. For 3 a second fence, of the other "
		"tenant, "
		"refunds 1 before and after: in all 4 minor units are refunded of two orders, "
		"which must "
		"be there (--order, --other-order).\n\n"
		"A criterion that cannot be tried is skipped and says why. The exit status is 0 "
		"when none "
		"failed, 4 when this host cannot enforce.",
	.options = verify_rows,
	.options_size = sizeof(struct verify_options),
	.min_args = 0,
	.max_args = 0,
	.run = cmd_verify,
};
