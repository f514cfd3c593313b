// SPDX-License-Identifier: Apache-2.0
/* The configuration of sinks: whatever the text, faults or a configuration that can be copied, compared and freed. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sink/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct conf_key rows[] = {
		{ .name = "sinks", .read = sinks_read_config, .expects = "a list of sinks" },
		CONF_KEYS_END
	};
	static struct sinks_config config;
	static struct conf_faults faults;
	struct conf_reader reader = { .faults = &faults, .whole = "the configuration" };
	struct conf_node *root = NULL;

	if (conf_node_read((const char *)data, size, &faults, &root, &reader.complete) == 0 && root)
		conf_read_rows(&reader, rows, root, &config);
	conf_node_free(root);
	for (size_t i = 0; i < config.n; i++) {
		struct sinks_config one = { .n = 1 };

		if (sink_config_copy(&config.v[i], &one.v[0]) < 0)
			continue;
		assert(sink_config_equal(&config.v[i], &one.v[0]));
		assert(faults.n || one.v[0].name);
		assert(one.v[0].type < SINK_TYPE_COUNT);
		sinks_config_clear(&one);
	}
	sinks_config_clear(&config);
	conf_faults_clear(&faults);
	return 0;
}
