/* Generated data sets: their lowest reachable error is measured with the classifier that
 * is known to be the best. */
#include "base/checked.h"
#include "engine/dataset.h"
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct dataset *open_good(const char *text)
{
    struct error error = {0};
    struct json_file *file = json_file_parse("e.json", text, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    struct json_at at = json_root(file);
    struct dataset *dataset = dataset_open(&at, &error);
    if (dataset == NULL)
        printf("\n    unexpected: %s\n", error.message);
    json_file_free(file);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dataset);
    return dataset;
}

static void refuse(const char *text, const char *words)
{
    struct error error = {0};
    struct json_file *file = json_file_parse("e.json", text, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    struct json_at at = json_root(file);
    struct dataset_description description;
    CU_ASSERT_PTR_NULL(dataset_open(&at, &error));
    CU_ASSERT(error.status == STATUS_BAD_INPUT);
    if (strstr(error.message, words) == NULL)
        printf("\n    message: %s\n    wanted: %s\n", error.message, words);
    CU_ASSERT(strstr(error.message, words) != NULL);
    CU_ASSERT(!dataset_describe(&at, &description, &error));
    json_file_free(file);
}

static const struct dataset_description *description_of(const struct dataset *dataset)
{
    return dataset_get_description(dataset);
}

/* The measured share must be within five standard errors of the stated one. */
static void check_share(double measured, double stated, double count)
{
    double tolerance = 5 * sqrt(stated * (1 - stated) / count) + 1e-12;
    if (fabs(measured - stated) > tolerance)
        printf("\n    measured %g, stated %g +- %g\n", measured, stated, tolerance);
    CU_ASSERT(fabs(measured - stated) <= tolerance);
}

/* With two classes the error has a closed form: half the distance is passed. */
static void error_of_two_classes(void)
{
    static const double separations[] = {0, 0.5, 1, 2, 4, 8};
    char text[128];
    for (size_t i = 0; i < 6; i++) {
        snprintf(text, sizeof(text),
                 "{\"kind\": \"synthetic\", \"classes\": 2, \"separation\": %g}",
                 separations[i]);
        struct dataset *dataset = open_good(text);
        CHECK_CLOSE(description_of(dataset)->bayes_error,
                    0.5 * erfc(separations[i] / 2 * sqrt(0.5)), 1e-9);
        dataset_free(dataset);
    }
}

/* The means are along the axes: the best guess is the largest coordinate. */
static void nearest_mean_reaches_the_stated_error(void)
{
    static const char *const texts[] = {
        "{\"kind\": \"synthetic\", \"train_samples\": 20000}",
        "{\"kind\": \"synthetic\", \"classes\": 3, \"features\": 3, \"separation\": 1.5, "
        "\"noise\": 0.3, \"train_samples\": 20000}",
        "{\"kind\": \"synthetic\", \"classes\": 2, \"features\": 5, \"noise\": 0.5, "
        "\"train_samples\": 20000}"};
    for (size_t t = 0; t < 3; t++) {
        struct dataset *dataset = open_good(texts[t]);
        const struct dataset_description *d = description_of(dataset);
        scalar input[32];
        int32_t label = -1;
        double wrong = 0;
        for (uint64_t i = 0; i < 20000; i++) {
            dataset_sample(dataset, DATASET_TRAIN, i, input, &label);
            int32_t best = 0;
            for (int32_t c = 1; c < (int32_t)d->classes; c++)
                if (input[c] > input[best])
                    best = c;
            wrong += best != label;
        }
        check_share(wrong / 20000, d->bayes_error, 20000);
        dataset_free(dataset);
    }
}

/* Class means measured from many samples; they must be at equal distances, and the
 * nearest of them must give the stated error on the other split. */
static void images_have_the_stated_error(void)
{
    enum { CLASSES = 7, PIXELS = 3 * 3 * 5, SAMPLES = 30000 };
    struct dataset *dataset =
        open_good("{\"kind\": \"synthetic_images\", \"shape\": [3, 3, 5], \"classes\": 7, "
                  "\"separation\": 3, \"train_samples\": 30000, \"test_samples\": 20000}");
    static double mean[CLASSES][PIXELS];
    double times[CLASSES] = {0};
    scalar input[PIXELS];
    int32_t label = -1;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        dataset_sample(dataset, DATASET_TRAIN, i, input, &label);
        times[label]++;
        for (size_t k = 0; k < PIXELS; k++)
            mean[label][k] += (double)input[k];
    }
    for (size_t c = 0; c < CLASSES; c++)
        for (size_t k = 0; k < PIXELS; k++)
            mean[c][k] /= times[c];
    for (size_t a = 0; a < CLASSES; a++)
        for (size_t b = 0; b < a; b++) {
            double square = 0;
            for (size_t k = 0; k < PIXELS; k++)
                square += pow(mean[a][k] - mean[b][k], 2);
            square -= PIXELS * (1 / times[a] + 1 / times[b]); /* of the estimates */
            CU_ASSERT(fabs(sqrt(square) - 3) < 5 * sqrt(2.0 / (SAMPLES / CLASSES)));
        }
    double wrong = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        double nearest = INFINITY;
        int32_t best = 0;
        dataset_sample(dataset, DATASET_TEST, i, input, &label);
        for (int32_t c = 0; c < CLASSES; c++) {
            double square = 0;
            for (size_t k = 0; k < PIXELS; k++)
                square += pow(mean[c][k] - (double)input[k], 2);
            if (square < nearest) {
                nearest = square;
                best = c;
            }
        }
        wrong += best != label;
    }
    /* The estimated means cost a little beyond the stated error. */
    double stated = description_of(dataset)->bayes_error;
    CU_ASSERT(wrong / 20000 > stated - 5 * sqrt(stated / 20000));
    CU_ASSERT(wrong / 20000 < stated * 1.03 + 5 * sqrt(stated / 20000));
    dataset_free(dataset);
}

/* All image shapes down to one pixel, with as many classes as pixels. */
static void image_shapes(void)
{
    static const char *const shapes[] = {"[1, 1, 2]", "[1, 2, 1]", "[2, 1, 1]", "[3, 2, 4]",
                                         "[1, 5, 7]"};
    static const int classes[] = {2, 2, 2, 24, 35};
    for (size_t i = 0; i < 5; i++) {
        char text[160];
        snprintf(text, sizeof(text),
                 "{\"kind\": \"synthetic_images\", \"shape\": %s, \"classes\": %d, "
                 "\"separation\": 1000}",
                 shapes[i], classes[i]);
        struct dataset *dataset = open_good(text);
        const struct dataset_description *d = description_of(dataset);
        uint64_t count = shape_count(&d->input_shape);
        CU_ASSERT_FATAL(count <= 35);
        scalar first[35][35], input[35];
        bool known[35] = {false};
        /* So far apart, samples of a class are nearly the same and others are far. */
        for (uint64_t k = 0; k < 2000; k++) {
            int32_t label = -1;
            dataset_sample(dataset, DATASET_TRAIN, k, input, &label);
            CU_ASSERT_FATAL(label >= 0 && label < classes[i]);
            if (!known[label])
                memcpy(first[label], input, sizeof(input));
            known[label] = true;
            for (int c = 0; c < classes[i]; c++) {
                double square = 0;
                for (uint64_t x = 0; known[c] && x < count; x++)
                    square += pow((double)(input[x] - first[c][x]), 2);
                CU_ASSERT(!known[c] || (sqrt(square) < 50) == (c == label));
            }
        }
        dataset_free(dataset);
    }
    refuse("{\"kind\": \"synthetic_images\", \"shape\": [1, 1, 1], \"classes\": 2}",
           "at least as many");
    refuse("{\"kind\": \"synthetic_images\", \"shape\": [3, 32]}", "e.json: shape: ");
    refuse("{\"kind\": \"synthetic_images\", \"shape\": [3, 0, 32]}", "e.json: shape[1]: ");
    refuse("{\"kind\": \"synthetic_images\", \"shape\": [4096, 4096, 4096]}", "refused");
}

/* The rule is found by counting successors; it must be a permutation and be broken as
 * often as stated. */
static void check_sequence(const char *text, uint64_t lag, double noise)
{
    enum { LENGTH = 12, V = 5, SAMPLES = 4000 };
    struct dataset *dataset = open_good(text);
    const struct dataset_description *d = description_of(dataset);
    CU_ASSERT_FATAL(d->labels == LENGTH && d->vocabulary == V && d->classes == V);
    double pair[V][V] = {{0}}, first[V] = {0}, total = 0;
    scalar input[LENGTH];
    int32_t labels[LENGTH];
    for (uint64_t i = 0; i < SAMPLES; i++) {
        dataset_sample(dataset, DATASET_TRAIN, i, input, labels);
        first[(size_t)input[0]]++;
        for (size_t k = 0; k < LENGTH; k++) {
            CU_ASSERT_FATAL(labels[k] >= 0 && labels[k] < V && input[k] < V);
            CU_ASSERT(k + 1 == LENGTH || input[k + 1] == (scalar)labels[k]);
            if (k + 1 < lag)
                continue;
            pair[(size_t)input[k + 1 - lag]][labels[k]]++;
            total++;
        }
    }
    double kept = 0;
    bool used[V] = {false};
    for (size_t a = 0; a < V; a++) {
        size_t best = 0;
        for (size_t b = 1; b < V; b++)
            if (pair[a][b] > pair[a][best])
                best = b;
        CU_ASSERT(!used[best]);
        used[best] = true;
        kept += pair[a][best];
        check_share(first[a] / SAMPLES, 1.0 / V, SAMPLES);
    }
    check_share(1 - kept / total, noise, total);
    double free_labels = (double)lag - 1;
    CHECK_CLOSE(d->bayes_error,
                (free_labels * (V - 1) / V + (LENGTH - free_labels) * noise) / LENGTH,
                1e-12);
    double entropy = 0; /* from the measured counts */
    for (size_t a = 0; a < V; a++)
        for (size_t b = 0; b < V; b++)
            if (pair[a][b] > 0) {
                double row = pair[a][0] + pair[a][1] + pair[a][2] + pair[a][3] + pair[a][4];
                entropy -= pair[a][b] / total * log(pair[a][b] / row);
            }
    double loss = (free_labels * log(V) + (LENGTH - free_labels) * entropy) / LENGTH;
    CU_ASSERT(fabs(d->bayes_loss - loss) < 0.02);
    dataset_free(dataset);
}

static void sequences_follow_their_rule(void)
{
#define SEQUENCE "{\"kind\": \"synthetic_sequence\", \"length\": 12, \"vocabulary\": 5, "
    check_sequence(SEQUENCE "\"lag\": 1}", 1, 0);
    check_sequence(SEQUENCE "\"lag\": 1, \"noise\": 0.2}", 1, 0.2);
    check_sequence(SEQUENCE "\"lag\": 3, \"noise\": 0.1}", 3, 0.1);
    check_sequence(SEQUENCE "\"lag\": 12, \"noise\": 0.4}", 12, 0.4);
    refuse(SEQUENCE "\"lag\": 13}", "e.json: lag: ");
    refuse(SEQUENCE "\"lag\": 0}", "e.json: lag: ");
    refuse(SEQUENCE "\"noise\": 0.81}", "e.json: noise: ");
    dataset_free(open_good("{\"kind\": \"synthetic_sequence\", \"length\": 1}"));
}

static void translations_follow_their_rule(void)
{
    enum { S = 5, T = 3, WORDS = 6, SAMPLES = 2000 };
    const char *text = "{\"kind\": \"synthetic_translation\", \"source_length\": 5, "
                       "\"target_length\": 3, \"vocabulary\": 7, \"noise\": 0.2}";
    struct dataset *dataset = open_good(text);
    const struct dataset_description *d = description_of(dataset);
    CU_ASSERT_FATAL(d->labels == T && d->vocabulary == WORDS + 1 && d->classes == WORDS + 1);
    CU_ASSERT_FATAL(d->input_shape.rank == 1 && d->input_shape.extent[0] == S + T);
    double pair[WORDS + 1][WORDS + 1] = {{0}}, kept = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        scalar input[S + T];
        int32_t labels[T];
        dataset_sample(dataset, DATASET_TEST, i, input, labels);
        for (size_t k = 0; k < S; k++)
            CU_ASSERT_FATAL(input[k] >= 1 && input[k] <= WORDS);
        for (size_t k = 0; k < T; k++) {
            CU_ASSERT_FATAL(labels[k] >= 1 && labels[k] <= WORDS);
            CU_ASSERT(input[S + k] == (k == 0 ? 0 : (scalar)labels[k - 1]));
            pair[(size_t)input[S - 1 - k]][labels[k]]++;
        }
    }
    bool used[WORDS + 1] = {false};
    for (size_t a = 1; a <= WORDS; a++) {
        size_t best = 1;
        for (size_t b = 1; b <= WORDS; b++)
            best = pair[a][b] > pair[a][best] ? b : best;
        CU_ASSERT(!used[best]);
        used[best] = true;
        kept += pair[a][best];
    }
    check_share(1 - kept / (T * SAMPLES), 0.2, T * SAMPLES);
    CHECK_CLOSE(d->bayes_error, 0.2, 1e-12);
    CHECK_CLOSE(d->bayes_loss, -0.8 * log(0.8) - 0.2 * log(0.2 / (WORDS - 1)), 1e-12);
    dataset_free(dataset);
    refuse("{\"kind\": \"synthetic_translation\", \"source_length\": 4, "
           "\"target_length\": 5}",
           "e.json: target_length: ");
    refuse("{\"kind\": \"synthetic_translation\", \"vocabulary\": 2}",
           "e.json: vocabulary: ");
    dataset_free(open_good("{\"kind\": \"synthetic_translation\", \"source_length\": 1, "
                           "\"vocabulary\": 3}"));
}

/* The same inputs with and without label noise: it changes the stated share of labels. */
static void teacher_noise_is_as_stated(void)
{
    enum { SAMPLES = 10000 };
    struct dataset *clean = open_good("\"teacher_student\"");
    struct dataset *noisy = open_good("{\"kind\": \"teacher_student\", \"noise\": 0.25}");
    CU_ASSERT(description_of(clean)->bayes_error == 0);
    CU_ASSERT(description_of(noisy)->bayes_error == 0.25);
    double changed = 0, times[10] = {0};
    for (uint64_t i = 0; i < SAMPLES; i++) {
        scalar one[32], other[32];
        int32_t label = -1, replaced = -1;
        dataset_sample(clean, DATASET_TRAIN, i, one, &label);
        dataset_sample(noisy, DATASET_TRAIN, i, other, &replaced);
        CU_ASSERT_FATAL(label >= 0 && label < 10 && replaced >= 0 && replaced < 10);
        CU_ASSERT(memcmp(one, other, sizeof(one)) == 0);
        changed += label != replaced;
        times[label]++;
    }
    check_share(changed / SAMPLES, 0.25, SAMPLES);
    for (size_t c = 0; c < 10; c++)
        CU_ASSERT(times[c] > SAMPLES / 50); /* no class is missing */
    dataset_free(clean);
    dataset_free(noisy);
    /* One hidden neuron and one input: the class is the input's sign. */
    for (unsigned seed = 1; seed <= 8; seed++) {
        char text[128];
        snprintf(text, sizeof(text),
                 "{\"kind\": \"teacher_student\", \"features\": 1, \"hidden\": 1, "
                 "\"classes\": 2, \"seed\": %u}",
                 seed);
        struct dataset *dataset = open_good(text);
        double second = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            scalar input;
            int32_t label = -1;
            dataset_sample(dataset, DATASET_TEST, i, &input, &label);
            second += label == 1;
        }
        check_share(second / 1000, 0.5, 1000);
        dataset_free(dataset);
    }
}

/* Another seed, split or number gives another sample; the same gives the same. */
static void samples_depend_on_seed_split_and_number(void)
{
    static const char *const texts[] = {"\"synthetic\"",
                                        "{\"kind\": \"synthetic\", \"seed\": 2}"};
    scalar sample[2][2][3][32], again[32];
    int32_t label = -1;
    for (size_t t = 0; t < 2; t++) {
        struct dataset *dataset = open_good(texts[t]);
        for (size_t split = 0; split < 2; split++)
            for (size_t i = 0; i < 3; i++) {
                dataset_sample(dataset, (enum dataset_split)split, i, sample[t][split][i],
                               &label);
                dataset_sample(dataset, (enum dataset_split)split, i, again, &label);
                CU_ASSERT(memcmp(again, sample[t][split][i], sizeof(again)) == 0);
            }
        dataset_free(dataset);
    }
    scalar(*all)[32] = &sample[0][0][0];
    for (size_t a = 0; a < 12; a++)
        for (size_t b = 0; b < a; b++)
            CU_ASSERT(memcmp(all[a], all[b], sizeof(all[a])) != 0);
}

/* More than 2^32 samples: nothing is stored, and none repeats another. */
static void counts_beyond_32_bits(void)
{
    struct dataset *dataset =
        open_good("{\"kind\": \"synthetic\", \"train_samples\": 9000000000}");
    const uint64_t count = UINT64_C(9000000000);
    scalar low[32], high[32];
    int32_t label = -1;
    CU_ASSERT(description_of(dataset)->samples[DATASET_TRAIN] == count);
    dataset_sample(dataset, DATASET_TRAIN, 5, low, &label);
    dataset_sample(dataset, DATASET_TRAIN, 5 + (UINT64_C(1) << 32), high, &label);
    CU_ASSERT(memcmp(low, high, sizeof(low)) != 0);
    for (uint64_t i = 0; i < 100; i++)
        CU_ASSERT(dataset_order(dataset, 1, 7 * count + i) < count);
    dataset_free(dataset);
}

static void every_epoch_is_a_permutation(void)
{
    static const unsigned counts[] = {1, 2, 7, 100, 1001};
    for (size_t n = 0; n < 5; n++) {
        char text[80];
        uint64_t count = counts[n], same = 0, same_seed = 0;
        snprintf(text, sizeof(text), "{\"kind\": \"synthetic\", \"train_samples\": %u}",
                 counts[n]);
        struct dataset *dataset = open_good(text);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            bool seen[1001] = {false};
            for (uint64_t i = 0; i < count; i++) {
                uint64_t sample = dataset_order(dataset, 4, epoch * count + i);
                CU_ASSERT_FATAL(sample < count);
                CU_ASSERT(!seen[sample]);
                seen[sample] = true;
                same += sample == dataset_order(dataset, 4, (epoch + 1) * count + i);
                same_seed += sample == dataset_order(dataset, 5, epoch * count + i);
            }
        }
        CU_ASSERT(count < 100 || (same < 30 && same_seed < 30));
        dataset_free(dataset);
    }
}

static void keys_are_strict(void)
{
    refuse("{\"kind\": \"synthetic\", \"classes\": 1}", "e.json: classes: ");
    refuse("{\"kind\": \"synthetic\", \"classes\": 33}", "33 classes");
    refuse("{\"kind\": \"synthetic\", \"features\": 1}", "e.json: features: ");
    refuse("{\"kind\": \"synthetic\", \"noise\": 0.91}", "e.json: noise: ");
    refuse("{\"kind\": \"synthetic\", \"separation\": -1}", "e.json: separation: ");
    refuse("{\"kind\": \"synthetic\", \"test_samples\": 0}", "e.json: test_samples: ");
    refuse("{\"kind\": \"synthetic\", \"shape\": [1, 1, 1]}", "unknown key \"shape\"");
    refuse("{\"kind\": \"synthetic\", \"crop_padding\": 0}", "unknown key");
    refuse("{\"kind\": \"teacher_student\", \"hidden\": 2000}", "e.json: hidden: ");
    refuse("{\"kind\": \"synthetics\"}", "nearest known is \"synthetic\"");
    refuse("{\"kind\": 5}", "e.json: kind: must be a string");
}

/* What was read, with all defaults, describes the same data again. */
static void defaults_are_in_the_tree(void)
{
    for (size_t i = 0; dataset_kind_name(i) != NULL; i++) {
        const char *name = dataset_kind_name(i);
        CU_ASSERT(strlen(dataset_kind_summary(i)) > 0);
        if (strncmp(name, "synth", 5) != 0 && strncmp(name, "teach", 5) != 0)
            continue;
        struct error error = {0};
        char text[80];
        struct dataset_description one, other;
        snprintf(text, sizeof(text), "\"%s\"", name);
        struct json_file *file = json_file_parse("e.json", text, &error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        struct json_at at = json_root(file);
        CU_ASSERT(dataset_describe(&at, &one, &error));
        char *printed = cJSON_PrintUnformatted(json_file_tree(file));
        CU_ASSERT(strstr(printed, "\"seed\":1") != NULL);
        CU_ASSERT(strstr(printed, "\"train_samples\":10000") != NULL);
        struct json_file *again = json_file_parse("e.json", printed, &error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(again);
        at = json_root(again);
        CU_ASSERT(dataset_describe(&at, &other, &error));
        CU_ASSERT(shape_equal(&one.input_shape, &other.input_shape));
        CU_ASSERT(one.classes == other.classes && one.bayes_error == other.bayes_error);
        char *reprinted = cJSON_PrintUnformatted(json_file_tree(again));
        CU_ASSERT_STRING_EQUAL(printed, reprinted);
        free(printed);
        free(reprinted);
        json_file_free(file);
        json_file_free(again);
    }
    CU_ASSERT_PTR_NULL(dataset_kind_summary(SIZE_MAX));
}

static const struct check checks[] = {
    {"the error of two classes", error_of_two_classes},
    {"the nearest mean reaches the stated error", nearest_mean_reaches_the_stated_error},
    {"images have the stated error", images_have_the_stated_error},
    {"image shapes", image_shapes},
    {"sequences follow their rule", sequences_follow_their_rule},
    {"translations follow their rule", translations_follow_their_rule},
    {"teacher noise is as stated", teacher_noise_is_as_stated},
    {"samples depend on seed, split and number", samples_depend_on_seed_split_and_number},
    {"counts beyond 32 bits", counts_beyond_32_bits},
    {"every epoch is a permutation", every_epoch_is_a_permutation},
    {"keys are strict", keys_are_strict},
    {"defaults are in the tree", defaults_are_in_the_tree},
};
CHECK_MAIN("generated data sets", checks)
