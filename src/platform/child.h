/*
 * A process that works for this one: started by spawn, watched, and ended by force.
 */
#ifndef PLATFORM_CHILD_H
#define PLATFORM_CHILD_H

#include <muster/status.h>
#include <stdbool.h>

/* The descriptors that the child finds: shared memory, a pipe that ends when its parent does, and more memory, if any. */
#define PLATFORM_CHILD_MEMORY 3
#define PLATFORM_CHILD_LEASH 4
#define PLATFORM_CHILD_HOST 5

struct platform_child {
    int pid;        /* 0: there is none */
    int descriptor; /* a pidfd, owns */
    int leash;      /* owns: the parent's end of the pipe */
};

/* How it ended. */
struct platform_child_end {
    int signal; /* 0: it exited */
    int code;   /* what it exited with; -1: not known, since other code has waited for it */
};

/*
 * Starts arguments[0], found at `path`. It gets the descriptors above (`host` -1: two), no input, no output, this
 * process's error output, no other descriptor, and a process group of its own. Without `has_environment` its environment
 * is empty.
 */
muster_status platform_child_start(struct platform_child *child, const char *path,
                                   const char *const *arguments, int memory, int host,
                                   bool has_environment, struct muster_error *err);
/* Ends it with SIGKILL, if it runs. Any thread. */
void platform_child_kill(const struct platform_child *child);
/* Waits for its end, at most `timeout_ns`; true if it has ended. Does not collect it. */
bool platform_child_await(const struct platform_child *child, uint64_t timeout_ns);
/* Collects it. It has ended, or this waits for it. */
void platform_child_collect(struct platform_child *child, struct platform_child_end *end);

/* The bytes of its address space, and how many it may have from now on; false if the system does not say, or refuses. */
bool platform_child_size(const struct platform_child *child, uint64_t *bytes);
bool platform_child_limit(const struct platform_child *child, uint64_t bytes);

/* The file of this program; false if the system does not say. */
bool platform_program_path(char *path, size_t bytes);
/* Whether it is a file that can be run. */
bool platform_is_program(const char *path);
void platform_descriptor_close(int descriptor);

/* For the child: ends the process when its parent is gone. Never returns. */
void platform_leash_hold(void);
/* The same, if it is gone already. */
void platform_leash_look(void);
/* Closes all descriptors but the leash: what is mapped stays. False if the system cannot. */
bool platform_descriptors_close(void);

#endif
