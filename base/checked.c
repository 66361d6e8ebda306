#include "base/checked.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE_BYTES = 2 << 20 };

/* Bytes of an array, at least 1; 0 when no object can be that large. */
static size_t array_bytes(size_t count, size_t item_bytes)
{
    uint64_t bytes;
    if (!checked_multiply(count, item_bytes, &bytes) || bytes > PTRDIFF_MAX - HUGE_PAGE_BYTES)
        return 0;
    return bytes == 0 ? 1 : (size_t)bytes;
}

void *checked_calloc(size_t count, size_t item_bytes)
{
    size_t bytes = array_bytes(count, item_bytes);
    return bytes == 0 ? NULL : calloc(bytes, 1);
}

void *checked_calloc_aligned(size_t count, size_t item_bytes)
{
    size_t bytes = array_bytes(count, item_bytes);
    if (bytes == 0)
        return NULL;
    /* Large arrays on large pages: kernels that walk down columns miss fewer of them. */
    size_t alignment = bytes >= 2 * HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : ALIGNMENT;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, bytes);
    if (memory == NULL)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE_BYTES)
        madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: failure does no harm */
#endif
    memset(memory, 0, bytes);
    return memory;
}

bool checked_grow(void **array, size_t *capacity, size_t needed, size_t item_bytes)
{
    if (needed <= *capacity)
        return true;
    size_t wanted = *capacity > SIZE_MAX / 2 ? needed : 2 * *capacity;
    if (wanted < needed)
        wanted = needed;
    size_t bytes = array_bytes(wanted, item_bytes);
    if (bytes == 0)
        return false;
    /* Through memcpy, because the caller's pointer has another type than void *. */
    void *old;
    memcpy(&old, array, sizeof(old));
    char *grown = realloc(old, bytes);
    if (grown == NULL)
        return false;
    memset(grown + *capacity * item_bytes, 0, (wanted - *capacity) * item_bytes);
    memcpy(array, &grown, sizeof(grown));
    *capacity = wanted;
    return true;
}
