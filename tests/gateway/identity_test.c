// SPDX-License-Identifier: Apache-2.0
/*
 * A provider of identities for tests without a kernel's help: linked into build/tests/cordon-gateway-test
 * in the place of user/identity, and into nothing else. Who calls is told by where the connection comes
 * from: the source address on loopback (127.0.0.2...), or the name that a unix client is bound to. The
 * file that CORDON_TEST_IDENTITIES names has a line per fence:
 *
 *   WHERE FENCE TENANT SUBJECT TASK SCOPE[,SCOPE] [DOMAIN[,DOMAIN] [ADDRESS/BITS[,ADDRESS/BITS] [UPLOAD]]]
 *
 * `-` stands for an empty list, `(nobody)` for no subject. The addresses are rules of network.allow for all ports.
 *
 * It is read again whenever it changes; a fence that is gone from it has ended. One whose line is another has another policy: as its owner
 * does, it goes and comes again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "identity/identity.h"

#define FENCES_MAX 256

struct fence {
	char where[108];
	char line[2048];
	struct identity id;
};

struct identity_source {
	pthread_mutex_t mutex;
	pthread_t thread;
	const char *path;
	struct timespec changed;
	struct fence fences[FENCES_MAX];
	size_t n;
	uint64_t ended[FENCES_MAX];
	size_t n_ended;
	int fd;
};

static void reach_read(struct identity *id, char *domains, char *allow)
{
	char *save, *bits;

	for (char *rule = strtok_r(domains, ",", &save); rule; rule = strtok_r(NULL, ",", &save)) {
		size_t n = strlen(rule) + 1;

		if (!strcmp(rule, "-") || id->domains_size + n > sizeof(id->domains))
			continue;
		memcpy(id->domains + id->domains_size, rule, n);
		id->domains_size += (uint32_t)n;
	}
	for (char *rule = strtok_r(allow, ",", &save); rule; rule = strtok_r(NULL, ",", &save)) {
		struct reach_allow *to = &id->allow[id->n_allow];

		bits = strchr(rule, '/');
		if (!bits || id->n_allow == IDENTITY_ALLOW_MAX)
			continue;
		*bits++ = '\0';
		to->addr.v6 = strchr(rule, ':') != NULL;
		to->bits = (uint8_t)atoi(bits);
		to->hi = 65535;
		if (inet_pton(to->addr.v6 ? AF_INET6 : AF_INET, rule,
			      to->addr.b + (to->addr.v6 ? 0 : 12)) == 1)
			id->n_allow++;
	}
}

static void line_read(struct identity_source *source, char *line)
{
	struct fence *fence = &source->fences[source->n];
	unsigned long long number;
	char scopes[512] = "", domains[512] = "", allow[512] = "", *save;
	unsigned long long upload = 0;

	if (source->n == FENCES_MAX)
		return;
	memset(fence, 0, sizeof(*fence));
	strcpy(fence->line, line);
	if (sscanf(line, "%107s %llu %128s %128s %128s %511s %511s %511s %llu", fence->where,
		   &number, fence->id.tenant, fence->id.subject, fence->id.task, scopes, domains,
		   allow, &upload) < 5)
		return;
	if (!strcmp(fence->id.subject, "(nobody)"))
		fence->id.subject[0] = '\0';
	fence->id.upload_bytes = upload;
	reach_read(&fence->id, domains, allow);
	fence->id.fence_id = number;
	for (char *scope = strtok_r(scopes, ",", &save); scope; scope = strtok_r(NULL, ",", &save))
		snprintf(fence->id.scopes[fence->id.n_scopes++], IDENTITY_SCOPE_MAX + 1, "%s",
			 scope);
	source->n++;
}

static struct fence *find(struct identity_source *source, uint64_t id)
{
	for (size_t i = 0; i < source->n; i++)
		if (source->fences[i].id.fence_id == id)
			return &source->fences[i];
	return NULL;
}

static void load(struct identity_source *source)
{
	static struct fence before[FENCES_MAX]; /* with the mutex, or before there is a thread */
	static uint64_t generation;
	size_t n = source->n;
	FILE *file = fopen(source->path, "re");
	char line[2048];

	memcpy(before, source->fences, n * sizeof(before[0]));
	source->n = 0;
	while (file && fgets(line, sizeof(line), file))
		line_read(source, line);
	if (file)
		fclose(file);
	generation++;
	for (size_t i = 0; i < source->n; i++)
		source->fences[i].id.generation = generation;
	for (size_t i = 0; i < n; i++) {
		struct fence *now = find(source, before[i].id.fence_id);

		if (now && !strcmp(now->line, before[i].line))
			now->id.generation = before[i].id.generation;
		else if (source->n_ended < FENCES_MAX)
			source->ended[source->n_ended++] = before[i].id.fence_id;
	}
	if (source->n_ended)
		eventfd_write(source->fd, 1);
}

static void *watch(void *context)
{
	struct identity_source *source = context;
	struct stat st;

	for (;;) {
		usleep(5000);
		if (stat(source->path, &st) < 0)
			continue;
		pthread_mutex_lock(&source->mutex);
		if (memcmp(&st.st_mtim, &source->changed, sizeof(st.st_mtim)) != 0) {
			source->changed = st.st_mtim;
			load(source);
		}
		pthread_mutex_unlock(&source->mutex);
	}
	return NULL;
}

int identity_open(const char *dir, struct identity_source **ret_source, struct error *error)
{
	struct identity_source *source = calloc(1, sizeof(*source));
	struct stat st;

	(void)dir;
	if (!source)
		return -ENOMEM;
	source->path = getenv("CORDON_TEST_IDENTITIES");
	if (!source->path || stat(source->path, &st) < 0) {
		free(source);
		return error_set(error, ENOENT, "CORDON_TEST_IDENTITIES names no file");
	}
	pthread_mutex_init(&source->mutex, NULL);
	source->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	source->changed = st.st_mtim;
	load(source);
	pthread_create(&source->thread, NULL, watch, source);
	*ret_source = source;
	return 0;
}

void identity_close(struct identity_source *source)
{
	if (!source)
		return;
	pthread_cancel(source->thread);
	pthread_join(source->thread, NULL);
	close(source->fd);
	free(source);
}

int identity_listen(int listen_fd)
{
	(void)listen_fd;
	return 0;
}

static int find_place(struct identity_source *source, const char *where,
		      struct identity *ret_identity)
{
	int r = -ENOENT;

	pthread_mutex_lock(&source->mutex);
	for (size_t i = 0; i < source->n && r < 0; i++)
		if (!strcmp(source->fences[i].where, where)) {
			*ret_identity = source->fences[i].id;
			r = 0;
		}
	pthread_mutex_unlock(&source->mutex);
	return r;
}

int identity_of_connection(struct identity_source *source, int fd, struct identity *ret_identity)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
	socklen_t size = sizeof(addr);
	char where[128] = "";

	if (getpeername(fd, (struct sockaddr *)&addr, &size) < 0)
		return -ENOENT;
	if (addr.ss_family == AF_INET)
		inet_ntop(AF_INET, &((struct sockaddr_in *)&addr)->sin_addr, where, sizeof(where));
	else if (addr.ss_family == AF_UNIX && size > sizeof(sa_family_t))
		snprintf(where, sizeof(where), "%s", ((struct sockaddr_un *)&addr)->sun_path);
	return find_place(source, where, ret_identity);
}

/* With CORDON_TEST_DATAGRAMS=no: as where the kernel notes none. */
int identity_of_datagram(struct identity_source *source, const void *bytes, size_t n,
			 const struct sockaddr *from, struct identity *ret_identity)
{
	const char *notes = getenv("CORDON_TEST_DATAGRAMS");
	char where[INET_ADDRSTRLEN];

	(void)bytes;
	(void)n;
	if (from->sa_family != AF_INET || (notes && !strcmp(notes, "no")))
		return -ENOENT;
	inet_ntop(AF_INET, &((const struct sockaddr_in *)from)->sin_addr, where, sizeof(where));
	return find_place(source, where, ret_identity);
}

bool identity_alive(struct identity_source *source, uint64_t fence_id)
{
	bool alive;

	pthread_mutex_lock(&source->mutex);
	alive = find(source, fence_id) != NULL;
	pthread_mutex_unlock(&source->mutex);
	return alive;
}

int identity_find(struct identity_source *source, uint64_t fence_id, struct identity *ret_identity)
{
	const struct fence *fence;

	pthread_mutex_lock(&source->mutex);
	fence = find(source, fence_id);
	if (fence)
		*ret_identity = fence->id;
	pthread_mutex_unlock(&source->mutex);
	return fence ? 0 : -ENOENT;
}

int identity_find_task(struct identity_source *source, const char *task,
		       struct identity *ret_identity)
{
	int r = -ENOENT;

	pthread_mutex_lock(&source->mutex);
	for (size_t i = 0; i < source->n && r < 0; i++)
		if (!strcmp(source->fences[i].id.task, task)) {
			*ret_identity = source->fences[i].id;
			r = 0;
		}
	pthread_mutex_unlock(&source->mutex);
	return r;
}

int identity_fd(const struct identity_source *source)
{
	return source->fd;
}

void identity_poll(struct identity_source *source, identity_ended_fn *ended, void *context)
{
	uint64_t gone[FENCES_MAX];
	eventfd_t count;
	size_t n;

	eventfd_read(source->fd, &count);
	pthread_mutex_lock(&source->mutex);
	n = source->n_ended;
	memcpy(gone, source->ended, n * sizeof(gone[0]));
	source->n_ended = 0;
	pthread_mutex_unlock(&source->mutex);
	for (size_t i = 0; i < n; i++)
		ended(context, gone[i]);
}
