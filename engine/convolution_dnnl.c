#include "engine/convolution.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

static bool forced;

void convolution_force_reference(bool force)
{
    forced = force;
}

#ifdef PODSIM_DNNL
#include <dnnl.h>
#endif

#if defined(PODSIM_DNNL) &&                                                              \
    (DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP || DNNL_CPU_RUNTIME == DNNL_RUNTIME_SEQ)

#include <dlfcn.h>

/* An array as the caller has it and as the library wants it. */
struct operand {
    dnnl_memory_t plain, packed;
    dnnl_primitive_t convert; /* NULL: both are the same */
    size_t offset;            /* of the packed one in the work array, in scalars */
};

enum { LEFT, RIGHT, RESULT, OPERANDS };

/* One of the three products: two arrays in, one out. */
struct pass {
    dnnl_primitive_t primitive;
    struct operand operand[OPERANDS];
    int argument[OPERANDS];
    size_t sum_offset, result_count; /* where a result waits to be added, and its size */
    uint64_t work_count;
};

enum { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, PASSES };

typedef void set_threads_function(int count);

struct convolution {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct pass pass[PASSES];
    set_threads_function *set_threads; /* NULL: the library has no threads */
};

/* What is being put together, and what went wrong with it. */
struct maker {
    struct convolution *made;
    dnnl_memory_desc_t plain[3], any[3]; /* by enum array */
    dnnl_dims_t strides, padding;
    dnnl_status_t status;
};

enum array { IMAGE, WEIGHTS, OUTPUT };

static bool worked(struct maker *maker, dnnl_status_t status)
{
    maker->status = status;
    return status == dnnl_success;
}

/* The share of each thread would show in the last bits. OpenMP's function is looked up,
 * because it is the library's choice which OpenMP there is. */
static bool find_set_threads(struct convolution *convolution)
{
#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&convolution->set_threads, &symbol, sizeof symbol);
    return symbol != NULL;
#else
    return convolution != NULL;
#endif
}

static void use_one_thread(const struct convolution *convolution)
{
    if (convolution->set_threads != NULL)
        convolution->set_threads(1);
}

static bool describe_arrays(struct maker *maker, const struct convolution_size *size)
{
    const dnnl_dim_t batch = (dnnl_dim_t)size->batch, kernel = (dnnl_dim_t)size->kernel;
    const dnnl_dim_t groups = (dnnl_dim_t)size->groups;
    const dnnl_dim_t in = (dnnl_dim_t)size->in, out = (dnnl_dim_t)size->out;
    const dnnl_dims_t image = {batch, in, (dnnl_dim_t)size->height, (dnnl_dim_t)size->width};
    const dnnl_dims_t output = {batch, out, (dnnl_dim_t)size->out_height,
                                (dnnl_dim_t)size->out_width};
    const dnnl_dims_t grouped = {groups, out / groups, in / groups, kernel, kernel};
    const dnnl_dims_t whole = {out, in, kernel, kernel};
    const bool groupwise = groups > 1;
    for (size_t i = 0; i < 2; i++) {
        dnnl_memory_desc_t *to = i == 0 ? maker->plain : maker->any;
        dnnl_format_tag_t four = i == 0 ? dnnl_abcd : dnnl_format_tag_any;
        dnnl_format_tag_t five = i == 0 ? dnnl_abcde : dnnl_format_tag_any;
        if (!worked(maker, dnnl_memory_desc_init_by_tag(&to[IMAGE], 4, image, dnnl_f32,
                                                        four)) ||
            !worked(maker, dnnl_memory_desc_init_by_tag(&to[OUTPUT], 4, output, dnnl_f32,
                                                        four)) ||
            !worked(maker, dnnl_memory_desc_init_by_tag(
                               &to[WEIGHTS], groupwise ? 5 : 4, groupwise ? grouped : whole,
                               dnnl_f32, groupwise ? five : four)))
            return false;
    }
    for (size_t i = 0; i < 2; i++) {
        maker->strides[i] = (dnnl_dim_t)size->stride;
        maker->padding[i] = (dnnl_dim_t)size->padding;
    }
    return true;
}

/* hint: the forward pass's description, for the others. */
static bool describe_pass(struct maker *maker, size_t pass, const_dnnl_primitive_desc_t hint,
                          dnnl_primitive_desc_t *description)
{
    dnnl_convolution_desc_t d;
    const dnnl_memory_desc_t *any = maker->any;
    dnnl_status_t status;
    if (pass == FORWARD)
        status = dnnl_convolution_forward_desc_init(
            &d, dnnl_forward_training, dnnl_convolution_direct, &any[IMAGE], &any[WEIGHTS],
            NULL, &any[OUTPUT], maker->strides, maker->padding, maker->padding);
    else if (pass == BACKWARD_INPUT)
        status = dnnl_convolution_backward_data_desc_init(
            &d, dnnl_convolution_direct, &any[IMAGE], &any[WEIGHTS], &any[OUTPUT],
            maker->strides, maker->padding, maker->padding);
    else
        status = dnnl_convolution_backward_weights_desc_init(
            &d, dnnl_convolution_direct, &any[IMAGE], &any[WEIGHTS], NULL, &any[OUTPUT],
            maker->strides, maker->padding, maker->padding);
    return worked(maker, status) &&
           worked(maker, dnnl_primitive_desc_create(description, &d, NULL,
                                                    maker->made->engine, hint));
}

/* The library's plain loops are called ref, and are slower than matrix products. */
static bool is_slow(const_dnnl_primitive_desc_t description)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name) !=
               dnnl_success ||
           strstr(name, "ref") != NULL;
}

static bool make_reorder(struct maker *maker, const dnnl_memory_desc_t *from,
                         const dnnl_memory_desc_t *to, dnnl_primitive_t *reorder)
{
    dnnl_primitive_desc_t description;
    dnnl_engine_t engine = maker->made->engine;
    if (!worked(maker, dnnl_reorder_primitive_desc_create(&description, from, engine, to,
                                                          engine, NULL)))
        return false;
    bool made = worked(maker, dnnl_primitive_create(reorder, description));
    dnnl_primitive_desc_destroy(description);
    return made;
}

static bool make_memory(struct maker *maker, const dnnl_memory_desc_t *description,
                        dnnl_memory_t *memory)
{
    return worked(maker, dnnl_memory_create(memory, description, maker->made->engine,
                                            DNNL_MEMORY_NONE));
}

/* The offset of so many bytes more of the work array. */
static size_t reserve(struct pass *pass, size_t bytes)
{
    const uint64_t line = 64 / sizeof(scalar);
    uint64_t offset = pass->work_count;
    pass->work_count += (bytes / sizeof(scalar) + line - 1) / line * line;
    return (size_t)offset;
}

static bool make_operand(struct maker *maker, struct pass *pass, size_t which,
                         const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *packed)
{
    struct operand *operand = &pass->operand[which];
    if (!make_memory(maker, plain, &operand->plain))
        return false;
    if (dnnl_memory_desc_equal(plain, packed))
        return true;
    operand->offset = reserve(pass, dnnl_memory_desc_get_size(packed));
    return make_memory(maker, packed, &operand->packed) &&
           make_reorder(maker, which == RESULT ? packed : plain,
                        which == RESULT ? plain : packed, &operand->convert);
}

static bool fill_pass(struct maker *maker, struct pass *pass, size_t which,
                      const_dnnl_primitive_desc_t description)
{
    static const enum array arrays[PASSES][OPERANDS] = {{IMAGE, WEIGHTS, OUTPUT},
                                                        {OUTPUT, WEIGHTS, IMAGE},
                                                        {IMAGE, OUTPUT, WEIGHTS}};
    static const int arguments[PASSES][OPERANDS] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
    for (size_t i = 0; i < OPERANDS; i++) {
        const dnnl_memory_desc_t *packed = dnnl_primitive_desc_query_md(
            description, dnnl_query_exec_arg_md, arguments[which][i]);
        pass->argument[i] = arguments[which][i];
        if (packed == NULL ||
            !make_operand(maker, pass, i, &maker->plain[arrays[which][i]], packed))
            return false;
    }
    size_t result_bytes = dnnl_memory_desc_get_size(&maker->plain[arrays[which][RESULT]]);
    pass->result_count = result_bytes / sizeof(scalar);
    pass->sum_offset = reserve(pass, result_bytes);
    return worked(maker, dnnl_primitive_create(&pass->primitive, description));
}

static bool make_passes(struct maker *maker)
{
    dnnl_primitive_desc_t description[PASSES] = {NULL};
    bool made = true;
    for (size_t i = 0; made && i < PASSES; i++)
        made = describe_pass(maker, i, i == FORWARD ? NULL : description[FORWARD],
                             &description[i]) &&
               !is_slow(description[i]) &&
               fill_pass(maker, &maker->made->pass[i], i, description[i]);
    for (size_t i = 0; i < PASSES; i++)
        if (description[i] != NULL)
            dnnl_primitive_desc_destroy(description[i]);
    return made;
}

bool convolution_create(const struct convolution_size *size,
                        struct convolution **convolution, struct error *error)
{
    struct maker maker = {.made = NULL};
    *convolution = NULL;
    if (forced)
        return true;
    maker.made = checked_calloc(1, sizeof *maker.made);
    if (maker.made == NULL)
        return error_memory(error, "convolution");
    bool made = find_set_threads(maker.made);
    if (made)
        use_one_thread(maker.made);
    made = made && worked(&maker, dnnl_engine_create(&maker.made->engine, dnnl_cpu, 0)) &&
           worked(&maker, dnnl_stream_create(&maker.made->stream, maker.made->engine,
                                             dnnl_stream_in_order)) &&
           describe_arrays(&maker, size) && make_passes(&maker);
    if (made) {
        *convolution = maker.made;
        return true;
    }
    convolution_free(maker.made);
    return maker.status != dnnl_out_of_memory || error_memory(error, "convolution");
}

static void free_operand(struct operand *operand)
{
    if (operand->plain != NULL)
        dnnl_memory_destroy(operand->plain);
    if (operand->packed != NULL)
        dnnl_memory_destroy(operand->packed);
    if (operand->convert != NULL)
        dnnl_primitive_destroy(operand->convert);
}

void convolution_free(struct convolution *convolution)
{
    if (convolution == NULL)
        return;
    for (size_t i = 0; i < PASSES; i++) {
        struct pass *pass = &convolution->pass[i];
        for (size_t k = 0; k < OPERANDS; k++)
            free_operand(&pass->operand[k]);
        if (pass->primitive != NULL)
            dnnl_primitive_destroy(pass->primitive);
    }
    if (convolution->stream != NULL)
        dnnl_stream_destroy(convolution->stream);
    if (convolution->engine != NULL)
        dnnl_engine_destroy(convolution->engine);
    free(convolution);
}

uint64_t convolution_work_count(const struct convolution *convolution)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < PASSES; i++)
        if (convolution->pass[i].work_count > largest)
            largest = convolution->pass[i].work_count;
    return largest;
}

static bool reorder(struct convolution *c, const struct operand *operand, bool pack)
{
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_FROM, pack ? operand->plain : operand->packed},
        {DNNL_ARG_TO, pack ? operand->packed : operand->plain}};
    return dnnl_primitive_execute(operand->convert, c->stream, 2, arguments) == dnnl_success;
}

/* Sets where an operand's arrays are. The library takes no const, but writes none of the
 * arrays that go in. */
static bool place(const struct operand *operand, const scalar *plain, scalar *work)
{
    union {
        const scalar *in;
        void *out;
    } array = {.in = plain};
    return dnnl_memory_set_data_handle(operand->plain, array.out) == dnnl_success &&
           (operand->packed == NULL ||
            dnnl_memory_set_data_handle(operand->packed, work + operand->offset) ==
                dnnl_success);
}

static bool run(struct convolution *c, size_t which, const scalar *left, const scalar *right,
                scalar *result, scalar *work)
{
    struct pass *pass = &c->pass[which];
    const scalar *arrays[OPERANDS] = {left, right, result};
    dnnl_exec_arg_t arguments[OPERANDS];
    use_one_thread(c);
    for (size_t i = 0; i < OPERANDS; i++) {
        struct operand *operand = &pass->operand[i];
        bool packs = operand->convert != NULL;
        if (!place(operand, arrays[i], work) ||
            (packs && i != RESULT && !reorder(c, operand, true)))
            return false;
        arguments[i] = (dnnl_exec_arg_t){pass->argument[i],
                                         packs ? operand->packed : operand->plain};
    }
    return dnnl_primitive_execute(pass->primitive, c->stream, OPERANDS, arguments) ==
               dnnl_success &&
           (pass->operand[RESULT].convert == NULL ||
            reorder(c, &pass->operand[RESULT], false)) &&
           dnnl_stream_wait(c->stream) == dnnl_success;
}

static bool run_and_add(struct convolution *c, size_t which, const scalar *left,
                        const scalar *right, scalar *restrict result, scalar *work)
{
    const scalar *restrict sum = work + c->pass[which].sum_offset;
    if (!run(c, which, left, right, work + c->pass[which].sum_offset, work))
        return false;
    for (size_t i = 0; i < c->pass[which].result_count; i++)
        result[i] += sum[i];
    return true;
}

bool convolution_forward(struct convolution *convolution, const scalar *x,
                         const scalar *weight, scalar *y, scalar *work)
{
    return run(convolution, FORWARD, x, weight, y, work);
}

bool convolution_backward_input(struct convolution *convolution, const scalar *dy,
                                const scalar *weight, bool add, scalar *dx, scalar *work)
{
    return add ? run_and_add(convolution, BACKWARD_INPUT, dy, weight, dx, work)
               : run(convolution, BACKWARD_INPUT, dy, weight, dx, work);
}

bool convolution_backward_weight(struct convolution *convolution, const scalar *x,
                                 const scalar *dy, scalar *dw, scalar *work)
{
    return run_and_add(convolution, BACKWARD_WEIGHT, x, dy, dw, work);
}

#else

bool convolution_create(const struct convolution_size *size,
                        struct convolution **convolution, struct error *error)
{
    (void)size;
    (void)error;
    *convolution = NULL;
    return true;
}

void convolution_free(struct convolution *convolution)
{
    (void)convolution;
}

uint64_t convolution_work_count(const struct convolution *convolution)
{
    (void)convolution;
    return 0;
}

bool convolution_forward(struct convolution *convolution, const scalar *x,
                         const scalar *weight, scalar *y, scalar *work)
{
    (void)convolution, (void)x, (void)weight, (void)y, (void)work;
    return false;
}

bool convolution_backward_input(struct convolution *convolution, const scalar *dy,
                                const scalar *weight, bool add, scalar *dx, scalar *work)
{
    (void)convolution, (void)dy, (void)weight, (void)add, (void)dx, (void)work;
    return false;
}

bool convolution_backward_weight(struct convolution *convolution, const scalar *x,
                                 const scalar *dy, scalar *dw, scalar *work)
{
    (void)convolution, (void)x, (void)dy, (void)dw, (void)work;
    return false;
}

#endif
