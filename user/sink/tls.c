// SPDX-License-Identifier: Apache-2.0
/*
 * See tls.h. A peer whose certificate does not verify, or is another's, gets no byte. TLS 1.2 and later. No privilege.
 */
#include "sink/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "sink/net.h"

struct tls {
	SSL_CTX *context;
	SSL *ssl;
	char *name;   /* whose certificate it has to be */
	bool address; /* name is an IP address */
};

/* What OpenSSL says went wrong; the rest of its queue is dropped. */
static const char *reason(void)
{
	unsigned long code = ERR_get_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return text ? text : "no reason given";
}

static int files_load(struct tls *tls, const struct sink_config *c, struct error *error)
{
	int ok = c->ca ? SSL_CTX_load_verify_locations(tls->context, c->ca, NULL)
		       : SSL_CTX_set_default_verify_paths(tls->context);

	if (ok != 1)
		return error_set(error, EINVAL, "sink %s: ca %s: %s", c->name,
				 c->ca ? c->ca : "of the system", reason());
	if (!c->certificate)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(tls->context, c->certificate) != 1)
		return error_set(error, EINVAL, "sink %s: certificate %s: %s", c->name,
				 c->certificate, reason());
	if (SSL_CTX_use_PrivateKey_file(tls->context, c->private_key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(tls->context) != 1)
		return error_set(error, EINVAL, "sink %s: private_key %s: %s", c->name,
				 c->private_key, reason());
	return 0;
}

int tls_new(const struct sink_config *config, const char *host, struct tls **ret_tls,
	    struct error *error)
{
	struct tls *tls = calloc(1, sizeof(*tls));
	unsigned char bytes[16];
	int r;

	if (!tls)
		return error_set(error, ENOMEM, "out of memory");
	*ret_tls = tls;
	tls->context = SSL_CTX_new(TLS_client_method());
	tls->name = strdup(config->server_name ? config->server_name : host);
	if (!tls->context || !tls->name)
		return error_set(error, ENOMEM, "out of memory");
	tls->address = inet_pton(AF_INET, tls->name, bytes) == 1 ||
		       inet_pton(AF_INET6, tls->name, bytes) == 1;
	SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
	SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(tls->context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	r = files_load(tls, config, error);
	return r;
}

void tls_close(struct tls *tls)
{
	if (!tls || !tls->ssl)
		return;
	SSL_shutdown(tls->ssl);
	SSL_free(tls->ssl);
	tls->ssl = NULL;
	ERR_clear_error();
}

void tls_free(struct tls *tls)
{
	if (!tls)
		return;
	tls_close(tls);
	SSL_CTX_free(tls->context);
	free(tls->name);
	free(tls);
}

/* After an operation that did not succeed: waits for what it needs. 0: try again, or -errno with the cause. */
static int tls_wait(struct tls *tls, struct sink *sink, int fd, int result, const char *what,
		    struct error *error)
{
	int why = SSL_get_error(tls->ssl, result), r;
	long verified = SSL_get_verify_result(tls->ssl);

	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
		r = sink_wait(sink, fd, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT,
			      NET_TIMEOUT_MS);
		return r < 0 ? error_set(error, -r, "%s with %s: %s", what, tls->name, strerror(-r))
			     : 0;
	}
	if (verified != X509_V_OK)
		return error_set(error, EPERM, "the certificate of %s: %s", tls->name,
				 X509_verify_cert_error_string(verified));
	return error_set(error, ECONNRESET, "%s with %s: %s", what, tls->name,
			 why == SSL_ERROR_SSL ? reason() : "the peer ended the connection");
}

static int ssl_new(struct tls *tls, int fd)
{
	X509_VERIFY_PARAM *want;

	tls->ssl = SSL_new(tls->context);
	if (!tls->ssl || SSL_set_fd(tls->ssl, fd) != 1)
		return -ENOMEM;
	want = SSL_get0_param(tls->ssl);
	if (tls->address)
		return X509_VERIFY_PARAM_set1_ip_asc(want, tls->name) == 1 ? 0 : -ENOMEM;
	X509_VERIFY_PARAM_set_hostflags(want, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (X509_VERIFY_PARAM_set1_host(want, tls->name, 0) != 1 ||
	    SSL_set_tlsext_host_name(tls->ssl, tls->name) != 1)
		return -ENOMEM;
	return 0;
}

int tls_connect(struct tls *tls, struct sink *sink, int fd, struct error *error)
{
	int r = ssl_new(tls, fd);

	if (r < 0)
		return error_set(error, -r, "TLS: %s", reason());
	while (r == 0) {
		int result = SSL_connect(tls->ssl);

		if (result == 1)
			return 0;
		r = tls_wait(tls, sink, fd, result, "TLS handshake", error);
	}
	return r;
}

ssize_t tls_write(struct tls *tls, struct sink *sink, int fd, const char *p, size_t n,
		  struct error *error)
{
	for (;;) {
		size_t done = 0;
		int result = SSL_write_ex(tls->ssl, p, n, &done), r;

		if (result == 1)
			return (ssize_t)done;
		r = tls_wait(tls, sink, fd, result, "TLS", error);
		if (r < 0)
			return r;
	}
}

bool tls_is_over(struct tls *tls)
{
	char dropped[1024];
	size_t n;
	int why;

	while (SSL_read_ex(tls->ssl, dropped, sizeof(dropped), &n) == 1)
		;
	why = SSL_get_error(tls->ssl, 0);
	ERR_clear_error();
	return why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE;
}
