/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bytes of a configuration text may be, before YAML is looked at. No privilege.
 */
#ifndef CORDON_CONF_TEXT_H
#define CORDON_CONF_TEXT_H

#include "conf/fault.h"

/*
 * Adds a fault for each line that is not plain UTF-8 text: length, NUL, invalid UTF-8, control
 * characters, tabs in the indentation, line ends other than LF and CRLF (so that lines count as
 * editors count them). Returns 0 or -ENOMEM; a text with such a fault is not to be parsed.
 */
int conf_text_check(const char *text, size_t length, struct conf_faults *faults);

#endif
