/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gateway asks for itself, by libcurl: secrets of Vault, tokens of OAuth. And the one rule about addresses that every
 * transfer of the gateway keeps. Blocks: for pools.
 */
#ifndef CORDON_BROKER_FETCH_H
#define CORDON_BROKER_FETCH_H

#include <curl/curl.h>
#include <jansson.h>

#include "util/util.h"

#define FETCH_ANSWER_MAX (64 * 1024) /* bytes of an answer */
#define FETCH_TIME_MAX_MS 5000

/* For CURLOPT_OPENSOCKETFUNCTION: the metadata service is reached by no name and no form of its address. */
curl_socket_t fetch_open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address);

/* What every transfer has: HTTP alone, no proxies, no redirects, no signals, that rule. ca NULL: the system's. */
bool fetch_prepare(CURL *curl, const char *url, const char *ca);

/* A list of headers, which may hold secrets: append() clears *ok when memory ends. */
struct curl_slist *fetch_append(struct curl_slist *list, const char *line, bool *ok);
void fetch_free_headers(struct curl_slist *list); /* wipes */

/*
 * GET, or POST of form, with a header (NULL: none). Returns 0 and the answer's JSON object (json_decref() it), or -errno with
 * error, which holds nothing of what was sent or came: -ENOENT for 404, -EACCES for 401 and 403, -EPROTO for other answers,
 * -EHOSTUNREACH when none came.
 */
int fetch_json(const char *url, const char *ca, const char *header, const char *form,
	       json_t **ret_answer, struct error *error);

#endif
