#include "platform/installed.h"

#include "harness.h"
#include "platform/child.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define NAME_BYTES 64

/* A file of this process's own in the folder of this program. */
static void make(const char *name, mode_t mode, char path[PATH_BYTES])
{
    char here[PATH_BYTES];
    CHECK(platform_program_path(here, sizeof here));
    *strrchr(here, '/') = 0;
    CHECK(snprintf(path, PATH_BYTES, "%.3900s/%s", here, name) < PATH_BYTES);
    int descriptor = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    CHECK(descriptor >= 0);
    close(descriptor);
}

static void name_it(const char *kind, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "installed-%s-%d", kind, (int)getpid());
}

static void a_file_beside_the_program_is_found(void)
{
    char name[NAME_BYTES], path[PATH_BYTES], found[PATH_BYTES], small[PATH_BYTES];
    name_it("file", name);
    CHECK(!platform_installed_find(name, false, found, sizeof found));
    make(name, 0600, path);
    bool is_found = platform_installed_find(name, false, found, sizeof found);
    bool fits = platform_installed_find(name, false, small, strlen(path));
    unlink(path);
    CHECK(is_found);
    CHECK(strcmp(found, path) == 0);
    CHECK(!fits);
}

static void a_program_must_be_one(void)
{
    char name[NAME_BYTES], path[PATH_BYTES], found[PATH_BYTES];
    name_it("program", name);
    make(name, 0600, path);
    bool is_file = platform_installed_find(name, true, found, sizeof found);
    chmod(path, 0700);
    bool is_program = platform_installed_find(name, true, found, sizeof found);
    unlink(path);
    CHECK(!is_file);
    CHECK(is_program);
    CHECK(strcmp(found, path) == 0);
}

static void the_working_folder_is_not_looked_at(void)
{
    char name[NAME_BYTES], found[PATH_BYTES], folder[] = "/tmp/installed-XXXXXX";
    name_it("here", name);
    CHECK(mkdtemp(folder) != NULL);
    CHECK(chdir(folder) == 0);
    int descriptor = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0700);
    bool is_found = platform_installed_find(name, true, found, sizeof found);
    close(descriptor);
    unlink(name);
    rmdir(folder);
    CHECK(descriptor >= 0);
    CHECK(!is_found);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_file_beside_the_program_is_found),
        TEST(a_program_must_be_one),
        TEST(the_working_folder_is_not_looked_at),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
