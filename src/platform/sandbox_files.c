/*
 * Landlock, by its system calls: the headers of many systems know less of it than their kernels.
 */
#include "platform/sandbox_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

#define RULES_VERSION 1u /* a flag: asks for the version */
#define RULE_BELOW 1

/* What can be done with files, and from which version on it can be forbidden. */
#define RUN (UINT64_C(1) << 0)
#define WRITE_FILE (UINT64_C(1) << 1)
#define READ_FILE (UINT64_C(1) << 2)
#define READ_FOLDER (UINT64_C(1) << 3)
#define REMOVE_FILE (UINT64_C(1) << 5)
#define MAKE_FILE (UINT64_C(1) << 8)
#define TRUNCATE (UINT64_C(1) << 14)
#define ALL_FIRST ((UINT64_C(1) << 13) - 1)
#define ALL_2 (UINT64_C(1) << 13) /* between folders */
#define ALL_3 TRUNCATE
#define ALL_5 (UINT64_C(1) << 15) /* to speak to devices */
#define NETWORK UINT64_C(3)
#define NETWORK_VERSION 4
/* Sockets with an abstract name, and signals. */
#define OUTSIDE UINT64_C(3)
#define OUTSIDE_VERSION 6

struct rules {
    uint64_t files, network, outside;
};

struct __attribute__((packed)) rule {
    uint64_t allowed;
    int32_t folder;
};

int landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, RULES_VERSION);
    return version > 0 ? (int)version : 0;
}

static uint64_t files_of(int version)
{
    return ALL_FIRST | (version >= 2 ? ALL_2 : 0) | (version >= 3 ? ALL_3 : 0) |
           (version >= 5 ? ALL_5 : 0);
}

/* What is not there needs no rule. */
static bool allow(int rules, const char *path, uint64_t folder_rights, uint64_t file_rights)
{
    struct stat facts;
    int file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT || errno == EACCES || errno == ENOTDIR;
    bool is_allowed = fstat(file, &facts) == 0;
    const struct rule rule = { S_ISDIR(facts.st_mode) ? folder_rights : file_rights, file };
    is_allowed = is_allowed && syscall(SYS_landlock_add_rule, rules, RULE_BELOW, &rule, 0) == 0;
    close(file);
    return is_allowed;
}

bool landlock_close(const char *const *words)
{
    int version = landlock_version();
    if (version == 0)
        return false;
    const uint64_t all = files_of(version);
    const struct rules given = { all, version >= NETWORK_VERSION ? NETWORK : 0,
                                 version >= OUTSIDE_VERSION ? OUTSIDE : 0 };
    size_t size = version >= OUTSIDE_VERSION   ? sizeof given
                  : version >= NETWORK_VERSION ? 2 * sizeof(uint64_t)
                                               : sizeof(uint64_t);
    int rules = (int)syscall(SYS_landlock_create_ruleset, &given, size, 0);
    if (rules < 0)
        return false;
    bool is_closed = true;
    for (size_t i = 0; words && words[i] && is_closed; i++)
        is_closed = i == 0 ? allow(rules, words[i],
                                   (READ_FILE | READ_FOLDER | WRITE_FILE | REMOVE_FILE | MAKE_FILE |
                                    TRUNCATE) &
                                       all,
                                   0)
                           : allow(rules, words[i], RUN | READ_FILE | READ_FOLDER, RUN | READ_FILE);
    /* What is written to nowhere. */
    if (words && is_closed)
        is_closed = allow(rules, "/dev/null", 0, (READ_FILE | WRITE_FILE | TRUNCATE) & all);
    is_closed = is_closed && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    int code = errno;
    close(rules);
    errno = code;
    return is_closed;
}

bool sandbox_drop_rights(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0, 0, 0 } };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_capset, &head, none) == 0;
}
