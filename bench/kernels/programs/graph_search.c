#include <string.h>

enum { NODES_MAX = 1024 };

void run(void **args)
{
    const int *restrict starts = args[0], *restrict targets = args[1];
    unsigned *restrict distances = args[2];
    int nodes = *(int *)args[3];
    int queue[NODES_MAX], first = 0, last = 0;

    memset(distances, 0xff, nodes * sizeof *distances);
    distances[0] = 0;
    queue[last++] = 0;
    while (first < last) {
        int node = queue[first++];
        for (int edge = starts[node]; edge < starts[node + 1]; ++edge)
            if (distances[targets[edge]] == ~0u) {
                distances[targets[edge]] = distances[node] + 1;
                queue[last++] = targets[edge];
            }
    }
}
