// SPDX-License-Identifier: Apache-2.0
/*
 * Does one thing by the 32-bit entry of the kernel (int 0x80) and ends with its errno. Built twice: as a 32-bit program, and
 * as a 64-bit one that uses that entry all the same. No C library, which need not exist for 32 bits: all that it needs stands
 * here. Every buffer is static, so that its address fits into 32 bits.
 *
 * usage: compat CALL ARG...     numbers in decimal; texts are copied
 *   open PATH | creat PATH | unlink PATH | mkdir PATH | rename OLD NEW | chmod PATH | truncate PATH | socket FAMILY TYPE |
 *   connect A.B.C.D PORT | sendto A.B.C.D PORT | kill PID | ptrace PID | sethostname NAME | vmsplice FD BYTES
 */
enum {
	TEXT_MAX = 512,
	PAGES_BYTES = 64 * 1024, /* the most that is spliced */
	UNKNOWN = 200,		 /* exit code: no such call here */
	NR_OPEN = 5,
	NR_UNLINK = 10,
	NR_CHMOD = 15,
	NR_PTRACE = 26,
	NR_KILL = 37,
	NR_RENAME = 38,
	NR_MKDIR = 39,
	NR_SETHOSTNAME = 74,
	NR_TRUNCATE = 92,
	NR_SOCKETCALL = 102,
	NR_VMSPLICE = 316,
	CALL_SOCKET = 1,
	CALL_CONNECT = 3,
	CALL_SENDTO = 11,
	PTRACE_ATTACH = 16,
};

typedef unsigned int u32;

static char text[2][TEXT_MAX];
static unsigned char address[16];
static u32 args[6];
static char pages[PAGES_BYTES];

static int call(u32 nr, u32 a, u32 b, u32 c)
{
	int ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(0), "D"(0)
			 : "memory"
#ifdef __x86_64__
			   ,
			   "r8", "r9", "r10", "r11"
#endif
	);
	return ret;
}

static u32 low(const void *p)
{
	return (u32)(unsigned long)p;
}

static int same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static u32 number(const char **p)
{
	u32 n = 0;

	while (**p >= '0' && **p <= '9')
		n = n * 10 + (u32)(*(*p)++ - '0');
	return n;
}

static u32 copy(int i, const char *from)
{
	int n = 0;

	while (from[n] && n < TEXT_MAX - 1)
		text[i][n] = from[n], n++;
	text[i][n] = 0;
	return low(text[i]);
}

static int socketcall(u32 nr, u32 a, u32 b, u32 c)
{
	args[0] = a, args[1] = b, args[2] = c;
	return call(NR_SOCKETCALL, nr, low(args), 0);
}

/* Family 2, port and address, both in network order. */
static void fill_address(const char *dotted, const char *port)
{
	u32 n = number(&port);

	address[0] = 2;
	address[2] = (unsigned char)(n >> 8);
	address[3] = (unsigned char)n;
	for (int i = 4; i < 8; i++) {
		address[i] = (unsigned char)number(&dotted);
		dotted += *dotted == '.';
	}
}

static int reach(const char *dotted, const char *port, int send)
{
	int fd = socketcall(CALL_SOCKET, 2, send ? 2 : 1, 0);

	if (fd < 0)
		return fd;
	fill_address(dotted, port);
	if (!send)
		return socketcall(CALL_CONNECT, (u32)fd, low(address), sizeof(address));
	args[3] = 0, args[4] = low(address), args[5] = sizeof(address);
	text[0][0] = 'x';
	return socketcall(CALL_SENDTO, (u32)fd, low(text[0]), 1);
}

static int vmsplice(u32 fd, u32 bytes)
{
	if (bytes > PAGES_BYTES)
		return -UNKNOWN;
	args[0] = low(pages), args[1] = bytes; /* an iovec of 32 bits */
	return call(NR_VMSPLICE, fd, low(args), 1);
}

static int run(const char *what, const char *a, const char *b)
{
	const char *n = a;

	if (same(what, "open"))
		return call(NR_OPEN, copy(0, a), 1, 0);
	if (same(what, "creat"))
		return call(NR_OPEN, copy(0, a), 0101, 0600);
	if (same(what, "unlink"))
		return call(NR_UNLINK, copy(0, a), 0, 0);
	if (same(what, "mkdir"))
		return call(NR_MKDIR, copy(0, a), 0700, 0);
	if (same(what, "chmod"))
		return call(NR_CHMOD, copy(0, a), 0600, 0);
	if (same(what, "truncate"))
		return call(NR_TRUNCATE, copy(0, a), 0, 0);
	if (same(what, "kill"))
		return call(NR_KILL, number(&n), 15, 0);
	if (same(what, "ptrace"))
		return call(NR_PTRACE, PTRACE_ATTACH, number(&n), 0);
	if (same(what, "sethostname"))
		return call(NR_SETHOSTNAME, copy(0, a), 4, 0);
	if (!b)
		return -UNKNOWN;
	if (same(what, "rename"))
		return call(NR_RENAME, copy(0, a), copy(1, b), 0);
	if (same(what, "socket"))
		return socketcall(CALL_SOCKET, number(&n), number(&b), 0);
	if (same(what, "vmsplice"))
		return vmsplice(number(&n), number(&b));
	if (same(what, "connect") || same(what, "sendto"))
		return reach(a, b, what[0] == 's');
	return -UNKNOWN;
}

/* The stack as exec leaves it: argc, then argv. */
_Noreturn void begin(unsigned long *stack);
__attribute__((used)) _Noreturn void begin(unsigned long *stack)
{
	const char **argv = (const char **)(stack + 1);
	int ret = stack[0] < 3 ? -UNKNOWN : run(argv[1], argv[2], stack[0] > 3 ? argv[3] : 0);

	for (;;)
		call(1, ret < 0 ? (u32)-ret : 0, 0, 0);
}

#ifdef __x86_64__
__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n");
#else
__asm__(".globl _start\n_start:\n\tmov %esp, %eax\n\tand $-16, %esp\n\tsub $12, %esp\n\tpush "
	"%eax\n\tcall begin\n");
#endif
