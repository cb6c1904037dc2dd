/* A double of liblustreapi for copytools: the calls of lustreapi.h (Lustre 2.17), each handed to a
 * coordinator that the test runs, over the socket that HSM_DOUBLE names. It is its own reading of the
 * documented layouts, and refuses what the real library would refuse or be broken by. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define TOOL_MAGIC 0x70014001
#define ACTION_MAGIC 0x70014002
#define LONGEST 65536

struct fid { uint64_t seq; uint32_t oid; uint32_t ver; };
struct extent { uint64_t offset; uint64_t length; } __attribute__((packed));
struct item {
	uint32_t len, action;
	struct fid fid, dfid;
	struct extent extent;
	uint64_t cookie, gid;
	char data[];
} __attribute__((packed));
struct hsm_copytool_private { uint32_t magic; int events; char id[64]; char *list; };
struct hsm_copyaction_private { uint32_t magic; int data; char id[64]; struct item item; };

static int joined(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *path = getenv("HSM_DOUBLE");
	if (!path)
		return -ENODEV;
	strncpy(to.sun_path, path, sizeof(to.sun_path) - 1);
	int end = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (end < 0 || connect(end, (struct sockaddr *)&to, sizeof(to)) < 0) {
		int error = errno;
		if (end >= 0)
			close(end);
		return -error;
	}
	return end;
}

/* Say something with a descriptor (or -1); the answer is "CODE REST", with a descriptor or without. */
static int said(int end, const char *text, int give, char *rest, size_t size, int *got)
{
	char answer[5000] = "", room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec out = { (void *)text, strlen(text) }, in = { answer, sizeof(answer) - 1 };
	struct msghdr message = { .msg_iov = &out, .msg_iovlen = 1 };
	if (give >= 0) {
		message.msg_control = room;
		message.msg_controllen = sizeof(room);
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &give, sizeof(int));
	}
	if (sendmsg(end, &message, MSG_NOSIGNAL) < 0)
		return -EIO;
	struct msghdr reply = { .msg_iov = &in, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	ssize_t length = recvmsg(end, &reply, MSG_CMSG_CLOEXEC);
	if (length <= 0)
		return -EIO;
	struct cmsghdr *head = CMSG_FIRSTHDR(&reply);
	if (head && got)
		memcpy(got, CMSG_DATA(head), sizeof(int));
	int code = 0, place = 0;
	sscanf(answer, "%d %n", &code, &place);
	if (rest)
		snprintf(rest, size, "%s", answer + place);
	return code;
}

static int asked(const char *text, int give, char *rest, size_t size, int *got)
{
	int end = joined();
	if (end < 0)
		return end;
	int code = said(end, text, give, rest, size, got);
	close(end);
	return code;
}

/* Two processes of a node are one client. */
static const char *client(void)
{
	const char *name = getenv("HSM_DOUBLE_CLIENT");
	return name ? name : "client";
}

int llapi_getname(const char *path, char *name, size_t size)
{
	if (!path || !name || snprintf(name, size, "FS-%s", client()) >= (int)size)
		return -EINVAL;
	return 0;
}

int llapi_hsm_copytool_register(struct hsm_copytool_private **out, const char *mnt, int count, int *archives, int flags)
{
	char text[5000];
	if (!out || !mnt || count < 0 || (count && !archives) || (flags & ~O_NONBLOCK))
		return -EINVAL;
	int place = snprintf(text, sizeof(text), "register %s %s %d", client(), mnt, flags);
	for (int each = 0; each < count; each++)
		place += snprintf(text + place, sizeof(text) - place, " %d", archives[each]);
	struct hsm_copytool_private *tool = calloc(1, sizeof(*tool));
	tool->events = joined();
	if (tool->events < 0) {
		int error = tool->events;
		free(tool);
		return error;
	}
	int code = said(tool->events, text, -1, tool->id, sizeof(tool->id), NULL);
	if (code < 0) {
		close(tool->events);
		free(tool);
		return code;
	}
	tool->magic = TOOL_MAGIC;
	*out = tool;
	return 0;
}

int llapi_hsm_copytool_unregister(struct hsm_copytool_private **out)
{
	if (!out || !*out || (*out)->magic != TOOL_MAGIC)
		return -EINVAL;
	char text[200];
	snprintf(text, sizeof(text), "unregister %s", (*out)->id);
	asked(text, -1, NULL, 0, NULL);
	close((*out)->events);
	(*out)->magic = 0;
	free((*out)->list);
	free(*out);
	*out = NULL;
	return 0;
}

int llapi_hsm_copytool_get_fd(struct hsm_copytool_private *tool)
{
	return tool && tool->magic == TOOL_MAGIC ? tool->events : -EINVAL;
}

int llapi_hsm_copytool_recv(struct hsm_copytool_private *tool, void **list, int *size)
{
	if (!tool || tool->magic != TOOL_MAGIC || !list || !size)
		return -EINVAL;
	/* The list before is not valid any more: whoever still reads it reads this. */
	if (tool->list)
		memset(tool->list, 0xa5, LONGEST);
	else
		tool->list = malloc(LONGEST);
	ssize_t length = recv(tool->events, tool->list, LONGEST, MSG_DONTWAIT);
	*list = NULL;
	*size = 0;
	if (length < 0)
		return -errno;
	if (length == 0)
		return -ESHUTDOWN;
	/* Another copytool of this client has left: seen of 2.17. */
	if (length == 1)
		return -EPROTO;
	*list = tool->list;
	*size = (int)length;
	return 0;
}

int llapi_hsm_action_begin(struct hsm_copyaction_private **out, const struct hsm_copytool_private *tool,
			   const struct item *item, int mdt, int flags, bool is_error)
{
	if (!out || !tool || tool->magic != TOOL_MAGIC || !item || item->len < sizeof(*item) || mdt < -1)
		return -EINVAL;
	/* O_LOV_DELAY_CREATE alone, of what is restored. */
	if (flags && (item->action != 21 || flags != (O_NOCTTY | O_ASYNC)))
		return -EINVAL;
	struct hsm_copyaction_private *action = calloc(1, sizeof(*action));
	char text[400];
	action->data = -1;
	action->item = *item;
	strcpy(action->id, tool->id);
	snprintf(text, sizeof(text), "begin %s %lu %u 0x%lx:0x%x:0x%x %d", tool->id, item->cookie, item->action,
		 item->fid.seq, item->fid.oid, item->fid.ver, is_error);
	int code = asked(text, -1, NULL, 0, &action->data);
	if (code < 0) {
		free(action);
		return code;
	}
	action->magic = ACTION_MAGIC;
	*out = action;
	return 0;
}

int llapi_hsm_action_get_fd(const struct hsm_copyaction_private *action)
{
	if (!action || action->magic != ACTION_MAGIC || action->data < 0)
		return -EINVAL;
	return fcntl(action->data, F_DUPFD_CLOEXEC, 0);
}

/* struct hsm_progress, which LL_IOC_HSM_PROGRESS takes of any directory of the mount. */
struct progress { struct fid fid; uint64_t cookie; struct extent extent; uint16_t flags, error; uint32_t padding; };

int ioctl(int file, unsigned long request, ...)
{
	va_list rest;
	va_start(rest, request);
	void *given = va_arg(rest, void *);
	va_end(rest);
	if (request != (1UL << 30 | 24UL << 16 | 'f' << 8 | 216))
		return (int)syscall(SYS_ioctl, file, request, given);
	const struct progress *told = given;
	struct stat status;
	char text[400];
	int code = -EINVAL;
	snprintf(text, sizeof(text), "progress 0x%lx:0x%x:0x%x %lu %lu %lu %d %d", told->fid.seq, told->fid.oid,
		 told->fid.ver, told->cookie, told->extent.offset, told->extent.length, told->flags, told->error);
	if (!fstat(file, &status) && S_ISDIR(status.st_mode))
		code = asked(text, -1, NULL, 0, NULL);
	errno = -code;
	return code < 0 ? -1 : 0;
}

int llapi_hsm_action_end(struct hsm_copyaction_private **out, const struct extent *extent, int flags, int error)
{
	char text[400];
	if (!out || !*out || (*out)->magic != ACTION_MAGIC || !extent || error < 0)
		return -EINVAL;
	struct hsm_copyaction_private *action = *out;
	snprintf(text, sizeof(text), "end %s %lu %lu %lu %d %d", action->id, action->item.cookie, extent->offset,
		 extent->length, flags, error);
	int code = asked(text, -1, NULL, 0, NULL);
	if (action->data >= 0)
		close(action->data);
	action->magic = 0;
	free(action);
	*out = NULL;
	return code;
}

int llapi_hsm_import(const char *path, int archive, const struct stat *st, unsigned long long stripe_size,
		     int offset, int count, int pattern, char *pool, struct fid *fid)
{
	char text[600], answer[100] = "";
	if (!path || !st || !fid || !S_ISREG(st->st_mode) || archive < 1 || offset < -1 || count < -1 || pattern < 0)
		return -EINVAL;
	int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, st->st_mode & 07777);
	if (file < 0)
		return -errno;
	snprintf(text, sizeof(text), "import %d %u %u %u %ld %ld %ld %ld %ld %llu %s", archive, st->st_mode, st->st_uid,
		 st->st_gid, st->st_size, st->st_atim.tv_sec, st->st_atim.tv_nsec, st->st_mtim.tv_sec,
		 st->st_mtim.tv_nsec, stripe_size, pool ? pool : "-");
	int code = asked(text, file, answer, sizeof(answer), NULL);
	close(file);
	if (code < 0)
		unlink(path);
	else if (sscanf(answer, "%lx:%x:%x", &fid->seq, &fid->oid, &fid->ver) != 3)
		return -EPROTO;
	return code;
}

int llapi_hsm_state_set_fd(int file, uint64_t set, uint64_t clear, uint32_t archive)
{
	struct stat status;
	char text[100];
	if (fstat(file, &status))
		return -errno;
	if (!S_ISREG(status.st_mode) || ((set | clear) & ~0xffUL) || archive > 32)
		return -EINVAL;
	snprintf(text, sizeof(text), "mark %lu %lu", set, clear);
	return asked(text, file, NULL, 0, NULL);
}

int llapi_hsm_state_get_fd(int file, uint32_t *state)
{
	char answer[100] = "";
	int code = asked("marked", file, answer, sizeof(answer), NULL);
	state[1] = 0;
	return code < 0 ? code : sscanf(answer, "%u", state) == 1 ? 0 : -EPROTO;
}

int llapi_create_volatile_idx(const char *directory, int mdt, int flags)
{
	int file = directory && mdt == -1 ? open(directory, O_TMPFILE | O_CLOEXEC | flags, 0600) : -1;
	return file < 0 ? -errno : file;
}

int llapi_fd2fid(int file, struct fid *fid)
{
	char answer[100] = "";
	int code = asked("fd2fid", file, answer, sizeof(answer), NULL);
	return code < 0 ? code : sscanf(answer, "%lx:%x:%x", &fid->seq, &fid->oid, &fid->ver) == 3 ? 0 : -EPROTO;
}

struct request {
	uint32_t action, archive;
	uint64_t flags;
	uint32_t count, size;
	struct fid fid;
	struct extent extent;
} __attribute__((packed));

/* HUA_ARCHIVE, HUA_RESTORE and HUA_REMOVE of one file; releases are seen on a real Lustre alone (tests/lustre). */
int llapi_hsm_request(const char *path, const struct request *asking)
{
	char text[400];
	if (!path || !asking || asking->action < 10 || asking->action > 13 || asking->action == 12 ||
	    asking->count != 1 || asking->archive < 1)
		return -EINVAL;
	snprintf(text, sizeof(text), "ask %u %u 0x%lx:0x%x:0x%x", asking->action, asking->archive, asking->fid.seq,
		 asking->fid.oid, asking->fid.ver);
	return asked(text, -1, NULL, 0, NULL);
}

int llapi_fid2path(const char *device, const char *fid, char *path, int length, long long *record, int *link)
{
	char text[400];
	if (!device || !fid || !path || !record || !link || strlen(fid) > 60)
		return -EINVAL;
	snprintf(text, sizeof(text), "fid2path %s", fid);
	return asked(text, -1, path, length, NULL);
}

/* Messages of the real one go to stderr up to this level; this one has none. */
void llapi_msg_set_level(int level)
{
	(void)level;
}
