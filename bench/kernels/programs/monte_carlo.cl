uint next(uint *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

kernel void monte_carlo(global const uint *seeds, global uint *hits, int rounds)
{
    int i = get_global_id(0);
    uint state = seeds[i], inside = 0;
    for (int round = 0; round < rounds; ++round) {
        float x = (next(&state) >> 8) * 0x1p-24f, y = (next(&state) >> 8) * 0x1p-24f;
        if (x * x + y * y < 1.0f)
            ++inside;
    }
    hits[i] = inside;
}
