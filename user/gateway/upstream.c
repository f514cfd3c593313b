// SPDX-License-Identifier: Apache-2.0
/*
 * See upstream.h. The credential is handed to libcurl and appears nowhere else: no logs, no arguments, no
 * answers. In doubt the outcome is ambiguous.
 */
#include "gateway/upstream.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "broker/fetch.h"

#define SETTLE_SECONDS 60

struct receipt {
	char *body;
	size_t n;
	bool too_long;
};

int upstream_init(void)
{
	return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -ENOMEM;
}

/* --- receiving -------------------------------------------------------------------------------- */

static size_t receive(char *data, size_t size, size_t n, void *context)
{
	struct receipt *receipt = context;
	char *grown;

	size *= n;
	if (receipt->n + size > UPSTREAM_ANSWER_MAX) {
		receipt->too_long = true;
		return 0;
	}
	grown = realloc(receipt->body, receipt->n + size + 1);
	if (!grown)
		return 0;
	receipt->body = grown;
	memcpy(grown + receipt->n, data, size);
	receipt->n += size;
	return size;
}

/* The fields that may go back, of an answer that is a JSON object; else {}. NULL when memory ends. */
static char *filter_result(const struct gwconf_tool *conf, const struct receipt *receipt)
{
	json_t *answer = receipt->n && !receipt->too_long ? json_loadb(receipt->body, receipt->n,
								       JSON_REJECT_DUPLICATES, NULL)
							  : NULL;
	json_t *result = json_object();
	char *text;

	for (size_t i = 0; result && i < conf->result.n; i++) {
		json_t *value = json_object_get(answer, conf->result.v[i]);

		if (value)
			json_object_set(result, conf->result.v[i], value);
	}
	text = result ? json_dumps(result, JSON_COMPACT) : NULL;
	if (text && strlen(text) > LEDGER_RESULT_MAX) {
		free(text);
		text = strdup("{}");
	}
	json_decref(result);
	json_decref(answer);
	return text;
}

/* --- sending ---------------------------------------------------------------------------------- */

static struct curl_slist *headers_make(const struct tool *tool, int64_t call, bool *ok)
{
	struct curl_slist *list = NULL;
	char line[160];

	*ok = true;
	list = fetch_append(list, "Content-Type: application/json", ok);
	list = fetch_append(list, "Accept: application/json", ok);
	list = fetch_append(list, "Expect:", ok);
	/* The caller's keys are the caller's own; to the upstream the number of the call is unique. */
	snprintf(line, sizeof(line), "%s: cordon-%" PRId64,
		 tool->conf->key_header ? tool->conf->key_header : "Idempotency-Key", call);
	list = fetch_append(list, line, ok);
	if (tool->credential)
		list = fetch_append(list, tool->credential, ok);
	return list;
}

static bool request_make(CURL *curl, const struct tool *tool, const char *url, const char *body,
			 struct curl_slist *headers, struct receipt *receipt)
{
	bool ok = fetch_prepare(curl, url, tool->upstream->ca);

#define SET(option, value) ok &= curl_easy_setopt(curl, CURLOPT_##option, value) == CURLE_OK
	SET(CUSTOMREQUEST, gwconf_methods[tool->conf->method]);
	SET(POSTFIELDS, body);
	SET(HTTPHEADER, headers);
	SET(TIMEOUT_MS, (long)tool->conf->timeout_ms);
	SET(WRITEFUNCTION, receive);
	SET(WRITEDATA, receipt);
#undef SET
	return ok;
}

/* What became of it, by how far it came. */
static enum ledger_state judge(CURL *curl, CURLcode code, const struct receipt *receipt,
			       long *status)
{
	long sent = 0;

	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
	curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
	if (sent == 0)
		return LEDGER_STATE_FAILED;
	if (*status >= 200 && *status < 300 && (code == CURLE_OK || receipt->too_long))
		return LEDGER_STATE_DONE;
	/* 408 and 409 may speak of an attempt that is still under way. */
	if (*status >= 400 && *status < 500 && *status != 408 && *status != 409)
		return LEDGER_STATE_FAILED;
	return LEDGER_STATE_AMBIGUOUS;
}

static void send_by(CURL *curl, const struct tool *tool, int64_t call, const char *body,
		    struct upstream_answer *answer)
{
	struct receipt receipt = { .n = 0 };
	_cleanup_free_ char *url = NULL;
	struct curl_slist *headers;
	bool ok;

	headers = headers_make(tool, call, &ok);
	if (asprintf(&url, "%s%s", tool->upstream->url, tool->conf->target) < 0)
		url = NULL;
	if (ok && url && request_make(curl, tool, url, body, headers, &receipt))
		answer->outcome = judge(curl, curl_easy_perform(curl), &receipt, &answer->status);
	if (answer->outcome == LEDGER_STATE_DONE)
		answer->result = filter_result(tool->conf, &receipt);
	fetch_free_headers(headers);
	free(receipt.body);
}

void upstream_send(const struct tool *tool, int64_t call, const char *body,
		   struct upstream_answer *ret_answer)
{
	CURL *curl = curl_easy_init();

	*ret_answer = (struct upstream_answer){ .outcome = LEDGER_STATE_FAILED };
	if (!curl)
		return;
	send_by(curl, tool, call, body, ret_answer);
	curl_easy_cleanup(curl);
}

/* --- settling --------------------------------------------------------------------------------- */

/* Until it is written, or a minute has passed: then the start of this gateway finds the call. */
enum ledger_code upstream_settle(struct gateway *gateway, int64_t call,
				 const struct upstream_answer *answer,
				 struct ledger_answer *ret_finish)
{
	struct timespec pause = { .tv_nsec = 100 * 1000000L };
	time_t end = time(NULL) + SETTLE_SECONDS;
	struct ledger_job job;

	for (;;) {
		memset(&job, 0, sizeof(job));
		job.verb = LEDGER_FINISH;
		job.id = call;
		job.outcome = answer->outcome;
		job.result = answer->result;
		job.result_size = answer->result ? strlen(answer->result) : 0;
		ledger_run(gateway->ledger, &job);
		if ((job.answer.code != LEDGER_UNAVAILABLE &&
		     job.answer.code != LEDGER_OVERLOADED &&
		     job.answer.code != LEDGER_COMMIT_UNKNOWN) ||
		    time(NULL) > end || atomic_load(&gateway->draining))
			break;
		ledger_answer_clear(&job.answer);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 800 * 1000000L)
			pause.tv_nsec *= 2;
	}
	*ret_finish = job.answer;
	return job.answer.code;
}

enum ledger_code upstream_execute(struct gateway *gateway, const struct tool *tool, int64_t call,
				  const char *body, struct ledger_answer *ret_finish,
				  char **ret_result, long *ret_status)
{
	struct upstream_answer answer;
	enum ledger_code code;

	upstream_send(tool, call, body, &answer);
	code = upstream_settle(gateway, call, &answer, ret_finish);
	*ret_status = answer.status;
	*ret_result = answer.result;
	if (code == LEDGER_UNAVAILABLE || code == LEDGER_OVERLOADED ||
	    code == LEDGER_COMMIT_UNKNOWN)
		return LEDGER_COMMIT_UNKNOWN;
	if (code != LEDGER_OK)
		return code;
	return answer.outcome == LEDGER_STATE_DONE     ? LEDGER_OK
	       : answer.outcome == LEDGER_STATE_FAILED ? LEDGER_EXECUTION_FAILED
						       : LEDGER_OUTCOME_AMBIGUOUS;
}

enum ledger_code upstream_give_up(struct gateway *gateway, int64_t call,
				  struct ledger_answer *ret_finish)
{
	const struct upstream_answer nothing = { .outcome = LEDGER_STATE_FAILED };

	return upstream_settle(gateway, call, &nothing, ret_finish) == LEDGER_OK
		       ? LEDGER_OVERLOADED
		       : LEDGER_COMMIT_UNKNOWN;
}

enum ledger_code gateway_execute_kept(struct gateway *gateway, const struct ledger_answer *approved,
				      struct ledger_answer *ret_answer)
{
	struct setup *setup = gateway_setup(gateway);
	const struct tool *tool = setup_find_tool(setup, approved->tool);
	struct upstream_answer nothing = { .outcome = LEDGER_STATE_FAILED };
	_cleanup_free_ char *result = NULL;
	enum ledger_code code;
	long status;

	if (tool && tool->conf->executor == GWCONF_EXEC_HTTP && approved->result) {
		code = upstream_execute(gateway, tool, approved->call, approved->result, ret_answer,
					&result, &status);
	} else {
		/* The tool went away meanwhile: nothing leaves. */
		code = upstream_settle(gateway, approved->call, &nothing, ret_answer);
		code = code == LEDGER_OK ? LEDGER_EXECUTION_FAILED : LEDGER_COMMIT_UNKNOWN;
	}
	setup_unref(setup);
	return code;
}
