#include "sim/machine_memory.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void machine_memory_keep(void)
{
    /* the sanitizer wants to see every block go */
}

#else

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

/* Class c holds blocks of at least LEAST + c * STEP bytes: glibc's own sizes. */
enum { LEAST = 24, STEP = 16, CLASSES = 64 };

struct block {
    struct block *next;
};

static bool keeps;
static _Thread_local struct block *kept[CLASSES];

void machine_memory_keep(void)
{
    keeps = true;
}

/* The names that C++ links these under on Linux: operator new(size_t), delete(void *) and
 * delete(void *, size_t). The array forms call them. */
void *machine_memory_new(size_t bytes) __asm__("_Znwm");
void machine_memory_delete(void *memory) __asm__("_ZdlPv");
void machine_memory_delete_sized(void *memory, size_t bytes) __asm__("_ZdlPvm");

void *machine_memory_new(size_t bytes)
{
    size_t class = bytes <= LEAST ? 0 : (bytes - LEAST + STEP - 1) / STEP;
    if (class < CLASSES && kept[class] != NULL) {
        struct block *block = kept[class];
        kept[class] = block->next;
        return block;
    }
    void *memory = malloc(bytes == 0 ? 1 : bytes);
    if (memory == NULL)
        abort(); /* as C++ does when nobody catches it, and SimGrid does not */
    return memory;
}

void machine_memory_delete(void *memory)
{
    size_t usable = keeps && memory != NULL ? malloc_usable_size(memory) : 0;
    size_t class = usable < LEAST ? CLASSES : (usable - LEAST) / STEP;
    if (class >= CLASSES) {
        free(memory);
        return;
    }
    struct block *block = memory;
    block->next = kept[class];
    kept[class] = block;
}

void machine_memory_delete_sized(void *memory, size_t bytes)
{
    (void)bytes;
    machine_memory_delete(memory);
}

#endif
