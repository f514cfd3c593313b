/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders: texts that look like a credential, lie where fences can read them, and open nothing. Nobody has a reason to send
 * one anywhere, so that one which is seen on its way out says that somebody reads what lies about, and sends it. They are found
 * in every spelling of scrub.h, and in names of hosts without regard to case and dots.
 */
#ifndef CORDON_BROKER_CANARY_H
#define CORDON_BROKER_CANARY_H

#include "broker/scrub.h"
#include "gwconf/gwconf.h"

#define CANARY_MAX 16	   /* upstreams with a placeholder */
#define CANARY_SIZE_MIN 16 /* bytes of one; what is shorter would be found where it is not */
#define CANARY_SIZE_MAX 256
#define CANARY_RANDOM 32 /* letters and digits of one that is made, behind its prefix */

struct canaries; /* of a configuration; constant once it is made: any thread */

/*
 * Reads the placeholder of each upstream that has one; make: those whose file is not there are made. 0, also where there are none
 * (*ret_canaries is NULL then), or -errno with error, for the operator.
 */
int canaries_open(const struct gwconf *conf, bool make, struct canaries **ret_canaries,
		  struct error *error);
void canaries_free(struct canaries *canaries); /* takes NULL */

/*
 * The upstream whose placeholder is in the text, in a target (path and query, also once its percent signs are read), or in the
 * name of a host; NULL: none. When memory ends any: in doubt nothing goes out. canaries may be NULL.
 */
const char *canaries_find(const struct canaries *canaries, const char *p, size_t n);
const char *canaries_find_target(const struct canaries *canaries, const char *p, size_t n);
const char *canaries_find_name(const struct canaries *canaries, const char *p, size_t n);

/* One on its way in pieces, however it is cut. */
struct canary_watch {
	const struct canaries *canaries; /* NULL: nothing is looked for */
	struct scrub scrub;
};
void canary_watch_start(struct canary_watch *watch, const struct canaries *canaries);
/*
 * Takes p[0..n) and gives what may go on, as scrub_feed(): what may be the beginning of a placeholder is held back. *ret_whose: the
 * upstream whose placeholder is there; then nothing more may go on. 0 or -ENOMEM.
 */
int canary_watch_feed(struct canary_watch *watch, const char *p, size_t n, bool last,
		      const char **ret_p, size_t *ret_n, const char **ret_whose);
void canary_watch_end(struct canary_watch *watch);

#endif
