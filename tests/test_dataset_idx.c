/* Data sets in IDX files, good and corrupt, Fashion-MNIST among them; augmentation. */
#include "tests/dataset_folder.h"

#include <math.h>
#include <sys/stat.h>

/* Five images of 2 x 3 for training, two for the test, labels 0 to 3. */
static unsigned char train_images[16 + 5 * 6] = {0, 0, 8, 3, 0, 0, 0, 5,
                                                 0, 0, 0, 2, 0, 0, 0, 3};
static unsigned char test_images[16 + 2 * 6] = {0, 0, 8, 3, 0, 0, 0, 2,
                                                0, 0, 0, 2, 0, 0, 0, 3};
static unsigned char train_labels[8 + 5] = {0, 0, 8, 1, 0, 0, 0, 5, 3, 0, 1, 2, 3};
static unsigned char test_labels[8 + 2] = {0, 0, 8, 1, 0, 0, 0, 2, 2, 1};

#define IDX_FILES                                                                          \
    "\"kind\": \"idx\", \"train_images\": \"@/ti\", \"train_labels\": \"@/tl\", "          \
    "\"test_images\": \"@/ei\", \"test_labels\": \"@/el\", \"classes\": 4"

static void write_idx(void)
{
    for (size_t i = 0; i < 30; i++)
        train_images[16 + i] = (unsigned char)(i * 8 + 1);
    for (size_t i = 0; i < 12; i++)
        test_images[16 + i] = (unsigned char)(255 - i);
    write_file("ti", train_images, sizeof(train_images));
    write_file("tl", train_labels, sizeof(train_labels));
    write_file("ei", test_images, sizeof(test_images));
    write_file("el", test_labels, sizeof(test_labels));
}

static void check_small_idx(struct dataset *dataset)
{
    const struct dataset_description *d = dataset_get_description(dataset);
    scalar image[6];
    int32_t label = -1;
    CU_ASSERT(d->samples[DATASET_TRAIN] == 5 && d->samples[DATASET_TEST] == 2);
    CU_ASSERT(d->classes == 4 && d->labels == 1 && d->vocabulary == 0);
    CU_ASSERT(d->input_shape.rank == 3 && d->input_shape.extent[0] == 1 &&
              d->input_shape.extent[1] == 2 && d->input_shape.extent[2] == 3);
    for (uint64_t i = 0; i < 5; i++) {
        dataset_sample(dataset, DATASET_TRAIN, i, image, &label);
        CU_ASSERT(label == train_labels[8 + i]);
        for (size_t k = 0; k < 6; k++)
            CHECK_CLOSE((double)image[k],
                        ((double)train_images[16 + 6 * i + k] / 255 - 0.25) / 2, 1e-6);
    }
    dataset_sample(dataset, DATASET_TEST, 1, image, &label);
    CU_ASSERT(label == 1);
    CHECK_CLOSE((double)image[5], (244.0 / 255 - 0.25) / 2, 1e-6);
}

static void idx_plain_and_gzip(void)
{
    write_idx();
    struct dataset *dataset = open_good("{" IDX_FILES ", \"mean\": 0.25, \"std\": 2}");
    check_small_idx(dataset);
    dataset_free(dataset);
    write_gzip("ti", train_images, sizeof(train_images));
    write_gzip("el", test_labels, sizeof(test_labels));
    dataset = open_good("{" IDX_FILES ", \"mean\": 0.25, \"std\": 2}");
    check_small_idx(dataset);
    dataset_free(dataset);
}

static void idx_other_ranks(void)
{
    static const unsigned char vectors[12 + 2] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 7, 9};
    static const unsigned char colour[20 + 24] = {0, 0, 8, 4, 0, 0, 0, 2, 0, 0,
                                                  0, 3, 0, 0, 0, 2, 0, 0, 0, 2};
    write_idx();
    write_file("ei", vectors, sizeof(vectors));
    write_file("ti", vectors, sizeof(vectors));
    write_file("tl", test_labels, sizeof(test_labels));
    struct dataset *dataset = open_good("{" IDX_FILES "}");
    const struct dataset_description *d = dataset_get_description(dataset);
    CU_ASSERT(d->input_shape.rank == 1 && d->input_shape.extent[0] == 1);
    dataset_free(dataset);
    refuse("{" IDX_FILES ", \"flip\": true}", "e.json: ", "vectors");
    refuse("{" IDX_FILES ", \"crop_padding\": 1}", "crop_padding", "0 to 0");
    write_file("ei", colour, sizeof(colour));
    refuse("{" IDX_FILES "}", "/ei: byte 8: ", "");
    write_file("ti", colour, sizeof(colour));
    dataset = open_good("{" IDX_FILES "}");
    d = dataset_get_description(dataset);
    CU_ASSERT(d->input_shape.rank == 3 && d->input_shape.extent[0] == 3);
    dataset_free(dataset);
}

static void idx_is_described_from_its_headers(void)
{
    struct error error = {0};
    struct dataset_description description;
    char json[1024];
    write_idx();
    write_file("ti", train_images, 16); /* pixels are not read */
    snprintf(json, sizeof(json),
             "{\"kind\": \"idx\", \"train_images\": \"%s\", \"train_labels\": \"nowhere\", "
             "\"test_images\": \"%s\", \"test_labels\": \"nowhere\"}",
             in_folder("ti"), in_folder("ei"));
    struct json_file *file = json_file_parse("e.json", json, &error);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    struct json_at at = json_root(file);
    CU_ASSERT(dataset_describe(&at, &description, &error));
    CU_ASSERT(description.samples[DATASET_TRAIN] == 5 && description.classes == 10);
    CU_ASSERT_STRING_EQUAL(description.name, "idx");
    CU_ASSERT(dataset_open(&at, &error) == NULL);
    json_file_free(file);
}

/* The file with one byte changed must be refused with the message. */
static void refuse_changed(const char *name, const unsigned char *good, size_t count,
                           size_t place, unsigned char byte, const char *first,
                           const char *second)
{
    unsigned char bytes[64];
    memcpy(bytes, good, count);
    bytes[place] = byte;
    write_file(name, bytes, count);
    refuse("{" IDX_FILES "}", first, second);
    write_file(name, good, count);
}

static void idx_corruption_is_located(void)
{
    const size_t images = sizeof(train_images), labels = sizeof(train_labels);
    write_idx();
    refuse_changed("ti", train_images, images, 0, 1, "/ti: byte 0: ", "01000803");
    refuse_changed("ti", train_images, images, 2, 13, "/ti: byte 0: ", "00000d03");
    refuse_changed("ti", train_images, images, 3, 1, "/ti: byte 3: ", "1 dimensions");
    refuse_changed("ti", train_images, images, 3, 200, "/ti: byte 3: ", "200 dimensions");
    refuse_changed("ti", train_images, images, 7, 0, "/ti: byte 4: ", "dimension 0 is 0");
    refuse_changed("ti", train_images, images, 7, 6, "/ti: byte 46: ", "truncated, 6 more");
    refuse_changed("ti", train_images, images, 7, 4, "/ti: byte 40: ", "should end here");
    refuse_changed("ti", train_images, images, 4, 255, "/ti: byte 46: ", "truncated");
    refuse_changed("ti", train_images, images, 15, 4, "/ei: byte 8: ", "should be 1x2x4");
    refuse_changed("tl", train_labels, labels, 7, 4, "/tl: byte 4: ", "4 labels for the 5");
    refuse_changed("tl", train_labels, labels, 3, 2, "/tl: byte 3: ", "2 dimensions");
    refuse_changed("tl", train_labels, labels, 10, 4,
                   "/tl: byte 10: ", "label 4 of record 2");
    unsigned char longer[sizeof(train_labels) + 1] = {0};
    memcpy(longer, train_labels, labels);
    write_file("tl", longer, sizeof(longer));
    refuse("{" IDX_FILES "}", "/tl: byte 13: ", "should end here");
    write_file("tl", train_labels, labels);
    refuse_changed("el", test_labels, sizeof(test_labels), 9, 255,
                   "/el: byte 9: ", "label 255 of record 1");
}

/* Dimensions whose product does not fit, or only just: no memory is taken for them. */
static void idx_huge_headers(void)
{
    unsigned char header[20];
    memset(header, 0xff, sizeof(header));
    header[0] = header[1] = 0;
    header[2] = 8;
    header[3] = 4;
    write_idx();
    write_file("ti", header, sizeof(header));
    refuse("{" IDX_FILES "}", "/ti: byte 4: ", "too large");
    header[3] = 3;
    write_file("ti", header, 16);
    refuse("{" IDX_FILES "}", "/ti: byte 4: ", "too large");
    memset(header + 8, 0, 2); /* 2^32 x 2^16 x 2^16: fits 64 bits, but no memory */
    memset(header + 12, 0, 2);
    write_file("ti", header, 16);
    refuse("{" IDX_FILES "}", "/ti: byte 4: ", "too large");
    memset(header + 8, 0xff, 8);
    header[12] = header[13] = header[14] = 0; /* 2^32 x 2^32 x 255 */
    write_file("ti", header, 16);
    refuse("{" IDX_FILES "}", "/ti: byte 4: ", "too large");
    header[8] = header[9] = header[10] = 0; /* 2^32 x 255 x 255, about 280 TB */
    write_file("ti", header, 16);
    write_file("ei", header, 16);
    refuse("{" IDX_FILES "}", "/ti: byte 16: ", "truncated");
}

static void every_truncation_is_refused(void)
{
    write_idx();
    for (size_t count = 0; count < sizeof(train_images); count++) {
        write_file("ti", train_images, count);
        refuse("{" IDX_FILES "}", "/ti: byte ", "truncated");
    }
    write_idx();
    for (size_t count = 0; count < sizeof(train_labels); count++) {
        write_file("tl", train_labels, count);
        refuse("{" IDX_FILES "}", "/tl: byte ", "truncated");
    }
}

/* A compressed file cut anywhere, or with any byte of its data or check sum changed. */
static void damaged_gzip_is_refused(void)
{
    unsigned char bytes[256];
    write_idx();
    write_gzip("ti", train_images, sizeof(train_images));
    FILE *stream = fopen(in_folder("ti"), "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
    size_t count = fread(bytes, 1, sizeof(bytes), stream);
    fclose(stream);
    CU_ASSERT_FATAL(count > 40 && count < sizeof(bytes));
    for (size_t cut = 0; cut < count; cut++) {
        write_file("ti", bytes, cut);
        refuse("{" IDX_FILES "}", "/ti: ", "byte ");
    }
    for (size_t i = 10; i < count; i++) { /* behind the header, whose date may be any */
        bytes[i] ^= 0x10;
        write_file("ti", bytes, count);
        refuse("{" IDX_FILES "}", "/ti: ", "byte ");
        bytes[i] ^= 0x10;
    }
    write_file("ti", bytes, count);
    dataset_free(open_good("{" IDX_FILES "}"));
}

static void keys_are_strict(void)
{
    write_idx();
    refuse("{" IDX_FILES ", \"mena\": 1}", "unknown key \"mena\"", "\"mean\"");
    refuse("{" IDX_FILES ", \"std\": 0}", "e.json: std: ", "");
    refuse("{" IDX_FILES ", \"train_samples\": 0}", "e.json: train_samples: ", "from 1");
    refuse("{" IDX_FILES ", \"train_samples\": 6}", "\"train_samples\" is 6", "only 5");
    refuse("{" IDX_FILES ", \"test_samples\": 3}", "\"test_samples\" is 3", "only 2");
    refuse("{" IDX_FILES ", \"crop_padding\": 2}", "e.json: crop_padding", "from 0 to 1");
    refuse("{\"kind\": \"idx\"}", "e.json: ", "\"train_images\" is missing");
    refuse("\"idx\"", "e.json: ", "\"train_images\" is missing");
    refuse("\"fashion_mnits\"", "e.json: kind: ", "\"fashion_mnist\"");
    refuse("{}", "e.json: ", "\"kind\" is missing");
    refuse("[]", "e.json: ", "must be an object");
    refuse("7", "e.json: ", "must be an object");
    struct dataset *dataset =
        open_good("{" IDX_FILES ", \"train_samples\": 3, \"test_samples\": 1}");
    const struct dataset_description *d = dataset_get_description(dataset);
    CU_ASSERT(d->samples[DATASET_TRAIN] == 3 && d->samples[DATASET_TEST] == 1);
    for (uint64_t i = 0; i < 30; i++)
        CU_ASSERT(dataset_order(dataset, 1, i) < 3);
    dataset_free(dataset);
}

static void missing_files_say_where_to_get_them(void)
{
    refuse("{\"kind\": \"fashion_mnist\", \"path\": \"@/none\"}",
           "/none/train-images-idx3-ubyte.gz: cannot be opened: No such file",
           "Debian package dataset-fashion-mnist");
    write_idx();
    unlink(in_folder("el"));
    CU_ASSERT(mkdir(in_folder("el"), 0700) == 0);
    refuse("{" IDX_FILES "}", "/el: is a directory", "");
    CU_ASSERT(rmdir(in_folder("el")) == 0);
}

/* Files under Fashion-MNIST's names but of another size of image. */
static void fashion_mnist_from_a_folder(void)
{
    static unsigned char images[16 + 3 * 784] = {0, 0, 8, 3,  0, 0, 0, 3,
                                                 0, 0, 0, 28, 0, 0, 0, 28};
    static unsigned char labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 9, 0, 4};
    write_file("train-images-idx3-ubyte", images, sizeof(images));
    write_gzip("train-labels-idx1-ubyte.gz", labels, sizeof(labels));
    write_gzip("t10k-images-idx3-ubyte.gz", images, sizeof(images));
    write_file("t10k-labels-idx1-ubyte", labels, sizeof(labels));
    struct dataset *dataset = open_good("{\"kind\": \"fashion_mnist\", \"path\": \"@\"}");
    const struct dataset_description *d = dataset_get_description(dataset);
    CU_ASSERT(d->samples[DATASET_TRAIN] == 3 && d->samples[DATASET_TEST] == 3);
    dataset_free(dataset);
    images[15] = 27;
    write_file("train-images-idx3-ubyte", images, sizeof(images));
    refuse("{\"kind\": \"fashion_mnist\", \"path\": \"@\"}",
           "train-images-idx3-ubyte: byte 8: ", "1x28x27");
}

/* The real set: known labels of its first samples, and the stated mean and deviation. */
static void fashion_mnist_itself(void)
{
    static const int32_t first[10] = {9, 0, 0, 3, 0, 2, 7, 2, 5, 5};
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK) != 0) {
        printf("(skipped: the Debian package dataset-fashion-mnist is not installed) ");
        return;
    }
    struct dataset *dataset = open_good("\"fashion_mnist\"");
    const struct dataset_description *d = dataset_get_description(dataset);
    CU_ASSERT(d->samples[DATASET_TRAIN] == 60000 && d->samples[DATASET_TEST] == 10000);
    CU_ASSERT(d->classes == 10);
    double sum = 0, square = 0;
    size_t times[10] = {0};
    static scalar image[784];
    int32_t label = -1;
    for (uint64_t i = 0; i < 60000; i++) {
        dataset_sample(dataset, DATASET_TRAIN, i, image, &label);
        CU_ASSERT_FATAL(label >= 0 && label < 10);
        times[label]++;
        CU_ASSERT(i >= 10 || label == first[i]);
        for (size_t k = 0; k < 784; k++) {
            sum += (double)image[k];
            square += (double)image[k] * (double)image[k];
        }
    }
    CU_ASSERT(fabs(sum / (60000.0 * 784)) < 1e-3);
    CU_ASSERT(fabs(square / (60000.0 * 784) - 1) < 1e-3);
    for (size_t c = 0; c < 10; c++)
        CU_ASSERT(times[c] == 6000);
    dataset_free(dataset);
}

/* Every augmented sample is a mirror and a shift of the original, all of them occur, about
 * equally often, and the same key gives the same again. */
static void augmentation_mirrors_and_shifts(void)
{
    scalar plain[6], seen[6], again[6];
    int32_t label = -1;
    size_t times[2][3][3] = {{{0}}};
    write_idx();
    struct dataset *dataset =
        open_good("{" IDX_FILES ", \"flip\": true, \"crop_padding\": 1}");
    dataset_sample(dataset, DATASET_TRAIN, 1, plain, &label);
    const scalar border = -1; /* (0 - 0.5) / 0.5 */
    for (uint64_t step = 0; step < 3600; step++) {
        size_t matches = 0;
        dataset_training_sample(dataset, 5, step, 1, seen, &label);
        dataset_training_sample(dataset, 5, step, 1, again, &label);
        CU_ASSERT(memcmp(seen, again, sizeof(seen)) == 0 && label == train_labels[9]);
        for (int flip = 0; flip < 2; flip++)
            for (int down = -1; down <= 1; down++)
                for (int right = -1; right <= 1; right++) {
                    bool same = true;
                    for (int y = 0; y < 2; y++)
                        for (int x = 0; x < 3; x++) {
                            int from_y = y + down, from_x = (flip ? 2 - x : x) + right;
                            bool inside =
                                from_y >= 0 && from_y < 2 && from_x >= 0 && from_x < 3;
                            scalar wanted = inside ? plain[3 * from_y + from_x] : border;
                            same = same && seen[3 * y + x] == wanted;
                        }
                    times[flip][down + 1][right + 1] += same;
                    matches += same;
                }
        CU_ASSERT(matches == 1);
    }
    for (size_t i = 0; i < 18; i++)
        CU_ASSERT(fabs((double)(&times[0][0][0])[i] - 200) < 5 * sqrt(200));
    dataset_free(dataset);
    dataset = open_good("{" IDX_FILES "}");
    dataset_training_sample(dataset, 5, 3, 1, seen, &label);
    CU_ASSERT(memcmp(seen, plain, sizeof(seen)) == 0);
    dataset_free(dataset);
}

static void remove_folder(void)
{
    static const char *const names[] = {"ti",
                                        "tl",
                                        "ei",
                                        "el",
                                        "train-images-idx3-ubyte",
                                        "train-labels-idx1-ubyte.gz",
                                        "t10k-images-idx3-ubyte.gz",
                                        "t10k-labels-idx1-ubyte"};
    remove_named(names, sizeof(names) / sizeof(names[0]));
}

static const struct check checks[] = {
    {"a folder for the files", make_folder},
    {"IDX files are read, plain and gzip", idx_plain_and_gzip},
    {"IDX of vectors and of colour images", idx_other_ranks},
    {"IDX is described from its headers", idx_is_described_from_its_headers},
    {"a corrupt IDX file is located", idx_corruption_is_located},
    {"IDX headers with huge sizes", idx_huge_headers},
    {"every truncation is refused", every_truncation_is_refused},
    {"a damaged gzip file is refused", damaged_gzip_is_refused},
    {"keys are strict", keys_are_strict},
    {"missing files say where to get them", missing_files_say_where_to_get_them},
    {"Fashion-MNIST from another folder", fashion_mnist_from_a_folder},
    {"Fashion-MNIST itself", fashion_mnist_itself},
    {"augmentation mirrors and shifts", augmentation_mirrors_and_shifts},
    {"the folder is removed", remove_folder},
};
CHECK_MAIN("data sets from IDX files", checks)
