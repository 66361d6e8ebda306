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

#if defined(PODSIM_DNNL) &&                                                                \
    (DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP || DNNL_CPU_RUNTIME == DNNL_RUNTIME_SEQ)

#include <dlfcn.h>

/* An array as the caller has it and as the library wants it. */
struct operand {
    dnnl_memory_t plain, packed;
    bool same;                /* both are laid out alike */
    dnnl_primitive_t convert; /* in, or out; NULL: never needed */
    dnnl_primitive_t add;     /* out, to what is there */
    size_t offset;            /* of the packed one in the work array, in scalars */
};

enum { LEFT, RIGHT, RESULT, OPERANDS };

/* One of the three products: two arrays in, one out. */
struct pass {
    dnnl_primitive_t primitive;
    struct operand operand[OPERANDS];
    int argument[OPERANDS];
    dnnl_memory_t scratch;
    size_t scratch_offset;
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
    dnnl_primitive_attr_t own_scratch, adding;
    bool winograd;                       /* to be tried */
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
    const dnnl_dims_t image = {batch, in, (dnnl_dim_t)size->height,
                               (dnnl_dim_t)size->width};
    const dnnl_dims_t output = {batch, out, (dnnl_dim_t)size->out_height,
                                (dnnl_dim_t)size->out_width};
    const dnnl_dims_t grouped = {groups, out / groups, in / groups, kernel, kernel};
    const dnnl_dims_t whole = {out, in, kernel, kernel};
    const bool groupwise = groups > 1;
    for (size_t i = 0; i < 2; i++) {
        dnnl_memory_desc_t *to = i == 0 ? maker->plain : maker->any;
        dnnl_format_tag_t four = i == 0 ? dnnl_abcd : dnnl_format_tag_any;
        dnnl_format_tag_t five = i == 0 ? dnnl_abcde : dnnl_format_tag_any;
        if (!worked(maker,
                    dnnl_memory_desc_init_by_tag(&to[IMAGE], 4, image, dnnl_f32, four)) ||
            !worked(maker,
                    dnnl_memory_desc_init_by_tag(&to[OUTPUT], 4, output, dnnl_f32, four)) ||
            !worked(maker, dnnl_memory_desc_init_by_tag(&to[WEIGHTS], groupwise ? 5 : 4,
                                                        groupwise ? grouped : whole,
                                                        dnnl_f32, groupwise ? five : four)))
            return false;
    }
    for (size_t i = 0; i < 2; i++) {
        maker->strides[i] = (dnnl_dim_t)size->stride;
        maker->padding[i] = (dnnl_dim_t)size->padding;
    }
    return true;
}

/* Winograd's F(4x4, 3x3) takes a quarter of the multiplications; its errors are some 2e-6
 * of the largest result. It pays when the channels fill vectors and there are tiles enough
 * to share the transformed weights. */
static bool suits_winograd(const struct convolution_size *size)
{
    size_t tiles = size->batch * ((size->out_height + 3) / 4) * ((size->out_width + 3) / 4);
    return size->kernel == 3 && size->stride == 1 && size->padding <= 1 &&
           size->groups == 1 && size->in >= 32 && size->out >= 32 && tiles >= 32;
}

static bool make_attributes(struct maker *maker)
{
    dnnl_post_ops_t sum = NULL;
    bool made = worked(maker, dnnl_primitive_attr_create(&maker->own_scratch)) &&
                worked(maker, dnnl_primitive_attr_set_scratchpad_mode(
                                  maker->own_scratch, dnnl_scratchpad_mode_user)) &&
                worked(maker, dnnl_primitive_attr_create(&maker->adding)) &&
                worked(maker, dnnl_post_ops_create(&sum)) &&
                worked(maker, dnnl_post_ops_append_sum(sum, 1)) &&
                worked(maker, dnnl_primitive_attr_set_post_ops(maker->adding, sum));
    if (sum != NULL)
        dnnl_post_ops_destroy(sum);
    return made;
}

/* hint: the forward pass's description, for the others. */
static bool describe_by(struct maker *maker, size_t pass, dnnl_alg_kind_t algorithm,
                        const_dnnl_primitive_desc_t hint,
                        dnnl_primitive_desc_t *description)
{
    dnnl_convolution_desc_t d;
    const dnnl_memory_desc_t *any = maker->any;
    dnnl_status_t status;
    if (pass == FORWARD)
        status = dnnl_convolution_forward_desc_init(
            &d, dnnl_forward_training, algorithm, &any[IMAGE], &any[WEIGHTS], NULL,
            &any[OUTPUT], maker->strides, maker->padding, maker->padding);
    else if (pass == BACKWARD_INPUT)
        status = dnnl_convolution_backward_data_desc_init(
            &d, algorithm, &any[IMAGE], &any[WEIGHTS], &any[OUTPUT], maker->strides,
            maker->padding, maker->padding);
    else
        status = dnnl_convolution_backward_weights_desc_init(
            &d, algorithm, &any[IMAGE], &any[WEIGHTS], NULL, &any[OUTPUT], maker->strides,
            maker->padding, maker->padding);
    return worked(maker, status) &&
           worked(maker, dnnl_primitive_desc_create(description, &d, maker->own_scratch,
                                                    maker->made->engine, hint));
}

static bool describe_pass(struct maker *maker, size_t pass,
                          const_dnnl_primitive_desc_t hint,
                          dnnl_primitive_desc_t *description)
{
    return (maker->winograd &&
            describe_by(maker, pass, dnnl_convolution_winograd, hint, description)) ||
           describe_by(maker, pass, dnnl_convolution_direct, hint, description);
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
                         const dnnl_memory_desc_t *to,
                         const_dnnl_primitive_attr_t attributes, dnnl_primitive_t *reorder)
{
    dnnl_primitive_desc_t description;
    dnnl_engine_t engine = maker->made->engine;
    if (!worked(maker, dnnl_reorder_primitive_desc_create(&description, from, engine, to,
                                                          engine, attributes)))
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

/* A result that is added waits in the work array, in whichever layout. */
static bool make_operand(struct maker *maker, struct pass *pass, size_t which, bool adds,
                         const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *packed)
{
    struct operand *operand = &pass->operand[which];
    operand->same = dnnl_memory_desc_equal(plain, packed) != 0;
    if (!operand->same || adds)
        operand->offset = reserve(pass, dnnl_memory_desc_get_size(packed));
    return make_memory(maker, plain, &operand->plain) &&
           make_memory(maker, packed, &operand->packed) &&
           (operand->same ||
            make_reorder(maker, which == RESULT ? packed : plain,
                         which == RESULT ? plain : packed, NULL, &operand->convert)) &&
           (!adds || make_reorder(maker, packed, plain, maker->adding, &operand->add));
}

static bool make_scratch(struct maker *maker, struct pass *pass,
                         const_dnnl_primitive_desc_t description)
{
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    if (scratch == NULL)
        return false;
    pass->scratch_offset = reserve(pass, dnnl_memory_desc_get_size(scratch));
    return make_memory(maker, scratch, &pass->scratch);
}

static bool fill_pass(struct maker *maker, struct pass *pass, size_t which,
                      const_dnnl_primitive_desc_t description)
{
    static const enum array arrays[PASSES][OPERANDS] = {
        {IMAGE, WEIGHTS, OUTPUT}, {OUTPUT, WEIGHTS, IMAGE}, {IMAGE, OUTPUT, WEIGHTS}};
    static const int arguments[PASSES][OPERANDS] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
    for (size_t i = 0; i < OPERANDS; i++) {
        const dnnl_memory_desc_t *packed = dnnl_primitive_desc_query_md(
            description, dnnl_query_exec_arg_md, arguments[which][i]);
        pass->argument[i] = arguments[which][i];
        if (packed == NULL || !make_operand(maker, pass, i, i == RESULT && which != FORWARD,
                                            &maker->plain[arrays[which][i]], packed))
            return false;
    }
    return make_scratch(maker, pass, description) &&
           worked(maker, dnnl_primitive_create(&pass->primitive, description));
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
    struct maker maker = {.winograd = suits_winograd(size)};
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
           describe_arrays(&maker, size) && make_attributes(&maker) && make_passes(&maker);
    if (maker.own_scratch != NULL)
        dnnl_primitive_attr_destroy(maker.own_scratch);
    if (maker.adding != NULL)
        dnnl_primitive_attr_destroy(maker.adding);
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
    if (operand->add != NULL)
        dnnl_primitive_destroy(operand->add);
}

void convolution_free(struct convolution *convolution)
{
    if (convolution == NULL)
        return;
    for (size_t i = 0; i < PASSES; i++) {
        struct pass *pass = &convolution->pass[i];
        for (size_t k = 0; k < OPERANDS; k++)
            free_operand(&pass->operand[k]);
        if (pass->scratch != NULL)
            dnnl_memory_destroy(pass->scratch);
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

static bool reorder(struct convolution *c, dnnl_primitive_t how, dnnl_memory_t from,
                    dnnl_memory_t to)
{
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return dnnl_primitive_execute(how, c->stream, 2, arguments) == dnnl_success;
}

/* Sets where an operand's arrays are. The library takes no const, but writes none of the
 * arrays that go in. */
static bool place(const struct operand *operand, const scalar *plain, bool adds,
                  scalar *work)
{
    union {
        const scalar *in;
        void *out;
    } array = {.in = plain};
    void *packed = operand->same && !adds ? array.out : work + operand->offset;
    return dnnl_memory_set_data_handle(operand->plain, array.out) == dnnl_success &&
           dnnl_memory_set_data_handle(operand->packed, packed) == dnnl_success;
}

static bool run(struct convolution *c, size_t which, const scalar *left,
                const scalar *right, bool adds, scalar *result, scalar *work)
{
    struct pass *pass = &c->pass[which];
    const scalar *arrays[OPERANDS] = {left, right, result};
    dnnl_exec_arg_t arguments[OPERANDS + 1];
    use_one_thread(c);
    for (size_t i = 0; i < OPERANDS; i++) {
        struct operand *operand = &pass->operand[i];
        if (!place(operand, arrays[i], adds && i == RESULT, work) ||
            (i != RESULT && !operand->same &&
             !reorder(c, operand->convert, operand->plain, operand->packed)))
            return false;
        arguments[i] = (dnnl_exec_arg_t){pass->argument[i], operand->packed};
    }
    arguments[OPERANDS] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, pass->scratch};
    struct operand *out = &pass->operand[RESULT];
    return dnnl_memory_set_data_handle(pass->scratch, work + pass->scratch_offset) ==
               dnnl_success &&
           dnnl_primitive_execute(pass->primitive, c->stream, OPERANDS + 1, arguments) ==
               dnnl_success &&
           ((out->same && !adds) ||
            reorder(c, adds ? out->add : out->convert, out->packed, out->plain)) &&
           dnnl_stream_wait(c->stream) == dnnl_success;
}

bool convolution_forward(struct convolution *convolution, const scalar *x,
                         const scalar *weight, scalar *y, scalar *work)
{
    return run(convolution, FORWARD, x, weight, false, y, work);
}

bool convolution_backward_input(struct convolution *convolution, const scalar *dy,
                                const scalar *weight, bool add, scalar *dx, scalar *work)
{
    return run(convolution, BACKWARD_INPUT, dy, weight, add, dx, work);
}

bool convolution_backward_weight(struct convolution *convolution, const scalar *x,
                                 const scalar *dy, scalar *dw, scalar *work)
{
    return run(convolution, BACKWARD_WEIGHT, x, dy, true, dw, work);
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
