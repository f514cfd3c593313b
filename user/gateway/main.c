// SPDX-License-Identifier: Apache-2.0
/*
 * cordon-gateway: the whole life of the process. Starts with what its user may do, drops every capability
 * at once, can gain none and leaves no core: it holds credentials. Opens the ledger (which recovers what
 * an earlier life left), the tools, the identities, then the doors; closes them in the other order. Until
 * everything is open nothing is accepted.
 */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "admin/admin.h"
#include "admin/report.h"
#include "gateway/call.h"
#include "gateway/options.h"
#include "gateway/pool.h"
#include "gateway/upstream.h"
#include "record/record.h"
#include "resolver/resolver.h"

#define READERS 2
#define QUEUE_MAX 1024 /* tasks that wait for a pool */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "cordon-gateway: %s\n", text);
}

static void on_ledger_log(const char *line, void *data)
{
	(void)data;
	say("ledger: %s", line);
}

static enum ledger_code on_execute(void *context, const struct ledger_answer *approved,
				   struct ledger_answer *ret_answer)
{
	return gateway_execute_kept(context, approved, ret_answer);
}

static bool on_destructive(void *context, const char *name)
{
	struct setup *setup = gateway_setup(context);
	const struct tool *tool = setup_find_tool(setup, name);
	bool destructive = !tool || tool->conf->destructive;

	setup_unref(setup);
	return destructive;
}

/* Before the server serves nothing stands that could be cut. */
static void on_revoked(void *context, enum ledger_revoke_by by, const char *value)
{
	struct gateway *gateway = context;

	if (atomic_load(&gateway->serving))
		server_revoke(gateway->server, by, value);
}

/* Said once each time: nothing is decided meanwhile. */
static void on_record_change(void *context, const char *target, int err)
{
	const struct record *record = context;

	if (!err)
		say("events: written to %s again", target);
	else if (record_takes_frames(record))
		say("events: cordond does not take them (%s); until it does, no call is decided "
		    "(503). Does it run (systemctl start cordond), and is this process's user its "
		    "control.gateway?",
		    strerror(-err));
	else
		say("events: cannot write to %s (%s); until it can be, no call is decided (503)",
		    target, strerror(-err));
}

/* The event of requests that were not let in: none of them was judged, so there is one for all. */
static void on_told(void *context, const struct identity *id, unsigned int refused)
{
	const struct gateway *gateway = context;
	const struct report_row row = {
		.op = CORDON_OP_CALL,
		.code = LEDGER_RATE_LIMITED,
		.caller = id,
		.count = refused,
		.gateway = { .upstream_status = -1, .latency_us = -1 },
	};

	report_write(gateway->report, &row);
}

/* --- what the process may ------------------------------------------------------------------- */

static int drop_privilege(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { .effective = 0 } };

	umask(077);
	signal(SIGPIPE, SIG_IGN);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &header, none) < 0)
		return -errno;
	return 0;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static int open_ledger(struct gateway *gateway, const struct gwconf *conf, struct error *error)
{
	char host[65] = "";
	struct ledger_options options = {
		.store = conf->store.url,
		.facts = conf->facts.url,
		.node = conf->node,
		.anchor = conf->anchor,
		.approval_ttl_s = (unsigned int)(conf->approval_ttl_ms / 1000),
		.key_ttl_s = (unsigned int)(conf->key_ttl_ms / 1000),
		.log = on_ledger_log,
	};

	if (!options.node) {
		gethostname(host, sizeof(host) - 1);
		options.node = host[0] ? host : "gateway";
	}
	return ledger_open(&gateway->ledger, &options, error);
}

/* The part for people: events, grants, the admin socket. */
static int open_office(struct gateway *gateway, const struct gwconf *conf, struct error *error)
{
	struct admin_options options = { .path = conf->admin,
					 .ledger = gateway->ledger,
					 .identity = gateway->identity,
					 .execute = on_execute,
					 .destructive = on_destructive,
					 .revoked = on_revoked,
					 .execute_context = gateway };
	struct grant_keys *keys = NULL;
	char host[65] = "";
	int r = record_open(conf->events, &gateway->record, error);

	if (r < 0)
		return r;
	record_on_change(gateway->record, on_record_change, gateway->record);
	gethostname(host, sizeof(host) - 1);
	gateway->report = report_new(gateway->record, host);
	gateway->tokens = tokens_new(gateway->ledger, gateway->identity);
	if (!gateway->report || !gateway->tokens)
		return -ENOMEM;
	r = setup_keys(conf, &keys, error);
	if (r < 0)
		return r;
	tokens_set_keys(gateway->tokens, keys);
	options.tokens = gateway->tokens;
	options.report = gateway->report;
	return admin_open(&options, &gateway->admin, error);
}

/* Takes conf over in every case. */
static int open_all(struct gateway *gateway, struct gwconf *conf, struct error *error)
{
	struct setup *setup;
	int r;

	pthread_mutex_init(&gateway->setup_mutex, NULL);
	r = open_ledger(gateway, conf, error);
	if (r < 0) {
		gwconf_free(conf);
		return r;
	}
	r = setup_open(gateway->ledger, conf, &setup, error);
	if (r < 0)
		return r;
	gateway_change_setup(gateway, setup);
	r = identity_open(NULL, &gateway->identity, error);
	if (r == 0)
		r = pool_open((size_t)conf->executors, QUEUE_MAX, &gateway->upstreams);
	if (r == 0)
		r = pool_open(READERS, QUEUE_MAX, &gateway->readers);
	if (r == 0)
		r = pool_open((size_t)gateway->setup->conf->streams, QUEUE_MAX, &gateway->streams);
	if (r == 0)
		r = open_office(gateway, conf, error);
	if (r == 0)
		r = server_open(gateway, route_handle, &gateway->server, error);
	atomic_store(&gateway->serving, r == 0);
	if (r == 0)
		r = resolver_open(gateway, &gateway->resolver, error);
	return r < 0 ? error_set(error, -r, "cannot start: %s", strerror(-r)) : 0;
}

static void close_all(struct gateway *gateway)
{
	size_t cut = 0;

	atomic_store(&gateway->draining, true);
	resolver_close(gateway->resolver);
	if (gateway->server)
		cut = server_drain(gateway->server, gateway->setup->conf->drain_ms);
	if (cut)
		say("requests under way were cut after limits.drain");
	if (gateway->server)
		server_tell(gateway->server, true, on_told, gateway);
	admin_close(gateway->admin); /* its threads speak with the server */
	server_close(gateway->server);
	pool_close(gateway->streams);
	pool_close(gateway->readers);
	pool_close(gateway->upstreams);
	setup_unref(gateway->setup);
	tokens_free(gateway->tokens);
	ledger_close(gateway->ledger);
	if (gateway->identity)
		identity_close(gateway->identity);
	report_free(gateway->report);
	record_close(gateway->record);
	pthread_mutex_destroy(&gateway->setup_mutex);
}

/* --- reload ----------------------------------------------------------------------------------- */

static bool same_dns(const struct gwconf *a, const struct gwconf *b)
{
	bool same = a->n_dns == b->n_dns;

	for (size_t i = 0; same && i < a->n_dns; i++)
		same = !strcmp(a->dns[i].text, b->dns[i].text);
	return same;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* The first key that a running process cannot change; NULL: none was. */
static const char *changed_for_good(const struct gwconf *old, const struct gwconf *next)
{
	const struct {
		const char *key;
		bool kept;
	} keys[] = {
		{ "store", same(old->store.url, next->store.url) },
		{ "facts", same(old->facts.url, next->facts.url) },
		{ "node", same(old->node, next->node) },
		{ "anchor", same(old->anchor, next->anchor) },
		{ "admin", same(old->admin, next->admin) },
		{ "events", same(old->events, next->events) },
		{ "dns", same_dns(old, next) },
		{ "workers", old->workers == next->workers },
		{ "executors", old->executors == next->executors },
		{ "streams", old->streams == next->streams },
		{ "keep", old->key_ttl_ms == next->key_ttl_ms },
		{ "approvals", old->approval_ttl_ms == next->approval_ttl_ms },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!keys[i].kept)
			return keys[i].key;
	return NULL;
}

/* All of it or nothing: until the last step the old configuration is in use. */
static void reload(struct gateway *gateway, const char *path)
{
	struct gwconf_reports reports = { .n = 0 };
	struct error error = { "" };
	struct gwconf *conf = NULL;
	struct grant_keys *keys = NULL;
	struct setup *setup = NULL;
	const char *changed;

	if (gwconf_load(path, &conf, &reports) < 0) {
		gwconf_reports_print(&reports, stderr);
		gwconf_reports_free(&reports);
		say("not reloaded: %s is invalid; the configuration before stays in use", path);
		return;
	}
	gwconf_reports_free(&reports);
	changed = changed_for_good(gateway->setup->conf, conf);
	if (changed) {
		gwconf_free(conf);
		say("not reloaded: `%s` has changed, which needs a restart", changed);
		return;
	}
	if (setup_keys(conf, &keys, &error) < 0) {
		gwconf_free(conf);
		say("not reloaded: %s", error.text);
		return;
	}
	if (setup_open(gateway->ledger, conf, &setup, &error) < 0 ||
	    server_reload(gateway->server, setup->conf, &error) < 0) {
		setup_unref(setup);
		grant_keys_free(keys);
		say("not reloaded: %s", error.text);
		return;
	}
	tokens_set_keys(gateway->tokens, keys);
	gateway_change_setup(gateway, setup);
	if (record_reopen(gateway->record) < 0)
		say("events: cannot open %s anew; the old one stays in use", setup->conf->events);
	say("reloaded");
}

/* --- the process ------------------------------------------------------------------------------ */

/* Everything that can be looked at without opening the store. */
static int check(const struct gwconf *conf)
{
	struct error error = { "" };

	if (setup_check(conf, &error) < 0) {
		say("%s", error.text);
		return EXIT_POLICY;
	}
	printf("%s: ok\n", conf->path);
	return EXIT_OK;
}

static int serve(struct gwconf *conf, const char *path)
{
	static struct gateway gateway;
	struct error error = { "" };
	sigset_t signals;
	int r;

	sigemptyset(&signals);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	/* Before any thread: they all inherit it, and only this one takes signals. */
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	r = upstream_init();
	if (r < 0)
		gwconf_free(conf);
	else
		r = open_all(&gateway, conf, &error);
	if (r < 0) {
		say("%s", error.text[0] ? error.text : strerror(-r));
		close_all(&gateway);
		return EXIT_FOUND;
	}
	say("ready");
	for (;;) {
		const struct timespec second = { .tv_sec = 1 };
		int signal_number = sigtimedwait(&signals, NULL, &second);

		if (signal_number == SIGHUP)
			reload(&gateway, path);
		else if (signal_number > 0)
			break;
		server_tell(gateway.server, false, on_told, &gateway);
	}
	say("draining");
	close_all(&gateway);
	return EXIT_OK;
}

/* Of a configuration that was not loaded: is there a fault in it, or could a file of it not be read? */
static int refusal(const struct gwconf_reports *reports)
{
	for (size_t i = 0; i < reports->n; i++)
		if (reports->v[i].faults.n)
			return EXIT_POLICY;
	return EXIT_FOUND;
}

int main(int argc, char **argv)
{
	struct gwconf_reports reports = { .n = 0 };
	struct gwconf *conf = NULL;
	struct options options;
	int code = options_parse(argc, argv, &options), r;

	if (code >= 0)
		return code;
	r = drop_privilege();
	if (r < 0) {
		say("cannot drop capabilities: %s", strerror(-r));
		return EXIT_FOUND;
	}
	r = gwconf_load(options.config, &conf, &reports);
	gwconf_reports_print(&reports, stderr);
	code = refusal(&reports);
	gwconf_reports_free(&reports);
	if (r < 0)
		return code;
	if (!options.check)
		return serve(conf, options.config);
	code = check(conf);
	gwconf_free(conf);
	return code;
}
