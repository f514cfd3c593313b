/* SPDX-License-Identifier: Apache-2.0 */
/* Events in the form of the Open Cybersecurity Schema Framework, 1.3.0. Inside user/event only. */
#ifndef CORDON_EVENT_OCSF_H
#define CORDON_EVENT_OCSF_H

#include <jansson.h>

#include "event/event.h"

#define OCSF_VERSION "1.3.0"

/* The record as one line. Returns its length, 0 when memory ended. */
size_t event_ocsf_format(char ret_line[EVENT_LINE_MAX], const json_t *root);

#endif
