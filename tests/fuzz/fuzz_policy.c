// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target of the policy library: bytes as a policy text - parsed, compiled, validated - the same bytes as an
 * image, as damage to a good image, and as the texts that name homes. Looks at no path. The corpus is tests/fuzz/corpus/policy; policies/ and tests/golden/policy are good seeds too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conf/fault.h"
#include "policy/policy.h"
#include "policy/secrets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise stops the run like a crash does. */
#define MUST(condition)                   \
	do {                              \
		if (!(condition))         \
			__builtin_trap(); \
	} while (0)

/* Faults are sorted, within the text, and printable lines of UTF-8. */
static void judge_faults(const struct conf_faults *faults)
{
	for (size_t i = 0; i < faults->n; i++) {
		const struct conf_fault *fault = &faults->v[i];
		size_t length = strlen(fault->text), n;
		uint32_t c;

		MUST(fault->line && fault->column && length);
		MUST(!i || fault[-1].line < fault->line ||
		     (fault[-1].line == fault->line && fault[-1].column <= fault->column));
		for (size_t k = 0; k < length; k += n) {
			n = conf_utf8_next(fault->text + k, length - k, &c);
			MUST(n && c >= 0x20);
		}
	}
}

/* What an accepted image offers may be read from end to end. */
static void read_image(const struct image *image)
{
	size_t sum = strlen(image_string(image, image->name));

	for (uint32_t i = 0; i < image->n_nets; i++)
		for (uint32_t k = 0; k < image_nets(image)[i].net.n; k++)
			sum += image_nets(image)[i].net.ports[k].hi;
	for (uint32_t i = 0; i < image->n_roots; i++)
		sum += strlen(image_string(image, image_roots(image)[i].path));
	__asm__ volatile("" : : "r"(sum));
}

static void try_text(const uint8_t *data, size_t size)
{
	const struct policy_options options = { .need_workdir = size % 2 };
	struct conf_faults faults = { .n = 0 };
	struct policy *policy = NULL;
	struct image *image = NULL;
	int r;

	r = policy_parse((const char *)data, size, &options, &policy, &faults);
	judge_faults(&faults);
	if (r == 0) {
		MUST(faults.n == 0 && policy->name);
		MUST(policy_compile(policy, &image) == 0);
		MUST(image_validate(image, image->size_bytes) == 0);
		read_image(image);
	} else {
		MUST(r == -EINVAL && faults.n && !policy);
	}
	free(image);
	policy_free(policy);
	conf_faults_clear(&faults);
}

static void try_image(const uint8_t *data, size_t size)
{
	/* A copy: aligned, and ending where the bytes end. */
	void *copy = malloc(size ? size : 1);

	MUST(copy);
	memcpy(copy, data, size);
	if (image_validate(copy, size) == 0)
		read_image(copy);
	free(copy);
}

static const char base_text[] =
	"{cordon: 1, name: base, files: {workdir: /w, write: [/a, /b], read: {deny: [/a, /c]}},\n"
	"network: {gateway: [127.0.0.1:1, \"[::1]:2\"], unix: [/s], allow: [\n"
	"{to: 10.0.0.0/8, port: 443, proto: tcp}, {to: 10.1.0.0/16, port: 53},\n"
	"{to: 10.1.2.0/24, port: 8000-8010, proto: udp}, {to: 192.0.2.1}, {to: 2001:db8::/32}]}}\n";

/* The image of base_text, made once. */
static const struct image *base_image(void)
{
	static struct image *image;
	const struct policy_options options = { .workdir = NULL };
	struct conf_faults faults = { .n = 0 };
	struct policy *policy = NULL;

	if (image)
		return image;
	MUST(policy_parse(base_text, strlen(base_text), &options, &policy, &faults) == 0);
	MUST(policy_compile(policy, &image) == 0);
	policy_free(policy);
	return image;
}

/* Bytes as damage to a good image: three by three, an offset and what is put there. */
static void try_damage(const uint8_t *data, size_t size)
{
	const struct image *base = base_image();
	uint8_t *copy = malloc(base->size_bytes);

	MUST(copy);
	memcpy(copy, base, base->size_bytes);
	for (size_t i = 0; i + 3 <= size; i += 3)
		copy[(data[i] | data[i + 1] << 8) % base->size_bytes] = data[i + 2];
	if (image_validate(copy, base->size_bytes) == 0)
		read_image((const struct image *)copy);
	free(copy);
}

/* As a passwd and an environment: what comes out is paths with an end, within the room that there is. */
static void try_homes(const uint8_t *data, size_t size)
{
	size_t split = size ? data[0] * size / 256 : 0, used;
	static char to[256];

	used = policy_homes_read((const char *)data, split, (const char *)data + split,
				 size - split, to, sizeof(to));
	MUST(used <= sizeof(to) + 1);
	if (used > sizeof(to))
		return;
	MUST(!used || !to[used - 1]);
	for (const char *p = to; p < to + used; p += strlen(p) + 1)
		MUST(p[0] == '/' && p[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_text(data, size);
	try_image(data, size);
	try_damage(data, size);
	try_homes(data, size);
	return 0;
}
