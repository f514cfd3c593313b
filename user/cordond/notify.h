/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What systemd is told (sd_notify(3)): a datagram to $NOTIFY_SOCKET, by hand, because the protocol is one line and
 * libsystemd would be a library more in a process that runs as root. Without systemd nothing happens.
 */
#ifndef CORDON_CORDOND_NOTIFY_H
#define CORDON_CORDOND_NOTIFY_H

#include <stdint.h>

/* Takes $NOTIFY_SOCKET and $WATCHDOG_USEC out of the environment. */
void notify_open(void);

/* Sends lines, as "READY=1\nSTATUS=...". */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ms between signs of life that systemd wants, or 0. */
uint64_t notify_watchdog_ms(void);

#endif
