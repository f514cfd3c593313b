/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests/race/enter.c, which puts a fence around a cgroup and takes it off, and tests/race/image.c, what runs in the
 * cgroup and executes itself, have in common: a page of memory, and what they count in it.
 *
 * `phase` is the clock of both: it only grows, and its rest by STEPS says what is done to the cgroup now. Who tries
 * something counts itself into `busy` of the step in which it began; so nothing is under way any more that began
 * inside when the fence is taken off, and what arrives where only attempts from inside are sent got out.
 */
#ifndef RACE_ENTER_H
#define RACE_ENTER_H

#include <stdint.h>

/*
 * OPEN       there is no fence
 * ATTACHING  the tasks are being frozen
 * FENCED     they are frozen, and whoever runs again runs inside
 * DETACHING  the fence is being taken off
 */
enum step { OPEN, ATTACHING, FENCED, DETACHING, STEPS };

/* Where an attempt goes: what begins inside has listeners of its own. */
enum side { OUTSIDE, INSIDE, SIDES };

enum { RACE_PATH_SIZE = 108, SHARED_FD = 3, HELD_MOST = 256 };

struct race_count {
	uint64_t passed, refused, failed;
};

struct race_shared {
	uint32_t phase;
	uint32_t by_exec; /* nobody is marked by attaching; each is by its next exec */
	uint32_t busy[STEPS];
	int32_t held[HELD_MOST]; /* processes that the freeze found in an exec */
	uint32_t n_held;
	uint32_t met;	     /* those of them, in all, whose image then tried everything inside */
	uint32_t opened;     /* images, in all, that tried everything without a fence */
	uint32_t entered;    /* first images */
	uint32_t stop;	     /* images end */
	int32_t lost_errno;  /* of an image that could not go on, which never may be */
	uint32_t lost_phase; /* and when that was */
	uint64_t images;
	uint64_t sent[SIDES];	   /* attempts that passed, to be held against what arrived */
	struct race_count inside;  /* attempts that began inside */
	struct race_count outside; /* attempts that began and ended while there was no fence */
	uint16_t port[SIDES];	   /* at 127.0.0.2 */
	char unix_path[SIDES][RACE_PATH_SIZE];
	char file[SIDES][RACE_PATH_SIZE]; /* grows by a byte for each attempt that passes */
};

#endif
