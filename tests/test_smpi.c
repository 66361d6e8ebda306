/* A second opinion on collectives: SimGrid's own MPI library on the same machine, the same
 * algorithms, other people's code. SMPI puts 16 bytes of envelope on every message; here
 * they are in the latency. Skipped where smpicc and smpirun, which come with
 * libsimgrid-dev, are missing. */
#include "tests/collective_run.h"

#include <unistd.h>

enum { MOST_RANKS = 16, SKIPPED = 77 };

static const double bandwidth_bytes_per_s = 1e9, latency_s = 1e-6, envelope_bytes = 16;
static char folder[] = "/tmp/podsim-smpi-XXXXXX";

/* The flags of sim/machine.c, and a library that itself takes no time. */
static const char flags[] =
    "--cfg=network/model:CM02 --cfg=network/TCP-gamma:1e30 --cfg=network/crosstraffic:0 "
    "--cfg=surf/precision:1e-13 --cfg=smpi/simulate-computation:no "
    "--cfg=smpi/host-speed:1e9f --cfg=smpi/wtime:0 --cfg=smpi/test:0 --cfg=smpi/iprobe:0 "
    "--cfg=smpi/os:0:0:0 --cfg=smpi/or:0:0:0 --cfg=smpi/ois:0:0:0 --log=root.thres:error";

static FILE *open_in_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "w");
}

/* A link of its own for every ordered pair. */
static bool write_machine(void)
{
    FILE *xml = open_in_folder("platform.xml"), *hosts = open_in_folder("hosts");
    if (xml == NULL || hosts == NULL)
        return false;
    fputs("<?xml version=\"1.0\"?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">\n",
          xml);
    for (int i = 0; i < MOST_RANKS; i++) {
        fprintf(xml, "<host id=\"h%d\" speed=\"1f\"/>\n", i);
        fprintf(hosts, "h%d\n", i);
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < MOST_RANKS * MOST_RANKS; i++) {
            int from = i / MOST_RANKS, to = i % MOST_RANKS;
            if (from == to)
                continue;
            if (pass == 0)
                fprintf(xml,
                        "<link id=\"l%d\" bandwidth=\"%.17gBps\" latency=\"%.17gs\"/>\n", i,
                        bandwidth_bytes_per_s, latency_s);
            else
                fprintf(xml,
                        "<route src=\"h%d\" dst=\"h%d\" symmetrical=\"NO\"><link_ctn "
                        "id=\"l%d\"/></route>\n",
                        from, to, i);
        }
    fputs("</zone></platform>\n", xml);
    bool good = !ferror(xml) && !ferror(hosts);
    return (fclose(xml) == 0) & (fclose(hosts) == 0) & good;
}

static bool compile(void)
{
    char command[512];
    snprintf(command, sizeof command, "smpicc -O1 tests/smpi/all_reduce.c -o %s/all_reduce",
             folder);
    return system(command) == 0;
}

/* When the last rank was done; NaN when it did not work. */
static double smpi_time_s(const char *algorithm, uint32_t ranks, uint64_t count, bool eager)
{
    char command[2048];
    double last_s = 0, time_s;
    int right;
    uint32_t told = 0;
    snprintf(
        command, sizeof command,
        "cd %s && smpirun -np %u -platform platform.xml -hostfile hosts "
        "--cfg=smpi/tmpdir:%s --cfg=smpi/allreduce:%s %s %s ./all_reduce %llu 2>messages",
        folder, ranks, folder, algorithm, flags,
        eager ? "--cfg=smpi/async-small-thresh:2000000000 "
                "--cfg=smpi/send-is-detached-thresh:2000000000"
              : "",
        (unsigned long long)count);
    FILE *out = popen(command, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    while (fscanf(out, "%lf %d", &time_s, &right) == 2) {
        last_s = fmax(last_s, time_s);
        told += right == 1;
    }
    int status = pclose(out);
    if (status != 0 || told != ranks)
        printf("\n  SMPI %s: %u of %u ranks have the sum, status %d\n", algorithm, told,
               ranks, status);
    CU_ASSERT(status == 0 && told == ranks);
    return last_s;
}

static double our_time_s(const char *algorithm, uint32_t ranks, uint64_t count, bool eager)
{
    const struct collective_case k = {
        .algorithm = algorithm,
        .topology = "full",
        .overlap = eager, /* else a sender waits for its message to arrive */
        .ranks = ranks,
        .count = count,
        .link = {bandwidth_bytes_per_s,
                 latency_s + envelope_bytes / bandwidth_bytes_per_s}};
    return run_collective(&k).time_s;
}

static void compare(const char *theirs, const char *ours, uint32_t ranks, uint64_t count,
                    bool eager)
{
    double smpi_s = smpi_time_s(theirs, ranks, count, eager);
    double our_s = our_time_s(ours, ranks, count, eager);
    if (!(fabs(smpi_s - our_s) <= 1e-9 * smpi_s))
        printf("\n  %s of %u ranks, %llu floats: SMPI %.17g s, ours %.17g s\n", ours, ranks,
               (unsigned long long)count, smpi_s, our_s);
    CHECK_CLOSE(smpi_s, our_s, 1e-9);
}

enum { COUNT = 720720 }; /* 1 to 16 divide it */

static void ring(void)
{
    for (uint32_t n = 2; n <= MOST_RANKS; n++)
        compare("lr", "ring", n, COUNT, false);
}

static void recursive_doubling(void)
{
    for (uint32_t n = 2; n <= MOST_RANKS; n++)
        compare("rdb", "recursive_doubling", n, COUNT, false);
}

/* SMPI's "rab_rdb" folds other than powers of two, as MPICH does. */
static void halving_doubling(void)
{
    for (uint32_t n = 2; n <= MOST_RANKS; n++)
        compare("rab_rdb", "halving_doubling_folded", n, COUNT, false);
    for (uint32_t n = 2; n <= MOST_RANKS; n *= 2)
        compare("rab_rdb", "halving_doubling", n, COUNT, false);
}

/* Small messages, which SMPI sends without waiting for the receiver. */
static void eager(void)
{
    for (uint32_t n = 3; n <= MOST_RANKS; n += 3)
        compare("rdb", "recursive_doubling", n, 7, true);
    compare("lr", "ring", 5, 500, true);
    compare("rab_rdb", "halving_doubling", 8, 24, true);
}

static const struct check checks[] = {
    {"ring and SMPI's lr", ring},
    {"recursive doubling and SMPI's rdb", recursive_doubling},
    {"halving and doubling and SMPI's rab_rdb", halving_doubling},
    {"small messages", eager},
};

int main(void)
{
    if (system("command -v smpicc >/dev/null && command -v smpirun >/dev/null") != 0) {
        puts("skipped: smpicc and smpirun are not here (libsimgrid-dev has them)");
        return SKIPPED;
    }
    if (mkdtemp(folder) == NULL || !write_machine() || !compile()) {
        fprintf(stderr, "%s: the MPI program could not be made\n", folder);
        return 1;
    }
    int failed = check_main("SMPI", checks, sizeof checks / sizeof checks[0]);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failed;
}
