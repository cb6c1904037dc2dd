/* A double of liblustreapi for readers of changelogs: the calls of lustreapi.h (Lustre 2.17). CHANGELOG_DOUBLE
 * names a directory: MDT.log has records, each after its size (4 bytes), as llapi_changelog_recv gives them out;
 * MDT.users has lines "clN INDEX" and MDT.index the last index; fids/FID has the names of a file, each ended by
 * NUL. It is its own reading of the documented layouts, and counts what was not given back. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0xCA8E1080
#define KNOWN_FLAGS 0x0f

struct fid { uint64_t seq; uint32_t oid; uint32_t ver; };
struct reader { uint32_t magic; FILE *log; };
static int left;

/* A metadata server that does not answer: the client asks for ever. */
static void hang_at(const char *call)
{
	const char *hangs = getenv("CHANGELOG_DOUBLE_HANGS");
	const char *asked = getenv("CHANGELOG_DOUBLE_ASKED");
	while (hangs && !strcmp(hangs, call)) {
		if (asked)
			close(open(asked, O_CREAT | O_WRONLY, 0600));
		sleep(600);
	}
}

int double_left(void)
{
	return left;
}

static FILE *opened(const char *name, const char *ending)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/%s%s", getenv("CHANGELOG_DOUBLE"), name, ending);
	return fopen(path, "rb");
}

int llapi_changelog_start(void **out, int flags, const char *mdt, long long first)
{
	/* Without these two the real library warns on stderr; the third of them it does not know. */
	if (!out || !mdt || (flags & ~KNOWN_FLAGS) || (flags & 0x0c) != 0x0c || first < 0)
		return -EINVAL;
	FILE *log = opened(mdt, ".log");
	if (!log)
		return -errno;
	struct reader *reader = calloc(1, sizeof(*reader));
	reader->magic = MAGIC;
	reader->log = log;
	left++;
	*out = reader;
	return 0;
}

int llapi_changelog_fini(void **out)
{
	struct reader *reader = out ? *out : NULL;
	if (!reader || reader->magic != MAGIC)
		return -EINVAL;
	fclose(reader->log);
	reader->magic = 0;
	free(reader);
	*out = NULL;
	left--;
	return 0;
}

int llapi_changelog_recv(void *handle, void **record)
{
	struct reader *reader = handle;
	uint32_t size;
	if (!reader || reader->magic != MAGIC || !record)
		return -EINVAL;
	hang_at("records");
	*record = NULL;
	if (fread(&size, sizeof(size), 1, reader->log) != 1)
		return 1;
	/* No byte beyond the record is the reader's. */
	*record = malloc(size);
	left++;
	return fread(*record, size, 1, reader->log) == 1 ? 0 : -EIO;
}

int llapi_changelog_free(void **record)
{
	if (*record)
		left--;
	free(*record);
	*record = NULL;
	return 0;
}

int llapi_changelog_clear(const char *mdt, const char *user, long long last)
{
	long long index = 0, place;
	char name[100], text[5000] = "", line[200];
	int found = 0;
	hang_at("clear");
	if (last <= 0)
		return -EINVAL;
	FILE *file = opened(mdt, ".index");
	if (!file)
		return -ENOENT;
	if (fscanf(file, "%lld", &index) != 1)
		index = 0;
	fclose(file);
	if (last > index)
		return -EINVAL;
	file = opened(mdt, ".users");
	while (file && fscanf(file, "%90s %lld", name, &place) == 2) {
		if (!strcmp(name, user)) {
			found = 1;
			if (place > last) {
				fclose(file);
				return -EINVAL;
			}
			place = last;
		}
		snprintf(line, sizeof(line), "%s %lld\n", name, place);
		strcat(text, line);
	}
	if (file)
		fclose(file);
	if (!found)
		return -ENOENT;
	char path[4200];
	snprintf(path, sizeof(path), "%s/%s.users", getenv("CHANGELOG_DOUBLE"), mdt);
	file = fopen(path, "wb");
	fputs(text, file);
	fclose(file);
	return 0;
}

/* Without room for UUIDs it counts MDTs; llapi_get_obd_count of the real library gives the size of a table, 64. */
int llapi_lmv_get_uuids(int root, void *uuids, int *count)
{
	char pattern[4200];
	struct stat status;
	glob_t found;
	if (fstat(root, &status))
		return -errno;
	if (!S_ISDIR(status.st_mode) || uuids || !count)
		return -EINVAL;
	snprintf(pattern, sizeof(pattern), "%s/*.log", getenv("CHANGELOG_DOUBLE"));
	*count = glob(pattern, 0, NULL, &found) ? 0 : (int)found.gl_pathc;
	globfree(&found);
	return 0;
}

int llapi_path2fid(const char *path, struct fid *fid)
{
	struct stat status;
	if (!path || !fid)
		return -EINVAL;
	if (lstat(path, &status))
		return -errno;
	*fid = (struct fid){ status.st_ino, 7, 0 };
	return 0;
}

int llapi_fid2path(const char *device, const char *name, char *path, int length, long long *record, int *link)
{
	char names[20000], file[200];
	if (!device || device[0] != '/' || !name || !path || !record || !link || *record != -1 || *link < 0)
		return -EINVAL;
	hang_at("paths");
	snprintf(file, sizeof(file), "fids/%s", name);
	FILE *list = opened(file, "");
	if (!list)
		return -ENOENT;
	size_t size = fread(names, 1, sizeof(names), list), start = 0;
	int number = 0, wanted = *link;
	fclose(list);
	for (size_t place = 0; place < size; place++) {
		if (names[place])
			continue;
		if (number == wanted) {
			if ((int)(place - start + 1) > length)
				return -EOVERFLOW;
			memcpy(path, names + start, place - start + 1);
			/* The number of the next name, or the same one where there is none. */
			*link = place + 1 < size ? wanted + 1 : wanted;
			return 0;
		}
		number++;
		start = place + 1;
	}
	return -ENOENT;
}

/* Messages of the real one go to stderr up to this level; this one has none. */
void llapi_msg_set_level(int level)
{
	(void)level;
}
