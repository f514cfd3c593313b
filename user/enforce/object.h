/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF object, ready to be loaded: its maps made, its programs as the kernel takes them. libbpf does the linking and
 * the relocations, but would hand programs to the kernel one by one; here they come out as plain data, for several
 * threads to load.
 */
#ifndef CORDON_ENFORCE_OBJECT_H
#define CORDON_ENFORCE_OBJECT_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/util.h"

struct bpf_insn;
struct bpf_object;

enum { OBJECT_PROGRAMS_MAX = 256 };

struct object_program {
	const char *name; /* of the object, as long as it is open */
	const char *section;
	bool wanted; /* false: leave it out */
	/* How the kernel shall load it; set before object_prepare(), from the section where that says it all. */
	enum bpf_prog_type type;
	enum bpf_attach_type attach_type;
	uint32_t attach_btf_id; /* 0: none */
	/* By object_prepare(), owned. */
	struct bpf_insn *insns;
	size_t n_insns;
	void *functions; /* BTF's function information */
	uint32_t n_functions, function_size;
	int btf_fd; /* of the object */
};

struct object {
	struct bpf_object *bpf;
	int types_fd; /* the kernel's types, for libbpf */
	struct object_program programs[OBJECT_PROGRAMS_MAX];
	size_t n_programs;
};

/* A digest of the objects that this program carries: tells one build from another. */
uint64_t object_build(void);

/* Opens the object: the whole one, or the one for cgroup programs alone. All programs are wanted. */
int object_open(bool cgroup_only, struct object *ret_object, struct error *error);

struct object_program *object_find(struct object *object, const char *name); /* NULL: none */

/* Says which of two sets it is (cordon_set). Before object_prepare(). */
int object_number(struct object *object, uint32_t set, struct error *error);

/*
 * The map of this name is not made: this one is used in its place, whose records must have the same sizes. fd stays the
 * caller's. Before object_prepare().
 */
int object_reuse(struct object *object, const char *name, int fd, struct error *error);

/* Makes the maps, with room for so many fences, and fills in the programs that are wanted. Root. */
int object_prepare(struct object *object, uint32_t fences, struct error *error);

int object_map_fd(const struct object *object,
		  const char *name); /* or -errno; stays the object's */

/* Loads a program: its descriptor or -errno. May be called by several threads at a time. */
int object_load(const struct object_program *program, struct error *error);

/* Takes a zeroed one, too. */
void object_close(struct object *object);

#endif
