/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about the keeper's fences share; none of it is for others. See keeper_fence.c. */
#ifndef CORDON_CORDOND_KEEPER_FENCE_H
#define CORDON_CORDOND_KEEPER_FENCE_H

#include "cordond/keeper.h"

struct kept *kept_find(struct keeper *keeper, uint64_t id); /* NULL: none */

/* --- telling the front ------------------------------------------------------------------------ */

/* The next number of the fence's events. */
uint64_t kept_number_take(struct kept *f);
/* An event of ours. It is numbered in any case: one that the front does not get shows as a gap. */
void kept_fact(struct keeper *keeper, struct kept *f, enum cordon_op op, int64_t value,
	       const char *detail);
/* The same of a message whose other members are filled in. */
void kept_fact_tell(struct keeper *keeper, struct kept *f, union wire_message *message,
		    const char *detail);
/* The answer to a request. */
void kept_reply(struct keeper *keeper, uint32_t serial, int err, uint64_t id, unsigned int proved,
		const char *text);
/* The fence itself, once a front. False: it does not take it now. */
bool kept_show(struct keeper *keeper, struct kept *f);

/* --- coming and going ------------------------------------------------------------------------- */

struct kept *kept_new(const struct wire_fence *how); /* NULL: no memory */
int kept_enter(struct keeper *keeper, struct kept *f);
/* Fills in what is the keeper's of who the fence is: id, node, and of its policy. 0 or -ENOMEM, and *error. */
int kept_identify(struct keeper *keeper, struct kept *f, struct error *error);
/* Makes it known to gateways who the fence is. */
int kept_publish(struct keeper *keeper, struct kept *f, struct error *error);
/* Announces the end; the fence goes when the front has drained it. */
void kept_end(struct keeper *keeper, struct kept *f, const char *reason);
/* Ends it now. */
void kept_drop(struct keeper *keeper, struct kept *f);
/* Without its fence, which is ended or left before. Takes NULL. */
void kept_free(struct kept *f);

/* keeper_adopt.c: notes how the fence was made and where its ceilings stand, for the next keeper. */
int kept_record(struct kept *f, struct error *error);

/* keeper_make.c: reads and judges an image; *ret_image is to be freed. What the front does with its file later changes nothing. */
int keeper_image_read(int fd, struct image **ret_image, struct error *error);

#endif
