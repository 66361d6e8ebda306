/* Data sets that are read from files: CIFAR and text. */
#include "tests/dataset_folder.h"

#include <sys/stat.h>

enum { CIFAR10_RECORD = 3073, CIFAR100_RECORD = 3074 };

static void write_cifar(void)
{
    static unsigned char records[2 * CIFAR100_RECORD];
    char name[32];
    for (unsigned batch = 1; batch <= 6; batch++) {
        for (size_t i = 0; i < 2 * CIFAR10_RECORD; i++)
            records[i] = (unsigned char)(i % CIFAR10_RECORD + batch);
        records[0] = (unsigned char)batch;
        records[CIFAR10_RECORD] = 9;
        snprintf(name, sizeof(name), batch < 6 ? "data_batch_%u.bin" : "test_batch.bin",
                 batch);
        write_file(name, records, 2 * CIFAR10_RECORD);
    }
    memset(records, 51, sizeof(records));
    records[0] = 19;
    records[1] = 99;
    records[CIFAR100_RECORD] = 0;
    records[CIFAR100_RECORD + 1] = 7;
    write_file("train.bin", records, sizeof(records));
    write_file("test.bin", records, CIFAR100_RECORD);
}

static void cifar_is_read(void)
{
    static scalar image[3072];
    int32_t label = -1;
    write_cifar();
    struct dataset *dataset = open_good("{\"kind\": \"cifar10\", \"path\": \"@\"}");
    const struct dataset_description *d = dataset_get_description(dataset);
    CU_ASSERT(d->samples[DATASET_TRAIN] == 10 && d->samples[DATASET_TEST] == 2);
    dataset_sample(dataset, DATASET_TRAIN, 2, image, &label); /* first of the second file */
    CU_ASSERT(label == 2);
    CHECK_CLOSE((double)image[0], (3.0 / 255 - 0.4914) / 0.2470, 1e-6);
    CHECK_CLOSE((double)image[1024], (3.0 / 255 - 0.4822) / 0.2435, 1e-6);
    CHECK_CLOSE((double)image[3071], (2.0 / 255 - 0.4465) / 0.2616, 1e-6);
    dataset_sample(dataset, DATASET_TRAIN, 9, image, &label);
    CU_ASSERT(label == 9);
    dataset_free(dataset);
    static const char *const text[] = {
        "{\"kind\": \"cifar100\", \"path\": \"@\"}",
        "{\"kind\": \"cifar100\", \"path\": \"@\", \"labels\": \"coarse\"}"};
    static const int32_t labels[2][2] = {{99, 7}, {19, 0}};
    static const uint64_t classes[2] = {100, 20};
    for (size_t i = 0; i < 2; i++) {
        dataset = open_good(text[i]);
        d = dataset_get_description(dataset);
        CU_ASSERT(d->classes == classes[i] && d->samples[DATASET_TEST] == 1);
        for (uint64_t k = 0; k < 2; k++) {
            dataset_sample(dataset, DATASET_TRAIN, k, image, &label);
            CU_ASSERT(label == labels[i][k]);
        }
        CHECK_CLOSE((double)image[3071], (0.2 - 0.4409) / 0.2762, 1e-6);
        dataset_free(dataset);
    }
}

static void cifar_corruption_is_located(void)
{
    static unsigned char records[3 * CIFAR100_RECORD];
    static const char ten[] = "{\"kind\": \"cifar10\", \"path\": \"@\"}";
    static const char hundred[] = "{\"kind\": \"cifar100\", \"path\": \"@\"}";
    write_cifar();
    write_file("data_batch_3.bin", records, 2 * CIFAR10_RECORD - 1);
    refuse(ten, "data_batch_3.bin: byte 3073: ", "truncated in a record");
    write_file("data_batch_3.bin", records, 2 * CIFAR10_RECORD + 1);
    refuse(ten, "data_batch_3.bin: byte 6146: ", "truncated in a record");
    write_file("data_batch_3.bin", records, 0);
    refuse(ten, "data_batch_3.bin: byte 0: ", "empty");
    records[CIFAR10_RECORD] = 10;
    write_file("data_batch_3.bin", records, 2 * CIFAR10_RECORD);
    refuse(ten, "data_batch_3.bin: byte 3073: ", "label 10 of record 1");
    records[CIFAR10_RECORD] = 0;
    records[CIFAR100_RECORD] = 20; /* coarse */
    write_file("test.bin", records, 2 * CIFAR100_RECORD);
    refuse(hundred, "test.bin: byte 3074: ", "label 20 of record 1");
    records[CIFAR100_RECORD] = 0;
    records[1] = 100; /* fine */
    write_file("test.bin", records, CIFAR100_RECORD);
    refuse(hundred, "test.bin: byte 1: ", "label 100 of record 0");
    unlink(in_folder("test_batch.bin"));
    write_file("data_batch_3.bin", records + 2, CIFAR10_RECORD);
    refuse(ten, "test_batch.bin: cannot be opened", "");
}

static void text_is_cut_into_samples(void)
{
    unsigned char bytes[200];
    scalar input[4];
    int32_t labels[4];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i + 50);
    write_file("corpus", bytes, sizeof(bytes));
    struct dataset *dataset =
        open_good("{\"kind\": \"text\", \"path\": \"@/corpus\", \"length\": 4}");
    const struct dataset_description *d = dataset_get_description(dataset);
    /* 180 and 20 bytes: (180 - 1) / 4 and (20 - 1) / 4 samples. */
    CU_ASSERT(d->samples[DATASET_TRAIN] == 44 && d->samples[DATASET_TEST] == 4);
    CU_ASSERT(d->vocabulary == 256 && d->classes == 256 && d->labels == 4);
    CU_ASSERT(d->input_shape.rank == 1 && d->input_shape.extent[0] == 4);
    dataset_sample(dataset, DATASET_TRAIN, 43, input, labels);
    for (int i = 0; i < 4; i++)
        CU_ASSERT(input[i] == (scalar)(50 + 4 * 43 + i) && labels[i] == 51 + 4 * 43 + i);
    dataset_sample(dataset, DATASET_TEST, 0, input, labels);
    CU_ASSERT(input[0] == 230 && labels[3] == 234);
    dataset_sample(dataset, DATASET_TEST, 3, input, labels);
    CU_ASSERT(input[0] == 242 && labels[3] == 246);
    dataset_free(dataset);
    refuse("{\"kind\": \"text\", \"path\": \"@/corpus\", \"length\": 20}",
           "/corpus: a text of 200 bytes is too short", "length 20");
    refuse("{\"kind\": \"text\", \"path\": \"@/corpus\", \"length\": 0}", "length", "");
    write_file("corpus", bytes, 0);
    refuse("{\"kind\": \"text\", \"path\": \"@/corpus\"}", "0 bytes", "");
}

/* Each begins at one of the `length` bytes from its place on, all of them occur, the same
 * key gives the same, and the test split and bytes beyond the samples in use stay unseen. */
static void text_is_shifted(void)
{
    unsigned char bytes[200];
    scalar input[4], again[4];
    int32_t labels[4];
    unsigned seen = 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i + 50);
    write_file("corpus", bytes, sizeof(bytes));
    struct dataset *dataset = open_good("{\"kind\": \"text\", \"path\": \"@/corpus\", "
                                        "\"length\": 4, \"train_samples\": 9, "
                                        "\"shift\": true}");
    for (uint64_t step = 0; step < 100; step++)
        for (uint64_t k = 0; k < 9; k++) {
            dataset_training_sample(dataset, 1, step, k, input, labels);
            dataset_training_sample(dataset, 1, step, k, again, labels);
            unsigned shift = (unsigned)input[0] - 50U - 4 * (unsigned)k;
            CU_ASSERT(shift < 4 && (k < 8 || shift == 0));
            seen |= 1U << shift;
            for (int i = 0; i < 4; i++)
                CU_ASSERT(input[i] == again[i] && input[i] == input[0] + (scalar)i &&
                          labels[i] == (int32_t)input[i] + 1);
        }
    CU_ASSERT(seen == 15);
    dataset_sample(dataset, DATASET_TRAIN, 2, input, labels);
    CU_ASSERT(input[0] == 58);
    dataset_free(dataset);
    refuse("{\"kind\": \"text\", \"path\": \"@/corpus\", \"length\": 4, \"shift\": 3}",
           "shift", "");
    refuse("{\"kind\": \"synthetic\", \"shift\": true}", "shift", "");
}

static void text_of_a_folder(void)
{
    scalar input[2];
    int32_t labels[2];
    CU_ASSERT(mkdir(in_folder("texts"), 0700) == 0);
    refuse("{\"kind\": \"text\", \"path\": \"@/texts\"}", "/texts: no regular file", "");
    write_file("texts/b", "CDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 34);
    write_file("texts/a", "AB", 2);
    write_file("texts/.hidden", "???", 3);
    CU_ASSERT(symlink("b", in_folder("texts/0-link")) == 0);
    CU_ASSERT(mkdir(in_folder("texts/d"), 0700) == 0);
    struct dataset *dataset =
        open_good("{\"kind\": \"text\", \"path\": \"@/texts\", \"length\": 2}");
    const struct dataset_description *d = dataset_get_description(dataset);
    CU_ASSERT(d->samples[DATASET_TRAIN] == 16 && d->samples[DATASET_TEST] == 1);
    dataset_sample(dataset, DATASET_TRAIN, 0, input, labels);
    CU_ASSERT(input[0] == 'A' && input[1] == 'B' && labels[0] == 'B' && labels[1] == 'C');
    dataset_sample(dataset, DATASET_TEST, 0, input, labels);
    CU_ASSERT(input[0] == '7' && labels[1] == '9');
    dataset_free(dataset);
    unlink(in_folder("texts/a"));
    unlink(in_folder("texts/b"));
    unlink(in_folder("texts/.hidden"));
    unlink(in_folder("texts/0-link"));
    rmdir(in_folder("texts/d"));
    CU_ASSERT(rmdir(in_folder("texts")) == 0);
}

/* 20, 9 and 31 bytes: tails of 2, 0 and 3. */
static void every_file_has_a_tail(void)
{
    scalar input[2];
    int32_t labels[2];
    CU_ASSERT(mkdir(in_folder("texts"), 0700) == 0);
    write_file("texts/a", "aaaaaaaaaaaaaaaaaaXY", 20);
    write_file("texts/b", "bbbbbbbbb", 9);
    write_file("texts/c", "ccccccccccccccccccccccccccccPQR", 31);
    struct dataset *dataset =
        open_good("{\"kind\": \"text\", \"path\": \"@/texts\", \"length\": 2}");
    CU_ASSERT_EQUAL(dataset_get_description(dataset)->samples[DATASET_TRAIN], (55 - 1) / 2);
    CU_ASSERT_EQUAL(dataset_get_description(dataset)->samples[DATASET_TEST], (5 - 1) / 2);
    dataset_sample(dataset, DATASET_TRAIN, 8, input, labels);
    CU_ASSERT(input[0] == 'a' && input[1] == 'a' && labels[0] == 'a' && labels[1] == 'b');
    dataset_sample(dataset, DATASET_TRAIN, 13, input, labels);
    CU_ASSERT(input[0] == 'b' && input[1] == 'c' && labels[1] == 'c');
    dataset_sample(dataset, DATASET_TEST, 0, input, labels);
    CU_ASSERT(input[0] == 'X' && input[1] == 'Y' && labels[0] == 'Y' && labels[1] == 'P');
    dataset_sample(dataset, DATASET_TEST, 1, input, labels);
    CU_ASSERT(input[0] == 'P' && input[1] == 'Q' && labels[1] == 'R');
    dataset_free(dataset);
    unlink(in_folder("texts/a"));
    unlink(in_folder("texts/b"));
    unlink(in_folder("texts/c"));
    CU_ASSERT(rmdir(in_folder("texts")) == 0);
}

static void text_of_the_licences(void)
{
    if (access("/usr/share/common-licenses", R_OK) != 0) {
        printf("(skipped: no /usr/share/common-licenses) ");
        return;
    }
    static scalar input[128];
    int32_t labels[128];
    struct dataset *dataset = open_good("\"text\"");
    const struct dataset_description *d = dataset_get_description(dataset);
    CU_ASSERT(d->labels == 128 && d->samples[DATASET_TRAIN] > 500);
    for (uint64_t i = 0; i < d->samples[DATASET_TEST]; i++) {
        dataset_sample(dataset, DATASET_TEST, i, input, labels);
        for (size_t k = 0; k + 1 < 128; k++)
            CU_ASSERT((scalar)labels[k] == input[k + 1]);
    }
    dataset_free(dataset);
}

static void missing_files_say_where_to_get_them(void)
{
    refuse("{\"kind\": \"cifar10\", \"path\": \"@/none\"}",
           "/none/data_batch_1.bin: cannot be opened: ", "cifar.html");
    refuse("\"cifar100\"", "e.json: ", "\"path\" is missing");
    refuse("{\"kind\": \"text\", \"path\": \"@/none\"}", "/none: cannot be opened", "");
    refuse("{\"kind\": \"text\", \"flip\": true}", "unknown key \"flip\"", "");
}

static void remove_folder(void)
{
    static const char *const names[] = {
        "corpus",           "train.bin",        "test.bin",         "data_batch_1.bin",
        "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
    remove_named(names, sizeof(names) / sizeof(names[0]));
}

static const struct check checks[] = {
    {"a folder for the files", make_folder},
    {"CIFAR is read", cifar_is_read},
    {"a corrupt CIFAR file is located", cifar_corruption_is_located},
    {"a text is cut into samples", text_is_cut_into_samples},
    {"text is shifted", text_is_shifted},
    {"the text of a folder", text_of_a_folder},
    {"every file has a tail for tests", every_file_has_a_tail},
    {"the text of the licences", text_of_the_licences},
    {"missing files say where to get them", missing_files_say_where_to_get_them},
    {"the folder is removed", remove_folder},
};
CHECK_MAIN("data sets from CIFAR and text files", checks)
