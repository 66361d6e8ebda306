/* For tests/test_smpi.c, under SimGrid's SMPI: one all-reduce of a count of floats, from
 * simulated time 0. Every rank prints when it was done, and 1 where the sum is right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, ranks, right = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int count = argc > 1 ? atoi(argv[1]) : 0;
    float *own = malloc(sizeof(float) * ((size_t)count + 1));
    float *sum = malloc(sizeof(float) * ((size_t)count + 1));
    for (int i = 0; i < count; i++)
        own[i] = (float)(rank + i % 100);
    MPI_Allreduce(own, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double time_s = MPI_Wtime();
    for (int i = 0; i < count; i++)
        right = right && sum[i] == (float)(ranks * (ranks - 1) / 2 + ranks * (i % 100));
    printf("%.17g %d\n", time_s, right);
    free(own);
    free(sum);
    MPI_Finalize();
    return 0;
}
