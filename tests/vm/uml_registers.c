/* Lets User Mode Linux start on processors with more registers than it knows.

   The kernel of this machine takes the extended registers of a traced process as a whole or not at all (PTRACE_SETREGSET
   with NT_X86_XSTATE: EFAULT). Where a processor has AMX they are larger than what UML of Linux 6.1 saves and sets.
   So its part is laid over what is there. Preloaded; UML has one thread. */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char whole[1 << 16] __attribute__((aligned(64))); /* UML's own stacks are too small for it. */

static long set_part(long pid, void *kind, struct iovec *part)
{
	struct iovec all = {whole, sizeof(whole)};

	if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, kind, &all) < 0)
		return -1;
	if (part->iov_len >= all.iov_len) {
		errno = EFAULT;
		return -1;
	}
	memcpy(whole, part->iov_base, part->iov_len);
	return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, kind, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list given;
	long pid, done, word = 0;
	void *address, *data;

	va_start(given, request);
	pid = va_arg(given, pid_t);
	address = va_arg(given, void *);
	data = va_arg(given, void *);
	va_end(given);
	/* As the C library has it: these return what they read (ptrace(2), C library/kernel differences). */
	if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
		done = syscall(SYS_ptrace, request, pid, address, &word);
		if (done < 0)
			return done;
		errno = 0;
		return word;
	}
	done = syscall(SYS_ptrace, request, pid, address, data);
	if (done < 0 && errno == EFAULT && request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE)
		return set_part(pid, address, data);
	return done;
}
