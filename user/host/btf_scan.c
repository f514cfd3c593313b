// SPDX-License-Identifier: Apache-2.0
/*
 * Finds types by name in the kernel's own type information, /sys/kernel/btf/vmlinux, in one pass over the file and
 * without a parsed copy: a library's index of some 150,000 types takes a tenth of a second to make, and would stay in
 * memory for nothing.
 *
 * Privilege: none. The file is the kernel's, but every offset is checked all the same; on any doubt nothing is found.
 */
#include "host/host.h"
#include "host/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/util.h"

#define BTF_DIR "/sys/kernel/btf"
#define BTF_SIZE_MAX (256u << 20)

/* Copies the file into pages of their own, which munmap gives back at once. */
static void *file_read(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ssize_t r = 1;
	size_t n = 0;

	if (p == MAP_FAILED)
		return NULL;
	while (n < size && r > 0) {
		r = read(fd, (char *)p + n, size - n);
		n += r > 0 ? (size_t)r : 0;
	}
	if (n == size)
		return p;
	munmap(p, size);
	return NULL;
}

/* Kernels from 6.16 on let the file itself be mapped. */
static void *file_map(const char *path, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) || st.st_size <= 0 || st.st_size > BTF_SIZE_MAX)
		return NULL;
	*ret_size = (size_t)st.st_size;
	p = mmap(NULL, *ret_size, PROT_READ, MAP_PRIVATE, fd, 0);
	return p != MAP_FAILED ? p : file_read(fd, *ret_size);
}

void *host_types_map(const char *name, size_t *ret_size)
{
	char path[256];

	if (snprintf(path, sizeof(path), BTF_DIR "/%s", name) >= (int)sizeof(path))
		return NULL;
	return file_map(path, ret_size);
}

/* Bytes that follow a type's header, by its kind; SIZE_MAX for an unknown kind, behind which nothing can be read. */
size_t host_type_extra(const struct btf_type *type)
{
	size_t n = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return sizeof(uint32_t);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return n * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return n * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return n * 3 * sizeof(uint32_t);
	case BTF_KIND_FUNC_PROTO:
		return n * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return n * sizeof(struct btf_var_secinfo);
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	default:
		return SIZE_MAX;
	}
}

/* What is looked for, by the hash of its name: open addressing, at most half full. */
#define TABLE_SIZE 512

struct table {
	struct host_type *types;
	uint32_t proto[TABLE_SIZE]; /* of what was found: the id of its prototype */
	uint64_t protos[64];	    /* bits of these ids, so that most others are passed at once */
	uint64_t begins[64];	    /* and of the beginnings of the names */
	uint16_t entry[TABLE_SIZE]; /* index + 1; 0: free */
};

static uint32_t hash_name(const char *name)
{
	uint32_t hash = 2166136261U;

	while (*name)
		hash = (hash ^ (unsigned char)*name++) * 16777619U;
	return hash ^ hash >> 16;
}

/* A bit of 4096 for the first eight bytes of a name, of which `left` may be read. */
static uint32_t begin_bit(const char *name, size_t left)
{
	uint64_t begin = 0;

	if (left >= sizeof(begin))
		memcpy(&begin, name, sizeof(begin));
	if (left < sizeof(begin) ||
	    ((begin - 0x0101010101010101ULL) & ~begin & 0x8080808080808080ULL)) {
		begin = 0;
		memcpy(&begin, name, strnlen(name, left < sizeof(begin) ? left : sizeof(begin)));
	}
	return (uint32_t)(begin * 0x9e3779b97f4a7c15ULL >> 52);
}

static int table_fill(struct table *table, struct host_type *types, size_t n)
{
	if (n > TABLE_SIZE / 2)
		return -E2BIG;
	memset(table, 0, sizeof(*table));
	table->types = types;
	for (size_t i = 0; i < n; i++) {
		uint32_t at = hash_name(types[i].name);
		uint32_t bit = begin_bit(types[i].name, strlen(types[i].name));

		table->begins[bit / 64] |= 1ULL << bit % 64;
		types[i].id = 0;
		types[i].nargs = -1;
		while (table->entry[at % TABLE_SIZE])
			at++;
		table->entry[at % TABLE_SIZE] = (uint16_t)(i + 1);
	}
	return 0;
}

static void table_match(struct table *table, const struct btf_type *type, const char *name,
			size_t left, uint32_t id)
{
	bool typedefs = BTF_INFO_KIND(type->info) == BTF_KIND_TYPEDEF;
	uint32_t bit = begin_bit(name, left), at;

	if (!(table->begins[bit / 64] & 1ULL << bit % 64))
		return;
	at = hash_name(name);
	for (; table->entry[at % TABLE_SIZE]; at++) {
		size_t i = table->entry[at % TABLE_SIZE] - 1U;
		struct host_type *wanted = &table->types[i];

		if (wanted->is_typedef == typedefs && !strcmp(name, wanted->name)) {
			wanted->id = id;
			table->proto[i] = typedefs ? 0 : type->type;
			if (!typedefs)
				table->protos[type->type / 64 % 64] |= 1ULL << type->type % 64;
		}
	}
}

/* The number of arguments of what has this prototype. */
static void table_proto(struct table *table, const struct btf_type *type, uint32_t id, size_t n)
{
	if (!(table->protos[id / 64 % 64] & 1ULL << id % 64))
		return;
	for (size_t i = 0; i < n; i++)
		if (table->proto[i] == id)
			table->types[i].nargs = BTF_INFO_VLEN(type->info);
}

/*
 * types[0..types_size) and strings[0..strings_size), which ends with NUL. Type ids count from 1. A function may stand
 * before its prototype, so prototypes are looked at in a second pass.
 */
static int scan(const char *types, size_t types_size, const char *strings, size_t strings_size,
		struct table *table, size_t n, bool protos)
{
	const struct btf_type *type;
	size_t at = 0, extra;
	uint32_t id, kind;

	for (id = 1; at < types_size; id++) {
		if (types_size - at < sizeof(*type))
			return -EBADMSG;
		type = (const void *)(types + at);
		at += sizeof(*type);
		extra = host_type_extra(type);
		if (extra > types_size - at || type->name_off >= strings_size)
			return -EBADMSG;
		at += extra;
		kind = BTF_INFO_KIND(type->info);
		if (protos && kind == BTF_KIND_FUNC_PROTO)
			table_proto(table, type, id, n);
		else if (!protos && (kind == BTF_KIND_FUNC || kind == BTF_KIND_TYPEDEF))
			table_match(table, type, strings + type->name_off,
				    strings_size - type->name_off, id);
	}
	return 0;
}

int btf_scan_data(const void *data, size_t size, struct host_type *wanted, size_t n)
{
	const struct btf_header *header = data;
	const char *body = data, *types, *strings;
	struct table table;
	size_t rest;
	int err;

	err = table_fill(&table, wanted, n);
	if (err)
		return err;
	if (size < sizeof(*header) || header->magic != BTF_MAGIC || header->hdr_len > size ||
	    header->hdr_len < sizeof(*header))
		return -EBADMSG;
	body += header->hdr_len;
	rest = size - header->hdr_len;
	if (header->type_off > rest || header->type_len > rest - header->type_off ||
	    header->type_off % 4 || header->hdr_len % 4 || header->str_off > rest ||
	    header->str_len > rest - header->str_off || !header->str_len ||
	    body[header->str_off + header->str_len - 1])
		return -EBADMSG;
	types = body + header->type_off;
	strings = body + header->str_off;
	err = scan(types, header->type_len, strings, header->str_len, &table, n, false);
	return err ? err : scan(types, header->type_len, strings, header->str_len, &table, n, true);
}

int host_types_find(struct host_type *wanted, size_t n)
{
	size_t size;
	void *data = host_types_map("vmlinux", &size);
	int r;

	for (size_t i = 0; i < n; i++)
		wanted[i].id = 0;
	if (!data)
		return errno == ENOENT ? -ENOENT : -EIO;
	r = btf_scan_data(data, size, wanted, n);
	munmap(data, size);
	return r;
}
