/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that every part of user space needs; no state, no privilege. */
#ifndef CORDON_UTIL_H
#define CORDON_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define TAKE_PTR(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})
#define TAKE_FD(f)                \
	({                        \
		int taken_ = (f); \
		(f) = -1;         \
		taken_;           \
	})

/* Cleanup attributes: `_cleanup_free_ char *s = NULL;`. */
static inline void util_free_p(void *p)
{
	free(*(void **)p);
}
static inline void util_close_p(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
static inline void util_fclose_p(FILE **f)
{
	if (*f)
		fclose(*f);
}
#define _cleanup_free_ __attribute__((cleanup(util_free_p)))
#define _cleanup_close_ __attribute__((cleanup(util_close_p)))
#define _cleanup_fclose_ __attribute__((cleanup(util_fclose_p)))

/* Exit codes of every verb (DESIGN 3.2). */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FOUND = 1, /* failed, or found something */
	EXIT_USAGE = 2,
	EXIT_POLICY = 3,     /* policy invalid */
	EXIT_HOST = 4,	     /* this host cannot enforce */
	EXIT_PERMISSION = 5, /* not permitted */
	EXIT_NO_FENCE = 6,
	EXIT_RUN_TIMEOUT = 124,
	EXIT_RUN_FAILED = 125, /* run: before the command started */
	EXIT_RUN_NOT_EXECUTABLE = 126,
	EXIT_RUN_NOT_FOUND = 127,
};

/*
 * What went wrong, for a person: libraries fill it and return -errno, the command prints it. One line, names the
 * object and the remedy, no trailing dot or newline.
 */
struct error {
	char text[512];
};

/* Fills error (may be NULL) like snprintf and returns -err. A message already there is kept: the first cause wins. */
int error_set(struct error *error, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Texts of bytes and numbers, for what prints many: printf() costs ten times as much. */
void util_hex(const uint8_t *bytes, size_t n, char *ret_text); /* 2 * n digits, and NUL */
#define UTIL_DECIMAL_SIZE 21
size_t util_decimal(int64_t number, char ret_text[UTIL_DECIMAL_SIZE]); /* bytes without the NUL */

/*
 * Are the brackets of a JSON text at most depth_max inside one another? By counting alone, for before a parser that recurses:
 * whether it is JSON is not judged.
 */
bool util_json_is_shallow(const char *p, size_t size, unsigned int depth_max);

/*
 * Is a part of a URL's path nothing, or a way up, to some servers: those that take its parameters (`;...`, RFC 3986, 3.3) or the
 * blanks around it off before they look, and those for which more dots are two?
 */
bool util_part_is_hollow(const char *p, size_t n);

#endif
