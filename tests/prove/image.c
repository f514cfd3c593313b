// SPDX-License-Identifier: Apache-2.0
/*
 * The parser of images against every small damage: a good image cut off at every length, and with every byte set to every value, in
 * memory that ends where the image ends. Built with AddressSanitizer, so that a read outside is the end; an image that is
 * accepted all the same is read through all of its accessors. No sample: all of them.
 *
 * usage: image        prints what was tried and the count; exit 1 when a byte that was not checked was found
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/fault.h"
#include "policy/policy.h"
#include "util/util.h"

static const char *const texts[] = {
	"{cordon: 1, name: a, files: {workdir: /w}}",
	"{cordon: 1, name: base, files: {workdir: /w, write: [/a, /b], read: {deny: [/a, /c]}},\n"
	"network: {gateway: [127.0.0.1:1, \"[::1]:2\"], unix: [/s], allow: [\n"
	"{to: 10.0.0.0/8, port: 443, proto: tcp}, {to: 10.1.0.0/16, port: 53},\n"
	"{to: 192.0.2.1}, {to: 2001:db8::/32}]}}",
};

static struct image *compile(const char *text)
{
	const struct policy_options options = { .workdir = NULL };
	struct conf_faults faults = { .n = 0 };
	struct policy *policy = NULL;
	struct image *image = NULL;

	if (policy_parse(text, strlen(text), &options, &policy, &faults) ||
	    policy_compile(policy, &image))
		abort();
	policy_free(policy);
	return image;
}

static size_t read_all(const struct image *image)
{
	size_t sum = strlen(image_string(image, image->name));

	for (uint32_t i = 0; i < image->n_nets; i++)
		for (uint32_t k = 0; k < image_nets(image)[i].net.n; k++)
			sum += image_nets(image)[i].net.ports[k].hi;
	for (uint32_t i = 0; i < image->n_roots; i++)
		sum += strlen(image_string(image, image_roots(image)[i].path));
	return sum;
}

/* In memory of exactly that size. Returns whether it was accepted. */
static bool try(const void *bytes, size_t size, size_t *sum)
{
	void *copy = malloc(size ? size : 1);
	bool good;

	if (!copy)
		abort();
	memcpy(copy, bytes, size);
	good = image_validate(copy, size) == 0;
	if (good)
		*sum += read_all(copy);
	free(copy);
	return good;
}

int main(void)
{
	unsigned long tried = 0, accepted = 0;
	size_t sum = 0;
	int bad = 0;

	for (size_t t = 0; t < ARRAY_SIZE(texts); t++) {
		struct image *image = compile(texts[t]);
		size_t size = image->size_bytes;
		unsigned char *bytes = (unsigned char *)image;

		bad += !try(bytes, size, &sum);
		for (size_t n = 0; n < size; n++, tried++)
			bad += try(bytes, n, &sum); /* no beginning of an image is one */
		for (size_t i = 0; i < size; i++) {
			unsigned char was = bytes[i];

			for (int v = 0; v < 256; v++, tried++) {
				bytes[i] = (unsigned char)v;
				accepted += try(bytes, size, &sum);
			}
			bytes[i] = was;
		}
		free(image);
	}
	printf("%s 1 - image_validate: %lu damaged images, all within their bytes; %lu differ and "
	       "are good ones, too (%zu)\n",
	       bad ? "not ok" : "ok", tried, accepted, sum);
	printf("%d passed, %d failed\n", !bad, !!bad);
	return !!bad;
}
