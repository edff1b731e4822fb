/*
 * The reader of learned rates on any bytes: what it takes says the same when it is written again.
 */
#include "core/rates_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rates_file_line lines[RATES_FILE_LINES_MAX], again[RATES_FILE_LINES_MAX];
    struct muster_error err = { .size = sizeof err };
    size_t count = 0, same = 0;
    if (rates_file_read((const char *)data, size, lines, &count, &err) != MUSTER_OK) {
        require(err.status < 0 && err.text[0] && err.fix[0]);
        return 0;
    }
    size_t bytes = rates_file_write(lines, count, NULL, 0);
    require(bytes <= RATES_FILE_BYTES_MAX);
    char *text = malloc(bytes + 1);
    require(text && rates_file_write(lines, count, text, bytes + 1) == bytes);
    require(rates_file_read(text, bytes, again, &same, &err) == MUSTER_OK && same == count);
    require(memcmp(lines, again, count * sizeof *lines) == 0);
    free(text);
    return 0;
}
