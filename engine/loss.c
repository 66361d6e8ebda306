#include "engine/loss.h"
#include "engine/vector_math.h"

#include <assert.h>

struct softmax {
    double largest;   /* of the scaled logits */
    double total;     /* sum of the exponentials, relative to largest */
    double log_total;
    size_t first_largest;
};

/* Sum of exp(scale * logit - largest). In double: with many classes a float sum loses the
 * small ones; in lanes: the same whatever the vector width. */
VECTOR_CLONES
static double sum_exponentials(const scalar *restrict logits, size_t classes, double scale,
                               double largest)
{
    double lane[8] = {0};
    size_t j = 0;
    for (; j + 8 <= classes; j += 8)
        for (size_t k = 0; k < 8; k++)
            lane[k] += (double)vector_exp((scalar)(scale * (double)logits[j + k] - largest));
    for (size_t k = 0; j + k < classes; k++)
        lane[k] += (double)vector_exp((scalar)(scale * (double)logits[j + k] - largest));
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static struct softmax softmax_of(const scalar *logits, size_t classes, double scale)
{
    struct softmax softmax = {-INFINITY, 0, 0, 0};
    for (size_t j = 0; j < classes; j++) {
        double z = scale * (double)logits[j];
        /* A NaN must not lose against -inf and vanish. */
        if (z > softmax.largest || isnan(z)) {
            softmax.largest = z;
            softmax.first_largest = j;
        }
        if (isnan(z))
            break;
    }
    softmax.total = sum_exponentials(logits, classes, scale, softmax.largest);
    softmax.log_total = log(softmax.total);
    return softmax;
}

static double log_probability(const struct softmax *softmax, scalar logit, double scale)
{
    return scale * (double)logit - softmax->largest - softmax->log_total;
}

/* Adds scale * (probability - spread) to every class's gradient. */
VECTOR_CLONES
static void add_probabilities(const scalar *restrict logits, size_t classes,
                              const struct softmax *softmax, double spread, double scale,
                              scalar *restrict d_logits)
{
    double largest = softmax->largest, inverse = 1 / softmax->total;
    for (size_t j = 0; j < classes; j++) {
        double p = inverse * (double)vector_exp((scalar)((double)logits[j] - largest));
        d_logits[j] += (scalar)(scale * (p - spread));
    }
}

/* The label's own gradient is computed apart: near 1 its probability needs more digits. */
static void add_gradient(const struct softmax *softmax, const scalar *logits, size_t classes,
                         size_t label, double smoothing, double scale, scalar *d_logits)
{
    double spread = smoothing / (double)classes;
    double p = exp(log_probability(softmax, logits[label], 1));
    scalar d_label = d_logits[label] + (scalar)(scale * (p - (spread + (1 - smoothing))));
    add_probabilities(logits, classes, softmax, spread, scale, d_logits);
    d_logits[label] = d_label;
}

double loss_cross_entropy(const scalar *logits, const int32_t *labels, size_t rows,
                          size_t classes, double smoothing, double scale, scalar *d_logits,
                          uint64_t *correct)
{
    double sum = 0, spread = smoothing / (double)classes;
    for (size_t r = 0; r < rows; r++) {
        if (labels[r] < 0)
            continue;
        const scalar *z = logits + r * classes;
        size_t label = (size_t)labels[r];
        assert(label < classes);
        struct softmax softmax = softmax_of(z, classes, 1);
        double loss = -(1 - smoothing) * log_probability(&softmax, z[label], 1);
        for (size_t j = 0; j < classes && smoothing > 0; j++)
            loss -= spread * log_probability(&softmax, z[j], 1);
        sum += loss;
        if (correct != NULL)
            *correct += softmax.first_largest == label && !isnan(softmax.largest);
        if (d_logits != NULL)
            add_gradient(&softmax, z, classes, label, smoothing, scale,
                         d_logits + r * classes);
    }
    return sum;
}

static const struct loss_kind kinds[] = {
    {"cross_entropy", loss_cross_entropy},
};

size_t loss_kind_count(void)
{
    return sizeof kinds / sizeof kinds[0];
}

const struct loss_kind *loss_kind_get(size_t index)
{
    return &kinds[index];
}

double loss_mean_square(const scalar *a, const scalar *b, size_t rows, size_t classes,
                        double scale, scalar *d_a)
{
    double sum = 0, width = (double)classes;
    for (size_t r = 0; r < rows; r++) {
        double row = 0;
        for (size_t j = r * classes; j < (r + 1) * classes; j++) {
            double difference = (double)a[j] - (double)b[j];
            row += difference * difference;
            if (d_a != NULL)
                d_a[j] += (scalar)(scale * 2 * difference / width);
        }
        sum += row / width;
    }
    return sum;
}

double loss_kl(const scalar *a, const scalar *b, size_t rows, size_t classes,
               double temperature, double scale, scalar *d_a)
{
    double sum = 0, inverse = 1 / temperature;
    for (size_t r = 0; r < rows; r++) {
        const scalar *za = a + r * classes, *zb = b + r * classes;
        struct softmax pupil = softmax_of(za, classes, inverse);
        struct softmax teacher = softmax_of(zb, classes, inverse);
        double row = 0;
        for (size_t j = 0; j < classes; j++) {
            double log_p = log_probability(&teacher, zb[j], inverse);
            double log_q = log_probability(&pupil, za[j], inverse);
            double p = exp(log_p);
            if (p != 0) /* 0 log 0 is 0, also where log p is -inf; a NaN goes on */
                row += p * (log_p - log_q);
            if (d_a != NULL) /* T^2 times 1/T */
                d_a[r * classes + j] += (scalar)(scale * temperature * (exp(log_q) - p));
        }
        sum += row * temperature * temperature;
    }
    return sum;
}
