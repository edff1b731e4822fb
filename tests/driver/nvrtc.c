/*
 * The tests' libnvrtc.so.13: compiles CUDA C++ for the host with g++, into the images of image.h.
 *
 * What was compiled before is found again by its content in a folder of the build tree. TEST_NVRTC=fail
 * makes it a library that compiles nothing.
 */
#include "image.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define API(name, ...)                                                                             \
    EXPORT int name(__VA_ARGS__);                                                                  \
    EXPORT int name(__VA_ARGS__)

/* PTX of CUDA 13.0. */
#define PTX_VERSION 90
#define PATH_LENGTH 1024
#define OPTIONS_MAX 32

enum {
    NVRTC_SUCCESS = 0,
    NVRTC_ERROR_OUT_OF_MEMORY = 1,
    NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    NVRTC_ERROR_INVALID_INPUT = 3,
    NVRTC_ERROR_INVALID_PROGRAM = 4,
    NVRTC_ERROR_INVALID_OPTION = 5,
    NVRTC_ERROR_COMPILATION = 6,
    NVRTC_ERROR_INTERNAL_ERROR = 11
};

extern char **environ;

/* Bytes that grow; owns them. */
struct text {
    char *bytes;
    size_t count;
};

#define HEADERS_MAX 8

struct header {
    char name[64];
    struct text text;
};

struct _nvrtcProgram {
    struct text source, log, image, ptx;
    struct header headers[HEADERS_MAX];
    int header_count;
    char name[256];
    bool is_for_a_device; /* an architecture was named, so there is a cubin */
};

static bool append(struct text *text, const void *bytes, size_t count)
{
    char *grown = realloc(text->bytes, text->count + count + 1);
    if (!grown)
        return false;
    memcpy(grown + text->count, bytes, count);
    text->bytes = grown;
    text->count += count;
    grown[text->count] = 0;
    return true;
}

static bool append_text(struct text *text, const char *more)
{
    return append(text, more, strlen(more));
}

static void clear(struct text *text)
{
    free(text->bytes);
    *text = (struct text){ 0 };
}

static bool read_file(const char *path, struct text *out)
{
    char buffer[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    size_t got;
    bool is_good = true;
    while (is_good && (got = fread(buffer, 1, sizeof buffer, file)) > 0)
        is_good = append(out, buffer, got);
    fclose(file);
    return is_good;
}

static bool write_file(const char *path, const struct text *text)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool is_good = fwrite(text->bytes, 1, text->count, file) == text->count;
    return fclose(file) == 0 && is_good;
}

/* --- which kernels a source has ---------------------------------------------------------------- */

/* The next word `__global__` that is code, from `at`; NULL: none. */
static const char *next_global(const char *at)
{
    while (*at) {
        if (strncmp(at, "//", 2) == 0) {
            while (*at && *at != '\n')
                at++;
        } else if (strncmp(at, "/*", 2) == 0) {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else if (strncmp(at, "__global__", 10) == 0) {
            return at;
        } else {
            at++;
        }
    }
    return NULL;
}

/* Names with C linkage keep their name; others get one that nobody here knows. */
static bool has_c_linkage(const char *source, const char *global)
{
    const char *begin = global;
    while (begin > source && !strchr(";}", begin[-1]))
        begin--;
    for (const char *at = begin; at + 10 <= global; at++)
        if (strncmp(at, "extern \"C\"", 10) == 0)
            return true;
    return false;
}

/* The last word before the parenthesis that begins the parameters. */
static bool name_of(const char *global, char *name, size_t room)
{
    const char *at = strstr(global, "void");
    const char *end = at ? strchr(at, '(') : NULL;
    if (end && strstr(at, "__launch_bounds__") && strstr(at, "__launch_bounds__") < end) {
        at = strchr(end, ')');
        end = at ? strchr(at, '(') : NULL;
    }
    if (!end)
        return false;
    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    const char *begin = end;
    while (begin > at && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_'))
        begin--;
    if (begin == end || (size_t)(end - begin) >= room)
        return false;
    memcpy(name, begin, (size_t)(end - begin));
    name[end - begin] = 0;
    return true;
}

/* --- the compiler ------------------------------------------------------------------------------ */

static uint64_t digest(const struct text *text, uint64_t seed)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ seed;
    for (size_t i = 0; i < text->count; i++)
        hash = (hash ^ (unsigned char)text->bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Runs g++ with these arguments after those that are always the same; its exit status, or -1. */
static int run_compiler(char *const *first, char *const *defines, const char *log)
{
    char *arguments[OPTIONS_MAX + 40] = { "g++", "-w", "-x", "c++", "-std=gnu++17" };
    int count = 5;
    for (; *first; first++)
        arguments[count++] = *first;
    for (; *defines; defines++)
        arguments[count++] = *defines;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child;
    int status = 0, error = posix_spawnp(&child, "g++", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Where one compilation happens. */
struct place {
    char folder[PATH_LENGTH + 16], include[PATH_LENGTH + 24];
    char source[PATH_LENGTH + 32], text[PATH_LENGTH + 32], image[PATH_LENGTH + 32],
        log[PATH_LENGTH + 32];
};

static bool write_source(const struct place *place, const struct _nvrtcProgram *program,
                         const struct text *thunks)
{
    char line[PATH_LENGTH];
    struct text all = { 0 };
    snprintf(line, sizeof line, "#include \"%s\"\n#line 1 \"%s\"\n", SHIM, program->name);
    bool is_good = append_text(&all, line) &&
                   append(&all, program->source.bytes, program->source.count) &&
                   append_text(&all, "\n#line 1 \"thunks\"\n") &&
                   append(&all, thunks->bytes ? thunks->bytes : "", thunks->count) &&
                   write_file(place->source, &all);
    clear(&all);
    return is_good;
}

/* Kernels are looked for in what the preprocessor leaves: macros may make them. */
static int find_kernels(const struct place *place, char *const *defines, struct text *thunks)
{
    char *const arguments[] = { "-E",
                                "-P",
                                "-DTEST_KEEP_GLOBAL",
                                (char *)place->include,
                                (char *)place->source,
                                "-o",
                                (char *)place->text,
                                NULL };
    struct text text = { 0 };
    char name[256], line[300];
    int status = run_compiler(arguments, defines, place->log);
    if (status == 0 && !read_file(place->text, &text))
        status = -1;
    for (const char *at = text.bytes; status == 0 && at && (at = next_global(at)) != NULL; at++)
        if (has_c_linkage(text.bytes, at) && name_of(at, name, sizeof name)) {
            snprintf(line, sizeof line, "TEST_KERNEL(%s)\n", name);
            status = append_text(thunks, line) ? 0 : -1;
        }
    clear(&text);
    return status;
}

static int compile(const struct place *place, char *const *defines)
{
    char flags[256] = FLAGS, *rest = NULL;
    char *arguments[32] = { "-shared",
                            "-fPIC",
                            "-O1",
                            "-fvisibility=hidden",
                            "-ffp-contract=off",
                            (char *)place->include,
                            (char *)place->source,
                            "-o",
                            (char *)place->image };
    int count = 9;
    for (char *flag = strtok_r(flags, " ", &rest); flag; flag = strtok_r(NULL, " ", &rest))
        arguments[count++] = flag;
    return run_compiler(arguments, defines, place->log);
}

static bool write_headers(const struct _nvrtcProgram *program, const char *folder)
{
    char path[PATH_LENGTH + 128];
    bool is_good = true;
    for (int i = 0; i < program->header_count && is_good; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, program->headers[i].name);
        is_good = write_file(path, &program->headers[i].text);
    }
    return is_good;
}

static void remove_headers(const struct _nvrtcProgram *program, const char *folder)
{
    char path[PATH_LENGTH + 128];
    for (int i = 0; i < program->header_count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, program->headers[i].name);
        unlink(path);
    }
}

static int compile_at(const struct place *place, struct _nvrtcProgram *program,
                      char *const *defines)
{
    struct text thunks = { 0 };
    int status = -1;
    if (write_headers(program, place->folder) && write_source(place, program, &thunks))
        status = find_kernels(place, defines, &thunks);
    if (status == 0)
        status = write_source(place, program, &thunks) ? compile(place, defines) : -1;
    clear(&thunks);
    return status;
}

/* In files beside the one in the cache, which appears whole or not at all. */
static int compile_into(struct _nvrtcProgram *program, const char *path, char *const *defines)
{
    struct place place;
    snprintf(place.folder, sizeof place.folder, "%s.XXXXXX", path);
    if (!mkdtemp(place.folder))
        return NVRTC_ERROR_INTERNAL_ERROR;
    snprintf(place.include, sizeof place.include, "-I%s", place.folder);
    snprintf(place.source, sizeof place.source, "%s/kernel.cpp", place.folder);
    snprintf(place.text, sizeof place.text, "%s/kernel.i", place.folder);
    snprintf(place.image, sizeof place.image, "%s/kernel.so", place.folder);
    snprintf(place.log, sizeof place.log, "%s/log", place.folder);
    int status = compile_at(&place, program, defines);
    read_file(place.log, &program->log);
    int result = status == 0  ? NVRTC_SUCCESS
                 : status > 0 ? NVRTC_ERROR_COMPILATION
                              : NVRTC_ERROR_INTERNAL_ERROR;
    if (status == 0 && (!read_file(place.image, &program->image) || rename(place.image, path) != 0))
        result = NVRTC_ERROR_INTERNAL_ERROR;
    unlink(place.source);
    unlink(place.text);
    unlink(place.image);
    unlink(place.log);
    remove_headers(program, place.folder);
    rmdir(place.folder);
    return result;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What real ones understand of what a caller may give; definitions are passed on. */
static bool take_option(struct _nvrtcProgram *program, const char *option, char **defines,
                        int *count)
{
    static const char *const known[] = { "--std=",
                                         "-std=",
                                         "--fmad=",
                                         "-fmad=",
                                         "-default-device",
                                         "--device-as-default-execution-space",
                                         "-lineinfo",
                                         "--generate-line-info",
                                         "-dopt=",
                                         "--extra-device-vectorization",
                                         "-w",
                                         "--disable-warnings",
                                         "--define-macro=" };
    if (begins(option, "--gpu-architecture=") || begins(option, "-arch=")) {
        const char *name = strchr(option, '=') + 1;
        program->is_for_a_device = begins(name, "sm_");
        return program->is_for_a_device || begins(name, "compute_");
    }
    if (begins(option, "-D") && *count < OPTIONS_MAX) {
        defines[(*count)++] = (char *)option;
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(option, known[i]))
            return true;
    return false;
}

static int build(struct _nvrtcProgram *program, char *const *defines)
{
    char path[PATH_LENGTH];
    struct text key = { 0 };
    bool is_good = append(&key, program->source.bytes, program->source.count) &&
                   append_text(&key, FLAGS) && read_file(SHIM, &key);
    for (int i = 0; i < program->header_count && is_good; i++)
        is_good = append(&key, program->headers[i].text.bytes, program->headers[i].text.count);
    for (char *const *define = defines; *define && is_good; define++)
        is_good = append_text(&key, *define);
    snprintf(path, sizeof path, "%s/%016llx%016llx", CACHE, (unsigned long long)digest(&key, 0),
             (unsigned long long)digest(&key, 1));
    clear(&key);
    if (!is_good)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    mkdir(CACHE, 0755);
    return read_file(path, &program->image) ? NVRTC_SUCCESS : compile_into(program, path, defines);
}

/* --- the interface ----------------------------------------------------------------------------- */

API(nvrtcVersion, int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

EXPORT const char *nvrtcGetErrorString(int result);
EXPORT const char *nvrtcGetErrorString(int result)
{
    switch (result) {
    case NVRTC_SUCCESS:
        return "NVRTC_SUCCESS";
    case NVRTC_ERROR_INVALID_OPTION:
        return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    default:
        return "NVRTC_ERROR_INTERNAL_ERROR";
    }
}

API(nvrtcGetNumSupportedArchs, int *count)
{
    *count = 2;
    return NVRTC_SUCCESS;
}

API(nvrtcGetSupportedArchs, int *archs)
{
    archs[0] = 80;
    archs[1] = 90;
    return NVRTC_SUCCESS;
}

static void delete_program(struct _nvrtcProgram *program)
{
    for (int i = 0; i < program->header_count; i++)
        clear(&program->headers[i].text);
    clear(&program->source);
    clear(&program->log);
    clear(&program->image);
    clear(&program->ptx);
    free(program);
}

API(nvrtcCreateProgram, struct _nvrtcProgram **out, const char *source, const char *name,
    int header_count, const char *const *headers, const char *const *names)
{
    if (!out || !source || header_count < 0 || header_count > HEADERS_MAX)
        return NVRTC_ERROR_INVALID_INPUT;
    struct _nvrtcProgram *program = calloc(1, sizeof *program);
    bool is_good = program && append_text(&program->source, source);
    for (int i = 0; i < header_count && is_good; i++) {
        struct header *header = &program->headers[program->header_count++];
        snprintf(header->name, sizeof header->name, "%s", names[i]);
        is_good = append_text(&header->text, headers[i]);
    }
    if (!is_good) {
        if (program)
            delete_program(program);
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    snprintf(program->name, sizeof program->name, "%s", name ? name : "default_program");
    *out = program;
    return NVRTC_SUCCESS;
}

API(nvrtcDestroyProgram, struct _nvrtcProgram **program)
{
    if (!program || !*program)
        return NVRTC_ERROR_INVALID_PROGRAM;
    delete_program(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

API(nvrtcCompileProgram, struct _nvrtcProgram *program, int count, const char *const *options)
{
    char *defines[OPTIONS_MAX + 1] = { NULL }, mark[64];
    int define_count = 0;
    const char *mode = getenv("TEST_NVRTC");
    if (!program)
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (mode && strcmp(mode, "fail") == 0)
        return NVRTC_ERROR_INTERNAL_ERROR;
    for (int i = 0; i < count; i++)
        if (!take_option(program, options[i], defines, &define_count)) {
            append_text(&program->log, "nvrtc: error: unrecognized option ");
            append_text(&program->log, options[i]);
            return NVRTC_ERROR_INVALID_OPTION;
        }
    int result = build(program, defines);
    snprintf(mark, sizeof mark, "%s%d\n", TEST_PTX_MARK, PTX_VERSION);
    if (result == NVRTC_SUCCESS &&
        !(append_text(&program->ptx, mark) &&
          append(&program->ptx, program->image.bytes, program->image.count)))
        result = NVRTC_ERROR_OUT_OF_MEMORY;
    return result;
}

static int size_of(const struct text *text, size_t terminator, size_t *bytes)
{
    *bytes = text->count > 0 || terminator > 0 ? text->count + terminator : 0;
    return NVRTC_SUCCESS;
}

static int copy_out(const struct text *text, size_t terminator, char *out)
{
    if (text->count > 0)
        memcpy(out, text->bytes, text->count);
    if (terminator > 0)
        out[text->count] = 0;
    return NVRTC_SUCCESS;
}

API(nvrtcGetProgramLogSize, struct _nvrtcProgram *program, size_t *bytes)
{
    return size_of(&program->log, 1, bytes);
}

API(nvrtcGetProgramLog, struct _nvrtcProgram *program, char *log)
{
    return copy_out(&program->log, 1, log);
}

API(nvrtcGetPTXSize, struct _nvrtcProgram *program, size_t *bytes)
{
    return size_of(&program->ptx, 1, bytes);
}

API(nvrtcGetPTX, struct _nvrtcProgram *program, char *ptx)
{
    return copy_out(&program->ptx, 1, ptx);
}

API(nvrtcGetCUBINSize, struct _nvrtcProgram *program, size_t *bytes)
{
    static const struct text nothing;
    return size_of(program->is_for_a_device ? &program->image : &nothing, 0, bytes);
}

API(nvrtcGetCUBIN, struct _nvrtcProgram *program, char *image)
{
    return program->is_for_a_device ? copy_out(&program->image, 0, image)
                                    : NVRTC_ERROR_INVALID_PROGRAM;
}
