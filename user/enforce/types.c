// SPDX-License-Identifier: Apache-2.0
/*
 * libbpf adapts the programs to the kernel that runs by the kernel's type information: it reads all of its 150,000 types,
 * and looks through their names once for each type that a program uses. The programs use some fifty. Here those are
 * copied out in one pass, and libbpf gets to see nothing else: a tenth of the time and of the memory. That the result is
 * the same, tests/unit/test_object holds on every kernel.
 *
 * Root (the file is readable for all, though). The kernel wrote what is parsed here; bounds are checked all the same.
 */
#include "enforce/types.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "host/host.h"

/* The kernel module whose types the programs use, if it is loaded. */
#define MODULE "overlay"

enum { NAMES_SIZE = 1024 }; /* a hash table, of a power of two */

/* Type information in memory: of the kernel, followed by that of the module. Ids count on. */
struct source {
	size_t n_kernel;	       /* ids below this are the kernel's */
	const struct btf_type **types; /* by id */
	size_t n_types, room;
	const char *strings[2];
	size_t strings_size[2];
	void *map[2];
	size_t map_size[2];
};

/* The copy that grows. */
struct extract {
	const struct source *from;
	const char *wanted[NAMES_SIZE];
	bool found[NAMES_SIZE]; /* in the kernel itself */
	uint32_t *ids;		/* by the source's id: the copy's; 0: not copied */
	uint32_t *queue;	/* source's ids in the copy's order */
	size_t n;
	uint32_t pointer; /* the copy's `void *`; 0: not there yet */
	FILE *types, *strings;
};

enum { POINTER = UINT32_MAX }; /* in the queue: void * */

/* --- reading ------------------------------------------------------------------------------------------------ */

static int source_add_types(struct source *s, const char *at, const char *end)
{
	while (at < end) {
		const struct btf_type *type = (const void *)at;
		size_t left = (size_t)(end - at), extra;

		if (left < sizeof(*type))
			return -EBADMSG;
		extra = host_type_extra(type);
		if (extra > left - sizeof(*type))
			return -EBADMSG;
		if (s->n_types == s->room) {
			size_t room = s->room ? 2 * s->room : 1 << 17;
			void *p = reallocarray(s->types, room, sizeof(s->types[0]));

			if (!p)
				return -ENOMEM;
			s->types = p;
			s->room = room;
		}
		s->types[s->n_types++] = type;
		at += sizeof(*type) + extra;
	}
	return 0;
}

/* Adds a file's types: part 0 is the kernel's, part 1 the module's. */
static int source_add(struct source *s, unsigned int part, const char *name)
{
	static const struct btf_type none;
	const struct btf_header *header;
	size_t size, rest;
	const char *body;

	header = s->map[part] = host_types_map(name, &size);
	if (!header)
		return errno ? -errno : -EIO;
	s->map_size[part] = size;
	if (size < sizeof(*header) || header->magic != BTF_MAGIC || header->hdr_len > size)
		return -EBADMSG;
	body = (const char *)header + header->hdr_len;
	rest = size - header->hdr_len;
	if (header->type_off > rest || header->type_len > rest - header->type_off ||
	    header->type_off % 4 || header->hdr_len % 4 || header->str_off > rest ||
	    header->str_len > rest - header->str_off || !header->str_len ||
	    body[header->str_off + header->str_len - 1])
		return -EBADMSG;
	s->strings[part] = body + header->str_off;
	s->strings_size[part] = header->str_len;
	if (!part) {
		s->types = malloc((s->room = 1 << 17) * sizeof(s->types[0]));
		if (!s->types)
			return -ENOMEM;
		s->types[s->n_types++] = &none; /* id 0 is void */
	}
	return source_add_types(s, body + header->type_off,
				body + header->type_off + header->type_len);
}

static void source_drop_part(struct source *s, unsigned int part)
{
	if (s->map[part])
		munmap(s->map[part], s->map_size[part]);
	s->map[part] = NULL;
	s->strings_size[part] = 0;
}

/* A module's strings follow the kernel's. */
static const char *source_string(const struct source *s, uint32_t offset)
{
	if (offset < s->strings_size[0])
		return s->strings[0] + offset;
	offset -= s->strings_size[0];
	return offset < s->strings_size[1] ? s->strings[1] + offset : "";
}

static const struct btf_type *source_type(const struct source *s, uint32_t id)
{
	return s->types[id < s->n_types ? id : 0];
}

/* --- what is wanted ----------------------------------------------------------------------------------------- */

static uint32_t hash_name(const char *name, size_t size)
{
	uint32_t hash = 2166136261U;

	while (size--)
		hash = (hash ^ (unsigned char)*name++) * 16777619U;
	return hash ^ hash >> 16;
}

/* Where a name is in the table, or would be. `name` ends after size bytes, what is in the table with NUL. */
static const char **wanted_slot(struct extract *x, const char *name, size_t size)
{
	uint32_t at = hash_name(name, size);

	while (x->wanted[at % NAMES_SIZE] && (strncmp(x->wanted[at % NAMES_SIZE], name, size) ||
					      x->wanted[at % NAMES_SIZE][size]))
		at++;
	return &x->wanted[at % NAMES_SIZE];
}

static bool is_wanted_kind(uint32_t kind)
{
	return kind == BTF_KIND_STRUCT || kind == BTF_KIND_UNION || kind == BTF_KIND_ENUM ||
	       kind == BTF_KIND_ENUM64;
}

/* The names in the programs' own types; what follows "___" only tells variants apart. Kept in `names`. */
static int want(struct extract *x, const struct btf *local, char **ret_names)
{
	size_t n = btf__type_cnt(local), count = 0, used = 0, room = 0;
	char *names;

	for (uint32_t id = 1; id < n; id++)
		room += strlen(btf__name_by_offset(local, btf__type_by_id(local, id)->name_off)) +
			1;
	names = *ret_names = malloc(room + 1);
	if (!names)
		return -ENOMEM;
	for (uint32_t id = 1; id < n; id++) {
		const struct btf_type *type = btf__type_by_id(local, id);
		const char *name = btf__name_by_offset(local, type->name_off), *variant;
		size_t size = strlen(name);
		const char **slot;

		variant = strstr(name, "___");
		if (variant && variant > name)
			size = (size_t)(variant - name);
		if (!size || !is_wanted_kind(btf_kind(type)))
			continue;
		slot = wanted_slot(x, name, size);
		if (*slot)
			continue;
		if (++count > NAMES_SIZE / 2)
			return -E2BIG;
		*slot = memcpy(names + used, name, size);
		names[used + size] = '\0';
		used += size + 1;
	}
	return 0;
}

/* The index in the table of a type that is wanted, or -1. */
static int wanted_index(struct extract *x, const struct btf_type *type)
{
	const char *name = source_string(x->from, type->name_off), **slot;

	if (!*name || !is_wanted_kind(btf_kind(type)))
		return -1;
	slot = wanted_slot(x, name, strlen(name));
	return *slot ? (int)(slot - x->wanted) : -1;
}

/* --- copying ------------------------------------------------------------------------------------------------ */

static uint32_t enqueue(struct extract *x, uint32_t id)
{
	x->queue[x->n++] = id;
	return (uint32_t)x->n;
}

/* The copy's id of what a member has as its type. */
static uint32_t visit(struct extract *x, uint32_t id)
{
	const struct btf_type *type = source_type(x->from, id);

	for (int i = 0; i < 32 && (btf_is_mod(type) || btf_is_typedef(type)); i++) {
		id = type->type;
		type = source_type(x->from, id);
	}
	if (id >= x->from->n_types || btf_is_void(type))
		return 0;
	if (btf_is_ptr(type)) {
		if (!x->pointer)
			x->pointer = enqueue(x, POINTER);
		return x->pointer;
	}
	if (!x->ids[id])
		x->ids[id] = enqueue(x, id);
	return x->ids[id];
}

static uint32_t copy_string(struct extract *x, uint32_t offset)
{
	const char *string = source_string(x->from, offset);
	long at = ftell(x->strings);

	if (!*string)
		return 0;
	fwrite(string, strlen(string) + 1, 1, x->strings);
	return (uint32_t)at;
}

static void copy_members(struct extract *x, const struct btf_type *type)
{
	const struct btf_member *members = btf_members(type);

	for (uint32_t i = 0; i < btf_vlen(type); i++) {
		struct btf_member member = members[i];

		member.name_off = copy_string(x, member.name_off);
		member.type = visit(x, member.type);
		fwrite(&member, sizeof(member), 1, x->types);
	}
}

static void copy_values(struct extract *x, const struct btf_type *type)
{
	size_t size = btf_is_enum(type) ? sizeof(struct btf_enum) : sizeof(struct btf_enum64);
	const char *values = (const char *)(type + 1);

	for (uint32_t i = 0; i < btf_vlen(type); i++) {
		struct btf_enum64 value;

		memcpy(&value, values + i * size, size);
		value.name_off = copy_string(x, value.name_off);
		fwrite(&value, size, 1, x->types);
	}
}

/* One type, with all that it has when it is wanted or has no name, else with its size. */
static void copy_type(struct extract *x, uint32_t id)
{
	static const struct btf_type pointer = { .info = BTF_KIND_PTR << 24 };
	const struct btf_type *type = source_type(x->from, id);
	struct btf_type head = *type;
	bool whole = !type->name_off || wanted_index(x, type) >= 0;

	if (id == POINTER) {
		fwrite(&pointer, sizeof(pointer), 1, x->types);
		return;
	}
	head.name_off = copy_string(x, type->name_off);
	if (is_wanted_kind(btf_kind(type)) && !whole)
		head.info &= ~0xffffU; /* no members */
	if (btf_is_array(type)) {
		struct btf_array array = *btf_array(type);

		array.type = visit(x, array.type);
		array.index_type = visit(x, array.index_type);
		fwrite(&head, sizeof(head), 1, x->types);
		fwrite(&array, sizeof(array), 1, x->types);
		return;
	}
	fwrite(&head, sizeof(head), 1, x->types);
	if (btf_is_int(type))
		fwrite(type + 1, sizeof(uint32_t), 1, x->types);
	else if (whole && btf_is_composite(type))
		copy_members(x, type);
	else if (whole && (btf_is_enum(type) || btf_is_enum64(type)))
		copy_values(x, type);
}

/* Kinds that a member cannot have are not expected; a copy of them could not be read. */
static bool can_copy(const struct btf_type *type)
{
	return is_wanted_kind(btf_kind(type)) || btf_is_int(type) || btf_is_array(type) ||
	       btf_is_float(type) || btf_is_fwd(type);
}

/* A module is asked only for what the kernel itself does not have. */
static void want_all(struct extract *x)
{
	for (uint32_t id = 1; id < x->from->n_types; id++) {
		bool kernel = id < x->from->n_kernel;
		int index = btf_vlen(x->from->types[id]) ? wanted_index(x, x->from->types[id]) : -1;

		if (index < 0 || (!kernel && x->found[index]))
			continue;
		x->found[index] |= kernel;
		if (!x->ids[id])
			x->ids[id] = enqueue(x, id);
	}
}

static int write_file(int fd, const char *types, size_t types_size, const char *strings,
		      size_t strings_size)
{
	struct btf_header header = {
		.magic = BTF_MAGIC,
		.version = BTF_VERSION,
		.hdr_len = sizeof(header),
		.type_len = (uint32_t)types_size,
		.str_off = (uint32_t)types_size,
		.str_len = (uint32_t)strings_size,
	};

	if (write(fd, &header, sizeof(header)) == (ssize_t)sizeof(header) &&
	    write(fd, types, types_size) == (ssize_t)types_size &&
	    write(fd, strings, strings_size) == (ssize_t)strings_size)
		return 0;
	return -EIO;
}

static int extract(struct extract *x, const struct btf *local, int fd)
{
	_cleanup_free_ char *names = NULL, *types = NULL, *strings = NULL;
	size_t types_size = 0, strings_size = 0;
	int err = want(x, local, &names);

	if (err)
		return err;
	x->ids = calloc(x->from->n_types, sizeof(x->ids[0]));
	x->queue = calloc(x->from->n_types + 1, sizeof(x->queue[0]));
	x->types = open_memstream(&types, &types_size);
	x->strings = open_memstream(&strings, &strings_size);
	if (x->ids && x->queue && x->types && x->strings) {
		fputc('\0', x->strings);
		fflush(x->strings);
		want_all(x);
		for (size_t i = 0; !err && i < x->n; i++) {
			if (x->queue[i] != POINTER && !can_copy(source_type(x->from, x->queue[i])))
				err = -EBADMSG;
			else
				copy_type(x, x->queue[i]);
		}
	} else {
		err = -ENOMEM;
	}
	if (x->types && fclose(x->types))
		err = -ENOMEM;
	if (x->strings && fclose(x->strings))
		err = -ENOMEM;
	free(x->ids);
	free(x->queue);
	return err ? err : write_file(fd, types, types_size, strings, strings_size);
}

int types_extract(const struct btf *local, int fd, struct error *error)
{
	struct source source = { 0 };
	struct extract x = { .from = &source };
	int err = source_add(&source, 0, "vmlinux");

	source.n_kernel = source.n_types;
	/* Where it is not loaded, or built in, it has no file. */
	if (!err && source_add(&source, 1, MODULE)) {
		source.n_types = source.n_kernel;
		source_drop_part(&source, 1);
	}
	if (!err)
		err = extract(&x, local, fd);
	free(source.types);
	source_drop_part(&source, 1);
	source_drop_part(&source, 0);
	if (err)
		return error_set(error, -err,
				 "the kernel's type information, /sys/kernel/btf/vmlinux, is not "
				 "understood: %s",
				 strerror(-err));
	return 0;
}
