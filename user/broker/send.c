// SPDX-License-Identifier: Apache-2.0
/* See send.h. The credential is handed to libcurl and taken out of whatever comes back. In doubt nothing is passed on. */
#include "broker/send.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "broker/fetch.h"

#define CONNECT_MS 10000
#define SET(option, value) ok &= curl_easy_setopt(curl, CURLOPT_##option, value) == CURLE_OK

struct transfer {
	const struct send_request *request;
	struct send_sink *sink;
	struct send_result *result;
	CURL *curl;
	struct filter_answer answer;
	struct scrub scrub;
	long long passed; /* bytes of the body so far */
	bool bodiless;	  /* whatever length was said, nothing follows */
	bool stopped;	  /* by us, with the result's end set */
};

static bool is_method(const struct send_request *request, const char *method)
{
	return !strcmp(request->method, method);
}

static bool only_reads(const struct send_request *request)
{
	return is_method(request, "GET") || is_method(request, "HEAD");
}

static bool sends_body(const struct send_request *request)
{
	return request->body_n || request->source || is_method(request, "POST") ||
	       is_method(request, "PUT") || is_method(request, "PATCH");
}

/* --- the answer ------------------------------------------------------------------------------- */

static int stop(struct transfer *transfer, enum send_end end)
{
	transfer->stopped = true;
	transfer->result->end = end;
	return -ECANCELED;
}

static int begin(struct transfer *transfer)
{
	const struct gwconf_upstream *upstream = transfer->request->upstream;
	long status = transfer->result->status;
	_cleanup_free_ char *headers = NULL;
	bool bodiless = is_method(transfer->request, "HEAD") || status == 204 || status == 304;

	transfer->bodiless = bodiless;
	headers = filter_print(&transfer->answer, upstream, &transfer->scrub);
	if (!headers || transfer->answer.too_long)
		return stop(transfer, SEND_TOO_LONG);
	if (transfer->answer.encoded && !bodiless)
		return stop(transfer, SEND_UNSEEN);
	if (transfer->answer.length > upstream->answer_bytes && !bodiless)
		return stop(transfer, SEND_TOO_LONG);
	transfer->result->began = true;
	if (transfer->sink->begin(transfer->sink, status, headers, transfer->answer.length,
				  bodiless) < 0)
		return stop(transfer, SEND_CUT);
	return 0;
}

static size_t on_header(char *line, size_t size, size_t n, void *context)
{
	struct transfer *transfer = context;
	bool empty;

	size *= n;
	if (transfer->result->began) /* trailers */
		return size;
	filter_take(&transfer->answer, line, size);
	empty = size == 0 || line[0] == '\r' || line[0] == '\n';
	if (!empty)
		return size;
	curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &transfer->result->status);
	/* 100 and the like come before the answer. */
	if (transfer->result->status < 200)
		return size;
	return begin(transfer) < 0 ? 0 : size;
}

static int pass(struct transfer *transfer, const char *p, size_t n, bool last)
{
	const char *clean;
	size_t clean_n;

	transfer->passed += (long long)n;
	if (transfer->passed > transfer->request->upstream->answer_bytes)
		return stop(transfer, SEND_TOO_LONG);
	/* The client goes by the length that was said: what is beyond it would be the answer to its next request. */
	if (transfer->answer.length >= 0 && transfer->passed > transfer->answer.length)
		return stop(transfer, SEND_CUT);
	if (scrub_feed(&transfer->scrub, p, n, last, &clean, &clean_n) < 0)
		return stop(transfer, SEND_CUT);
	if (clean_n && transfer->sink->body(transfer->sink, clean, clean_n) < 0)
		return stop(transfer, SEND_CUT);
	return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
	struct transfer *transfer = context;

	size *= n;
	if (!transfer->result->began)
		return 0;
	return pass(transfer, data, size, false) < 0 ? 0 : size;
}

static size_t on_read(char *data, size_t size, size_t n, void *context)
{
	struct send_source *source = context;
	ssize_t got = source->read(source, data, size * n);

	return got > 0 ? (size_t)got : CURL_READFUNC_ABORT;
}

static int on_progress(void *context, curl_off_t all_down, curl_off_t down, curl_off_t all_up,
		       curl_off_t up)
{
	struct transfer *transfer = context;

	(void)all_down;
	(void)down;
	(void)all_up;
	(void)up;
	return transfer->sink->gone(transfer->sink);
}

/* --- the credential --------------------------------------------------------------------------- */

static bool line_add(struct curl_slist **list, const char *name, const char *prefix,
		     const char *value)
{
	char *line = NULL;
	bool ok = asprintf(&line, "%s: %s%s", name, prefix ? prefix : "", value) >= 0;

	if (!ok)
		return false;
	*list = fetch_append(*list, line, &ok);
	explicit_bzero(line, strlen(line));
	free(line);
	return ok;
}

static bool show_basic(struct curl_slist **list, const char *user, const char *password)
{
	char *pair = NULL, *line;
	bool ok = asprintf(&pair, "%s:%s", user, password) >= 0;

	if (!ok)
		return false;
	line = secret_basic(pair);
	ok = line != NULL;
	if (line) {
		*list = fetch_append(*list, line, &ok);
		explicit_bzero(line, strlen(line));
	}
	explicit_bzero(pair, strlen(pair));
	free(pair);
	free(line);
	return ok;
}

static bool show_sigv4(struct transfer *transfer, const struct gwconf_credential *credential,
		       const char *value)
{
	char scheme[600];
	int n = snprintf(scheme, sizeof(scheme), "aws:amz:%s:%s", credential->sigv4.region,
			 credential->sigv4.service);

	return n > 0 && (size_t)n < sizeof(scheme) &&
	       curl_easy_setopt(transfer->curl, CURLOPT_AWS_SIGV4, scheme) == CURLE_OK &&
	       curl_easy_setopt(transfer->curl, CURLOPT_USERPWD, value) == CURLE_OK;
}

static bool show(struct transfer *transfer, struct curl_slist **list)
{
	const struct gwconf_credential *credential = &transfer->request->upstream->credential;
	const struct secret *secret = transfer->request->secret;

	if (!secret || credential->query)
		return true; /* in the URL */
	if (credential->header)
		return line_add(list, credential->header, credential->prefix, secret->value);
	if (credential->oauth.token_url)
		return line_add(list, "Authorization", "Bearer ", secret->value);
	if (credential->basic)
		return show_basic(list, credential->basic, secret->value);
	return show_sigv4(transfer, credential, secret->value);
}

/* What must not come back: of KEY-ID:SECRET-KEY the part that is secret. */
static bool hide(struct transfer *transfer)
{
	const struct secret *secret = transfer->request->secret;
	const char *value = secret ? secret->value : NULL, *colon = NULL;

	if (!secret)
		return true;
	if (transfer->request->upstream->credential.sigv4.region)
		colon = strchr(value, ':');
	if (colon)
		value = colon + 1;
	return scrub_add(&transfer->scrub, value, strlen(value)) == 0 &&
	       (!secret->exchanged ||
		scrub_add(&transfer->scrub, secret->exchanged, strlen(secret->exchanged)) == 0);
}

/* To be wiped. */
static char *url_make(CURL *curl, const struct send_request *request)
{
	const struct gwconf_upstream *upstream = request->upstream;
	const char *name = upstream->credential.query;
	char *url = NULL, *escaped;

	if (!request->secret || !name)
		return asprintf(&url, "%s%s", upstream->url, request->target) < 0 ? NULL : url;
	escaped = curl_easy_escape(curl, request->secret->value, 0);
	if (!escaped)
		return NULL;
	if (asprintf(&url, "%s%s%c%s=%s", upstream->url, request->target,
		     strchr(request->target, '?') ? '&' : '?', name, escaped) < 0)
		url = NULL;
	explicit_bzero(escaped, strlen(escaped));
	curl_free(escaped);
	return url;
}

/* --- the connection --------------------------------------------------------------------------- */

/*
 * A thread has one handle, which keeps a few connections. What only reads may use one anew: libcurl repeats it when the upstream
 * has closed that meanwhile. All else has a connection of its own, so that nothing is sent twice.
 */
static pthread_key_t handle_key;
static pthread_once_t handle_once = PTHREAD_ONCE_INIT;

static void handle_free(void *curl)
{
	curl_easy_cleanup(curl);
}

static void handle_init(void)
{
	pthread_key_create(&handle_key, handle_free);
}

static CURL *handle_take(void)
{
	CURL *curl;

	pthread_once(&handle_once, handle_init);
	curl = pthread_getspecific(handle_key);
	if (!curl) {
		curl = curl_easy_init();
		pthread_setspecific(handle_key, curl);
	}
	return curl;
}

/* --- the transfer ----------------------------------------------------------------------------- */

static struct curl_slist *headers_make(struct transfer *transfer, bool *ok)
{
	const struct send_request *request = transfer->request;
	struct curl_slist *list = fetch_append(NULL, "Accept-Encoding: identity", ok);
	bool accept = false, type = false;

	for (size_t i = 0; request->headers[i]; i++) {
		list = fetch_append(list, request->headers[i], ok);
		accept |= !strncasecmp(request->headers[i], "accept:", 7);
		type |= !strncasecmp(request->headers[i], "content-type:", 13);
	}
	/* What libcurl would add otherwise is said: a name without a value would be signed, and not sent. */
	if (!accept)
		list = fetch_append(list, "Accept: */*", ok);
	if (request->source)
		list = fetch_append(list, "Expect:", ok);
	if (!type && sends_body(request))
		list = fetch_append(list, "Content-Type: application/octet-stream", ok);
	*ok &= show(transfer, &list);
	return list;
}

static bool prepare(struct transfer *transfer, const char *url, struct curl_slist *headers)
{
	const struct send_request *request = transfer->request;
	const struct gwconf_upstream *upstream = request->upstream;
	CURL *curl = transfer->curl;
	bool ok = fetch_prepare(curl, url, upstream->ca);

	if (only_reads(request)) {
		SET(FRESH_CONNECT, 0L);
		SET(FORBID_REUSE, 0L);
		SET(MAXCONNECTS, 4L);
	}
	SET(BUFFERSIZE, 128L * 1024);
	/* The path goes as it was judged. */
	SET(PATH_AS_IS, 1L);
	SET(HTTPHEADER, headers);
	SET(CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	SET(LOW_SPEED_LIMIT, 1L);
	SET(LOW_SPEED_TIME, (long)((upstream->timeout_ms + 999) / 1000));
	SET(TIMEOUT, (long)SEND_TIME_MAX_S);
	SET(NOPROGRESS, 0L);
	SET(XFERINFOFUNCTION, on_progress);
	SET(XFERINFODATA, transfer);
	SET(HEADERFUNCTION, on_header);
	SET(HEADERDATA, transfer);
	SET(WRITEFUNCTION, on_body);
	SET(WRITEDATA, transfer);
	if (is_method(request, "HEAD"))
		SET(NOBODY, 1L);
	else if (request->source) {
		/* Nothing of a body in pieces can be sent again, nor is it. */
		SET(POST, 1L);
		SET(POSTFIELDSIZE_LARGE, (curl_off_t)request->source->length);
		SET(READFUNCTION, on_read);
		SET(READDATA, request->source);
	} else if (sends_body(request)) {
		SET(POSTFIELDSIZE_LARGE, (curl_off_t)request->body_n);
		SET(POSTFIELDS, request->body_n ? request->body : "");
	}
	if (!is_method(request, "HEAD"))
		SET(CUSTOMREQUEST, request->method);
	return ok;
}

static void judge(struct transfer *transfer, CURLcode code)
{
	struct send_result *result = transfer->result;
	long sent = 0;

	if (transfer->stopped)
		return;
	if (result->began) {
		bool whole = code == CURLE_OK && pass(transfer, NULL, 0, true) == 0 &&
			     (transfer->answer.length < 0 || transfer->bodiless ||
			      transfer->passed == transfer->answer.length);

		result->end = whole ? SEND_WHOLE : SEND_CUT;
		return;
	}
	curl_easy_getinfo(transfer->curl, CURLINFO_REQUEST_SIZE, &sent);
	result->end = sent == 0 || only_reads(transfer->request) ? SEND_FAILED : SEND_AMBIGUOUS;
}

void send_run(const struct send_request *request, struct send_sink *sink,
	      struct send_result *ret_result)
{
	struct transfer transfer = { .request = request, .sink = sink, .result = ret_result };
	struct curl_slist *headers = NULL;
	bool ok = true;
	char *url;

	*ret_result = (struct send_result){ .end = SEND_FAILED };
	transfer.answer.length = -1;
	transfer.curl = handle_take();
	if (!transfer.curl)
		return;
	url = url_make(transfer.curl, request);
	headers = headers_make(&transfer, &ok);
	if (ok && url && hide(&transfer) && prepare(&transfer, url, headers))
		judge(&transfer, curl_easy_perform(transfer.curl));
	if (url)
		explicit_bzero(url, strlen(url));
	free(url);
	fetch_free_headers(headers);
	/* Options, the credential among them, are forgotten; connections are kept. */
	curl_easy_reset(transfer.curl);
	filter_release(&transfer.answer);
	scrub_release(&transfer.scrub);
}
