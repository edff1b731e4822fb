/*
 * How much each kind of thread of this process has run, from the system's own records: which of them
 * a pipeline keeps busy.
 */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define THREADS_KINDS_MAX 32

struct threads {
    struct {
        char name[16];
        double ns;
        int count;
    } kinds[THREADS_KINDS_MAX];
    int count;
};

static inline bool threads_file(const char *thread, const char *file, char *text, int room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/%s", thread, file);
    FILE *stream = fopen(path, "r");
    bool is_read = stream && fgets(text, room, stream);
    if (stream)
        fclose(stream);
    return is_read;
}

/* Threads of one name are one kind. Where the system keeps no such records there are none. */
static inline void threads_read(struct threads *threads)
{
    DIR *folder = opendir("/proc/self/task");
    threads->count = 0;
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[32], figures[96];
        unsigned long long ns;
        if (entry->d_name[0] == '.' || !threads_file(entry->d_name, "comm", name, sizeof name) ||
            !threads_file(entry->d_name, "schedstat", figures, sizeof figures) ||
            sscanf(figures, "%llu", &ns) != 1)
            continue;
        name[strcspn(name, "\n")] = 0;
        int k = 0;
        while (k < threads->count && strcmp(threads->kinds[k].name, name) != 0)
            k++;
        if (k == THREADS_KINDS_MAX)
            continue;
        if (k == threads->count) {
            threads->count++;
            snprintf(threads->kinds[k].name, sizeof threads->kinds[k].name, "%.15s", name);
            threads->kinds[k].ns = 0;
            threads->kinds[k].count = 0;
        }
        threads->kinds[k].ns += (double)ns;
        threads->kinds[k].count++;
    }
    closedir(folder);
}

/* Nanoseconds that kind `k` of the later reading has run since the earlier one. */
static inline double threads_since(const struct threads *earlier, const struct threads *later,
                                   int k)
{
    for (int i = 0; i < earlier->count; i++)
        if (strcmp(earlier->kinds[i].name, later->kinds[k].name) == 0)
            return later->kinds[k].ns - earlier->kinds[i].ns;
    return later->kinds[k].ns;
}

#endif
