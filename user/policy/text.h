/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the policy library: what the bytes of a policy text may be, before YAML is looked at. No
 * privilege.
 */
#ifndef CORDON_POLICY_TEXT_H
#define CORDON_POLICY_TEXT_H

#include "policy/fault.h"

/*
 * Adds a fault for each line that is not plain UTF-8 text: length, NUL, invalid UTF-8, control
 * characters, tabs in the indentation, line ends other than LF and CRLF (so that lines count as
 * editors count them). Returns 0 or -ENOMEM; a text with such a fault is not to be parsed.
 */
int policy_text_check(const char *text, size_t length, struct policy_faults *faults);

#endif
