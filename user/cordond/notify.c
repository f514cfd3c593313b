// SPDX-License-Identifier: Apache-2.0
/* See notify.h. */
#include "cordond/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "util/util.h"

static struct {
	int fd;
	struct sockaddr_un address;
	socklen_t length;
	uint64_t watchdog_ms;
} notify = { .fd = -1 };

void notify_open(void)
{
	const char *path = getenv("NOTIFY_SOCKET"), *usec = getenv("WATCHDOG_USEC");
	size_t n = path ? strlen(path) : 0;

	if (n > 1 && n < sizeof(notify.address.sun_path) && (path[0] == '/' || path[0] == '@')) {
		notify.address.sun_family = AF_UNIX;
		memcpy(notify.address.sun_path, path, n);
		if (path[0] == '@')
			notify.address.sun_path[0] = '\0';
		notify.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
		notify.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (usec)
			notify.watchdog_ms = strtoull(usec, NULL, 10) / 1000;
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

void notify_send(const char *format, ...)
{
	char text[512];
	va_list args;
	int n;

	if (notify.fd < 0)
		return;
	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > 0 && n < (int)sizeof(text))
		sendto(notify.fd, text, (size_t)n, MSG_NOSIGNAL, (struct sockaddr *)&notify.address,
		       notify.length);
}

uint64_t notify_watchdog_ms(void)
{
	return notify.watchdog_ms;
}
