// SPDX-License-Identifier: Apache-2.0
/*
 * See time.h. Calendar arithmetic of its own, because this runs for every event and needs neither
 * locale, time zone nor lock. No privilege; text that is not a time is refused.
 */
#include "event/time.h"

#include <ctype.h>
#include <errno.h>

#include "event/event.h"

#define NS_PER_S 1000000000ULL
#define DAY_S 86400U

/*
 * A day since 1970 as a date: eras of 400 years that begin on 1 March, so that the leap day is the
 * last.
 */
static void date_of_day(uint64_t day, unsigned int *ret_year, unsigned int *ret_month,
			unsigned int *ret_mday)
{
	uint64_t days = day + 719468, era = days / 146097;
	unsigned int doe = (unsigned int)(days - era * 146097);
	unsigned int yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	unsigned int doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	unsigned int mp = (5 * doy + 2) / 153;

	*ret_mday = doy - (153 * mp + 2) / 5 + 1;
	*ret_month = mp < 10 ? mp + 3 : mp - 9;
	*ret_year = (unsigned int)(yoe + era * 400) + (*ret_month <= 2);
}

/* The inverse, for years from 1970. */
static uint64_t day_of_date(unsigned int year, unsigned int month, unsigned int mday)
{
	unsigned int y = year - (month <= 2), era = y / 400, yoe = y - era * 400;
	unsigned int doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + mday - 1;

	return era * 146097ULL + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

void event_time_put(struct event_buffer *b, uint64_t time_ns)
{
	uint64_t s = time_ns / NS_PER_S;
	unsigned int second = (unsigned int)(s % DAY_S), year, month, mday;

	date_of_day(s / DAY_S, &year, &month, &mday);
	event_buffer_uint(b, year, 4);
	event_buffer_putc(b, '-');
	event_buffer_uint(b, month, 2);
	event_buffer_putc(b, '-');
	event_buffer_uint(b, mday, 2);
	event_buffer_putc(b, 'T');
	event_buffer_uint(b, second / 3600, 2);
	event_buffer_putc(b, ':');
	event_buffer_uint(b, second / 60 % 60, 2);
	event_buffer_putc(b, ':');
	event_buffer_uint(b, second % 60, 2);
	event_buffer_putc(b, '.');
	event_buffer_uint(b, time_ns % NS_PER_S, 9);
	event_buffer_putc(b, 'Z');
}

const char *event_format_time(uint64_t time_ns, char ret_text[EVENT_TIME_SIZE])
{
	struct event_buffer b = { .p = ret_text, .size = EVENT_TIME_SIZE - 1 };

	event_time_put(&b, time_ns);
	ret_text[b.n] = '\0';
	return ret_text;
}

/* --- reading ------------------------------------------------------------------------------- */

/* Takes exactly n digits and, unless it is NUL, the separator behind them. */
static bool take(const char **text, unsigned int n, char separator, unsigned int *ret_value)
{
	unsigned int value = 0;

	for (; n; n--, ++*text) {
		if (!isdigit((unsigned char)**text))
			return false;
		value = value * 10 + (unsigned int)(**text - '0');
	}
	*ret_value = value;
	if (!separator)
		return true;
	if (toupper((unsigned char)**text) != separator)
		return false;
	++*text;
	return true;
}

/* ".123" to ns, of at most nine digits that count. */
static bool take_fraction(const char **text, uint64_t *ret_ns)
{
	uint64_t unit = NS_PER_S / 10;

	*ret_ns = 0;
	if (**text != '.')
		return true;
	++*text;
	if (!isdigit((unsigned char)**text))
		return false;
	for (; isdigit((unsigned char)**text); ++*text, unit /= 10)
		*ret_ns += (uint64_t)(**text - '0') * unit;
	return true;
}

/* "Z" or "+01:30" at the end, as seconds ahead of UTC. */
static bool take_offset(const char **text, int64_t *ret_s)
{
	char sign = **text;
	unsigned int hour, minute;

	*ret_s = 0;
	++*text;
	if (sign == 'Z' || sign == 'z')
		return **text == '\0';
	if ((sign != '+' && sign != '-') || !take(text, 2, ':', &hour) ||
	    !take(text, 2, '\0', &minute))
		return false;
	*ret_s = (int64_t)(hour * 3600 + minute * 60) * (sign == '+' ? 1 : -1);
	return **text == '\0' && hour < 24 && minute < 60;
}

static unsigned int days_in_month(unsigned int year, unsigned int month)
{
	static const unsigned int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (leap && month == 2);
}

int event_parse_time(const char *text, uint64_t *ret_time_ns)
{
	unsigned int year, month, mday, hour, minute, second;
	uint64_t ns;
	int64_t offset_s, s;

	if (!take(&text, 4, '-', &year) || !take(&text, 2, '-', &month) ||
	    !take(&text, 2, 'T', &mday) || !take(&text, 2, ':', &hour) ||
	    !take(&text, 2, ':', &minute) || !take(&text, 2, '\0', &second) ||
	    !take_fraction(&text, &ns) || !*text || !take_offset(&text, &offset_s))
		return -EINVAL;
	if (year < 1970 || year > 2500 || month < 1 || month > 12 || mday < 1 ||
	    mday > days_in_month(year, month) || hour > 23 || minute > 59 || second > 60)
		return -EINVAL;
	s = (int64_t)(day_of_date(year, month, mday) * DAY_S) + hour * 3600 + minute * 60 + second -
	    offset_s;
	if (s < 0)
		return -EINVAL;
	*ret_time_ns = (uint64_t)s * NS_PER_S + ns;
	return 0;
}
