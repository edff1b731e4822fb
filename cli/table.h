/*
 * Columns of text, aligned. Rows are made twice, once to measure and once to print, so nothing is
 * kept of them.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "output.h"

#define TABLE_COLUMNS_MAX 12
#define TABLE_CELL_BYTES 128

struct table_column {
    const char *title;
    bool right; /* numbers stand under each other */
    bool hidden;
};

/* Fills one cell for each column, hidden ones too. */
typedef void (*table_row)(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES]);

void table_print(const struct table_column *columns, size_t column_count, table_row row,
                 const void *rows, size_t row_count, struct output *out);

#endif
