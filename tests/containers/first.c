// SPDX-License-Identifier: Apache-2.0
/*
 * A container's command that attacks with its very first instructions: no C library, no loader, nothing between exec and the system
 * calls. Tries each thing once, then prints what came of it and ends: "write ERRNO connect ERRNO inside ERRNO", 0 for what went
 * through.
 *
 * usage: first OUTSIDE PORT INSIDE     creates OUTSIDE, connects to 127.0.0.1:PORT by TCP, creates INSIDE
 */
enum {
	SYS_WRITE = 1,
	SYS_OPEN = 2,
	SYS_SOCKET = 41,
	SYS_CONNECT = 42,
	SYS_EXIT = 231,
	O_WRONLY_CREAT_EXCL = 01 | 0100 | 0200,
	AF_INET = 2,
	SOCK_STREAM = 1,
	ARGUMENTS = 4,
	USAGE = 2,
};

static long call(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

static int create(const char *path)
{
	long fd = call(SYS_OPEN, (long)path, O_WRONLY_CREAT_EXCL, 0644);

	return fd < 0 ? (int)-fd : 0;
}

static int connects(const char *port)
{
	unsigned char address[16] = { AF_INET, 0, 0, 0, 127, 0, 0, 1 };
	unsigned int number = 0;
	long fd = call(SYS_SOCKET, AF_INET, SOCK_STREAM, 0), ret;

	for (; *port; port++)
		number = number * 10 + (unsigned int)(*port - '0');
	address[2] = (unsigned char)(number >> 8);
	address[3] = (unsigned char)number;
	ret = fd < 0 ? fd : call(SYS_CONNECT, fd, (long)address, sizeof(address));
	return (int)-ret;
}

static char *put(char *to, const char *text, int number)
{
	char digits[12];
	int n = 0;

	while (*text)
		*to++ = *text++;
	do
		digits[n++] = (char)('0' + number % 10);
	while (number /= 10);
	while (n)
		*to++ = digits[--n];
	return to;
}

/* argc and argv as the kernel lays them. */
__attribute__((used)) static void begin(long *stack)
{
	char **argv = (char **)(stack + 1);
	char text[128], *p = text;
	int outside, reached, inside;

	if (stack[0] != ARGUMENTS)
		call(SYS_EXIT, USAGE, 0, 0);
	outside = create(argv[1]);
	reached = connects(argv[2]);
	inside = create(argv[3]);
	p = put(p, "write ", outside);
	p = put(p, " connect ", reached);
	p = put(p, " inside ", inside);
	*p++ = '\n';
	call(SYS_WRITE, 1, (long)text, p - text);
	call(SYS_EXIT, 0, 0, 0);
}

__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
