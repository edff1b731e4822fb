/*
 * Files one after the other as one text, with a newline behind each: no word has one, so none is
 * found across the border. The text is read on one thread and reported on another, which learns
 * where each input ends when it has been given text from behind it. One large file alone is read on
 * several threads, each of which knows by the text's place where to read.
 */
#ifndef JOBS_INPUTS_H
#define JOBS_INPUTS_H

#include "tree.h"
#include "unpack.h"

#include <muster/file.h>
#include <stdatomic.h>
#include <stdint.h>

/* Made by the reading thread before it gives the first byte of it. */
struct input {
    struct input *_Atomic next; /* owns; NULL: none is read yet */
    /* Where it ends in the text; UINT64_MAX: not known yet. Written by the reading thread. */
    _Atomic uint64_t end;
    atomic_bool is_unread; /* it could not be opened; written before `end` */
    atomic_bool is_enough; /* set by the other thread: no more of it is wanted */
    bool is_operand;       /* the path is the user's, not of a file below a folder */
    char *path;            /* owns; "-": standard input */
};

struct inputs {
    struct muster *m; /* borrowed */
    struct tree tree;
    bool is_only;     /* there is one operand, and folders are not entered */
    bool is_unpacked; /* what compressed files hold is the text */
    /* Told of what cannot be read, on the reading thread; reading goes on with the next. */
    void (*trouble)(void *user, const char *path, const char *why);
    void *user;
    int output; /* a file that grows by what is found, and so is not read; 0: none */
    /* The reading thread's own. */
    struct input *last; /* the newest */
    bool has_current;   /* that one is being read */
    bool is_over, has_no_memory;
    int descriptor;           /* -1: none is open */
    struct muster_file *file; /* a large file is read through it; else NULL */
    struct unpack *unpack;    /* a compressed file, or a pipe that may be; else NULL */
    bool is_regular;
    atomic_bool is_troubled; /* then: one of them has told of an error */
    bool is_shared;          /* several threads read the only one, from where they want */
    uint64_t size;           /* then: of the file when it was opened */
    size_t item_bytes;
    unsigned char *rest; /* owns: what is less than an item */
    size_t rest_bytes;
    /* The other thread's own: the one it was given last, and before it what is not an input. */
    struct input *given;
};

struct inputs_options {
    struct tree_options tree;
    size_t item_bytes;
    bool is_unpacked;
};

/* False: no memory. */
bool inputs_init(struct inputs *inputs, struct muster *m, const struct inputs_options *options);
void inputs_deinit(struct inputs *inputs);

/* Of inputs_read, how many calls may be made at once. Before the first of them. */
uint32_t inputs_calls(struct inputs *inputs);

/*
 * For the thread that is given the text: the input after the one it was given before, which is gone
 * then. NULL: there is none, and text from behind that one is nobody's.
 */
struct input *inputs_next(struct inputs *inputs);

/*
 * The source of a job: text in whole items, the last filled up with newlines; 0 at its end, negative without memory.
 */
int64_t inputs_read(void *inputs, uint64_t begin, uint64_t items, void *to, size_t bytes);

#endif
