// SPDX-License-Identifier: Apache-2.0
/* See fetch.h. Fails closed: what is not a whole answer of status 200 with a JSON object is none. */
#include "broker/fetch.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "cordon/decide.h"

curl_socket_t fetch_open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct cordon_addr addr = { .v6 = 0 };

	(void)context;
	(void)purpose;
	if (address->family == AF_INET) {
		memcpy(addr.b + 12, &((struct sockaddr_in *)&address->addr)->sin_addr, 4);
	} else if (address->family == AF_INET6) {
		const struct in6_addr *in6 = &((struct sockaddr_in6 *)&address->addr)->sin6_addr;

		/* A mapped address is the IPv4 one. */
		addr.v6 = !IN6_IS_ADDR_V4MAPPED(in6);
		memcpy(addr.b + (addr.v6 ? 0 : 12), in6->s6_addr + (addr.v6 ? 0 : 12),
		       addr.v6 ? 16 : 4);
	} else {
		return CURL_SOCKET_BAD;
	}
	if (decide_is_metadata(&addr))
		return CURL_SOCKET_BAD;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool fetch_prepare(CURL *curl, const char *url, const char *ca)
{
	bool ok = true;

#define SET(option, value) ok &= curl_easy_setopt(curl, CURLOPT_##option, value) == CURLE_OK
	SET(URL, url);
	SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(PROTOCOLS_STR, "http,https");
	SET(PROXY, "");
	SET(NOPROXY, "*");
	SET(NOSIGNAL, 1L);
	SET(FRESH_CONNECT, 1L);
	SET(FORBID_REUSE, 1L);
	SET(FOLLOWLOCATION, 0L);
	SET(OPENSOCKETFUNCTION, fetch_open_socket);
	if (ca)
		SET(CAINFO, ca);
	return ok;
}

struct curl_slist *fetch_append(struct curl_slist *list, const char *line, bool *ok)
{
	struct curl_slist *longer = curl_slist_append(list, line);

	*ok &= longer != NULL;
	return longer ? longer : list;
}

void fetch_free_headers(struct curl_slist *list)
{
	for (struct curl_slist *line = list; line; line = line->next)
		explicit_bzero(line->data, strlen(line->data));
	curl_slist_free_all(list);
}

struct receipt {
	char *p;
	size_t n;
};

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
	struct receipt *receipt = context;
	char *grown;

	size *= n;
	if (receipt->n + size > FETCH_ANSWER_MAX)
		return 0;
	grown = malloc(receipt->n + size + 1);
	if (!grown)
		return 0;
	/* What it held may be a secret: no copy is left behind. */
	if (receipt->n) {
		memcpy(grown, receipt->p, receipt->n);
		explicit_bzero(receipt->p, receipt->n);
	}
	memcpy(grown + receipt->n, data, size);
	free(receipt->p);
	receipt->p = grown;
	receipt->n += size;
	return size;
}

static int judge(CURLcode code, long status, const struct receipt *receipt, json_t **ret_answer,
		 struct error *error)
{
	json_t *answer;

	if (code != CURLE_OK && status == 0)
		return error_set(error, EHOSTUNREACH, "it cannot be reached");
	if (status == 404)
		return error_set(error, ENOENT, "it has nothing there (404)");
	if (status == 401 || status == 403)
		return error_set(error, EACCES, "it refuses the gateway (%ld)", status);
	if (code != CURLE_OK || status != 200)
		return error_set(error, EPROTO, "its answer is of no use (%ld)", status);
	answer = json_loadb(receipt->p ? receipt->p : "", receipt->n, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(answer)) {
		json_decref(answer);
		return error_set(error, EPROTO, "its answer is no JSON object");
	}
	*ret_answer = answer;
	return 0;
}

int fetch_json(const char *url, const char *ca, const char *header, const char *form,
	       json_t **ret_answer, struct error *error)
{
	CURL *curl = curl_easy_init();
	struct curl_slist *headers = NULL;
	struct receipt receipt = { .n = 0 };
	CURLcode code = CURLE_OUT_OF_MEMORY;
	long status = 0;
	bool ok = curl && fetch_prepare(curl, url, ca);
	int r;

	headers = fetch_append(headers, "Accept: application/json", &ok);
	headers = fetch_append(headers, "Expect:", &ok);
	if (header)
		headers = fetch_append(headers, header, &ok);
	if (ok) {
		SET(TIMEOUT_MS, (long)FETCH_TIME_MAX_MS);
		SET(HTTPHEADER, headers);
		SET(WRITEFUNCTION, on_body);
		SET(WRITEDATA, &receipt);
		if (form)
			SET(POSTFIELDS, form);
	}
	if (ok) {
		code = curl_easy_perform(curl);
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	}
	r = judge(code, status, &receipt, ret_answer, error);
	if (receipt.n)
		explicit_bzero(receipt.p, receipt.n);
	free(receipt.p);
	fetch_free_headers(headers);
	curl_easy_cleanup(curl);
	return r;
}
