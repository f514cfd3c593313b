// SPDX-License-Identifier: Apache-2.0
/*
 * whois - a server that says who calls, as user/identity tells it: what the identity tests ask instead of a gateway.
 *
 * usage: whois LISTEN...       LISTEN: ADDRESS:PORT, [ADDRESS]:PORT or the path of a unix socket
 *
 * Answers each line with "FENCE TASK TENANT SUBJECT" ("-" for what was not said), or with "401" where no living fence
 * made the connection. Cuts the connections of a fence that ends and prints "ended FENCE". Prints "ready" when it listens.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "identity/identity.h"

enum { SLOTS = 512 };

static struct pollfd fds[SLOTS];
static struct identity who[SLOTS];
static bool known[SLOTS], listens[SLOTS];
static size_t n_fds;

static void add(int fd, bool listening)
{
	fds[n_fds] = (struct pollfd){ .fd = fd, .events = POLLIN };
	listens[n_fds++] = listening;
}

static int listen_at(char *text)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr *address = (struct sockaddr *)&in;
	socklen_t size = sizeof(in);
	int fd, on = 1;

	if (text[0] == '/') {
		strncpy(un.sun_path, text, sizeof(un.sun_path) - 1);
		unlink(text);
		address = (struct sockaddr *)&un;
		size = sizeof(un);
	} else {
		char *colon = strrchr(text, ':');

		if (!colon)
			return -EINVAL;
		*colon = '\0';
		if (text[0] == '[') {
			text[strlen(text) - 1] = '\0';
			if (inet_pton(AF_INET6, text + 1, &in6.sin6_addr) != 1)
				return -EINVAL;
			in6.sin6_port = htons((uint16_t)atoi(colon + 1));
			address = (struct sockaddr *)&in6;
			size = sizeof(in6);
		} else if (inet_pton(AF_INET, text, &in.sin_addr) != 1) {
			return -EINVAL;
		}
		in.sin_port = htons((uint16_t)atoi(colon + 1));
	}
	fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, address, size) || identity_listen(fd) || listen(fd, 256))
		return -errno;
	if (text[0] == '/')
		chmod(text, 0666);
	add(fd, true);
	return 0;
}

static const char *word(const char *text)
{
	return *text ? text : "-";
}

static void drop(size_t i)
{
	close(fds[i].fd);
	n_fds--;
	fds[i] = fds[n_fds];
	who[i] = who[n_fds];
	known[i] = known[n_fds];
	listens[i] = listens[n_fds];
}

static void ended(void *context, uint64_t id)
{
	(void)context;
	printf("ended %016llx\n", (unsigned long long)id);
	fflush(stdout);
	for (size_t i = n_fds; i-- > 1;)
		if (known[i] && who[i].fence_id == id)
			drop(i);
}

static void answer(struct identity_source *source, size_t i)
{
	char line[512];
	ssize_t n = recv(fds[i].fd, line, sizeof(line), 0);
	int size;

	if (n <= 0 || (known[i] && !identity_alive(source, who[i].fence_id))) {
		drop(i);
		return;
	}
	size = known[i] ? snprintf(line, sizeof(line), "%016llx %s %s %s\n",
				   (unsigned long long)who[i].fence_id, word(who[i].task),
				   word(who[i].tenant), word(who[i].subject))
			: snprintf(line, sizeof(line), "401\n");
	send(fds[i].fd, line, (size_t)size, MSG_NOSIGNAL);
}

int main(int argc, char **argv)
{
	struct identity_source *source;
	struct error error = { "" };

	signal(SIGPIPE, SIG_IGN);
	if (identity_open(NULL, &source, &error)) {
		fprintf(stderr, "whois: %s\n", error.text);
		return 1;
	}
	add(identity_fd(source), false);
	for (int i = 1; i < argc; i++) {
		int err = listen_at(argv[i]);

		if (err) {
			fprintf(stderr, "whois: %s: %s\n", argv[i], strerror(-err));
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		poll(fds, n_fds, -1);
		for (size_t i = n_fds; i-- > 1;) {
			if (!fds[i].revents)
				continue;
			if (listens[i] && n_fds < SLOTS) {
				int fd = accept(fds[i].fd, NULL, NULL);

				if (fd < 0)
					continue;
				known[n_fds] = !identity_of_connection(source, fd, &who[n_fds]);
				add(fd, false);
			} else if (!listens[i]) {
				answer(source, i);
			}
		}
		if (fds[0].revents)
			identity_poll(source, ended, NULL);
	}
}
